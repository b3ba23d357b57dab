//! A cluster that runs, fails and heals as a seed decides, and is checked at each step.

use perdura_kv::node::{Node, Role};
use perdura_kv::sim::{Failing, Place};
use perdura_kv::store::{self, PersistentState};
use perdura_kv::wire::PeerMessage;
use perdura_pmem::sim::Random;

use super::checks::{Checks, logs_match};
use super::clients::{Calls, Clients};
use super::front_end::FrontEnd;
use super::links::Link;
use super::machine::Machine;
use super::network::Network;
use super::plan::{Plan, Report, Story};
use super::scheme::Scheme;
use super::sessions::Sessions;
use super::swap::Swap;

/// Steps in which a whole cluster must come to one state.
const SETTLING_STEPS: u64 = 30_000;
/// Steps between comparisons of all logs.
const COMPARING_STEPS: u64 = 50;
/// Of so many calls of a replica, the power fails in the midst of one.
pub(super) const CALLS_OF_FAILURE: u64 = 1500;
/// As many of those that make something durable.
const PERSISTS_OF_FAILURE: u64 = 300;
/// Most ticks that a process makes up for that was stopped.
const TICKS_OWED_MAX: u64 = 15;
const CLIENTS: usize = 4;
const CLUSTER: u128 = 7;

pub(super) struct Cluster {
    pub(super) plan: Plan,
    pub(super) now: u64,
    pub(super) random: Random,
    pub(super) machines: Vec<Machine>,
    pub(super) network: Network,
    pub(super) clients: Clients,
    /// Clients that speak RESP.
    pub(super) sessions: Sessions,
    /// Connections between replicas on which requests are forwarded, and the number of the last
    /// one.
    pub(super) links: Vec<Link>,
    pub(super) last_link: u64,
    pub(super) checks: Checks,
    pub(super) swap: Option<Swap>,
    /// Scheme under way against a leader that holds a lease.
    pub(super) scheme: Option<Scheme>,
    /// A client that does nothing calls in one of so many steps.
    pub(super) steps_of_call: u64,
    pub(super) only_reads: bool,
    /// The replica at which clients only compare, mostly with what is no value of the key.
    pub(super) compares_at: Option<u64>,
    /// The replica at which clients only read.
    pub(super) reads_only_from: Option<u64>,
    pub(super) report: Report,
    pub(super) is_healed: bool,
}

pub(super) type Outcome = Result<(), String>;

/// Runs a plan. Returns what it has had, or what is wrong.
pub fn run(plan: &Plan) -> Result<Report, String> {
    let mut cluster = Cluster::found(*plan).map_err(said)?;
    let steps = (0..plan.steps).try_for_each(|_| cluster.step());
    steps.and_then(|()| cluster.settle()).map_err(|what| format!("step {}: {what}", cluster.now))?;
    let Cluster { clients, sessions, checks, report, network, .. } = &cluster;
    let (own, spoken) = (&clients.observed, &sessions.observed);
    Ok(Report {
        done: own.done + spoken.done,
        unknown: own.unknown + spoken.unknown,
        leased_reads: clients.leased_reads,
        refused: clients.refused,
        applied: checks.applied(),
        snapshots: checks.snapshots,
        digest: network.digest ^ clients.digest.rotate_left(32) ^ sessions.digest.rotate_left(16),
        ..*report
    })
}

pub(super) fn said(error: store::Error) -> String {
    format!("{:?}: {error}", error.kind())
}

impl Cluster {
    fn found(plan: Plan) -> store::Result<Cluster> {
        let mut random = Random::new(plan.seed);
        let ids: Vec<u64> = (1..=plan.nodes).collect();
        let mut machines = Vec::new();
        for id in &ids {
            let founder = PersistentState::founder(CLUSTER, *id, ids.clone());
            let (place, _) = Place::create(plan.variant, plan.bytes, &founder)?;
            machines.push(Machine::new(*id, place, &plan, &mut random)?);
        }
        let reads_of_ten = if plan.story == Story::Lease { 6 } else { 3 };
        Ok(Cluster {
            plan,
            now: 0,
            random,
            machines,
            network: Network::default(),
            clients: Clients::new(CLIENTS, 1, (reads_of_ten, plan.value_bytes)),
            sessions: Sessions::new(if plan.story == Story::Requests { CLIENTS } else { 0 }),
            links: Vec::new(),
            last_link: 0,
            checks: Checks::default(),
            swap: None,
            scheme: None,
            steps_of_call: 8,
            only_reads: false,
            compares_at: None,
            reads_only_from: None,
            report: Report::default(),
            is_healed: false,
        })
    }

