//! The pre-fault service: maps pages ahead of the writers, so that first stores do not fault.

use crate::error::{Error, ErrorKind};
use crate::numa::Locality;
use crate::region::Region;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Bytes populated at a time: a large page.
const CHUNK_BYTES: u64 = 2 << 20;
const PAGE_BYTES: u64 = 4096;

/// Which requests go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Somebody writes there soon.
    High,
    /// When nothing else is to do.
    Low,
}

/// Receives the errors of the service's threads.
type ErrorHandler = Box<dyn Fn(&Error) + Send + Sync>;

/// The service; dropping it stops and joins its threads.
///
/// Dedicated threads (`perdura-prefault`) work through a queue in chunks of 2 MiB with
/// `MADV_POPULATE_WRITE`, urgent regions first, those of one priority in turns. Where the kernel
/// lacks that, pages are read, which saves a part of the fault. The threads work where their
/// [`Locality`] has them; memory of a file system in DRAM comes from the node of the thread that
/// touches it first. A chunk that cannot be populated (damaged memory) is reported with file and
/// offset, and the rest of its region is left alone; the queue goes on.
pub struct Prefault {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Notified when nothing is queued any more, and when the threads pause.
    idle: Condvar,
    queued_bytes: AtomicU64,
    done_bytes: AtomicU64,
    failures: AtomicU64,
    on_error: Mutex<Option<Arc<ErrorHandler>>>,
}

struct State {
    high: VecDeque<Job>,
    low: VecDeque<Job>,
    enabled: bool,
    stopped: bool,
}

struct Job {
    region: Region,
    range: Range<u64>,
    priority: Priority,
}

impl State {
    fn queue(&mut self, priority: Priority) -> &mut VecDeque<Job> {
        match priority {
            Priority::High => &mut self.high,
            Priority::Low => &mut self.low,
        }
    }

    /// Takes the next chunk. The job's range is what remains after it.
    fn next_chunk(&mut self) -> Option<(Job, Range<u64>)> {
        let mut job = self.high.pop_front().or_else(|| self.low.pop_front())?;
        let begin = job.range.start;
        job.range.start = ((begin / CHUNK_BYTES + 1) * CHUNK_BYTES).min(job.range.end);
        let chunk = begin..job.range.start;
        Some((job, chunk))
    }
}

impl Prefault {
    /// Starts the service with up to `threads` threads (at least 1; fewer if the system refuses
    /// some), at work only while enabled, and attached to `locality`.
    pub fn start(threads: usize, enabled: bool, locality: &Locality) -> Prefault {
        let shared = Arc::new(Shared {
            state: Mutex::new(State { high: VecDeque::new(), low: VecDeque::new(), enabled, stopped: false }),
            wake: Condvar::new(),
            idle: Condvar::new(),
            queued_bytes: AtomicU64::new(0),
            done_bytes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            on_error: Mutex::new(None),
        });
        let spawn = |_| {
            let (shared, locality) = (shared.clone(), locality.clone());
            let builder = std::thread::Builder::new().name("perdura-prefault".to_owned());
            builder.spawn(move || work(&shared, &locality)).ok()
        };
        Prefault { threads: (0..threads.max(1)).filter_map(spawn).collect(), shared }
    }

    /// Queues `len` bytes of `region` at `offset`. Ignores what lies beyond its end.
    pub fn submit(&self, region: Region, offset: u64, len: u64, priority: Priority) {
        let end = offset.saturating_add(len).min(region.len());
        if offset >= end {
            return;
        }
        self.shared.queued_bytes.fetch_add(end - offset, Ordering::Relaxed);
        let job = Job { region, range: offset..end, priority };
        self.shared.state.lock().queue(priority).push_back(job);
        self.shared.wake.notify_one();
    }

    /// Lets the threads work or pause; what is queued stays queued.
    pub fn set_enabled(&self, enabled: bool) {
        self.shared.state.lock().enabled = enabled;
        self.shared.wake.notify_all();
        self.shared.idle.notify_all();
    }

    /// Waits until nothing is queued. It waits for nothing while the service is disabled.
    pub fn wait(&self) {
        let mut state = self.shared.state.lock();
        while state.enabled && self.queued_bytes() > 0 && !self.threads.is_empty() {
            self.shared.idle.wait(&mut state);
        }
    }

