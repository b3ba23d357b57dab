//! A machine: a replica, its medium and its clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use perdura_kv::node::{Clock, Clocks as NodeClocks, LeaseSettings, Node, Settings};
use perdura_kv::sim::Place;
use perdura_kv::store::{self, Store};
use perdura_kv::wire::PeerMessage;
use perdura_pmem::sim::Random;

use super::front_end::FrontEnd;
use super::plan::{ELECTION_US, Plan, Story};

/// The wall's clock at the beginning.
const BEGUN_MS: i64 = 1_000_000;

/// A machine's clocks: one that does not jump, and one that shows the time of day.
pub(super) struct Clocks {
    shown: Shown,
    /// Microseconds in a step.
    rate: u64,
    tick_us: u64,
    ticks: u64,
}

/// Times that they show.
#[derive(Clone)]
struct Shown {
    steady_us: Arc<AtomicU64>,
    /// By how much the time of day is ahead of what it should be.
    ahead_ms: Arc<AtomicI64>,
}

impl Clock for Shown {
    fn now_us(&self) -> u64 {
        self.steady_us.load(Ordering::Relaxed)
    }
}

impl NodeClocks for Shown {
    fn steady_us(&self) -> u64 {
        self.now_us()
    }

    fn wall_ms(&self) -> u64 {
        let steady_ms = (self.now_us() / 1000) as i64;
        (BEGUN_MS + steady_ms + self.ahead_ms.load(Ordering::Relaxed)).max(0) as u64
    }
}

impl Clocks {
    fn new(plan: &Plan, random: &mut Random) -> Self {
        let (slowest, fastest) = plan.rates();
        let rate = match (plan.story, random.below(4)) {
            (_, 0) => slowest,
            (Story::Lease, _) | (_, 1) => fastest,
            _ => slowest + random.below(fastest - slowest + 1),
        };
        let steady_us = Arc::new(random.below(plan.tick_us).into());
        let ahead_ms = Arc::new((random.below(50) as i64).into());
        Self { shown: Shown { steady_us, ahead_ms }, rate, tick_us: plan.tick_us, ticks: 0 }
    }

    /// A step has passed. Returns how many ticks.
    pub(super) fn advance(&mut self) -> u64 {
        let now = self.shown.steady_us.fetch_add(self.rate, Ordering::Relaxed) + self.rate;
        let before = std::mem::replace(&mut self.ticks, now / self.tick_us);
        self.ticks - before
    }

    /// The time of day.
    pub(super) fn wall_ms(&self) -> u64 {
        NodeClocks::wall_ms(&self.shown)
    }

    /// The time of day jumps.
    pub(super) fn jump(&mut self, random: &mut Random) {
        let by = [20, 1000, 500_000][random.below(3) as usize];
        self.shown.ahead_ms.fetch_add(random.below(2 * by + 1) as i64 - by as i64, Ordering::Relaxed);
    }
}

/// A machine.
pub(super) struct Machine {
    pub(super) id: u64,
    pub(super) place: Place,
    pub(super) node: Option<Node>,
    /// Its clients, where they speak RESP.
    pub(super) front_end: Option<FrontEnd>,
    pub(super) clocks: Clocks,
    /// When it is started again.
    pub(super) up_at: u64,
    /// Until when the process is stopped.
    pub(super) stopped_until: u64,
    /// Messages that wait for a process that is stopped, and ticks that it owes.
    pub(super) held: Vec<PeerMessage>,
    pub(super) owed_ticks: u64,
    starts: u64,
}

fn settings(plan: &Plan, starts: u64) -> Settings {
    Settings {
        message_bytes_max: if plan.story == Story::Storm { 0 } else { 600 },
        messages_max: 8,
        uncommitted_bytes_max: 20_000,
        chunk_bytes: 500,
        snapshot_idle_ticks: 30,
        receives_in_place: plan.receives_in_place,
        promotes_learners: plan.promotes_learners,
        commits_quietly: plan.seed.is_multiple_of(2),
        seed: plan.seed,
        nonce: starts,
        election_ticks: (ELECTION_US / plan.tick_us) as usize,
        ..Settings::default()
    }
}

impl Machine {
    /// A machine that has just been made.
    pub(super) fn new(id: u64, place: Place, plan: &Plan, random: &mut Random) -> store::Result<Self> {
        let clocks = Clocks::new(plan, random);
        let (held, owed_ticks) = (Vec::new(), 0);
        let (node, front_end, up_at, stopped_until, starts) = (None, None, 0, 0, 0);
        let mut made = Self { id, place, node, front_end, clocks, up_at, stopped_until, held, owed_ticks, starts };
        made.start(plan)?;
        Ok(made)
    }

    fn run(&mut self, store: Box<dyn Store>, plan: &Plan) -> store::Result<()> {
        let clocks = Box::new(self.clocks.shown.clone());
        let mut node = Node::open(store, settings(plan, self.starts), clocks)?;
        self.starts += 1;
        if let Some(drift_percent) = plan.drift_percent {
            let steady = Box::new(self.clocks.shown.clone());
            node.hold_leases(LeaseSettings { tick_us: plan.tick_us, drift_percent }, steady);
        }
        self.node = Some(node);
        self.front_end = (plan.story == Story::Requests).then(|| FrontEnd::new(plan.seed));
        Ok(())
    }

    /// Starts a replica on what its medium has.
    pub(super) fn start(&mut self, plan: &Plan) -> store::Result<()> {
        let store = self.place.open_late(plan.seed.wrapping_add(self.id) ^ self.starts)?;
        self.run(store, plan)
    }

    /// Its power is gone: what its medium has now is `left`.
    pub(super) fn lose_power(&mut self, left: Place, up_at: u64) {
        // Writes of its closing go to the old medium.
        (self.node, self.front_end) = (None, None);
        self.place = left;
        self.up_at = up_at;
        (self.stopped_until, self.owed_ticks) = (0, 0);
        self.held.clear();
    }
}
