//! The lint: lines an acknowledging thread left open, and flushes that did nothing.

use super::event::{CallSite, Event, EventKind, SiteKind};
use super::machine::Machine;
use super::recording::Trace;
use crate::trace::TRANSIENT;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// Findings of the lint, by call site.
///
/// At each acknowledgement every store of that thread should be flushed and fenced. A flush of a
/// line is redundant if nothing was stored there, through the cache, since it was last flushed: by
/// the same thread, or by another whose fence is over (until then a thread that relies on the line
/// must flush it itself, I3). What another thread has stored since the thread's last
/// acknowledgement may have been stored on its behalf: it cannot know whether that is flushed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Stores left unflushed or unfenced at an acknowledgement by the thread that made them.
    pub open_at_ack: BTreeMap<CallSite, u64>,
    /// Lines flushed although nothing was stored there since their last flush.
    pub redundant_flushes: BTreeMap<CallSite, u64>,
}

/// State of a line's flushes.
#[derive(Clone, Copy, Default)]
struct Flushed {
    /// Stored to through the cache since the last flush.
    dirty: bool,
    thread: u16,
    fenced: bool,
    /// The thread that stored here last, and when.
    stored: (u16, usize),
}

impl Trace {
    /// Looks over the trace; `checked` selects files by name. A file is checked under the name it
    /// had first.
    pub fn lint(&self, checked: impl Fn(&str) -> bool) -> Findings {
        let mut findings = Findings::default();
        let mut machine = Machine::new(self);
        let mut names: FxHashMap<u32, &str> = FxHashMap::default();
        names.extend(self.base.directory.durable.iter().map(|(name, number)| (*number, &**name)));
        let mut lines = FxHashMap::<(u32, u32), Flushed>::default();
        let mut unfenced = FxHashMap::<u16, Vec<(u32, u32)>>::default();
        let mut acknowledged = FxHashMap::<u16, usize>::default();
        let mut own = FxHashSet::<(u16, u32, u32)>::default();
        let mut transient = Transient::new(self);
        for (index, event) in self.events.iter().enumerate() {
            transient.follow(index as u32, event);
            let is_checked = |file: &u32| names.get(file).is_some_and(|name| checked(name));
            match event.kind {
                EventKind::Create { file, name, .. } => {
                    names.insert(file, &self.names[name as usize]);
                }
                EventKind::Store { file, word, count, nt: false, .. } => {
                    for line in word / 8..(word + count).div_ceil(8) {
                        let known = lines.entry((file, line)).or_default();
                        (known.dirty, known.stored) = (true, (event.thread, index));
                        own.insert((event.thread, file, line));
                    }
                }
                EventKind::Flush { file, line, count } if is_checked(&file) => {
                    for line in line..line + count {
                        let known = lines.entry((file, line)).or_insert(Flushed { fenced: true, ..Flushed::default() });
                        // A thread flushes what it stored itself, even if another one flushed the
                        // line meanwhile (I3).
                        let stored = own.remove(&(event.thread, file, line));
                        let since = acknowledged.get(&event.thread).copied().unwrap_or_default();
                        let on_behalf = known.stored.0 != event.thread && known.stored.1 > since;
                        let is_over = known.fenced && !on_behalf || known.thread == event.thread;
                        if !stored && !known.dirty && is_over && !transient.is_within(event.thread) {
                            let site = CallSite::new(self.site(event.site), SiteKind::Flush);
                            *findings.redundant_flushes.entry(site).or_default() += 1;
                        }
                        *known = Flushed { dirty: false, thread: event.thread, fenced: false, ..*known };
                        unfenced.entry(event.thread).or_default().push((file, line));
                    }
                }
                EventKind::Fence => {
                    for line in unfenced.entry(event.thread).or_default().drain(..) {
                        let known = lines.entry(line).or_default();
                        known.fenced |= known.thread == event.thread;
                    }
                }
                EventKind::Ack(_) => {
                    acknowledged.insert(event.thread, index);
                    self.open_stores(&machine, event.thread, is_checked, &transient, &mut findings);
                }
                _ => {}
            }
            machine.apply(self, index as u32, event);
        }
        findings
    }

    fn open_stores(
        &self,
        machine: &Machine,
        thread: u16,
        checked: impl Fn(&u32) -> bool,
        transient: &Transient,
        findings: &mut Findings,
    ) {
        for (_, file) in machine.files.iter().filter(|(number, _)| checked(number)) {
            let stores = file.open.values().flat_map(|line| &line.pending);
            // No thread answers for the stores of a killed process.
            let places = stores.filter(|store| store.thread == thread && store.at >= self.base.places);
            for index in places.map(|store| store.at - self.base.places).filter(|at| !transient.stores.contains(at)) {
                let site = self.site(self.events[index as usize].site);
                *findings.open_at_ack.entry(CallSite::new(site, SiteKind::Store)).or_default() += 1;
            }
        }
    }
}

/// Spans labelled [`TRANSIENT`], and the stores within them.
struct Transient {
    label: Option<u32>,
    depths: FxHashMap<u16, u32>,
    stores: FxHashSet<u32>,
}

impl Transient {
    fn new(trace: &Trace) -> Transient {
        let label = trace.labels.iter().position(|label| *label == TRANSIENT).map(|label| label as u32);
        Transient { label, depths: FxHashMap::default(), stores: FxHashSet::default() }
    }

    fn is_within(&self, thread: u16) -> bool {
        self.depths.get(&thread).is_some_and(|depth| *depth > 0)
    }

    fn follow(&mut self, index: u32, event: &Event) {
        match event.kind {
            EventKind::Enter(label) if Some(label) == self.label => *self.depths.entry(event.thread).or_default() += 1,
            EventKind::Leave(label) if Some(label) == self.label => *self.depths.entry(event.thread).or_default() -= 1,
            EventKind::Store { .. } if self.is_within(event.thread) => {
                self.stores.insert(index);
            }
            _ => {}
        }
    }
}
