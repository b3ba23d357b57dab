//! Group commit on a disk: records that end at once share sectors, and one write.
//!
//! A record that joins a write gets a place behind the others if there is room in their last
//! sector, and its own reserved sectors otherwise. A write is *cut* when the one before has ended:
//! no record joins it any more, and it begins when all that have joined are stored. So no sector is
//! written twice of which anything was acknowledged (I2).

use crate::publication::{Commit, Commits};
use perdura_pmem::Mutant;
use perdura_pmem::sync::{Condvar, Mutex, MutexGuard};
use smallvec::SmallVec;
use std::ops::Range;

/// Bytes of a lane that are written together, in order of joining.
pub(crate) type Spans = SmallVec<[Range<u64>; 4]>;

/// Records that are made durable together.
#[derive(Default)]
struct Write {
    joined: u32,
    stored: u32,
    spans: Spans,
    /// Behind the last span, up to the end of its sectors.
    room: Range<u64>,
    /// In order of storing.
    commits: Commits,
    has_leader: bool,
}

struct State {
    /// The write that records join, and its number.
    open: Write,
    number: u64,
    /// The write before it, if that has not ended.
    cut: Write,
    is_writing: bool,
    /// Number of the last write that has ended.
    ended: u64,
    /// Threads that wait for the end of a write.
    waiting: u32,
}

/// The writes of a lane.
///
/// Between joining and storing a record, its thread checksums and copies it and takes a CSN: it
/// neither blocks nor fails (I5), so whoever waits for it does not wait long. The first thread to
/// have stored its record leads the write, as soon as none is under way, and announces the commits
/// of all. Those do not come back here: they wait for durable_csn, each for its own CSN.
/// So no thread is woken but to go on. A write holds as many records as have come during the one
/// before, and at most one a thread.
pub(crate) struct GroupCommit {
    state: Mutex<State>,
    /// The write under way has ended: of its leader's successor there is one at most.
    may_lead: Condvar,
    /// The last record of the cut write is stored: of its leader.
    is_stored: Condvar,
    /// A write has ended: of those who have no CSN to wait for.
    has_ended: Condvar,
}

/// A record's place in a write.
#[must_use = "others wait until the record is stored"]
pub(crate) struct Seat<'a> {
    group: &'a GroupCommit,
    number: u64,
    /// Where the record goes.
    pub(crate) offset: u64,
    is_stored: bool,
}

impl GroupCommit {
    pub(crate) fn new() -> GroupCommit {
        let (open, cut) = (Write::default(), Write::default());
        let state = State { open, number: 1, cut, is_writing: false, ended: 0, waiting: 0 };
        let (may_lead, is_stored, has_ended) = (Condvar::new(), Condvar::new(), Condvar::new());
        GroupCommit { state: Mutex::new(state), may_lead, is_stored, has_ended }
    }

