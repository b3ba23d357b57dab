//! Room *table*: a table, the visibility of its versions, what makes them sound, and the audit of
//! its space.
//!
//! A table owns the allocator that owns its files; definition and figures it shares with the pool's
//! register, which keeps them while the table is closed. It stands on `index`, `space` and `files`.
//! It keeps (I4) for readers: a version is live iff the directory word of its RID, in a published
//! page, names it.

mod audit;
mod check;
pub(crate) mod definition;
pub(crate) mod figures;
pub(crate) mod visibility;
pub(crate) mod whole_reader;

use crate::error::{Error, ErrorKind, Result};
use crate::files::chain::Chain;
use crate::files::context::{Need, TableContext};
use crate::files::datafile::DataFile;
use crate::files::directory::Directory;
use crate::format::{CATALOG_ID, IndexDefinition};
use crate::index::indexes::Indexes;
use crate::index::open;
use crate::shadow::slots::Shadows;
use crate::space::allocator::Allocator;
use definition::Definition;
use figures::{Figures, TableSpace};
use perdura_log::Csn;
use perdura_pmem::Mutant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of directory pages whose rows are counted when a table is opened; the rest is
/// extrapolated.
const COUNTED_AT_OPEN: u64 = 4096;

/// An open table: its definition, its files and its row directory.
pub struct Table {
    definition: Definition,
    space: Arc<Allocator>,
    indexes: Indexes,
    figures: Arc<Figures>,
    /// Another has taken its place, over the same files.
    altered: AtomicBool,
}

impl Table {
    /// Creates a table's first file, a smaller one on a device that is nearly full. Until the
    /// catalog row is committed nothing names the table.
    ///
    /// # Errors
    /// DeviceFull, Medium.
    pub(crate) fn create(context: Arc<TableContext>, id: u32, name: &str, definition: Definition) -> Result<Table> {
        let least = match id {
            CATALOG_ID => context.first_file_bytes,
            _ => 0,
        };
        let file = context.create_file(context.identity(id, 0), context.file_bytes(0), least, Need::LEAST);
        let file = file.map_err(|error| error.of_table(name))?;
        Ok(Table::of_file(context, id, name, definition, file))
    }

    fn of_file(context: Arc<TableContext>, id: u32, name: &str, definition: Definition, file: DataFile) -> Table {
        let numbered: Vec<_> = definition.numbered().collect();
        let indexes = Indexes::create(id, &numbered, definition.next_number, &context);
        let space = Allocator::create(Chain::create(context, id, name, file));
        Table::of(definition, Arc::new(space), indexes, Arc::new(Figures::of_new_table()))
    }

    fn of(definition: Definition, space: Arc<Allocator>, indexes: Indexes, figures: Arc<Figures>) -> Table {
        Table { definition, space, indexes, figures, altered: AtomicBool::new(false) }
    }

    /// Like [`Table::create`], but takes the pool's spare file where the device has no room for
    /// another.
    pub(crate) fn create_in_spare(
        context: Arc<TableContext>,
        id: u32,
        name: &str,
        definition: Definition,
    ) -> Result<Table> {
        context.spare.provide(&*context.medium)?;
        let error = match Table::create(context.clone(), id, name, definition.clone()) {
            Err(error) if error.kind() == ErrorKind::DeviceFull => error,
            created => return created,
        };
        let file = context.take_spare(id)?.ok_or(error)?;
        Ok(Table::of_file(context, id, name, definition, file))
    }

    /// Opens the files of an existing table and reads their descriptors.
    pub(crate) fn open(
        context: Arc<TableContext>,
        id: u32,
        name: &str,
        definition: Definition,
        figures: Arc<Figures>,
    ) -> Result<Table> {
        let (space, leaves) = Allocator::open(Chain::open(context, id, name)?)?;
        let numbered: Vec<_> = definition.numbered().collect();
        let indexes = open::open(space.chain(), &numbered, definition.next_number, leaves);
        Ok(Table::of(definition, Arc::new(space), indexes, figures))
    }

    /// The table with another definition and other indexes, over the same files. It takes this
    /// one's place.
    pub(crate) fn altered(&self, definition: Definition, indexes: Indexes) -> Table {
        Table::of(definition, self.space.clone(), indexes, self.figures.clone())
    }

    /// Notes that another has taken this one's place. Whoever still has this one is refused.
    pub(crate) fn set_altered(&self) {
        self.altered.store(true, Ordering::Release);
    }

    /// Whether the table's indexes were altered since it was looked up: it is to be looked up
    /// again.
    #[inline]
    pub fn is_altered(&self) -> bool {
        self.altered.load(Ordering::Relaxed)
    }

