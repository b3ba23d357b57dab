//! Hazard: a pool of a hundred thousand tables takes gigabytes of DRAM for tables that nobody uses.
//!
//! The test counts every allocation of its process, so it is alone in its file.

mod common;

use common::{row_bytes, small};
use perdura_engine::{Config, Engine, Isolation};
use perdura_pmem::{FileMedium, Options};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static LIVE: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as the caller vouches for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as the caller vouches for.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[test]
fn a_closed_table_takes_some_hundred_bytes() {
    const TABLES: u64 = 1000;
    const DEFINITION: usize = 600;
    let directory = tempfile::tempdir_in(Path::new("/dev/shm")).or_else(|_| tempfile::tempdir()).unwrap();
    let medium = FileMedium::open(directory.path(), Options { emulate: true, ..Options::default() }).unwrap();
    let config = Config { first_file_bytes: 16 << 10, open_files: 8, ..small() };
    let engine = Engine::open(Arc::new(medium), config).unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut create = |number: u64| {
        let table = engine.create_table(&format!("database/table{number:05}"), &[7; DEFINITION]).unwrap();
        for row in 0..10 {
            txn.insert(&table, &row_bytes(row)).unwrap();
        }
        txn.commit().unwrap();
        engine.checkpoint().unwrap();
        engine.purge();
    };
    (0..100).for_each(&mut create);
    let before = LIVE.load(Ordering::Relaxed);
    (100..100 + TABLES).for_each(&mut create);
    let each = (LIVE.load(Ordering::Relaxed) - before) / TABLES;
    assert!(each < DEFINITION as u64 + 700, "{each} bytes for each table, {DEFINITION} of them its definition");
}
