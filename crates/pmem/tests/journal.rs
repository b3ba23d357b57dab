//! The journal of a page medium: after a crash at any moment every range has the content of its
//! last fence or a later one. Tests (I1), (I2), (I3), (I11) on files of a disk.

use perdura_pmem::split_mix::SplitMix64;
use perdura_pmem::{
    ErrorKind, FileMedium, Medium, Options, Region, Result, Step, publish, publish_later, wait_published,
};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use tempfile::TempDir;

const JOURNAL_BYTES: u64 = 256 << 20;
const SEGMENT_BYTES: usize = 16 << 20;
/// Blocks at the head of a segment.
const HEADER: usize = 8192;

/// A page medium with a journal, in a directory of its own.
struct Disk {
    medium: FileMedium,
    // Dropped after the medium.
    directory: TempDir,
}

fn directory() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory")
}

impl Disk {
    fn new() -> Disk {
        Disk::with_journal(JOURNAL_BYTES)
    }

    fn with_journal(bytes: u64) -> Disk {
        let directory = directory();
        let medium = FileMedium::open_journaled(directory.path(), false, bytes).expect("the directory opens");
        Disk { medium, directory }
    }

    /// A file that is durable as it is.
    fn file(&self, name: &str, len: u64) -> Region {
        let region = self.medium.create(name, len).expect("there is room");
        region.sync().expect("sync");
        self.medium.sync_dir().expect("sync of the directory");
        region
    }

    /// Writes and syncs that `body` makes.
    fn syncs(&self, body: impl FnOnce()) -> u64 {
        let before = self.medium.sync_count();
        body();
        self.medium.sync_count() - before
    }

    fn journals(&self) -> Vec<PathBuf> {
        journals(self.directory.path())
    }

    /// A directory with the journal as it is now, and of each file the bytes given.
    fn image(&self, files: &[(&str, Vec<u8>)]) -> TempDir {
        self.try_image(files).expect("nobody writes the journal")
    }

    /// The same while threads write the journal; `None` if a segment has begun meanwhile.
    fn try_image(&self, files: &[(&str, Vec<u8>)]) -> Option<TempDir> {
        let image = directory();
        files.iter().for_each(|(name, bytes)| fs::write(image.path().join(name), bytes).expect("it is written"));
        copy_journals(self.directory.path(), image.path()).then_some(image)
    }
}

fn journals(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("it lists").map(|entry| entry.expect("an entry").path());
    let is_journal =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("journal."));
    let mut journals: Vec<_> = entries.filter(is_journal).collect();
    journals.sort();
    journals
}

/// Copies the journal as it is at one moment, though threads write it: groups follow one another,
/// so a copy from back to front ends with a group that has those before it. Returns whether it is:
/// no segment has begun meanwhile.
fn copy_journals(from: &Path, to: &Path) -> bool {
    const BLOCK: usize = 4096;
    let headers = || -> Vec<(PathBuf, Vec<u8>)> {
        let header = |path: &PathBuf| {
            let mut bytes = vec![0; HEADER];
            File::open(path)?.read_exact_at(&mut bytes, 0)?;
            std::io::Result::Ok(bytes)
        };
        // One may go meanwhile.
        journals(from).into_iter().filter_map(|path| header(&path).ok().map(|bytes| (path, bytes))).collect()
    };
    let before = headers();
    for (path, _) in &before {
        let Ok(file) = File::open(path) else { continue };
        let mut bytes = vec![0; file.metadata().expect("a file").len() as usize];
        for (number, block) in bytes.chunks_mut(BLOCK).enumerate().rev() {
            file.read_exact_at(block, (number * BLOCK) as u64).expect("it is read");
        }
        fs::write(to.join(path.file_name().expect("a file")), bytes).expect("it is written");
    }
    headers() == before
}

fn reopen(image: &Path) -> Result<FileMedium> {
    FileMedium::open_journaled(image, false, JOURNAL_BYTES)
}

/// The words of a file after the journal of its directory is replayed.
fn replayed(image: &TempDir, name: &str) -> Vec<u64> {
    let medium = reopen(image.path()).expect("the image opens");
    let region = medium.open(name).expect("the file is there");
    region.words(0, region.len() as usize / 8).collect()
}

