//! A table: its chain of data files, its row directory, and what is known in DRAM of its space.

use crate::config::Config;
use crate::datafile::{self, DataFile, FileIdentity};
use crate::directory::{Directory, DirectorySegment};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Geometry, PAGES_PER_SEGMENT, Rid, SegmentKind, VERSION_HEADER, VersionHeader, Word};
use crate::purge::Superseded;
use crate::service::Services;
use crate::shard::Shard;
use crate::space::{SegmentId, Space};
use perdura_log::Csn;
use perdura_pmem::sync::Mutex;
use perdura_pmem::{Medium, Region};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Shards of a table's allocation: sessions spread over them.
pub const SHARDS: usize = 4;

/// What a table takes from its pool.
pub struct TableContext {
    /// Where files are.
    pub medium: Arc<dyn Medium>,
    /// Id of the pool.
    pub pool: [u8; 16],
    /// Sizes fixed at creation.
    pub geometry: Geometry,
    /// Size of a first data file, in bytes.
    pub first_file_bytes: u64,
    /// Size of a full-grown data file, in bytes.
    pub data_file_bytes: u64,
    /// Pre-fault and files ahead.
    pub services: Arc<Services>,
}

impl TableContext {
    /// The context a pool with these settings gives its tables.
    pub fn new(
        medium: Arc<dyn Medium>,
        pool: [u8; 16],
        geometry: Geometry,
        config: &Config,
        services: Arc<Services>,
    ) -> Self {
        TableContext {
            medium,
            pool,
            geometry,
            first_file_bytes: config.first_file_bytes,
            data_file_bytes: config.data_file_bytes,
            services,
        }
    }

    fn identity(&self, table: u32, sequence: u32) -> FileIdentity {
        FileIdentity { pool: self.pool, table, sequence }
    }

    /// Size of file `sequence` of a chain: doubling, up to the full size.
    pub fn file_bytes(&self, sequence: u32) -> u64 {
        let doubled = self.first_file_bytes.saturating_mul(1 << sequence.min(32));
        doubled.min(self.data_file_bytes)
    }
}

/// A table.
pub struct Table {
    pub(crate) context: Arc<TableContext>,
    id: u32,
    name: Mutex<String>,
    definition: Arc<[u8]>,
    pub(crate) files: boxcar::Vec<DataFile>,
    pub(crate) directory: Directory,
    pub(crate) space: Mutex<Space>,
    pub(crate) growing: Mutex<()>,
    pub(crate) shards: Box<[Mutex<Shard>]>,
    pub(crate) superseded: Mutex<VecDeque<Superseded>>,
    rows: AtomicI64,
    dropped: AtomicBool,
    /// Commit that created the table or put it in another's place; 0 if that was before this run.
    defined: AtomicU64,
}

impl Table {
    fn empty(context: Arc<TableContext>, id: u32, name: &str, definition: &[u8]) -> Table {
        Table {
            directory: Directory::new(context.geometry),
            context,
            id,
            name: Mutex::new(name.to_owned()),
            definition: definition.into(),
            files: boxcar::Vec::new(),
            space: Mutex::new(Space::default()),
            growing: Mutex::new(()),
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
            superseded: Mutex::new(VecDeque::new()),
            rows: AtomicI64::new(0),
            dropped: AtomicBool::new(false),
            defined: AtomicU64::new(0),
        }
    }

    /// Creates the first file of a new table. Nothing names the table yet.
    pub(crate) fn create(context: Arc<TableContext>, id: u32, name: &str, definition: &[u8]) -> Result<Table> {
        let bytes = context.file_bytes(0);
        let file = DataFile::create(&*context.medium, context.identity(id, 0), bytes, context.geometry.segment_bytes)?;
        let table = Table::empty(context, id, name, definition);
        table.adopt(file);
        Ok(table)
    }

