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
    let mut compaction = Compaction { round, from: 0, copied: 0, gained: (0, 0) };
    while compaction.goes_on(&demand)? {}
    Ok(())
}

/// A compaction under way.
struct Compaction<'r, 'c, I: Structure> {
    round: &'r mut Round<'c, I>,
    /// Page at which the search for the next window begins.
    from: usize,
    /// Pages of spare runs that windows have been moved to.
    copied: usize,
    /// Length of the last window that became free, and the free pages before it.
    gained: (usize, usize),
}

impl<I: Structure> Compaction<'_, '_, I> {
    /// Empties one window. Returns whether another one is to follow.
    fn goes_on(&mut self, demand: &Demand) -> Result<bool> {
        let (spare, free, total) = {
            let state = self.round.state.lock_behind();
            if state.pages.meets(demand) || self.round.gives_way(&state) {
                return Ok(false);
            }
            (state.pages.spare_pages(), state.pages.free_pages(), state.pages.geometry.pages as usize)
        };
        let window = self.longest_window(spare);
        self.copied += spare;
        if window.len() <= spare + spare / GAIN || self.copied > total {
            return Ok(false);
        }
        if !self.empty_window(&window)? {
            // Something in it is too long for the spare run, or may yet be taken back.
            self.from = window.end;
            // Behind readers the next window would not become free either, and would use up the
            // reserve.
            return Ok(!self.waits_for_readers());
        }
        // Each window is longer than the one before, or leaves more free.
        let gains = window.len() > self.gained.0 || free > self.gained.1;
        (self.from, self.gained) = (0, (window.len(), free));
        Ok(gains)
    }

    fn longest_window(&self, spare: usize) -> Window {
        let bytes = spare as u64 * self.round.shared.records.geometry.page_bytes;
        let mut search = WindowSearch::new(self.from, bytes - bytes / SPARE_LEFT);
        while self.round.state.lock_behind().pages.search_window(&mut search) {}
        search.longest()
    }

    /// Whether pages that were set aside stay so, for a reader or a snapshot may see them. Readers
    /// of a value are given the time that one takes.
    fn waits_for_readers(&self) -> bool {
        for _ in 0..READER_LOOKS {
            let mut state = self.round.state.lock_behind();
            if !state.pages.has_leaving() {
                return false;
            }
            state.make_room(self.round.shared);
            drop(state);
            std::thread::yield_now();
        }
        true
    }

    /// Moves out what is in a window. Returns whether it is free then.
    fn empty_window(&mut self, window: &Window) -> Result<bool> {
        let Round { state, shared, .. } = *self.round;
        let holding = {
            let mut state = state.lock_behind();
            let State { writer, pages, .. } = &mut *state;
            let holding = pages.begin_emptying(window);
            I::leave_retired(writer, pages, &shared.pins);
            holding
        };
        let victims: FxHashSet<usize> = holding.iter().copied().collect();
        let emptied = I::empty_pages(self.round, &victims);
        state.lock_behind().persist(shared);
        while state.lock_behind().make_room(shared) {}
        let is_free = state.lock_behind().pages.end_emptying();
        self.round.renew_spare();
        self.round.list_again(&holding);
        match emptied {
            Err(error) if error.kind() != ErrorKind::Full => Err(error),
            _ => Ok(is_free),
        }
    }
}
