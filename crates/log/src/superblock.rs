//! The superblock: what a pool is, how far it is checkpointed, and which generations hold valid records.
//!
//! Layout in `docs/format.md`, "Superblock". Two copies of 4 KiB; a copy is valid iff magic, version and counts are in
//! range and its CRC32C matches; of two valid ones the one with the higher sequence counts.

use crate::Csn;
use crate::config::{GENERATIONS_MAX, LANES_MAX, check_lane_bytes};
use crate::error::{Error, ErrorKind, Result};

/// Name of the superblock's file.
pub const SUPERBLOCK_NAME: &str = "super";
/// Its name while a pool is being created.
pub const SUPERBLOCK_NEW_NAME: &str = "super.new";
/// Bytes of one copy.
pub(crate) const COPY_BYTES: u64 = 4096;
/// Copies in the file.
pub(crate) const COPIES: u64 = 2;
/// Transaction ids set aside by one superblock write.
pub(crate) const TXID_BLOCK: u64 = 1 << 20;

const MAGIC: [u8; 8] = *b"PERDURA\0";
/// Version of superblock and lanes this build writes and reads.
pub const FORMAT_VERSION: u32 = 1;

const CHECKSUM_AT: usize = 188;
const TABLE_AT: usize = 192;
const ENTRY_BYTES: usize = 32;

const _: () = assert!(TABLE_AT + ENTRY_BYTES * GENERATIONS_MAX as usize <= COPY_BYTES as usize);
const _: () = assert!(CHECKSUM_AT + 4 == TABLE_AT);

/// A generation, as the superblock has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationEntry {
    /// Number of its activation, ascending over the pool's life; 0: holds no valid record.
    pub activation: u64,
    /// Salt of its records.
    pub salt: u64,
}

impl GenerationEntry {
    /// A generation without valid records.
    pub const FREE: GenerationEntry = GenerationEntry { activation: 0, salt: 0 };

    /// Whether it may hold valid records.
    pub fn is_armed(&self) -> bool {
        self.activation != 0
    }
}

/// The superblock's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Ascends by one with each write.
    pub sequence: u64,
    /// Id of the pool.
    pub pool: [u8; 16],
    /// Words of the layer above, unchanged since creation.
    pub geometry: [u64; 8],
    /// Lanes of a generation.
    pub lanes: u32,
    /// Bytes of a lane.
    pub lane_bytes: u64,
    /// Recoveries the pool has been through.
    pub epoch: u64,
    /// Horizon of the last recovery: CSNs above it that were taken earlier are void.
    pub horizon: Csn,
    /// Every CSN up to it is published durably.
    pub checkpoint_csn: Csn,
    /// Transaction ids below it may have been issued.
    pub txid_limit: u64,
    /// Activation number for the next arming.
    pub activation_next: u64,
    /// The generations, by number.
    pub generations: Vec<GenerationEntry>,
}

