//! The superblock: what a pool is, how far it is checkpointed, and which generations hold valid
//! records.
//!
//! `docs/format.md` draws it under "Superblock"; the structures here are its layout, for writing
//! and for reading. Two copies of 4 KiB: a copy is valid iff magic, version and counts are in range
//! and its CRC32C matches. Of two valid copies the one with the higher sequence counts.

use crate::Csn;
use crate::config::{GENERATIONS_MAX, LANES_MAX, check_lane_bytes};
use crate::error::{Error, ErrorKind, Result};
use perdura_pmem::checksum::{crc32c, crc32c_append};
use perdura_pmem::{LINE_BYTES, Modules, Mutant};
use std::mem::offset_of;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Name of the superblock's file.
pub const SUPERBLOCK_NAME: &str = "super";
/// Its name while a pool is being created.
pub const SUPERBLOCK_NEW_NAME: &str = "super.new";
/// Bytes of one copy.
pub(crate) const COPY_BYTES: u64 = size_of::<RawCopy>() as u64;
/// Copies in the file.
pub(crate) const COPIES: u64 = 2;
/// Transaction ids set aside by one superblock write.
pub(crate) const TXID_BLOCK: u64 = 1 << 20;

const MAGIC: [u8; 8] = *b"PERDURA\0";
/// Version of superblock and lanes this build writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// The fixed part of a copy.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Fixed {
    magic: [u8; 8],
    version: U32,
    /// Count of generations.
    generations: U32,
    sequence: U64,
    pool: [u8; 16],
    geometry: [U64; 8],
    lanes: U32,
    zero: U32,
    lane_bytes: U64,
    epoch: U64,
    horizon: U64,
    checkpoint_csn: U64,
    txid_limit: U64,
    activation_next: U64,
    /// CRC32C of the ids of the modules; 0: unknown.
    modules: U32,
    zero_2: U32,
    unsafe_shutdowns: U64,
    zeros: [u8; 12],
    /// CRC32C of what comes before it, then of the entries of the generations there are.
    crc: U32,
}

const _: () = assert!(offset_of!(Fixed, version) == 8 && offset_of!(Fixed, generations) == 12);
const _: () = assert!(offset_of!(Fixed, sequence) == 16 && offset_of!(Fixed, pool) == 24);
const _: () = assert!(offset_of!(Fixed, geometry) == 40 && offset_of!(Fixed, lanes) == 104);
const _: () = assert!(offset_of!(Fixed, zero) == 108 && offset_of!(Fixed, lane_bytes) == 112);
const _: () = assert!(offset_of!(Fixed, epoch) == 120 && offset_of!(Fixed, horizon) == 128);
const _: () = assert!(offset_of!(Fixed, checkpoint_csn) == 136 && offset_of!(Fixed, txid_limit) == 144);
const _: () = assert!(offset_of!(Fixed, activation_next) == 152 && offset_of!(Fixed, modules) == 160);
const _: () = assert!(offset_of!(Fixed, unsafe_shutdowns) == 168 && offset_of!(Fixed, zeros) == 176);
const _: () = assert!(offset_of!(Fixed, crc) == 188);
const _: () = assert!(size_of::<Fixed>() == 192 && align_of::<Fixed>() == 1);

/// A generation's entry.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawEntry {
    activation: U64,
    salt: U64,
    zeros: [u8; 16],
}

const _: () = assert!(offset_of!(RawEntry, salt) == 8 && offset_of!(RawEntry, zeros) == 16);
const _: () = assert!(size_of::<RawEntry>() == 32 && align_of::<RawEntry>() == 1);

/// A copy: the fixed part, the entries, and bytes of no account.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawCopy {
    fixed: Fixed,
    entries: [RawEntry; GENERATIONS_MAX as usize],
    unused: [u8; 1856],
}

const _: () = assert!(offset_of!(RawCopy, entries) == 192 && offset_of!(RawCopy, unused) == 192 + 64 * 32);
const _: () = assert!(size_of::<RawCopy>() == 4096 && align_of::<RawCopy>() == 1);

impl RawCopy {
    /// Checksum of a copy with this many generations.
    fn checksum(&self, generations: usize) -> u32 {
        let fixed = crc32c(&self.fixed.as_bytes()[..offset_of!(Fixed, crc)]);
        crc32c_append(fixed, self.entries[..generations].as_bytes())
    }
}

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
    /// Every CSN up to it is published, and its words are stored durably.
    pub checkpoint_csn: Csn,
    /// Transaction ids below it may have been issued.
    pub txid_limit: u64,
    /// Activation number for the next arming.
    pub activation_next: u64,
    /// The device that the pool was on when it was opened, where it tells.
    pub device: Option<Device>,
    /// The generations, by number.
    pub generations: Vec<GenerationEntry>,
}

/// A device of persistent memory, as a pool remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// CRC32C of the ids of its modules, or 1 if that is 0.
    pub modules: u32,
    /// Its dirty shutdowns when the pool was opened.
    pub unsafe_shutdowns: u64,
}

impl Device {
    pub(crate) fn of(modules: &Modules) -> Device {
        Device { modules: crc32c(modules.ids.as_bytes()).max(1), unsafe_shutdowns: modules.unsafe_shutdowns }
    }
}

/// Content of one copy.
enum Copy {
    Valid(Superblock),
    Newer(u32),
    NoMagic([u8; 8]),
    Bad(&'static str),
}

impl Superblock {
    /// Makes all records of these generations invalid.
    pub(crate) fn void(&mut self, generations: &[u32]) {
        for number in generations {
            self.generations[*number as usize] = GenerationEntry::FREE;
        }
    }

