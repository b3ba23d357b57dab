//! The journal of a page medium: what makes a fence one sequential write.
//!
//! A fence appends the content of the ranges that its thread has flushed, and waits until the
//! journal is written; the files' own pages go out whenever the kernel likes. Opening the medium
//! replays the journal (`replay`). So the medium promises what persistent memory does, and what
//! stands on it needs no other argument: after a replay every range has the content of its last
//! fence, or a later one.
//!
//! Owns the segments (`segment`), into which groups go one after the other, each made by all
//! threads that came while the one before was written. A checkpoint ([`Journal::settle`]) syncs the
//! files, and voids the segments before it. Keeps (I1), (I2), (I3), (I11).
//!
//! Content is read when a thread adds to a group, and the group is written later. Where stores that
//! nobody fences are relied on, after a checkpoint or behind a `Void` piece, no older content may
//! come after them: the group that is being made is written first.

mod blocks;
mod format;
mod pages;
mod replay;
mod segment;

pub(super) use replay::Overlay;
pub(super) use segment::Home;

use super::paged::{FENCE_BYTES, FenceLog, FencedPart, PagedFile, WordToStore};
use super::syncs::Syncs;
use crate::error::{Error, Result};
use crate::mutant::Mutant;
use crate::planted;
use crate::split_mix::SplitMix64;
use blocks::Blocks;
use format::{GROUP_HEAD, Header, Piece, SEGMENT_BYTES, seal};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustc_hash::FxHashSet;
use segment::Segment;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Bytes of a group at which threads wait for it to be written before they add to the next.
const GROUP_BYTES: usize = 8 * FENCE_BYTES;
/// Segments there are at least: one is written while the others are voided.
const SEGMENTS_LEAST: usize = 2;
/// Void segments that are kept for their next use.
const SEGMENTS_KEPT: usize = 4;

/// The journal of a page medium.
///
/// Lock order: `state` is a leaf; neither files are synced nor segments written under it.
pub(super) struct Journal {
    home: Home,
    syncs: Arc<Syncs>,
    /// Segments there are at most: a fence that finds them full has all files synced.
    segments_max: usize,
    state: Mutex<State>,
    changed: Condvar,
    /// Somebody has added to a group that is not written, and does not wait for it.
    has_later: AtomicBool,
}

struct State {
    /// The group that threads add to.
    pending: Pending,
    /// Number of that group, and of the last one written.
    next: u64,
    written: u64,
    /// A thread writes a group.
    is_writing: bool,
    /// A thread syncs the files, to void segments.
    is_settling: bool,
    /// The segment that the next group goes to; the writer takes it for the time it writes.
    active: Option<Segment>,
    /// Those full, oldest first.
    full: VecDeque<Segment>,
    free: Vec<Segment>,
    /// Number of the next segment to be made.
    number: u32,
    salts: SplitMix64,
    /// Buffer of the group written last.
    spare: Blocks,
    /// A checkpoint waits for a moment in which nobody writes.
    settles_next: bool,
    /// Names of files of which groups have content: those since the last checkpoint began, and
    /// those before as long as it has not ended.
    named: FxHashSet<String>,
    named_before: FxHashSet<String>,
    /// Words that the group that is made, or the one that is written, has and memory does not yet.
    to_store: Vec<ToStore>,
    /// Number of the last group that was added to by those who do not wait.
    later: u64,
}

/// A word that is stored once its group is written.
struct ToStore {
    group: u64,
    file: Arc<PagedFile>,
    address: usize,
    value: u64,
}

/// A group that is being made.
#[derive(Default)]
struct Pending {
    blocks: Blocks,
    pieces: u32,
    /// Numbers of files whose names are in it.
    names: SmallVec<[u32; 8]>,
}

impl Pending {
    fn push(&mut self, piece: Piece<'_>) {
        if self.blocks.len() == 0 {
            self.blocks.push(&[0; GROUP_HEAD]);
        }
        piece.encode(&mut |bytes| self.blocks.push(bytes));
        self.pieces += 1;
    }
}

impl State {
    /// Puts the name of `file` into the group, and returns the file's number.
    fn name(&mut self, file: &PagedFile) -> u32 {
        let (number, name) = file.identity();
        if !self.pending.names.contains(&number) {
            self.pending.push(Piece::Name { file: number, name: &name });
            self.pending.names.push(number);
            self.named.insert(name);
        }
        number
    }

