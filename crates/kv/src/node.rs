//! One replica, without input or output of its own: messages and requests come in by calls, and
//! what is to be sent and answered is taken out. So one thread can run many replicas, and a seed
//! can run them again.
//!
//! A step, as the server takes it: give in messages and requests ([`Node::step`], [`Node::tick`],
//! [`Node::evaluate`], [`Node::read`]); send what [`Node::take_output`] has; [`Node::persist`] if
//! [`Node::wants_persist`]; send again; then [`Node::tidy`]. The leader's entries are sent before
//! they are durable here. What promises something to others (a vote, an acknowledgement) is given
//! out only after [`Node::persist`].
//!
//! Bounds: entries that are not applied by `uncommitted_bytes_max`, reads by the caller, which has
//! one ticket for each, snapshots that are sent by the number of members.
//!
//! - `requests`, `proposals`, `reads`, `lease`: requests, and those that wait for an outcome
//! - `ready`, `unpersisted`: what Raft wants done, into the store and out
//! - `check`: properties of messages that would stop the process
//! - `elections`, `membership`: promises to leaders; the other members, and learners that have
//!   caught up
//! - `room`: a store that is full
//! - `log_time`: the time that entries carry
//! - `mode`, `snapshots`, `snapshot_sender`, `snapshot_receipt`, `snapshot_receiver`, `postponed`:
//!   the content of snapshots

mod check;
mod elections;
mod lease;
mod log_time;
mod membership;
mod mode;
mod output;
mod postponed;
mod proposals;
mod reads;
mod ready;
mod requests;
mod room;
mod settings;
mod snapshot_receipt;
mod snapshot_receiver;
mod snapshot_sender;
mod snapshots;
mod unpersisted;

use perdura_pmem::{Mutant, planted};
use raft::eraftpb::{ConfState, Message, MessageType};
use raft::{RawNode, StateRole};

use crate::codec::all_members;
pub use crate::machine::draft::Draft;
use crate::store::{self, Log, ReadLevel, Store, View};
use crate::wire::PeerMessage;
use elections::{Elections, is_alone};
use lease::Lease;
pub use lease::{Clock, LeaseSettings};
use log_time::LogTime;
pub use log_time::{ClockStatus, Clocks, JUMP_MS_MAX, SLEW_PARTS};
pub use membership::Follower;
use membership::Membership;
use mode::Mode;
pub use output::{Done, Holders, Outcome, Output, Rejection, Role, Status};
use proposals::Proposals;
use reads::Reads;
use room::Stall;
pub use settings::Settings;
use snapshot_receipt::SnapshotReceipt;
use snapshot_receiver::Receiver;
use snapshot_sender::SnapshotSenders;
use unpersisted::Unpersisted;

/// A replica.
pub struct Node {
    id: u64,
    settings: Settings,
    mode: Mode,
    proposals: Proposals,
    reads: Reads,
    elections: Elections,
    membership: Membership,
    time: LogTime,
    receipt: SnapshotReceipt,
    senders: SnapshotSenders,
    unpersisted: Unpersisted,
    stall: Stall,
    /// An entry of the leader's that another version of the program has made.
    unread: Option<u64>,
    /// Index up to which a leader takes the log to be here, which ends before.
    acknowledged: Option<u64>,
    output: Output,
}

impl Node {
    /// The replica of a store. Error: what Raft says of settings that do not fit each other.
    pub fn open(store: Box<dyn Store>, settings: Settings, clocks: Box<dyn Clocks>) -> store::Result<Self> {
        let id = store.persistent_state().replica;
        let time = LogTime::new(clocks, settings.clock_forward_ms_max, store.clock_ms(ReadLevel::Newest));
        let elections = Elections::new(store.persistent_state().term, &settings);
        let mode = if store.is_partial() {
            Mode::Receiver(Box::new(Receiver::new(store)))
        } else {
            Mode::Member(Box::new(settings.open(store)?))
        };
        Ok(Self {
            id,
            reads: Reads::new(id, settings.nonce),
            elections,
            time,
            settings,
            mode,
            proposals: Proposals::default(),
            membership: Membership::default(),
            receipt: SnapshotReceipt::default(),
            senders: SnapshotSenders::default(),
            unpersisted: Unpersisted::default(),
            stall: Stall::default(),
            unread: None,
            acknowledged: None,
            output: Output::default(),
        })
    }

