//! The recorder: keeps every event of a medium in a compact trace, to be replayed any number of
//! times.

use super::before::Before;
use super::event::{Event, EventKind, Mark};
use super::killed::Killed;
use super::medium::SimMedium;
use super::recording::Trace;
use crate::trace::{Access, Site, Tap};
use crate::units::{LINE_BYTES, WORD_BYTES, lines};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Records the events of one medium.
///
/// Recording costs one short lock per event. Call sites, names and labels are numbered; the words
/// of a store lie in one common array. Flushes and fences have no effect on what the program sees,
/// so which of them "happened" is decided when the trace is replayed, and one trace serves every
/// mutation.
#[derive(Default)]
pub struct Recorder {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    trace: Trace,
    site_numbers: FxHashMap<usize, u32>,
    name_numbers: FxHashMap<Arc<str>, u32>,
    label_numbers: FxHashMap<&'static str, u32>,
    threads: FxHashMap<u64, u16>,
}

impl Recorder {
    /// The same medium, recorded from now on, and its recorder. Regions mapped earlier stay
    /// unrecorded.
    pub fn attach(medium: SimMedium) -> (SimMedium, Arc<Recorder>) {
        let recorder = Arc::new(Recorder::default());
        recorder.inner.lock().trace.base = Before::durable(medium.numbered_files(), medium.is_paged());
        (medium.recording(recorder.clone()), recorder)
    }

    /// The medium that a killed process left, recorded from now on, and its recorder. What was not
    /// durable then is not until it is flushed and fenced, or reclaimed.
    pub fn resume(killed: Killed) -> (SimMedium, Arc<Recorder>) {
        let recorder = Arc::new(Recorder::default());
        let medium = SimMedium::of_files(killed.0.seen(), &killed.0.files);
        let medium = if killed.0.is_paged { medium.paged() } else { medium };
        recorder.inner.lock().trace.base = killed.0;
        (medium.recording(recorder.clone()), recorder)
    }

    /// Recording so far.
    pub fn trace(&self) -> Trace {
        self.inner.lock().trace.clone()
    }

    /// Takes the recording for good: later events go into an empty recording that cannot be
    /// replayed.
    pub fn finish(&self) -> Trace {
        std::mem::take(&mut *self.inner.lock()).trace
    }

    /// Number of events so far.
    pub fn event_count(&self) -> usize {
        self.inner.lock().trace.events.len()
    }
}

/// A number for each thread of the process, never used again.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

impl Inner {
    fn site(&mut self, site: Site) -> u32 {
        // The same place may have several addresses; equal places get the same number below.
        let address = std::ptr::from_ref(site).addr();
        if let Some(number) = self.site_numbers.get(&address) {
            return *number;
        }
        let known = self.trace.sites.iter().position(|known| *known == site);
        let number = known.unwrap_or_else(|| {
            self.trace.sites.push(site);
            self.trace.sites.len() - 1
        });
        self.site_numbers.insert(address, number as u32);
        number as u32
    }

    fn name(&mut self, name: &str) -> u32 {
        if let Some(number) = self.name_numbers.get(name) {
            return *number;
        }
        let (number, name) = (self.trace.names.len() as u32, Arc::<str>::from(name));
        self.trace.names.push(name.clone());
        self.name_numbers.insert(name, number);
        number
    }

    fn label(&mut self, label: &'static str) -> u32 {
        *self.label_numbers.entry(label).or_insert_with(|| {
            self.trace.labels.push(label);
            self.trace.labels.len() as u32 - 1
        })
    }

    fn mark(&mut self, thread: u16, is_ack: bool, payload: u64) {
        let index = self.trace.events.len();
        self.trace.marks.push(Mark { index, thread, is_ack, payload });
    }

    fn kind(&mut self, access: Access<'_>, thread: u16) -> EventKind {
        match access {
            Access::Store { region, offset, words, nt } => {
                let values = u32::try_from(self.trace.values.len()).expect("a trace holds at most 2^32 words");
                self.trace.values.extend_from_slice(words);
                let word = narrow(offset / WORD_BYTES);
                EventKind::Store { file: region, word, count: words.len() as u32, values, nt }
            }
            Access::Flush { region, offset, len } => {
                EventKind::Flush { file: region, line: narrow(offset / LINE_BYTES), count: narrow(lines(offset, len)) }
            }
            Access::Reclaim { region, offset, len } => {
                let (line, count) = (narrow(offset / LINE_BYTES), narrow(lines(offset, len)));
                EventKind::Reclaim { file: region, line, count }
            }
            Access::Fence => EventKind::Fence,
            Access::Sync { region } => EventKind::Sync { file: region },
            Access::Create { region, name, len } => EventKind::Create { file: region, name: self.name(name), len },
            Access::Sectors { region } => EventKind::Sectors { file: region },
            Access::Remove { name } => EventKind::Remove { name: self.name(name) },
            Access::Rename { from, to } => EventKind::Rename { from: self.name(from), to: self.name(to) },
            Access::SyncDir => EventKind::SyncDir,
            Access::Ended => EventKind::Ended,
            Access::Enter(label) => EventKind::Enter(self.label(label)),
            Access::Leave(label) => EventKind::Leave(self.label(label)),
            Access::Mark(payload) => {
                self.mark(thread, false, payload);
                EventKind::Mark(payload)
            }
            Access::Ack(payload) => {
                self.mark(thread, true, payload);
                EventKind::Ack(payload)
            }
        }
    }
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).expect("recorded files are smaller than 32 GiB")
}

impl Tap for Recorder {
    fn record(&self, access: Access<'_>, site: Site) {
        let number = thread_number();
        let mut inner = self.inner.lock();
        let next = inner.threads.len() as u16;
        let thread = *inner.threads.entry(number).or_insert(next);
        let site = inner.site(site);
        let kind = inner.kind(access, thread);
        inner.trace.events.push(Event { thread, site, kind });
    }
}