    /// Whether nobody has a table over the same files.
    pub(crate) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.space) == 1
    }

    /// Whether closing the table loses nothing: no version waits for purge (I8). Whatever else DRAM
    /// knows of its space, the next sweep finds again; every tombstone that it finds is then from
    /// before this run, or published since and in the queue. Nobody may be using the table.
    pub(crate) fn is_at_rest(&self) -> bool {
        // Planted: a table is closed although versions wait for purge.
        self.purge_lag() == 0 && self.indexes.is_at_rest() || perdura_pmem::planted(Mutant::TableClosedBeforePurge)
    }

    /// Unmaps the files that were given back while others used the table.
    pub(crate) fn forget_given_back(&mut self) {
        if let Some(space) = Arc::get_mut(&mut self.space) {
            space.forget_given_back();
        }
    }

    /// The figures that outlive the open table.
    pub(crate) fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    /// The table's id, never given twice in a pool.
    #[inline]
    pub fn id(&self) -> u32 {
        self.chain().table()
    }

    /// The present name of the table.
    pub fn name(&self) -> String {
        self.chain().name()
    }

    /// The bytes that the table was created with.
    pub fn definition(&self) -> Arc<[u8]> {
        self.definition.bytes.clone()
    }

    /// All that the table was created with.
    pub(crate) fn whole_definition(&self) -> &Definition {
        &self.definition
    }

    /// Number of indexes.
    pub fn indexes(&self) -> usize {
        self.indexes.len()
    }

    /// How index `index` was declared; `None` if there is none.
    pub fn index_definition(&self, index: usize) -> Option<IndexDefinition> {
        self.definition.indexes.get(index).copied()
    }

    /// The table's indexes.
    #[inline]
    pub(crate) fn index_list(&self) -> &Indexes {
        &self.indexes
    }

    /// The allocator, which owns the table's files.
    #[inline]
    pub(crate) fn space(&self) -> &Allocator {
        &self.space
    }

    /// The allocator, which outlives an alteration of the table.
    #[inline]
    pub(crate) fn shared_space(&self) -> &Arc<Allocator> {
        &self.space
    }

    /// The shadows of the row directory's pages.
    #[inline]
    pub(crate) fn shadows(&self) -> &Shadows {
        self.space.shadows()
    }

    /// The chain of the table's files.
    #[inline]
    pub(crate) fn chain(&self) -> &Chain {
        self.space.chain()
    }

    /// The table's row directory.
    #[inline]
    pub(crate) fn directory(&self) -> &Directory {
        self.space.directory()
    }

    /// Estimated number of committed rows: exact while the pool runs, unless a large table was
    /// extrapolated when it was first opened.
    pub fn row_count_estimate(&self) -> u64 {
        self.figures.rows()
    }

    /// Adds what a commit inserted or deleted to the estimated number of rows.
    pub(crate) fn count_rows(&self, delta: i64) {
        self.figures.add_rows(delta);
    }

    /// Counts the rows when the table is opened for the first time in a run: exactly in the first
    /// directory pages, by their average in the rest. Nobody may be changing it.
    pub(crate) fn estimate_rows(&self) {
        self.figures.count_once(|| self.counted_rows());
    }

    /// Counts rows: exactly in the first directory segments, by their average in the rest.
    fn counted_rows(&self) -> i64 {
        let directory = self.directory();
        let pages = directory.page_count();
        let counted = pages.min(COUNTED_AT_OPEN);
        let mut rows = 0;
        for page in (0..counted).filter(|page| directory.state(*page).is_published()) {
            let is_row = |row: &u64| {
                let word = directory.raw_word(*row);
                !word.is_empty() && !word.is_tombstone()
            };
            rows += directory.page_rows(page).filter(is_row).count() as u64;
        }
        (u128::from(rows) * u128::from(pages) / u128::from(counted.max(1))) as i64
    }

    /// Size of the table's data files, in bytes.
    pub fn data_bytes(&self) -> u64 {
        self.chain().bytes()
    }

    /// Bytes in free segments.
    pub fn free_bytes(&self) -> u64 {
        self.space.free_bytes()
    }

    /// Number of rows changed by commits that wait for purge.
    pub(crate) fn purge_lag(&self) -> usize {
        self.space.retired().rows() as usize
    }

    /// The space that the table takes now.
    pub(crate) fn measure(&self) -> TableSpace {
        TableSpace {
            id: self.id(),
            name: self.name(),
            is_open: true,
            files: self.chain().file_count(),
            data_bytes: self.data_bytes(),
            free_bytes: Some(self.free_bytes()),
            rows: Some(self.row_count_estimate()),
            purge_lag: self.purge_lag(),
            free_rids: Some(self.space.directory_space().free_rids()),
            unswept: Some(self.space.unswept()),
        }
    }

    /// When a commit last changed the table, in seconds since 1970; 0 if none did since the pool
    /// was opened.
    pub fn changed_at(&self) -> u64 {
        self.figures.changed_at()
    }

    /// Notes that a commit changed the table at `now`, in seconds since 1970.
    #[inline]
    pub(crate) fn set_changed(&self, now: u64) {
        self.figures.set_changed(now);
    }

    /// Whether the table was dropped or truncated: it takes no more writes.
    pub fn is_dropped(&self) -> bool {
        self.chain().is_dropped()
    }

    /// Notes the commit that created the table or put it in the place of another. Older snapshots
    /// do not see its rows.
    pub(crate) fn set_defined(&self, csn: Csn) {
        self.figures.set_defined(csn);
    }

    /// Lets every snapshot read the table. Only for a table that one session uses, so that no
    /// snapshot can miss rows in it.
    pub fn set_private(&self) {
        self.set_defined(0);
    }

    /// Fails with DefinitionChanged if the table was created or rebuilt after `snapshot`, which
    /// would silently see none of its rows.
    pub(crate) fn check_defined(&self, snapshot: Csn) -> Result<()> {
        // Planted: a table newer than the snapshot is read.
        if self.figures.defined() <= snapshot || perdura_pmem::planted(Mutant::NewerTableRead) {
            return Ok(());
        }
        let what =
            format!("table {} was created or rebuilt after this transaction's snapshot; begin a new one", self.name());
        Err(Error::new(ErrorKind::DefinitionChanged, what))
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("id", &self.id()).field("name", &self.name()).finish_non_exhaustive()
    }
}
