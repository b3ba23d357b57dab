//! A data file: one memory-mapped file of a table's chain.
//!
//! Layout: header, link word, segment descriptors, and segments from the next 4 KiB boundary on
//! (`format/file.rs`). A first file is part of its table iff the catalog names the table, any other
//! iff the link word of its predecessor is set. The link word is set after the file and its
//! directory entry are synced, and cleared before they are removed (I3).

use super::cells::{self, CellMap};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    FORMAT_VERSION, FileHeader, FileIdentity, GRANULES, HeaderFault, LEAF_UNIT, LINK_AT, Link, Rid, SegmentKind,
    VERSION_HEADER, VersionHeader, Word, bytes_for_segments, descriptor_at, segments_at, segments_for_bytes,
};
use perdura_pmem::sync::Mutex;
use perdura_pmem::{Content, LINE_BYTES, Medium, Mutant, Region, Step, publish_when, wait_published};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::{FromZeros, IntoBytes};

/// Most bytes of a version that are prefetched.
const PREFETCHED_MAX: u64 = 8 * LINE_BYTES;

/// Size of the file that has as many segments of `segment_bytes` as `bytes` have room for.
pub(crate) fn file_bytes_for(bytes: u64, segment_bytes: u64) -> u64 {
    bytes_for_segments(segments_for_bytes(bytes, segment_bytes), segment_bytes)
}

/// Writes and fences the header of the data file in `region`.
fn write_header(identity: FileIdentity, region: &Region, segment_bytes: u64) {
    let segments = segments_for_bytes(region.len(), segment_bytes);
    let header = FileHeader::new(identity, region.len(), segment_bytes, segments);
    region.write(0, header.as_bytes());
    region.persist(0, size_of::<FileHeader>() as u64);
}

/// State of a segment in DRAM.
#[derive(Default)]
pub(crate) struct Segment {
    /// The map of the cells in use; `None` until the segment is swept or taken into use, and while
    /// it is free or has another use.
    pub cells: Mutex<Option<Arc<CellMap>>>,
    /// The segment was swept, so `cells` tells what it holds. Changed with `cells` locked.
    pub swept: AtomicBool,
    /// It is free and held leaves: whatever is in it is read as such at a start, as long as its
    /// kind on the medium says so.
    pub held_leaves: AtomicBool,
}

/// A mapped data file.
pub(crate) struct DataFile {
    region: Region,
    identity: FileIdentity,
    segment_bytes: u64,
    segments: Box<[Segment]>,
    segments_at: u64,
}

impl DataFile {
    /// Creates a file of at most `bytes` with header and empty descriptors, and syncs file and
    /// directory. Nothing links the file yet.
    ///
    /// It replaces a file of the same name, which a failed creation must have left: the caller
    /// knows that no file of this identity is part of its table.
    pub(crate) fn create(
        medium: &dyn Medium,
        identity: FileIdentity,
        bytes: u64,
        segment_bytes: u64,
    ) -> Result<DataFile> {
        let _span = perdura_pmem::trace::span("file_expansion");
        let (name, bytes) = (identity.name(), file_bytes_for(bytes, segment_bytes));
        let region = match medium.create(&name, bytes) {
            Err(error) if error.kind() == perdura_pmem::ErrorKind::Exists => {
                medium.remove(&name)?;
                medium.create(&name, bytes)?
            }
            created => created?,
        };
        DataFile::begin(medium, identity, region, segment_bytes)
    }

    /// Turns `region` into an empty data file, like [`DataFile::create`]. The region must have the
    /// identity's name, and its link word and descriptors must be zero.
    pub(crate) fn begin(
        medium: &dyn Medium,
        identity: FileIdentity,
        region: Region,
        segment_bytes: u64,
    ) -> Result<DataFile> {
        write_header(identity, &region, segment_bytes);
        let synced = region.sync();
        DataFile::named(medium, identity, region, segment_bytes, synced)
    }

    /// Turns `region`, which was part of another table and is kept since, into an empty data file,
    /// like [`DataFile::create`]. The region has the identity's name.
    ///
    /// Header, link word and descriptors go, which could be taken for valid. In the segments stays
    /// what was there, as in segments of a table that become free (docs/engine.md, kept files). The
    /// file's size and blocks are durable since it was created.
    pub(crate) fn reuse(
        medium: &dyn Medium,
        identity: FileIdentity,
        region: Region,
        segment_bytes: u64,
    ) -> Result<DataFile> {
        let _span = perdura_pmem::trace::span("file_reuse");
        let end = segments_at(segments_for_bytes(region.len(), segment_bytes));
        let is_late = perdura_pmem::planted(Mutant::KeptFileLinkedBeforeWipe);
        if !is_late && !perdura_pmem::planted(Mutant::KeptFileUnwiped) {
            region.zero(0, end);
        }
        write_header(identity, &region, segment_bytes);
        // Planted: what a kept file held is wiped too late for the fence of its header.
        if is_late {
            region.zero(LINK_AT, end - LINK_AT);
        }
        DataFile::named(medium, identity, region, segment_bytes, Ok(()))
    }

