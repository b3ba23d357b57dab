//! Appends records: allocates, checksums and writes them.

use crate::error::Result;
use crate::memory::format::{RECORD_HEADER_BYTES, RecordHeader, Ref, bytes_of, link, record_bytes};
use crate::memory::pages::{Filling, Pages, Urgency};
use crate::memory::record::{Records, record_crc};
use crate::timestamps::Ts;
use perdura_pmem::checksum::crc32c_append;

/// Records up to this length are assembled in a buffer and written with one store.
const SMALL_BYTES: usize = 256;
const HEADER: usize = RECORD_HEADER_BYTES as usize;

/// A record to be written.
pub(crate) struct New<'n> {
    pub(crate) ts: Ts,
    pub(crate) key: &'n [u8],
    /// None for a deletion.
    pub(crate) value: Option<&'n [u8]>,
    pub(crate) tag: bool,
    /// The tag of its timestamp that a change bears.
    pub(crate) borne: Option<&'n [u8]>,
    /// Offset of the record before in the chain. 0: none.
    pub(crate) next: u64,
    /// Offset of the key's next older version. 0: none.
    pub(crate) older: u64,
}

impl Records {
    /// Appends a record. Error: `Full`.
    pub(crate) fn append(&self, pages: &mut Pages, filling: Filling, new: &New<'_>, urgency: Urgency) -> Result<Ref> {
        let (content, borne) = (new.value.unwrap_or_default(), new.borne.unwrap_or_default());
        let len = record_bytes(new.key.len() as u64, content.len() as u64, borne.len() as u64);
        let Some(offset) = pages.allocate(filling, len, urgency) else {
            return Err(pages.full(len));
        };
        pages.note_span(Ref::new(offset, len), new.ts);
        let salt = self.salt;
        let links = (link(new.next, salt), link(new.older, salt));
        let header = RecordHeader {
            ts: new.ts,
            deletion: new.value.is_none(),
            tag: new.tag,
            key_bytes: new.key.len() as u32,
            value_bytes: content.len() as u32,
            borne_bytes: new.borne.map(|tag| tag.len() as u32),
            crc: 0,
        };
        if len as usize <= SMALL_BYTES {
            self.fill_small(pages, (offset, len), links, header, [new.key, content, borne]);
        } else {
            self.fill_large(pages, offset, links, header, [new.key, content, borne]);
        }
        Ok(Ref::of(offset, &header))
    }

    /// Assembles a record in a buffer and writes it with one store.
    #[inline]
    fn fill_small(
        &self,
        pages: &mut Pages,
        (offset, len): (u64, u64),
        (next, older): (u64, u64),
        mut header: RecordHeader,
        parts: [&[u8]; 3],
    ) {
        let mut bytes = [0; SMALL_BYTES];
        bytes[..HEADER].copy_from_slice(bytes_of(&header.encode(next, older)));
        let mut end = HEADER;
        for part in parts {
            bytes[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        header.crc = record_crc(self.salt, offset, &bytes[..end]);
        bytes[16..20].copy_from_slice(&header.crc.to_le_bytes());
        pages.fill(offset, &bytes[..len as usize]);
    }

    fn fill_large(
        &self,
        pages: &mut Pages,
        offset: u64,
        (next, older): (u64, u64),
        mut header: RecordHeader,
        [key, value, borne]: [&[u8]; 3],
    ) {
        let mut bytes = [bytes_of(&header.encode(next, older)), key].concat();
        header.crc = crc32c_append(crc32c_append(record_crc(self.salt, offset, &bytes), value), borne);
        bytes[16..20].copy_from_slice(&header.crc.to_le_bytes());
        let at = offset + bytes.len() as u64;
        pages.fill(offset, &bytes);
        pages.fill(at, value);
        pages.fill(at + value.len() as u64, borne);
    }
}