    /// Reads by leases from now on, while this replica leads: without asking the others. What that
    /// rests on, `settings` say; if it is not so, reads may be stale.
    pub fn hold_leases(&mut self, settings: LeaseSettings, clock: Box<dyn Clock>) {
        self.reads.hold_lease(Lease::new(settings, self.settings.election_ticks, clock));
    }

    /// Its id.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether it receives a snapshot, for it lacks what nobody can give it as entries any more.
    pub(crate) fn receives(&self) -> bool {
        matches!(self.mode, Mode::Receiver(_)) || self.receipt.is_any()
    }

    /// Its store.
    pub fn store(&self) -> &dyn Store {
        self.mode.store()
    }

    /// Gives the store back.
    pub fn into_store(mut self) -> Box<dyn Store> {
        self.mode.take_store()
    }

    /// Room of the store; none is known while it receives its data.
    pub(crate) fn room(&self) -> store::Room {
        if self.store().is_partial() { store::Room::default() } else { self.store().room() }
    }

    /// The members that the replica knows of.
    pub(crate) fn members(&self) -> &ConfState {
        &self.store().persistent_state().members
    }

    /// Whether a replica is surely no member. One that has heard nothing of a leader may know old
    /// members only.
    pub(crate) fn is_no_member(&self, replica: u64) -> bool {
        let (status, members) = (self.status(), all_members(self.members()));
        let is_current = status.leader != 0 && status.applied == status.committed && status.role != Role::Receiving;
        is_current && !members.is_empty() && !members.contains(&replica)
    }

    /// A tick has passed: the unit of all timeouts.
    pub fn tick(&mut self) -> store::Result<()> {
        self.tick_time();
        self.end_persist()?;
        let is_blocked = self.persist_again()?;
        self.persist_if_alone()?;
        self.go_on_receiving()?;
        let Self { settings, mode, receipt, senders, output, .. } = self;
        let raw = match mode {
            Mode::Receiver(receiver) => return receiver.tick(settings, output),
            Mode::Member(raw) => raw,
        };
        let may_lead = self.stall.tick(raw.mut_store().store_mut())? && !self.unpersisted.is_blocked() && !is_blocked;
        self.elections.tick(raw, may_lead, settings);
        senders.tick(settings.snapshot_idle_ticks, raw);
        let next = receipt.tick(raw, senders, settings, output)?;
        self.receive(next)?;
        let (leads, ticks) = (self.mode.leading().is_some(), self.settings.election_ticks);
        self.reads.tick(leads, ticks, &mut self.output);
        self.proposals.tick(leads, ticks, &mut self.output);
        self.process_ready()?;
        self.promote()
    }

    /// A message of another replica has come. One that no sound replica sends is dropped, and
    /// `Ok(false)` returned. Error: `Configuration` if it offers a snapshot that this replica needs
    /// and whose format its store does not take. Nothing is changed then.
    pub fn step(&mut self, message: PeerMessage) -> store::Result<bool> {
        if message.to() != self.id || message.from() == self.id {
            return Ok(false);
        }
        if let Mode::Receiver(receiver) = &mut self.mode {
            return match receiver.step(message, self.id, &mut self.output)? {
                None => Ok(true),
                Some(offer) => self.begin_anew(offer).map(|()| true),
            };
        }
        match message {
            PeerMessage::Raft(message) => self.step_raft(message),
            PeerMessage::Fetch(fetch) => {
                let Mode::Member(raw) = &mut self.mode else { return Ok(false) };
                Ok(self.senders.send(fetch, raw, &mut self.output))
            }
            PeerMessage::Chunk(chunk) => self.take_chunk(&chunk),
        }
    }

