//! The geometry of a pool: sizes fixed when it is created, and sizes that are the same in every
//! pool.

/// Version of the engine's structures, kept in the superblock's geometry and in every data file. A
/// pool of another version is refused.
pub const FORMAT_VERSION: u64 = 2;
/// Version in the superblock's geometry while the log may hold records by value, which builds
/// before them would misread. Files and everything else are as in version 2.
pub const VALUES_VERSION: u64 = 3;
/// Unit of space in a segment, in bytes: cells are multiples of it, and words name places in it.
pub const UNIT_BYTES: u64 = 8;
/// Smallest size of a segment, in bytes.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 4096;
/// Unit of size of an index' leaf, in bytes: what the medium writes at once.
pub(crate) const LEAF_UNIT: u64 = 256;
/// Number of granules in a segment of extents: large versions take whole granules.
pub(crate) const GRANULES: u32 = 64;
/// Table id of the catalog.
pub(crate) const CATALOG_ID: u32 = 1;

/// Least number of segments in a file whose segments are not of the smallest size.
const SEGMENTS_IN_FILE: u64 = 256;

/// Sizes fixed when a pool is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size of a segment in large files, in bytes: a power of two from 4 KiB to 1 MiB.
    pub segment_bytes: u64,
    /// Number of words in a directory page, its state included: a power of two from 8 to 512.
    pub page_words: u64,
}

impl Geometry {
    /// The geometry as the superblock stores it; `by_value` says that the log may hold records by
    /// value.
    pub fn to_words(self, by_value: bool) -> [u64; 8] {
        let version = if by_value { VALUES_VERSION } else { FORMAT_VERSION };
        [version, self.segment_bytes, self.page_words, 0, 0, 0, 0, 0]
    }

    /// Whether words that the superblock stores say that the log may hold records by value.
    pub(crate) fn has_values(words: [u64; 8]) -> bool {
        words[0] == VALUES_VERSION
    }

    /// Reads the geometry from the superblock. `Err` says what is wrong with it.
    pub fn from_words(words: [u64; 8]) -> Result<Geometry, String> {
        if ![FORMAT_VERSION, VALUES_VERSION].contains(&words[0]) {
            return Err(format!(
                "the pool has table format {}, this build reads {FORMAT_VERSION} and {VALUES_VERSION}; use the build \
                 that wrote it",
                words[0]
            ));
        }
        let geometry = Geometry { segment_bytes: words[1], page_words: words[2] };
        geometry.check()?;
        Ok(geometry)
    }

    /// Checks that the sizes are in range. `Err` says which is not.
    pub fn check(self) -> Result<(), String> {
        if !self.segment_bytes.is_power_of_two() || !(SEGMENT_BYTES_MIN..=1 << 20).contains(&self.segment_bytes) {
            return Err(format!("segment size {} is not a power of two from 4096 to 1048576", self.segment_bytes));
        }
        // A page never exceeds the smallest segment.
        if !self.page_words.is_power_of_two() || !(8..=SEGMENT_BYTES_MIN / 8).contains(&self.page_words) {
            return Err(format!("directory page size {} is not a power of two from 8 to 512 words", self.page_words));
        }
        Ok(())
    }

    /// Size of a segment in a new file of `file_bytes` bytes: a 256th of the file, from the
    /// smallest size up to the pool's.
    pub fn segment_bytes_in(self, file_bytes: u64) -> u64 {
        let share = (file_bytes / SEGMENTS_IN_FILE).max(SEGMENT_BYTES_MIN);
        (1 << share.ilog2()).min(self.segment_bytes)
    }

    /// Size of the smallest file whose segments have `segment_bytes`, as
    /// [`Geometry::segment_bytes_in`] gives them.
    pub(crate) fn file_bytes_with(self, segment_bytes: u64) -> u64 {
        if segment_bytes > SEGMENT_BYTES_MIN { segment_bytes * SEGMENTS_IN_FILE } else { 0 }
    }

    /// Size of a directory page, in bytes.
    pub fn page_bytes(self) -> u64 {
        self.page_words * 8
    }
}
