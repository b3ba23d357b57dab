//! The machine as a trace is replayed: what is durable, and what is open.
//!
//! Invariants: `content` of a file is the XOR of its durable lines' hashes; every open line has a pending store; of a
//! thread, `flushed` and `streamed` are what its next fence settles.

use super::hash;
use super::image::{ImageFile, LINE, LineBytes, PAGE_BYTES, Pages, ZERO_PAGE};
use super::lines::{OpenLine, Pending};
use super::names::{Change, Directory};
use super::recorder::{Event, EventKind, Trace};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A file of the replayed medium.
#[derive(Clone)]
pub(crate) struct FileState {
    pub(crate) len: u64,
    /// Whether its size and blocks are durable.
    pub(crate) synced: bool,
    pub(crate) pages: Pages,
    pub(crate) content: u128,
    pub(crate) open: FxHashMap<u32, OpenLine>,
}

impl FileState {
    fn empty(len: u64) -> FileState {
        let count = (len as usize).div_ceil(PAGE_BYTES);
        let pages = Arc::new(vec![ZERO_PAGE.clone(); count]);
        FileState { len, synced: false, pages, content: 0, open: FxHashMap::default() }
    }

    /// A file that is durable as it is.
    pub(crate) fn of(image: &ImageFile) -> FileState {
        let mut file = FileState {
            synced: true,
            pages: image.pages.clone(),
            content: image.content_of_pages(),
            ..FileState::empty(0)
        };
        file.len = image.len;
        for (line, bytes) in &image.overlay {
            file.set_line(*line, bytes);
        }
        file
    }

    /// The durable content of a line.
    pub(crate) fn line(&self, line: u32) -> &LineBytes {
        let at = line as usize * LINE;
        let page = &self.pages[at / PAGE_BYTES];
        page.0[at % PAGE_BYTES..].first_chunk().expect("a line lies within a page")
    }

    fn set_line(&mut self, line: u32, bytes: &LineBytes) {
        let before = self.line(line);
        if before == bytes {
            return;
        }
        self.content ^= hash::line(line, before) ^ hash::line(line, bytes);
        let at = line as usize * LINE;
        let page = &mut Arc::make_mut(&mut self.pages)[at / PAGE_BYTES];
        Arc::make_mut(page).0[at % PAGE_BYTES..][..LINE].copy_from_slice(bytes);
    }

    /// Makes all stores past the cache durable.
    pub(crate) fn drain(&mut self) {
        let lines: Vec<u32> = self.open.keys().copied().collect();
        lines.into_iter().for_each(|line| self.settle(line, |pending| pending.nt));
    }

    /// Makes those stores of an open line durable that `settled` selects.
    pub(crate) fn settle(&mut self, line: u32, settled: impl Fn(&Pending) -> bool) {
        let Some(open) = self.open.get_mut(&line) else { return };
        let at = line as usize * LINE;
        let page = &self.pages[at / PAGE_BYTES];
        let mut bytes = *page.0[at % PAGE_BYTES..].first_chunk().expect("a line lies within a page");
        open.settle(&mut bytes, settled);
        if open.pending.is_empty() {
            self.open.remove(&line);
        }
        self.set_line(line, &bytes);
    }
}

/// What a thread's next fence settles.
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
    threads: Vec<ThreadState>,
}

impl Machine {
    /// The state at the begin of a trace.
    pub(crate) fn new(trace: &Trace) -> Machine {
        let threads = trace.events.iter().map(|event| usize::from(event.thread) + 1).max().unwrap_or(0);
        Machine {
            files: trace.base.files.clone(),
            directory: trace.base.directory.clone(),
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
                    file.drain();
                }
                self.threads.iter_mut().for_each(|thread| *thread = ThreadState::default());
            }
            EventKind::Enter(_) | EventKind::Leave(_) | EventKind::Mark(_) | EventKind::Ack(_) => {}
        }
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
        // The lists keep their room for the next stretch.
        self.threads[usize::from(thread)] = ThreadState { flushed, streamed };
    }
}