fn bytes_of(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

#[test]
pub fn a_fence_is_one_write_whatever_files_it_covers() {
    let disk = Disk::new();
    let (a, b) = (disk.file("a", 64 << 10), disk.file("b", 64 << 10));
    a.persist(0, 8);
    let many = || {
        for page in 0..16 {
            a.store(page * 4096, page + 1);
            a.flush(page * 4096, 8);
            b.write_nt(page * 4096 + 100, b"past the cache");
        }
        b.zero(8192, 64);
        a.fence();
    };
    assert_eq!(disk.syncs(many), 1);
    assert_eq!(disk.syncs(|| a.fence()), 0, "nothing has been flushed since");
    let image = disk.image(&[("a", vec![0; 64 << 10]), ("b", vec![0; 64 << 10])]);
    let words = replayed(&image, "a");
    assert!((0..16).all(|page| words[page * 512] == page as u64 + 1));
    let b = fs::read(image.path().join("b")).expect("it is there");
    assert!((0..16).filter(|page| *page != 2).all(|page| &b[page * 4096 + 100..][..14] == b"past the cache"));
    disk.medium.health().check().expect("nothing has failed");
}

/// Hazard: a word that nobody waits for counts before its content, or is lost behind a sync, a new
/// name or a checkpoint; or who relies on it does not wait.
#[test]
pub fn words_published_later_are_written_with_the_next_fence_or_when_somebody_waits() {
    let disk = Disk::new();
    let (a, b) = (disk.file("a", 1 << 20), disk.file("b", 4096));
    b.persist(0, 8);
    let zeros = || [("a", vec![0; 1 << 20]), ("b", vec![0; 4096])];
    let later = |content: u64, value| {
        a.store(64, content);
        a.flush(64, 8);
        publish_later(&[Step { region: &a, offset: 0, value }, Step { region: &a, offset: 4096, value }]);
    };
    let words = || {
        let words = replayed(&disk.image(&zeros()), "a");
        (words[0], words[8], words[512])
    };
    assert_eq!(disk.syncs(|| later(1, 1)), 0, "nobody waits");
    assert_eq!((a.load(0), words()), (0, (0, 0, 0)), "a word is stored when it is durable");
    assert_eq!(disk.syncs(|| wait_published(&b)), 1, "one write for all of the medium");
    assert_eq!((a.load(0), words()), (1, (1, 1, 1)));
    assert_eq!(disk.syncs(|| wait_published(&b)), 0);
    later(2, 2);
    later(3, 3);
    b.store(8, 1);
    assert_eq!(disk.syncs(|| b.persist(8, 8)), 1, "the next fence has them");
    assert_eq!((a.load(4096), words()), (3, (3, 3, 3)));
    later(4, 4);
    assert_eq!(disk.syncs(|| publish(&[Step { region: &a, offset: 0, value: 5 }])), 1);
    assert_eq!((a.load(0), words()), (5, (5, 4, 4)));
    // A sync of much has what is in the group, and leaves none of it to be void.
    later(6, 6);
    a.persist(0, 400 << 10);
    let synced = bytes_of(a.words(0, 1 << 17));
    let found = replayed(&disk.image(&[("a", synced)]), "a");
    assert_eq!([found[0], found[8], found[512]], [6; 3]);
    later(7, 7);
    disk.medium.settle().expect("nothing fails");
    assert_eq!((a.load(0), a.load(4096)), (7, 7));
    later(8, 8);
    disk.medium.rename("a", "c").expect("nothing fails");
    let renamed = bytes_of(a.words(0, 1 << 17));
    let found = replayed(&disk.image(&[("c", renamed)]), "c");
    assert_eq!([found[0], found[8], found[512]], [8; 3]);
    later(9, 9);
    let again = disk.medium.open("c").expect("it is there");
    assert_eq!((again.load(0), again.load(4096)), (9, 9), "who opens a file reads them");
    // However much there is, no more is kept than a group has room for.
    let many = || (0..4096).for_each(|word| later(word, word));
    assert!(disk.syncs(many) > 0);
}

/// Hazard: what a bulk load flushes is synced in place; older pieces of the journal must not come
/// back over it.
#[test]
pub fn what_is_much_is_synced_and_older_pieces_of_it_are_void() {
    let disk = Disk::new();
    let region = disk.file("a", 1 << 20);
    region.store(4096, 1);
    region.store(800 << 10, 1);
    region.persist(4096, 8);
    region.persist(800 << 10, 8);
    (0..400 << 7).for_each(|word| region.store(word * 8, 2));
    let most = || region.persist(0, 400 << 10);
    assert_eq!(disk.syncs(most), 2, "a sync, and a note of it");
    // The part that was synced is in the file, everything else is as it was made.
    let synced = bytes_of((0..1 << 17).map(|word| if word < 400 << 7 { 2 } else { 0 }));
    let words = replayed(&disk.image(&[("a", synced)]), "a");
    assert_eq!((words[512], words[100 << 10]), (2, 1));
    // A later fence there counts.
    region.store(4096, 3);
    region.persist(4096, 8);
    for page in 0..256 {
        region.store(page * 4096, 4);
    }
    for page in 0..1000 {
        region.flush(page % 256 * 4096, 8);
    }
    assert_eq!(disk.syncs(|| region.fence()), 2, "so are many ranges");
    region.store(0, 5);
    region.persist(0, 8);
    let synced: Vec<_> = region.words(0, 1 << 17).collect();
    let mut expected = synced.clone();
    expected[0] = 5;
    let unwritten = bytes_of([4].into_iter().chain(synced.into_iter().skip(1)));
    assert!(replayed(&disk.image(&[("a", unwritten)]), "a") == expected);
    // To flush a word is to flush its line, wherever in it the flushed range begins and ends.
    region.persist(16 * 8, 64);
    region.persist((60 << 10) * 8, 64);
    [16, 23, 60 << 10, (60 << 10) + 7].into_iter().for_each(|word| region.store(word * 8, 3));
    region.flush(20 * 8, 8);
    (0..300).for_each(|line| region.flush(4096 + line * 1024, 8));
    region.flush(((60 << 10) + 3) * 8, 8);
    region.fence();
    let words = replayed(&disk.image(&[("a", bytes_of(region.words(0, 1 << 17)))]), "a");
    assert_eq!([words[16], words[23], words[60 << 10], words[(60 << 10) + 7]], [3; 4]);
}

/// Hazard: a table is closed, opened again, and loaded: what was in the journal before it was
/// closed comes back over that.
#[test]
fn what_was_synced_is_not_overwritten_by_pieces_from_before_the_file_was_closed() {
    let disk = Disk::new();
    let region = disk.file("a", 1 << 20);
    region.store(4096, 1);
    region.persist(4096, 8);
    drop(region);
    let region = disk.medium.open("a").expect("it is there");
    (0..1 << 17).for_each(|word| region.store(word * 8, 2));
    assert_eq!(disk.syncs(|| region.persist(0, 1 << 20)), 2, "a sync, and a note of it");
    let words = replayed(&disk.image(&[("a", bytes_of(vec![2; 1 << 17]))]), "a");
    assert!(words.iter().all(|word| *word == 2));
}

#[test]
pub fn a_checkpoint_syncs_the_files_and_ends_the_journal_before_it() {
    let disk = Disk::new();
    let (region, closed) = (disk.file("a", 8192), disk.file("closed", 4096));
    region.store(0, 1);
    region.persist(0, 8);
    closed.store(0, 1);
    closed.persist(0, 8);
    drop(closed);
    region.store(8, 1);
    let settle = || disk.medium.settle().expect("nothing fails");
    assert_eq!(disk.syncs(settle), 4, "each file is synced, and both headers of the segment are void");
    // As the files are on the disk; then words that only a later fence has.
    region.store(0, 2);
    region.persist(0, 8);
    let image = disk.image(&[("a", bytes_of([7; 1024])), ("closed", bytes_of([7; 512]))]);
    let words = replayed(&image, "a");
    assert_eq!((words[0], words[1], words[8]), (2, 1, 7), "a line is whole, and no other piece is left");
    assert_eq!(replayed(&image, "closed"), [7; 512], "nor one of a file that was closed");
}

/// Stores a number in each word of a file and fences, for all numbers of a range. Those of `LONG`
/// take two segments.
fn write_all(region: &Region, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        (0..region.len() / 8).for_each(|word| region.store(word * 8, number));
        region.persist(0, region.len());
    }
}

