//! Changes of an index by transactions: they insert entries, delete them, and take that back.

use super::leaf::bits;
use super::leaf_order::{LockedLeaf, Sought};
use super::leaf_shadow::{EntryState, View};
use super::replace::{Ground, Spares};
use super::table_index::Index;
use super::touched::TouchedLeaves;
use crate::error::Result;
use crate::format::{entry_key, entry_row, fold_entry};
use crate::shadow::page::OwnView;
use crate::shadow::writer::Writer;
use perdura_log::Csn;
use perdura_pmem::trace;
use std::sync::Arc;

/// A change of an entry.
#[derive(Clone, Copy)]
pub(crate) struct EntryWrite<'a> {
    /// Key and row.
    pub entry: &'a [u8],
    /// The transaction.
    pub writer: &'a Arc<Writer>,
    /// When it happens, in the transaction's own order.
    pub step: u64,
    /// The oldest step that the transaction can still go back to.
    pub floor: u64,
}

/// Whether an entry may be inserted beside others of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uniqueness {
    /// It may.
    Repeats,
    /// No other may have its key.
    Unique,
    /// No other may; and a row that has the key at this snapshot is named.
    UniqueSince(Csn),
}

/// How an insertion ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// The entry is there.
    Done,
    /// The entry is there, and at the snapshot this row has the key.
    DoneOver(u64),
    /// This row has the key.
    Taken(u64),
    /// Another transaction inserts or deletes the entry of this row, which has the key.
    Undecided(u64),
    /// The leaf is full of entries of this row with this key, come and gone, that older snapshots,
    /// savepoints or the log still need.
    Crowded,
}

impl EntryWrite<'_> {
    /// The slot among `slots` with the entry that was written last in a step: one that counts was
    /// inserted after one that was deleted.
    fn newest_in(&self, leaf: &LockedLeaf<'_>, slots: u64) -> Option<u32> {
        let own = OwnView { writer: self.writer, seen: u64::MAX };
        let seen = leaf.shadow.seen(leaf.bytes.valid()?, &View::newest(Some(own)));
        let of_step =
            leaf.shadow.open().filter(|change| Arc::ptr_eq(&change.writer, self.writer) && change.is_of(self.step));
        let of_step = of_step.fold(0, |slots, change| slots | change.inserted | change.deleted) & slots;
        leaf.bytes.find(of_step & seen, self.entry).or_else(|| leaf.bytes.find(of_step, self.entry))
    }
}

impl Uniqueness {
    fn snapshot(self) -> Option<Csn> {
        match self {
            Uniqueness::UniqueSince(snapshot) => Some(snapshot),
            _ => None,
        }
    }
}

/// Search for the holder of a key.
struct HolderSearch<'w> {
    writer: &'w Arc<Writer>,
    snapshot: Option<Csn>,
    /// The row that has the key at the snapshot.
    before: Option<u64>,
}

impl HolderSearch<'_> {
    /// Holder of `key` in a leaf below `end`, if there is one. Notes a row that had the key at the
    /// snapshot.
    fn in_leaf(&mut self, leaf: &LockedLeaf<'_>, end: Option<&[u8]>, key: &[u8]) -> Result<Option<Inserted>> {
        let valid = leaf.valid()?;
        let before = self.snapshot.map_or(0, |snapshot| leaf.shadow.seen(valid, &View::at(snapshot)));
        for slot in bits(leaf.bytes.candidates(leaf.shadow.occupied(valid), key)) {
            let state = leaf.shadow.entry_state(valid, slot, self.writer);
            if state == EntryState::Gone && before >> slot & 1 == 0 {
                continue;
            }
            let entry = leaf.bytes.sound_entry(slot)?;
            if entry_key(entry) != key || end.is_some_and(|end| entry >= end) {
                continue;
            }
            let row = entry_row(entry);
            if state == EntryState::Gone {
                self.before = Some(row);
                continue;
            }
            return Ok(Some(match state {
                EntryState::Undecided => Inserted::Undecided(row),
                _ => Inserted::Taken(row),
            }));
        }
        Ok(None)
    }
}

