//! Spilling: the words of a large write set go to the medium, page by page, the oldest first.

use super::memory::ROWS_MIN;
use super::own_segments::OwnSegments;
use super::target::Target;
use super::touched::Touched;
use crate::error::Result;
use crate::format::{Rid, SpilledPage, VERSION_HEADER, fold_row};
use crate::shadow::row_set::RowSet;
use crate::shadow::words::Spilled;

/// Spills words to the medium, those written first before others, until the words left take no more
/// than `most` bytes of DRAM or nothing is left to spill. The caller's next fence covers what is
/// spilled.
pub(super) fn spill(target: &Target, touched: &mut Touched, segments: &mut OwnSegments, most: usize) -> Result<()> {
    while touched.memory.word_bytes() > most
        && let Some(page) = touched.memory.oldest()
    {
        if let Err(error) = spill_page(target, touched, segments, page) {
            touched.memory.offer(page);
            return Err(error);
        }
    }
    Ok(())
}

fn spill_page(target: &Target, touched: &mut Touched, segments: &mut OwnSegments, page: u64) -> Result<()> {
    let base = target.table.directory().page_base(page);
    let mut content = SpilledPage { rows: Vec::new(), folded: 0 };
    if let Some(shadow) = target.table.shadows().slot(page).lock_existing()
        && let Some(change) = shadow.change(&target.writer)
        && change.after().spilled().is_none()
    {
        content.rows.extend(change.after().iter());
    }
    if content.rows.len() < ROWS_MIN {
        return Ok(());
    }
    for (position, word) in &content.rows {
        let row = base + u64::from(*position);
        let (_, _, header) = target.table.chain().header(*word, Rid::new(row, word.incarnation()))?;
        content.folded ^= fold_row(row, header.crc);
    }
    let place = segments.spill(&target.table, &content)?;
    let (region, at) = target.table.chain().locate(place)?;
    let mut rows = RowSet::default();
    content.rows.iter().for_each(|(position, _)| {
        rows.insert(*position);
    });
    let spilled = Spilled::new(place, region.clone(), at + VERSION_HEADER, rows);
    // Only the transaction itself changes its words, so they are still the same.
    if let Some(change) = target.table.shadows().slot(page).lock().change_mut(&target.writer) {
        change.spill(spilled);
    }
    touched.memory.take_words(content.rows.len());
    Ok(())
}
