//! Hazard: all that was stored between two checkpoints is dirty when the next one syncs it, so that
//! it takes long, and stores wait for the kernel.

use perdura_pmem::{FileMedium, Medium};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
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

#[test]
fn much_that_is_dirty_is_written_back_ahead() {
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory");
    let medium = FileMedium::open_journaled(directory.path(), false, 32 << 20).expect("the directory opens");
    let region = medium.create("data", 16 << 20).expect("there is room");
    region.sync().expect("sync");
    medium.write_ahead();
    let path = directory.path().join("data");
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
