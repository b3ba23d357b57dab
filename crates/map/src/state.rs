//! State of a map in DRAM: [`core::Core`] is its composition, of parts with private fields.
//!
//! - [`shared`]: what readers use without a lock: records, index, [`views`], [`wake`]
//! - [`State`], under the writer's lock: [`history`] with [`pending`], [`ended`], [`holds`],
//!   [`known`]. Its methods: [`change`], [`retention`], [`persist`]
//! - [`collector`] with [`milestones`], [`closing`]
//!
//! Thread-safety: a [`State`] is owned by the writer's lock.

mod change;
pub(crate) mod closing;
pub(crate) mod collector;
pub(crate) mod core;
pub(crate) mod ended;
pub(crate) mod history;
pub(crate) mod holds;
pub(crate) mod known;
pub(crate) mod milestones;
pub(crate) mod pending;
pub(crate) mod persist;
mod retention;
pub(crate) mod shared;
pub(crate) mod views;
pub(crate) mod wake;

use crate::error::{ErrorKind, Result};
use crate::index::{Editing, Index};
use crate::memory::aside::Aside;
use crate::memory::format::NUMBER_MAX;
use crate::memory::pages::{Pages, Urgency};
use crate::space::Space;
use crate::state::ended::Ended;
use crate::state::history::History;
use crate::state::holds::Holds;
use crate::state::known::Known;
use crate::state::shared::Shared;

/// Numbers of persists left from which on changes are refused. Half of them are for taking back,
/// applying and forgetting what was changed, the rest for persisting and for a snapshot.
const NUMBERS_KEPT: u64 = 1 << 20;

/// State under the writer's lock.
pub(crate) struct State<I: Index> {
    pub(crate) pages: Pages,
    pub(crate) writer: I::Writer,
    pub(crate) history: History,
    pub(crate) ended: Ended,
    pub(crate) holds: Holds,
    pub(crate) known: Known,
    /// Blob of the caller.
    meta: Vec<u8>,
    /// The newest aside record.
    aside: Aside,
    /// Changes since the last persist.
    changes: u32,
    /// Whether a persist would save anything.
    is_dirty: bool,
}

impl<I: Index> State<I> {
    /// The state of a map that was just opened.
    pub(crate) fn open(
        (pages, writer): (Pages, I::Writer),
        history: History,
        ended: Ended,
        known: Known,
        aside: Aside,
    ) -> State<I> {
        let (holds, meta) = (Holds::default(), aside.meta.clone());
        State { pages, writer, history, ended, holds, known, meta, aside, changes: 0, is_dirty: false }
    }

    /// Bytes of used pages that are not live. Until a B+-tree's pages are known, it relies on what
    /// the last persist before the start had counted.
    pub(crate) fn garbage(&self) -> u64 {
        self.known.garbage(&self.pages)
    }

    /// The use of the region, without the longest free run, whose search is linear.
    pub(crate) fn space(&self) -> Space {
        let Pages { geometry, .. } = &self.pages;
        let total = geometry.pages * geometry.page_bytes;
        let free = self.pages.free_pages() as u64 * geometry.page_bytes;
        let reserved = self.pages.reserved_pages() as u64 * geometry.page_bytes;
        let used = total - free;
        let live = self.known.live(&self.pages).min(used);
        let (exact, held) = (self.known.is_exact(), self.holds.keep_collector_away());
        Space { total, used, free, live, garbage: used - live, free_run_max: 0, reserved, exact, held }
    }

    /// Lends the parts that a change of the index needs.
    #[inline]
    pub(crate) fn editing(&mut self, urgency: Urgency) -> Editing<'_, I> {
        let State { pages, writer, history, ended, .. } = self;
        Editing { writer, pages, urgency, forgotten: history.times.forgotten, dead: &mut ended.dead }
    }

    /// Takes back what is not published. Returns whether that is all since the last publication.
    pub(crate) fn abort(&mut self, shared: &Shared<I>) -> bool {
        shared.index.abort(&mut self.writer, &mut self.pages)
    }

    /// Whether a persist would save anything.
    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// Notes that a persist would save something.
    #[inline]
    pub(crate) fn set_dirty(&mut self) {
        self.is_dirty = true;
    }

    /// Whether nothing has changed since a persist.
    pub(crate) fn is_unchanged(&self, number: u64) -> bool {
        self.pages.number() == number && !self.is_dirty
    }

    /// Blob of the caller, beside all keys.
    pub(crate) fn meta(&self) -> &[u8] {
        &self.meta
    }

    pub(crate) fn set_meta(&mut self, meta: &[u8]) {
        self.meta = meta.to_vec();
        self.is_dirty = true;
    }

    /// Checks that keys may be changed. Error: `ReadOnly`, `Partial`.
    pub(crate) fn check_writable(&self, shared: &Shared<I>) -> Result<()> {
        self.check_content(shared)?;
        self.check_numbers(shared, NUMBERS_KEPT)
    }

    /// Checks that changes may be applied, taken back and forgotten. Error: `ReadOnly`, `Partial`.
    pub(crate) fn check_revisable(&self, shared: &Shared<I>) -> Result<()> {
        self.check_content(shared)?;
        self.check_last_numbers(shared)
    }

    /// Checks that there is a content, and that no load is about to replace it. Error: `ReadOnly`,
    /// `Partial`.
    pub(crate) fn check_content(&self, shared: &Shared<I>) -> Result<()> {
        if self.holds.is_loading() {
            let what = "a snapshot is being loaded; wait until it is finished";
            return Err(shared.records.error(ErrorKind::ReadOnly, what.into()));
        }
        if shared.is_partial() { Err(shared.partial()) } else { Ok(()) }
    }

    /// Checks that not even the last numbers are used up, which a snapshot needs. Error:
    /// `ReadOnly`.
    pub(crate) fn check_last_numbers(&self, shared: &Shared<I>) -> Result<()> {
        self.check_numbers(shared, NUMBERS_KEPT / 2)
    }

    fn check_numbers(&self, shared: &Shared<I>, kept: u64) -> Result<()> {
        if self.pages.number() < NUMBER_MAX - kept {
            return Ok(());
        }
        let what = "the numbers of persists are used up; copy the map to a new file by a snapshot";
        Err(shared.records.error(ErrorKind::ReadOnly, what.into()))
    }
}
