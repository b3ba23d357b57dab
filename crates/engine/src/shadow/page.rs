//! The shadow of one directory page: what transactions do to the page and have done to it, as long
//! as anybody could see the difference.
//!
//! `active` has the changes of transactions that are under way, or committed with words not stored
//! yet; `history` has the stored ones by CSN. The word of a row for a snapshot is the word in the
//! directory, or the one that a visible change has not stored yet, taken back by every stored
//! commit that the snapshot does not see. Stored commits that no snapshot tells apart are merged
//! once a checkpoint covers them, so a page has no more of them than there are snapshots, but for
//! those of the last moment.

use super::change::{Change, Own};
use super::purge_horizon::PurgeHorizon;
use super::row_set::RowSet;
use super::undo_record::{Superseded, UndoRecord};
use super::writer::Writer;
use crate::files::directory::Directory;
use crate::format::{PageState, Word};
use perdura_log::Csn;
use perdura_pmem::{Mutant, trace};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of stored commits from which on purge merges those of a page.
const CROWD: usize = 4;

/// A transaction that holds a row.
pub(crate) struct Holder {
    /// The transaction.
    pub writer: Arc<Writer>,
    /// It has the row to itself.
    pub is_exclusive: bool,
}

/// The transactions that hold a row in place and are not committed: one, or some that share it.
pub(crate) type Holders = SmallVec<[Holder; 1]>;

/// View of a reader's own transaction.
#[derive(Clone, Copy)]
pub(crate) struct OwnView<'a> {
    /// The reader's transaction.
    pub writer: &'a Arc<Writer>,
    /// The last step that the reader sees.
    pub seen: u64,
}

/// Counts of a commit's changes in a page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Rows changed.
    pub changed: u64,
    /// By how many rows the table has grown.
    pub grown: i64,
    /// Purge does not know of the page yet: the commit queues it.
    pub is_new: bool,
    /// The page has become crowded: the commit asks purge to merge.
    pub is_crowded: bool,
    /// Nobody knows yet that words of the page are to be flushed: the commit says so before it
    /// unlocks the page.
    pub is_unflushed: bool,
}

impl Tally {
    fn of(undo: &UndoRecord) -> Tally {
        let (written, deleted) = (undo.before.len(), undo.deleted.len());
        let mut grown = -(deleted as i64);
        undo.before.for_each(|_, before| grown += i64::from(before.is_empty()));
        Tally { changed: (written + deleted) as u64, grown, ..Tally::default() }
    }
}

/// The shadow of one directory page.
#[derive(Default)]
pub(crate) struct PageShadow {
    active: SmallVec<[Change; 1]>,
    /// In ascending order of CSNs.
    history: VecDeque<UndoRecord>,
    /// Deleted rows whose words purge is about to empty.
    purging: RowSet,
    /// Purge has the page in its queue, or a commit is about to put it there.
    queued: bool,
    /// Purge has been asked to merge, or a commit is about to ask it.
    crowded: bool,
    /// Rows whose words are stored and that nobody has flushed.
    unflushed: RowSet,
    /// Whoever flushes words knows of the page, or a commit is about to tell.
    noted: bool,
    /// Number of stored commits that the last merge left; the next one is due at twice as many.
    merged: usize,
}

impl PageShadow {
    /// Whether nobody has anything here.
    pub(crate) fn is_empty(&self) -> bool {
        let is_known = self.queued || self.crowded || self.noted;
        self.active.is_empty() && self.history.is_empty() && self.purging.is_empty() && !is_known
    }

    /// The CSN from which on snapshots see the words in the directory, 0 for all of them; `None`
    /// while transactions have changes here. Shared locks change nothing.
    #[inline]
    pub(crate) fn settled_at(&self) -> Option<Csn> {
        self.active.iter().all(Change::only_shares).then(|| self.newest_csn_of_page())
    }

    /// The change of `writer`.
    #[inline]
    pub(crate) fn change(&self, writer: &Arc<Writer>) -> Option<&Change> {
        self.active.iter().find(|change| Arc::ptr_eq(change.writer(), writer))
    }

