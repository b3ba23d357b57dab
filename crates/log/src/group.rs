//! Writing a group to its place in a lane.
//!
//! In two steps, so that as little as possible happens between taking a CSN and the fence (I5):
//! first the body is checksummed and, if it is long, stored; the header follows. Until its header's
//! granule is stored whole a group is invalid, so the order in which its lines reach the medium
//! does not matter (I2). Nothing here fences.

use crate::format::{GRANULE_BYTES, HEADER_BYTES, Header, RawHeader, body_checksum, group_bytes, group_checksum};
use crate::path::Seat;
use perdura_pmem::Region;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

/// Groups up to this many bytes are put together in DRAM and stored at once.
const SMALL_BYTES: usize = 512;
const GRANULE: usize = GRANULE_BYTES as usize;
/// Bytes of the body that share the header's granule.
const FIRST_BYTES: usize = GRANULE - HEADER_BYTES;

/// Where a group goes. The space is reserved for it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) region: &'a Region,
    pub(crate) salt: u64,
    pub(crate) lane: u32,
    pub(crate) offset: u64,
    pub(crate) sink: Sink<'a>,
}

/// How a group is stored.
#[derive(Clone, Copy)]
pub(crate) enum Sink<'a> {
    /// Past the cache, by the thread that fences it.
    PastCache,
    /// Through the cache: another thread flushes it.
    Cached,
    /// Into the log buffer.
    Staged(&'a Seat<'a>),
}

impl Place<'_> {
    #[inline]
    fn store(&self, offset: u64, bytes: &[u8]) {
        match self.sink {
            Sink::PastCache => self.region.write_nt(offset, bytes),
            Sink::Cached => self.region.write(offset, bytes),
            Sink::Staged(seat) => seat.store(offset, bytes),
        }
    }
}

/// A group whose body is fixed and whose header is still to come.
#[must_use = "a group without header is invalid"]
pub(crate) struct Staged<'a> {
    place: Place<'a>,
    body: &'a [u8],
    checksum: u32,
}

impl<'a> Staged<'a> {
    /// Checksums the body, and stores it if it is long.
    #[inline]
    pub(crate) fn new(place: Place<'a>, body: &'a [u8]) -> Staged<'a> {
        let checksum = body_checksum(place.salt, place.lane, place.offset, body);
        if HEADER_BYTES + body.len() > SMALL_BYTES {
            store_rest(&place, body);
        }
        Staged { place, body, checksum }
    }

    /// Bytes of header and body.
    #[inline]
    pub(crate) fn length(&self) -> u32 {
        (HEADER_BYTES + self.body.len()) as u32
    }

    /// Stores the header, and the body if it is short.
    #[inline]
    pub(crate) fn seal(self, header: &Header) {
        let mut group = [0; SMALL_BYTES];
        let sealed = header.encode(self.place.salt);
        let header = RawHeader { crc: U32::new(group_checksum(self.checksum, &sealed)), sealed };
        group[..HEADER_BYTES].copy_from_slice(header.as_bytes());
        let (inline, stored) = if HEADER_BYTES + self.body.len() > SMALL_BYTES {
            (FIRST_BYTES, GRANULE)
        } else {
            (self.body.len(), group_bytes(self.body.len()) as usize)
        };
        group[HEADER_BYTES..HEADER_BYTES + inline].copy_from_slice(&self.body[..inline]);
        self.place.store(self.place.offset, &group[..stored]);
    }
}

/// Stores what does not share the header's granule: whole granules straight from the body, then the
/// padded last one.
fn store_rest(place: &Place<'_>, body: &[u8]) {
    let rest = &body[FIRST_BYTES..];
    let whole = rest.len() / GRANULE * GRANULE;
    let at = place.offset + GRANULE_BYTES;
    place.store(at, &rest[..whole]);
    if whole < rest.len() {
        let mut last = [0; GRANULE];
        last[..rest.len() - whole].copy_from_slice(&rest[whole..]);
        place.store(at + whole as u64, &last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Kind;
    use crate::scan::scan;
    use perdura_pmem::{Medium, SimMedium};

    #[test]
    fn groups_of_every_length_are_read_as_written_and_touch_only_their_granules() {
        let medium = SimMedium::new();
        let region = medium.create("lane", 8192).expect("room");
        for len in (0..700).chain([1000, 2047, 4064]) {
            region.zero(0, 8192);
            let body: Vec<u8> = (0..len).map(|index| (index * 7 + len) as u8 | 1).collect();
            let sink = if len % 2 == 1 { Sink::Cached } else { Sink::PastCache };
            let place = Place { region: &region, salt: 5, lane: 2, offset: 64, sink };
            let staged = Staged::new(place, &body);
            let header =
                Header { length: staged.length(), csn: 8, txid: 3, lag: 1, kind: Kind::Commit, chunks: 0, chained: 0 };
            staged.seal(&header);
            // SAFETY: nobody stores while the slice lives.
            let bytes = unsafe { region.slice(0, 8192) };
            let mut found = Vec::new();
            scan(bytes, 5, 2, 4, |offset, header| found.push((offset, *header)));
            assert_eq!(found, [(64, header)], "length {len}");
            assert_eq!(&bytes[96..96 + len], body);
            let end = 64 + group_bytes(len) as usize;
            assert!(bytes[..64].iter().chain(&bytes[96 + len..]).all(|byte| *byte == 0), "length {len}");
            assert!(end >= 96 + len);
        }
    }
}
