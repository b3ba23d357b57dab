//! The audit of a table at rest: it accounts for every segment, cell and RID, so that none is lost
//! and none is given out twice (I4, I8).
//!
//! It is for tests and tools. The pool must be swept, and no transaction may be active.

use super::Table;
use crate::error::{Error, Result};
use crate::files::chain::SegmentId;
use crate::format::{GRANULES, Rid, SegmentKind};
use crate::index::audit;
use rustc_hash::FxHashSet;

impl Table {
    /// Checks that exactly the live and the superseded versions hold cells, and that each segment
    /// and RID is in one place.
    ///
    /// # Errors
    /// Damaged, with what does not add up.
    pub fn audit(&self) -> Result<()> {
        let live = self.live_versions()?;
        let mut used = 0;
        for file in self.chain().files() {
            for index in 0..file.segment_count() {
                used += self.audit_segment(SegmentId { file: file.sequence(), index })?;
            }
        }
        let waiting = self.purge_lag();
        let replaced = self.replaced_live();
        if used != live + replaced {
            return Err(self.unaccounted(format_args!(
                "{used} cells in use, {live} live versions, {replaced} replaced ones ({waiting} rows wait for purge)"
            )));
        }
        self.audit_shadows()?;
        self.audit_reusable()?;
        self.audit_rids()?;
        self.audit_indexes()
    }

    /// Checks that each row has exactly one entry in each index.
    fn audit_indexes(&self) -> Result<()> {
        if self.index_list().is_empty() {
            return Ok(());
        }
        let is_row = |row: u64| {
            let page = self.directory().page_of(row);
            if page >= self.directory().page_count() || !self.directory().state(page).is_published() {
                return false;
            }
            let word = self.directory().raw_word(row);
            !word.is_empty() && !word.is_tombstone()
        };
        let published = (0..self.directory().page_count()).filter(|page| self.directory().state(*page).is_published());
        let rows = published.flat_map(|page| self.directory().page_rows(page)).filter(|row| is_row(*row)).count();
        audit::audit(self.index_list(), rows as u64, is_row)
    }

    /// Checks that each reusable segment has cells of its class and no owner. Others may have
    /// claimed those that were free.
    fn audit_reusable(&self) -> Result<()> {
        for (units, id) in self.space.segments().free_segments().reusable() {
            let cells = self.chain().file_of(id).segment(id.index).cells.lock().clone();
            let offered = cells.filter(|cells| cells.units() == units && (1..=cells.count()).contains(&cells.used()));
            if offered.is_none_or(|cells| cells.is_withdrawn()) {
                return Err(
                    self.unaccounted(format_args!("segment {id:?} is offered with free cells of {units} units"))
                );
            }
        }
        Ok(())
    }

    /// Checks that no transaction has left anything in a shadow.
    fn audit_shadows(&self) -> Result<()> {
        let (mut changes, mut undo) = (0, 0);
        self.shadows().each(|shadow| {
            changes += shadow.active().count();
            undo += shadow.history().count();
        });
        if changes > 0 || undo > 0 && self.space.retired().is_empty() {
            return Err(self.unaccounted(format_args!("{changes} changes without a transaction, {undo} undo records")));
        }
        Ok(())
    }

    fn unaccounted(&self, what: std::fmt::Arguments<'_>) -> Error {
        Error::damaged(&self.name(), 0, format_args!("space does not add up: {what}"))
    }

    /// Number of versions that the directory names.
    fn live_versions(&self) -> Result<usize> {
        let mut live = 0;
        for page in (0..self.directory().page_count()).filter(|page| self.directory().state(*page).is_published()) {
            for row in self.directory().page_rows(page) {
                let word = self.directory().raw_word(row);
                if !word.is_empty() {
                    self.chain().header(word, Rid::new(row, word.incarnation()))?;
                    live += 1;
                }
            }
        }
        Ok(live)
    }

    /// Number of versions that hold cells although the directory no longer names them: older
    /// snapshots may see them.
    fn replaced_live(&self) -> usize {
        let mut live = 0;
        self.shadows().each(|shadow| {
            for undo in shadow.history() {
                live += undo.before.iter().filter(|(_, word)| !word.is_empty()).count();
                live += usize::from(undo.before.spilled().is_some());
            }
        });
        live
    }

    /// Number of cells in use in a segment, or of extents that begin in it.
    fn audit_segment(&self, id: SegmentId) -> Result<usize> {
        let file = self.chain().file_of(id);
        let cells = file.segment(id.index).cells.lock().clone();
        let free = self.space.segments().free_segments();
        let (is_free, extents) = (free.contains(id), &free.extents);
        match (file.kind(id.index)?, cells) {
            (SegmentKind::Leaves(_), None)
                if !is_free && !extents.contains(id) && self.index_list().leaves().has_segment(id) =>
            {
                Ok(0)
            }
            (SegmentKind::Directory(_), None) if !is_free && !extents.contains(id) => Ok(0),
            (_, None) if is_free && !extents.contains(id) => Ok(0),
            (SegmentKind::Cells(units), Some(cells)) if !is_free && cells.units() == units => Ok(cells.used() as usize),
            (SegmentKind::Extents, None) if !is_free && extents.used_in(id) + extents.listed_in(id) == GRANULES => {
                Ok(extents.count_in(id))
            }
            (kind, cells) => {
                let (swept, granules) = (cells.is_some(), extents.used_in(id));
                Err(self.unaccounted(format_args!(
                    "segment {id:?} is {kind:?}, free {is_free}, swept {swept}, {granules} granules in use"
                )))
            }
        }
    }

    /// Checks that the free RIDs are exactly those of empty words in published pages, and that the
    /// free pages are exactly the unpublished ones.
    fn audit_rids(&self) -> Result<()> {
        let free = self.space.free_rows();
        let mut seen = FxHashSet::default();
        for row in &free {
            if !seen.insert(*row) || !self.directory().word(*row).is_empty() {
                return Err(self.unaccounted(format_args!("row {row:#x} is free twice, or free and in use")));
            }
        }
        match self.space.directory_space().freed_twice() {
            0 => {}
            twice => return Err(self.unaccounted(format_args!("{twice} RIDs were freed twice"))),
        }
        let mut empty = 0;
        for page in (0..self.directory().page_count()).filter(|page| self.directory().state(*page).is_published()) {
            empty += self.directory().page_rows(page).filter(|row| self.directory().raw_word(*row).is_empty()).count();
        }
        if empty != free.len() {
            return Err(self.unaccounted(format_args!("{empty} empty directory words, {} free RIDs", free.len())));
        }
        let mut free = self.space.directory_space().free_pages();
        free.sort_unstable();
        let unpublished =
            (0..self.directory().page_count()).filter(|page| !self.directory().state(*page).is_published());
        if !unpublished.eq(free.iter().copied()) {
            return Err(self.unaccounted(format_args!("the free pages {free:?} are not the unpublished ones")));
        }
        Ok(())
    }
}