/// What one copy holds.
enum Copy {
    Valid(Superblock),
    Newer(u32),
    NoMagic([u8; 8]),
    Bad(&'static str),
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

impl Superblock {
    /// Encodes one copy, without its unused tail, padded to whole lines.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let used = TABLE_AT + ENTRY_BYTES * self.generations.len();
        let mut bytes = vec![0; used.next_multiple_of(64)];
        let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        put(0, u64::from_le_bytes(MAGIC));
        put(8, u64::from(FORMAT_VERSION) | (self.generations.len() as u64) << 32);
        put(16, self.sequence);
        put(104, self.lanes.into());
        put(112, self.lane_bytes);
        put(120, self.epoch);
        put(128, self.horizon);
        put(136, self.checkpoint_csn);
        put(144, self.txid_limit);
        put(152, self.activation_next);
        for (index, value) in self.geometry.iter().enumerate() {
            put(40 + 8 * index, *value);
        }
        for (index, entry) in self.generations.iter().enumerate() {
            put(TABLE_AT + ENTRY_BYTES * index, entry.activation);
            put(TABLE_AT + ENTRY_BYTES * index + 8, entry.salt);
        }
        bytes[24..40].copy_from_slice(&self.pool);
        let checksum = checksum(&bytes, used);
        bytes[CHECKSUM_AT..TABLE_AT].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes both copies of the superblock file `file`. Returns the content that counts and the number of the copy
    /// that holds it.
    ///
    /// # Errors
    /// NotAPool, NewerFormat, Damaged.
    pub fn decode(file: &str, bytes: &[u8]) -> Result<(Superblock, u64)> {
        if (bytes.len() as u64) < COPIES * COPY_BYTES {
            let seen =
                format!("{} bytes where {} must be; restore the file from a backup", bytes.len(), COPIES * COPY_BYTES);
            return Err(Error::damaged(file, bytes.len() as u64, seen));
        }
        let copies = [0, 1].map(|copy| decode_copy(&bytes[copy * COPY_BYTES as usize..][..COPY_BYTES as usize]));
        let sequence = |copy: &Copy| match copy {
            Copy::Valid(superblock) => Some(superblock.sequence),
            _ => None,
        };
        // Planted: of two valid copies the first counts.
        let newest = usize::from(sequence(&copies[1]) > sequence(&copies[0]) && !perdura_pmem::planted(14));
        let offset = |copy: usize| copy as u64 * COPY_BYTES;
        for (copy, content) in copies.iter().enumerate() {
            if let Copy::Newer(seen) = *content {
                return Err(newer_format(file, offset(copy) + 8, seen));
            }
        }
        match copies {
            [Copy::Valid(first), _] if newest == 0 => Ok((first, 0)),
            [_, Copy::Valid(second)] => Ok((second, 1)),
            [Copy::NoMagic(seen), Copy::NoMagic(_)] => Err(not_a_pool(file, seen)),
            [first, second] => {
                let [first, second] = [first, second].map(|copy| match copy {
                    Copy::Bad(what) => what,
                    _ => "does not begin with the magic bytes",
                });
                let seen = format!(
                    "the copy at offset 0 {first}, the copy at offset {COPY_BYTES} {second}; restore the file from a backup"
                );
                Err(Error::damaged(file, 0, seen))
            }
        }
    }
}

#[cold]
fn newer_format(file: &str, offset: u64, seen: u32) -> Error {
    let message = format!(
        "{file} at offset {offset} has format version {seen}, this build reads up to {FORMAT_VERSION}; use the build that wrote \
         it"
    );
    Error::new(ErrorKind::NewerFormat, message).in_file(file).at(offset)
}

#[cold]
fn not_a_pool(file: &str, seen: [u8; 8]) -> Error {
    let message = format!(
        "{file} at offset 0 begins with {seen:02x?}, which is not a superblock; choose the directory of a pool, or restore the \
         file from a backup"
    );
    Error::new(ErrorKind::NotAPool, message).in_file(file).at(0)
}

fn checksum(bytes: &[u8], used: usize) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..CHECKSUM_AT]), &bytes[TABLE_AT..used])
}

