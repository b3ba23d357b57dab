//! A table's files and its row directory: what the medium holds of one table.
//!
//! Files are only ever added, at the end, and segments of the directory likewise, so readers need no lock. Here every word that
//! names a version is checked before it is followed: its file, its place, and that the version found there is one of the row.

use super::context::TableContext;
use super::datafile::DataFile;
use super::directory::Directory;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    FileIdentity, PENDING, PageState, Rid, VERSION_HEADER, VersionHeader, Word, bytes_for_segments, data_file_name,
    segments_for_bytes,
};
use perdura_pmem::Region;
use perdura_pmem::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Files a chain can have.
const FILES_MAX: u32 = 1 << 16;

/// A segment of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentId {
    /// Its file's place in the chain.
    pub file: u32,
    /// Its place in the file.
    pub index: u32,
}

/// The files of a table and its row directory.
pub struct Chain {
    context: Arc<TableContext>,
    table: u32,
    name: Mutex<String>,
    dropped: AtomicBool,
    files: boxcar::Vec<DataFile>,
    directory: Directory,
}

impl Chain {
    fn without_files(context: Arc<TableContext>, table: u32, name: &str) -> Chain {
        Chain {
            directory: Directory::new(context.geometry),
            context,
            table,
            name: Mutex::new(name.to_owned()),
            dropped: AtomicBool::new(false),
            files: boxcar::Vec::new(),
        }
    }

    /// The chain of a new table, which begins with `file`.
    pub fn create(context: Arc<TableContext>, table: u32, name: &str, file: DataFile) -> Chain {
        let chain = Chain::without_files(context, table, name);
        chain.push(file);
        chain
    }

    /// Opens the files of an existing table. The directory is still empty.
    pub fn open(context: Arc<TableContext>, table: u32, name: &str) -> Result<Chain> {
        let chain = Chain::without_files(context, table, name);
        for sequence in 0..FILES_MAX {
            let identity = chain.identity(sequence);
            let file = DataFile::open(&*chain.context.medium, identity, chain.segment_bytes())?;
            let is_last = !file.has_next();
            chain.files.push(file);
            if is_last {
                return Ok(chain);
            }
        }
        Err(Error::damaged(&data_file_name(table, FILES_MAX), 0, "the chain is longer than it can be"))
    }

    fn identity(&self, sequence: u32) -> FileIdentity {
        self.context.identity(self.table, sequence)
    }

    fn push(&self, file: DataFile) {
        self.context.services.prefault(file.region());
        self.files.push(file);
    }

    /// Adds a file of the next size, or of what there is room for, but of no less than `least` bytes. One thread at a time.
    ///
    /// # Errors
    /// DeviceFull, TableFull, NotFound (the table was dropped), Medium.
    pub fn extend(&self, least: u64) -> Result<&DataFile> {
        let sequence = self.files.count() as u32;
        if self.is_dropped() {
            return Err(Error::new(ErrorKind::NotFound, format!("table {} was dropped", self.name())));
        }
        if sequence >= FILES_MAX {
            let what = format!("table {} has {sequence} data files, the most it can have", self.name());
            return Err(Error::new(ErrorKind::TableFull, what));
        }
        let last = self.file(sequence - 1).expect("the last file");
        // Planted: the link leads to a file before there is one.
        if perdura_pmem::planted(47) {
            last.link_next();
        }
        let file = self.context.create_file(self.identity(sequence), self.context.file_bytes(sequence), least);
        let file = file.map_err(|error| error.of_table(&self.name()))?;
        last.link_next();
        self.push(file);
        Ok(self.file(sequence).expect("just added"))
    }

    /// Number of free segments below which the chain needs its next file: half of the last file, or half of the usual size for its
    /// place if the file is larger.
    pub fn low_water(&self) -> usize {
        let last = self.files.count() as u32 - 1;
        let usual = segments_for_bytes(self.context.file_bytes(last), self.segment_bytes());
        let segments = self.file(last).map_or(0, |file| u64::from(file.segment_count()));
        segments.min(usual) as usize / 2
    }

    /// What the table takes from its pool.
    pub fn context(&self) -> &Arc<TableContext> {
        &self.context
    }

    /// Id of the table.
    pub fn table(&self) -> u32 {
        self.table
    }

    /// Present name of the table.
    pub fn name(&self) -> String {
        self.name.lock().clone()
    }

    /// Gives the table another name.
    pub fn set_name(&self, name: &str) {
        name.clone_into(&mut self.name.lock());
    }