    /// Whether the threads work.
    pub fn is_enabled(&self) -> bool {
        self.shared.state.lock().enabled
    }

    /// Sets the handler of chunks that could not be populated. It runs on the service's threads.
    pub fn set_error_handler(&self, handler: impl Fn(&Error) + Send + Sync + 'static) {
        *self.shared.on_error.lock() = Some(Arc::new(Box::new(handler)));
    }

    /// Bytes asked for and not yet done.
    pub fn queued_bytes(&self) -> u64 {
        self.shared.queued_bytes.load(Ordering::Relaxed)
    }

    /// Bytes populated since the start.
    pub fn done_bytes(&self) -> u64 {
        self.shared.done_bytes.load(Ordering::Relaxed)
    }

    /// Requests given up because of an error.
    pub fn failures(&self) -> u64 {
        self.shared.failures.load(Ordering::Relaxed)
    }
}

impl Drop for Prefault {
    fn drop(&mut self) {
        self.shared.state.lock().stopped = true;
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // A panic there was in an error handler; it has been printed, and nothing depends on
            // the thread.
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared, locality: &Locality) {
    let _attachment = locality.attach();
    while let Some((job, chunk)) = shared.next_chunk() {
        shared.finish(job, &chunk);
    }
}

impl Shared {
    /// Waits for work, as [`State::next_chunk`] gives it; `None` when stopped.
    fn next_chunk(&self) -> Option<(Job, Range<u64>)> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            if state.enabled
                && let Some(next) = state.next_chunk()
            {
                return Some(next);
            }
            self.wake.wait(&mut state);
        }
    }

    /// Populates the chunk and queues the rest of its job again, behind others of its priority: the
    /// beginnings of all regions are wanted before the end of any.
    fn finish(&self, job: Job, chunk: &Range<u64>) {
        let len = chunk.end - chunk.start;
        match populate(&job.region, chunk) {
            Ok(()) => {
                self.done_bytes.fetch_add(len, Ordering::Relaxed);
                self.queued_bytes.fetch_sub(len, Ordering::Relaxed);
                if !job.range.is_empty() {
                    self.state.lock().queue(job.priority).push_back(job);
                }
            }
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                self.queued_bytes.fetch_sub(job.range.end - chunk.start, Ordering::Relaxed);
                let handler = self.on_error.lock().clone();
                if let Some(handler) = handler {
                    handler(&error);
                }
            }
        }
        if self.queued_bytes.load(Ordering::Relaxed) == 0 {
            // A thread that is about to wait has looked before, or looks after this.
            drop(self.state.lock());
            self.idle.notify_all();
        }
    }
}

fn populate(region: &Region, chunk: &Range<u64>) -> Result<(), Error> {
    match region.advise_populate(chunk.start, chunk.end - chunk.start) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            let mut byte = [0];
            for offset in (chunk.start..chunk.end).step_by(PAGE_BYTES as usize) {
                region.read(offset, &mut byte);
                std::hint::black_box(byte);
            }
            Ok(())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Medium, SimMedium};

    /// A load writes to the beginning of a new file while the log's lanes are still in the queue.
    #[test]
    fn regions_of_one_priority_take_turns() {
        let prefault = Prefault::start(1, false, &Locality::off("a test"));
        let medium = SimMedium::new();
        for name in ["a", "b"] {
            let region = medium.create(name, 2 * CHUNK_BYTES).expect("there is room");
            prefault.submit(region, 0, u64::MAX, Priority::High);
        }
        let shared = &prefault.shared;
        let mut order = Vec::new();
        for _ in 0..4 {
            // The service's own thread takes chunks while it is enabled only.
            let (job, chunk) = shared.state.lock().next_chunk().expect("there are four chunks");
            order.push((job.region.name().to_owned(), chunk.start));
            shared.finish(job, &chunk);
        }
        let expected = [("a", 0), ("b", 0), ("a", CHUNK_BYTES), ("b", CHUNK_BYTES)];
        assert_eq!(order, expected.map(|(name, begin)| (name.to_owned(), begin)));
        assert_eq!(prefault.queued_bytes(), 0);
    }
}