    /// Encodes one copy, without its unused tail, padded to whole lines.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let count = self.generations.len();
        let mut copy = RawCopy::new_zeroed();
        copy.fixed = Fixed {
            magic: MAGIC,
            version: U32::new(FORMAT_VERSION),
            generations: U32::new(count as u32),
            sequence: U64::new(self.sequence),
            pool: self.pool,
            geometry: self.geometry.map(U64::new),
            lanes: U32::new(self.lanes),
            zero: U32::ZERO,
            lane_bytes: U64::new(self.lane_bytes),
            epoch: U64::new(self.epoch),
            horizon: U64::new(self.horizon),
            checkpoint_csn: U64::new(self.checkpoint_csn),
            txid_limit: U64::new(self.txid_limit),
            activation_next: U64::new(self.activation_next),
            modules: U32::new(self.device.map_or(0, |device| device.modules)),
            zero_2: U32::ZERO,
            unsafe_shutdowns: U64::new(self.device.map_or(0, |device| device.unsafe_shutdowns)),
            zeros: [0; 12],
            crc: U32::ZERO,
        };
        for (raw, entry) in copy.entries.iter_mut().zip(&self.generations) {
            *raw = RawEntry { activation: U64::new(entry.activation), salt: U64::new(entry.salt), zeros: [0; 16] };
        }
        copy.fixed.crc = U32::new(copy.checksum(count));
        let used = size_of::<Fixed>() + copy.entries[..count].as_bytes().len();
        copy.as_bytes()[..used.next_multiple_of(LINE_BYTES as usize)].to_vec()
    }

    /// Decodes both copies of the superblock file `file`. Returns the content that counts and the
    /// number of the copy that holds it.
    ///
    /// # Errors
    /// NotAPool, NewerFormat, Damaged.
    pub fn decode(file: &str, bytes: &[u8]) -> Result<(Superblock, u64)> {
        let Ok((raw, _)) = <[RawCopy; COPIES as usize]>::ref_from_prefix(bytes) else {
            let seen =
                format!("{} bytes where {} must be; restore the file from a backup", bytes.len(), COPIES * COPY_BYTES);
            return Err(Error::damaged(file, bytes.len() as u64, seen));
        };
        let copies = raw.each_ref().map(decode_copy);
        let sequence = |copy: &Copy| match copy {
            Copy::Valid(superblock) => Some(superblock.sequence),
            _ => None,
        };
        // Planted: of two valid copies the first counts.
        let newest = usize::from(
            sequence(&copies[1]) > sequence(&copies[0]) && !perdura_pmem::planted(Mutant::FirstValidSuperblockCounts),
        );
        let offset = |copy: usize| copy as u64 * COPY_BYTES;
        for (copy, content) in copies.iter().enumerate() {
            if let Copy::Newer(seen) = *content {
                return Err(newer_format(file, offset(copy) + offset_of!(Fixed, version) as u64, seen));
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

fn decode_copy(copy: &RawCopy) -> Copy {
    let fixed = &copy.fixed;
    if fixed.magic != MAGIC {
        return Copy::NoMagic(fixed.magic);
    }
    let (version, count) = (fixed.version.get(), fixed.generations.get());
    if !(1..=GENERATIONS_MAX).contains(&count) {
        return Copy::Bad("names an impossible count of generations");
    }
    if copy.checksum(count as usize) != fixed.crc.get() {
        return Copy::Bad("does not match its checksum");
    }
    if version != FORMAT_VERSION {
        return if version > FORMAT_VERSION { Copy::Newer(version) } else { Copy::Bad("has format version 0") };
    }
    let (lanes, lane_bytes) = (fixed.lanes.get(), fixed.lane_bytes.get());
    if !(1..=LANES_MAX).contains(&lanes) || check_lane_bytes(lane_bytes).is_err() {
        return Copy::Bad("names impossible lanes");
    }
    let entry = |raw: &RawEntry| GenerationEntry { activation: raw.activation.get(), salt: raw.salt.get() };
    Copy::Valid(Superblock {
        sequence: fixed.sequence.get(),
        pool: fixed.pool,
        geometry: fixed.geometry.map(U64::get),
        lanes,
        lane_bytes,
        epoch: fixed.epoch.get(),
        horizon: fixed.horizon.get(),
        checkpoint_csn: fixed.checkpoint_csn.get(),
        txid_limit: fixed.txid_limit.get(),
        activation_next: fixed.activation_next.get(),
        device: (fixed.modules != U32::ZERO)
            .then(|| Device { modules: fixed.modules.get(), unsafe_shutdowns: fixed.unsafe_shutdowns.get() }),
        generations: copy.entries[..count as usize].iter().map(entry).collect(),
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
            device: None,
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
        torn[offset_of!(Fixed, checkpoint_csn)] ^= 1;
        assert_eq!(Superblock::decode("super", &torn).expect("valid"), (old, 1));
    }

    #[test]
    fn every_flipped_bit_of_a_copy_is_seen() {
        let superblock = sample(5);
        let good = file([Some(&superblock), None]);
        for bit in 0..(size_of::<Fixed>() + 2 * size_of::<RawEntry>()) * 8 {
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
        both[offset_of!(Fixed, sequence)] ^= 1;
        both[COPY_BYTES as usize + offset_of!(Fixed, txid_limit)] ^= 1;
        let error = Superblock::decode("super", &both).expect_err("both bad");
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        let mut newer = file([Some(&superblock), None]);
        let (copy, _) = RawCopy::mut_from_prefix(&mut newer).expect("two copies");
        copy.fixed.version = U32::new(2);
        copy.fixed.crc = U32::new(copy.checksum(2));
        let error = Superblock::decode("super", &newer).expect_err("newer");
        assert_eq!((error.kind(), error.offset()), (ErrorKind::NewerFormat, Some(8)), "{error}");
        assert!(error.to_string().contains("format version 2"), "{error}");
    }
}
