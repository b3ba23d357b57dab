//! Ranges that threads have flushed, until they fence: how the mapped files of a page medium are
//! flushed, drained and copied to.

use super::paged::{FENCE_BYTES, FenceLog, FencedPart, PagedFile, WordToStore, extend};
use crate::functions::Publish;
use crate::mutant::Mutant;
use crate::planted;
use crate::region::{Functions, PLAIN};
use crate::units::LINE_BYTES;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};
use std::ops::Range;
use std::sync::Arc;

/// How the files of a page medium are flushed, drained and copied to.
pub(super) const PAGED: Functions = Functions { flush, flush_settled: flush, drain, memcpy, memset, publish: None };

/// The same with a journal, whose checkpoints sync all that is stored.
pub(super) const JOURNALED: Functions = Functions { flush_settled: flush_nothing, publish: Some(&PUBLISH), ..PAGED };

const PUBLISH: Publish = Publish { now: publish, later: publish_later, wait: wait_published };

/// Ranges of a file at most, until the one that covers them is all that is noted.
const RANGES_MAX: usize = 256;

/// Part of a file that a thread has flushed and not fenced.
struct NotedFile {
    file: Arc<PagedFile>,
    /// The least range that covers all, of whole lines.
    cover: Range<usize>,
    /// Whole lines, for the journal; none if they are many.
    lines: SmallVec<[Range<usize>; 4]>,
    bytes: usize,
}

impl NotedFile {
    fn new(file: Arc<PagedFile>, range: Range<usize>) -> NotedFile {
        let range = whole_lines(&file, &range);
        let mut noted = NotedFile { file, cover: range.clone(), lines: SmallVec::new(), bytes: 0 };
        noted.add_lines(range);
        noted
    }

    fn add(&mut self, range: &Range<usize>) {
        let range = whole_lines(&self.file, range);
        // Planted: a sync of much takes what was flushed first.
        if !planted(Mutant::SyncOfFirstFlush) {
            extend(&mut self.cover, &range);
        }
        if !self.is_large() {
            self.add_lines(range);
        }
    }

    fn add_lines(&mut self, range: Range<usize>) {
        match self.lines.last_mut() {
            Some(last) if last.start <= range.start && range.end <= last.end => return,
            // Bytes that are written are mostly flushed in their order.
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.lines.push(range.clone()),
        }
        self.bytes += range.len();
        if self.is_large() {
            self.lines = SmallVec::new();
            self.bytes = usize::MAX;
        }
    }

    /// Whether a sync costs less than to write it to the journal.
    fn is_large(&self) -> bool {
        self.bytes > FENCE_BYTES || self.lines.len() > RANGES_MAX
    }
}

/// The lines of `file` that a range touches: to flush a word is to flush its line.
fn whole_lines(file: &PagedFile, range: &Range<usize>) -> Range<usize> {
    let line = LINE_BYTES as usize;
    range.start / line * line..file.end().min(range.end.next_multiple_of(line))
}

/// Ranges that a thread has flushed and not fenced, by file: no more than [`RANGES_MAX`] of each.
struct Noted(Vec<NotedFile>);

thread_local! {
    static NOTED: RefCell<Noted> = const { RefCell::new(Noted(Vec::new())) };
}

impl Noted {
    fn add(&mut self, range: Range<usize>) {
        if let Some(noted) = self.0.iter_mut().find(|noted| noted.file.has(range.start)) {
            noted.add(&range);
        } else if let Some(file) = PagedFile::at(range.start) {
            self.0.push(NotedFile::new(file, range));
        }
    }

    /// Makes all of it durable, or the media have failed.
    fn fence(self) {
        self.fence_with(&[], false);
    }

    /// The same, with words that are to be stored in files of one medium with a journal. If that is
    /// to be `later`, what is little need not be durable on return.
    fn fence_with(self, words: &[WordToStore], later: bool) {
        let mut journals: Vec<(Arc<dyn FenceLog>, Vec<FencedPart>)> = Vec::new();
        let mut bytes = 0_usize;
        for noted in self.0 {
            let Some(journal) = noted.file.fence_log().cloned() else {
                noted.file.sync(noted.cover);
                continue;
            };
            let with_this = bytes.saturating_add(noted.bytes);
            if with_this > FENCE_BYTES {
                let below = journal.now();
                noted.file.sync(noted.cover.clone());
                // Planted: older pieces of what was synced stay in force.
                if !planted(Mutant::SyncLeavesOlderPieces) {
                    journal.void(&noted.file, &noted.cover, below);
                }
                continue;
            }
            bytes = with_this;
            let part = (noted.file, noted.lines);
            match journals.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &journal)) {
                Some((_, parts)) => parts.push(part),
                None => journals.push((journal, vec![part])),
            }
        }
        let of_words = words.first().and_then(|(file, ..)| file.fence_log().cloned()).map(|journal| {
            let own = journals.iter().position(|(known, _)| Arc::ptr_eq(known, &journal));
            (journal, own.map_or_else(Vec::new, |own| journals.remove(own).1))
        });
        let append = |journal: &dyn FenceLog, parts: &[FencedPart], words: &[WordToStore]| match later {
            true => journal.append_later(parts, words),
            false => journal.append(parts, words),
        };
        journals.iter().for_each(|(journal, parts)| append(&**journal, parts, &[]));
        if let Some((journal, parts)) = of_words {
            append(&*journal, &parts, words);
        }
    }
}