    /// The change of `writer`, to be changed.
    #[inline]
    pub(crate) fn change_mut(&mut self, writer: &Arc<Writer>) -> Option<&mut Change> {
        self.active.iter_mut().find(|change| Arc::ptr_eq(change.writer(), writer))
    }

    /// The change of `writer`, begun now if there is none. Returns with it whether it is new.
    #[inline]
    pub(crate) fn change_or_new(&mut self, writer: &Arc<Writer>, whole_page: bool) -> (&mut Change, bool) {
        let known = self.active.iter().position(|change| Arc::ptr_eq(change.writer(), writer));
        let index = known.unwrap_or_else(|| {
            self.active.push(Change::new(writer.clone(), whole_page));
            self.active.len() - 1
        });
        (&mut self.active[index], known.is_none())
    }

    /// Removes the change of `writer`.
    pub(crate) fn remove(&mut self, writer: &Arc<Writer>) -> Option<Change> {
        let index = self.active.iter().position(|change| Arc::ptr_eq(change.writer(), writer))?;
        Some(self.active.swap_remove(index))
    }

    /// The transactions that hold the row and are not committed, `writer` among them: one that has
    /// it exclusively, or with `shared` those who share it.
    #[inline]
    pub(crate) fn holders(&self, writer: &Arc<Writer>, position: u16, shared: bool) -> Holders {
        let mut holders = Holders::new();
        for change in self.active.iter().filter(|change| change.writer().csn().is_none()) {
            let (is_exclusive, is_own) = (change.holds(position), Arc::ptr_eq(change.writer(), writer));
            // Planted: a lock in place holds nobody off, or a shared one does not.
            let is_ignored = perdura_pmem::planted(Mutant::LockInPlaceHoldsNobody)
                || !is_exclusive && !is_own && perdura_pmem::planted(Mutant::SharedLockInPlaceHoldsNobody);
            if (is_exclusive || shared && change.shares(position)) && !is_ignored {
                holders.push(Holder { writer: change.writer().clone(), is_exclusive });
            }
        }
        holders
    }

    /// Stores the words of committed changes to the row, so that the directory has the newest
    /// committed word.
    pub(crate) fn store_committed(&mut self, position: u16, page: u64, directory: &Directory) {
        let is_due = |change: &Change| change.writer().csn().is_some() && change.covers(position);
        while let Some(index) = self.active.iter().position(is_due) {
            self.store(index, page, directory);
        }
    }

    /// Stores the words of the committed change of `writer`, unless somebody has. Whoever stores
    /// words for another leaves it to the committing thread to have them flushed before they are
    /// reported as stored. Returns what the commit changed.
    pub(crate) fn publish(&mut self, writer: &Arc<Writer>, page: u64, directory: &Directory) -> Tally {
        let unstored = self.active.iter().position(|change| Arc::ptr_eq(change.writer(), writer));
        let csn = writer.csn().expect("committed");
        let stored = match unstored {
            Some(index) => self.store(index, page, directory),
            None => self.history.binary_search_by_key(&csn, |undo| undo.csn).ok(),
        };
        // Purge does not go past a commit that is not stored. What is not here is the state of a
        // whole page, and fenced.
        let Some(index) = stored else { return Tally::default() };
        // Planted: the committing thread leaves it to another who has stored the words to have them
        // flushed.
        let is_own = unstored.is_some() || !perdura_pmem::planted(Mutant::StoredByOtherNotFlushed);
        // No snapshot from before the page was published needs anything of it.
        let is_crowd = self.history.len() >= CROWD.max(self.merged * 2) || directory.state(page).csn() > 0;
        Tally {
            is_new: !std::mem::replace(&mut self.queued, true),
            is_crowded: is_crowd && !std::mem::replace(&mut self.crowded, true),
            is_unflushed: is_own && !std::mem::replace(&mut self.noted, true),
            ..Tally::of(&self.history[index])
        }
    }

    /// Flushes the words that are stored. The caller fences.
    pub(crate) fn flush_stored(&mut self, page: u64, directory: &Directory) {
        self.noted = false;
        directory.flush_settled_rows(page, std::mem::take(&mut self.unflushed).iter());
    }

