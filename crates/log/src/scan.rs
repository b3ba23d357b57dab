//! Finding the valid groups of a lane.
//!
//! A lane may hold any bytes. The scan steps over a granule that does not begin a valid group and
//! never ends there (I6): it may be one transaction's torn group, with acknowledged ones behind it.

use crate::format::{GRANULE_BYTES, HEADER_BYTES, Header, RawHeader, body_checksum, group_bytes, group_checksum};
use perdura_pmem::Mutant;
use zerocopy::FromBytes;

/// Calls `found` with offset and header of each valid group in a lane's bytes, in ascending order.
/// No valid group has a transaction id at or above the superblock's `txid_limit`.
///
/// Linear in the length, apart from checksums of long groups that turn out invalid: torn ones, of
/// which there are few.
pub fn scan(bytes: &[u8], salt: u64, lane: u32, txid_limit: u64, mut found: impl FnMut(u64, &Header)) {
    let granule = GRANULE_BYTES as usize;
    let mut at = 0;
    while at + granule <= bytes.len() {
        match group_at(&bytes[at..], salt, lane, at as u64, txid_limit) {
            Some(header) => {
                found(at as u64, &header);
                at += group_bytes(header.body_bytes() as usize) as usize;
            }
            // Planted: an invalid granule ends the scan.
            None if perdura_pmem::planted(Mutant::InvalidGranuleEndsScan) => return,
            None => at += granule,
        }
    }
}

/// The header of the group that `bytes` begin with, if it is valid.
#[inline]
fn group_at(bytes: &[u8], salt: u64, lane: u32, offset: u64, txid_limit: u64) -> Option<Header> {
    let (raw, _) = RawHeader::ref_from_prefix(bytes).ok()?;
    let header = Header::decode(&raw.sealed, salt, txid_limit)?;
    let body = bytes.get(HEADER_BYTES..header.length as usize)?;
    let checksum = group_checksum(body_checksum(salt, lane, offset, body), &raw.sealed);
    (raw.crc.get() == checksum).then_some(header)
}
