//! The free places in a table's row directory: unpublished pages, and RIDs.

use super::free_rids::FreeRids;
use super::segments::Segments;
use crate::error::{Error, Result};
use crate::files::chain::{Chain, SegmentId};
use crate::files::datafile::DataFile;
use crate::files::directory::Directory;
use crate::format::{Rid, SEGMENT_BYTES_MIN, SegmentKind, Word};
use crate::shadow::change::Change;
use crate::shadow::page::PageShadow;
use crate::shadow::slots::Shadows;
use perdura_log::Csn;
use perdura_pmem::Mutant;
use perdura_pmem::sync::{Mutex, MutexGuard};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// An unpublished directory page.
#[derive(Clone, Copy, Debug)]
struct FreePage {
    page: u64,
    /// A crash or a rollback may have left words in the page that are not empty.
    dirty: bool,
}

#[derive(Default)]
struct Lists {
    /// Pages still to be swept.
    unswept: Range<u64>,
    /// The next one to be taken is the last. A sweep adds pages in front, so that those with low
    /// numbers are used first.
    pages: VecDeque<FreePage>,
    rids: FreeRids,
    /// Deleted rows that sweeps have found, with their words.
    deleted: Vec<(Rid, Word)>,
    reserved_rows: FxHashSet<u64>,
    reserved_pages: FxHashSet<u64>,
}

impl Lists {
    /// Whether a sweep of page `page` has yet to find its free RIDs.
    fn is_unswept(&self, page: u64) -> bool {
        self.unswept.contains(&page)
    }
}

/// The last pages of a row directory, all of them free, while the directory's free places are
/// locked.
pub(crate) struct Tail<'a> {
    lists: MutexGuard<'a, Lists>,
    first: u64,
    end: u64,
}

impl Tail<'_> {
    /// Number of segments of `file` that the pages take.
    pub(crate) fn segments(&self, file: &DataFile, directory: &Directory) -> u32 {
        ((self.end - self.first) * 8 * directory.page_words() as u64 / file.segment_bytes()) as u32
    }

    /// The incarnation with which words of new pages begin once these pages are gone, so that no
    /// old RID finds a later row. `None` if theirs are too far apart for that
    /// ([`Word::last_incarnation`]).
    pub(crate) fn next_incarnation(&self, chain: &Chain) -> Option<u16> {
        let directory = chain.directory();
        let words =
            (self.first..self.end).flat_map(|page| directory.page_rows(page)).map(|row| directory.raw_word(row));
        let sound = words.filter(|word| word.is_sound()).map(Word::incarnation);
        // That of pages which went before and are not back; 0 if there are none.
        let before = Some(chain.incarnation()).filter(|incarnation| *incarnation != 0);
        Word::last_incarnation(sound.chain(before))
    }

    /// Drops the pages. Nobody takes their numbers while this lives: until no link names their
    /// file.
    pub(crate) fn drop_pages(&mut self, directory: &Directory) {
        let first = self.first;
        self.lists.pages.retain(|free| free.page < first);
        directory.drop_pages(first);
    }
}

/// The free pages and RIDs of a row directory.
///
/// The lists are DRAM; after a restart a sweep of the directory finds the places again. A free RID
/// is in one place only: in a list here, at hand in a shard, still to be found by the sweep, or in
/// a free page (I8). What a prepared transaction of the last run inserted looks free to the sweep,
/// so recovery reserves it.
///
/// A page all of whose RIDs are free is *given back*: it becomes unpublished, and the next bulk
/// insert fills it like a new one. Its empty words keep their incarnations, for ever: so an old RID
/// never finds a later row. The last pages of the directory may go with their file
/// (`file_return.rs`); the words of the pages that take their numbers later begin with an
/// incarnation that none of them had.
pub(crate) struct DirectorySpace {
    lists: Mutex<Lists>,
    /// Sweeps have found deleted rows.
    found_deleted: AtomicBool,
}

impl DirectorySpace {
    /// The directory space of a new table, whose directory is empty.
    pub(crate) fn create() -> DirectorySpace {
        DirectorySpace { lists: Mutex::default(), found_deleted: AtomicBool::new(false) }
    }