    /// Offset and content of a range of a file, with the words that are to be stored there: they
    /// are in this group or one before, which must not be undone.
    fn content(&self, file: &PagedFile, range: &Range<usize>) -> (u64, Vec<u8>) {
        let (offset, mut content) = file.content(range);
        for word in self.to_store.iter().filter(|word| range.contains(&word.address)) {
            content[word.address - range.start..][..8].copy_from_slice(&word.value.to_ne_bytes());
        }
        (offset, content)
    }

    /// Stores the words of a group that is written: a sync has them from then on. If the write has
    /// failed, nothing that is stored from now on reaches a file.
    fn store_words(&mut self, group: u64) {
        self.to_store
            .iter()
            .filter(|word| word.group == group)
            .for_each(|word| word.file.store(word.address, word.value));
        self.to_store.retain(|word| word.group != group);
    }

    /// Adds the content of ranges of files as it is now, and words as they are going to be.
    fn add(&mut self, parts: &[FencedPart], words: &[WordToStore]) {
        for (file, ranges) in parts {
            let number = self.name(file);
            for range in ranges {
                // Under the lock: of two groups with the same bytes the later has the later
                // content.
                let (offset, content) = self.content(file, range);
                if content.iter().all(|byte| *byte == 0) {
                    self.pending.push(Piece::Zeros { file: number, offset, len: content.len() as u64 });
                } else {
                    self.pending.push(Piece::Bytes { file: number, offset, bytes: &content });
                }
            }
        }
        let group = self.next;
        for (file, address, value) in words {
            let (number, offset) = (self.name(file), file.offset_of(*address));
            self.pending.push(Piece::Bytes { file: number, offset, bytes: &value.to_le_bytes() });
            self.to_store.push(ToStore { group, file: file.clone(), address: *address, value: *value });
        }
    }

    fn segments(&self) -> usize {
        self.full.len() + usize::from(self.active.is_some() || self.is_writing)
    }
}

/// Replays and voids a journal that an earlier process has left in `directory`, for a medium that
/// goes on without one.
///
/// Errors: as [`Journal::open`].
pub(super) fn end_journal(directory: &Path) -> Result<()> {
    end_journal_at(&Home::own(directory), directory)
}

/// The same for a journal in the directory of the log, if the next one will not lie there.
///
/// Errors: as [`Journal::open`].
pub(crate) fn end_journal_beside(log: &Path, directory: &Path) -> Result<()> {
    end_journal_at(&Home::of_log(log, None), directory)
}

fn end_journal_at(home: &Home, directory: &Path) -> Result<()> {
    replay::replay(home, directory, &Syncs::new(directory.display().to_string())).map(|_| ())
}

/// Whether a file of this name is a journal's.
pub(crate) fn is_segment(name: &str) -> bool {
    segment::is_segment(name)
}

