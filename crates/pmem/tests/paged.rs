//! A page medium: what a fence syncs, and a sync that fails. Tests (I1), (I11) on files of a disk.

use perdura_pmem::{ErrorKind, FileMedium, Medium, Mode, Region};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use tempfile::TempDir;

/// A page medium in a directory of its own.
pub struct Disk {
    pub medium: FileMedium,
    // Dropped after the medium.
    pub directory: TempDir,
}

impl Disk {
    pub fn new() -> Disk {
        // As the kernel names it, for errors.
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).canonicalize().expect("cargo has made it");
        let directory = TempDir::new_in(place).expect("a temporary directory");
        let medium = FileMedium::open_paged(directory.path(), false).expect("the directory opens");
        assert_eq!(medium.info().mode, Mode::Page, "the tests' directory is not on persistent memory");
        Disk { medium, directory }
    }

    /// A file that is durable as it is.
    pub fn file(&self, name: &str, len: u64) -> Region {
        let region = self.medium.create(name, len).expect("there is room");
        region.sync().expect("sync");
        self.medium.sync_dir().expect("sync of the directory");
        region
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// First word of a page, as the file itself has it.
    pub fn word_in_file(&self, name: &str, page: usize) -> u64 {
        let bytes = std::fs::read(self.path(name)).expect("the file is readable");
        u64::from_le_bytes(bytes[page * 4096..][..8].try_into().expect("eight bytes"))
    }

    /// Syncs that `body` makes.
    fn syncs(&self, body: impl FnOnce()) -> u64 {
        let before = self.medium.sync_count();
        body();
        self.medium.sync_count() - before
    }
}

#[test]
fn a_fence_syncs_once_each_file_that_its_thread_has_flushed() {
    let disk = Disk::new();
    let (a, b, c) = (disk.file("a", 64 << 10), disk.file("b", 64 << 10), disk.file("c", 4096));
    let first = || {
        for page in 0..16 {
            a.store(page * 4096, page + 1);
            a.flush(page * 4096, 8);
        }
        b.write_nt(100, b"past the cache");
        b.zero(8192, 10);
        c.store(0, 1);
        // By way of a file that the thread has not touched: a fence is one of the medium.
        c.fence();
    };
    assert_eq!(disk.syncs(first), 2);
    assert_eq!(disk.syncs(|| a.fence()), 0, "nothing has been flushed since");
    assert_eq!(disk.syncs(|| c.persist(0, 8)), 1);
    assert_eq!(disk.syncs(|| a.flush(0, 0)), 0);
    assert_eq!(disk.syncs(|| a.reclaim_all([(0, 8), (4096, 8)])), 1, "what another process left is synced");
    assert_eq!(disk.syncs(|| drop((c.sync(), disk.medium.sync_dir()))), 2);
    disk.medium.health().check().expect("nothing has failed");
}

#[test]
fn a_fence_leaves_what_other_threads_have_flushed() {
    let disk = Disk::new();
    let (region, turn) = (disk.file("shared", 8192), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            region.store(0, 1);
            region.flush(0, 8);
            turn.wait();
            turn.wait();
            assert_eq!(disk.syncs(|| region.fence()), 1);
        });
        turn.wait();
        assert_eq!(disk.syncs(|| region.fence()), 0);
        turn.wait();
    });
}

/// Hazard: the file is closed, as a table is, between the flush and the fence.
#[test]
fn what_was_flushed_is_synced_though_its_region_is_gone() {
    let disk = Disk::new();
    let (closed, other) = (disk.file("closed", 4096), disk.file("other", 4096));
    closed.store(0, 7);
    closed.flush(0, 8);
    drop(closed);
    assert_eq!(disk.syncs(|| other.fence()), 1);
    assert_eq!(disk.word_in_file("closed", 0), 7);
    let empty = disk.file("empty", 0);
    other.flush(0, 8);
    assert_eq!(disk.syncs(|| empty.fence()), 1, "the fence of an empty file is one of the medium");
}

#[test]
fn threads_that_fence_one_file_share_syncs_and_wait_for_them() {
    let disk = Disk::new();
    let region = disk.file("shared", 64 << 10);
    let syncs = disk.syncs(|| {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let region = &region;
                scope.spawn(move || {
                    for value in 1..=10 {
                        region.store(thread * 4096, value);
                        region.persist(thread * 4096, 8);
                    }
                });
            }
        });
    });
    assert!((10..=80).contains(&syncs), "{syncs} syncs");
}