    fn step_raft(&mut self, mut message: Message) -> store::Result<bool> {
        if self.stall.ignores(&message) || self.receipt.holds_off(&mut message, self.mode.store()) {
            return Ok(true);
        }
        self.persist_if_alone()?;
        let is_pending = self.unpersisted.is_numbered();
        let Mode::Member(raw) = &mut self.mode else { return Ok(false) };
        if check::wrong(raw, &message).is_some() {
            if message.term >= raw.raft.term {
                self.unread = check::entry_of_other_version(&message).or(self.unread);
                self.acknowledged = check::acknowledged(&message).or(self.acknowledged);
            }
            return Ok(false);
        }
        // It might be elected at once by it, with nothing durable.
        if self.unpersisted.is_blocked() && is_alone(raw) && raw.raft.state != StateRole::Leader {
            return Ok(true);
        }
        // Raft would pass it on in the name of the replica that asks, which would be refused for
        // it.
        if message.msg_type == MessageType::MsgReadIndex && raw.raft.state != StateRole::Leader {
            return Ok(true);
        }
        if message.msg_type == MessageType::MsgSnapshot && snapshot_receiver::is_needed(raw, &message) {
            raw.store().store().snapshot_format().check(&message.context)?;
            let next = self.receipt.begin(message, raw, &mut self.senders, &self.settings, &mut self.output)?;
            return self.receive(next).map(|()| true);
        }
        // Planted: a promise does not bind two terms later.
        let binds =
            self.elections.binds() && !(planted(Mutant::PromiseEndsWithTerm) && message.term > raw.raft.term + 1);
        if check::asks_for_vote(&message) && binds && !is_alone(raw) {
            return Ok(false);
        }
        // A vote that was asked for leaves after it is durable that this replica votes for itself:
        // nobody can have given one before.
        if message.msg_type == MessageType::MsgRequestVoteResponse && is_pending {
            return Ok(false);
        }
        let (from, term, taken_to) = (message.from, message.term, check::taken_to(&message));
        let is_of_leader = check::is_of_leader(&message);
        let has_entries = message.msg_type == MessageType::MsgAppend && !message.entries.is_empty();
        // Raft's error says that it has no use for the message.
        let is_used = raw.step(message).is_ok();
        if is_used && has_entries {
            self.unread = None;
        }
        let is_of_term = term == raw.raft.term;
        if is_of_leader && is_of_term && raw.raft.leader_id == from {
            self.elections.hear_leader(&self.settings);
        }
        // Raft takes no message of an earlier term, and goes on to wait for the snapshot.
        if is_of_term {
            self.senders.acknowledge(from, taken_to);
        }
        self.process_ready()?;
        self.observe_time();
        Ok(is_used)
    }

    /// The time of the log now, in milliseconds: what the next entry carries if this replica leads.
    pub fn now_ms(&self) -> u64 {
        self.time.now_ms()
    }

    /// Steady time: microseconds since any moment.
    pub fn steady_us(&self) -> u64 {
        self.time.steady_us()
    }

    /// State of the time of the log.
    pub fn clock(&self) -> ClockStatus {
        self.time.status()
    }

    fn tick_time(&mut self) {
        if self.store().is_partial() {
            return;
        }
        let (newest_ms, leads) = (self.store().clock_ms(ReadLevel::Newest), self.mode.leading().is_some());
        let view = View::new(self.store(), ReadLevel::Newest);
        let ahead_ms = Draft::new(&view, newest_ms, 0).ahead_ms();
        // A store that cannot be read says so to the next request.
        self.time.tick(newest_ms, ahead_ms.unwrap_or_default(), leads);
    }

    /// Replicas that have an entry on their medium, as replica `at` counts them, if this is the
    /// leader.
    pub(crate) fn holders(&self, index: u64, at: u64) -> Option<Holders> {
        self.mode.leading().map(|raw| membership::holders(raw, index, at))
    }

    /// The other members, if this is the leader.
    pub(crate) fn followers(&self) -> Vec<Follower> {
        self.mode.leading().map(membership::followers).unwrap_or_default()
    }

