//! Adding and dropping indexes of a table, without another table.

use super::catalog::Entry;
use super::ddl::{Redefinition, check_indexes, check_undecided, ddl, redefine};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{IndexDefinition, Rid};
use crate::index::build::{Built, IndexBuild};
use crate::index::table_index::Index;
use crate::pool::Pool;
use crate::pool::tables::Registered;
use crate::table::Table;
use crate::table::definition::Definition;
use crate::txn::isolation::Isolation;
use crate::txn::keys::{Key, rid_of};
use crate::txn::session::Session;
use perdura_pmem::Mutant;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Rows after which the client is asked again whether to go on.
const ROWS_BETWEEN: u64 = 256;
/// Least DRAM in which the entries of an index are sorted, in bytes.
const MEMORY_MIN: usize = 1 << 16;

/// An index of an altered table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlteredIndex {
    /// The one that has this position now.
    Kept(usize),
    /// A new one.
    New(IndexDefinition),
}

/// Source of the keys of new indexes.
pub trait BuildClient {
    /// Whether to go on. Asked before each 256 rows, and after each leaf that is written.
    fn goes_on(&mut self) -> bool;

    /// Takes the next row, which is valid until [`BuildClient::key`] was called for each new index.
    fn row(&mut self, row: &[u8]) -> Result<()>;

    /// The key of that row in the new index at `position`.
    fn key(&mut self, position: usize) -> Result<Key<'_>>;
}

/// An alteration of a table's indexes under way. Dropping it leaves the table as it was. It stays
/// with the thread that began it, whose fence at the commit covers the leaves.
///
/// New indexes are built from the rows that are committed, beside the table (`index/build.rs`).
/// Then one commit on the catalog puts all changes into force. A table with the new list of
/// indexes, over the same files, takes the old one's place in the register. The leaves of dropped
/// indexes retire. An index has a number of its own in its table, by which leaves and log know it,
/// and which no other gets: so a leaf whose number the catalog does not have is one that a crash
/// left, and opening retires it.
pub struct IndexAlteration {
    /// Not to be sent to another thread.
    _thread: PhantomData<*const ()>,
    pool: Arc<Pool>,
    table: Arc<Table>,
    registered: Arc<Registered>,
    definition: Definition,
    /// The indexes, in their new order; the new ones are still built.
    list: Vec<Arc<Index>>,
    builds: Vec<(usize, IndexBuild)>,
    duplicate: Option<(usize, Rid)>,
}

impl IndexAlteration {
    pub(crate) fn begin(pool: &Arc<Pool>, table: &Arc<Table>, indexes: &[AlteredIndex]) -> Result<IndexAlteration> {
        pool.check_writable()?;
        let gone = || Error::new(ErrorKind::NotFound, format!("table {} does not exist any more", table.name()));
        let registered = pool.tables.find_id(table.id()).filter(|_| !table.is_altered()).ok_or_else(gone)?;
        check_undecided(pool, &registered)?;
        let definition = altered(table, indexes)?;
        check_indexes(&definition, pool.context.geometry.segment_bytes)?;
        if registered.altering.swap(true, Ordering::AcqRel) {
            let what = format!("somebody else alters the indexes of table {}", table.name());
            return Err(Error::new(ErrorKind::LockWaitTimeout, what));
        }
        let added = indexes.iter().filter(|index| matches!(index, AlteredIndex::New(_))).count();
        let memory = (pool.transaction_memory() / added.max(1)).max(MEMORY_MIN);
        let (mut list, mut builds) = (Vec::new(), Vec::new());
        for (position, (number, index)) in definition.numbered().enumerate() {
            let kept = match indexes[position] {
                AlteredIndex::Kept(kept) => table.index_list().shared(kept),
                AlteredIndex::New(_) => None,
            };
            list.push(kept.unwrap_or_else(|| {
                let new = Arc::new(table.index_list().begin(number, index));
                builds.push((position, IndexBuild::new(new.clone(), index.unique, memory)));
                new
            }));
        }
        let (pool, table, duplicate, _thread) = (pool.clone(), table.clone(), None, PhantomData);
        Ok(IndexAlteration { _thread, pool, table, registered, definition, list, builds, duplicate })
    }

    /// Builds the new indexes from the rows that are committed. It sorts entries in DRAM, as many
    /// bytes at a time as the write set of a transaction may take; others go to the medium and are
    /// merged.
    ///
    /// # Errors
    /// DuplicateKey ([`IndexAlteration::duplicate`]); Killed if the client ends it; DeviceFull;
    /// TableFull; Damaged; what the client returns.
    pub fn build(&mut self, client: &mut dyn BuildClient) -> Result<()> {
        if self.builds.is_empty() {
            return Ok(());
        }
        let pool = self.pool.clone();
        let segments = self.table.space().segments();
        let mut session = Session::new(pool.clone(), Isolation::ReadCommitted);
        session.start_statement();
        let mut scan = session.scan(&self.table);
        let mut rows = 0u64;
        while let Some((rid, row)) = scan.next(&session)? {
            if rows.is_multiple_of(ROWS_BETWEEN) && !client.goes_on() {
                return Err(ended(&self.table));
            }
            rows += 1;
            // SAFETY: the statement has not ended, so its snapshot holds the version.
            client.row(unsafe { row.bytes() })?;
            for (position, build) in &mut self.builds {
                let key = client.key(*position)?;
                if build.add(key.bytes, rid.row(), key.may_repeat)? {
                    gated(&pool, &self.table, client, |pause| build.spill(segments, pause))?;
                }
            }
        }
        session.end_statement();
        for (position, build) in &mut self.builds {
            let built = gated(&pool, &self.table, client, |pause| build.finish(segments, pause))?;
            if let Built::Duplicate(row) = built {
                self.duplicate = Some((*position, rid_of(&self.table, row)?));
                let what = format!("two rows of table {} have one key in the new index {position}", self.table.name());
                return Err(Error::new(ErrorKind::DuplicateKey, what));
            }
        }
        Ok(())
    }

