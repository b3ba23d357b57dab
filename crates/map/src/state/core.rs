//! A map as its handles, its readers and its background thread share it: the composition of its
//! parts, and forgetting, which all of them go on with.

use crate::changes::Mutation;
use crate::error::Result;
use crate::index::Index;
use crate::memory::free_map::RunSearch;
use crate::space::{Demand, Space};
use crate::state::State;
use crate::state::closing::Closing;
use crate::state::collector::Collector;
use crate::state::pending::Change;
use crate::state::shared::Shared;
use crate::timestamps::Ts;
use perdura_pmem::sync::PriorityMutex;
use perdura_pmem::{Mutant, planted};
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
        while self.state.lock().forget(&self.shared, up_to)? {}
        Ok(())
    }

    /// Goes on with forgetting that a view had held.
    pub(crate) fn forget_rest(&self) -> Result<()> {
        let rest = self.state.lock().rest_to_forget();
        rest.map_or(Ok(()), |up_to| self.forget(up_to))
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
            state.history.pending.since(from).copied().collect()
        };
        // Planted: changes count that others at the same timestamp have replaced.
        let replaced: FxHashSet<_> = changes
            .iter()
            .filter(|change| change.replaces && !planted(Mutant::ReplacedRecordsCountAfterStart))
            .map(|change| change.before)
            .collect();
        for change in changes {
            let is_replaced = replaced.contains(&change.record);
            // Planted: a tag is gone with the change that bears it, when another replaces that.
            if is_replaced && (!change.bears_tag || planted(Mutant::BorneTagReplaced)) {
                continue;
            }
            let (record, ts) = (records.get(change.record)?, change.ts);
            if let Some(tag) = record.tag()
                && !each(Mutation { ts, key: &[], value: None, tag: Some(tag) })
            {
                break;
            }
            let value = (!change.record.is_deletion()).then_some(record.value);
            let is_change = !change.tag && !is_replaced;
            if is_change && !each(Mutation { ts, key: record.key, value, tag: None }) {
                break;
            }
        }
        Ok(())
    }

    /// Asks for a round, without waiting. Returns whether there is a thread that runs it.
    pub(crate) fn ask_collection(&self, demand: Demand) -> bool {
        let has_thread = self.shared.config.background;
        self.state.lock().pages.note_demand(demand);
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
                let run = search.longest().len() as u64 * state.pages.geometry.page_bytes;
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

#[cfg(test)]
mod tests {
    use crate::{Config, Layout, ListIndex, Map, OrderedMap, Structure, TreeIndex};
    use perdura_pmem::{Medium, SimMedium};
    use std::sync::Arc;

    /// Found: a view that was refused stood in the way of forgetting for a moment, and nobody went
    /// on with it.
    #[test]
    fn what_a_refused_view_was_in_the_way_of_is_forgotten() {
        fn is_forgotten<I: Structure>() {
            let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
            let config = Config { background: false, ..Config::default() };
            let map = Map::<I>::create(&medium, "map", &Layout::list(1 << 20), &config).expect("there is room");
            (1..=5).for_each(|ts| map.set(ts, b"key", b"value").expect("there is room"));
            map.apply(5).expect("it is there");
            map.forget(2).expect("it is applied");
            // A call that forgets met a view that was refused a moment later.
            let views = &map.core.shared.views;
            assert_eq!(views.enter(1), Err(2));
            assert!(views.is_out_of_the_way(4), "it has left by now, or finds that there is something to do");
            map.core.state.lock().history.forget_to = 4;
            map.core.go_on_forgetting();
            assert_eq!(map.timestamps().forgotten, 4);
        }
        is_forgotten::<ListIndex>();
        is_forgotten::<TreeIndex>();
    }
}
