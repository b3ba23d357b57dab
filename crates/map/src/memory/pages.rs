//! The page allocator: bump allocation through runs of adjacent pages, and pages that are freed
//! when nothing uses them.
//!
//! DRAM holds for each page the bytes of live objects, and the bytes held: those of live objects
//! and of dead records that a list's chain still runs through. A page that holds nothing and is not
//! being filled is set aside at the end of a persist, and freed when no pin and no snapshot is
//! older.
//!
//! Thread-safety: owned by the writer's lock. The live bits are shared. Keeps (I8).

use crate::error::{Error, ErrorKind, Result};
use crate::memory::batch::Batch;
use crate::memory::bitmap::Bitmap;
use crate::memory::format::{GRAIN_BYTES, Geometry, Ref};
use crate::memory::free_map::RunSearch;
use crate::memory::page_counts::Counts;
use crate::memory::page_table::PageTable;
use crate::memory::page_use::{PageUse, PageUses};
use crate::memory::pin::Pins;
use crate::memory::retired::Retired;
use crate::memory::window::{Window, WindowSearch};
use crate::space::Demand;
use perdura_pmem::{Mutant, Region, planted};
use std::sync::Arc;

/// Pages in a run, if there is one that long.
const RUN_PAGES: usize = 16;

/// Pages of a backlog that one step under the writer's lock frees, besides as many as the last
/// persist has set aside, up to a bound: a load may set aside nearly all.
const FREED_MAX: usize = 256;
const FREED_AT_ONCE_MAX: usize = 16 << 10;

/// Pages, and objects that have ended in them, that become known in one step under the writer's
/// lock.
const KNOWN_MAX: usize = 1024;

/// Pages that the audit sums in one step under the writer's lock.
const SUMMED_MAX: usize = 4096;

/// Nodes that room is reserved for.
const RESERVED_NODES: u64 = 128;

/// The share of the pages that is reserved, within bounds; of many pages, a share without an upper
/// bound, since a compaction goes over all of them in parts of what is reserved.
const PAGES_PER_RESERVED: usize = 16;
const RESERVED_PAGES: (usize, usize) = (16, 1024);
const MANY_PAGES_PER_RESERVED: usize = 64;

/// Content of a run. Objects of similar lifetime lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filling {
    /// Records of changes.
    Records = 0,
    /// Nodes of the tree.
    Nodes = 1,
    /// Live records that the collector has moved: they have proved long-lived.
    Moved = 2,
}

/// Depth to which a request may go into the reserve of free pages, so that a full region can still
/// be emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// A change that adds. It leaves the whole reserve.
    Ordinary,
    /// A deletion. It leaves half of the reserve.
    Deletion,
    /// Collecting and sweeping. It may use the whole reserve, but not what is kept for rolling
    /// back.
    Upkeep,
    /// Rolling back. It may use everything.
    Rollback,
}

#[derive(Clone, Copy, Default)]
struct Run {
    at: u64,
    end: u64,
    first_page: usize,
}

/// The timestamps of the records in a page of a list: the lowest with all bits turned, and the
/// highest. Zeros stand for none.
type Span = [u64; 2];

pub(crate) struct Pages {
    pub(crate) region: Region,
    pub(crate) geometry: Geometry,
    pub(crate) live: Arc<Bitmap>,
    pub(crate) batch: Batch,
    table: PageTable,
    uses: PageUses,
    /// Of a list; otherwise empty.
    spans: Box<[Span]>,
    runs: [Run; 3],
    emptied: Vec<u32>,
    /// Set aside, in the epochs that the persists closed.
    leaving: Retired<u32>,
    /// Objects in unknown pages that have ended.
    ended: Vec<Ref>,
    live_bytes: u64,
    reserve: usize,
    /// Pages kept for rolling back what is not applied, besides the reserve.
    kept: usize,
    /// Room that requests have not found since the last collection round took it over.
    demand: Demand,
}

