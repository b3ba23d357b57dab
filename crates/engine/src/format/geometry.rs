//! Sizes fixed when a pool is created, and those that never change.

/// Version of the engine's structures, kept in the superblock's geometry. A pool of a newer version is refused.
pub const FORMAT_VERSION: u64 = 1;
/// Smallest unit of space inside a segment, in bytes. Cells are multiples of it.
pub const UNIT_BYTES: u64 = 16;
/// Pages in one segment of the row directory.
pub const PAGES_PER_SEGMENT: u64 = 16;
/// Table id of the catalog.
pub const CATALOG_ID: u32 = 1;

/// Sizes fixed when a pool is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a segment: a power of two from 4 KiB to 1 MiB.
    pub segment_bytes: u64,
}

impl Geometry {
    /// The words stored in the superblock.
    pub fn to_words(self) -> [u64; 8] {
        [FORMAT_VERSION, self.segment_bytes, 0, 0, 0, 0, 0, 0]
    }

    /// Reads the superblock's words. `Err` says what is wrong.
    pub fn from_words(words: [u64; 8]) -> Result<Geometry, String> {
        if words[0] != FORMAT_VERSION {
            return Err(format!(
                "the pool has table format {}, this build reads format {FORMAT_VERSION}; use the build that wrote it",
                words[0]
            ));
        }
        let geometry = Geometry { segment_bytes: words[1] };
        geometry.check()?;
        Ok(geometry)
    }

    /// Whether the sizes are usable.
    pub fn check(self) -> Result<(), String> {
        if self.segment_bytes.is_power_of_two() && (4096..=1 << 20).contains(&self.segment_bytes) {
            Ok(())
        } else {
            Err(format!("segment size {} is not a power of two from 4096 to 1048576", self.segment_bytes))
        }
    }

    /// Directory words in a segment.
    pub fn words_per_segment(self) -> u64 {
        self.segment_bytes / 8
    }

    /// Directory words in a page: at most that many rows of a bulk insert are published by one state word.
    pub fn words_per_page(self) -> u64 {
        self.words_per_segment() / PAGES_PER_SEGMENT
    }
}