    /// Finds a place for a record of `bytes`, for which the whole sectors `own` are reserved.
    pub(crate) fn join(&self, own: Range<u64>, bytes: u64) -> Seat<'_> {
        let mut state = self.state.lock();
        let number = state.number;
        let write = &mut state.open;
        write.joined += 1;
        if bytes > write.room.end - write.room.start {
            write.spans.push(own.start..own.start);
            write.room = own;
        }
        let offset = write.room.start;
        write.room.start += bytes;
        write.spans.last_mut().expect("room is that of a span").end = write.room.start;
        Seat { group: self, number, offset, is_stored: false }
    }

    /// Counts a record of write `number` as stored, which may be a commit's.
    fn stored(&self, number: u64, commit: Option<Commit>) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        let is_cut = number != state.number;
        let write = state.write(number);
        write.stored += 1;
        if is_cut && write.stored == write.joined {
            self.is_stored.notify_one();
        }
        // Planted: the write under way counts for a record that came too late for it.
        let counts = is_cut || state.is_writing && perdura_pmem::planted(Mutant::WriteUnderWayCounts);
        if counts { &mut state.cut } else { &mut state.open }.commits.extend(commit);
        state
    }

    /// Makes the open write by `write`, once it may, and announces its commits.
    fn lead(&self, mut state: MutexGuard<'_, State>, write: impl FnOnce(&[Range<u64>]), announce: impl Fn(Commits)) {
        while state.is_writing {
            self.may_lead.wait(&mut state);
        }
        let number = state.number;
        state.is_writing = true;
        state.cut();
        while state.cut.stored < state.cut.joined {
            self.is_stored.wait(&mut state);
        }
        let spans = std::mem::take(&mut state.cut.spans);
        // Planted: those who share the write do not wait for it.
        if perdura_pmem::planted(Mutant::WriteAnnouncedEarly) {
            announce(std::mem::take(&mut state.cut.commits));
        }
        drop(state);
        write(&spans);
        let mut state = self.state.lock();
        let commits = std::mem::take(&mut state.cut).commits;
        state.is_writing = false;
        state.ended = number;
        let is_awaited = state.waiting > 0;
        drop(state);
        self.may_lead.notify_one();
        if is_awaited {
            self.has_ended.notify_all();
        }
        announce(commits);
    }
}

impl State {
    /// The write `number`, which has not ended.
    fn write(&mut self, number: u64) -> &mut Write {
        if number == self.number { &mut self.open } else { &mut self.cut }
    }

    /// Lets no more records join the open write.
    fn cut(&mut self) {
        let mut next = Write::default();
        // Planted: the next write goes on in the sector that this one is about to write.
        if perdura_pmem::planted(Mutant::SectorSharedByWrites) {
            let room = self.open.room.clone();
            next.spans.push(room.start..room.start);
            next.room = room;
        }
        self.cut = std::mem::replace(&mut self.open, next);
        self.number += 1;
    }
}

impl Seat<'_> {
    /// Ends a record, which is stored. The first of a write to come makes it by `write`, which
    /// returns when it is durable or the medium has failed, and then calls `announce` with all its
    /// commits. Other commits return at once, and records of no commit when the write has ended.
    pub(crate) fn end(mut self, commit: Option<Commit>, write: impl FnOnce(&[Range<u64>]), announce: impl Fn(Commits)) {
        self.is_stored = true;
        let (group, own, is_commit) = (self.group, self.number, commit.is_some());
        let mut state = group.stored(own, commit);
        if !std::mem::replace(&mut state.write(own).has_leader, true) {
            group.lead(state, write, announce);
        } else if !is_commit {
            state.waiting += 1;
            while state.ended < own {
                group.has_ended.wait(&mut state);
            }
            state.waiting -= 1;
        }
    }
}