    /// Best target of a leadership transfer, if this is the leader: of the other voters that
    /// answer, the one that has most of the log.
    pub(crate) fn transfer_target(&self) -> Option<u64> {
        let voters = &self.members().voters;
        let others = self.followers().into_iter().filter(|one| one.is_active && voters.contains(&one.id));
        others.max_by_key(|one| one.matched).map(|one| one.id)
    }

    /// Whether a learner has what this leader has, but for the last entries, and answers.
    pub fn is_in_sync(&self, learner: u64) -> bool {
        self.mode.leading().is_some_and(|raw| self.membership.is_in_sync(raw, learner))
    }

    /// How many of some voters this leader has heard of late.
    pub fn active_of(&self, voters: &[u64]) -> usize {
        self.mode.leading().map_or(0, |raw| membership::active_of(raw, voters))
    }

    /// Whether this replica leads and its store clears garbage away for what had no room.
    pub(crate) fn collects(&self) -> bool {
        self.mode.leading().is_some_and(|raw| raw.store().store().collects())
    }

    /// Begins an election without waiting, unless it may not vote, or has heard a leader of late.
    pub fn campaign(&mut self) -> store::Result<()> {
        self.persist_if_alone()?;
        if let Mode::Member(raw) = &mut self.mode
            && raw.raft.promotable()
            && !self.stall.is_stalled()
            && !self.unpersisted.is_blocked()
            && (!self.elections.binds() || is_alone(raw))
        {
            // An error says that it may not be leader now.
            let _ = raw.campaign();
        }
        self.process_ready()
    }

    /// Takes the messages to be sent and the outcomes to be answered now.
    pub fn take_output(&mut self) -> Output {
        std::mem::take(&mut self.output)
    }

    /// Status of the replica.
    pub fn status(&self) -> Status {
        let store = self.store();
        let (role, term, leader, committed) = match &self.mode {
            Mode::Receiver(_) => (Role::Receiving, store.persistent_state().term, 0, 0),
            Mode::Member(raw) => {
                let role = match raw.raft.state {
                    StateRole::Leader => Role::Leader,
                    StateRole::Follower if !raw.raft.promotable() => Role::Learner,
                    StateRole::Follower => Role::Follower,
                    StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
                };
                (role, raw.raft.term, self.known_leader(raw), raw.raft.raft_log.committed)
            }
        };
        let is_stalled = self.stall.is_stalled() || self.unpersisted.is_blocked();
        Status { role, term, leader, committed, applied: store.applied(), last: store.last(), is_stalled }
    }

    /// Index of an entry of the leader's that this program cannot read, for another version has
    /// made it, if none has been taken since.
    pub fn unread(&self) -> Option<u64> {
        self.unread
    }

    /// Index up to which this replica has acknowledged the log, if what it has ends before: its
    /// directory is an older copy, or was damaged. It takes nothing from the leader that knows.
    pub fn lost_up_to(&self) -> Option<u64> {
        self.acknowledged.filter(|index| *index > self.store().last())
    }

    /// Elections that it has begun since its start.
    pub(crate) fn elections(&self) -> u64 {
        self.elections.begun()
    }

    /// Snapshots that others fetch, and whether one is received.
    pub fn snapshots(&self) -> (usize, bool) {
        (self.senders.len(), self.receives())
    }

    /// The leader, or 0. A replica without a vote begins no election when it hears the leader no
    /// more, so Raft would name that one for ever: also at a replica that was removed.
    fn known_leader(&self, raw: &RawNode<Log>) -> u64 {
        let has_vote = raw.raft.state != StateRole::Follower || raw.raft.promotable();
        if has_vote || self.elections.binds() { raw.raft.leader_id } else { raft::INVALID_ID }
    }

    fn not_leader(&self) -> Rejection {
        match &self.mode {
            Mode::Member(raw) => Rejection::NotLeader { leader: self.known_leader(raw) },
            Mode::Receiver(_) => Rejection::NotLeader { leader: 0 },
        }
    }
}