const LONG: u64 = 200;

/// Hazard: a segment that is used again has an older name than the one before it.
#[test]
pub fn segments_are_replayed_in_the_order_of_their_groups() {
    let disk = Disk::new();
    let region = disk.file("a", 112 << 10);
    write_all(&region, 1..=LONG);
    disk.medium.settle().expect("nothing fails");
    write_all(&region, LONG + 1..=2 * LONG);
    let words = replayed(&disk.image(&[("a", bytes_of(vec![LONG; 14 << 10]))]), "a");
    assert!(words.iter().all(|word| *word == 2 * LONG));
}

/// Hazard: a checkpoint that is cut off has voided a later segment, and not an earlier one.
#[test]
pub fn a_checkpoint_that_is_cut_off_leaves_no_older_content_in_force() {
    // One sync, and two headers of each segment.
    for after in 0..5 {
        let disk = Disk::new();
        let region = disk.file("a", 112 << 10);
        write_all(&region, 1..=LONG);
        disk.medium.fail_sync_after(after);
        disk.medium.settle().expect_err("it was told to fail");
        let Disk { medium, directory } = disk;
        drop((region, medium));
        assert!(replayed(&directory, "a").iter().all(|word| *word == LONG), "sync {after}");
    }
}

#[test]
fn a_journal_that_is_full_begins_anew_once_the_files_are_synced() {
    let disk = Disk::with_journal(0);
    let region = disk.file("a", 64 << 10);
    let mut was_due = false;
    for round in 1..=1200_u64 {
        (0..8192).for_each(|word| region.store(word * 8, round));
        region.persist(0, 64 << 10);
        was_due |= disk.medium.settle_is_due();
        assert!(disk.journals().len() <= 4, "round {round}");
    }
    assert!(was_due);
    disk.medium.settle().expect("nothing fails");
    assert!(!disk.medium.settle_is_due());
    region.store(0, 5000);
    region.persist(0, 8);
    let words = replayed(&disk.image(&[("a", bytes_of(vec![1200; 8192]))]), "a");
    assert_eq!((words[0], words[8191]), (5000, 1200));
}