/// A word that no use of a segment before has had.
fn random_word() -> Result<u64> {
    let mut bytes = [0; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    filled.map_err(|errno| Error::io("a random number", "reading", errno.into()))?;
    Ok(u64::from_le_bytes(bytes))
}

impl Journal {
    /// Replays the journal at `home` to the files in `directory`, if there is one, and begins the
    /// next, which takes up to `bytes` there, or two segments.
    ///
    /// Errors: `Poisoned` (it is damaged), `Unsupported` (of a newer build), `Full`, `Io`.
    pub(super) fn open(home: Home, directory: &Path, bytes: u64, syncs: &Arc<Syncs>) -> Result<Journal> {
        let replayed = replay::replay(&home, directory, syncs)?;
        let journal = Journal {
            home,
            syncs: syncs.clone(),
            segments_max: (bytes as usize / SEGMENT_BYTES).max(SEGMENTS_LEAST),
            state: Mutex::new(State {
                pending: Pending::default(),
                next: replayed.last.wrapping_add(1),
                written: replayed.last,
                is_writing: false,
                is_settling: false,
                active: None,
                full: VecDeque::new(),
                number: replayed.segments.iter().map(Segment::number).max().map_or(0, |last| last.wrapping_add(1)),
                free: replayed.segments,
                salts: SplitMix64::new(random_word()?),
                spare: Blocks::default(),
                settles_next: false,
                named: FxHashSet::default(),
                named_before: FxHashSet::default(),
                to_store: Vec::new(),
                later: replayed.last,
            }),
            has_later: AtomicBool::new(false),
            changed: Condvar::new(),
        };
        journal.keep_free()?;
        Ok(journal)
    }

    /// Notes, durably, that the file of name `name` is not, or will not be, the one that had the
    /// name so far.
    pub(super) fn forget(&self, name: &str) {
        let mut state = self.room();
        // Planted: whoever takes the name gets what the journal has of the one before.
        let is_named = state.named.contains(name) || state.named_before.contains(name);
        if is_named && !planted(Mutant::NameNotForgotten) {
            state.pending.push(Piece::Forget { name });
            self.written(state);
        }
    }

    /// The state, once the group that is made has room for a fence.
    fn room(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        while state.pending.blocks.len() > GROUP_BYTES {
            self.changed.wait(&mut state);
        }
        state
    }

    /// Waits until the group that is being made is written, and writes it if nobody else does.
    fn written(&self, state: MutexGuard<'_, State>) {
        let own = state.next;
        self.written_up_to(state, own);
    }

    /// The same for group `own`, which that one or an earlier one is.
    fn written_up_to(&self, mut state: MutexGuard<'_, State>, own: u64) {
        // Planted: whoever joins a group takes it for written.
        while state.written < own && !planted(Mutant::GroupJoinedIsWritten) {
            if state.is_writing || state.settles_next {
                self.changed.wait(&mut state);
                continue;
            }
            self.write_pending(&mut state);
        }
    }

    /// Writes the group that is being made. Nobody else writes one.
    fn write_pending(&self, state: &mut MutexGuard<'_, State>) {
        let spare = std::mem::take(&mut state.spare);
        let Pending { mut blocks, pieces, .. } =
            std::mem::replace(&mut state.pending, Pending { blocks: spare, ..Pending::default() });
        let sequence = state.next;
        state.next += 1;
        state.is_writing = true;
        let mut segment = state.active.take();
        MutexGuard::unlocked(state, || {
            // The medium keeps a failure, and the caller asks it.
            let _ = self.write(&mut segment, &mut blocks, (sequence, pieces));
            blocks.clear(2 * GROUP_BYTES);
        });
        state.active = segment;
        state.spare = blocks;
        state.is_writing = false;
        state.store_words(sequence);
        state.written = sequence;
        if state.later <= sequence {
            self.has_later.store(false, SeqCst);
        }
        self.changed.notify_all();
    }

    /// Writes a group to the active segment, or to the next if it has no room for it.
    fn write(&self, active: &mut Option<Segment>, group: &mut Blocks, (sequence, pieces): (u64, u32)) -> Result<()> {
        self.syncs.health().check()?;
        if active.as_ref().is_none_or(|segment| !segment.has_room(group.padded().len())) {
            *active = Some(self.next_segment(active.take(), sequence)?);
        }
        let segment = active.as_mut().expect("armed above, or before");
        seal(group.bytes(), segment.salt(), segment.end() as u64, sequence, pieces);
        segment.append(group.padded(), &self.syncs)
    }

    /// Arms a segment whose first group is `first`, in place of the `last` one.
    fn next_segment(&self, last: Option<Segment>, first: u64) -> Result<Segment> {
        let mut state = self.state.lock();
        state.full.extend(last);
        let salt = state.salts.next_u64();
        let mut segment = loop {
            if let Some(segment) = state.free.pop() {
                break segment;
            }
            if state.full.len() < self.segments_max {
                let number = state.number;
                state.number = number.wrapping_add(1);
                let made = MutexGuard::unlocked(&mut state, || self.home.create(number));
                if let Ok(segment) = made {
                    break segment;
                }
            }
            // No more room: the files are synced instead, and the segments begin anew.
            while state.is_settling {
                self.changed.wait(&mut state);
            }
            if state.free.is_empty() {
                self.settle_full(&mut state)?;
            }
        };
        drop(state);
        segment.arm(Header { salt, first }, &self.syncs)?;
        Ok(segment)
    }

    /// Whether a checkpoint should call [`Journal::settle`] soon.
    pub(super) fn is_due(&self) -> bool {
        self.state.lock().segments() > self.segments_max / 2
    }

    /// Makes all that was stored before the call durable in the files, and voids the groups written
    /// before it.
    ///
    /// # Errors
    /// Those of a medium that has failed.
    pub(super) fn settle(&self) -> Result<()> {
        let mut state = self.state.lock();
        while state.is_writing || state.is_settling {
            state.settles_next |= !state.is_settling;
            self.changed.wait(&mut state);
        }
        // Its content is from before the call: behind the checkpoint it would come back over what
        // was stored since.
        if state.pending.pieces > 0 {
            state.settles_next = true;
            self.write_pending(&mut state);
        }
        state.settles_next = false;
        let active = state.active.take();
        state.full.extend(active);
        self.settle_full(&mut state)?;
        drop(state);
        self.keep_free()
    }

    /// Syncs all files, then voids the full segments, oldest first. Nobody else does either.
    fn settle_full(&self, state: &mut MutexGuard<'_, State>) -> Result<()> {
        state.is_settling = true;
        let mut full = std::mem::take(&mut state.full);
        let named = std::mem::take(&mut state.named);
        if state.pending.pieces > 0 || state.is_writing {
            state.named.clone_from(&named);
        }
        state.named_before.extend(named);
        let voided = MutexGuard::unlocked(state, || -> Result<()> {
            // Planted: what the segments hold is taken to be in the files.
            if !planted(Mutant::SegmentsVoidUnsynced) {
                PagedFile::sync_all(&self.syncs)?;
            }
            // Planted: the newest first, so that older ones count without it.
            if planted(Mutant::NewestSegmentVoidFirst) {
                full.make_contiguous().reverse();
            }
            full.iter_mut().try_for_each(|segment| segment.void(&self.syncs))
        });
        state.is_settling = false;
        // After a failure nothing is written any more.
        if voided.is_ok() {
            state.free.extend(full);
            state.named_before.clear();
        }
        self.changed.notify_all();
        voided
    }

    /// Keeps as many segments free as the next checkpoint needs ready, and no more.
    fn keep_free(&self) -> Result<()> {
        let mut state = self.state.lock();
        while state.free.len() > SEGMENTS_KEPT {
            let Some(segment) = state.free.pop() else { break };
            // One that cannot be removed holds nothing that counts; the next start uses it.
            let _ = MutexGuard::unlocked(&mut state, || segment.remove());
        }
        if !state.free.is_empty() {
            return Ok(());
        }
        let number = state.number;
        state.number = number.wrapping_add(1);
        drop(state);
        let segment = self.home.create(number)?;
        self.state.lock().free.push(segment);
        Ok(())
    }
}

impl FenceLog for Journal {
    fn append(&self, parts: &[FencedPart], words: &[WordToStore]) {
        let mut state = self.room();
        state.add(parts, words);
        self.written(state);
    }

    fn append_later(&self, parts: &[FencedPart], words: &[WordToStore]) {
        let mut state = self.room();
        state.add(parts, words);
        state.later = state.next;
        self.has_later.store(true, SeqCst);
        // It grows no further than what others have room for.
        if state.pending.blocks.len() > GROUP_BYTES / 2 {
            self.written(state);
        }
    }

    fn wait_later(&self) {
        // Planted: who relies on what is published later does not wait for it.
        if !self.has_later.load(SeqCst) || planted(Mutant::PublishedLaterUnawaited) {
            return;
        }
        let state = self.state.lock();
        let last = state.later;
        self.written_up_to(state, last);
    }

    fn now(&self) -> u64 {
        let mut state = self.state.lock();
        loop {
            if state.pending.pieces > 0 {
                self.written(state);
                state = self.state.lock();
            } else if !state.to_store.is_empty() {
                // A sync that begins now would miss them, and the piece that has them be void.
                self.changed.wait(&mut state);
            } else {
                return state.next;
            }
        }
    }

    fn void(&self, file: &PagedFile, range: &Range<usize>, below: u64) {
        let mut state = self.room();
        let number = state.name(file);
        let (offset, len) = (file.offset_of(range.start), range.len() as u64);
        state.pending.push(Piece::Void { file: number, offset, len, below });
        self.written(state);
    }
}
