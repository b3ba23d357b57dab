//! Written files on a directory of their own.

use super::*;
use crate::health::Health;
use crate::split_mix::SplitMix64;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::channel;
use tempfile::TempDir;

const SECTOR: u64 = 512;

/// How a file is written.
#[derive(Clone, Copy, Debug)]
struct Way {
    sector: u64,
    direct: bool,
    write_bytes_max: usize,
}

const USUAL: Way = Way { sector: SECTOR, direct: true, write_bytes_max: WRITE_BYTES_MAX };
const WAYS: [Way; 5] = [
    USUAL,
    Way { sector: 4096, ..USUAL },
    // As on a file system that has no direct writes.
    Way { direct: false, ..USUAL },
    // Direct writes are refused at such places.
    Way { sector: 64, ..USUAL },
    // Each write does less than it is told.
    Way { write_bytes_max: 512, ..USUAL },
];

struct Written {
    file: Arc<WrittenFile>,
    syncs: Arc<Syncs>,
    writes: Arc<Writes>,
    path: String,
    _directory: TempDir,
}

impl Written {
    fn new(len: u64, way: Way) -> Written {
        let directory = TempDir::new().expect("a temporary directory");
        let path = directory.path().join("log").display().to_string();
        std::fs::write(&path, vec![0; len as usize]).expect("there is room");
        let (syncs, writes) = (Arc::new(Syncs::new("a test".to_owned())), Arc::<Writes>::default());
        let open = |flags| OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path);
        let cached = open(libc::O_DSYNC).expect("it exists");
        let direct =
            way.direct.then(|| open(libc::O_DSYNC | libc::O_DIRECT).expect("the tests' disk has direct writes"));
        let files = (direct, cached);
        let file = WrittenFile::of(&path, len, way.sector, files, way.write_bytes_max, syncs.clone(), writes.clone());
        Written { file: file.expect("there is memory"), syncs, writes, path, _directory: directory }
    }

    fn at(&self, offset: u64) -> *mut c_void {
        self.file.address().wrapping_byte_add(offset as usize)
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        // SAFETY: within the memory, and nobody else stores there.
        unsafe { self.at(offset).cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        self.store(offset, bytes);
        note(self.at(offset), bytes.len());
    }

    fn on_disk(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("it exists")
    }

    fn health(&self) -> Health {
        self.syncs.health()
    }
}

fn fence() {
    // SAFETY: draining has no precondition.
    unsafe { drain() }
}

/// A fence must not return before its own bytes are in the file, whoever wrote them, and what it
/// shares with none of the others must be all that is there.
#[test]
fn each_fence_finds_its_own_bytes_in_the_file() {
    for (seed, way) in (0..10).flat_map(|seed| WAYS.map(|way| (seed, way))) {
        // The last sector of an odd length is not whole.
        let written = Written::new(48 * 4096 + seed * 77, way);
        let thread = |thread: u64| {
            let mut random = SplitMix64::new(seed * 100 + thread);
            for round in 1..=6u8 {
                let mut stored = Vec::new();
                for _ in 0..1 + random.below(3) {
                    let offset = (thread + 6 * random.below(8)) * 4096 + random.below(2000);
                    let bytes = vec![round * 8 + thread as u8; 1 + random.below(1500) as usize];
                    written.write(offset, &bytes);
                    stored.retain(|(known, _): &(u64, Vec<u8>)| known / 4096 != offset / 4096);
                    stored.push((offset, bytes));
                }
                fence();
                let on_disk = written.on_disk();
                for (offset, bytes) in stored {
                    let found = &on_disk[offset as usize..][..bytes.len()];
                    assert_eq!(found, bytes, "seed {seed}, {way:?}, thread {thread}, round {round}, {offset}");
                }
            }
        };
        std::thread::scope(|scope| (0..6).for_each(|number| drop(scope.spawn(move || thread(number)))));
        written.health().check().expect("nothing has failed");
        assert_eq!(written.on_disk().len() as u64, written.file.len, "seed {seed}, {way:?}");
        let mut memory = vec![0; written.file.len as usize];
        // SAFETY: within the memory, and all threads have ended.
        unsafe { written.at(0).cast::<u8>().copy_to_nonoverlapping(memory.as_mut_ptr(), memory.len()) };
        assert!(memory == written.on_disk(), "seed {seed}, {way:?}: all was fenced");
    }
}

/// Hazard: the last bytes of a file whose length is no multiple of the sector make it longer.
#[test]
fn the_end_of_an_odd_file_is_written_and_the_file_stays_as_long() {
    for way in WAYS {
        let written = Written::new(10_000, way);
        written.write(8000, &[7; 2000]);
        fence();
        let on_disk = written.on_disk();
        assert_eq!((on_disk.len(), &on_disk[8000..]), (10_000, &[7; 2000][..]), "{way:?}");
        assert!(on_disk[..8000].iter().all(|byte| *byte == 0));
        written.health().check().expect("nothing has failed");
    }
}

