//! A map as its handles, its readers and its background thread share it: the composition of its
//! parts, and forgetting, which all of them go on with.

use crate::error::Result;
use crate::index::Index;
use crate::memory::free_map::RunSearch;
use crate::ordered_map::Mutation;
use crate::space::Space;
use crate::state::State;
use crate::state::closing::Closing;
use crate::state::collector::Collector;
use crate::state::pending::Change;
use crate::state::shared::Shared;
use crate::timestamps::Ts;
use perdura_pmem::planted;
use perdura_pmem::sync::PriorityMutex;
use rustc_hash::FxHashSet;

/// A map.
pub(crate) struct Core<I: Index> {
    pub(crate) shared: Shared<I>,
    pub(crate) state: PriorityMutex<State<I>>,
    pub(crate) collector: Collector,
    pub(crate) closing: Closing,
}

impl<I: Index> Core<I> {
    pub(crate) fn new(shared: Shared<I>, mut state: State<I>) -> Core<I> {
        state.keep_for_rollback(&shared, 0);
        let (state, collector) = (PriorityMutex::new(state), Collector::default());
        Core { shared, state, collector, closing: Closing::default() }
    }

    pub(crate) fn persist(&self) {
        self.state.lock().persist(&self.shared);
    }

    pub(crate) fn forget(&self, up_to: Ts) -> Result<()> {
        let shared = &self.shared;
        loop {
            let mut state = self.state.lock();
            state.check_revisable(shared)?;
            if !state.history.ask_to_forget(&shared.records, up_to)? {
                return Ok(());
            }
            state.history.read(&shared.records)?;
            if !state.forget_some(shared) {
                return Ok(());
            }
            if state.ended.are_many() {
                state.persist(shared);
            }
        }
    }

    /// Goes on with forgetting that a view had held.
    pub(crate) fn forget_rest(&self) -> Result<()> {
        let up_to = {
            let state = self.state.lock();
            if !state.history.is_behind() || state.holds.is_loading() {
                return Ok(());
            }
            state.history.forget_to()
        };
        self.forget(up_to)
    }

    /// Goes on with what a view that has left was in the way of, unless the background thread does.
    pub(crate) fn go_on_forgetting(&self) {
        if !self.shared.views.is_free_to_forget() {
            return;
        }
        if self.shared.config.background {
            self.shared.wake.stir();
        } else {
            // The next call that forgets tells why not.
            _ = self.forget_rest();
        }
    }

    pub(crate) fn mutations(&self, from: Ts, each: &mut dyn FnMut(Mutation<'_>) -> bool) -> Result<()> {
        let records = &self.shared.records;
        // The pin keeps the records in place while the caller reads them without the lock.
        let _pin = self.shared.pins.pin();
        let changes: Vec<Change> = {
            let mut state = self.state.lock();
            state.history.read(records)?;
            state.history.since(from).copied().collect()
        };
        // Planted: changes count that others at the same timestamp have replaced.
        let replaced: FxHashSet<_> =
            changes.iter().filter(|change| change.replaces && !planted(133)).map(|change| change.before).collect();
        for change in changes.iter().filter(|change| !replaced.contains(&change.record)) {
            let record = records.get(change.record)?;
            let mutation = if change.tag {
                Mutation { ts: change.ts, key: &[], value: None, tag: Some(record.value) }
            } else {
                let value = (!change.record.is_deletion()).then_some(record.value);
                Mutation { ts: change.ts, key: record.key, value, tag: None }
            };
            if !each(mutation) {
                break;
            }
        }
        Ok(())
    }

    /// Asks for a round, without waiting. Returns whether there is a thread that runs it.
    pub(crate) fn ask_collection(&self) -> bool {
        let has_thread = self.shared.config.background;
        if has_thread {
            self.collector.set_asked(true);
            self.shared.wake.notify();
        }
        has_thread
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.collector.is_asked()
    }

    pub(crate) fn space(&self) -> Space {
        let mut search = RunSearch::default();
        loop {
            // The other figures are those of the last window.
            let state = self.state.lock_behind();
            if !state.pages.search_free_runs(&mut search) {
                let run = search.longest as u64 * state.pages.geometry.page_bytes;
                return Space { free_run_max: run, ..state.space() };
            }
        }
    }

    pub(crate) fn usage(&self) -> Space {
        self.state.lock().space()
    }

    pub(crate) fn has_run(&self, bytes: u64) -> bool {
        self.state.lock().pages.has_run(bytes)
    }
}
