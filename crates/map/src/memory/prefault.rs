//! Populates the pages that the writer comes to next, so that its first stores there do not fault.
//!
//! A fault takes a microsecond and more, and half of that in a range that is populated at once.
//! Runs pass through a new file from its beginning on; once they have reached its end, all of it is
//! mapped. The file's blocks were allocated when it was made, so nothing is used up ahead: what is
//! mapped ahead is bounded by [`AHEAD_BYTES`], and by a share of the file.

use crate::memory::format::Geometry;
use perdura_pmem::Region;
use perdura_pmem::prefault::populate;

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

    /// Populates pages ahead of offset `at`, which the writer has reached, where enough is missing.
    pub(crate) fn follow(&mut self, at: u64) {
        let piece = (self.ahead / AHEAD_PER_PIECE).max(1);
        let to = at.saturating_add(self.ahead).min(self.end);
        self.until = self.until.max(at).min(self.end);
        if to < self.end && to < self.until.saturating_add(piece) {
            return;
        }
        while self.until < to {
            let len = piece.min(to - self.until);
            let next = self.until + len;
            // Where memory is damaged, the writer meets the page by itself.
            self.until = populate(&self.region, &(self.until..next)).map_or(self.end, |()| next);
        }
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

    /// Hazards: more is mapped than the bound; a call for each page; past the file's end.
    #[test]
    fn follows_the_writer_by_its_bound() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let map = opened(directory.path(), 16 << 20, false);
        let pages = &map.core.state.lock().pages;
        let (region, begin, end) = (&pages.region, pages.geometry.page_at(0), pages.geometry.data_end());
        let mut prefault = Prefault::new(region, &pages.geometry);
        prefault.follow(begin);
        assert_eq!(mapped_to(region), (begin + (2 << 20)).next_multiple_of(PAGE), "an eighth of the file");
        let before = prefault.until;
        prefault.follow(begin + (200 << 10));
        assert_eq!(prefault.until, before, "less than a piece is missing");
        prefault.follow(begin + (256 << 10));
        assert_eq!(prefault.until, before + (256 << 10));
        prefault.follow(begin);
        assert_eq!(prefault.until, before + (256 << 10), "what is mapped stays");
        for at in [end - PAGE, end, u64::MAX, begin] {
            prefault.follow(at);
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
            (pages.region.clone(), pages.writing_at())
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
