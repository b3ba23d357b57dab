//! The chain of a table's files, and its row directory: what the medium holds of one table.

use super::context::{Need, TableContext};
use super::datafile::DataFile;
use super::directory::Directory;
use super::stack::Stack;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{FileIdentity, Rid, SEGMENT_BYTES_MIN, VERSION_HEADER, VersionHeader, Word, data_file_name};
use perdura_pmem::sync::Mutex;
use perdura_pmem::{Mutant, Region, fence_later, wait_published};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Most files in a chain: a directory word has 16 bits for the file.
const FILES_MAX: u32 = 1 << 16;
/// Bytes around the versions of a directory page from which on they count as scattered, and are not
/// read ahead: a segment's.
const READ_AHEAD_BYTES: u64 = 1 << 20;

/// The place of a segment in a table's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentId {
    /// Sequence number of the file.
    pub file: u32,
    /// Number of the segment in the file.
    pub index: u32,
}

/// The files of a table, and its row directory.
///
/// Files are added and given back at the end only, and so are segments of the directory; readers
/// need no lock. Every word that names a version is checked here before it is followed: that the
/// file exists, that the place lies in it, and that the version there belongs to the row.
///
/// A file is given back when it holds nothing (`space/file_return.rs`). Who still has a reference
/// to it then, because it was on its way through all files or looked a stale place up, finds no
/// version and no published page there: the mapping stays, and its bytes read as zero or as they
/// were. So a file given back costs an address range until the table is closed or nobody uses it,
/// and their number is bounded.
pub(crate) struct Chain {
    context: Arc<TableContext>,
    table: u32,
    name: Mutex<String>,
    dropped: AtomicBool,
    /// The first file; a small table has no other, and keeps no list.
    first: OnceLock<DataFile>,
    /// The files after the first.
    later: Stack<DataFile>,
    /// Incarnation of the words of new directory pages.
    incarnation: AtomicU16,
    /// Size of the largest segments, in bytes.
    segment_bytes: AtomicU64,
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
            first: OnceLock::new(),
            later: Stack::default(),
            incarnation: AtomicU16::new(0),
            segment_bytes: AtomicU64::new(SEGMENT_BYTES_MIN),
        }
    }

    /// The chain of a new table, whose first file is `file`.
    pub(crate) fn create(context: Arc<TableContext>, table: u32, name: &str, file: DataFile) -> Chain {
        let chain = Chain::without_files(context, table, name);
        chain.push(file);
        chain
    }

    /// Opens the files of an existing table. The directory stays empty until the allocator has read
    /// the descriptors.
    pub(crate) fn open(context: Arc<TableContext>, table: u32, name: &str) -> Result<Chain> {
        let chain = Chain::without_files(context, table, name);
        for sequence in 0..FILES_MAX {
            let identity = chain.identity(sequence);
            let file = DataFile::open(&*chain.context.medium, identity, chain.context.geometry.segment_bytes)?;
            let link = file.link();
            if link.incarnation != 0 {
                chain.incarnation.store(link.incarnation, Ordering::Relaxed);
            }
            chain.add(file);
            if !link.has_next {
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
        self.add(file);
    }

    fn add(&self, file: DataFile) {
        self.segment_bytes.fetch_max(file.segment_bytes(), Ordering::Relaxed);
        if let Err(file) = self.first.set(file) {
            self.later.push(file);
        }
    }

    /// Creates the next file, with room for what is `need`ed, and links it once it is synced (I3).
    /// On a device that is nearly full it is smaller than usual, but has at least `least` bytes.
    /// One thread at a time may call this.
    ///
    /// # Errors
    /// DeviceFull, TableFull, NotFound (the table was dropped), Medium.
    pub(crate) fn extend(&self, least: u64, need: Need) -> Result<&DataFile> {
        let sequence = self.file_count() as u32;
        if self.is_dropped() {
            return Err(Error::new(ErrorKind::NotFound, format!("table {} was dropped", self.name())));
        }
        if sequence >= FILES_MAX {
            let what = format!("table {} has {sequence} data files, the most it can have", self.name());
            return Err(Error::new(ErrorKind::TableFull, what));
        }
        let last = self.file(sequence - 1).expect("the last file");
        // Planted: the link names a file before the file exists.
        if perdura_pmem::planted(Mutant::LinkBeforeHeader) {
            last.link_next();
        }
        let usual = self.context.file_bytes(sequence);
        let file = self.context.create_file(self.identity(sequence), usual, least, need);
        let file = file.map_err(|error| error.of_table(&self.name()))?;
        last.link_next();
        self.push(file);
        Ok(self.file(sequence).expect("just added"))
    }

    /// Ends the chain before its last file and takes that off the list. The file has nothing in
    /// use, and the words of new directory pages begin with `incarnation` from now on. On return no
    /// link names the file, durably: it may be removed. One thread at a time may call this or
    /// [`Chain::extend`].
    pub(crate) fn unlink_last(&self, incarnation: u16) -> &DataFile {
        let before = self.file(self.file_count() as u32 - 2).expect("the first file stays");
        before.end_chain(incarnation);
        self.incarnation.store(incarnation, Ordering::Release);
        let file = self.later.pop().expect("a file after the first");
        let largest = self.files().map(DataFile::segment_bytes).max();
        self.segment_bytes.store(largest.expect("a first file"), Ordering::Relaxed);
        file
    }

    /// Incarnation of the words of new directory pages: later than that of any word in pages that
    /// were given back with their files, so that an old RID finds no later row.
    pub(crate) fn incarnation(&self) -> u16 {
        self.incarnation.load(Ordering::Acquire)
    }

    /// Number of files given back whose mappings stay for now.
    pub(crate) fn given_back(&self) -> usize {
        self.later.popped()
    }

    /// Unmaps the files that were given back: nobody else uses the table.
    pub(crate) fn forget_given_back(&mut self) {
        self.later.forget_popped();
        self.directory.forget_dropped();
    }

    /// Bytes in free segments below which the chain needs its next file: half of those in the last
    /// file, counting no more of it than the usual size for its place.
    pub(crate) fn low_water(&self) -> u64 {
        self.usual_bytes(self.file_count() as u32 - 1) / 2
    }

    /// Bytes in the segments of the other files that must be free for the last file to be given
    /// back: half as much again as the low water would then be. So a quarter of a file's size is
    /// taken or freed between the coming and the going of the next. `None` if there is only one
    /// file.
    pub(crate) fn high_water(&self) -> Option<u64> {
        let before_last = (self.file_count() as u32).checked_sub(2)?;
        Some(self.usual_bytes(before_last) / 4 * 3)
    }

    /// Bytes in the segments of file `sequence`, but no more than the usual size for its place.
    fn usual_bytes(&self, sequence: u32) -> u64 {
        let bytes = self.file(sequence).map_or(0, |file| u64::from(file.segment_count()) * file.segment_bytes());
        bytes.min(self.context.file_bytes(sequence))
    }

    /// Context that the table shares with the other tables of its pool.
    #[inline]
    pub(crate) fn context(&self) -> &Arc<TableContext> {
        &self.context
    }

    /// Table id.
    #[inline]
    pub(crate) fn table(&self) -> u32 {
        self.table
    }

    /// Present name of the table.
    pub(crate) fn name(&self) -> String {
        self.name.lock().clone()
    }

    /// Notes a new name of the table, after the commit that renames it.
    pub(crate) fn set_name(&self, name: &str) {
        name.clone_into(&mut self.name.lock());
    }

    /// Whether the table was dropped or truncated.
    #[inline]
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Notes that the table was dropped or truncated: its chain grows no more.
    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// Size of the largest segments of the chain, in bytes: versions of up to an eighth of it go
    /// into cells.
    #[inline]
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.load(Ordering::Relaxed)
    }

    /// The table's row directory.
    #[inline]
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The files, in the order of the chain.
    pub(crate) fn files(&self) -> impl Iterator<Item = &DataFile> {
        self.first.get().into_iter().chain(self.later.iter())
    }

    /// Number of files.
    pub(crate) fn file_count(&self) -> usize {
        usize::from(self.first.get().is_some()) + self.later.len()
    }

    /// File `sequence` of the chain, if it exists.
    #[inline]
    pub(crate) fn file(&self, sequence: u32) -> Option<&DataFile> {
        match sequence.checked_sub(1) {
            None => self.first.get(),
            Some(index) => self.later.get(index as usize),
        }
    }

    /// The file of a segment, which must belong to the table.
    #[inline]
    pub(crate) fn file_of(&self, id: SegmentId) -> &DataFile {
        self.file(id.file).expect("a segment's file is in the chain")
    }

    /// Waits until everything that this thread has flushed is durable, in whatever file.
    #[track_caller]
    pub(crate) fn fence(&self) {
        self.file(0).expect("a first file").region().fence();
    }

    /// The same; if it may be `later`, whoever commits waits instead.
    #[track_caller]
    pub(crate) fn fence_by(&self, later: bool) {
        match later {
            true => fence_later(self.file(0).expect("a first file").region()),
            false => self.fence(),
        }
    }

    /// Waits until what anybody has published later in the pool is durable, or its medium has
    /// failed.
    pub(crate) fn wait_published(&self) {
        wait_published(self.file(0).expect("a first file").region());
    }

    /// Region and offset of the version that `word` names, checked to lie in a file of the table.
    #[inline]
    pub(crate) fn locate(&self, word: Word) -> Result<(&Region, u64)> {
        let file = self.file_named(word)?;
        Ok((file.region(), file.place_of(word)?))
    }

    #[inline]
    fn file_named(&self, word: Word) -> Result<&DataFile> {
        self.file(word.file()).ok_or_else(|| {
            let what = "a directory word names a data file the table does not have";
            Error::damaged(&data_file_name(self.table, word.file()), word.offset(), what)
        })
    }

    /// Reads the header of the version that `word` names, and checks that it belongs to row `rid`
    /// and that its row ends within the file. The row begins `VERSION_HEADER` bytes after the
    /// returned offset.
    #[inline]
    pub(crate) fn header(&self, word: Word, rid: Rid) -> Result<(&Region, u64, VersionHeader)> {
        let file = self.file_named(word)?;
        let (at, header) = file.header(word, rid)?;
        Ok((file.region(), at, header))
    }

    /// As [`DataFile::prefetch`], whatever file the word names.
    #[inline]
    pub(crate) fn prefetch(&self, word: Word, bytes: u64) {
        if let Some(file) = self.file(word.file()) {
            file.prefetch(word, bytes);
        }
    }

    /// Has the versions that `words` name read ahead, if they lie near one another in one file, as
    /// those of a table that was loaded do.
    pub(crate) fn read_ahead(&self, words: &[Word]) {
        let mut named = words.iter().filter(|word| !word.is_empty());
        let Some(first) = named.next() else { return };
        let of_file = named.filter(|word| word.file() == first.file()).map(|word| word.offset());
        let begin_and_last = (first.offset(), first.offset());
        let (begin, last) = of_file.fold(begin_and_last, |(begin, last), at| (begin.min(at), last.max(at)));
        let region = self.file(first.file()).map(DataFile::region);
        // A damaged word may name any place.
        if let Some(region) = region.filter(|region| last < region.len() && last - begin < READ_AHEAD_BYTES) {
            region.will_need(begin, last - begin + 1);
        }
    }

    /// Writes a version at `word`, in a cell that the caller owns. It neither flushes nor fences.
    /// Returns region and offset.
    pub(crate) fn write_version(&self, word: Word, header: &VersionHeader, row: &[u8]) -> (&Region, u64) {
        let region = self.file(word.file()).expect("allocated in a file of the chain").region();
        write_at(region, word.offset(), header, row);
        (region, word.offset())
    }

    /// Size of all files, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files().map(|file| file.region().len()).sum()
    }
}

/// Writes a version at offset `at`. It neither flushes nor fences.
#[inline]
pub(crate) fn write_at(region: &Region, at: u64, header: &VersionHeader, row: &[u8]) {
    region.write(at, &header.encode());
    if !row.is_empty() {
        region.write(at + VERSION_HEADER, row);
    }
}

/// The row of the version at `at`, whose header [`Chain::header`] returned.
///
/// # Safety
/// The version must not be freed while the slice lives: a snapshot, a row lock or the write set
/// must hold it.
pub(crate) unsafe fn row<'a>(region: &'a Region, at: u64, header: &VersionHeader) -> &'a [u8] {
    // SAFETY: the row was written before the version became reachable, and does not change; the
    // caller holds the version.
    unsafe { region.slice(at + VERSION_HEADER, u64::from(header.len)) }
}

/// RID in the header of the version at `at`, if one is there.
pub(crate) fn rid_at(region: &Region, at: u64) -> Rid {
    Rid::from_u64(region.load(at))
}