/// A store for which there is no block can meet a full device, and is killed by SIGBUS. A write
/// past the cache to a block that is only reserved changes the file's block map.
#[test]
fn a_new_file_has_all_its_blocks() {
    let disk = Disk::new();
    let (region, _log) = (disk.file("data", 3 << 20), disk.medium.create_log("log", 3 << 20).expect("there is room"));
    assert_eq!(region.load(3 << 19), 0);
    let file = |name| std::fs::File::open(disk.path(name)).expect("it exists");
    for name in ["data", "log"] {
        assert!(file(name).metadata().expect("it is open").blocks() * 512 >= 3 << 20, "{name}");
    }
    // SAFETY: an open file; the call changes nothing but its position.
    let hole = unsafe { libc::lseek(file("log").as_raw_fd(), 0, libc::SEEK_HOLE) };
    assert_eq!(hole, 3 << 20, "blocks that are only reserved count as a hole");
    let error =
        disk.medium.create("huge", disk.medium.free_bytes().expect("known").saturating_mul(2)).expect_err("full");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    disk.medium.health().check().expect("to be full is no failure");
    assert_eq!(disk.medium.list().expect("it lists").len(), 2);
}

/// Hazard: the kernel says once that a page could not be written, and calls the page clean. What
/// waits for that page, in whatever file, must not be written either.
#[test]
fn a_failed_sync_is_final_and_nothing_is_written_after_it() {
    let disk = Disk::new();
    let (a, b) = (disk.file("a", 8192), disk.file("b", 8192));
    b.store(0, 1);
    b.persist(0, 8);
    disk.medium.fail_sync_after(0);
    a.store(0, 1);
    assert_eq!(disk.syncs(|| a.persist(0, 8)), 1);
    let error = disk.medium.health().check().expect_err("the sync has failed");
    let path = disk.path("a").display().to_string();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Io, Some(&*path)), "{error}");
    assert!(error.to_string().contains("os error 5") && error.to_string().contains("restart"), "{error}");

    let all = || {
        b.store(0, 2);
        b.persist(0, 8);
        a.write_nt(4096, &[2; 8]);
        a.fence();
        let late = disk.medium.open("b").expect("it can be read still");
        late.store(4096, 2);
        late.persist(4096, 8);
        let refusals = [
            b.sync(),
            b.deep_flush(0, 8),
            disk.medium.sync_dir(),
            disk.medium.create("c", 4096).map(|_| ()),
            disk.medium.remove("a"),
            disk.medium.rename("a", "c"),
        ];
        for refusal in refusals {
            assert_eq!(refusal.expect_err("refused").to_string(), error.to_string());
        }
        assert_eq!((a.load(0), b.load(0)), (1, 2), "the process sees what it has stored");
    };
    assert_eq!(disk.syncs(all), 0);
    drop((a, b));
    let found = [("b", 0), ("b", 1), ("a", 1)].map(|(name, page)| disk.word_in_file(name, page));
    assert_eq!(found, [1, 0, 0], "nothing has reached a file since");
    let names: Vec<_> = disk.medium.list().expect("it lists").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "b"]);

    let Disk { medium, directory } = disk;
    drop(medium);
    let medium = FileMedium::open_paged(directory.path(), false).expect("a restart goes on");
    let region = medium.open("b").expect("it exists");
    region.persist(0, 8);
    medium.health().check().expect("a new medium");
    assert_eq!(region.load(0), 1);
}

#[test]
fn a_failed_sync_of_the_directory_or_of_a_whole_file_is_final_too() {
    for which in 0..2 {
        let disk = Disk::new();
        let region = disk.file("a", 4096);
        disk.medium.fail_sync_after(0);
        let error = if which == 0 { disk.medium.sync_dir() } else { region.sync() }.expect_err("told to fail");
        let path = if which == 0 { disk.directory.path().to_owned() } else { disk.path("a") };
        assert_eq!(error.file(), path.to_str(), "{error}");
        region.store(0, 5);
        region.persist(0, 8);
        assert_eq!(disk.medium.health().check().expect_err("it has failed").to_string(), error.to_string());
        assert_eq!(disk.word_in_file("a", 0), 0);
    }
}

/// Each of several threads that fence at once must learn of a failure, though the kernel tells one.
#[test]
fn no_thread_misses_a_failure_of_its_own_sync() {
    for after in 0..12 {
        let disk = Disk::new();
        let region = disk.file("shared", 64 << 10);
        disk.medium.fail_sync_after(after);
        let thread = |thread: u64| {
            let (region, health) = (region.clone(), disk.medium.health());
            let mut last = 0;
            for value in 1..=20 {
                region.store(thread * 4096, value);
                region.persist(thread * 4096, 8);
                if health.check().is_err() {
                    break;
                }
                last = value;
            }
            (thread, last)
        };
        let acknowledged: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || thread(number))).collect();
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        });
        disk.medium.health().check().expect_err("it has failed");
        for (thread, last) in acknowledged {
            let found = disk.word_in_file("shared", thread as usize);
            assert!(found >= last, "thread {thread} was told that {last} is durable, the file has {found}");
        }
    }
}