/// Hazard: pieces of a file that is gone are replayed into another of its name.
#[test]
pub fn a_new_file_gets_nothing_of_an_old_one_with_its_name() {
    let disk = Disk::new();
    let old = disk.file("a", 4096);
    old.store(0, 1);
    old.persist(0, 8);
    disk.medium.remove("a").expect("it is there");
    let new = disk.file("a", 4096);
    old.store(8, 1);
    old.persist(8, 8);
    new.store(64, 2);
    new.persist(64, 8);
    let words = replayed(&disk.image(&[("a", vec![0; 4096])]), "a");
    assert_eq!((words[0], words[1], words[8]), (0, 0, 2));
}

#[test]
pub fn a_renamed_file_keeps_what_was_fenced_under_both_names() {
    let disk = Disk::new();
    let mut region = disk.file("old", 4096);
    region.store(0, 1);
    region.persist(0, 8);
    let rename = || disk.medium.rename("old", "new").expect("it is there");
    assert_eq!(disk.syncs(rename), 2, "the file is synced before the journal forgets its name");
    region.store(64, 2);
    region.persist(64, 8);
    assert!(region.rename("new"));
    region.store(128, 3);
    region.persist(128, 8);
    // The rename has synced what was there before.
    let image = disk.image(&[("new", bytes_of([1].into_iter().chain(vec![0; 511])))]);
    let words = replayed(&image, "new");
    assert_eq!((words[0], words[8], words[16]), (1, 2, 3));
    assert!(disk.medium.list().expect("it lists").iter().all(|(name, _)| name == "new"));
}

/// A medium that fails: each write and sync in turn.
#[test]
fn what_was_acknowledged_before_a_failure_is_there() {
    for after in 0..12 {
        let disk = Disk::new();
        let region = disk.file("a", 4096);
        disk.medium.fail_sync_after(after);
        let mut last = 0;
        for value in 1..=20 {
            region.store(0, value);
            region.persist(0, 8);
            if value == 5 {
                // A checkpoint may be what fails.
                let _ = disk.medium.settle();
            }
            if disk.medium.health().check().is_err() {
                break;
            }
            last = value;
        }
        assert!(last < 20, "write {after} was told to fail");
        let error = disk.medium.settle().expect_err("the medium has failed");
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        let Disk { medium, directory } = disk;
        drop((region, medium));
        let found = replayed(&directory, "a")[0];
        assert!((last..=last + 1).contains(&found), "{last} was durable, {found} found, write {after} failed");
    }
}