    /// The file in `region`, which has its header, once its name is durable as well.
    fn named(
        medium: &dyn Medium,
        identity: FileIdentity,
        region: Region,
        segment_bytes: u64,
        synced: perdura_pmem::Result<()>,
    ) -> Result<DataFile> {
        if let Err(error) = synced.and_then(|()| medium.sync_dir()) {
            // If the file cannot be removed now it does no harm: create() replaces it.
            let _ = medium.remove(&identity.name());
            return Err(error.into());
        }
        let segments = segments_for_bytes(region.len(), segment_bytes);
        let file = DataFile::mapped(region, identity, segment_bytes, segments);
        // Whoever still means to sweep a file that had this place in the chain finds nothing to do.
        file.segments.iter().for_each(|segment| segment.swept.store(true, Ordering::Relaxed));
        Ok(file)
    }

    /// Opens a file, and checks its length, header and link word. Its segments have at most
    /// `segment_bytes_max`.
    pub(crate) fn open(medium: &dyn Medium, identity: FileIdentity, segment_bytes_max: u64) -> Result<DataFile> {
        let name = identity.name();
        let region = medium.open(&name).map_err(|error| match error.kind() {
            perdura_pmem::ErrorKind::Exhausted => Error::from(error),
            _ => {
                let what = "is part of the pool: restore it from a backup";
                let what = format!("{error}; data file {name} {what}");
                Error::new(ErrorKind::Damaged, what).in_file(&name).caused_by(error)
            }
        })?;
        let bytes = region.len();
        if bytes < 4096 {
            return Err(Error::damaged(&name, bytes, "the file is cut off within its header"));
        }
        let mut header = FileHeader::new_zeroed();
        region.read(0, header.as_mut_bytes());
        let checked = header.check(identity, bytes, segment_bytes_max).map_err(|fault| match fault {
            HeaderFault::Damaged(at, what) => Error::damaged(&name, at, what),
            HeaderFault::OtherFormat(version) => Error::new(
                ErrorKind::NotSupported,
                format!("{name} has format {version}, this build reads {FORMAT_VERSION}; use the build that wrote it"),
            )
            .in_file(&name)
            .at(8),
        });
        let (segment_bytes, segments) = checked?;
        if Link::decode(region.load(LINK_AT)).is_none() {
            return Err(Error::damaged(&name, LINK_AT, "the link word is not valid"));
        }
        Ok(DataFile::mapped(region, identity, segment_bytes, segments))
    }

    fn mapped(region: Region, identity: FileIdentity, segment_bytes: u64, segments: u64) -> DataFile {
        DataFile {
            region: region.holding(Content::Versions),
            identity,
            segment_bytes,
            segments: (0..segments).map(|_| Segment::default()).collect(),
            segments_at: segments_at(segments),
        }
    }

    /// Links the successor of the file, which must be synced (I3). The link is durable on return.
    pub(crate) fn link_next(&self) {
        let link = Link { has_next: true, ..self.link() };
        self.region.store(LINK_AT, link.encode());
        self.region.persist(LINK_AT, 8);
    }

    /// Ends the chain with this file, durably, before anybody removes its successor (I3). Words of
    /// new directory pages begin with `incarnation` from now on.
    pub(crate) fn end_chain(&self, incarnation: u16) {
        let link = Link { has_next: false, incarnation };
        self.region.store(LINK_AT, link.encode());
        self.region.persist(LINK_AT, 8);
    }

    /// The link word, which was checked when the file was opened.
    pub(crate) fn link(&self) -> Link {
        Link::decode(self.region.load(LINK_AT)).unwrap_or(Link { has_next: false, incarnation: 0 })
    }

    /// The region that maps the file.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// Position of the file in the chain, from 0.
    pub(crate) fn sequence(&self) -> u32 {
        self.identity.sequence
    }

    /// Size of a segment, in bytes.
    #[inline]
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Size of a granule, in bytes: extents begin at multiples of it and take whole ones.
    pub(crate) fn granule_bytes(&self) -> u64 {
        self.segment_bytes / u64::from(GRANULES)
    }

    /// The granule that begins at `offset`, counted through all segments of the file, if one does.
    pub(crate) fn granule_at(&self, offset: u64) -> Option<u32> {
        let distance = offset.checked_sub(self.segments_at)?;
        distance.is_multiple_of(self.granule_bytes()).then(|| (distance / self.granule_bytes()) as u32)
    }

    /// Offset of granule `granule`, in bytes.
    pub(crate) fn granule_offset(&self, granule: u32) -> u64 {
        self.segments_at + u64::from(granule) * self.granule_bytes()
    }

    /// Whether all of the `bytes` from `offset` on lie in segments of extents.
    pub(crate) fn is_in_extents(&self, offset: u64, bytes: u64) -> bool {
        match (self.segment_of(offset), self.segment_of(offset + bytes.max(1) - 1)) {
            (Some(first), Some(last)) => {
                (first..=last).all(|index| matches!(self.kind(index), Ok(SegmentKind::Extents)))
            }
            _ => false,
        }
    }