impl Pages {
    /// Reads the page table of a map whose newest persist is `persisted`; `next` is the number of
    /// the one to come.
    ///
    /// `node_bytes` is the length of the largest node, for which room is reserved; 0 if nodes do
    /// not lie in pages.
    ///
    /// Error: `Damaged`.
    pub(crate) fn open(
        region: Region,
        geometry: Geometry,
        (persisted, next): (u64, u64),
        salt: u64,
        node_bytes: u64,
    ) -> Result<Pages> {
        let pages = geometry.pages as usize;
        let reserved = (RESERVED_NODES * node_bytes).div_ceil(geometry.page_bytes) as usize;
        let mut uses = PageUses::unused(pages, geometry.page_bytes);
        let mut batch = Batch::default();
        let mut table = PageTable::open(&region, geometry, (persisted, next), salt, &mut batch)?;
        table.free.used().for_each(|page| uses[page].unknown = true);
        let share = (pages / PAGES_PER_RESERVED).clamp(RESERVED_PAGES.0, RESERVED_PAGES.1);
        let reserve = share.max(pages / MANY_PAGES_PER_RESERVED).max(reserved).min(pages / 4);
        let mut search = RunSearch::default();
        while table.free.search(&mut search) {}
        table.free.renew_spare(search.longest(), reserve);
        Ok(Pages {
            live: Arc::new(Bitmap::new(&geometry, GRAIN_BYTES)),
            region,
            geometry,
            batch,
            table,
            uses,
            spans: vec![Span::default(); if node_bytes == 0 { pages } else { 0 }].into_boxed_slice(),
            runs: [Run::default(); 3],
            emptied: Vec::new(),
            leaving: Retired::default(),
            ended: Vec::new(),
            live_bytes: 0,
            reserve,
            kept: 0,
            demand: Demand::default(),
        })
    }

    /// Number of the next persist.
    pub(crate) fn number(&self) -> u64 {
        self.table.number
    }

    /// Says that the newest persist has this number.
    pub(crate) fn persisted(&mut self, number: u64) {
        // Planted: the next persist has the same number.
        self.table.number = number + u64::from(!planted(Mutant::TwoPersistsOneNumber));
    }

    /// Keeps pages for `nodes` nodes of `node_bytes` bytes, which only a rollback may take.
    pub(crate) fn keep_for_rollback(&mut self, nodes: u64, node_bytes: u64) {
        let in_page = (self.geometry.page_bytes / node_bytes).max(1);
        self.kept = (nodes.div_ceil(in_page) * node_bytes.div_ceil(self.geometry.page_bytes)) as usize;
    }

    /// Allocates `len` bytes (a multiple of a grain) in one piece and counts the object as live.
    /// Returns its offset, or none if no run of free pages is long enough.
    pub(crate) fn allocate(&mut self, filling: Filling, len: u64, urgency: Urgency) -> Option<u64> {
        let run = self.runs[filling as usize];
        let offset = if run.end - run.at >= len {
            run.at
        } else {
            let found = self.extend(filling, len, urgency).or_else(|| self.begin_run(filling, len, urgency));
            if found.is_none() && urgency == Urgency::Ordinary {
                self.note_demand(Demand { bytes: len, run: len });
            }
            found?
        };
        self.runs[filling as usize].at = offset + len;
        self.born(Ref::new(offset, len));
        Some(offset)
    }

    fn may_take(&self, pages: usize, urgency: Urgency) -> bool {
        let reserve = match urgency {
            Urgency::Ordinary => self.reserve + self.kept,
            Urgency::Deletion => self.reserve / 2 + self.kept,
            Urgency::Upkeep => self.kept,
            Urgency::Rollback => 0,
        };
        self.table.free.len() >= pages + reserve
    }

    /// Whether a request that finds nothing elsewhere may take from the spare run. Records that a
    /// round moves may only in a compaction: a round frees no run in exchange.
    fn may_take_spare(&self, filling: Filling, urgency: Urgency) -> bool {
        urgency != Urgency::Ordinary && (filling != Filling::Moved || self.table.free.is_emptying())
    }

    /// Extends a run by the free pages that follow it, if there are enough.
    fn extend(&mut self, filling: Filling, len: u64, urgency: Urgency) -> Option<u64> {
        let run = self.runs[filling as usize];
        if run.end == 0 || run.end == self.geometry.data_end() {
            return None;
        }
        let needed = (len - (run.end - run.at)).div_ceil(self.geometry.page_bytes) as usize;
        let first = self.geometry.page_of(run.end);
        if !self.may_take(needed, urgency) {
            return None;
        }
        if !self.table.free.take_all(first, needed, filling == Filling::Moved && self.table.free.is_emptying()) {
            return None;
        }
        self.take_pages(first, needed, filling);
        self.runs[filling as usize].end += needed as u64 * self.geometry.page_bytes;
        self.close_filled(filling);
        Some(run.at)
    }

