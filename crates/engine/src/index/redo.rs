//! Redo of indexes, by key: leaves may have taken the place of those that a record names (I6).
//!
//! Of what a leaf has, those that take its place get what somebody may need (`replace.rs`). So an
//! entry that a record inserts may be in none of them, if a later record deletes it, and only then.

use super::indexes::Indexes;
use super::leaf::{Carried, LeafBytes, LeafId, bits, damaged};
use super::leaf_order::LockedLeaf;
use super::table_index::Index;
use super::touched::TouchedLeaves;
use crate::error::{Error, Result};
use crate::files::chain::Chain;
use crate::format::{SlotValue, Word, data_file_name, delta_crc, fold_entry, slot_values};
use crate::shadow::writer::Writer;
use perdura_pmem::Mutant;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Content of a redo record about a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafRecord {
    /// Names the leaf.
    pub place: Word,
    /// The slots inserted.
    pub inserted: u64,
    /// The slots deleted.
    pub deleted: u64,
    /// Checksum of their entries.
    pub crc: u32,
}

/// Entries that records insert and no leaf has: later records are to delete them.
#[derive(Default)]
pub(crate) struct Lacking {
    /// Table, index and entry. As many as were inserted above the checkpoint, and not deleted yet
    /// where redo is: so no more than the log has.
    entries: FxHashSet<(u32, u16, Box<[u8]>)>,
}

impl Lacking {
    fn add(&mut self, index: &Index, entry: &[u8]) {
        self.entries.insert((index.leaves().table(), index.number(), entry.into()));
    }

    /// Notes that a record deletes an entry.
    fn remove(&mut self, index: &Index, entry: &[u8]) {
        if !self.entries.is_empty() {
            self.entries.remove(&(index.leaves().table(), index.number(), entry.into()));
        }
    }

    /// Fails with Damaged if a leaf lacks an entry, and no record deletes it. For the end of the
    /// redo.
    pub(crate) fn check(&self) -> Result<()> {
        match self.entries.iter().next() {
            Some((table, index, entry)) => Err(lacks((*table, *index), entry)),
            None => Ok(()),
        }
    }
}

#[cold]
fn lacks((table, index): (u32, u16), entry: &[u8]) -> Error {
    let row = crate::format::entry_row(entry);
    let what = format_args!("index {index} lacks the entry of row {row:#x} that a log record names");
    Error::damaged(&data_file_name(table, 0), 0, what)
}

/// The entries that a record names.
struct Named<'i> {
    index: &'i Index,
    leaf: LeafId,
    /// Those deleted before those inserted.
    entries: Vec<NamedEntry<'i>>,
}

/// An entry that a record names.
#[derive(Clone, Copy)]
struct NamedEntry<'i> {
    leaf: LeafId,
    slot: u32,
    entry: &'i [u8],
    is_inserted: bool,
}

impl Indexes {
    /// Verifies that the entries which a record names are there, and match its checksum; `carried`
    /// tells those that redo is still to write, by slot.
    pub(crate) fn verify(&self, chain: &Chain, record: &LeafRecord, carried: Carried<'_>) -> Result<()> {
        match self.leaf_of(chain, record)? {
            Some((_, leaf, bytes)) => self.verify_in(leaf, &bytes, record, carried),
            None => Ok(()),
        }
    }

    fn verify_in(&self, leaf: LeafId, bytes: &LeafBytes<'_>, record: &LeafRecord, carried: Carried<'_>) -> Result<()> {
        let slots = record.inserted | record.deleted;
        if slots >> bytes.slots() != 0 || delta_crc(self.leaves().fold(leaf, slots, carried)?) != record.crc {
            return Err(damaged(bytes, "the entries of a commit do not match their log record"));
        }
        Ok(())
    }

    /// Number of the index whose leaf is at `place`, if one is.
    pub(crate) fn number_at(&self, chain: &Chain, place: Word) -> Option<u16> {
        let leaf = self.leaves().at_word(chain, place)?;
        Some(self.leaves().known_bytes(leaf)?.shape().index)
    }