    /// Number of segments.
    pub(crate) fn segment_count(&self) -> u32 {
        self.segments.len() as u32
    }

    /// State of segment `index` in DRAM.
    pub(crate) fn segment(&self, index: u32) -> &Segment {
        &self.segments[index as usize]
    }

    /// Offset of segment `index` in the file, in bytes.
    pub(crate) fn segment_offset(&self, index: u32) -> u64 {
        self.segments_at + u64::from(index) * self.segment_bytes
    }

    /// The segment that holds `offset`, if any does.
    pub(crate) fn segment_of(&self, offset: u64) -> Option<u32> {
        let index = offset.checked_sub(self.segments_at)? / self.segment_bytes;
        (index < self.segments.len() as u64).then_some(index as u32)
    }

    /// Reads the descriptor of segment `index`: what the segment is used for. Fails with Damaged if
    /// it is not valid.
    pub(crate) fn kind(&self, index: u32) -> Result<SegmentKind> {
        let at = descriptor_at(index);
        let word = self.region.load(at);
        SegmentKind::decode(word, self.salt(index)).filter(|kind| self.kind_fits(*kind)).ok_or_else(|| {
            Error::damaged(self.region.name(), at, format_args!("segment descriptor {word:#018x} is not valid"))
        })
    }

    /// Stores and flushes the descriptor of segment `index`. The caller fences.
    #[track_caller]
    pub(crate) fn set_kind(&self, index: u32, kind: SegmentKind) {
        let at = descriptor_at(index);
        self.segment(index).held_leaves.store(false, Ordering::Relaxed);
        // One that is still to be stored would come over this one.
        wait_published(&self.region);
        self.region.store(at, kind.encode(self.salt(index)));
        self.region.flush(at, 8);
    }

    /// Stores the descriptor of a free segment that gets another use, behind all that this thread
    /// has flushed. It may be stored later than what is written in the segment, which is found by
    /// what names it, unless the segment held leaves.
    #[track_caller]
    pub(crate) fn publish_kind(&self, index: u32, kind: SegmentKind) {
        let held_leaves = self.segment(index).held_leaves.swap(false, Ordering::Relaxed);
        let value = kind.encode(self.salt(index));
        publish_when(!held_leaves, &[Step { region: &self.region, offset: descriptor_at(index), value }]);
    }

    /// Checks that `word` names a place behind the descriptors where a version header ends within
    /// the file. Returns its offset.
    #[inline]
    pub(crate) fn place_of(&self, word: Word) -> Result<u64> {
        let offset = word.offset();
        if offset < self.segments_at || offset + VERSION_HEADER > self.region.len() {
            return Err(Error::damaged(
                self.region.name(),
                offset,
                "a version is named at this place, which is outside the segments",
            ));
        }
        Ok(offset)
    }

    /// Reads the header of the version that `word` names, and checks that it belongs to row `rid`
    /// and that its row ends within the file. Returns with it the version's offset.
    #[inline]
    pub(crate) fn header(&self, word: Word, rid: Rid) -> Result<(u64, VersionHeader)> {
        match self.sound_header(word, rid) {
            Some(found) => Ok(found),
            None => Err(self.unsound(word, rid)),
        }
    }

    /// Prefetches `bytes` of the version that `word` names, at most 8 lines: of a longer one the
    /// processor sees that its lines are read in order. Any word will do.
    #[inline]
    pub(crate) fn prefetch(&self, word: Word, bytes: u64) {
        let last = bytes.min(PREFETCHED_MAX) - 1;
        let mut at = 0;
        while at < last {
            self.region().prefetch(word.offset() + at);
            at += LINE_BYTES;
        }
        self.region().prefetch(word.offset() + last);
    }

    /// As [`DataFile::header`], without the error.
    #[inline(always)]
    pub(crate) fn sound_header(&self, word: Word, rid: Rid) -> Option<(u64, VersionHeader)> {
        let at = word.offset();
        if at < self.segments_at {
            return None;
        }
        let [first, second] = self.region.load_pair(at)?;
        let header = VersionHeader::decode(first, second);
        let is_sound = header.rid == rid && at + VERSION_HEADER + u64::from(header.len) <= self.region.len();
        is_sound.then_some((at, header))
    }

    #[cold]
    fn unsound(&self, word: Word, rid: Rid) -> Error {
        let what = format_args!("the version header does not belong to row {:#x}", rid.to_u64());
        match self.place_of(word) {
            Ok(at) => Error::damaged(self.region.name(), at, what),
            Err(error) => error,
        }
    }

    fn salt(&self, index: u32) -> u64 {
        u64::from(self.identity.table) << 32 ^ u64::from(self.identity.sequence) << 16 ^ u64::from(index)
    }

    fn kind_fits(&self, kind: SegmentKind) -> bool {
        match kind {
            SegmentKind::Free | SegmentKind::Directory(_) | SegmentKind::Extents => true,
            SegmentKind::Cells(units) => cells::is_class(units, self.segment_bytes),
            SegmentKind::Leaves(units) => (1..=self.segment_bytes / LEAF_UNIT).contains(&units.into()),
        }
    }
}
