//! Compaction: makes room in one piece, when what is free and what a collection round can free are
//! too scattered for an object that has found no room.
//!
//! It moves the live objects of a *window*, the longest range of pages whose live bytes fit in the
//! spare run, out of it: first into free runs that are long enough, then into the spare run. After
//! the persist the window is free as a whole; the next spare run is a part of it, and what is over
//! is room. The more of the region is live, the less that is: where nine tenths are, it ends.

use crate::error::{ErrorKind, Result};
use crate::memory::window::{Window, WindowSearch};
use crate::space::Demand;
use crate::state::State;
use crate::upkeep::round::Round;
use crate::upkeep::structure::Structure;
use rustc_hash::FxHashSet;

/// The share of the spare run that is not counted on: ends of runs, and objects that reach into the
/// window.
const SPARE_LEFT: u64 = 16;
/// The share of the spare run that becomes room at least, so that not every change asks for a
/// round.
const AIM: u64 = 4;
/// Looks for the end of readers that have seen a window.
const READER_LOOKS: u32 = 100;
/// A window is longer than the spare run by this share of it at least.
const GAIN: usize = 16;

/// Compacts until requests of the room that was not found would find it, or nothing is gained any
/// more. It copies no more than the whole region.
pub(super) fn run<I: Structure>(round: &mut Round<'_, I>) -> Result<()> {
    let demand = {
        let mut state = round.state.lock_behind();
        let demand = state.pages.take_demand();
        if demand == Demand::default() {
            return Ok(());
        }
        let page_bytes = state.pages.geometry.page_bytes;
        demand.or(Demand { bytes: state.pages.spare_pages() as u64 / AIM * page_bytes, run: 0 })
    };
    let (mut from, mut copied, mut gained) = (0, 0, (0, 0));
    loop {
        let (spare, free, total) = {
            let state = round.state.lock_behind();
            if state.pages.meets(&demand) || round.gives_way(&state) {
                return Ok(());
            }
            (state.pages.spare_pages(), state.pages.free_pages(), state.pages.geometry.pages as usize)
        };
        let window = round.longest_window(from, spare);
        copied += spare;
        if window.len() <= spare + spare / GAIN || copied > total {
            return Ok(());
        }
        if !round.empty_window(&window)? {
            if round.waits_for_readers() {
                // The next window would not become free either, and would use up the reserve.
                return Ok(());
            }
            // Something in it is too long for the spare run, or may yet be taken back.
            from = window.end;
            continue;
        }
        // Each window is longer than the one before, or leaves more free.
        if window.len() <= gained.0 && free <= gained.1 {
            return Ok(());
        }
        (from, gained) = (0, (window.len(), free));
    }
}

impl<I: Structure> Round<'_, I> {
    fn longest_window(&self, from: usize, spare: usize) -> Window {
        let bytes = spare as u64 * self.shared.records.geometry.page_bytes;
        let mut search = WindowSearch::new(from, bytes - bytes / SPARE_LEFT);
        while self.state.lock_behind().pages.search_window(&mut search) {}
        search.longest()
    }

    /// Whether pages that were set aside stay so, for a reader or a snapshot may see them. Readers
    /// of a value are given the time that one takes.
    fn waits_for_readers(&self) -> bool {
        for _ in 0..READER_LOOKS {
            let mut state = self.state.lock_behind();
            if !state.pages.has_leaving() {
                return false;
            }
            state.make_room(self.shared);
            drop(state);
            std::thread::yield_now();
        }
        true
    }

    /// Moves out what is in a window. Returns whether it is free then.
    fn empty_window(&mut self, window: &Window) -> Result<bool> {
        let holding = {
            let mut state = self.state.lock_behind();
            let State { writer, pages, .. } = &mut *state;
            let holding = pages.begin_emptying(window);
            I::leave_retired(writer, pages, &self.shared.pins);
            holding
        };
        let victims: FxHashSet<usize> = holding.iter().copied().collect();
        let emptied = I::empty_pages(self, &victims);
        self.state.lock_behind().persist(self.shared);
        while self.state.lock_behind().make_room(self.shared) {}
        let is_free = self.state.lock_behind().pages.end_emptying();
        self.renew_spare();
        self.list_again(&holding);
        match emptied {
            Err(error) if error.kind() != ErrorKind::Full => Err(error),
            _ => Ok(is_free),
        }
    }
}
