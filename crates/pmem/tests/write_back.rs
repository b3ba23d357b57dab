//! Hazard: all that was stored between two checkpoints is dirty when the next one syncs it, so that
//! it takes long, and stores wait for the kernel; or a store makes more dirty than its page.

use perdura_pmem::{FileMedium, Medium, Region};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Number of the system call that counts a file's pages in the cache.
const CACHESTAT: libc::c_long = 451;
/// Rounds of a millisecond within which a device writes some MiB.
const ROUNDS: u32 = 20_000;

/// Pages of a file that are dirty or being written; `None` where the kernel does not tell.
fn unwritten(path: &Path) -> Option<u64> {
    let file = File::open(path).expect("the file opens");
    let (whole, mut pages) = ([0u64; 2], [0u64; 5]);
    // SAFETY: the kernel reads two words there and writes five here.
    let told = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), whole.as_ptr(), pages.as_mut_ptr(), 0) };
    // Cached, dirty, being written, and two more.
    (told == 0).then(|| pages[1] + pages[2])
}

/// A medium, the path of its file "data", and that, of `bytes` bytes.
fn filled(bytes: u64) -> (TempDir, FileMedium, PathBuf, Region) {
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory");
    let medium = journaled(&directory);
    let region = medium.create("data", bytes).expect("there is room");
    region.sync().expect("sync");
    let path = directory.path().join("data");
    (directory, medium, path, region)
}

fn journaled(directory: &TempDir) -> FileMedium {
    FileMedium::open_journaled(directory.path(), false, 32 << 20).expect("the directory opens")
}

#[test]
fn much_that_is_dirty_is_written_back_ahead() {
    let (_directory, medium, path, region) = filled(16 << 20);
    medium.write_ahead();
    if unwritten(&path).is_none() {
        println!("skipped: this kernel does not count dirty pages");
        return;
    }
    medium.set_dirty_bytes_max(4 << 20);
    region.write(0, &vec![7; 8 << 20]);
    assert!(unwritten(&path) >= Some(1 << 10), "{:?} pages of 8 MiB", unwritten(&path));
    let syncs = medium.sync_count();
    medium.write_ahead();
    let is_written = |_: &u32| {
        std::thread::sleep(Duration::from_millis(1));
        unwritten(&path) == Some(0)
    };
    assert!((0..ROUNDS).find(is_written).is_some(), "{:?} pages are still dirty", unwritten(&path));
    assert_eq!(medium.sync_count(), syncs, "nobody has waited for that");
}

/// The kernel caches what is written at once as one folio, if the file system has large ones, and
/// a store in a mapping makes a folio dirty as a whole: each of these stores would make 64 KiB or
/// more dirty.
#[test]
fn a_store_makes_one_page_dirty() {
    const PAGES: u64 = 32;
    let (directory, medium, path, region) = filled(8 << 20);
    if unwritten(&path).is_none() {
        println!("skipped: this kernel does not count dirty pages");
        return;
    }
    let store = |region: &Region| (0..PAGES).for_each(|number| region.store(number * (64 << 10), number + 1));
    store(&region);
    // Fewer, if the kernel has begun to write.
    assert!(unwritten(&path) <= Some(PAGES), "a new file: {:?} pages", unwritten(&path));
    // The journal has pages that follow one another, little enough not to be synced in place.
    for begin in (0..8 << 20).step_by(512 << 10) {
        region.write(begin, &[7; 96 << 10]);
        region.flush(begin, 96 << 10);
        region.fence();
    }
    drop((region, medium));
    // So that the replay finds nothing cached.
    File::open(&path).and_then(|file| file.sync_all()).expect("sync");
    let medium = journaled(&directory);
    let region = medium.open("data").expect("it is there");
    assert_eq!(region.load(0), u64::from_le_bytes([7; 8]));
    medium.settle().expect("settle");
    assert_eq!(unwritten(&path), Some(0), "the replay is synced");
    // The kernel reads the range at once.
    region.will_need(0, 8 << 20);
    store(&region);
    assert!(unwritten(&path) <= Some(PAGES), "a file that was replayed: {:?} pages", unwritten(&path));
}