    /// Builds the directory of an existing table from its segments `found`, each with the number of
    /// its first page, in the order of the pages.
    pub(crate) fn open(segments: &Segments, found: Vec<(u32, SegmentId)>) -> Result<DirectorySpace> {
        let (chain, directory) = (segments.chain(), segments.chain().directory());
        for (page, id) in found {
            let file = chain.file_of(id);
            let next = directory.page_count();
            if u64::from(page) != next {
                let what = format!("directory page {page} is here, {next} was expected");
                return Err(Error::damaged(file.region().name(), file.segment_offset(id.index), what));
            }
            directory.push_segment(file, id.index);
            (next..directory.page_count()).try_for_each(|page| directory.check_state(page))?;
        }
        let lists = Lists { unswept: 0..directory.page_count(), ..Lists::default() };
        Ok(DirectorySpace { lists: Mutex::new(lists), found_deleted: AtomicBool::new(false) })
    }

    /// Adds RIDs to the free ones.
    pub(crate) fn put_rids(&self, directory: &Directory, rids: impl IntoIterator<Item = Rid>) {
        self.lists.lock().rids.put(directory, rids);
    }

    /// Takes up to `count` free RIDs.
    pub(crate) fn take_rids(&self, directory: &Directory, count: usize) -> Vec<Rid> {
        self.lists.lock().rids.take(directory, count)
    }

    /// The rows of the free RIDs in the list.
    pub(crate) fn free_rows(&self, directory: &Directory) -> Vec<u64> {
        self.lists.lock().rids.rows(directory).collect()
    }

    /// Number of the free RIDs in the list.
    pub(crate) fn free_rids(&self) -> usize {
        self.lists.lock().rids.len()
    }

    /// Number of RIDs that were freed although they were free.
    pub(crate) fn freed_twice(&self) -> usize {
        self.lists.lock().rids.freed_twice()
    }

    /// The free pages.
    pub(crate) fn free_pages(&self) -> Vec<u64> {
        self.lists.lock().pages.iter().map(|free| free.page).collect()
    }

    /// Whether at least a page's worth and a quarter of all RIDs are free: inserts then use them up
    /// before the directory grows.
    pub(crate) fn has_many_rids(&self, segments: &Segments) -> bool {
        let free = self.lists.lock().rids.len() as u64;
        free >= segments.chain().context().geometry.page_words && free * 4 >= segments.chain().directory().row_places()
    }

    /// Reserves a row that a prepared transaction inserted: the sweep must not take it for free.
    pub(crate) fn reserve_row(&self, row: u64) {
        self.lists.lock().reserved_rows.insert(row);
    }

    /// Reserves a page that a prepared transaction filled: the sweep must not take it for free.
    pub(crate) fn reserve_page(&self, page: u64) {
        self.lists.lock().reserved_pages.insert(page);
    }

    /// Adds a page that a transaction took and did not publish to the free ones.
    pub(crate) fn put_page(&self, page: u64) {
        self.lists
            .lock()
            .pages
            .push_back(FreePage { page, dirty: !perdura_pmem::planted(Mutant::ReturnedPageCountsAsClean) });
    }

    /// Takes an unpublished directory page, whose words are durably empty, or will be before the
    /// next commit if that is enough (`later`); all of it counts as in use. Sweeps, then grows the
    /// directory, if none is free.
    pub(crate) fn take_page(&self, segments: &Segments, shadows: &Shadows, later: bool) -> Result<u64> {
        loop {
            let page = self.lists.lock().pages.pop_back();
            match page {
                Some(page) => {
                    segments.chain().directory().use_whole(page.page);
                    // Planted: the page keeps words that a rollback or a crash left in it.
                    if page.dirty && !perdura_pmem::planted(Mutant::PagePublishedWithLeftWords) {
                        let directory = segments.chain().directory();
                        directory.reclaim_page(page.page);
                        directory.empty_page(page.page);
                        segments.chain().fence_by(later);
                    }
                    return Ok(page.page);
                }
                None if self.sweep(1, segments, shadows)? > 0 => {}
                None => self.add_segment(segments)?,
            }
        }
    }

