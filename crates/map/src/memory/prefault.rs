//! Populates the pages that the writer comes to next, so that it does not fault there.
//!
//! A fault takes a microsecond and more, and half of that in a range that is populated at once.
//! Runs pass through a new file from its beginning on. What is mapped ahead of the highest one is
//! bounded by [`AHEAD_BYTES`], and by a share of the file; below it nothing is. The file's blocks
//! were allocated when it was made. On a page medium pages are mapped for reading, and the first
//! store to each still faults.

use crate::memory::format::Geometry;
use perdura_pmem::Region;

/// Bytes that are mapped ahead of the writer, and the share of the file that they are at most.
const AHEAD_BYTES: u64 = 8 << 20;
const FILE_PER_AHEAD: u64 = 8;
/// The share of it that is populated at once, so that calls are few.
const AHEAD_PER_PIECE: u64 = 8;

/// The range populated so far.
pub(crate) struct Prefault {
    region: Region,
    /// Offset up to which pages were populated or passed.
    until: u64,
    end: u64,
    ahead: u64,
}

impl Prefault {
    pub(crate) fn new(region: &Region, geometry: &Geometry) -> Prefault {
        let ahead = AHEAD_BYTES.min(region.len() / FILE_PER_AHEAD);
        Prefault { region: region.clone(), until: 0, end: geometry.data_end(), ahead }
    }

    /// Populates a piece of the pages ahead of offset `at`, which the writer has reached, where a
    /// piece is missing. Returns whether another one is.
    pub(crate) fn follow(&mut self, at: u64) -> bool {
        let piece = (self.ahead / AHEAD_PER_PIECE).max(1);
        let to = at.saturating_add(self.ahead).min(self.end);
        self.until = self.until.max(at).min(self.end);
        let is_behind = |until: u64| until < to && (to == self.end || to - until >= piece);
        if !is_behind(self.until) {
            return false;
        }
        let len = piece.min(to - self.until);
        // Where the kernel cannot do it, or memory is damaged, nothing is mapped any more: the
        // writer meets the pages by itself.
        let populated = self.region.advise_populate(self.until, len);
        self.until = populated.map_or(self.end, |()| self.until + len);
        is_behind(self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::Prefault;
    use crate::{Config, Layout, ListIndex, Map, OrderedMap};
    use perdura_pmem::{FileMedium, Medium, Options, Region};
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    const PAGE: u64 = 4096;

    fn medium(directory: &std::path::Path) -> Arc<dyn Medium> {
        let options = Options { emulate: true, ..Options::default() };
        Arc::new(FileMedium::open(directory, options).expect("the directory opens"))
    }

    /// End of the last page that is mapped, by the kernel's table of the process.
    fn mapped_to(region: &Region) -> u64 {
        let table = std::fs::File::open("/proc/self/pagemap").expect("/proc is mounted");
        let mut entries = vec![0; (region.len() / PAGE * 8) as usize];
        table.read_exact_at(&mut entries, region.as_ptr() as u64 / PAGE * 8).expect("an entry for each page");
        let last = entries.chunks(8).rposition(|entry| entry[7] & 0x80 != 0);
        last.map_or(0, |last| (last as u64 + 1) * PAGE)
    }

    fn opened(directory: &std::path::Path, bytes: u64, background: bool) -> Map<ListIndex> {
        let config = Config { background, ..Config::default() };
        Map::create(&medium(directory), "map", &Layout::list(bytes), &config).expect("there is room")
    }

    /// Hazards: more is mapped than the bound, or at once; a call for each page; past the file's
    /// end.
    #[test]
    fn follows_the_writer_by_its_bound() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let map = opened(directory.path(), 16 << 20, false);
        let pages = &map.core.state.lock().pages;
        let (region, begin, end) = (&pages.region, pages.geometry.page_at(0), pages.geometry.data_end());
        let mut prefault = Prefault::new(region, &pages.geometry);
        while prefault.follow(begin) {}
        assert_eq!(mapped_to(region), (begin + (2 << 20)).next_multiple_of(PAGE), "an eighth of the file");
        let before = prefault.until;
        assert!(!prefault.follow(begin + (200 << 10)));
        assert_eq!(prefault.until, before, "less than a piece is missing");
        assert!(!prefault.follow(begin + (256 << 10)));
        assert_eq!(prefault.until, before + (256 << 10));
        prefault.follow(begin);
        assert_eq!(prefault.until, before + (256 << 10), "what is mapped stays");
        for at in [end - PAGE, end, u64::MAX, begin] {
            while prefault.follow(at) {}
            assert_eq!(prefault.until, end);
        }
        assert_eq!(mapped_to(region), end.next_multiple_of(PAGE));
    }

    /// The thread of a map follows what is written, also where one run is extended again and again.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a limit of patience, on a thread of the operating system")]
    fn a_map_is_mapped_ahead_of_what_is_written() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let map = opened(directory.path(), 16 << 20, true);
        (1..=2048).for_each(|ts| map.set(ts, format!("{ts}").as_bytes(), &[1; 1000]).expect("there is room"));
        map.persist().expect("it is sound");
        let (region, written) = {
            let pages = &map.core.state.lock().pages;
            (pages.region.clone(), pages.writing_at().expect("a run"))
        };
        assert!(written > 2 << 20);
        let begin = Instant::now();
        // All but a piece of what is to be ahead.
        while mapped_to(&region) < written + (2 << 20) - (256 << 10) {
            assert!(begin.elapsed() < Duration::from_secs(30), "nobody populates");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
