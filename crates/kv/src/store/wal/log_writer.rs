//! Writing of frames beside the store: by a thread, while the store takes entries on.
//!
//! A sync of a disk takes as long as a thousand requests, and so do the copies of a value of
//! megabytes. The caller would answer nobody meanwhile, neither clients nor other replicas. A frame
//! is handed over with its file; one is under way at a time, and what comes meanwhile is the next.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::super::error::{Error, ErrorKind, Result};
use super::disk::DiskFile;
use super::frame::Seal;

/// Time of a write and its sync above which it is worth a switch of threads, which takes tens of
/// microseconds.
const SLOW: Duration = Duration::from_micros(100);
/// Bytes of a frame that take as long to be copied to the fastest file.
const LARGE_BYTES: usize = 256 << 10;
/// Part of the average that the newest write makes.
const NEWEST_PART: u32 = 8;

/// A frame that is to be written and synced.
pub(super) struct FrameWrite {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) name: String,
    pub(super) at: u64,
    pub(super) seal: Seal,
    pub(super) number: u64,
    pub(super) items: Bytes,
    /// Bytes of the file behind the frame that get zeros, so that the syncs of later frames need
    /// not make it longer.
    pub(super) zeros: Range<u64>,
}

impl FrameWrite {
    /// Writes the frame and the zeros. Returns whether there was room for the zeros; if not, none
    /// are left: they would take the room of what counts.
    pub(super) fn put(&self) -> Result<bool> {
        let failed = |error| Error::io(&self.name, "writing", error);
        self.file.write_at(self.at, &self.seal.frame(self.number, &self.items)).map_err(failed)?;
        if self.zeros.is_empty() {
            return Ok(false);
        }
        let zeros = vec![0; (self.zeros.end - self.zeros.start) as usize];
        match self.file.write_at(self.zeros.start, &zeros).map_err(failed) {
            Err(error) if error.kind() == ErrorKind::Full => {
                self.file.cut(self.zeros.start).map_err(failed)?;
                Ok(false)
            }
            written => written.map(|()| true),
        }
    }

    /// Makes durable what was put.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|error| Error::io(&self.name, "writing", error))
    }

    /// Writes and syncs. Returns whether there was room for the zeros.
    pub(super) fn run(&self) -> Result<bool> {
        let has_zeros = self.put()?;
        self.sync()?;
        Ok(has_zeros)
    }
}

/// Result of a write: whether there was room for its zeros.
pub(super) type Written = Result<bool>;

/// Writer of frames, one at a time.
pub(super) trait LogWriter: Send {
    /// Whether the next frame, of `bytes` bytes, is worth to be handed over.
    fn is_worthwhile(&self, bytes: usize) -> bool;

    /// The caller has written a frame itself.
    fn note(&mut self, took: Took);

    /// Begins to write a frame. None is under way.
    fn begin(&mut self, write: FrameWrite);

    /// The result of the frame that is under way, once it is there.
    fn poll(&mut self) -> Option<Written>;

    /// Waits for the result of the frame that is under way.
    fn wait(&mut self) -> Written;
}

/// The thread that writes, where writes take long.
pub(super) struct WriterThread {
    frames: Option<Sender<FrameWrite>>,
    results: Receiver<(Written, Took)>,
    thread: Option<JoinHandle<()>>,
    /// Average time of the last writes of frames that are not large.
    average: Duration,
}

/// A frame that was written: its bytes, and the time it took.
#[derive(Clone, Copy)]
pub(super) struct Took(usize, Duration);

/// Writes a frame in this thread.
#[allow(clippy::disallowed_methods, reason = "how long a write takes decides who does it, and nothing else")]
pub(super) fn run_here(write: &FrameWrite) -> (Written, Took) {
    let begun = Instant::now();
    let written = write.run();
    (written, Took(write.items.len(), begun.elapsed()))
}

impl WriterThread {
    /// A thread that calls `wake` after each frame.
    pub(super) fn spawn(wake: Box<dyn Fn() + Send>) -> std::io::Result<Self> {
        let (frames, to_write) = mpsc::channel::<FrameWrite>();
        let (done, results) = mpsc::channel();
        let write_all = move || {
            for write in to_write {
                if done.send(run_here(&write)).is_err() {
                    return;
                }
                wake();
            }
        };
        let thread = std::thread::Builder::new().name("log writer".into()).spawn(write_all)?;
        Ok(Self { frames: Some(frames), results, thread: Some(thread), average: Duration::ZERO })
    }