    /// Closes the pages that a run has filled: a run that is extended again and again would keep
    /// them all open.
    fn close_filled(&mut self, filling: Filling) {
        let run = self.runs[filling as usize];
        let first_open = self.geometry.page_of(run.at);
        for page in run.first_page..first_open {
            self.close(page);
        }
        self.runs[filling as usize].first_page = first_open;
    }

    /// No run fills the page any more.
    fn close(&mut self, page: usize) {
        self.uses[page].open = false;
        if self.uses[page].may_leave() {
            self.emptied.push(page as u32);
        } else {
            self.uses.note_sparse(page);
        }
    }

    /// Takes the emptiest of the pages listed as sparse, with its live bytes. It is listed again
    /// when it becomes sparser.
    pub(crate) fn next_sparse(&mut self) -> Option<(usize, u64)> {
        // A page that holds nothing leaves by the next persist. A batch has made few such pages.
        while let Some(page) = self.uses.take_sparsest() {
            if self.is_settled(page) && (self.uses[page].held > 0 || self.uses[page].nodes) {
                return Some((page, self.live_in(page)));
            }
        }
        None
    }

    /// Lists a page again that the collector has not emptied.
    pub(crate) fn list_again(&mut self, page: usize) {
        if self.is_settled(page) {
            self.uses.note_sparse(page);
        }
    }

    fn begin_run(&mut self, filling: Filling, len: u64, urgency: Urgency) -> Option<u64> {
        let needed = len.div_ceil(self.geometry.page_bytes) as usize;
        if !self.may_take(needed, urgency) {
            return None;
        }
        let spare = self.table.free.len() - needed;
        let wanted = needed.max(RUN_PAGES.min(needed + spare / 8));
        let with_spare = self.may_take_spare(filling, urgency);
        let mut found = self.table.free.take_run(needed, wanted, with_spare);
        let is_counted_on = matches!(urgency, Urgency::Deletion | Urgency::Rollback);
        if found.is_none() && is_counted_on && self.table.free.is_emptying() {
            // It may be for the free pages of the window that is being emptied: that is given up.
            self.table.free.end_emptying();
            found = self.table.free.take_run(needed, wanted, with_spare);
        }
        let (first, taken) = found?;
        self.take_pages(first, taken, filling);
        self.end_run(filling);
        let at = self.geometry.page_at(first);
        self.runs[filling as usize] = Run { at, end: at + taken as u64 * self.geometry.page_bytes, first_page: first };
        Some(at)
    }

    fn take_pages(&mut self, first: usize, count: usize, filling: Filling) {
        for page in first..first + count {
            self.uses.reset(page, PageUse::taken(filling == Filling::Nodes));
            if let Some(span) = self.spans.get_mut(page) {
                *span = Span::default();
            }
        }
        self.table.use_pages(&self.region, first..first + count, &mut self.batch);
    }

    /// Ends a run, and frees the pages it has not reached.
    fn end_run(&mut self, filling: Filling) {
        let run = std::mem::take(&mut self.runs[filling as usize]);
        if run.end == 0 {
            return;
        }
        let last = self.geometry.page_of(run.end - 1);
        for page in run.first_page..=last {
            // Planted: a run frees the page that it has filled in part.
            if self.geometry.page_at(page)
                + u64::from(planted(Mutant::PartlyFilledPageReleased)) * (self.geometry.page_bytes - 1)
                >= run.at
            {
                self.free_now(page);
            } else {
                self.close(page);
            }
        }
    }

    /// Ends all runs, before pages are chosen to be emptied.
    pub(crate) fn end_runs(&mut self) {
        for filling in [Filling::Records, Filling::Nodes, Filling::Moved] {
            self.end_run(filling);
        }
    }

    fn free_now(&mut self, page: usize) {
        debug_assert_eq!(
            (self.uses[page].live, self.uses[page].held),
            (0, 0),
            "page {page} is freed while it holds something"
        );
        self.uses.reset(page, PageUse::default());
        self.table.free_page(&self.region, page, &mut self.batch);
    }

    /// Counts an object as live and held. Returns whether it was not counted before.
    pub(crate) fn born(&mut self, object: Ref) -> bool {
        let is_new = self.live.set(object.offset());
        if is_new {
            for (page, bytes) in self.geometry.parts(object) {
                self.uses[page].live += bytes;
                self.uses[page].held += bytes;
            }
            self.live_bytes += object.len();
        }
        is_new
    }