    /// Whether the table was dropped.
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Notes that the table was dropped: the chain does not grow any more.
    pub fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// Bytes of a segment.
    pub fn segment_bytes(&self) -> u64 {
        self.context.geometry.segment_bytes
    }

    /// The row directory.
    #[inline]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The files, in the order of the chain.
    pub fn files(&self) -> impl Iterator<Item = &DataFile> {
        self.files.iter().map(|(_, file)| file)
    }

    /// Number of files.
    pub fn file_count(&self) -> usize {
        self.files.count()
    }

    /// File `sequence` of the chain.
    pub fn file(&self, sequence: u32) -> Option<&DataFile> {
        self.files.get(sequence as usize)
    }

    /// The file of a segment of the table.
    pub fn file_of(&self, id: SegmentId) -> &DataFile {
        self.file(id.file).expect("a segment's file is in the chain")
    }

    /// Waits until all this thread flushed is durable.
    #[track_caller]
    pub fn fence(&self) {
        self.file(0).expect("a first file").region().fence();
    }

    /// Mapping and offset of the version `word` names, checked to lie in the table.
    #[inline]
    pub fn locate(&self, word: Word) -> Result<(&Region, u64)> {
        match self.files.get(word.file() as usize) {
            Some(file) => Ok((file.region(), file.place_of(word)?)),
            None => Err(Error::damaged(
                &data_file_name(self.table, word.file()),
                word.offset(),
                "a directory word names a data file the table does not have",
            )),
        }
    }

    /// Reads and checks the header of the version `word` names. Its row is `VERSION_HEADER` bytes further on.
    #[inline]
    pub fn header(&self, word: Word, rid: Rid) -> Result<(&Region, u64, VersionHeader)> {
        let (region, at) = self.locate(word)?;
        let header = VersionHeader::decode(region.load(at + 8), region.load(at + 16), region.load(at + 24));
        let belongs = header.rid == rid && header.tombstone == word.is_tombstone();
        if !belongs || at + VERSION_HEADER + u64::from(header.len) > region.len() {
            let what = format_args!("the version header is not one of row {:#x}", rid.to_u64());
            return Err(Error::damaged(region.name(), at, what));
        }
        Ok((region, at, header))
    }

    /// Writes a version at `word`, a cell that is the caller's, neither flushed nor fenced; returns its mapping and offset.
    pub fn write_version(&self, word: Word, header: &VersionHeader, row: &[u8], sequence: u64) -> (&Region, u64) {
        let region = self.file(word.file()).expect("allocated in a file of the chain").region();
        write_at(region, word.offset(), header, row, sequence);
        (region, word.offset())
    }

    /// Makes `prev` the version that the one at `word`, which nobody else can reach, replaces. Flushed, not fenced.
    pub fn relink(&self, word: Word, rid: Rid, prev: Word) -> Result<()> {
        let (region, at, mut header) = self.header(word, rid)?;
        header.prev = prev;
        // SAFETY: the version is the caller's own and unpublished: nobody stores there, nobody frees it.
        header.crc = header.checksum(unsafe { row(region, at, &header) });
        region.write(at + 8, &header.encode(0)[8..]);
        region.flush(at, VERSION_HEADER);
        Ok(())
    }

    /// State of the page of row `row`.
    #[inline]
    pub fn state_of(&self, row: u64) -> PageState {
        self.directory.state(self.directory.page_of(row))
    }

    /// Bytes a file needs for `segments` segments.
    pub fn bytes_for(&self, segments: u32) -> u64 {
        bytes_for_segments(u64::from(segments), self.segment_bytes())
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files().map(|file| file.region().len()).sum()
    }
}

/// Writes a version at offset `at`, neither flushed nor fenced.
#[inline]
pub fn write_at(region: &Region, at: u64, header: &VersionHeader, row: &[u8], sequence: u64) {
    region.write(at, &header.encode(sequence));
    if !row.is_empty() {
        region.write(at + VERSION_HEADER, row);
    }
}

/// The row of a version whose header was checked.
///
/// # Safety
/// The version must not be freed while the slice lives: a snapshot, a row lock or the write set holds it.
pub unsafe fn row<'a>(region: &'a Region, at: u64, header: &VersionHeader) -> &'a [u8] {
    // SAFETY: a version's row is written before the version is reachable and never changes; the caller holds it.
    unsafe { region.slice(at + VERSION_HEADER, u64::from(header.len)) }
}

/// CSN of a published version; `state` is that of its row's page.
#[inline]
pub fn version_csn(region: &Region, at: u64, state: PageState) -> u64 {
    let csn = region.load(at);
    if csn & PENDING != 0 { state.csn() } else { csn }
}