    fn step(&mut self) -> Outcome {
        self.now += 1;
        self.checks.times.begin_step(&self.machines, self.plan.rates().1);
        // Chance decides whether the network or the clients are heard first: it matters to a
        // process that was stopped.
        let clients_first = self.random.one_in(2);
        if clients_first {
            self.run_clients()?;
        }
        for message in self.network.arrived(self.now)? {
            self.deliver(message)?;
        }
        for place in 0..self.machines.len() {
            self.run_machine(place)?;
        }
        if !clients_first {
            self.run_clients()?;
        }
        self.run_links()?;
        self.go_on_with_swap()?;
        if !self.is_healed {
            self.disturb()?;
        }
        if self.now.is_multiple_of(COMPARING_STEPS) {
            self.compare_logs()?;
        }
        Ok(())
    }

    fn deliver(&mut self, message: PeerMessage) -> Outcome {
        let place = (message.to() - 1) as usize;
        let machine = &mut self.machines[place];
        if machine.node.is_none() {
            return Ok(());
        }
        if machine.stopped_until > self.now {
            machine.held.push(message);
            return Ok(());
        }
        self.act(place, |node, _, _| node.step(message).map(drop))
    }

    /// Lets a replica do something, and takes what it has then. Its power may fail in the midst:
    /// then nothing of that was sent.
    pub(super) fn act(
        &mut self,
        place: usize,
        does: impl FnOnce(&mut Node, &mut Clients, &mut Random) -> store::Result<()>,
    ) -> Outcome {
        self.act_at_risk(place, CALLS_OF_FAILURE, does)
    }

    /// [`Cluster::act`], where the power fails in one of so many calls.
    fn act_at_risk(
        &mut self,
        place: usize,
        calls: u64,
        does: impl FnOnce(&mut Node, &mut Clients, &mut Random) -> store::Result<()>,
    ) -> Outcome {
        let failing = self.begin_risk(place, calls);
        let Some(node) = &mut self.machines[place].node else { return Ok(()) };
        does(node, &mut self.clients, &mut self.random).map_err(said)?;
        self.end_risk(place, failing)
    }

    /// A call begins, in the midst of which the power of a replica may fail: in one of so many.
    pub(super) fn begin_risk(&mut self, place: usize, calls: u64) -> Option<Failing> {
        let fails = !self.is_healed && self.random.one_in(calls);
        let machine = &mut self.machines[place];
        (fails && machine.node.is_some()).then(|| machine.place.begin_failing(&mut self.random))
    }

    /// The call has ended: its power has failed within, or what the replica has then is taken.
    pub(super) fn end_risk(&mut self, place: usize, failing: Option<Failing>) -> Outcome {
        let within = |failing| self.machines[place].place.failed_within(failing, &mut self.random);
        if let Some(left) = failing.and_then(within) {
            self.report.failures_in_calls += 1;
            self.lose_power(place, left, 400);
            return Ok(());
        }
        self.take(place)
    }

    fn run_machine(&mut self, place: usize) -> Outcome {
        let machine = &mut self.machines[place];
        let ticks = machine.clocks.advance();
        if machine.node.is_none() {
            if machine.up_at > self.now {
                return Ok(());
            }
            machine.start(&self.plan).map_err(said)?;
            return self.take(place);
        }
        machine.owed_ticks = (machine.owed_ticks + ticks).min(TICKS_OWED_MAX);
        if machine.stopped_until > self.now {
            return Ok(());
        }
        let (held, owed) = (std::mem::take(&mut machine.held), std::mem::take(&mut machine.owed_ticks));
        // Both orders are possible.
        let late = self.random.one_in(2).then_some(owed);
        for _ in 0..owed - late.unwrap_or(0) {
            self.tick(place)?;
        }
        for message in held {
            self.act(place, |node, _, _| node.step(message).map(drop))?;
        }
        for _ in 0..late.unwrap_or(0) {
            self.tick(place)?;
        }
        self.persist(place)
    }