impl Drop for Seat<'_> {
    /// Of a thread that panics before its record is stored, whose pool has failed stop: the others
    /// need not wait for it, and its place holds no valid record.
    fn drop(&mut self) {
        if !self.is_stored {
            drop(self.group.stored(self.number, None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_pmem::split_mix::SplitMix64;
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::mpsc::channel;

    const SECTOR: u64 = 512;

    /// Sectors of its own for a record of `bytes`, behind those given before.
    fn reserve(tail: &AtomicU64, bytes: u64) -> Range<u64> {
        let padded = bytes.next_multiple_of(SECTOR);
        let begin = tail.fetch_add(padded, SeqCst);
        begin..begin + padded
    }

    #[test]
    fn records_that_come_during_a_write_share_the_sectors_of_the_next() {
        let (group, tail) = (GroupCommit::new(), AtomicU64::new(0));
        let (mut late, mut written) = (Vec::new(), Vec::new());
        let join = |bytes| group.join(reserve(&tail, bytes), bytes);
        let first = |spans: &[Range<u64>]| {
            written.push(spans.to_vec());
            late = [128, 320, 64, 128, 1024 + 64, 64].map(join).into();
        };
        join(128).end(None, first, drop);
        let places: Vec<u64> = late.iter().map(|seat| seat.offset).collect();
        // The fourth has no room behind the third; the sixth has it behind the fifth.
        assert_eq!(places, [512, 640, 960, 2048, 2560, 3648]);
        let (told, heard) = channel();
        std::thread::scope(|scope| {
            for seat in late {
                let told = told.clone();
                let write = move |spans: &[Range<u64>]| told.send(spans.to_vec()).expect("the test waits");
                scope.spawn(move || seat.end(None, write, drop));
            }
        });
        written.extend(heard.try_iter());
        let written: Vec<Vec<_>> =
            written.iter().map(|spans| spans.iter().map(|span| (span.start, span.end)).collect()).collect();
        let expected = [vec![(0, 128)], vec![(512, 1024), (2048, 2176), (2560, 3712)]];
        assert_eq!(written, expected, "one write for all");
    }

    /// Hazard: a thread is told of a write that has left its record out, a CSN is announced twice
    /// or never, or a sector is written again that somebody was told of.
    #[test]
    fn each_record_is_in_the_write_that_it_waits_for_and_no_sector_is_in_two() {
        for seed in 0..40 {
            let (group, tail, written) = (GroupCommit::new(), AtomicU64::new(0), Mutex::new(Vec::new()));
            let (csns, places, told) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
            let is_written = |place: &Range<u64>| {
                written.lock().iter().any(|span: &Range<u64>| span.start <= place.start && place.end <= span.end)
            };
            let announce = |commits: Commits| {
                for Commit { csn, .. } in commits {
                    assert!(is_written(&places.lock()[&csn]), "seed {seed}: CSN {csn}");
                    told.lock().push(csn);
                }
            };
            let thread = |thread: u64| {
                let mut random = SplitMix64::new(seed * 10 + thread);
                for _ in 0..50 {
                    let bytes = 64 * (1 + random.below(12));
                    let seat = group.join(reserve(&tail, bytes), bytes);
                    let place = seat.offset..seat.offset + bytes;
                    if random.one_in(5) {
                        std::thread::yield_now();
                    }
                    let csn = (!random.one_in(4)).then(|| csns.fetch_add(1, SeqCst));
                    places.lock().extend(csn.map(|csn| (csn, place.clone())));
                    let commit = csn.map(|csn| Commit { csn, publication: None });
                    seat.end(commit, |spans| written.lock().extend_from_slice(spans), announce);
                    assert!(csn.is_some() || is_written(&place), "seed {seed}: {place:?}");
                    while csn.is_some_and(|csn| !told.lock().contains(&csn)) {
                        std::thread::yield_now();
                    }
                }
            };
            std::thread::scope(|scope| (0..6).for_each(|number| drop(scope.spawn(move || thread(number)))));
            let mut sectors: Vec<u64> =
                written.lock().iter().flat_map(|span| span.start / SECTOR..span.end.div_ceil(SECTOR)).collect();
            let count = sectors.len();
            sectors.sort_unstable();
            sectors.dedup();
            assert_eq!(sectors.len(), count, "seed {seed}: a sector is in two writes");
            let mut told = told.into_inner();
            told.sort_unstable();
            assert_eq!(told, (0..csns.into_inner()).collect::<Vec<_>>(), "seed {seed}: each CSN is announced once");
        }
    }

    /// Hazard: a thread panics between its place and its record, and all others hang.
    #[test]
    fn nobody_waits_for_a_record_that_never_comes() {
        let group = GroupCommit::new();
        let (lost, other) = (group.join(0..512, 64), group.join(512..1024, 64));
        drop(lost);
        let mut written = Vec::new();
        other.end(None, |spans| written.extend_from_slice(spans), drop);
        assert_eq!((written.len(), written[0].clone()), (1, 0..128));
    }
}