    /// The leaf that a record names, and its index; `None` if that was dropped.
    fn leaf_of(&self, chain: &Chain, record: &LeafRecord) -> Result<Option<(&Index, LeafId, LeafBytes<'_>)>> {
        let missing = || {
            let file = data_file_name(chain.table(), record.place.file());
            Error::damaged(&file, record.place.offset(), "a log record names an index' leaf that is not here")
        };
        let leaf = self.leaves().at_word(chain, record.place).ok_or_else(missing)?;
        let bytes = self.leaves().known_bytes(leaf).filter(|bytes| bytes.is_sound(self.leaves().salt(leaf)));
        let bytes = bytes.ok_or_else(missing)?;
        if self.is_dropped(bytes.shape().index) {
            return Ok(None);
        }
        let index = self.of_number(bytes.shape().index).ok_or_else(missing)?;
        index.check()?;
        Ok(Some((index, leaf, bytes)))
    }

    /// Writes the entries that a record carries into the slots that it names, of a leaf in use or
    /// retired. It flushes every store; the caller fences.
    pub(crate) fn write_values(&self, chain: &Chain, record: &LeafRecord, values: &[u8]) -> Result<()> {
        let Some((_, _, bytes)) = self.leaf_of(chain, record)? else { return Ok(()) };
        let misplaced = || damaged(&bytes, "a log record has an entry that does not fit the leaf here");
        for value in slot_values(record.inserted, values) {
            // Planted: it goes to the next slot.
            let value = match perdura_pmem::planted(Mutant::ValueInWrongSlot) && value.slot + 1 < bytes.slots() {
                true => SlotValue { slot: value.slot + 1, ..value },
                false => value,
            };
            bytes.write(bytes.place_of(&value).ok_or_else(misplaced)?, value.entry);
            bytes.flush_slots_settled(1 << value.slot);
        }
        Ok(())
    }

    /// The entries that a record names; `None` if their index was dropped.
    fn named(&self, chain: &Chain, record: &LeafRecord) -> Result<Option<Named<'_>>> {
        let Some((index, leaf, bytes)) = self.leaf_of(chain, record)? else { return Ok(None) };
        self.verify_in(leaf, &bytes, record, &|_| None)?;
        let slots =
            bits(record.deleted).map(|slot| (slot, false)).chain(bits(record.inserted).map(|slot| (slot, true)));
        let named = |(slot, is_inserted)| Some(NamedEntry { leaf, slot, entry: bytes.entry(slot)?, is_inserted });
        Ok(Some(Named { index, leaf, entries: slots.filter_map(named).collect() }))
    }

    /// Verifies the entries that a record names, deletes and inserts them. It flushes every store;
    /// the caller fences. Those that no leaf has are noted as `lacking`.
    pub(crate) fn redo(&self, chain: &Chain, record: &LeafRecord, lacking: &mut Lacking) -> Result<()> {
        let Some(mut named) = self.named(chain, record)? else { return Ok(()) };
        // Planted: deletions are not repeated.
        if perdura_pmem::planted(Mutant::RedoSkipsDeletions) {
            named.entries.retain(|entry| entry.is_inserted);
        }
        // Planted: redo stores where the record says, whatever leaf has the entries now.
        if perdura_pmem::planted(Mutant::RedoByPlace) {
            let bytes = self.leaves().bytes(named.leaf);
            bytes.set_valid(bytes.loaded_valid() | record.inserted);
            bytes.flush_valid();
            return Ok(());
        }
        named.index.redo(named.entries, lacking)
    }

    /// Gives a prepared transaction the changes back that a record of it names.
    pub(crate) fn restore(
        &self,
        chain: &Chain,
        record: &LeafRecord,
        writer: &Arc<Writer>,
        touched: &mut TouchedLeaves,
    ) -> Result<()> {
        let Some(named) = self.named(chain, record)? else { return Ok(()) };
        // Planted: the keys of a prepared transaction are free after a restart.
        if perdura_pmem::planted(Mutant::PreparedKeysFree) {
            return Ok(());
        }
        // The log names the entries where they are until the transaction is over.
        self.leaves().keep(named.leaf, writer);
        named.entries.iter().try_for_each(|entry| named.index.restore(entry, writer, touched))
    }
}

