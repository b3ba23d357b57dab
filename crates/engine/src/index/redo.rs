//! Redo of indexes, by key: leaves may have taken the place of those that a record names (I6).

use super::indexes::Indexes;
use super::leaf::{LeafId, bits};
use super::touched::TouchedLeaves;
use super::tree::{Index, damaged};
use crate::error::{Error, Result};
use crate::files::chain::Chain;
use crate::format::{Word, data_file_name, delta_crc, fold_entry};
use crate::shadow::writer::Writer;
use std::sync::Arc;

/// What a redo record says of a leaf.
#[derive(Clone, Copy, Debug)]
pub struct LeafRecord {
    /// Names the leaf.
    pub place: Word,
    /// The slots inserted.
    pub inserted: u64,
    /// The slots deleted.
    pub deleted: u64,
    /// Checksum of their entries.
    pub crc: u32,
}

/// The entries that a record names.
struct Named<'i> {
    index: &'i Index,
    leaf: LeafId,
    inserted: Vec<NamedEntry<'i>>,
    deleted: Vec<NamedEntry<'i>>,
}

/// An entry that a record names.
#[derive(Clone, Copy)]
struct NamedEntry<'i> {
    leaf: LeafId,
    slot: u32,
    entry: &'i [u8],
}

impl Indexes {
    /// Verifies that the entries which a record names are there, and match its checksum.
    pub fn verify(&self, chain: &Chain, record: &LeafRecord) -> Result<()> {
        self.named(chain, record).map(|_| ())
    }

    /// The entries that a record names; `None` if their index was dropped.
    fn named(&self, chain: &Chain, record: &LeafRecord) -> Result<Option<Named<'_>>> {
        let (file, at) = (data_file_name(chain.table(), record.place.file()), record.place.offset());
        let missing = || Error::damaged(&file, at, "a log record names an index' leaf that is not here");
        let leaf = self.leaves().at_word(chain, record.place).ok_or_else(missing)?;
        let bytes = self.leaves().known_bytes(leaf).filter(|bytes| bytes.is_sound(self.leaves().salt(leaf)));
        let bytes = bytes.ok_or_else(missing)?;
        if self.is_dropped(bytes.shape().index) {
            return Ok(None);
        }
        let index = self.of_number(bytes.shape().index).ok_or_else(missing)?;
        index.check()?;
        let slots = record.inserted | record.deleted;
        if slots >> bytes.slots() != 0 || delta_crc(self.leaves().fold(leaf, slots)?) != record.crc {
            return Err(damaged(&bytes, "the entries of a commit do not match their log record"));
        }
        let named = |slot| Some(NamedEntry { leaf, slot, entry: bytes.entry(slot)? });
        let entries = |slots: u64| bits(slots).filter_map(named).collect();
        Ok(Some(Named { index, leaf, inserted: entries(record.inserted), deleted: entries(record.deleted) }))
    }

    /// Deletes and inserts the entries that a record names. It flushes every store; the caller fences.
    pub fn redo(&self, chain: &Chain, record: &LeafRecord) -> Result<()> {
        let Some(named) = self.named(chain, record)? else { return Ok(()) };
        // A key that was deleted and inserted again is there in the end.
        // Planted: deletions are not repeated.
        if !perdura_pmem::planted(215) {
            named.deleted.iter().try_for_each(|named_entry| named.index.redo_delete(named_entry.entry))?;
        }
        // Planted: redo stores where the record says, whatever leaf has the entries now.
        if perdura_pmem::planted(214) {
            let bytes = self.leaves().bytes(named.leaf);
            bytes.set_valid(bytes.loaded_valid() | record.inserted);
            bytes.flush_valid();
            return Ok(());
        }
        named.inserted.iter().try_for_each(|entry| named.index.redo_insert(entry))
    }

    /// Gives a prepared transaction the changes back that a record of it names.
    pub fn restore(
        &self,
        chain: &Chain,
        record: &LeafRecord,
        writer: &Arc<Writer>,
        touched: &mut TouchedLeaves,
    ) -> Result<()> {
        let Some(named) = self.named(chain, record)? else { return Ok(()) };
        // Planted: the keys of a prepared transaction are free after a restart.
        if perdura_pmem::planted(223) {
            return Ok(());
        }
        // The log names the entries where they are until the transaction is over.
        self.leaves().keep(named.leaf, writer);
        let deleted = named.deleted.iter().map(|entry| (entry, false));
        for (entry, inserts) in deleted.chain(named.inserted.iter().map(|entry| (entry, true))) {
            named.index.restore(entry, inserts, writer, touched)?;
        }
        Ok(())
    }
}

impl Index {
    fn redo_insert(&self, named: &NamedEntry<'_>) -> Result<()> {
        let entry = named.entry;
        let leaf = self.lock(entry).ok_or_else(|| self.lacks(entry))?;
        let valid = leaf.valid()?;
        // Its own slot rather than another with the same bytes, which other records may name.
        let own = (leaf.id == named.leaf).then_some(named.slot);
        let other = || leaf.bytes.find(!valid & leaf.bytes.all(), entry);
        let found = leaf.bytes.find(valid, entry).or(own).or_else(other);
        let slot = found.ok_or_else(|| self.lacks(entry))?;
        // It is stored even if it is there already: a killed process may have left it in the cache only.
        leaf.bytes.set_valid(valid | 1 << slot);
        leaf.bytes.reclaim_slot(slot);
        Ok(())
    }

    fn redo_delete(&self, entry: &[u8]) -> Result<()> {
        let leaf = self.lock(entry).ok_or_else(|| self.lacks(entry))?;
        let mut valid = leaf.valid()?;
        while let Some(slot) = leaf.bytes.find(valid, entry) {
            valid &= !(1 << slot);
        }
        leaf.bytes.set_valid(valid);
        leaf.bytes.flush_valid();
        Ok(())
    }

    fn restore(
        &self,
        named: &NamedEntry<'_>,
        inserts: bool,
        writer: &Arc<Writer>,
        touched: &mut TouchedLeaves,
    ) -> Result<()> {
        let entry = named.entry;
        let mut leaf = self.lock(entry).ok_or_else(|| self.lacks(entry))?;
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
        let row = crate::format::entry_row(entry);
        let what = format_args!("index {} lacks the entry of row {row:#x} that a log record names", self.number());
        Error::damaged(&data_file_name(self.leaves().table(), 0), 0, what)
    }
}