    /// Gives back the pages all of whose RIDs are free. Redo must not publish them again, and no
    /// snapshot may be older than their publication: their states are at or below `limit`. Nobody
    /// takes a page before its state is fenced: a crash must not find it published with the words
    /// of its next user (I3, I4).
    pub(crate) fn give_back(&self, limit: Csn, segments: &Segments, shadows: &Shadows) {
        let directory = segments.chain().directory();
        let mut lists = self.lists.lock();
        let mut returned = Vec::new();
        for page in lists.rids.take_whole() {
            // Whoever frees the RIDs that were taken since notes the page again.
            if !lists.rids.is_whole(directory, page) {
                continue;
            }
            // Planted: redo may still publish the page again.
            let is_covered =
                directory.state(page).csn() <= limit || perdura_pmem::planted(Mutant::PageReturnedBeforeRedo);
            // A rollback may free all RIDs of a page that a prepared transaction filled singly. Its
            // sweep comes first.
            let is_swept = !lists.is_unswept(page);
            if is_covered && is_swept && shadows.slot(page).while_empty(|| directory.unpublish(page)) {
                // Planted: the RIDs of the page stay in the list.
                if !perdura_pmem::planted(Mutant::ReturnedPageKeepsRids) {
                    lists.rids.remove_page(page);
                }
                returned.push(page);
            } else {
                lists.rids.leave_whole(page);
            }
        }
        if !returned.is_empty() {
            segments.chain().fence();
            lists.pages.extend(returned.into_iter().map(|page| FreePage { page, dirty: false }));
        }
    }