unsafe fn publish(words: &[(usize, u64)]) {
    store_in_order(words, false);
}

unsafe fn publish_later(words: &[(usize, u64)]) {
    store_in_order(words, true);
}

unsafe fn wait_published(address: usize) {
    if let Some(journal) = PagedFile::at(address).as_ref().and_then(|file| file.fence_log()) {
        journal.wait_later();
    }
}

fn store_in_order(words: &[(usize, u64)], later: bool) {
    let noted = NOTED.try_with(|noted| std::mem::take(&mut noted.borrow_mut().0)).unwrap_or_default();
    let named = words.iter().filter_map(|(address, value)| Some((PagedFile::at(*address)?, *address, *value)));
    let named: SmallVec<[WordToStore; 8]> = named.collect();
    Noted(noted).fence_with(&named, later);
}

fn note(address: *const c_void, len: usize) {
    if len == 0 {
        return;
    }
    let range = address.addr()..address.addr() + len;
    if NOTED.try_with(|noted| noted.borrow_mut().add(range.clone())).is_err() {
        // The thread is ending and notes nothing any more.
        PagedFile::at(range.start)
            .into_iter()
            .for_each(|file| Noted(vec![NotedFile::new(file, range.clone())]).fence());
    }
}

unsafe extern "C" fn flush(address: *const c_void, len: usize) {
    note(address, len);
}

unsafe extern "C" fn flush_nothing(_address: *const c_void, _len: usize) {}

unsafe extern "C" fn drain() {
    let noted = NOTED.try_with(|noted| std::mem::take(&mut noted.borrow_mut().0)).unwrap_or_default();
    if !noted.is_empty() {
        Noted(noted).fence();
    }
}

unsafe extern "C" fn memcpy(target: *mut c_void, source: *const c_void, len: usize, flags: c_uint) -> *mut c_void {
    // SAFETY: valid, disjoint ranges by the caller's promise (Region::write_nt).
    unsafe { (PLAIN.memcpy)(target, source, len, flags) };
    note(target, len);
    target
}

unsafe extern "C" fn memset(target: *mut c_void, value: c_int, len: usize, flags: c_uint) -> *mut c_void {
    // SAFETY: a valid range by the caller's promise (Region::zero).
    unsafe { (PLAIN.memset)(target, value, len, flags) };
    note(target, len);
    target
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::syncs::Syncs;
    use std::path::Path;

    fn files(count: usize) -> (Arc<Syncs>, Vec<Arc<PagedFile>>) {
        let syncs = Arc::new(Syncs::new("a test".to_owned()));
        let file = |_| {
            let file = tempfile::tempfile().expect("a temporary file");
            file.set_len(1 << 20).expect("there is room");
            PagedFile::new(Path::new("a file"), file, 1 << 20, &syncs, None).expect("it is mapped")
        };
        let files = (0..count).map(file).collect();
        (syncs, files)
    }

    /// Hazard: a load flushes millions of pages before its fence.
    #[test]
    fn a_thread_notes_few_ranges_a_file_however_much_it_flushes() {
        let (syncs, files) = files(3);
        for step in 0..10_000 {
            let offset = step * 4243 % (1 << 20);
            note(files[step % 3].address().wrapping_byte_add(offset), 8);
            NOTED.with_borrow(|noted| {
                assert!(noted.0.len() <= 3 && noted.0.iter().all(|noted| noted.lines.len() <= RANGES_MAX));
            });
        }
        // SAFETY: draining has no precondition.
        unsafe { drain() };
        assert_eq!((NOTED.with_borrow(|noted| noted.0.len()), syncs.count()), (0, 3));
    }

    /// Hazard: a thread that never fences keeps files mapped, whose blocks nobody gets back.
    #[test]
    fn a_thread_that_ends_lets_go_of_what_it_has_noted() {
        let (syncs, mut files) = files(1);
        let file = files.pop().expect("one");
        let noted = file.clone();
        std::thread::spawn(move || note(noted.address(), 8)).join().expect("it does not panic");
        let (address, left) = (file.begin(), Arc::downgrade(&file));
        drop(file);
        assert!(left.upgrade().is_none() && PagedFile::at(address).is_none());
        assert_eq!(syncs.count(), 0);
    }
}
