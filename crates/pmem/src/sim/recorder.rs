//! The recorder: keeps every event of a medium in a compact trace, to be replayed any number of times.
//!
//! Recording costs one short lock per event. Call sites, names and labels are numbered; the words of a store lie in
//! one common array. Flushes and fences have no effect on what the program sees, so which of them "happened" is
//! decided when the trace is replayed, and one trace serves every mutation.

use super::SimMedium;
use super::image::Image;
use super::killed::{Before, Killed};
use crate::region::{LINE_BYTES, WORD_BYTES, lines};
use crate::trace::{Access, Site, Tap};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One recorded event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Thread, numbered in the order in which threads appear in the trace.
    pub thread: u16,
    /// Call site, to be looked up by [`Trace::site`].
    pub site: u32,
    /// What happened.
    pub kind: EventKind,
}

/// What happened. Files, names and labels are numbers of the trace's.
#[derive(Clone, Copy, Debug)]
pub enum EventKind {
    /// `count` words from `word` on (offset / 8), their values at `values` of the trace.
    Store {
        /// File.
        file: u32,
        /// First word.
        word: u32,
        /// Number of words.
        count: u32,
        /// Place of the values.
        values: u32,
        /// Whether non-temporal.
        nt: bool,
    },
    /// Flush of `count` lines.
    Flush {
        /// File.
        file: u32,
        /// First line.
        line: u32,
        /// Number of lines.
        count: u32,
    },
    /// What was seen of `count` lines is made durable, whoever stored it.
    Reclaim {
        /// File.
        file: u32,
        /// First line.
        line: u32,
        /// Number of lines.
        count: u32,
    },
    /// Fence.
    Fence,
    /// Sync of a file.
    Sync {
        /// File.
        file: u32,
    },
    /// Creation of a file.
    Create {
        /// File.
        file: u32,
        /// Name.
        name: u32,
        /// Length in bytes.
        len: u64,
    },
    /// Removal of a name.
    Remove {
        /// Name.
        name: u32,
    },
    /// Change of a name.
    Rename {
        /// Name before.
        from: u32,
        /// Name after.
        to: u32,
    },
    /// Sync of the directory.
    SyncDir,
    /// The process ended, and what it stored past the cache is on the medium.
    Ended,
    /// Begin of a labelled stretch.
    Enter(u32),
    /// End of a labelled stretch.
    Leave(u32),
    /// Something the oracle must know.
    Mark(u64),
    /// An acknowledgement.
    Ack(u64),
}

/// A mark or acknowledgement, in the order of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Place of the event in the trace.
    pub index: usize,
    /// Thread.
    pub thread: u16,
    /// Whether an acknowledgement.
    pub is_ack: bool,
    /// What was told.
    pub payload: u64,
}

/// Kinds of call sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SiteKind {
    /// Flush (or the flush of a persist).
    Flush,
    /// Fence (or the fence of a persist).
    Fence,
    /// Store of any kind.
    Store,
    /// Sync of a file.
    Sync,
    /// Reclaim of what a killed process left.
    Reclaim,
}

/// A call site. That of a persist counts as two: its flush and its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallSite {
    /// Source file, as the compiler names it.
    pub file: &'static str,
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
    /// What was called.
    pub kind: SiteKind,
}

impl CallSite {
    pub(crate) fn new(site: Site, kind: SiteKind) -> CallSite {
        CallSite { file: site.file(), line: site.line(), column: site.column(), kind }
    }
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            SiteKind::Flush => "flush",
            SiteKind::Fence => "fence",
            SiteKind::Store => "store",
            SiteKind::Sync => "sync",
            SiteKind::Reclaim => "reclaim",
        };
        write!(f, "{}:{}:{} ({kind})", self.file, self.line, self.column)
    }
}

/// A recording: what the medium held at its begin, and all that happened since.
#[derive(Clone, Default)]
pub struct Trace {
    pub(crate) base: Before,
    pub(crate) events: Vec<Event>,
    pub(crate) values: Vec<u64>,
    pub(crate) sites: Vec<Site>,
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) labels: Vec<&'static str>,
    pub(crate) marks: Vec<Mark>,
}

impl Trace {
    /// All events in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// All marks and acknowledgements in order.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Values of a store event.
    pub fn values(&self, at: u32, count: u32) -> &[u64] {
        &self.values[at as usize..][..count as usize]
    }

    /// The call site with this number.
    pub fn site(&self, number: u32) -> Site {
        self.sites[number as usize]
    }

    /// The medium's content when the recording began.
    pub fn base(&self) -> Image {
        Killed(self.base.clone()).image()
    }

    /// All call sites reached, with the number of calls from each, by place.
    pub fn sites(&self) -> BTreeMap<CallSite, u64> {
        let mut counts = FxHashMap::<(u32, SiteKind), u64>::default();
        for event in &self.events {
            let kind = match event.kind {
                EventKind::Flush { .. } => SiteKind::Flush,
                EventKind::Fence => SiteKind::Fence,
                EventKind::Store { .. } => SiteKind::Store,
                EventKind::Sync { .. } => SiteKind::Sync,
                EventKind::Reclaim { .. } => SiteKind::Reclaim,
                _ => continue,
            };
            *counts.entry((event.site, kind)).or_default() += 1;
        }
        counts.into_iter().map(|((site, kind), count)| (CallSite::new(self.site(site), kind), count)).collect()
    }

    /// All labels of stretches that were begun.
    pub fn labels(&self) -> &[&'static str] {
        &self.labels
    }
}

/// Records the events of one medium.
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
    /// The same medium, recorded from now on, and its recorder. Regions mapped earlier stay unrecorded.
    pub fn attach(medium: SimMedium) -> (SimMedium, Arc<Recorder>) {
        let recorder = Arc::new(Recorder::default());
        recorder.inner.lock().trace.base = Before::durable(medium.numbered_files());
        (medium.recording(recorder.clone()), recorder)
    }

    /// The medium that a killed process left, recorded from now on, and its recorder. What was not durable then is not until it
    /// is flushed and fenced, or reclaimed.
    pub fn resume(killed: Killed) -> (SimMedium, Arc<Recorder>) {
        let recorder = Arc::new(Recorder::default());
        let medium = SimMedium::of_files(killed.0.seen(), &killed.0.files);
        recorder.inner.lock().trace.base = killed.0;
        (medium.recording(recorder.clone()), recorder)
    }

    /// What was recorded so far.
    pub fn trace(&self) -> Trace {
        self.inner.lock().trace.clone()
    }

    /// What was recorded, for good: what happens after it goes into an empty recording that cannot be replayed.
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