#[test]
pub fn a_damaged_journal_is_refused_and_a_torn_end_is_not() {
    let disk = Disk::new();
    let region = disk.file("a", 4096);
    for value in 1..=3 {
        region.store(0, value);
        region.persist(0, 8);
    }
    let path = disk.journals().into_iter().next_back().expect("there is one");
    let name = path.file_name().expect("a file").to_owned();
    let damage = |edit: &dyn Fn(&mut Vec<u8>)| {
        let image = disk.image(&[("a", vec![0; 4096])]);
        let mut bytes = fs::read(image.path().join(&name)).expect("it is there");
        edit(&mut bytes);
        fs::write(image.path().join(&name), bytes).expect("it is written");
        let opened = reopen(image.path()).map(|medium| medium.open("a").expect("it is there").load(0));
        (opened, image)
    };
    assert_eq!(damage(&|_| ()).0.expect("it is whole"), 3);
    assert_eq!(damage(&|bytes| bytes[HEADER + 2 * 4096 + 30] ^= 1).0.expect("the end is torn"), 2);
    assert_eq!(damage(&|bytes| bytes.truncate(HEADER + 4096 + 10)).0.expect("the file is short"), 1);
    assert_eq!(damage(&|bytes| bytes[20] ^= 1).0.expect("the header has a copy"), 3);
    let (refused, image) = damage(&|bytes| bytes[HEADER + 4096 + 30] ^= 1);
    assert_eq!(refused.expect_err("the last group was written after it").kind(), ErrorKind::Poisoned);
    assert_eq!(fs::read(image.path().join("a")).expect("it is there"), [0; 4096], "nothing was changed");
    let (refused, image) = damage(&|bytes| bytes[HEADER + 30] ^= 1);
    let error = refused.expect_err("the groups behind it were written after it");
    let file = image.path().join(&name).display().to_string();
    assert_eq!(
        (error.kind(), error.file(), error.offset()),
        (ErrorKind::Poisoned, Some(&*file), Some(12288)),
        "{error}"
    );
    assert!(error.to_string().contains("backup"), "{error}");
    assert_eq!(fs::read(image.path().join("a")).expect("it is there"), [0; 4096], "nothing was changed");
    let (refused, _) = damage(&|bytes| bytes.resize(SEGMENT_BYTES + 1, 0));
    assert_eq!(refused.expect_err("no segment is that long").kind(), ErrorKind::Poisoned);
    // Any one bit: it is refused, or what is found is a state that the file had.
    let mut random = SplitMix64::new(32);
    for _ in 0..60 {
        let bit = random.below((HEADER as u64 + 3 * 4096) * 8) as usize;
        match damage(&|bytes| bytes[bit / 8] ^= 1 << (bit % 8)).0 {
            Ok(found) => assert!((2..=3).contains(&found), "bit {bit}: {found}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Poisoned, "bit {bit}: {error}"),
        }
    }
}

/// A replay that is cut off before the journal is void is done again, and one that has ended leaves
/// nothing to do.
#[test]
fn a_replay_is_done_again_until_it_has_ended() {
    let disk = Disk::new();
    let region = disk.file("a", 4096);
    region.store(0, 1);
    region.persist(0, 8);
    let image = disk.image(&[("a", vec![0; 4096])]);
    let again = directory();
    copy_journals(image.path(), again.path());
    assert_eq!(replayed(&image, "a")[0], 1);
    fs::copy(image.path().join("a"), again.path().join("a")).expect("it is copied");
    assert_eq!(replayed(&again, "a")[0], 1);
    fs::write(image.path().join("a"), bytes_of([9; 512])).expect("it is written");
    let without = disk.image(&[("a", vec![0; 4096])]);
    let opened = [
        FileMedium::open_paged(without.path(), false),
        FileMedium::open(disk.image(&[]).path(), Options { emulate: true, ..Options::default() }),
    ];
    assert!(opened.into_iter().all(|medium| medium.is_ok()), "a medium without a journal ends the one it finds");
    assert_eq!(fs::read(without.path().join("a")).expect("it is there")[..8], 1_u64.to_le_bytes());
    assert_eq!(replayed(&image, "a")[0], 9, "a replayed journal is void");
}

const THREADS: u64 = 4;
const WORDS: u64 = 512;
/// Words of the file of which much is flushed at once.
const LARGE_WORDS: u64 = 64 << 10;

/// Counters of the words of a file.
struct Words(Vec<AtomicU64>);

impl Words {
    fn new(count: u64) -> Words {
        Words((0..count).map(|_| AtomicU64::new(0)).collect())
    }

    fn all(&self) -> Vec<u64> {
        self.0.iter().map(|word| word.load(SeqCst)).collect()
    }

    fn raise(&self, word: u64, value: u64) {
        self.0[word as usize].fetch_max(value, SeqCst);
    }
}

/// Threads whose stores are observed.
struct Stress {
    small: Region,
    large: Region,
    /// Values that were fenced.
    fenced: Words,
    large_fenced: Words,
    /// Values that the disk has of the large file.
    large_synced: Words,
    stop: AtomicBool,
    /// Held by those who write.
    writing: RwLock<()>,
}

impl Stress {
    /// Word `2 k` of the thread's is fenced before word `2 k + 1` gets the same value (I3). The
    /// threads share lines.
    fn work(&self, thread: u64, seed: u64) {
        let mut random = SplitMix64::new(seed ^ thread);
        for value in 1.. {
            if self.stop.load(SeqCst) {
                return;
            }
            let pair = random.below(WORDS / 2 / THREADS) * THREADS + thread;
            for word in [2 * pair, 2 * pair + 1] {
                let _writes = self.writing.read();
                self.small.store(word * 8, value);
                self.small.persist(word * 8, 8);
                self.fenced.raise(word, value);
            }
            if random.one_in(20) {
                let _writes = self.writing.read();
                let (words, first) = (LARGE_WORDS / THREADS, thread * LARGE_WORDS / THREADS);
                let count = if random.one_in(2) { words } else { 8 };
                for word in first..first + count {
                    self.large.store(word * 8, value);
                    if count == words {
                        self.large_synced.raise(word, value);
                    }
                }
                self.large.persist(first * 8, count * 8);
                (first..first + count).for_each(|word| self.large_fenced.raise(word, value));
            }
        }
    }
}

/// Crashes at any moment, with any word of the files written back at any time before. The seed
/// replays the threads' work, not their order.
#[test]
fn a_crash_at_any_moment_leaves_what_was_fenced() {
    for seed in 0..3 {
        crash_often(seed);
    }
}

fn crash_often(seed: u64) {
    let disk = Disk::new();
    let stress = Stress {
        small: disk.file("small", WORDS * 8),
        large: disk.file("large", LARGE_WORDS * 8),
        fenced: Words::new(WORDS),
        large_fenced: Words::new(LARGE_WORDS),
        large_synced: Words::new(LARGE_WORDS),
        stop: AtomicBool::new(false),
        writing: RwLock::new(()),
    };
    let mut random = SplitMix64::new(seed);
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|thread| {
            drop(scope.spawn({
                let stress = &stress;
                move || stress.work(thread, seed)
            }))
        });
        // Whatever fails below, the threads end.
        let _stop = Stop(&stress.stop);
        let mut synced: Vec<u64> = vec![0; WORDS as usize];
        for crash in 0..12 {
            std::thread::sleep(std::time::Duration::from_millis(random.below(30)));
            let fenced = stress.fenced.all();
            let large_fenced = stress.large_fenced.all();
            // Words of one moment, each written back now, or not since the checkpoint. Those stored
            // first are read last.
            let mut now = vec![0; WORDS as usize];
            (0..WORDS).rev().for_each(|word| now[word as usize] = stress.small.load(word * 8));
            let small = bytes_of(now.iter().zip(&synced).map(|(now, old)| if random.one_in(2) { *now } else { *old }));
            let files = [("small", small)];
            let image = disk.try_image(&files).unwrap_or_else(|| {
                let _nobody = stress.writing.write();
                disk.image(&files)
            });
            let large = stress.large_synced.all();
            let current: Vec<_> = stress.large.words(0, LARGE_WORDS as usize).collect();
            let large =
                bytes_of(large.iter().zip(&current).map(|(old, now)| if random.one_in(2) { *now } else { *old }));
            fs::write(image.path().join("large"), large).expect("it is written");

            let found = replayed(&image, "small");
            for word in 0..WORDS as usize {
                assert!(
                    found[word] >= fenced[word],
                    "seed {seed} crash {crash} word {word}: {} < {}",
                    found[word],
                    fenced[word]
                );
                if word % 2 == 1 {
                    assert!(
                        found[word - 1] >= found[word],
                        "seed {seed} crash {crash}: word {word} before what it waits for"
                    );
                }
            }
            let found = replayed(&image, "large");
            let lost = (0..LARGE_WORDS as usize).find(|word| found[*word] < large_fenced[*word]);
            assert_eq!(lost, None, "seed {seed} crash {crash}");
            if random.one_in(3) {
                disk.medium.settle().expect("nothing fails");
                // Words that were stored after the checkpoint may have been written back since.
                (0..WORDS).rev().for_each(|word| synced[word as usize] = stress.small.load(word * 8));
                let large: Vec<_> = stress.large.words(0, LARGE_WORDS as usize).collect();
                (0..).zip(&large).for_each(|(word, value)| stress.large_synced.raise(word, *value));
            }
        }
    });
    disk.medium.health().check().expect("nothing has failed");
}

