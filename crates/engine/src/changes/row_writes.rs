//! The rows that a transaction wrote one by one: for each row the committed version and the newest own one, and a list
//! by which writes are undone.

use crate::format::{Rid, Word};
use crate::table::Table;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Number of entries that a session's lists keep room for between transactions, so that a large one leaves no memory
/// behind.
pub const MEMORY_KEPT: usize = 1024;

/// A row that the transaction wrote.
pub struct Write {
    /// Table of the row.
    pub table: Arc<Table>,
    /// RID of the row.
    pub rid: Rid,
    /// Directory word before the transaction; empty if the transaction inserted the row.
    pub base: Word,
    /// Newest own version, with its flags.
    pub head: Word,
    /// Number of own versions.
    pub versions: u32,
    /// All writes of the row were undone.
    pub void: bool,
}

impl Write {
    /// Whether there is nothing to publish: the writes were undone, or the transaction deleted a row of its own.
    pub fn is_nothing(&self) -> bool {
        self.void || self.base.is_empty() && self.head.is_tombstone()
    }

    fn key(&self) -> (u32, Rid) {
        (self.table.id(), self.rid)
    }
}

struct Undo {
    entry: u32,
    /// Own version before the write; `None` if this was the first write of the row.
    before: Option<Word>,
}

/// What the caller frees after one write is undone.
pub struct Undone {
    /// Table of the row.
    pub table: Arc<Table>,
    /// The version that the write made.
    pub version: Word,
    /// The RID, if the write was an insert.
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
    /// Whether no row was written; undone writes count as well.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The rows written, in the order of their first write; those undone are void.
    pub fn entries(&self) -> &[Write] {
        &self.entries
    }

    /// The entry of a row, unless it is void or absent.
    pub fn get(&self, table: u32, rid: Rid) -> Option<&Write> {
        if self.index.is_empty() {
            return None;
        }
        self.index.get(&(table, rid)).map(|entry| &self.entries[*entry as usize])
    }

    /// Whether any entry, void ones included, is of table `table`.
    pub fn touches(&self, table: u32) -> bool {
        self.entries.iter().any(|write| write.table.id() == table)
    }

    /// Number of single inserts into table `table`, undone ones included.
    pub fn inserts(&self, table: u32) -> u64 {
        self.inserts.iter().find(|(id, _)| *id == table).map_or(0, |(_, count)| *count)
    }

    /// Adds the first write of a row; `base` is its committed word, `head` the new version.
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

    /// Adds a further write of a row that has an entry.
    pub fn replace(&mut self, table: u32, rid: Rid, head: Word) {
        let entry = self.index[&(table, rid)];
        let write = &mut self.entries[entry as usize];
        self.undo.push(Undo { entry, before: Some(write.head) });
        write.head = head;
        write.versions += 1;
    }

    /// Number of writes that are not undone: a position for [`RowWrites::undo_one`].
    pub fn position(&self) -> usize {
        self.undo.len()
    }

    /// Undoes the last write, if more than `position` are left.
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

    /// The own versions that later writes of the transaction replaced, with their rows.
    pub fn replaced(&self) -> impl Iterator<Item = (&Write, Word)> {
        self.undo.iter().filter_map(|undo| Some((&self.entries[undo.entry as usize], undo.before?)))
    }

    /// Forgets all writes. Keeps the memory of a small write set for the next transaction.
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