    fn tick(&mut self, place: usize) -> Outcome {
        self.act(place, |node, _, _| node.tick())?;
        self.serve(place, FrontEnd::tick)
    }

    /// Makes durable what has come: not always at once, so that one persist covers several
    /// steps, and some come too late.
    fn persist(&mut self, place: usize) -> Outcome {
        let Some(node) = &self.machines[place].node else { return Ok(()) };
        if node.must_persist() || node.wants_persist() && !self.random.one_in(4) {
            self.act_at_risk(place, PERSISTS_OF_FAILURE, |node, _, _| node.persist())
        } else if self.random.one_in(6) {
            self.act(place, |node, _, _| node.tidy().map(drop))
        } else {
            Ok(())
        }
    }

    /// Takes what a node has for others, and looks at it.
    fn take(&mut self, place: usize) -> Outcome {
        if self.machines[place].front_end.is_some() {
            return self.take_with_front_end(place);
        }
        let machine = &mut self.machines[place];
        let Some(node) = &mut machine.node else { return Ok(()) };
        let output = node.take_output();
        self.checks.look(node)?;
        for message in &output.messages {
            self.network.send(self.now, message, &mut self.random);
        }
        for done in output.done {
            self.clients.told(self.now, done, node)?;
        }
        self.report.term = self.report.term.max(node.status().term);
        self.report.stalled += u64::from(node.status().is_stalled);
        Ok(())
    }

    fn run_clients(&mut self) -> Outcome {
        if self.plan.story == Story::Requests {
            return self.run_sessions();
        }
        for client in self.clients.idle() {
            if !self.random.one_in(self.steps_of_call) {
                continue;
            }
            let place = (self.clients.leader(client) - 1) as usize;
            if self.random.one_in(10) || self.machines[place].node.is_none() {
                self.clients.turn_to(client, 1 + self.random.below(self.machines.len() as u64));
                continue;
            }
            let machine = &self.machines[place];
            if machine.stopped_until > self.now {
                continue;
            }
            let step = self.now;
            let calls = if self.compares_at == Some(machine.id) {
                Calls::Comparisons
            } else if self.only_reads || self.reads_only_from == Some(machine.id) {
                Calls::Reads
            } else {
                Calls::All
            };
            self.act(place, |node, clients, random| clients.call(client, step, node, calls, random))?;
        }
        Ok(())
    }

    /// Replicas that lead, or believe so.
    pub(super) fn leaders(&self) -> Vec<usize> {
        let leads = |machine: &Machine| machine.node.as_ref().is_some_and(|node| node.status().role == Role::Leader);
        (0..self.machines.len()).filter(|place| leads(&self.machines[*place])).collect()
    }

    pub(super) fn ids(&self) -> Vec<u64> {
        self.machines.iter().map(|machine| machine.id).collect()
    }

    /// The power of a machine fails between two calls. It comes again within some steps.
    pub(super) fn fail(&mut self, place: usize, steps: u64) {
        let machine = &self.machines[place];
        if machine.node.is_some() {
            let left = machine.place.failed(&mut self.random);
            self.lose_power(place, left, steps);
        }
    }

    /// The power of a machine fails for good.
    fn take_away(&mut self, place: usize) {
        self.fail(place, 1);
        self.machines[place].up_at = u64::MAX;
    }

    fn lose_power(&mut self, place: usize, left: Place, steps: u64) {
        let up_at = self.now + 1 + self.random.below(steps);
        let machine = &mut self.machines[place];
        machine.lose_power(left, up_at);
        self.report.failures += 1;
        self.clients.lost(machine.id);
        self.checks.restarted(machine.id);
        self.sessions.closed(place, None);
        self.lose_links(place);
    }