    /// After DuplicateKey: the position of the new index, and a row that has the key of another.
    pub fn duplicate(&self) -> Option<(usize, Rid)> {
        self.duplicate
    }

    /// Puts the alteration into force, durably, with `definition` as the creator's bytes. Returns
    /// the altered table; the `Arc`s of the old one are of no use any more. If there are new
    /// indexes, snapshots from before cannot read the table.
    ///
    /// # Errors
    /// NotFound if the table was dropped meanwhile; LockWaitTimeout as for
    /// [`crate::Engine::alter_indexes`]; DeviceFull; ReadOnlyPool.
    pub fn commit(self, definition: &[u8]) -> Result<Arc<Table>> {
        self.commit_redefining(definition, &[])
    }

    /// As [`IndexAlteration::commit`]; and in the same commit replaces the bytes that other tables
    /// were created with ([`crate::Engine::rename_table_redefining`]).
    ///
    /// # Errors
    /// As for [`IndexAlteration::commit`].
    pub fn commit_redefining(mut self, definition: &[u8], others: &[Redefinition]) -> Result<Arc<Table>> {
        let pool = self.pool.clone();
        self.definition.bytes = definition.into();
        ddl(&pool, |session, catalog| {
            if self.table.is_dropped() {
                let what = format!("table {} was dropped meanwhile", self.table.name());
                return Err(Error::new(ErrorKind::NotFound, what));
            }
            check_undecided(&pool, &self.registered)?;
            self.builds.iter_mut().for_each(|(_, build)| build.put_in_use());
            let (id, name) = (self.table.id(), self.registered.name().to_string());
            let entry = Entry::Table { id, name, definition: self.definition.clone() };
            session.update(catalog, self.registered.row, &entry.encode())?;
            let redefined = redefine(&pool, (&mut *session, catalog), others.iter())?;
            let csn = session.commit()?;
            redefined.install();
            // A new index has none of what older snapshots see.
            if !self.builds.is_empty() {
                self.table.set_defined(csn);
            }
            self.builds.clear();
            Ok(pool.without_purge(|| self.install()))
        })
    }

    /// Puts the altered table in the old one's place, after the commit.
    fn install(&self) -> Arc<Table> {
        let before = self.table.index_list();
        let indexes = before.altered(self.list.iter().cloned(), self.definition.next_number);
        let altered = Arc::new(self.table.altered(self.definition.clone(), indexes));
        self.pool.tables.alter(&self.registered, &altered);
        let is_dropped = |index: &&Index| self.list.iter().all(|kept| kept.number() != index.number());
        for index in before.iter().filter(is_dropped) {
            altered.index_list().retire_dropped(index, self.pool.log.visible_csn());
        }
        altered
    }
}

impl Drop for IndexAlteration {
    fn drop(&mut self) {
        if !self.builds.is_empty() {
            let _changing = self.pool.hold.change();
            // The commit may be durable or not: the next start decides.
            let undecided = self.pool.log.is_failed();
            self.builds.iter_mut().for_each(|(_, build)| build.discard(undecided));
        }
        self.registered.altering.store(false, Ordering::Release);
    }
}

/// Has `body` write leaves, as a change of the pool that pauses after each leaf if somebody wants
/// to hold the pool.
fn gated<T>(
    pool: &Pool,
    table: &Table,
    client: &mut dyn BuildClient,
    body: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> Result<T>,
) -> Result<T> {
    let mut changing = Some(pool.hold.change());
    let mut pause = || {
        changing = None;
        if !client.goes_on() {
            return Err(ended(table));
        }
        pool.check_writable()?;
        changing = Some(pool.hold.change());
        Ok(())
    };
    body(&mut pause)
}

/// The definition of a table with other indexes.
fn altered(table: &Table, indexes: &[AlteredIndex]) -> Result<Definition> {
    let before = table.whole_definition();
    let (mut numbers, mut list, mut next_number) = (Vec::new(), Vec::new(), before.next_number);
    for index in indexes {
        let (number, index) = match *index {
            AlteredIndex::New(index) => {
                let number = next_number;
                next_number = next_number.checked_add(1).ok_or_else(|| {
                    let what = format!("table {} has had as many indexes as it can have; rebuild it", table.name());
                    Error::new(ErrorKind::TableFull, what)
                })?;
                (number, index)
            }
            AlteredIndex::Kept(kept) => before.numbered().nth(kept).ok_or_else(|| no_index(table, kept))?,
        };
        if numbers.contains(&number) {
            let what = format!("an index of table {} is to be kept twice", table.name());
            return Err(Error::new(ErrorKind::Configuration, what));
        }
        numbers.push(number);
        list.push(index);
    }
    // Planted: numbers are given again.
    if perdura_pmem::planted(Mutant::IndexNumberReused) {
        next_number = numbers.iter().max().map_or(0, |most| most + 1);
    }
    Ok(Definition { indexes: list.into(), numbers: numbers.into(), next_number, bytes: before.bytes.clone() })
}

fn no_index(table: &Table, position: usize) -> Error {
    Error::new(ErrorKind::Configuration, format!("table {} has no index {position}", table.name()))
}

#[cold]
fn ended(table: &Table) -> Error {
    Error::new(ErrorKind::Killed, format!("the alteration of table {} was interrupted", table.name()))
}
