//! Reads records in place: bounds and checksum first, then slices of the region.
//!
//! A record is valid iff its reference lies within the pages, its lengths agree with the reference,
//! and its CRC32C matches. The checksum is checked once: a set live bit says that the record was
//! written or checked since the map was opened, and once all that is reachable has been read, so
//! was everything.
//!
//! Safety of the slices: their holder is the writer, a reader that pinned before it loaded the
//! root, or the collector, which alone frees the pages it reads. Of persisted bytes only the links
//! ever change. Keeps (I6).

use crate::error::{Error, ErrorKind, Result};
use crate::memory::bitmap::Bitmap;
use crate::memory::format::{
    GRAIN_BYTES, Geometry, OLDER_AT, RECORD_HEADER_BYTES, RECORD_UNCHECKED_BYTES, RecordHeader, Ref, linked, seed,
};
use crate::timestamps::Ts;
use perdura_pmem::Region;
use perdura_pmem::checksum::crc32c_append;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The content of a record, in place.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) header: RecordHeader,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Tag of its timestamp that a change bears; empty if it bears none.
    borne: &'a [u8],
}

impl<'a> Record<'a> {
    /// The tag of its timestamp, if the record is one or bears one.
    pub(crate) fn tag(&self) -> Option<&'a [u8]> {
        if self.header.tag { Some(self.value) } else { self.header.borne_bytes.map(|_| self.borne) }
    }
}

/// Access to the records of a map.
#[derive(Clone)]
pub(crate) struct Records {
    pub(crate) region: Region,
    pub(crate) geometry: Geometry,
    pub(crate) salt: u64,
    pub(crate) live: Arc<Bitmap>,
    /// Whether every record that can be reached was written or checked since the map was opened.
    are_checked: Arc<AtomicBool>,
}

/// A key's newest record, with the reference to it, if the key has an entry in the index.
pub(crate) type Newest<'r> = Option<(Ref, Record<'r>)>;

/// Bytes by which the common prefix of a node's keys must have grown before heads leave it out.
pub(crate) const PREFIX_GAIN: usize = 4;