    /// Takes a replica's memory away, and begins to replace it; or replaces one that is well, which
    /// is often the leader.
    fn begin_swap(&mut self) -> store::Result<()> {
        let up: Vec<usize> = (0..self.machines.len()).filter(|place| self.machines[*place].node.is_some()).collect();
        if self.swap.is_some() || (up.len() as u64) < self.plan.nodes {
            return Ok(());
        }
        let mut place = up[self.random.below(up.len() as u64) as usize];
        if self.random.one_in(2) {
            self.take_away(place);
        } else if let Some(leader) = self.leaders().first() {
            place = *leader;
        }
        let (old, new) = (self.machines[place].id, self.machines.len() as u64 + 1);
        let (place, _) = Place::create(self.plan.variant, self.plan.bytes, &PersistentState::joiner(CLUSTER, new))?;
        self.machines.push(Machine::new(new, place, &self.plan, &mut self.random)?);
        self.swap = Some(Swap::new(old, new));
        Ok(())
    }

    fn go_on_with_swap(&mut self) -> Outcome {
        if !self.is_healed && !self.plan.receives_in_place && self.random.one_in(600) {
            self.begin_swap().map_err(said)?;
        }
        let Some(mut swap) = self.swap.filter(|_| self.random.one_in(20)) else { return Ok(()) };
        let caught_up = self.machines[swap.new as usize - 1].node.as_ref().map_or(0, |node| node.status().applied);
        for place in 0..self.machines.len() {
            let machine = &self.machines[place];
            if machine.stopped_until <= self.now {
                self.act(place, |node, _, _| swap.ask(node, caught_up))?;
            }
        }
        // All must know of it before another is taken away: who does not still needs a quorum of
        // the old members too.
        let knows = |machine: &Machine| {
            machine.node.as_ref().is_some_and(|node| swap.is_done(&node.store().persistent_state().members))
        };
        let stays = |machine: &&Machine| machine.up_at != u64::MAX && machine.id != swap.old;
        let is_done = self.machines.iter().filter(stays).all(knows);
        if is_done {
            self.take_away(swap.old as usize - 1);
            self.report.swaps += 1;
        }
        self.swap = (!is_done).then_some(swap);
        Ok(())
    }

    fn compare_logs(&mut self) -> Outcome {
        let up: Vec<&Node> = self.machines.iter().filter_map(|machine| machine.node.as_ref()).collect();
        for (place, left) in up.iter().enumerate() {
            self.checks.compare_state(left)?;
            up[place + 1..].iter().try_for_each(|right| logs_match(left, right))?;
        }
        Ok(())
    }

    /// Heals all, and waits until all replicas have the same.
    fn settle(&mut self) -> Outcome {
        self.is_healed = true;
        self.network.heal();
        (self.scheme, self.only_reads, self.reads_only_from, self.compares_at) = (None, false, None, None);
        self.steps_of_call = 8;
        for machine in &mut self.machines {
            machine.stopped_until = 0;
            machine.up_at = if machine.up_at == u64::MAX { u64::MAX } else { 0 };
        }
        let begun = self.now;
        while !self.has_settled() {
            if self.now - begun > SETTLING_STEPS {
                return Err(format!("it does not settle:{}", self.persistent_states()));
            }
            self.step()?;
        }
        self.compare_logs()?;
        self.clients.end();
        self.clients.observed.check()?;
        self.end_sessions()
    }

    /// How all stand, a line for each.
    fn persistent_states(&self) -> String {
        let line = |machine: &Machine| match &machine.node {
            Some(node) => {
                let persistent_state = node.store().persistent_state();
                let (at, members) = (persistent_state.members_at, &persistent_state.members);
                format!("\n{}: {:?}, members of {at}: {members:?}", machine.id, node.status())
            }
            None => format!("\n{}: off", machine.id),
        };
        self.machines.iter().map(line).collect()
    }

    /// Whether all have applied what any has and know who may connect, and no replacement is under
    /// way.
    fn has_settled(&self) -> bool {
        let is_even = |machine: &Machine| {
            let status = machine.node.as_ref().map(Node::status);
            let knows_users = machine.front_end.as_ref().is_none_or(FrontEnd::knows_users);
            status.is_some_and(|status| status.applied == self.checks.applied() && status.last == status.applied)
                && knows_users
        };
        self.swap.is_none() && self.machines.iter().filter(|machine| machine.up_at != u64::MAX).all(is_even)
    }
}