    /// Stores the words of a committed change. Returns the index of its undo record in the history,
    /// if it has one.
    fn store(&mut self, index: usize, page: u64, directory: &Directory) -> Option<usize> {
        let mut change = self.active.swap_remove(index);
        let csn = change.writer().csn().expect("committed");
        if change.is_whole_page() {
            let state = PageState::published(csn);
            // Whoever locks the page next may change its rows, and redo verifies all words of a
            // page whose state is lost. One that is stored is durable.
            if directory.state(page) != state {
                directory.publish(page, state);
                directory.fence(page);
            }
            return None;
        }
        let _deferred = trace::span(trace::TRANSIENT);
        let base = directory.page_base(page);
        change.after_mut().exchange(|position, word| {
            let row = base + u64::from(position);
            let before = directory.raw_word(row);
            directory.store(row, word);
            self.unflushed.insert(position);
            before
        });
        change.deleted().for_each(|position| {
            let row = base + u64::from(position);
            directory.store(row, directory.raw_word(row).tombstone());
            self.unflushed.insert(position);
        });
        if change.after().is_empty() && change.deleted().is_empty() {
            return None;
        }
        let undo = change.into_undo_record(csn);
        if self.history.is_empty() {
            self.history.reserve_exact(1);
        }
        let place = match self.history.back() {
            // Planted: the history is in the order in which the commits were stored.
            Some(last) if last.csn > csn && !perdura_pmem::planted(Mutant::HistoryInOrderOfStoring) => {
                self.history.partition_point(|other| other.csn < csn)
            }
            _ => self.history.len(),
        };
        self.history.insert(place, undo);
        Some(place)
    }

    /// CSN of the newest stored commit `above` another that changed the row; 0 if none is
    /// remembered. One that moved the row has not changed it.
    pub(crate) fn newest_csn(&self, position: u16, above: Csn) -> Csn {
        let mut later = self.history.iter().rev().take_while(|undo| undo.csn > above);
        let changed = later.find(|undo| undo.changed(position));
        changed.map_or(0, |undo| undo.csn)
    }

    /// CSN of the newest stored commit that changed anything in the page; 0 if none is remembered.
    pub(crate) fn newest_csn_of_page(&self) -> Csn {
        self.history.back().map_or(0, |undo| undo.csn)
    }

    /// The committed word of a row as a reader at `snapshot` sees it. `stored` is the word in the
    /// directory, `state` that of the page.
    pub(crate) fn word(&self, position: u16, stored: Word, state: PageState, snapshot: Csn) -> Word {
        let mut word = stored;
        let mut state = state;
        for change in &self.active {
            let Some(csn) = change.writer().csn().filter(|csn| *csn <= snapshot) else { continue };
            if change.is_whole_page() {
                state = PageState::published(csn);
            } else if change.deleted().contains(position) {
                word = word.tombstone();
            } else if let Some(after) = change.after().get(position) {
                word = after;
            }
        }
        if !state.is_published() || state.csn() > snapshot {
            return Word::EMPTY;
        }
        for undo in self.history.iter().rev().take_while(|undo| undo.csn > snapshot) {
            word = undo.before(position, word).unwrap_or(word);
        }
        word
    }