impl Index {
    /// Deletes and inserts `entries`, those of each leaf at once: mostly one leaf has them all.
    fn redo(&self, mut entries: Vec<NamedEntry<'_>>, lacking: &mut Lacking) -> Result<()> {
        while let Some(first) = entries.first() {
            let leaf = self.order().lock(first.entry)?.ok_or_else(|| self.lacks(first.entry))?;
            let (low, high) = (leaf.bytes.low(), leaf.end.high());
            let is_here = |named: &NamedEntry<'_>| named.entry >= low && high.is_none_or(|high| named.entry < high);
            let (here, elsewhere) = entries.iter().partition::<Vec<_>, _>(|named| is_here(named));
            self.redo_in(&leaf, &here, lacking)?;
            entries = elsewhere;
        }
        Ok(())
    }

    /// Deletes and inserts `entries`, all of which leaf `leaf` has. A key that was deleted and
    /// inserted again is there in the end.
    fn redo_in(&self, leaf: &LockedLeaf<'_>, entries: &[NamedEntry<'_>], lacking: &mut Lacking) -> Result<()> {
        let mut valid = leaf.valid()?;
        let mut others = 0;
        for named in entries {
            if !named.is_inserted {
                while let Some(slot) = leaf.bytes.find(valid, named.entry) {
                    valid &= !(1 << slot);
                }
                lacking.remove(self, named.entry);
                continue;
            }
            // Its own slot rather than another with the same bytes, which other records may name.
            let own = (leaf.id == named.leaf).then_some(named.slot);
            let other = || leaf.bytes.find(!valid & leaf.bytes.all(), named.entry);
            let found = leaf.bytes.find(valid, named.entry).or(own).or_else(other);
            let Some(slot) = found else {
                // Planted: it is taken for damage, whatever becomes of it.
                if perdura_pmem::planted(Mutant::EntryLeftBehindIsDamage) {
                    return Err(self.lacks(named.entry));
                }
                lacking.add(self, named.entry);
                continue;
            };
            valid |= 1 << slot;
            // Its own was durable before its record (I3). A loser may have filled another, in the
            // cache only.
            if own != Some(slot) {
                others |= 1 << slot;
            }
        }
        // It is stored even if it says so already: a killed process may have left it in the cache
        // only.
        leaf.bytes.set_valid(valid);
        leaf.bytes.reclaim_slots(others);
        Ok(())
    }

    fn restore(&self, named: &NamedEntry<'_>, writer: &Arc<Writer>, touched: &mut TouchedLeaves) -> Result<()> {
        let (entry, inserts) = (named.entry, named.is_inserted);
        let mut leaf = self.order().lock(entry)?.ok_or_else(|| self.lacks(entry))?;
        let valid = leaf.valid()?;
        let (bytes, occupied) = (leaf.bytes, leaf.shadow.occupied(valid));
        let (change, first) = leaf.shadow.change(writer, 0);
        // A transaction may log what it has done to a leaf more than once.
        let known = if inserts { change.inserted & !change.deleted } else { change.deleted & !change.inserted };
        if bytes.find(known, entry).is_some() {
            return Ok(());
        }
        let slots = if inserts { !occupied & bytes.all() } else { valid & !change.deleted };
        let own = 1 << named.slot & if leaf.id == named.leaf { slots } else { 0 };
        let slot = bytes.find(own, entry).or_else(|| bytes.find(slots, entry)).ok_or_else(|| self.lacks(entry))?;
        match inserts {
            true => change.inserted |= 1 << slot,
            false => change.deleted |= 1 << slot,
        }
        // Nobody else may use the slot that the record names, either.
        if leaf.id == named.leaf && slot != named.slot && occupied >> named.slot & 1 == 0 {
            change.inserted |= 1 << named.slot;
            change.deleted |= 1 << named.slot;
        }
        change.folded ^= fold_entry(entry);
        touched.note(leaf.id, 0, first);
        Ok(())
    }

    #[cold]
    fn lacks(&self, entry: &[u8]) -> Error {
        lacks((self.leaves().table(), self.number()), entry)
    }
}