    fn ended() -> Error {
        Error::new(ErrorKind::Medium, "the thread that writes the log has ended: start the replica again")
    }
}

impl LogWriter for WriterThread {
    fn is_worthwhile(&self, bytes: usize) -> bool {
        self.average >= SLOW || bytes >= LARGE_BYTES
    }

    fn note(&mut self, Took(bytes, took): Took) {
        if bytes < LARGE_BYTES {
            self.average = (self.average * (NEWEST_PART - 1) + took) / NEWEST_PART;
        }
    }

    fn begin(&mut self, write: FrameWrite) {
        // A thread that has ended gives no result, which is an error.
        if let Some(frames) = &self.frames {
            drop(frames.send(write));
        }
    }

    fn poll(&mut self) -> Option<Written> {
        match self.results.try_recv() {
            Ok((written, took)) => {
                self.note(took);
                Some(written)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Self::ended())),
        }
    }

    fn wait(&mut self) -> Written {
        let (written, took) = self.results.recv().map_err(|_| Self::ended())?;
        self.note(took);
        written
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        // It ends when there are no frames any more; the last is written.
        self.frames = None;
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::{self, Receiver};
    use std::time::Duration;

    use super::super::disk::{Disk, DiskFile};
    use super::super::frame::Seal;
    use super::super::{SimDisk, WalConfig, WalStore};
    use super::FrameWrite;
    use crate::entry::{Change, WriteBatch};
    use crate::store::{ErrorKind, PersistentState, Store};
    use raft::eraftpb::Entry;

    /// A disk whose syncs take a while, or fail.
    #[derive(Clone)]
    struct Slow(SimDisk, Arc<AtomicU32>);

    struct SlowFile(Box<dyn DiskFile>, Arc<AtomicU32>);

    const FAILS: u32 = u32::MAX;

    impl Disk for Slow {
        fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
            Ok(Box::new(SlowFile(self.0.create(name)?, Arc::clone(&self.1))))
        }
        fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
            Ok(Box::new(SlowFile(self.0.open(name)?, Arc::clone(&self.1))))
        }
        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.0.rename(from, to)
        }
        fn remove(&self, name: &str) -> io::Result<()> {
            self.0.remove(name)
        }
        fn list(&self) -> io::Result<Vec<String>> {
            self.0.list()
        }
        fn sync(&self) -> io::Result<()> {
            self.0.sync()
        }
        fn salt(&self) -> io::Result<u64> {
            self.0.salt()
        }
        fn free_bytes(&self) -> io::Result<u64> {
            self.0.free_bytes()
        }
    }

    impl DiskFile for SlowFile {
        fn bytes(&self) -> io::Result<u64> {
            self.0.bytes()
        }
        fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
            self.0.read_at(at, bytes)
        }
        fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.write_at(at, bytes)
        }
        fn cut(&self, len: u64) -> io::Result<()> {
            self.0.cut(len)
        }
        fn sync(&self) -> io::Result<()> {
            match self.1.load(Ordering::Relaxed) {
                FAILS => return Err(io::Error::other("a broken disk")),
                ms => std::thread::sleep(Duration::from_millis(ms.into())),
            }
            self.0.sync()
        }
    }

    /// A store on a slow disk, the wakes of its thread, and its next entry.
    fn store(disk: &Slow) -> (WalStore, Receiver<()>, u64) {
        let founder = PersistentState::founder(7, 1, vec![1]);
        let mut store =
            WalStore::create(Arc::new(disk.clone()), &founder, 1000, &WalConfig::default()).expect("a store");
        let (woken, wakes) = mpsc::channel();
        store.write_beside(Box::new(move || woken.send(()).unwrap_or_default())).expect("a thread");
        store.set_vote(2, 1).expect("a vote");
        let next = store.last() + 1;
        (store, wakes, next)
    }

    fn append(store: &mut WalStore, index: u64) {
        store.append(&[Entry { index, term: 2, ..Entry::default() }]).expect("an entry");
    }

    /// Hazard: the caller of a slow disk answers nobody until each sync is over; or what it is told
    /// to be durable is not.
    #[test]
    fn a_slow_sync_is_done_beside_and_said_when_it_is_over() {
        let disk = Slow(SimDisk::default(), Arc::default());
        let (mut store, wakes, first) = store(&disk);
        append(&mut store, first);
        assert!(store.begin_persist().expect("a disk"), "a fast disk needs no thread");
        disk.1.store(2, Ordering::Relaxed);
        let (mut index, mut beside) = (first, 0);
        for _ in 0..20 {
            index += 1;
            append(&mut store, index);
            if store.begin_persist().expect("a disk") {
                continue;
            }
            beside += 1;
            // The entries that come meanwhile belong to the next frame.
            index += 1;
            append(&mut store, index);
            wakes.recv_timeout(Duration::from_secs(60)).expect("it calls");
            assert!(store.end_persist().expect("a disk"));
            // Nothing that was not synced survives.
            let left = disk.0.after_power_failure(&mut perdura_pmem::sim::Random::new(index));
            let opened = WalStore::open(Arc::new(left), &WalConfig::default()).expect("a sound log");
            assert_eq!(opened.last(), index - 1);
        }
        assert!(beside > 10, "{beside} of 20 beside");
        store.persist().expect("a disk");
        assert!(store.end_persist().expect("a disk") && store.last() == index);
        drop(store);
        assert_eq!(WalStore::open(Arc::new(disk.0), &WalConfig::default()).expect("a sound log").last(), index);
    }

    /// Hazard: a value of megabytes holds the caller up on the fastest file; or the small frames
    /// after it are handed over because it took long.
    #[test]
    fn a_large_frame_is_written_beside_on_a_fast_disk() {
        let disk = Slow(SimDisk::default(), Arc::default());
        let (mut store, wakes, index) = store(&disk);
        let value = vec![b'v'; super::LARGE_BYTES].into();
        let batch = WriteBatch { clock_ms: 2000, changes: vec![Change { key: "key".into(), value: Some(value) }] };
        let entry = Entry { index, term: 2, data: batch.to_bytes(), ..Entry::default() };
        store.append(&[entry]).expect("an entry");
        assert!(!store.begin_persist().expect("a disk"), "the caller writes it");
        wakes.recv_timeout(Duration::from_secs(60)).expect("it calls");
        assert!(store.end_persist().expect("a disk"));
        append(&mut store, index + 1);
        assert!(store.begin_persist().expect("a disk"), "a small frame is handed over");
        drop(store);
        assert_eq!(WalStore::open(Arc::new(disk.0), &WalConfig::default()).expect("a sound log").last(), index + 1);
    }

    /// Hazard: zeros that there was only a part of the room for take that part from what counts.
    #[test]
    fn zeros_without_room_leave_the_room_there_is() {
        let disk = SimDisk::default();
        let file: Arc<dyn DiskFile> = Arc::from(disk.create("log").expect("a new file"));
        let seal = Seal { salt: 7, of: 1 };
        let end = Seal::frame_bytes(100);
        disk.limit(end + 5000);
        let items = vec![1; 100].into();
        let zeros = end..end + 8000;
        let write = FrameWrite { file, name: "log".into(), at: 0, seal, number: 0, items, zeros };
        assert!(!write.run().expect("room for the frame"));
        assert_eq!((write.file.bytes().expect("a file"), disk.free_bytes().expect("a disk")), (end, 5000));
        disk.limit(0);
        assert!(write.run().expect("room for all"));
        assert_eq!(write.file.bytes().expect("a file"), end + 8000);
    }

    #[test]
    fn a_failure_beside_is_that_of_the_store() {
        let disk = Slow(SimDisk::default(), Arc::new(AtomicU32::new(2)));
        let (mut store, wakes, mut index) = store(&disk);
        append(&mut store, index);
        while store.begin_persist().expect("a disk") {
            index += 1;
            append(&mut store, index);
        }
        wakes.recv_timeout(Duration::from_secs(60)).expect("it calls");
        assert!(store.end_persist().expect("a disk"));
        disk.1.store(FAILS, Ordering::Relaxed);
        append(&mut store, index + 1);
        assert!(!store.begin_persist().expect("it is begun"));
        wakes.recv_timeout(Duration::from_secs(60)).expect("it calls");
        assert_eq!(store.end_persist().expect_err("a broken disk").kind(), ErrorKind::Medium);
        let again = store.begin_persist().expect_err("the store is not used any more");
        assert!(again.to_string().contains("a broken disk"), "{again}");
    }
}