    /// Opens the chain of an existing table and reads its descriptors.
    pub(crate) fn open(context: Arc<TableContext>, id: u32, name: &str, definition: &[u8]) -> Result<Table> {
        let table = Table::empty(context, id, name, definition);
        let context = &table.context;
        let mut sequence = 0;
        loop {
            let file =
                DataFile::open(&*context.medium, context.identity(id, sequence), context.geometry.segment_bytes)?;
            let more = file.has_next();
            table.files.push(file);
            if !more {
                break;
            }
            sequence += 1;
            if sequence >= datafile::FILES_MAX {
                return Err(Error::damaged(
                    &datafile::file_name(id, sequence),
                    0,
                    "the chain is longer than it can be",
                ));
            }
        }
        table.read_descriptors()?;
        Ok(table)
    }

    fn read_descriptors(&self) -> Result<()> {
        let mut directory = Vec::new();
        let mut space = self.space.lock();
        for (_, file) in &self.files {
            // Descriptors and link word.
            file.region().reclaim(0, file.segment_offset(0));
            let mut index = 0;
            while index < file.segment_count() {
                let id = SegmentId { file: file.sequence(), index };
                index += 1;
                match file.kind(id.index)? {
                    SegmentKind::Cells(_) => space.put_unswept(id),
                    SegmentKind::Directory(number) => directory.push((number, id)),
                    SegmentKind::Run(count) if self.is_whole_run(file, id.index, count)? => {
                        space.put_unswept(id);
                        index += count - 1;
                    }
                    // Part of a run that was never finished, or is gone and was partly used again.
                    SegmentKind::Run(_) | SegmentKind::RunTail(_) | SegmentKind::Free => space.put_free(id),
                }
            }
        }
        directory.sort_unstable_by_key(|(number, _)| *number);
        for (position, (number, id)) in directory.into_iter().enumerate() {
            let file = self.file(id.file).expect("a file just listed");
            if position as u32 != number {
                let what = format!("directory segment {number} is here, {position} was expected");
                return Err(Error::damaged(file.region().name(), file.segment_offset(id.index), what));
            }
            self.directory.push(DirectorySegment { region: file.region().clone(), at: file.segment_offset(id.index) });
            self.directory.check_states(u64::from(number))?;
            // The pages' states; the words follow with the sweep, those of the log's commits with redo.
            file.region().reclaim(file.segment_offset(id.index), PAGES_PER_SEGMENT * 8);
            space.put_unswept_directory(u64::from(number));
        }
        Ok(())
    }