    /// Locks the free places, and finds the directory's last pages, which lie in `file`. `None`
    /// unless they are free, all of them. There may be none.
    pub(crate) fn tail(&self, directory: &Directory, file: &DataFile) -> Option<Tail<'_>> {
        let lists = self.lists.lock();
        let tail = Tail { first: directory.tail_in(file.sequence()), end: directory.page_count(), lists };
        let free = tail.lists.pages.iter().filter(|free| free.page >= tail.first).count() as u64;
        (free == tail.end - tail.first).then_some(tail)
    }

    /// Adds a segment of empty, unpublished pages to the directory. They are fenced before the
    /// descriptor names them (I3).
    fn add_segment(&self, segments: &Segments) -> Result<()> {
        let _span = perdura_pmem::trace::span("directory_growth");
        let id = segments.take_free(SEGMENT_BYTES_MIN, 1)?;
        let (directory, file) = (segments.chain().directory(), segments.chain().file_of(id));
        let mut lists = loop {
            let incarnation = segments.chain().incarnation();
            // A start reads the words as states of leaves until the kind is another; 0 is free.
            if incarnation != 0 && file.segment(id.index).held_leaves.load(Ordering::Relaxed) {
                file.set_kind(id.index, SegmentKind::Free);
                file.region().fence();
            }
            // Planted: a new directory segment keeps what was there.
            if !perdura_pmem::planted(Mutant::DirectorySegmentKeepsContent) {
                directory.empty_segment(file, id.index, incarnation);
            }
            file.region().fence();
            let lists = self.lists.lock();
            // Pages may have been given back with their file meanwhile.
            if segments.chain().incarnation() == incarnation {
                break lists;
            }
        };
        let first = directory.page_count();
        file.set_kind(id.index, SegmentKind::Directory(first as u32));
        file.region().fence();
        directory.push_segment(file, id.index);
        let pages = (first..directory.page_count()).rev();
        lists.pages.extend(pages.map(|page| FreePage { page, dirty: false }));
        Ok(())
    }

    /// Sweeps up to `count` directory pages for free pages and RIDs, and for rows that an earlier
    /// run deleted. A row that a commit of this run deleted is left to the purge of that commit.
    /// Returns the number of pages swept.
    pub(crate) fn sweep(&self, count: usize, segments: &Segments, shadows: &Shadows) -> Result<usize> {
        let directory = segments.chain().directory();
        for done in 0..count {
            let mut lists = self.lists.lock();
            let Some(page) = lists.unswept.next() else { return Ok(done) };
            if lists.reserved_pages.contains(&page) {
                continue;
            }
            // Whoever takes it reclaims it.
            let is_published = directory.state(page).is_published();
            let health = &segments.chain().context().health;
            health.check()?;
            if !is_published {
                lists.pages.push_front(FreePage { page, dirty: true });
                continue;
            }
            directory.reclaim_page(page);
            // Locked even without a shadow, so that no row is deleted while the words are read.
            let shadow = shadows.slot(page).lock();
            let (mut free, mut last) = (Vec::new(), last_written(&shadow));
            let deletes = |row| shadow.deletes(directory.position_of(row));
            for row in directory.page_rows(page) {
                let word = directory.sound_word(row)?;
                let rid = Rid::new(row, word.incarnation());
                let is_reserved = || lists.reserved_rows.contains(&row);
                // Planted: deletions of this run are purged as if they were from before it.
                if word.is_tombstone() && (!deletes(row) || perdura_pmem::planted(Mutant::SweepPurgesNewDeletions)) {
                    lists.deleted.push((rid, word));
                // Planted: the RID of a prepared transaction's insert is given to others.
                } else if word.is_empty() && (!is_reserved() || perdura_pmem::planted(Mutant::PreparedRidsReused)) {
                    free.push(rid);
                    continue;
                }
                last = last.max(directory.position_of(row));
            }
            health.check()?;
            directory.use_up_to(page, last);
            lists.rids.put(directory, free);
            if !lists.deleted.is_empty() {
                self.found_deleted.store(true, Ordering::Release);
            }
        }
        Ok(count)
    }

    /// Takes the deleted rows that sweeps have found; `None` if there are none.
    #[inline]
    pub(crate) fn take_deleted(&self) -> Option<Vec<(Rid, Word)>> {
        if !self.found_deleted.load(Ordering::Acquire) {
            return None;
        }
        let mut lists = self.lists.lock();
        self.found_deleted.store(false, Ordering::Release);
        Some(std::mem::take(&mut lists.deleted))
    }

    /// Empties the directory words of deleted rows, fences, and frees their RIDs under the next
    /// incarnation. It holds the lists' lock, so that a RID in an unswept segment is left to the
    /// sweep and no RID is freed twice (I8).
    pub(crate) fn clear_deleted(&self, segments: &Segments, deleted: &[(Rid, Word)]) {
        if deleted.is_empty() {
            return;
        }
        let directory = segments.chain().directory();
        let mut lists = self.lists.lock();
        let mut cleared = Vec::new();
        for (rid, _) in deleted {
            // Planted: a RID is reused under its old incarnation.
            let incarnation =
                rid.incarnation().wrapping_add(u16::from(!perdura_pmem::planted(Mutant::ReusedRidKeepsIncarnation)));
            let (row, next) = (rid.row(), Word::empty(incarnation));
            directory.store(row, next);
            let page = directory.page_of(row);
            let is_reserved = lists.reserved_rows.contains(&row) || lists.reserved_pages.contains(&page);
            if is_reserved || !lists.is_unswept(page) {
                cleared.push(Rid::new(row, next.incarnation()));
            }
        }
        for page in
            deleted.chunk_by(|(one, _), (next, _)| directory.page_of(one.row()) == directory.page_of(next.row()))
        {
            let positions = page.iter().map(|(rid, _)| directory.position_of(rid.row()));
            directory.flush_rows(directory.page_of(page[0].0.row()), positions);
        }
        segments.chain().fence();
        lists.rids.put(directory, cleared);
    }

    /// Number of pages still to be swept.
    pub(crate) fn unswept_count(&self) -> usize {
        let unswept = self.lists.lock().unswept.clone();
        (unswept.end - unswept.start) as usize
    }
}

/// Position of the last row of a page that its shadow has words of; 0 without any.
fn last_written(shadow: &PageShadow) -> u16 {
    let active = shadow.active().flat_map(Change::positions);
    let undo = shadow.history().flat_map(|undo| undo.before.iter().map(|(row, _)| row).chain(undo.deleted.iter()));
    active.chain(undo).max().unwrap_or_default()
}