    /// Says that a record of a timestamp lies in its pages.
    #[inline]
    pub(crate) fn note_span(&mut self, record: Ref, ts: u64) {
        let last = self.geometry.page_of(record.offset() + record.len() - 1);
        let pages = self.geometry.page_of(record.offset())..last + 1;
        for [low, high] in self.spans.get_mut(pages).into_iter().flatten() {
            (*low, *high) = ((*low).max(!ts), (*high).max(ts));
        }
    }

    /// The highest and the lowest timestamp of the records in a page of a list.
    pub(crate) fn span(&self, page: usize) -> (u64, u64) {
        let [low, high] = self.spans[page];
        (high, !low)
    }

    /// Counts an object as held only: a dead record that a list's chain still runs through.
    pub(crate) fn hold(&mut self, object: Ref) {
        // Planted: a page may be freed when nothing in it is live, though a chain runs through
        // records in it.
        if planted(Mutant::LinkedPageReleased) {
            return;
        }
        for (page, bytes) in self.geometry.parts(object) {
            self.uses[page].held += bytes;
        }
    }

    /// Counts an object as no longer live. Returns whether it was live. A reference that somebody
    /// has forged may give it another length than it was counted with, which no page's counts sink
    /// below zero for.
    pub(crate) fn died(&mut self, object: Ref) -> bool {
        let was_live = self.live.clear(object.offset());
        if was_live {
            for (page, bytes) in self.geometry.parts(object) {
                self.uses[page].live = self.uses[page].live.saturating_sub(bytes);
                self.uses.note_sparse(page);
            }
            self.live_bytes = self.live_bytes.saturating_sub(object.len());
        }
        was_live
    }

    /// Counts an object that is not live as no longer held. Its pages may now be empty.
    pub(crate) fn released(&mut self, object: Ref) {
        for (page, bytes) in self.geometry.parts(object) {
            let page_use = &mut self.uses[page];
            page_use.held = page_use.held.saturating_sub(bytes).max(page_use.live);
            if page_use.may_leave() {
                self.emptied.push(page as u32);
            }
        }
    }

    /// Ends an object: it is neither live nor held. Returns whether its place may be reused now,
    /// which it may not in an unknown page.
    pub(crate) fn end(&mut self, object: Ref) -> bool {
        if self.is_unknown(object.offset()) {
            self.ended.push(object);
            return false;
        }
        if self.died(object) {
            self.released(object);
        }
        true
    }

    /// Whether the page was in use when the map was opened and its content is not yet known.
    pub(crate) fn is_unknown(&self, offset: u64) -> bool {
        self.uses[self.geometry.page_of(offset)].unknown
    }

    /// Says that every object in an unknown page has been counted ([`Pages::born`]).
    pub(crate) fn all_known(&mut self) {
        let mut at = 0;
        while self.know_some(&mut at) {}
    }

    /// One step of [`Pages::all_known`], from page `at` on. Returns whether there is more. Until
    /// then no page may be freed.
    pub(crate) fn know_some(&mut self, at: &mut usize) -> bool {
        let mut pages = 0;
        for page in self.table.free.used_from(*at).take(KNOWN_MAX) {
            (pages, *at) = (pages + 1, page + 1);
            if !std::mem::take(&mut self.uses[page].unknown) {
                continue;
            }
            if self.uses[page].may_leave() {
                self.emptied.push(page as u32);
            } else {
                self.uses.note_sparse(page);
            }
        }
        if pages == KNOWN_MAX {
            return true;
        }
        for _ in 0..KNOWN_MAX {
            let Some(object) = self.ended.pop() else { return false };
            if self.died(object) {
                self.released(object);
            }
        }
        true
    }

    /// Puts other counts in the place of all. At the next [`Pages::set_aside`] every used page that
    /// no run is filling and in which nothing is counted is set aside. Linear in the number of used
    /// pages.
    pub(crate) fn count_anew(&mut self, counts: &Counts) {
        for page in self.table.free.used() {
            counts.take_over(page, &self.live);
            let page_use = &mut self.uses[page];
            let live = counts.live_in(page);
            (page_use.live, page_use.held, page_use.unknown) = (live, live, false);
            page_use.retired = page_use.nodes;
            // Planted: loading a snapshot keeps the pages of the old content.
            if !page_use.open && !page_use.leaving && !planted(Mutant::LoadKeepsOldPages) {
                self.emptied.push(page as u32);
            }
        }
        self.ended.clear();
        self.live_bytes = counts.bytes();
    }