fn decode_copy(bytes: &[u8]) -> Copy {
    if let Some(magic) = bytes.first_chunk::<8>()
        && *magic != MAGIC
    {
        return Copy::NoMagic(*magic);
    }
    let (version, count) = (word(bytes, 8), word(bytes, 12));
    if !(1..=GENERATIONS_MAX).contains(&count) {
        return Copy::Bad("names an impossible count of generations");
    }
    let used = TABLE_AT + ENTRY_BYTES * count as usize;
    if checksum(bytes, used) != word(bytes, CHECKSUM_AT) {
        return Copy::Bad("does not match its checksum");
    }
    if version != FORMAT_VERSION {
        return if version > FORMAT_VERSION { Copy::Newer(version) } else { Copy::Bad("has format version 0") };
    }
    let (lanes, lane_bytes) = (word(bytes, 104), long(bytes, 112));
    if !(1..=LANES_MAX).contains(&lanes) || check_lane_bytes(lane_bytes).is_err() {
        return Copy::Bad("names impossible lanes");
    }
    let mut pool = [0; 16];
    pool.copy_from_slice(&bytes[24..40]);
    let entry = |index: usize| {
        let at = TABLE_AT + ENTRY_BYTES * index;
        GenerationEntry { activation: long(bytes, at), salt: long(bytes, at + 8) }
    };
    Copy::Valid(Superblock {
        sequence: long(bytes, 16),
        pool,
        geometry: std::array::from_fn(|index| long(bytes, 40 + 8 * index)),
        lanes,
        lane_bytes,
        epoch: long(bytes, 120),
        horizon: long(bytes, 128),
        checkpoint_csn: long(bytes, 136),
        txid_limit: long(bytes, 144),
        activation_next: long(bytes, 152),
        generations: (0..count as usize).map(entry).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(sequence: u64) -> Superblock {
        Superblock {
            sequence,
            pool: *b"0123456789abcdef",
            geometry: [1, 2, 3, 4, 5, 6, 7, 8],
            lanes: 4,
            lane_bytes: 1 << 20,
            epoch: 3,
            horizon: 100,
            checkpoint_csn: 120,
            txid_limit: TXID_BLOCK,
            activation_next: 9,
            generations: vec![GenerationEntry { activation: 7, salt: 0x1234 }, GenerationEntry::FREE],
        }
    }

    fn file(copies: [Option<&Superblock>; 2]) -> Vec<u8> {
        let mut bytes = vec![0; (COPIES * COPY_BYTES) as usize];
        for (index, copy) in copies.iter().enumerate() {
            if let Some(superblock) = copy {
                let encoded = superblock.encode();
                bytes[index * COPY_BYTES as usize..][..encoded.len()].copy_from_slice(&encoded);
            }
        }
        bytes
    }

    #[test]
    fn the_newer_valid_copy_counts() {
        let (old, new) = (sample(4), sample(5));
        assert_eq!(Superblock::decode("super", &file([Some(&old), Some(&new)])).expect("valid"), (new.clone(), 1));
        assert_eq!(Superblock::decode("super", &file([Some(&new), Some(&old)])).expect("valid"), (new.clone(), 0));
        assert_eq!(Superblock::decode("super", &file([None, Some(&old)])).expect("valid"), (old.clone(), 1));
        let mut torn = file([Some(&new), Some(&old)]);
        torn[136] ^= 1;
        assert_eq!(Superblock::decode("super", &torn).expect("valid"), (old, 1));
    }

    #[test]
    fn every_flipped_bit_of_a_copy_is_seen() {
        let superblock = sample(5);
        let good = file([Some(&superblock), None]);
        for bit in 0..(TABLE_AT + 2 * ENTRY_BYTES) * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode("super", &bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        let superblock = sample(5);
        let error = Superblock::decode("super", &[0x55; 8192]).expect_err("no magic");
        assert_eq!(error.kind(), ErrorKind::NotAPool, "{error}");
        let error = Superblock::decode("super", &[0; 100]).expect_err("short");
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Damaged, Some(100)), "{error}");
        let mut both = file([Some(&superblock), Some(&superblock)]);
        both[20] ^= 1;
        both[COPY_BYTES as usize + 150] ^= 1;
        let error = Superblock::decode("super", &both).expect_err("both bad");
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        let mut newer = file([Some(&superblock), None]);
        newer[8] = 2;
        let sum = checksum(&newer, TABLE_AT + 2 * ENTRY_BYTES);
        newer[CHECKSUM_AT..TABLE_AT].copy_from_slice(&sum.to_le_bytes());
        let error = Superblock::decode("super", &newer).expect_err("newer");
        assert_eq!((error.kind(), error.offset()), (ErrorKind::NewerFormat, Some(8)), "{error}");
        assert!(error.to_string().contains("format version 2"), "{error}");
    }
}