/// Hazard: content that a thread has read before a checkpoint, or before a word is published, comes
/// back over what was stored since. Threads fence words of the lines in which others are stored and
/// never fenced, or published.
#[test]
fn older_content_comes_behind_neither_a_checkpoint_nor_a_published_word() {
    const LINES: u64 = 16;
    let disk = Disk::new();
    let region = disk.file("a", LINES * 64);
    let (stop, published, later) = (AtomicBool::new(false), Words::new(LINES), Words::new(LINES));
    // Nobody writes while the journal is copied: a copy of one segment would be older than that of
    // the next.
    let writing = RwLock::new(());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (region, stop, writing) = (&region, &stop, &writing);
            scope.spawn(move || {
                for value in (1..).take_while(|_| !stop.load(SeqCst)) {
                    let _writes = writing.read();
                    let at = value % LINES * 64 + thread * 8;
                    region.store(at, value);
                    region.persist(at, 8);
                }
            });
        }
        scope.spawn(|| {
            for value in (1..).take_while(|_| !stop.load(SeqCst)) {
                let _writes = writing.read();
                let offset = value % LINES * 64 + 48;
                publish(&[Step { region: &region, offset, value }]);
                published.raise(value % LINES, value);
            }
        });
        scope.spawn(|| {
            for value in (1..).take_while(|_| !stop.load(SeqCst)) {
                let _writes = writing.read();
                let offset = value % LINES * 64 + 40;
                publish_later(&[Step { region: &region, offset, value }]);
                if value % 7 == 0 {
                    wait_published(&region);
                    (value - 6..=value).for_each(|value| later.raise(value % LINES, value));
                }
            }
        });
        let _stop = Stop(&stop);
        for round in 1..=150 {
            (0..LINES).for_each(|line| region.store(line * 64 + 56, round));
            disk.medium.settle().expect("nothing fails");
            let at_checkpoint: Vec<_> = region.words(0, LINES as usize * 8).collect();
            let (published, later) = (published.all(), later.all());
            let image = {
                let _nobody = writing.write();
                disk.image(&[("a", bytes_of(at_checkpoint))])
            };
            let found = replayed(&image, "a");
            for line in 0..LINES as usize {
                assert_eq!(found[line * 8 + 7], round, "line {line}: stored before the checkpoint");
                let (now, later) = ((found[line * 8 + 6], published[line]), (found[line * 8 + 5], later[line]));
                assert!(now.0 >= now.1, "round {round}, line {line}: {} instead of {}", now.0, now.1);
                assert!(later.0 >= later.1, "round {round}, line {line}, later: {} instead of {}", later.0, later.1);
            }
        }
    });
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
