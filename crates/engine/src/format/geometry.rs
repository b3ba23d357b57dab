//! The geometry of a pool: sizes fixed when it is created, and sizes that are the same in every pool.

/// Version of the engine's structures, kept in the superblock's geometry. A pool of another version is refused.
pub const FORMAT_VERSION: u64 = 1;
/// Unit of space in a segment, in bytes: cells are multiples of it, and words name places in it.
pub const UNIT_BYTES: u64 = 16;
/// Number of pages in a segment of the row directory.
pub const PAGES_PER_SEGMENT: u64 = 16;
/// Table id of the catalog.
pub const CATALOG_ID: u32 = 1;

/// Sizes fixed when a pool is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size of a segment, in bytes: a power of two from 4 KiB to 1 MiB.
    pub segment_bytes: u64,
}

impl Geometry {
    /// The geometry as the superblock stores it.
    pub fn to_words(self) -> [u64; 8] {
        [FORMAT_VERSION, self.segment_bytes, 0, 0, 0, 0, 0, 0]
    }

    /// Reads the geometry from the superblock. `Err` says what is wrong with it.
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

    /// Checks that the sizes are in range. `Err` says which is not.
    pub fn check(self) -> Result<(), String> {
        if self.segment_bytes.is_power_of_two() && (4096..=1 << 20).contains(&self.segment_bytes) {
            Ok(())
        } else {
            Err(format!("segment size {} is not a power of two from 4096 to 1048576", self.segment_bytes))
        }
    }

    /// Number of words in a segment of the row directory, state words included.
    pub fn words_per_segment(self) -> u64 {
        self.segment_bytes / 8
    }

    /// Number of words in a directory page: at most so many rows of a bulk insert does one state word publish.
    pub fn words_per_page(self) -> u64 {
        self.words_per_segment() / PAGES_PER_SEGMENT
    }
}