impl Index {
    /// Inserts an entry, if its key is unique only where no other has it. It waits for nobody.
    /// `sought` may be the way to its key.
    ///
    /// # Errors
    /// DeviceFull, TableFull, NotFound (the table was dropped), Damaged, Medium.
    pub(crate) fn insert(
        &self,
        ground: Ground<'_>,
        (write, unique): (&EntryWrite<'_>, Uniqueness),
        mut sought: Option<&Sought<'_>>,
        touched: &mut TouchedLeaves,
    ) -> Result<Inserted> {
        self.check()?;
        self.form().check_length(entry_key(write.entry))?;
        self.begin(ground)?;
        let mut spares = Spares::new(self.leaves());
        loop {
            let mut first = match sought.take() {
                Some(sought) => self.order().lock_sought(sought, unique == Uniqueness::Repeats)?,
                None => None,
            };
            if first.is_none() {
                first = self.order().lock(match unique {
                    Uniqueness::Repeats => write.entry,
                    _ => entry_key(write.entry),
                })?;
            }
            let first = first.expect("an index with a leaf");
            if let Some(inserted) = self.try_insert(ground, (write, unique), first, touched, &mut spares)? {
                return Ok(inserted);
            }
        }
    }

    /// As [`Index::insert`], with the first leaf that may have the key locked; `None` if it is to
    /// be tried again, with other spare leaves or since a leaf has been split.
    fn try_insert<'i>(
        &'i self,
        ground: Ground<'_>,
        (write, unique): (&EntryWrite<'_>, Uniqueness),
        first: LockedLeaf<'i>,
        touched: &mut TouchedLeaves,
        spares: &mut Spares<'_>,
    ) -> Result<Option<Inserted>> {
        let key = entry_key(write.entry);
        let mut locked = smallvec::SmallVec::<[LockedLeaf<'i>; 1]>::new();
        locked.push(first);
        let mut search = HolderSearch { writer: write.writer, snapshot: unique.snapshot(), before: None };
        if unique != Uniqueness::Repeats {
            let mut end = locked[0].end.near();
            if let Some(met) = search.in_leaf(&locked[0], end, key)? {
                return Ok(Some(met));
            }
            // Entries of the key may go on in the next leaves.
            while let Some(high) = end.filter(|high| high.starts_with(key)) {
                let next = self.order().lock(high)?.expect("an index with a leaf");
                end = next.end.high();
                if let Some(met) = search.in_leaf(&next, end, key)? {
                    return Ok(Some(met));
                }
                locked.push(next);
            }
            while locked.len() > 1 && locked.last().is_some_and(|leaf| leaf.bytes.low() > write.entry) {
                locked.pop();
            }
        }
        let target = locked.last_mut().expect("at least one leaf");
        let occupied = target.shadow.occupied(target.valid()?);
        let Some(place) = target.bytes.room(occupied, write.entry.len()) else {
            return self.make_room(ground, write, locked, touched, spares);
        };
        self.order().populate(target);
        // An entry that is taken back before the record is never flushed.
        let unflushed = touched.is_by_value().then(|| trace::span(trace::TRANSIENT));
        let ranges = target.bytes.write(place, write.entry);
        drop(unflushed);
        let (change, first) = target.shadow.change(write.writer, write.step);
        change.inserted |= 1 << place.0;
        change.folded ^= fold_entry(write.entry);
        let leaf = target.id;
        drop(locked);
        touched.note(leaf, write.step, first);
        touched.note_written(self.leaves(), leaf, ranges);
        Ok(Some(search.before.map_or(Inserted::Done, Inserted::DoneOver)))
    }

    /// Makes room for an entry in the last of the locked leaves, so that the insert can be tried
    /// again; or takes the spare leaves that this needs.
    #[cold]
    fn make_room(
        &self,
        ground: Ground<'_>,
        write: &EntryWrite<'_>,
        mut locked: smallvec::SmallVec<[LockedLeaf<'_>; 1]>,
        touched: &mut TouchedLeaves,
        spares: &mut Spares<'_>,
    ) -> Result<Option<Inserted>> {
        let mut target = locked.pop().expect("at least one leaf");
        if target.shadow.settle(write.writer, write.floor) {
            return Ok(None);
        }
        // Mostly two places are needed. They are taken with nothing locked, before the entries are
        // looked at.
        if spares.are_none() && self.form().is_fixed() {
            drop((locked, target));
            spares.provide([self.form().fixed_units(); 2], ground.segments)?;
            return Ok(None);
        }
        let Some(plan) = self.replacer().plan(ground, &target, write.entry)? else {
            // The purge that the insert waits for looks at the leaf.
            self.leaves().queue().push_asked(target.id);
            return Ok(Some(Inserted::Crowded));
        };
        if !spares.have(&plan) {
            drop((locked, target));
            spares.provide(plan.units(), ground.segments)?;
            return Ok(None);
        }
        // Not to be flushed again once the leaf has retired.
        touched.flush_gathered(self.leaves());
        self.replacer().replace(ground, target, &plan, spares)?;
        Ok(None)
    }

    /// Deletes an entry. Returns false if there is none.
    pub(crate) fn delete(&self, write: &EntryWrite<'_>, touched: &mut TouchedLeaves) -> Result<bool> {
        self.check()?;
        let Some(mut leaf) = self.order().lock(write.entry)? else { return Ok(false) };
        let own = OwnView { writer: write.writer, seen: u64::MAX };
        let seen = leaf.shadow.seen(leaf.valid()?, &View::newest(Some(own)));
        let Some(slot) = leaf.bytes.find(seen, write.entry) else { return Ok(false) };
        let (change, first) = leaf.shadow.change(write.writer, write.step);
        change.deleted |= 1 << slot;
        change.folded ^= fold_entry(write.entry);
        let id = leaf.id;
        drop(leaf);
        touched.note(id, write.step, first);
        Ok(true)
    }

    /// Takes back the insertion of an entry, or its deletion, in the step that it was made in. Once
    /// the medium has failed nothing is.
    pub(crate) fn take_back(&self, write: &EntryWrite<'_>) {
        let Ok(Some(mut leaf)) = self.order().lock(write.entry) else { return };
        let own = leaf.shadow.open().filter(|change| Arc::ptr_eq(&change.writer, write.writer));
        let slots = own.fold(0, |slots, change| slots | change.inserted | change.deleted);
        if let Some(slot) = write.newest_in(&leaf, slots) {
            leaf.shadow.undo_one(write.writer, write.step, (slot, fold_entry(write.entry)));
        }
    }
}
