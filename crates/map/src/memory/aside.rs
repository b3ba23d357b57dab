//! The aside record: the meta blob, and a forgotten tag too long for the root record.
//!
//! A persist writes it only when it has changed, into the slot that the newest persisted one is not
//! in; the root record names it. It is valid iff its CRC32C matches, and its number is the one that
//! the root record names. Keeps (I2), (I3).

use crate::config::{META_BYTES_MAX, TAG_BYTES_MAX};
use crate::error::{Error, Result};
use crate::memory::batch::Batch;
use crate::memory::format::{SUMMARY_AT, bytes_of, checksum};
use crate::memory::root::{RING_AT, RING_BYTES};
use perdura_pmem::checksum::crc32c_append;
use perdura_pmem::{LINE_BYTES, Mutant, Region, planted};

/// Offset of the first of the two slots.
const SLOTS_AT: u64 = RING_AT + RING_BYTES;
const HEADER_WORDS: usize = 4;
const HEADER_BYTES: u64 = 8 * HEADER_WORDS as u64;
const SLOT_BYTES: u64 = (HEADER_BYTES + (TAG_BYTES_MAX + META_BYTES_MAX) as u64).next_multiple_of(LINE_BYTES);

const _: () = assert!(SLOTS_AT + 2 * SLOT_BYTES <= SUMMARY_AT);

/// Content beside that of the root record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aside {
    /// Number of the record, counted up from 1.
    pub(crate) number: u64,
    /// Timestamp of the tag. 0: none, or it is in the root record.
    pub(crate) tag_ts: u64,
    pub(crate) tag: Vec<u8>,
    /// Blob of the caller.
    pub(crate) meta: Vec<u8>,
}

impl Aside {
    /// Number as a root record names it.
    pub(crate) fn short_number(&self) -> u16 {
        self.number as u16
    }

    pub(crate) fn has_tag(&self, ts: u64, tag: &[u8]) -> bool {
        self.tag_ts == ts && are_equal(&self.tag, tag)
    }

    pub(crate) fn has_meta(&self, meta: &[u8]) -> bool {
        are_equal(&self.meta, meta)
    }

    /// Writes the record, and adds it to the batch of the persist whose root record is to name it.
    #[track_caller]
    pub(crate) fn write(&self, region: &Region, batch: &mut Batch, salt: u64) {
        let blob = [&self.tag[..], &self.meta].concat();
        let lengths = self.tag.len() as u64 | (self.meta.len() as u64) << 32;
        let mut words = [self.number, self.tag_ts, lengths, 0];
        let at = slot_at(self.number);
        words[HEADER_WORDS - 1] = record_sum(&words, &blob, at, salt);
        region.write(at, bytes_of(&words));
        region.write(at + HEADER_BYTES, &blob);
        batch.add(at, HEADER_BYTES + blob.len() as u64);
    }

    /// Reads the record that a root record names. It was fenced before the root record was stored,
    /// so an invalid one is damage. Error: `Damaged`.
    pub(crate) fn read(region: &Region, short_number: u16, salt: u64) -> Result<Aside> {
        let at = slot_at(u64::from(short_number));
        let mut bytes = vec![0; SLOT_BYTES as usize];
        region.read(at, &mut bytes);
        let valid = Aside::decode(&bytes, at, salt).filter(|aside| aside.short_number() == short_number);
        valid.ok_or_else(|| {
            Error::damaged(region.name(), at, "the aside record is not the one that the root record names")
        })
    }

    fn decode(slot: &[u8], at: u64, salt: u64) -> Option<Aside> {
        let (header, rest) = slot.split_at_checked(HEADER_BYTES as usize)?;
        let mut words = [0; HEADER_WORDS];
        for (word, bytes) in words.iter_mut().zip(header.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
        let [number, tag_ts, lengths, sum] = words;
        let (tag_bytes, meta_bytes) = (lengths as u32 as usize, (lengths >> 32) as usize);
        if tag_bytes > TAG_BYTES_MAX || meta_bytes > META_BYTES_MAX {
            return None;
        }
        let blob = rest.get(..tag_bytes + meta_bytes)?;
        let (tag, meta) = blob.split_at(tag_bytes);
        let is_valid = sum == record_sum(&words, blob, at, salt);
        is_valid.then(|| Aside { number, tag_ts, tag: tag.to_vec(), meta: meta.to_vec() })
    }
}

/// Whether bytes are the same. Of empty ones `memcmp` is not asked: it loads them by a mask of no
/// bytes from an address where there is no memory, which takes 130 ns, in each persist.
fn are_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

/// Offset of the slot of a number, by its parity.
fn slot_at(number: u64) -> u64 {
    // Planted: the record in force is overwritten.
    SLOTS_AT + (number & u64::from(!planted(Mutant::AsideInForceOverwritten))) * SLOT_BYTES
}

/// The checksum of a record and of the tag and blob that follow it.
fn record_sum(words: &[u64; HEADER_WORDS], blob: &[u8], at: u64, salt: u64) -> u64 {
    u64::from(crc32c_append(checksum(salt, at, &words[..HEADER_WORDS - 1]), blob))
}

#[cfg(test)]
mod tests {
    use super::{Aside, HEADER_BYTES, HEADER_WORDS, bytes_of, record_sum};

    #[test]
    fn an_aside_record_with_a_wrong_bit_is_refused() {
        let aside = Aside { number: 9, tag_ts: 3, tag: b"tag".to_vec(), meta: b"me".to_vec() };
        let mut words = [9, 3, 3 | 2 << 32, 0];
        words[HEADER_WORDS - 1] = record_sum(&words, b"tagme", 64, 5);
        let slot = [bytes_of(&words), b"tagme and what was there"].concat();
        assert_eq!(Aside::decode(&slot, 64, 5), Some(aside));
        assert_eq!((Aside::decode(&slot, 64, 6), Aside::decode(&slot, 128, 5)), (None, None));
        for bit in 0..8 * (HEADER_BYTES as usize + 5) {
            let mut flipped = slot.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Aside::decode(&flipped, 64, 5), None, "bit {bit}");
        }
    }
}
