//! One memory-mapped file of a table's chain.
//!
//! Layout: header, segment descriptors, segments from the next 4 KiB boundary on (`format/file.rs`). A file is part of its table
//! iff its predecessor's link word is set (the first: iff the catalog names the table). The link word is set after the file
//! and its directory entry are synced (I3).

use super::cells::{self, CellMap};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    FORMAT_VERSION, FileHeader, FileIdentity, HeaderFault, LINK_AT, LINKED, SegmentKind, VERSION_HEADER, Word,
    bytes_for_segments, descriptor_at, segments_at, segments_for_bytes,
};
use perdura_pmem::sync::Mutex;
use perdura_pmem::{Medium, Region};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zerocopy::{FromZeros, IntoBytes};

/// DRAM side of a segment.
#[derive(Default)]
pub struct Segment {
    /// Which cells are in use; `None` until the segment is swept or taken into use, and when it is free again.
    pub cells: Mutex<Option<Arc<CellMap>>>,
    /// Swept once: what it holds is known from here on. Changed with `cells` locked.
    pub swept: AtomicBool,
}

/// A mapped data file.
pub struct DataFile {
    region: Region,
    identity: FileIdentity,
    segment_bytes: u64,
    segments: Box<[Segment]>,
    segments_at: u64,
}

impl DataFile {
    /// Creates a file of at most `bytes`, initialised, synced and findable, but linked from nowhere.
    ///
    /// The caller knows that no file of that identity is part of its table: a creation that failed left any that is
    /// there.
    pub fn create(medium: &dyn Medium, identity: FileIdentity, bytes: u64, segment_bytes: u64) -> Result<DataFile> {
        let _span = perdura_pmem::trace::span("file_expansion");
        let segments = segments_for_bytes(bytes, segment_bytes);
        let (name, bytes) = (identity.name(), bytes_for_segments(segments, segment_bytes));
        let region = match medium.create(&name, bytes) {
            Err(error) if error.kind() == perdura_pmem::ErrorKind::Exists => {
                medium.remove(&name)?;
                medium.create(&name, bytes)?
            }
            created => created?,
        };
        DataFile::begin(medium, identity, region, segment_bytes)
    }

    /// Makes `region` an empty file, as [`DataFile::create`] does. It has the identity's name and is all zero behind
    /// the header.
    pub fn begin(medium: &dyn Medium, identity: FileIdentity, region: Region, segment_bytes: u64) -> Result<DataFile> {
        let segments = segments_for_bytes(region.len(), segment_bytes);
        let header = FileHeader::new(identity, region.len(), segment_bytes, segments);
        region.write(0, header.as_bytes());
        region.persist(0, size_of::<FileHeader>() as u64);
        let synced = region.sync().and_then(|()| medium.sync_dir());
        if let Err(error) = synced {
            // A file that cannot be removed now does no harm: create() replaces it.
            let _ = medium.remove(&identity.name());
            return Err(error.into());
        }
        Ok(DataFile::mapped(region, identity, segment_bytes, segments))
    }

    /// Opens and checks a file.
    pub fn open(medium: &dyn Medium, identity: FileIdentity, segment_bytes: u64) -> Result<DataFile> {
        let name = identity.name();
        let region = medium.open(&name).map_err(|error| {
            let what = "belongs to the pool and cannot be done without: restore it from a backup";
            Error::new(ErrorKind::Damaged, format!("{error}; data file {name} {what}")).in_file(&name).caused_by(error)
        })?;
        let bytes = region.len();
        if bytes < 4096 {
            return Err(Error::damaged(&name, bytes, "the file is cut off within its header"));
        }
        let mut header = FileHeader::new_zeroed();
        region.read(0, header.as_mut_bytes());
        let segments = header.check(identity, bytes, segment_bytes).map_err(|fault| match fault {
            HeaderFault::Damaged(at, what) => Error::damaged(&name, at, what),
            HeaderFault::Newer(version) => Error::new(
                ErrorKind::NotSupported,
                format!("{name} has format {version}, this build reads {FORMAT_VERSION}; use the build that wrote it"),
            )
            .in_file(&name)
            .at(8),
        })?;
        if ![0, LINKED].contains(&region.load(LINK_AT)) {
            return Err(Error::damaged(&name, LINK_AT, "the link word is not valid"));
        }
        Ok(DataFile::mapped(region, identity, segment_bytes, segments))
    }

    fn mapped(region: Region, identity: FileIdentity, segment_bytes: u64, segments: u64) -> DataFile {
        DataFile {
            region,
            identity,
            segment_bytes,
            segments: (0..segments).map(|_| Segment::default()).collect(),
            segments_at: segments_at(segments),
        }
    }

    /// Links the file's successor, which must be synced. Durable on return.
    pub fn link_next(&self) {
        self.region.store(LINK_AT, LINKED);
        self.region.persist(LINK_AT, 8);
    }

    /// Whether a successor is linked.
    pub fn has_next(&self) -> bool {
        self.region.load(LINK_AT) == LINKED
    }

    /// The mapping.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Position in the chain.
    pub fn sequence(&self) -> u32 {
        self.identity.sequence
    }

    /// Number of segments.
    pub fn segment_count(&self) -> u32 {
        self.segments.len() as u32
    }

    /// DRAM side of segment `index`.
    pub fn segment(&self, index: u32) -> &Segment {
        &self.segments[index as usize]
    }

    /// Offset of segment `index`, in bytes.
    pub fn segment_offset(&self, index: u32) -> u64 {
        self.segments_at + u64::from(index) * self.segment_bytes
    }

    /// The segment that holds `offset`, if any does.
    pub fn segment_of(&self, offset: u64) -> Option<u32> {
        let index = offset.checked_sub(self.segments_at)? / self.segment_bytes;
        (index < self.segments.len() as u64).then_some(index as u32)
    }

    /// What segment `index` is used for.
    pub fn kind(&self, index: u32) -> Result<SegmentKind> {
        let at = descriptor_at(index);
        let word = self.region.load(at);
        SegmentKind::decode(word, self.salt(index)).filter(|kind| self.kind_fits(*kind, index)).ok_or_else(|| {
            Error::damaged(self.region.name(), at, format_args!("segment descriptor {word:#018x} is not valid"))
        })
    }

    /// Gives segment `index` a use, flushed but not fenced.
    #[track_caller]
    pub fn set_kind(&self, index: u32, kind: SegmentKind) {
        let at = descriptor_at(index);
        self.region.store(at, kind.encode(self.salt(index)));
        self.region.flush(at, 8);
    }

    /// Checks that `word` can name a version in this file: inside a segment, header and all.
    #[inline]
    pub fn place_of(&self, word: Word) -> Result<u64> {
        let offset = word.offset();
        if offset < self.segments_at || offset + VERSION_HEADER > self.region.len() {
            return Err(Error::damaged(
                self.region.name(),
                offset,
                "a version is said to be here, outside the segments",
            ));
        }
        Ok(offset)
    }

    fn salt(&self, index: u32) -> u64 {
        u64::from(self.identity.table) << 32 ^ u64::from(self.identity.sequence) << 16 ^ u64::from(index)
    }

    fn kind_fits(&self, kind: SegmentKind, index: u32) -> bool {
        match kind {
            SegmentKind::Free | SegmentKind::Directory(_) => true,
            SegmentKind::Cells(units) => cells::is_class(units, self.segment_bytes),
            SegmentKind::Extent(count) => {
                count > 0 && u64::from(index) + u64::from(count) <= self.segments.len() as u64
            }
            SegmentKind::ExtentTail(distance) => distance > 0 && distance <= index,
        }
    }
}