    /// Resolves all words of a page at once, in `words`, which has the words in the directory by
    /// position. Returns whether the reader may see any row.
    pub(crate) fn words(&self, words: &mut [Word], state: PageState, snapshot: Csn, own: Option<OwnView<'_>>) -> bool {
        // Planted: a scan sees a commit only once its words are stored.
        let unseen = perdura_pmem::planted(Mutant::ScanWaitsForStoredWords);
        let visible = |change: &&Change| change.writer().csn().is_some_and(|csn| csn <= snapshot && !unseen);
        let unstored: Vec<&Change> = self.active.iter().filter(visible).collect();
        let is_published =
            state.is_published() && state.csn() <= snapshot || unstored.iter().any(|change| change.is_whole_page());
        let own = own.and_then(|view| Some((self.change(view.writer)?, view.seen)));
        let stored: Option<Vec<Word>> = own.map(|_| words.to_vec());
        if is_published {
            for change in unstored {
                change.after().iter().for_each(|(position, word)| words[usize::from(position)] = word);
                for position in change.deleted().iter().map(usize::from) {
                    words[position] = words[position].tombstone();
                }
            }
            // Planted: a scan at an older snapshot sees the words that are stored.
            let ignored = perdura_pmem::planted(Mutant::OldSnapshotSeesStoredWords);
            for undo in self.history.iter().rev().take_while(|undo| undo.csn > snapshot && !ignored) {
                for position in undo.deleted.iter().map(usize::from) {
                    words[position] = words[position].alive();
                }
                undo.before.iter().for_each(|(position, word)| words[usize::from(position)] = word);
            }
        } else {
            words.fill(Word::EMPTY);
        }
        if let (Some((change, seen)), Some(stored)) = (own, stored) {
            for position in change.positions() {
                match change.own_at(position, stored[usize::from(position)], seen) {
                    Some(Own::Row(word)) => words[usize::from(position)] = word,
                    Some(Own::Deleted) => words[usize::from(position)] = Word::EMPTY,
                    None => {}
                }
            }
            return true;
        }
        is_published
    }

    /// Notes that purge has taken the page from its queue. Returns the CSN of the oldest stored
    /// commit, if any is left: the page stays in the queue for that.
    pub(crate) fn requeue(&mut self) -> Option<Csn> {
        let rest = self.history.front().map(|undo| undo.csn);
        self.queued = rest.is_some();
        rest
    }

    /// Takes the stored commits up to `limit`, the oldest first. The rows that they deleted are
    /// noted until [`PageShadow::end_purge`].
    pub(crate) fn take_undo_records(&mut self, limit: Csn) -> impl Iterator<Item = UndoRecord> + '_ {
        // Planted: purge takes the whole history of a page.
        let count = self
            .history
            .partition_point(|undo| undo.csn <= limit || perdura_pmem::planted(Mutant::PurgeTakesWholeHistory));
        let deleted = self.history.iter().take(count).flat_map(|undo| undo.deleted.iter());
        note(&mut self.purging, deleted);
        self.history.drain(..count)
    }

    /// Merges stored commits that no snapshot tells apart, as far as the checkpoint covers them
    /// (I8): redo may still name the versions of later ones. The rows that are gone are noted until
    /// [`PageShadow::end_purge`]. `published` is the CSN that published the page. Returns whether
    /// the next round should merge what is not covered yet.
    pub(crate) fn merge(&mut self, horizon: &PurgeHorizon, published: Csn, superseded: &mut Superseded) -> bool {
        // Planted: commits are merged although no checkpoint covers them.
        let count = self.history.partition_point(|undo| {
            undo.csn <= horizon.covered() || perdura_pmem::planted(Mutant::HistoryMergedBeforeCheckpoint)
        });
        let mut merged: Vec<UndoRecord> = Vec::new();
        for undo in self.history.drain(..count) {
            match merged.last_mut() {
                Some(last) if !horizon.tells_apart(last.csn, undo.csn) => last.absorb(undo, superseded),
                _ => merged.push(undo),
            }
        }
        merged.into_iter().rev().filter(|undo| undo.changes() > 0).for_each(|undo| self.history.push_front(undo));
        note(&mut self.purging, superseded.gone.iter().copied());
        // A burst leaves no memory behind.
        if self.history.capacity() > self.history.len().max(CROWD) * 4 {
            self.history.shrink_to_fit();
        }
        self.merged = self.history.len();
        let uncovered = self.history.iter().rev().take(CROWD).take_while(|undo| undo.csn > horizon.covered()).count();
        self.crowded = uncovered == CROWD || uncovered > 0 && published > horizon.limit();
        self.crowded
    }

    /// Notes that purge has emptied the words of the rows that it took.
    pub(crate) fn end_purge(&mut self) {
        self.purging = RowSet::default();
    }

    /// The stored commits, the oldest first.
    pub(crate) fn history(&self) -> impl Iterator<Item = &UndoRecord> {
        self.history.iter()
    }

    /// The changes that are not stored.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Change> {
        self.active.iter()
    }

    /// Whether a commit of this run deleted the row, so that purge will reclaim it.
    pub(crate) fn deletes(&self, position: u16) -> bool {
        self.purging.contains(position) || self.history.iter().any(|undo| undo.deleted.contains(position))
    }
}

