//! Files of the log on a disk: what a fence writes, and what the file has after a crash. Tests
//! (I1), (I11) on files of a disk.

use crate::paged::Disk;
use perdura_pmem::{ErrorKind, FileMedium, Medium, Options, Region};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

fn log(disk: &Disk, name: &str, len: u64) -> Region {
    disk.medium.create_log(name, len).expect("there is room")
}

#[test]
fn a_fence_writes_what_its_thread_has_flushed_and_nothing_else() {
    let disk = Disk::new();
    let region = log(&disk, "log.000.00", 64 << 10);
    let sector = region.write_granule();
    assert!(sector.is_power_of_two() && (512..=4096).contains(&sector), "{sector}");
    let writes = Arc::new(Mutex::new(Vec::new()));
    let told = writes.clone();
    disk.medium.on_log_write(move |path, range| told.lock().expect("unpoisoned").push((path.to_owned(), range)));
    region.write_nt(100, b"fenced");
    region.write(8192, b"left");
    region.store(3 * 4096, 5);
    assert_eq!(disk.word_in_file("log.000.00", 3), 0, "nothing is written by itself");
    region.fence();
    region.fence();
    let path = disk.path("log.000.00").display().to_string();
    assert_eq!(*writes.lock().expect("unpoisoned"), [(path, 0..sector)]);
    let bytes = std::fs::read(disk.path("log.000.00")).expect("it exists");
    assert_eq!((&bytes[100..106], bytes[8192], bytes.len()), (&b"fenced"[..], 0, 64 << 10));
    // One fence of the medium, by way of whatever file, covers pages and log.
    let data = disk.file("data", 4096);
    data.store(0, 9);
    data.flush(0, 8);
    region.persist(3 * 4096, 8);
    assert_eq!((disk.word_in_file("data", 0), disk.word_in_file("log.000.00", 3)), (9, 5));
    region.store(3 * 4096, 6);
    region.flush(3 * 4096, 8);
    data.fence();
    assert_eq!(disk.word_in_file("log.000.00", 3), 6);
    disk.medium.health().check().expect("nothing has failed");
}

#[test]
fn a_file_of_the_log_is_opened_as_it_was_written() {
    let disk = Disk::new();
    for (name, len) in [("log.000.00", 4096), ("log.000.01", 10_000), ("log.000.02", 3 << 20)] {
        let region = log(&disk, name, len);
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 % 251) as u8).collect();
        region.write_nt(0, &bytes);
        region.fence();
        region.write(17, b"never flushed");
        drop(region);
        let region = disk.medium.open_log(name).expect("it exists");
        let mut found = vec![0; len as usize];
        region.read(0, &mut found);
        assert!(found == bytes && (region.as_ptr() as usize).is_multiple_of(2 << 20), "{name}");
        assert_eq!(disk.medium.open(name).expect("it exists").len(), len);
    }
    let error = disk.medium.open_log("log.001.00").expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = disk.medium.create_log("log.000.00", 4096).expect_err("there is one");
    assert_eq!(error.kind(), ErrorKind::Exists);
    let free = disk.medium.free_bytes().expect("known");
    let error = disk.medium.create_log("log.001.00", free.saturating_mul(2)).expect_err("there is no room");
    assert_eq!((error.kind(), disk.medium.list().expect("it lists").len()), (ErrorKind::Full, 3));
}

/// A crash leaves what was fenced, at any moment: the file is read while threads go on.
#[test]
fn a_copy_of_the_file_has_all_that_was_fenced_before() {
    let disk = Disk::new();
    let region = log(&disk, "log.000.00", 64 << 12);
    let fenced: Vec<_> = (0..8).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for (thread, fenced) in (0u64..).zip(&fenced) {
            let region = &region;
            scope.spawn(move || {
                for value in 1..=40u64 {
                    region.write_nt(thread * 4096, &value.to_le_bytes());
                    region.fence();
                    fenced.store(value, SeqCst);
                }
            });
        }
        for _ in 0..30 {
            let told: Vec<u64> = fenced.iter().map(|fenced| fenced.load(SeqCst)).collect();
            for (thread, told) in told.into_iter().enumerate() {
                let found = disk.word_in_file("log.000.00", thread);
                assert!((told..=40).contains(&found), "thread {thread} has fenced {told}, the file has {found}");
            }
        }
    });
}

/// A failed write ends the medium with all its files, and a failed sync of a data file the log.
#[test]
fn pages_and_log_fail_together() {
    for log_fails in [true, false] {
        let disk = Disk::new();
        let (data, region) = (disk.file("data", 4096), log(&disk, "log.000.00", 8192));
        disk.medium.fail_sync_after(0);
        let failing = if log_fails { &region } else { &data };
        failing.store(0, 1);
        failing.persist(0, 8);
        let error = disk.medium.health().check().expect_err("it has failed");
        assert_eq!((error.kind(), error.file()), (ErrorKind::Io, disk.path(failing.name()).to_str()), "{error}");
        for region in [&data, &region] {
            region.store(8, 2);
            region.persist(8, 8);
            assert_eq!(region.load(8), 2, "the process sees what it has stored");
            assert_eq!(region.sync().expect_err("refused").to_string(), error.to_string());
        }
        disk.medium.create_log("log.000.01", 4096).expect_err("refused");
        drop((data, region));
        let [of_data, of_log] = ["data", "log.000.00"].map(|name| std::fs::read(disk.path(name)).expect("it exists"));
        assert!(of_data[8..].iter().chain(&of_log).all(|byte| *byte == 0), "nothing is written after it");
    }
}

/// Where fences are of lines the log is mapped like any file, and reaches it without a fence.
#[test]
fn elsewhere_the_log_is_mapped() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = Options { emulate: true, create_dir: false };
    let medium = FileMedium::open(directory.path(), options).expect("the directory opens");
    let region = medium.create_log("log.000.00", 4096).expect("there is room");
    region.store(0, 3);
    region.forget();
    assert_eq!((region.write_granule(), medium.open_log("log.000.00").expect("it exists").load(0)), (64, 3));
}