    /// After a persist: sets aside the empty pages, and closes their epoch.
    pub(crate) fn set_aside(&mut self, pins: &Pins) {
        for page in self.emptied.drain(..) {
            let page_use = &mut self.uses[page as usize];
            let is_used = !self.table.free.is_free(page as usize);
            if is_used && page_use.may_leave() && !page_use.leaving {
                page_use.leaving = true;
                self.uses.unlist(page as usize);
                self.leaving.add(page);
            } else if is_used {
                // A load counts into it what its new content has there.
                self.uses.note_sparse(page as usize);
            }
        }
        self.leaving.close(pins);
    }

    /// Whether pages wait for an epoch to end.
    pub(crate) fn has_leaving(&self) -> bool {
        self.leaving.has_closed()
    }

    /// Frees pages set aside in epochs before `oldest`: at most [`FREED_MAX`] more than the last
    /// persist set aside, or than [`FREED_AT_ONCE_MAX`], so that a backlog shrinks and nobody
    /// waits long for it. Returns how many, and whether there are more.
    pub(crate) fn free_leaving(&mut self, oldest: u64) -> (usize, bool) {
        let _span = perdura_pmem::trace::span("map_free");
        // Planted: pages are freed although a reader is pinned.
        let oldest = if planted(Mutant::PagesFreedUnderReader) { u64::MAX } else { oldest };
        let most = self.leaving.last_closed().min(FREED_AT_ONCE_MAX) + FREED_MAX;
        let mut freed = 0;
        while freed < most
            && let Some(page) = self.leaving.take_before(oldest)
        {
            self.free_now(page as usize);
            freed += 1;
        }
        (freed, self.leaving.has_before(oldest))
    }

    /// Whether a page is used, known, not being filled and not set aside.
    pub(crate) fn is_settled(&self, page: usize) -> bool {
        !self.table.free.is_free(page) && self.uses[page].is_settled()
    }

    /// Closes a page to new nodes, so that it can become empty.
    pub(crate) fn retire_nodes(&mut self, page: usize) {
        self.uses[page].retired = true;
        if self.uses[page].may_leave() {
            self.emptied.push(page as u32);
        }
    }

    /// Whether a page that the place lies in, wholly or in part, takes no more nodes.
    pub(crate) fn is_retired(&self, place: Ref) -> bool {
        self.geometry.parts(place).any(|(page, _)| self.uses[page].retired)
    }

    /// Whether a node may be put in the place of an ended one: no page of it is closed to nodes or
    /// set aside.
    pub(crate) fn takes_nodes(&self, place: Ref) -> bool {
        self.geometry.parts(place).all(|(page, _)| {
            let page_use = &self.uses[page];
            // Planted: nodes are put into pages that are set aside.
            page_use.nodes && (!page_use.retired && !page_use.leaving || planted(Mutant::NodeInDyingPage))
        })
    }

    /// Whether the object lies, wholly or in part, in a free page, which is damage.
    pub(crate) fn is_in_free_page(&self, object: Ref) -> bool {
        self.geometry.parts(object).any(|(page, _)| self.table.free.is_free(page))
    }

    pub(crate) fn holds_nodes(&self, page: usize) -> bool {
        self.uses[page].nodes
    }

    /// Bytes of live objects in a page.
    pub(crate) fn live_in(&self, page: usize) -> u64 {
        u64::from(self.uses[page].live)
    }

    /// Adds the live bytes and the bytes held of some pages, from page `at` on. Returns whether
    /// there are more. For the audit.
    pub(crate) fn sum_some(&self, at: &mut usize, live: &mut u64, held: &mut u64) -> bool {
        let mut pages = 0;
        for page in self.table.free.used_from(*at).take(SUMMED_MAX) {
            (pages, *at) = (pages + 1, page + 1);
            *live += u64::from(self.uses[page].live);
            *held += u64::from(self.uses[page].held);
        }
        pages == SUMMED_MAX
    }

    /// Records that the pages of an object hold nodes.
    pub(crate) fn note_nodes(&mut self, object: Ref) {
        for (page, _) in self.geometry.parts(object) {
            self.uses[page].nodes = true;
        }
    }

    pub(crate) fn is_free(&self, page: usize) -> bool {
        self.table.free.is_free(page)
    }

    pub(crate) fn free_pages(&self) -> usize {
        self.table.free.len()
    }