    /// Whether the segments after `first` belong to its run. A run that holds a committed version is whole.
    fn is_whole_run(&self, file: &DataFile, first: u32, count: u32) -> Result<bool> {
        for distance in 1..count {
            if file.kind(first + distance)? != SegmentKind::RunTail(distance) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds a file at the end of the chain in DRAM, all of it free.
    fn adopt(&self, file: DataFile) {
        let (sequence, segments) = (file.sequence(), file.segment_count());
        self.context.services.prefault(file.region());
        self.files.push(file);
        let mut space = self.space.lock();
        for index in 0..segments {
            space.put_free(SegmentId { file: sequence, index });
        }
    }

    /// Lengthens the chain by one file that can hold a run of `run` segments, unless someone else just did.
    pub(crate) fn grow(&self, files_seen: usize, run: u32) -> Result<()> {
        let _growing = self.growing.lock();
        let sequence = self.files.count();
        if sequence > files_seen {
            return Ok(());
        }
        if self.is_dropped() {
            return Err(Error::new(ErrorKind::NotFound, format!("table {} was dropped", self.name())));
        }
        let sequence = sequence as u32;
        if sequence >= datafile::FILES_MAX {
            return Err(Error::new(
                ErrorKind::TableFull,
                format!("table {} has {sequence} data files, the most it can have", self.name()),
            ));
        }
        let context = &self.context;
        let segment_bytes = context.geometry.segment_bytes;
        let bytes = context.file_bytes(sequence).max(datafile::bytes_for_segments(u64::from(run), segment_bytes));
        // Planted: the link leads to a file before there is one.
        if perdura_pmem::planted(47) {
            self.files.get(sequence as usize - 1).expect("the last file").link_next();
        }
        let file = DataFile::create(&*context.medium, context.identity(self.id, sequence), bytes, segment_bytes)?;
        self.files.get(sequence as usize - 1).expect("the last file").link_next();
        self.adopt(file);
        Ok(())
    }

    /// Id of the table, never given twice in a pool.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Present name.
    pub fn name(&self) -> String {
        self.name.lock().clone()
    }

    pub(crate) fn set_name(&self, name: &str) {
        name.clone_into(&mut self.name.lock());
    }

    /// The bytes given when the table was created.
    pub fn definition(&self) -> Arc<[u8]> {
        self.definition.clone()
    }

    /// Rows committed, about.
    pub fn row_count_estimate(&self) -> u64 {
        self.rows.load(Ordering::Relaxed).max(0) as u64
    }

    pub(crate) fn count_rows(&self, delta: i64) {
        if delta != 0 {
            self.rows.fetch_add(delta, Ordering::Relaxed);
        }
    }

    /// Bytes of the table's data files.
    pub fn data_bytes(&self) -> u64 {
        self.files.iter().map(|(_, file)| file.region().len()).sum()
    }

    /// Bytes in segments that hold nothing.
    pub fn free_bytes(&self) -> u64 {
        self.space.lock().free_count() as u64 * self.context.geometry.segment_bytes
    }

    /// Whether it was dropped.
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    pub(crate) fn set_defined(&self, csn: Csn) {
        self.defined.store(csn, Ordering::Release);
    }

    /// Fails if the table as it is came after `snapshot`: its rows would be missing without a word.
    pub(crate) fn check_defined(&self, snapshot: Csn) -> Result<()> {
        if self.defined.load(Ordering::Acquire) <= snapshot {
            return Ok(());
        }
        let what =
            format!("table {} was created or rebuilt after this transaction's snapshot; begin a new one", self.name());
        Err(Error::new(ErrorKind::DefinitionChanged, what))
    }

    pub(crate) fn file(&self, sequence: u32) -> Option<&DataFile> {
        self.files.get(sequence as usize)
    }

    /// Mapping and offset of the version `word` names, checked to lie in the table.
    #[inline]
    pub(crate) fn locate(&self, word: Word) -> Result<(&Region, u64)> {
        match self.files.get(word.file() as usize) {
            Some(file) => Ok((file.region(), file.place_of(word)?)),
            None => Err(Error::damaged(
                &datafile::file_name(self.id, word.file()),
                word.offset(),
                "a directory word names a data file the table does not have",
            )),
        }
    }

    /// Reads and checks the header of the version `word` names. Its row is `VERSION_HEADER` bytes further on.
    #[inline]
    pub(crate) fn header(&self, word: Word, rid: Rid) -> Result<(&Region, u64, VersionHeader)> {
        let (region, at) = self.locate(word)?;
        let header = VersionHeader::decode(region.load(at + 8), region.load(at + 16), region.load(at + 24));
        let belongs = header.rid == rid && header.tombstone == word.is_tombstone();
        if !belongs || at + VERSION_HEADER + u64::from(header.len) > region.len() {
            return Err(Error::damaged(
                region.name(),
                at,
                format_args!("the version header is not one of row {:#x}", rid.to_u64()),
            ));
        }
        Ok((region, at, header))
    }

    /// The row of a version whose header was checked.
    ///
    /// # Safety
    /// The version must not be freed while the slice lives: a snapshot, a row lock or the write set holds it.
    pub(crate) unsafe fn row<'a>(region: &'a Region, at: u64, header: &VersionHeader) -> &'a [u8] {
        // SAFETY: a version's row is written before the version is reachable and never changes; the caller holds it.
        unsafe { region.slice(at + VERSION_HEADER, u64::from(header.len)) }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("id", &self.id).field("name", &self.name()).finish_non_exhaustive()
    }
}
