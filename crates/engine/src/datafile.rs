//! One memory-mapped file of a table's chain.
//!
//! Layout: header (128 bytes), segment descriptors (8 bytes each), segments from the next 4 KiB boundary on.
//! A file is part of its table iff its predecessor's link word is set (the first: iff the catalog names the table), and
//! valid iff magic, version, pool, table, sequence, sizes and CRC32C of the header agree.
//! The link word is set after the file and its directory entry are synced (I3).

use crate::cells::CellMap;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{FORMAT_VERSION, SegmentKind, VERSION_HEADER, Word};
use crc32c::crc32c;
use perdura_pmem::sync::Mutex;
use perdura_pmem::{Medium, Region};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const MAGIC: u64 = u64::from_le_bytes(*b"PRDDATA1");
const HEADER_BYTES: usize = 56;
const CRC_AT: u64 = 56;
const LINK_AT: u64 = 64;
const DESCRIPTORS_AT: u64 = 128;
/// Content of the link word if there is a next file; 0 if there is none. No bit that flips makes the one of the other.
const LINKED: u64 = u64::from_le_bytes(*b"PRDLINK1");
/// Files a chain can have.
pub const FILES_MAX: u32 = 1 << 16;

/// Offset of the first segment in a file of `segments` segments.
fn segments_at(segments: u64) -> u64 {
    (DESCRIPTORS_AT + segments * 8).next_multiple_of(4096)
}

/// Bytes a file needs to hold `segments` segments.
pub fn bytes_for_segments(segments: u64, segment_bytes: u64) -> u64 {
    segments_at(segments) + segments * segment_bytes
}

/// Segments that fit a file of `bytes`.
pub fn segments_for_bytes(bytes: u64, segment_bytes: u64) -> u64 {
    let mut segments = bytes / segment_bytes;
    while segments > 0 && bytes_for_segments(segments, segment_bytes) > bytes {
        segments -= 1;
    }
    segments
}

/// Name of a table's data file.
pub fn file_name(table: u32, sequence: u32) -> String {
    format!("t.{table:08x}.{sequence:05x}")
}

/// The table and sequence a file name stands for, if it is a data file's.
pub fn parse_name(name: &str) -> Option<(u32, u32)> {
    let rest = name.strip_prefix("t.")?;
    let (table, sequence) = rest.split_once('.')?;
    let parsed = (u32::from_str_radix(table, 16).ok()?, u32::from_str_radix(sequence, 16).ok()?);
    (file_name(parsed.0, parsed.1) == name).then_some(parsed)
}

/// What every file of a table has in common.
#[derive(Clone, Copy, Debug)]
pub struct FileIdentity {
    /// Pool the file belongs to.
    pub pool: [u8; 16],
    /// Table it belongs to.
    pub table: u32,
    /// Position in the chain.
    pub sequence: u32,
}

impl FileIdentity {
    /// Name of the file.
    pub fn name(&self) -> String {
        file_name(self.table, self.sequence)
    }
}

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
        region.write(0, &encode_header(identity, region.len(), segment_bytes, segments));
        region.persist(0, CRC_AT + 8);
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
        let name = file_name(identity.table, identity.sequence);
        let region = medium.open(&name).map_err(|error| {
            let what = "belongs to the pool and cannot be done without: restore it from a backup";
            Error::new(ErrorKind::Damaged, format!("{error}; data file {name} {what}")).in_file(&name).caused_by(error)
        })?;
        let bytes = region.len();
        if bytes < 4096 {
            return Err(Error::damaged(&name, bytes, "the file is cut off within its header"));
        }
        let mut header = [0u8; CRC_AT as usize + 8];
        region.read(0, &mut header);
        let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        if word(0) != MAGIC {
            return Err(Error::damaged(&name, 0, format_args!("magic number {:#x} is not a data file's", word(0))));
        }
        let whole = word(56) == u64::from(crc32c(&header[..HEADER_BYTES]));
        if whole && word(8) as u32 as u64 > FORMAT_VERSION {
            let version = word(8) as u32;
            let what =
                format!("{name} has format {version}, this build reads {FORMAT_VERSION}; use the build that wrote it");
            return Err(Error::new(ErrorKind::NotSupported, what).in_file(&name).at(8));
        }
        // The size is looked at before anything is computed from it.
        let segments = if word(40) == bytes { segments_for_bytes(bytes, segment_bytes) } else { word(48) };
        let expected = encode_header(identity, word(40), segment_bytes, segments);
        if header != expected {
            let at = header.iter().zip(&expected).position(|(seen, wanted)| seen != wanted).unwrap_or(0);
            return Err(Error::damaged(&name, at as u64, "the header does not match its checksum, table or pool"));
        }
        if word(40) != bytes {
            return Err(Error::damaged(
                &name,
                bytes,
                format_args!("the file has {bytes} bytes, its header says {}", word(40)),
            ));
        }
        let file = DataFile::mapped(region, identity, segment_bytes, segments);
        if ![0, LINKED].contains(&file.region.load(LINK_AT)) {
            return Err(Error::damaged(&name, LINK_AT, "the link word is not valid"));
        }
        Ok(file)
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
        let at = DESCRIPTORS_AT + u64::from(index) * 8;
        let word = self.region.load(at);
        SegmentKind::decode(word, self.salt(index)).filter(|kind| self.kind_fits(*kind, index)).ok_or_else(|| {
            Error::damaged(self.region.name(), at, format_args!("segment descriptor {word:#018x} is not valid"))
        })
    }

    /// Gives segment `index` a use, flushed but not fenced.
    #[track_caller]
    pub fn set_kind(&self, index: u32, kind: SegmentKind) {
        let at = DESCRIPTORS_AT + u64::from(index) * 8;
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
            SegmentKind::Cells(units) => crate::cells::is_class(units, self.segment_bytes),
            SegmentKind::Run(count) => count > 0 && u64::from(index) + u64::from(count) <= self.segments.len() as u64,
            SegmentKind::RunTail(distance) => distance > 0 && distance <= index,
        }
    }
}

fn encode_header(identity: FileIdentity, bytes: u64, segment_bytes: u64, segments: u64) -> [u8; CRC_AT as usize + 8] {
    let mut header = [0u8; CRC_AT as usize + 8];
    header[..8].copy_from_slice(&MAGIC.to_le_bytes());
    header[8..12].copy_from_slice(&(FORMAT_VERSION as u32).to_le_bytes());
    header[12..16].copy_from_slice(&(segment_bytes as u32).to_le_bytes());
    header[16..32].copy_from_slice(&identity.pool);
    header[32..36].copy_from_slice(&identity.table.to_le_bytes());
    header[36..40].copy_from_slice(&identity.sequence.to_le_bytes());
    header[40..48].copy_from_slice(&bytes.to_le_bytes());
    header[48..56].copy_from_slice(&segments.to_le_bytes());
    let crc = crc32c(&header[..HEADER_BYTES]);
    header[56..60].copy_from_slice(&crc.to_le_bytes());
    header
}
