//! The machine as a trace is replayed: what is durable, and what is open.
//!
//! Invariant: of a thread, `flushed` and `streamed` are what its next fence settles. Those of the
//! files are in `file_state.rs`.

use super::event::{Event, EventKind};
use super::file_state::FileState;
use super::lines::Pending;
use super::names::{Change, Directory};
use super::recording::Trace;
use rustc_hash::FxHashMap;

/// Flushes and stores that a thread's next fence settles.
#[derive(Default)]
struct ThreadState {
    /// File, line, and place in the trace of the flush.
    flushed: Vec<(u32, u32, u32)>,
    /// File and line of non-temporal stores.
    streamed: Vec<(u32, u32)>,
}

/// Durable and open state of the medium.
pub(crate) struct Machine {
    /// By number; files that no crash can leave with a name are gone.
    pub(crate) files: FxHashMap<u32, FileState>,
    pub(crate) directory: Directory,
    /// Whether sectors reach the medium rather than lines.
    pub(crate) is_paged: bool,
    threads: Vec<ThreadState>,
}

impl Machine {
    /// The state at the start of a trace.
    pub(crate) fn new(trace: &Trace) -> Machine {
        let threads = trace.events.iter().map(|event| usize::from(event.thread) + 1).max().unwrap_or(0);
        Machine {
            files: trace.base.files.clone(),
            directory: trace.base.directory.clone(),
            is_paged: trace.base.is_paged,
            threads: (0..threads).map(|_| ThreadState::default()).collect(),
        }
    }

    /// Applies event `index` of the trace.
    pub(crate) fn apply(&mut self, trace: &Trace, index: u32, event: &Event) {
        let at = trace.base.places + index;
        let name = |number: u32| trace.names[number as usize].clone();
        match event.kind {
            EventKind::Store { file, word, count, values, nt } => {
                self.store(
                    file,
                    word,
                    trace.values(values, count),
                    Pending { at, thread: event.thread, word: 0, nt, value: 0 },
                );
            }
            EventKind::Flush { file, line, count } => {
                let Some(state) = self.files.get(&file) else { return };
                let open = (line..line + count).filter(|line| state.open.contains_key(line));
                self.threads[usize::from(event.thread)].flushed.extend(open.map(|line| (file, line, at)));
            }
            EventKind::Reclaim { file, line, count } => {
                let Some(state) = self.files.get_mut(&file) else { return };
                for line in line..line + count {
                    state.settle(line, |pending| !pending.nt && pending.at < at);
                }
            }
            EventKind::Fence => self.fence(event.thread),
            EventKind::Sync { file } => {
                if let Some(file) = self.files.get_mut(&file) {
                    file.synced = true;
                }
            }
            EventKind::Sectors { file } => {
                if let Some(file) = self.files.get_mut(&file) {
                    file.is_written = true;
                }
            }
            EventKind::Create { file, name: number, len } => {
                self.files.insert(file, FileState::empty(len));
                self.directory.open.push(Change::Create { name: name(number), file });
            }
            EventKind::Remove { name: number } => self.directory.open.push(Change::Remove { name: name(number) }),
            EventKind::Rename { from, to } => {
                self.directory.open.push(Change::Rename { from: name(from), to: name(to) });
            }
            EventKind::SyncDir => {
                self.directory.sync();
                let Machine { files, directory, .. } = self;
                files.retain(|number, _| directory.can_name(*number));
            }
            EventKind::Ended => {
                for file in self.files.values_mut() {
                    file.drain(self.is_paged);
                }
                self.threads.iter_mut().for_each(|thread| *thread = ThreadState::default());
            }
            EventKind::Enter(_) | EventKind::Leave(_) | EventKind::Mark(_) | EventKind::Ack(_) => {}
        }
    }

    /// Whether an event reclaims a line that has stores through the cache open.
    pub(crate) fn is_effective_reclaim(&self, event: &EventKind) -> bool {
        let EventKind::Reclaim { file, line, count } = *event else { return false };
        let Some(state) = self.files.get(&file) else { return false };
        (line..line + count)
            .filter_map(|line| state.open.get(&line))
            .any(|open| open.pending.iter().any(|store| !store.nt))
    }

    fn store(&mut self, file: u32, word: u32, values: &[u64], store: Pending) {
        let Some(state) = self.files.get_mut(&file) else { return };
        let streamed = &mut self.threads[usize::from(store.thread)].streamed;
        let mut words = (word..).zip(values).peekable();
        while let Some((word, _)) = words.peek() {
            let line = word / 8;
            let open = state.open.entry(line).or_default();
            while let Some((word, value)) = words.next_if(|(word, _)| word / 8 == line) {
                open.pending.push(Pending { word: (word % 8) as u8, value: *value, ..store });
            }
            if store.nt {
                streamed.push((file, line));
            }
        }
    }

    fn fence(&mut self, thread: u16) {
        let ThreadState { mut flushed, mut streamed } = std::mem::take(&mut self.threads[usize::from(thread)]);
        for (file, line, at) in flushed.drain(..) {
            if let Some(file) = self.files.get_mut(&file) {
                file.settle(line, |pending| !pending.nt && pending.at < at);
            }
        }
        for (file, line) in streamed.drain(..) {
            if let Some(file) = self.files.get_mut(&file) {
                file.settle(line, |pending| pending.nt && pending.thread == thread);
            }
        }
        // The lists keep their room for the next round.
        self.threads[usize::from(thread)] = ThreadState { flushed, streamed };
    }
}
