//! Soundness of a row, a page of the row directory and a segment (I6). Redo, the offline check and
//! CHECK TABLE verify by it; each knows by itself why nobody frees the versions meanwhile.

use super::Table;
use crate::error::{Error, Result};
use crate::files::chain::row as row_bytes;
use crate::format::{Rid, SegmentKind, UNIT_BYTES, VERSION_HEADER, VersionHeader, Word};

/// A sound version.
pub(crate) struct Sound<'t> {
    /// Its header.
    pub header: VersionHeader,
    /// Its row.
    pub row: &'t [u8],
}

impl Table {
    /// Verifies that `word` names a version of row `rid` whose bytes match its checksum.
    ///
    /// # Safety
    /// Nobody may free the version while this runs and while the row lives: a snapshot, a row lock
    /// or the write set holds it, or there is no session.
    pub(crate) unsafe fn verify_version(&self, rid: Rid, word: Word) -> Result<Sound<'_>> {
        let (region, at, header) = self.chain().header(word, rid)?;
        // SAFETY: as the caller vouches for.
        let row = unsafe { row_bytes(region, at, &header) };
        if header.checksum(row) != header.crc {
            let bytes = VERSION_HEADER + u64::from(header.len);
            let what = format_args!("a version of {bytes} bytes does not match its checksum");
            return Err(Error::damaged(region.name(), at, what));
        }
        Ok(Sound { header, row })
    }

    /// Verifies that `word` names a version of row `rid`, at a place where one can begin: a cell,
    /// or an extent as long as it is.
    pub(crate) fn verify_place(&self, rid: Rid, word: Word) -> Result<()> {
        let (region, at, header) = self.chain().header(word, rid)?;
        if self.has_place(word, VERSION_HEADER + u64::from(header.len)) {
            return Ok(());
        }
        let what = format_args!("row {:#x} names a place where no version can begin", rid.row());
        Err(Error::damaged(region.name(), at, what))
    }

    /// Whether `word` names a cell, or the beginning of an extent, with room for `bytes`.
    pub(crate) fn has_place(&self, word: Word, bytes: u64) -> bool {
        let Some(file) = self.chain().file(word.file()) else { return false };
        let at = word.offset();
        match file.segment_of(at).map(|index| (index, file.kind(index))) {
            Some((index, Ok(SegmentKind::Cells(units)))) => {
                let (cell, from_start) = (u64::from(units) * UNIT_BYTES, at - file.segment_offset(index));
                from_start.is_multiple_of(cell) && bytes <= cell && from_start + cell <= file.segment_bytes()
            }
            Some((_, Ok(SegmentKind::Extents))) => file.granule_at(at).is_some() && file.is_in_extents(at, bytes),
            _ => false,
        }
    }

    /// Tells `found` of each word in page `page` of the directory that no commit can have stored,
    /// its state included. What lies in an unpublished page does not count.
    pub(crate) fn verify_page(&self, page: u64, found: &mut dyn FnMut(Error)) {
        let directory = self.directory();
        if let Err(error) = directory.check_state(page) {
            return found(error);
        }
        if directory.state(page).is_published() {
            directory.page_rows(page).filter_map(|row| directory.sound_word(row).err()).for_each(found);
        }
    }

    /// Tells `found` of each segment whose descriptor is not valid.
    pub(crate) fn verify_descriptors(&self, found: &mut dyn FnMut(Error)) {
        for file in self.chain().files() {
            (0..file.segment_count()).filter_map(|index| file.kind(index).err()).for_each(&mut *found);
        }
    }
}