    /// The error for a region without room for an object of `len` bytes.
    #[cold]
    pub(crate) fn full(&self, len: u64) -> Error {
        let free = self.free_pages() as u64 * self.geometry.page_bytes;
        let file = self.region.name();
        let message = format!(
            "{file}: no room for {len} bytes in one piece: {free} bytes free, in runs of any length, a part of them \
             kept for deletions; delete keys, forget old versions and collect, or copy the map to a larger region by a \
             snapshot"
        );
        Error::new(ErrorKind::Full, message).in_file(file)
    }

    /// Notes room that a request has not found.
    pub(crate) fn note_demand(&mut self, demand: Demand) {
        self.demand = self.demand.or(demand);
    }

    /// Takes over the room that requests have not found.
    pub(crate) fn take_demand(&mut self) -> Demand {
        std::mem::take(&mut self.demand)
    }

    /// Whether an ordinary request of that room would find it.
    pub(crate) fn meets(&self, demand: &Demand) -> bool {
        let reserved = (self.reserve + self.kept) as u64 * self.geometry.page_bytes;
        let free = self.free_pages() as u64 * self.geometry.page_bytes;
        free >= reserved + demand.bytes && self.has_run(demand.run)
    }

    /// Pages of the spare run, into which a compaction moves.
    pub(crate) fn spare_pages(&self) -> usize {
        self.table.free.spare().len()
    }

    /// Goes on with a search for the longest window by one step. Returns whether there is another.
    pub(crate) fn search_window(&self, search: &mut WindowSearch) -> bool {
        let spare = self.table.free.spare();
        search.go_on(self.geometry.pages as usize, |page| {
            let may_move = !spare.contains(&page) && (self.table.free.is_free(page) || self.uses[page].is_settled());
            may_move.then(|| self.live_in(page))
        })
    }

    /// Keeps everybody out of a window's pages. Returns those that hold something.
    pub(crate) fn begin_emptying(&mut self, window: &Window) -> Vec<usize> {
        // A run may have been begun in it since it was found.
        self.end_runs();
        self.table.free.begin_emptying(window.clone());
        let holding = window.clone().filter(|page| self.is_settled(*page)).collect::<Vec<usize>>();
        for page in &holding {
            if self.holds_nodes(*page) {
                self.retire_nodes(*page);
            }
        }
        holding
    }

    /// Lets everybody into a window's pages again. Returns whether they have become free.
    pub(crate) fn end_emptying(&mut self) -> bool {
        self.end_runs();
        self.table.free.end_emptying()
    }

    /// Goes on with a search for another spare run, if some of it was taken. Returns whether there
    /// is more to search.
    pub(crate) fn search_spare(&self, search: &mut RunSearch) -> bool {
        self.spare_pages() < self.reserve && self.table.free.search(search)
    }

    /// Makes the run that a search has found the spare run, if it is the longer one.
    pub(crate) fn renew_spare(&mut self, search: &RunSearch) {
        // One that is whole is not looked at.
        if self.spare_pages() < self.reserve {
            self.table.free.renew_spare(search.longest(), self.reserve);
        }
    }

    pub(crate) fn has_run(&self, bytes: u64) -> bool {
        self.table.free.has_run(bytes.div_ceil(self.geometry.page_bytes) as usize)
    }

    pub(crate) fn search_free_runs(&self, search: &mut RunSearch) -> bool {
        self.table.free.search(search)
    }

    /// Offset that the runs have reached, or from which the next one is searched: the higher one.
    /// None before the first run.
    pub(crate) fn writing_at(&self) -> Option<u64> {
        let end = self.runs.iter().map(|run| run.end).max().filter(|end| *end > 0)?;
        Some(end.max(self.geometry.page_at(self.table.free.cursor())))
    }

    /// Free pages that [`Urgency::Ordinary`] may not take.
    pub(crate) fn reserved_pages(&self) -> usize {
        (self.reserve + self.kept).min(self.table.free.len())
    }

    /// Bytes of used pages without those of live objects.
    pub(crate) fn garbage(&self) -> u64 {
        let used = self.geometry.pages - self.table.free.len() as u64;
        (used * self.geometry.page_bytes).saturating_sub(self.live_bytes)
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Stores bytes of an allocated object, and adds them to the batch.
    #[track_caller]
    #[inline]
    pub(crate) fn fill(&mut self, offset: u64, bytes: &[u8]) {
        self.region.write(offset, bytes);
        self.batch.add(offset, bytes.len() as u64);
    }
}