/// Eight bytes of a key from `skip` on, as a number of the same order. Missing bytes count as
/// zeros.
#[inline]
pub(crate) fn head8(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(first) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

/// Sixteen bytes of a key from `skip` on, as [`head8`].
#[inline]
pub(crate) fn head16(key: &[u8], skip: usize) -> u128 {
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(first) = rest.first_chunk::<16>() {
        return u128::from_be_bytes(*first);
    }
    let len = rest.len();
    if let (Some(first), Some(last)) = (rest.first_chunk::<8>(), rest.last_chunk::<8>()) {
        // Both ends overlap: the last eight bytes hold those after the first eight, and some of
        // these again.
        let beyond = len as u32 - 8;
        let tail = if beyond == 0 { 0 } else { u64::from_be_bytes(*last) << (64 - 8 * beyond) };
        return u128::from(u64::from_be_bytes(*first)) << 64 | u128::from(tail);
    }
    let mut bytes = [0; 16];
    bytes[..len].copy_from_slice(rest);
    u128::from_be_bytes(bytes)
}

/// Length of the common prefix of two keys.
pub(crate) fn common_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

impl Records {
    /// The records of a map, whose live objects start where `live` says.
    pub(crate) fn new(region: Region, geometry: Geometry, salt: u64, live: Arc<Bitmap>) -> Records {
        Records { region, geometry, salt, live, are_checked: Arc::default() }
    }

    /// Notes that every record that can be reached was written or checked.
    pub(crate) fn all_checked(&self) {
        self.are_checked.store(true, Ordering::Relaxed);
    }

    /// The header of the record that a reference names. Error: `Damaged` if it lies outside the
    /// pages or has another length.
    #[inline]
    fn header(&self, record: Ref) -> Result<RecordHeader> {
        let offset = record.offset();
        if !self.geometry.holds(offset, record.len()) || record.len() < RECORD_HEADER_BYTES {
            return Err(self.damaged(offset, "a reference to a record points outside the pages"));
        }
        let header = self.header_at(offset);
        if header.record_bytes() != record.len() {
            return Err(self.damaged(offset, "a record is not as long as the reference to it says"));
        }
        Ok(header)
    }

    /// The header at an offset within the pages, without the links, which another thread may store
    /// to: see [`Records::next`] and [`Records::older`].
    #[inline]
    fn header_at(&self, offset: u64) -> RecordHeader {
        // SAFETY: as in content(). Nobody stores to these bytes while a reader can reach them.
        let bytes = unsafe { self.region.slice(offset + 16, RECORD_HEADER_BYTES - 16) };
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        RecordHeader::decode([word(0), word(8), word(16)])
    }

    /// The record that a reference names. Error: `Damaged`.
    #[inline]
    pub(crate) fn get(&self, record: Ref) -> Result<Record<'_>> {
        let header = self.header(record)?;
        let found = self.content(record.offset(), header);
        if !self.are_checked.load(Ordering::Relaxed) && !self.live.is_set(record.offset()) {
            self.verify(record.offset(), &found)?;
        }
        Ok(found)
    }

    #[inline]
    fn content(&self, offset: u64, header: RecordHeader) -> Record<'_> {
        let (key_bytes, value_bytes) = (header.key_bytes as usize, header.value_bytes as usize);
        let len = key_bytes + value_bytes + header.borne_bytes.unwrap_or(0) as usize;
        // SAFETY: the lengths were checked against the region. Nobody stores to the bytes while a
        // reader can reach them, see above.
        let bytes = unsafe { self.region.slice(offset + RECORD_HEADER_BYTES, len as u64) };
        let (key, rest) = bytes.split_at(key_bytes);
        let (value, borne) = rest.split_at(value_bytes);
        Record { header, key, value, borne }
    }

    /// Checks a record's checksum.
    #[cold]
    pub(crate) fn verify(&self, offset: u64, record: &Record<'_>) -> Result<()> {
        let header = &record.header;
        if !header.is_possible() {
            return Err(self.damaged(offset, "a record with lengths no map takes"));
        }
        if header.ts == 0 || header.ts == Ts::MAX {
            return Err(self.damaged(offset, "a record with a timestamp no map gives"));
        }
        let len = RECORD_HEADER_BYTES + (record.key.len() + record.value.len() + record.borne.len()) as u64;
        // SAFETY: as in content(). The links, which another thread may store to, are not read.
        let bytes = unsafe { self.region.slice(offset, len) };
        if header.crc != record_crc(self.salt, offset, bytes) {
            return Err(self.damaged(offset, "the checksum of a record does not match"));
        }
        Ok(())
    }

    /// Reference and content of the record that a link leads to, fully checked.
    pub(crate) fn at(&self, offset: u64) -> Result<(Ref, Record<'_>)> {
        if !self.geometry.holds(offset, RECORD_HEADER_BYTES) {
            return Err(self.damaged(offset, "a link points outside the pages"));
        }
        let header = self.header_at(offset);
        let len = header.record_bytes();
        if len / GRAIN_BYTES >= 1 << 23 || !self.geometry.holds(offset, len) {
            return Err(self.damaged(offset, "a record ends outside the pages"));
        }
        let record = self.content(offset, header);
        if !self.are_checked.load(Ordering::Relaxed) && !self.live.is_set(offset) {
            self.verify(offset, &record)?;
        }
        Ok((Ref::of(offset, &record.header), record))
    }

    /// Offset of the next older record in the chain; 0 at the end. Error: `Damaged`.
    pub(crate) fn next(&self, offset: u64) -> Result<u64> {
        linked(self.region.load(offset), self.salt)
            .ok_or_else(|| self.damaged(offset, "the check of a link does not match"))
    }

    /// The next older version of the key of the record `newer` at an offset, or none. Only for a
    /// record whose older version is not forgotten. Error: `Damaged`.
    pub(crate) fn older(&self, offset: u64, newer: &Record<'_>) -> Result<Option<(Ref, Record<'_>)>> {
        let Some(older) = linked(self.region.load(offset + OLDER_AT), self.salt) else {
            return Err(self.damaged(offset + OLDER_AT, "the check of a link to an older version does not match"));
        };
        if older == 0 {
            return Ok(None);
        }
        let (record, found) = self.at(older)?;
        if found.key != newer.key || found.header.ts > newer.header.ts {
            return Err(self.damaged(offset, "the older version of a key is not one of it"));
        }
        Ok(Some((record, found)))
    }

    /// The version of a key that a read at `at` sees, from the key's newest record on. At
    /// `forgotten` or later, it does not go beyond what is kept. Error: `Damaged`.
    #[inline]
    pub(crate) fn visible<'r>(&'r self, newest: Record<'r>, offset: u64, at: Ts) -> Result<Option<(u64, Record<'r>)>> {
        if newest.header.ts <= at {
            return Ok(Some((offset, newest)));
        }
        self.visible_older(newest, offset, at)
    }

    fn visible_older<'r>(&'r self, newest: Record<'r>, offset: u64, at: Ts) -> Result<Option<(u64, Record<'r>)>> {
        let (mut found, mut offset) = (newest, offset);
        for _ in 0..self.geometry.records_max() {
            let Some((record, older)) = self.older(offset, &found)? else { return Ok(None) };
            (found, offset) = (older, record.offset());
            if found.header.ts <= at {
                return Ok(Some((offset, found)));
            }
        }
        Err(self.damaged(offset, "the older versions of a key run in a circle"))
    }

    /// Asks for a record's header and the begin of its key ahead of their use.
    #[inline]
    pub(crate) fn prefetch(&self, record: Ref) {
        self.region.prefetch(record.offset());
        self.region.prefetch(record.offset() + RECORD_HEADER_BYTES);
    }

    /// The key of a record that was read and checked before.
    #[inline]
    pub(crate) fn trusted_key(&self, record: Ref) -> &[u8] {
        let header = self.header_at(record.offset());
        let key_bytes = u64::from(header.key_bytes).min(record.len() - RECORD_HEADER_BYTES);
        // SAFETY: within the record, and so within the region; as in content().
        unsafe { self.region.slice(record.offset() + RECORD_HEADER_BYTES, key_bytes) }
    }

    /// The timestamp of a record that was checked before.
    #[inline]
    pub(crate) fn trusted_ts(&self, record: Ref) -> Ts {
        self.header_at(record.offset()).ts
    }

    /// An error of this map.
    #[cold]
    pub(crate) fn error(&self, kind: ErrorKind, what: String) -> Error {
        let file = self.region.name();
        Error::new(kind, format!("{file}: {what}")).in_file(file)
    }

    /// The error for bytes of this map that fail a check.
    #[cold]
    pub(crate) fn damaged(&self, offset: u64, what: &str) -> Error {
        Error::damaged(self.region.name(), offset, what)
    }
}

/// CRC32C of a record bound to its map and place. `bytes` is the whole record without its padding.
pub(crate) fn record_crc(salt: u64, offset: u64, bytes: &[u8]) -> u32 {
    crc32c_append(seed(salt, offset), &bytes[RECORD_UNCHECKED_BYTES..])
}
