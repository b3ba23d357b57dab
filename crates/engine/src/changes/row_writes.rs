//! The rows a transaction wrote one by one: for each the newest own version and the committed one before it.

use crate::format::{Rid, Word};
use crate::table::Table;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Entries a transaction's lists keep room for from one use to the next.
pub const MEMORY_KEPT: usize = 1024;

/// One row a transaction wrote.
pub struct Write {
    /// Table of the row.
    pub table: Arc<Table>,
    /// The row.
    pub rid: Rid,
    /// Committed word before the transaction; empty for its own insert.
    pub base: Word,
    /// Newest own version, with its flags.
    pub head: Word,
    /// Own versions so far.
    pub versions: u32,
    /// Rolled back: the row is as if never written.
    pub void: bool,
}

impl Write {
    /// A row the transaction inserted and deleted again: nothing of it is published.
    pub fn is_nothing(&self) -> bool {
        self.void || self.base.is_empty() && self.head.is_tombstone()
    }

    fn key(&self) -> (u32, Rid) {
        (self.table.id(), self.rid)
    }
}

struct Undo {
    entry: u32,
    /// Head before; `None` if the entry was made by this write.
    before: Option<Word>,
}

/// What undoing one write leaves to be freed.
pub struct Undone {
    /// Table of the row.
    pub table: Arc<Table>,
    /// The version no longer needed.
    pub version: Word,
    /// The RID, if it was of a fresh insert.
    pub rid: Option<Rid>,
}

/// The single rows of a write set.
#[derive(Default)]
pub struct RowWrites {
    entries: Vec<Write>,
    index: FxHashMap<(u32, Rid), u32>,
    undo: Vec<Undo>,
    inserts: Vec<(u32, u64)>,
}

impl RowWrites {
    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Rows written, in the order of their first write; rolled back ones are void.
    pub fn entries(&self) -> &[Write] {
        &self.entries
    }

    /// The row's entry.
    pub fn get(&self, table: u32, rid: Rid) -> Option<&Write> {
        if self.index.is_empty() {
            return None;
        }
        self.index.get(&(table, rid)).map(|entry| &self.entries[*entry as usize])
    }

    /// Whether any row of `table` is in it.
    pub fn touches(&self, table: u32) -> bool {
        self.entries.iter().any(|write| write.table.id() == table)
    }

    /// Single inserts into `table` so far.
    pub fn inserts(&self, table: u32) -> u64 {
        self.inserts.iter().find(|(id, _)| *id == table).map_or(0, |(_, count)| *count)
    }

    /// Adds the first write of a row.
    pub fn add(&mut self, table: &Arc<Table>, rid: Rid, base: Word, head: Word) {
        if base.is_empty() {
            match self.inserts.iter_mut().find(|(id, _)| *id == table.id()) {
                Some((_, count)) => *count += 1,
                None => self.inserts.push((table.id(), 1)),
            }
        }
        let entry = self.entries.len() as u32;
        self.entries.push(Write { table: table.clone(), rid, base, head, versions: 1, void: false });
        self.index.insert((table.id(), rid), entry);
        self.undo.push(Undo { entry, before: None });
    }

    /// Adds a further write of a row that is in the set.
    pub fn replace(&mut self, table: u32, rid: Rid, head: Word) {
        let entry = self.index[&(table, rid)];
        let write = &mut self.entries[entry as usize];
        self.undo.push(Undo { entry, before: Some(write.head) });
        write.head = head;
        write.versions += 1;
    }

    /// Writes so far: a position to undo to.
    pub fn position(&self) -> usize {
        self.undo.len()
    }

    /// Undoes the last write if there are more than `position`.
    pub fn undo_one(&mut self, position: usize) -> Option<Undone> {
        if self.undo.len() <= position {
            return None;
        }
        let undo = self.undo.pop()?;
        let write = &mut self.entries[undo.entry as usize];
        let version = write.head;
        write.versions -= 1;
        let mut rid = None;
        match undo.before {
            Some(before) => write.head = before,
            None => {
                write.void = true;
                rid = write.base.is_empty().then_some(write.rid);
                let key = write.key();
                self.index.remove(&key);
            }
        }
        Some(Undone { table: self.entries[undo.entry as usize].table.clone(), version, rid })
    }

    /// Own versions that a later write of the transaction replaced, with their rows.
    pub fn replaced(&self) -> impl Iterator<Item = (&Write, Word)> {
        self.undo.iter().filter_map(|undo| Some((&self.entries[undo.entry as usize], undo.before?)))
    }

    /// Forgets everything, keeping memory for the next transaction within reason.
    pub fn clear(&mut self) {
        if self.entries.capacity().max(self.undo.capacity()).max(self.index.capacity()) > 2 * MEMORY_KEPT {
            *self = RowWrites::default();
        } else {
            self.entries.clear();
            self.index.clear();
            self.undo.clear();
            self.inserts.clear();
        }
    }
}