/// Whoever fences while a write is under way waits for the next one, and all of them share that.
#[test]
fn those_who_come_during_a_write_share_the_next() {
    let written = Written::new(64 << 10, USUAL);
    let (begun, waits) = channel();
    let (go, gate) = channel();
    let (count, gate) = (AtomicU32::new(0), Mutex::new(gate));
    let handler = move |_: &str, range: Range<u64>| {
        begun.send(range).expect("the test waits");
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            gate.lock().recv().expect("the test goes on");
        }
    };
    written.writes.tell(Box::new(handler));
    std::thread::scope(|scope| {
        let one = |thread: u64| {
            written.write(thread * SECTOR, &[thread as u8 + 1; 100]);
            fence();
            assert_eq!(written.on_disk()[(thread * SECTOR) as usize], thread as u8 + 1);
        };
        scope.spawn(move || one(0));
        assert_eq!(waits.recv().expect("it begins"), 0..SECTOR);
        (1..8).for_each(|thread| drop(scope.spawn(move || one(thread))));
        // All of them have handed over what they noted.
        while written.file.rounds.lock().ranges.bytes() < 7 * SECTOR {
            std::thread::yield_now();
        }
        go.send(()).expect("it waits");
    });
    let others: Vec<_> = waits.try_iter().map(|range| (range.start, range.end)).collect();
    assert_eq!(others, [(SECTOR, 8 * SECTOR)], "one write for all");
    assert_eq!(written.syncs.count(), 2);
}

/// Each write fails in turn, of rounds that have several: nothing is written after it, and whoever
/// finds the medium sound after a fence has bytes that are there.
#[test]
fn a_failed_write_is_final_wherever_it_comes() {
    for after in 0..12 {
        let written = Written::new(64 << 10, USUAL);
        written.syncs.fail_after(after);
        let thread = |thread: u64| {
            let mut durable = 0;
            for round in 1..=10u8 {
                // Two ranges, which no one write has.
                let places = [thread * 8192, thread * 8192 + 4 * SECTOR];
                places.iter().for_each(|place| written.write(*place, &[round; 8]));
                fence();
                if written.health().check().is_err() {
                    break;
                }
                durable = round;
            }
            (thread, durable)
        };
        let threads: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || thread(number))).collect();
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        });
        let error = written.health().check().expect_err("it has failed");
        assert_eq!(error.file(), Some(&*written.path), "{error}");
        let on_disk = written.on_disk();
        for (thread, durable) in threads {
            let found = [0, 4 * SECTOR].map(|place| on_disk[(thread * 8192 + place) as usize]);
            assert!(found.iter().all(|found| *found >= durable), "thread {thread}: {found:?}, told {durable}");
        }
        written.write(0, &[99; 8]);
        fence();
        assert!(written.on_disk() == on_disk, "nothing is written after it");
    }
}

/// Hazard: a disk that takes nothing, or a file that was cut off, is taken for written.
#[test]
fn a_write_that_the_file_refuses_is_a_failure() {
    let written = Written::new(8192, USUAL);
    let full = || OpenOptions::new().read(true).write(true).open("/dev/full").expect("every system has it");
    let (syncs, writes) = (written.syncs.clone(), written.writes.clone());
    let file = WrittenFile::of("full", 8192, SECTOR, (None, full()), WRITE_BYTES_MAX, syncs, writes);
    note(file.expect("there is memory").address(), 8);
    fence();
    let error = written.health().check().expect_err("there was no room");
    assert_eq!(error.file(), Some("full"), "{error}");
}

/// Hazard: a thread that flushed and never fenced writes over what others have written there since.
#[test]
fn what_was_noted_before_the_content_was_forgotten_is_not_written() {
    let written = Written::new(8192, USUAL);
    written.write(0, &[1; 100]);
    written.file.forget();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            written.write(0, &[2; 50]);
            fence();
        });
    });
    let count = written.syncs.count();
    fence();
    assert_eq!(written.syncs.count(), count, "the note is void");
    let on_disk = written.on_disk();
    assert_eq!((&on_disk[..50], on_disk[50]), (&[2; 50][..], 0), "the memory was given back");
    written.write(0, &[3; 8]);
    written.file.forget();
    written.write(1024, &[4; 8]);
    fence();
    assert_eq!((written.on_disk()[0], written.on_disk()[1024]), (2, 4), "what came after is written");
}

/// Hazard: a transaction of a gigabyte makes its thread's notes, and one write, as long.
#[test]
fn a_thread_notes_little_however_much_it_flushes() {
    let written = Written::new(8 << 20, USUAL);
    let mut random = SplitMix64::new(1);
    for _ in 0..20_000 {
        note(written.at(random.below(8 << 20) & !(SECTOR - 1)), 8);
        NOTED.with_borrow(|noted| {
            assert!(noted.0.len() <= 1 && noted.0.iter().all(|note| note.ranges.count() <= NOTED_RANGES_MAX));
        });
    }
    let ahead = written.syncs.count();
    assert!(ahead > 0, "much was written ahead of the fence");
    (0..8192).for_each(|place| note(written.at(place * 1024), 1024));
    let noted = NOTED.with_borrow(|noted| noted.0.iter().map(|note| note.ranges.bytes()).sum::<u64>());
    assert!(noted <= NOTED_BYTES_MAX && written.syncs.count() >= ahead + 7, "{noted} bytes");
    fence();
    assert_eq!(NOTED.with_borrow(|noted| noted.0.len()), 0);
}

/// Hazard: a thread that never fences keeps a file open, whose blocks nobody gets back.
#[test]
fn a_thread_that_ends_lets_go_of_what_it_has_noted() {
    let written = Written::new(8192, USUAL);
    let noted = written.file.clone();
    std::thread::spawn(move || note(noted.address(), 8)).join().expect("it does not panic");
    let (address, left) = (written.file.begin(), Arc::downgrade(&written.file));
    drop(written);
    assert!(left.upgrade().is_none() && WrittenFile::at(address).is_none());
}
