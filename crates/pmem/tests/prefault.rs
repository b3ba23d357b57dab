//! The pre-fault service: all that is asked for is populated, once, and nothing waits for it.

use perdura_pmem::numa::Locality;
use perdura_pmem::prefault::{Prefault, Priority};
use perdura_pmem::{FileMedium, Medium, Options, Region, SimMedium};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

#[allow(clippy::disallowed_methods, reason = "a limit of patience, on threads of the operating system")]
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{what} takes too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn everything_asked_for_is_populated_once() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = Options { emulate: true, ..Options::default() };
    let medium = FileMedium::open(directory.path(), options).expect("the directory opens");
    let region = medium.create("file", (5 << 20) + 100).expect("there is room");
    region.store(4096, 3);
    let prefault = Prefault::start(2, true, &Locality::off("a test"));
    prefault.submit(region.clone(), 0, region.len(), Priority::Low);
    prefault.submit(region.clone(), 5, u64::MAX, Priority::High);
    prefault.submit(region.clone(), region.len(), 10, Priority::High);
    wait_for("populating", || prefault.queued_bytes() == 0);
    assert_eq!(prefault.done_bytes(), 2 * region.len() - 5);
    assert_eq!((prefault.failures(), region.load(4096)), (0, 3));
}

/// Number of the region's pages that are mapped, by the kernel's table of the process.
fn mapped_pages(region: &Region) -> usize {
    let table = std::fs::File::open("/proc/self/pagemap").expect("/proc is mounted");
    let mut entries = vec![0; region.len() as usize / 4096 * 8];
    table.read_exact_at(&mut entries, region.as_ptr() as u64 / 4096 * 8).expect("an entry for each page");
    entries.chunks(8).filter(|entry| entry[7] & 0x80 != 0).count()
}

/// A first store to a page that is mapped does not fault.
#[test]
fn all_pages_are_mapped_by_the_end_of_a_wait() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = Options { emulate: true, ..Options::default() };
    let medium = FileMedium::open(directory.path(), options).expect("the directory opens");
    let region = medium.create("file", 5 << 20).expect("there is room");
    assert_eq!(mapped_pages(&region), 0, "nobody has touched it");
    let prefault = Prefault::start(1, true, &Locality::off("a test"));
    prefault.submit(region.clone(), 0, 1 << 20, Priority::Low);
    prefault.wait();
    assert_eq!(mapped_pages(&region), 256);
    prefault.submit(region.clone(), 0, region.len(), Priority::High);
    prefault.wait();
    assert_eq!((prefault.failures(), mapped_pages(&region)), (0, 1280));
}

/// Nothing to do, a service that is off, and work that another thread ends.
#[test]
fn a_wait_ends_with_the_queue() {
    let region = SimMedium::new().create("file", 8 << 20).expect("there is room");
    let prefault = Prefault::start(1, false, &Locality::off("a test"));
    prefault.wait();
    prefault.submit(region.clone(), 0, region.len(), Priority::Low);
    prefault.wait();
    assert_eq!(prefault.queued_bytes(), 8 << 20, "it is off");
    prefault.set_enabled(true);
    prefault.wait();
    assert_eq!((prefault.queued_bytes(), prefault.done_bytes()), (0, 8 << 20));
    for _ in 0..100 {
        prefault.submit(region.clone(), 0, region.len(), Priority::High);
        prefault.wait();
    }
    assert_eq!(prefault.queued_bytes(), 0);
}

#[test]
fn a_disabled_service_keeps_its_queue() {
    let region = SimMedium::new().create("file", 8 << 20).expect("there is room");
    let prefault = Prefault::start(1, false, &Locality::off("a test"));
    prefault.submit(region.clone(), 0, region.len(), Priority::High);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!((prefault.queued_bytes(), prefault.done_bytes()), (8 << 20, 0));
    prefault.set_enabled(true);
    wait_for("populating", || prefault.done_bytes() == 8 << 20);
}

#[test]
fn a_stopped_service_forgets_its_queue_and_lets_files_go() {
    let medium = SimMedium::with_capacity(4 << 20);
    let region = medium.create("file", 4 << 20).expect("there is room");
    let prefault = Prefault::start(1, false, &Locality::off("a test"));
    prefault.submit(region, 0, 4 << 20, Priority::Low);
    medium.remove("file").expect("it exists");
    assert_eq!(medium.free_bytes(), Some(0), "the queue holds the mapping");
    drop(prefault);
    assert_eq!(medium.free_bytes(), Some(4 << 20));
}
