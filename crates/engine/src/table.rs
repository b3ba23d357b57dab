//! A table: its chain of data files, its row directory, and what is known in DRAM of its space.

use crate::config::Config;
use crate::datafile::{self, DataFile, FileIdentity};
use crate::directory::{Directory, DirectorySegment};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{CATALOG_ID, Geometry, PAGES_PER_SEGMENT, Rid, SegmentKind, VERSION_HEADER, VersionHeader, Word};
use crate::open_cells::Losses;
use crate::owner::Clock;
use crate::purge::Superseded;
use crate::service::Services;
use crate::shard::Shard;
use crate::space::{SegmentId, Space};
use crate::spare;
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
    clock: Clock,
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
            clock: config.clock,
        }
    }

    /// Seconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        (self.clock)().as_secs()
    }

    fn identity(&self, table: u32, sequence: u32) -> FileIdentity {
        FileIdentity { pool: self.pool, table, sequence }
    }

    /// Creates a file of `bytes`, or of half or a quarter and so on where there is no room, but of no less than `least`.
    fn create_file(&self, identity: FileIdentity, bytes: u64, least: u64) -> Result<DataFile> {
        let was_left = self.services.forget_leftover(&identity.name());
        let mut bytes = bytes.max(least);
        let created = loop {
            match DataFile::create(&*self.medium, identity, bytes, self.geometry.segment_bytes) {
                Err(error) if error.kind() == ErrorKind::DeviceFull && bytes > least => bytes = (bytes / 2).max(least),
                created => break created,
            }
        };
        if was_left && created.is_err() {
            self.services.add_leftover(identity.name());
        }
        created
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
    pub(crate) losses: Losses,
    pub(crate) superseded: Mutex<VecDeque<Superseded>>,
    rows: AtomicI64,
    dropped: AtomicBool,
    /// Commit that created the table or put it in another's place; 0 if that was before this run.
    defined: AtomicU64,
    changed_at: AtomicU64,
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
            losses: Losses::default(),
            superseded: Mutex::new(VecDeque::new()),
            rows: AtomicI64::new(0),
            dropped: AtomicBool::new(false),
            defined: AtomicU64::new(0),
            changed_at: AtomicU64::new(0),
        }
    }

    /// When a commit last changed the table, in seconds since 1970; 0 if none did since the pool was opened.
    pub fn changed_at(&self) -> u64 {
        self.changed_at.load(Ordering::Relaxed)
    }

    /// Notes a change.
    #[inline]
    pub(crate) fn set_changed(&self, now: u64) {
        // Loaded first: most commits come within a second of the last, and the line is shared.
        if self.changed_at() < now {
            self.changed_at.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// Creates the first file of a new table: a smaller one on a device that is nearly full. Nothing names the table yet.
    ///
    /// # Errors
    /// DeviceFull, Medium.
    pub(crate) fn create(context: Arc<TableContext>, id: u32, name: &str, definition: &[u8]) -> Result<Table> {
        let least = match id {
            CATALOG_ID => context.first_file_bytes,
            _ => spare::least_bytes(context.geometry.segment_bytes, context.first_file_bytes),
        };
        let file = context.create_file(context.identity(id, 0), context.file_bytes(0), least);
        let file = file.map_err(|error| error.of_table(name))?;
        let table = Table::empty(context, id, name, definition);
        table.adopt(file);
        Ok(table)
    }

    /// As [`Table::create`], with the pool's spare as the first file if there is room for no other.
    pub(crate) fn create_in_spare(context: Arc<TableContext>, id: u32, name: &str, definition: &[u8]) -> Result<Table> {
        context.provide_spare()?;
        let error = match Table::create(context.clone(), id, name, definition) {
            Err(error) if error.kind() == ErrorKind::DeviceFull => error,
            created => return created,
        };
        let identity = context.identity(id, 0);
        let region = context.take_spare(&identity.name())?.ok_or(error)?;
        let file = DataFile::begin(&*context.medium, identity, region, context.geometry.segment_bytes)?;
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

    /// Lengthens the chain by one file, unless someone else just did: by the next in size, or by what there is room for, with at
    /// least `run` segments one after the other.
    ///
    /// # Errors
    /// DeviceFull, TableFull, NotFound (the table was dropped), Medium.
    pub(crate) fn grow(&self, files_seen: usize, run: u32) -> Result<()> {
        let least = datafile::bytes_for_segments(u64::from(run), self.context.geometry.segment_bytes);
        self.grow_by(files_seen, least)
    }

    /// Lengthens the chain by the next file, whole, ahead of need. Errors as of [`Table::grow`].
    pub(crate) fn grow_ahead(&self, files_seen: usize) -> Result<()> {
        self.grow_by(files_seen, self.context.file_bytes(files_seen as u32))
    }

    fn grow_by(&self, files_seen: usize, least: u64) -> Result<()> {
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
        // Planted: the link leads to a file before there is one.
        if perdura_pmem::planted(47) {
            self.files.get(sequence as usize - 1).expect("the last file").link_next();
        }
        let file = context.create_file(context.identity(self.id, sequence), context.file_bytes(sequence), least);
        let file = file.map_err(|error| error.of_table(&self.name()))?;
        self.files.get(sequence as usize - 1).expect("the last file").link_next();
        self.adopt(file);
        Ok(())
    }

    /// Number of free segments below which the chain needs its next file: half of the last file, or half of the usual
    /// size for its place if the file is larger.
    pub(crate) fn low_water(&self) -> usize {
        let last = self.files.count() - 1;
        let usual =
            datafile::segments_for_bytes(self.context.file_bytes(last as u32), self.context.geometry.segment_bytes);
        let segments = self.file(last as u32).map_or(0, |file| u64::from(file.segment_count()));
        segments.min(usual) as usize / 2
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

    /// Whether its free segments have run low: it needs its next file soon.
    pub(crate) fn is_low(&self) -> bool {
        self.space.lock().free_count() < self.low_water()
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

    /// Lets every snapshot read the table: it belongs to one session, so none can miss rows in it.
    pub fn set_private(&self) {
        self.set_defined(0);
    }

    /// Fails if the table was created or rebuilt after `snapshot`, which would silently see none of its rows.
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