/// Notes in `purging` that purge is about to empty the words of `rows`.
fn note(purging: &mut RowSet, rows: impl Iterator<Item = u16>) {
    for position in rows {
        // Planted: a sweep does not know which rows purge is about to free.
        if !perdura_pmem::planted(Mutant::SweepSkipsPurgeQueue) {
            purging.insert(position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::words::Words;
    use perdura_pmem::sim::Random;
    use std::collections::BTreeSet;

    const ROWS: u16 = 6;
    const COMMITS: Csn = 60;

    fn is_row(word: Word) -> Option<Word> {
        Some(word).filter(|word| !word.is_empty() && !word.is_tombstone())
    }

    /// A page of random commits. Returns with it the words in the directory, and those after each
    /// commit.
    fn filled(random: &mut Random) -> (PageShadow, Vec<Word>, Vec<Vec<Word>>) {
        let mut now = vec![Word::EMPTY; usize::from(ROWS)];
        now[..3].iter_mut().zip(1..).for_each(|(word, place)| *word = Word::new(0, place * 8, 0));
        let (mut shadow, mut states) = (PageShadow::default(), vec![now.clone()]);
        for csn in 1..=COMMITS {
            let (mut before, mut deleted) = (Words::default(), RowSet::default());
            for position in 0..ROWS {
                let word = &mut now[usize::from(position)];
                if word.is_tombstone() || !random.one_in(3) {
                    continue;
                }
                if !word.is_empty() && random.one_in(12) {
                    *word = word.tombstone();
                    deleted.insert(position);
                } else {
                    before.set(position, *word);
                    *word = Word::new(1, (csn * u64::from(ROWS) + u64::from(position)) * 8, 0);
                }
            }
            if !before.is_empty() || !deleted.is_empty() {
                shadow.history.push_back(UndoRecord { csn, moved: RowSet::default(), before, deleted });
            }
            states.push(now.clone());
        }
        (shadow, now, states)
    }

    #[test]
    fn merging_changes_nothing_for_any_snapshot() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut shadow, stored, states) = filled(&mut random);
            let covered = random.below(COMMITS + 1);
            let live: Vec<Csn> = (0..1 + random.below(4)).map(|_| random.below(COMMITS)).collect();
            let horizon = PurgeHorizon::new(0, covered, live.clone());
            let mut superseded = Superseded::default();
            let changes = |shadow: &PageShadow| shadow.history.iter().map(UndoRecord::changes).sum::<usize>();
            let newest = (0..ROWS).map(|position| shadow.newest_csn(position, 0)).collect::<Vec<_>>();
            let apart = changes(&shadow);
            shadow.merge(&horizon, 0, &mut superseded);
            assert_eq!(changes(&shadow) + superseded.changes as usize, apart);
            let gaps = live.iter().collect::<BTreeSet<_>>().len() + 1;
            assert!(shadow.history.len() <= gaps + (COMMITS - covered) as usize);
            let freed: BTreeSet<u64> = superseded.versions.iter().map(|word| word.0).collect();
            assert_eq!(freed.len(), superseded.versions.len(), "seed {seed}: a version is freed twice");
            for snapshot in live.into_iter().chain(covered..=COMMITS) {
                let mut words = stored.clone();
                shadow.words(&mut words, PageState::published(0), snapshot, None);
                for position in 0..ROWS {
                    let index = usize::from(position);
                    let seen = is_row(states[snapshot as usize][index]);
                    let word = shadow.word(position, stored[index], PageState::published(0), snapshot);
                    assert_eq!((is_row(word), is_row(words[index])), (seen, seen), "seed {seed}, {snapshot}");
                    assert!(seen.is_none_or(|word| !freed.contains(&word.0)), "seed {seed}");
                    let changed = newest[index] > snapshot && !superseded.gone.contains(&position);
                    assert_eq!(shadow.newest_csn(position, snapshot) > snapshot, changed, "seed {seed}");
                }
            }
        }
    }
}
