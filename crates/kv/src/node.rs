//! One replica, without input or output of its own: messages and requests come in by calls, and
//! what is to be sent and answered is taken out. So one thread can run many replicas, and a seed
//! can run them again.
//!
//! A turn, as the server takes it: give in what has come ([`Node::step`], [`Node::tick`],
//! [`Node::evaluate`], [`Node::read`]); send what [`Node::take_output`] has; [`Node::persist`] if
//! [`Node::wants_persist`]; send again; then [`Node::tidy`]. The leader's entries are sent before
//! they are durable here. What promises something to others (a vote, an acknowledgement) is given
//! out only after [`Node::persist`].
//!
//! Bounds: entries that are not applied by `uncommitted_bytes_max`, reads by the caller, which has
//! one ticket for each, snapshots that are given away by the number of members.
//!
//! - `replica`: what it consists of
//! - `ready`: what Raft wants done, into the store and out
//! - `check`: what no message may have, so that none can stop the process
//! - `proposals`, `reads`: whom to answer when
//! - `followers`: how far the others are
//! - `room`, `stalled`: a store that is full
//! - `lease`: reads without asking, if clocks are trusted
//! - `log_time`: the time that entries carry
//! - `promotion`: learners that have caught up
//! - `snapshot_transfer`, `snapshot_sender`, `snapshot_receiver`, `snapshot_receipt`, `postponed`:
//!   the content of snapshots

mod check;
mod followers;
mod lease;
mod log_time;
mod output;
mod postponed;
mod promotion;
mod proposals;
mod reads;
mod ready;
mod replica;
mod room;
mod settings;
mod snapshot_receipt;
mod snapshot_receiver;
mod snapshot_sender;
mod snapshot_transfer;
mod stalled;
mod unpersisted;

use std::collections::BTreeMap;

use perdura_pmem::{Mutant, planted};
use raft::eraftpb::{ConfChangeV2, Message, MessageType};
use raft::{RawNode, StateRole};

use crate::entry::ENTRY_BYTES_MAX;
use crate::machine::draft::Draft;
use crate::store::{self, Log, ReadLevel, Store, View};
use crate::wire::PeerMessage;
pub use followers::Follower;
pub use lease::{Clock, LeaseSettings};
use lease::{Lease, Promise};
use log_time::LogTime;
pub use log_time::{ClockStatus, Clocks, JUMP_MS_MAX, SLEW_PARTS};
pub use output::{Done, Holders, Outcome, Output, Rejection, Role, Status};
use proposals::Proposals;
use reads::{ReadCondition, Reads};
pub use replica::Node;
use replica::Part;
pub use settings::Settings;
use snapshot_receiver::Receiver;
use unpersisted::Unpersisted;

impl Node {
    /// The replica of a store. Error: what Raft says of settings that do not fit each other.
    pub fn open(store: Box<dyn Store>, settings: Settings, clocks: Box<dyn Clocks>) -> store::Result<Self> {
        let id = store.persistent_state().replica;
        let time = LogTime::new(clocks, settings.clock_forward_ms_max, store.clock_ms(ReadLevel::Newest));
        let promise = Promise::new(store.persistent_state().term, settings.election_ticks);
        let part = if store.is_partial() {
            Part::Receiver(Box::new(Receiver::new(store)))
        } else {
            Part::Member(Box::new(settings.open(store)?))
        };
        Ok(Self {
            id,
            reads: Reads::new(id, settings.nonce),
            lease: None,
            promise,
            time,
            settings,
            part,
            proposals: Proposals::default(),
            incoming: None,
            postponed: None,
            snapshot_senders: BTreeMap::new(),
            unpersisted: Unpersisted::default(),
            stalled: None,
            unread: None,
            output: Output::default(),
            elections: 0,
            last_at_tick: 0,
        })
    }

    /// Reads by leases from now on, while this replica leads: without asking the others. What that
    /// rests on, `settings` say; if it is not so, reads may be stale.
    pub fn hold_leases(&mut self, settings: LeaseSettings, clock: Box<dyn Clock>) {
        self.lease = Some(Lease::new(settings, self.settings.election_ticks, clock));
    }

    /// Its id.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether it receives a snapshot, for it lacks what nobody can give it as entries any more.
    pub fn receives(&self) -> bool {
        matches!(self.part, Part::Receiver(_)) || self.incoming.is_some()
    }

    /// Its store.
    pub fn store(&self) -> &dyn Store {
        match &self.part {
            Part::Member(raw) => raw.store().store(),
            Part::Receiver(receiver) => receiver.store(),
        }
    }

    /// Gives the store back.
    pub fn into_store(self) -> Box<dyn Store> {
        match self.part {
            Part::Member(mut raw) => raw.mut_store().take_store(),
            Part::Receiver(mut receiver) => receiver.take_store(),
        }
    }

    /// A moment has passed: the unit of all timeouts.
    pub fn tick(&mut self) -> store::Result<()> {
        self.tick_time();
        let is_blocked = self.persist_again()?;
        self.persist_if_alone()?;
        self.go_on_receiving()?;
        let may_lead = self.tick_stalled()? && !self.unpersisted.is_blocked && !is_blocked;
        match &mut self.part {
            Part::Receiver(receiver) => {
                return receiver.tick(&self.settings, &mut self.output);
            }
            Part::Member(raw) => {
                self.promise.tick();
                // Raft draws it at random each time; a seed must decide it.
                let timeout = self.settings.election_timeout(self.id, raw.raft.term, self.elections);
                raw.raft.set_randomized_election_timeout(timeout);
                let was_leader = raw.raft.state == StateRole::Leader;
                if !may_lead && !was_leader {
                    // It is never long enough without a leader, but as long as it has to be to vote
                    // for one.
                    let ticks = self.settings.election_ticks;
                    raw.raft.set_randomized_election_timeout(2 * ticks - 1);
                    raw.raft.election_elapsed = raw.raft.election_elapsed.min(ticks - 1);
                }
                if raw.tick() && !was_leader {
                    self.elections += 1;
                }
            }
        }
        self.tick_snapshot_senders();
        self.tick_incoming();
        self.begin_postponed()?;
        self.reads.tick(self.settings.election_ticks, &mut self.output);
        let leads = self.leading().is_some();
        self.proposals.tick(leads, self.settings.election_ticks, &mut self.output);
        if self.lease.is_some() && leads {
            self.reads.renew();
        }
        self.turn()?;
        self.promote()
    }

    /// A message of another replica has come. One that no sound replica sends is dropped, and
    /// `Ok(false)` returned. Error: `Configuration` if it offers a snapshot that this replica needs
    /// and whose format its store does not take. Nothing is changed then.
    pub fn step(&mut self, message: PeerMessage) -> store::Result<bool> {
        if message.to() != self.id || message.from() == self.id {
            return Ok(false);
        }
        if let Part::Receiver(receiver) = &mut self.part {
            return match receiver.step(message, self.id, &mut self.output)? {
                None => Ok(true),
                Some(offer) => self.received(offer).map(|()| true),
            };
        }
        match message {
            PeerMessage::Raft(message) => self.step_raft(message),
            PeerMessage::Fetch(fetch) => Ok(self.give(fetch)),
            PeerMessage::Chunk(chunk) => self.take_chunk(&chunk),
        }
    }

    fn step_raft(&mut self, mut message: Message) -> store::Result<bool> {
        if self.ignores(&message) || self.holds_off(&mut message) {
            return Ok(true);
        }
        self.persist_if_alone()?;
        let is_pending = self.unpersisted.number.is_some();
        let Part::Member(raw) = &mut self.part else { return Ok(false) };
        if check::wrong(raw, &message).is_some() {
            if message.term >= raw.raft.term {
                self.unread = check::entry_of_other_version(&message).or(self.unread);
            }
            return Ok(false);
        }
        // It might be elected at once by it, with nothing durable.
        if self.unpersisted.is_blocked && is_alone(raw, self.id) && raw.raft.state != StateRole::Leader {
            return Ok(true);
        }
        // Raft would pass it on in the name of who asks, who would be refused for it.
        if message.msg_type == MessageType::MsgReadIndex && raw.raft.state != StateRole::Leader {
            return Ok(true);
        }
        if message.msg_type == MessageType::MsgSnapshot && snapshot_receiver::is_needed(raw, &message) {
            raw.store().store().snapshot_format().check(&message.context)?;
            return self.begin_incoming(message).map(|()| true);
        }
        // Planted: a promise does not bind two terms later.
        let binds = self.promise.binds() && !(planted(Mutant::PromiseEndsWithTerm) && message.term > raw.raft.term + 1);
        if check::asks_for_vote(&message) && binds && !is_alone(raw, self.id) {
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
            self.promise.hear(self.settings.election_ticks);
        }
        // Raft takes no word of an earlier term, and goes on to wait for the snapshot.
        if is_of_term {
            self.has_come_to(from, taken_to);
        }
        self.turn()?;
        self.observe_time();
        Ok(is_used)
    }

    /// Evaluates a request on the newest versions, at the time of the log, and makes an entry of
    /// what it has changed. `run` returns the reply; with `Err`, its changes are dropped. The reply
    /// may be given when the ticket is done: with [`Outcome::Applied`] if it has changed something,
    /// with [`Outcome::Readable`] if not.
    pub fn evaluate<R>(
        &mut self,
        ticket: u64,
        run: impl FnOnce(&mut Draft<'_>) -> Result<R, R>,
    ) -> store::Result<Result<R, Rejection>> {
        self.observe_time();
        let now_ms = self.now_ms();
        let Some(raw) = self.leading() else { return Ok(Err(self.not_leader())) };
        let (term, index) = (raw.raft.term, raw.raft.raft_log.last_index() + 1);
        let store = raw.store().store();
        // Planted: a request does not see those before it that are not applied.
        let moment = if planted(Mutant::ComparesAppliedOnly) { ReadLevel::Applied } else { ReadLevel::Newest };
        let view = View::new(store, moment);
        let mut draft = Draft::new(&view, now_ms, index);
        let (reply, ahead_ms, batch) = match run(&mut draft) {
            Ok(reply) if !draft.is_empty() => (reply, draft.set_back(), draft.into_batch()),
            Ok(reply) | Err(reply) => {
                // It rests on entries that may still be taken back, and on this being the leader.
                // Planted: only on the latter.
                let rests = index - 1 > store.applied() && !planted(Mutant::FailedCompareAnsweredEarly);
                let entry = if rests { Some((index - 1, store.term(index - 1)?)) } else { None };
                self.wait_to_read(ticket, Some(ReadCondition { led_in: term, entry }));
                self.turn()?;
                return Ok(Ok(reply));
            }
        };
        let data = batch.to_bytes();
        if data.len() > ENTRY_BYTES_MAX {
            return Ok(Err(Rejection::TooLarge));
        }
        if !self.has_room(&batch.changes)? {
            return Ok(Err(if self.store().makes_room() { Rejection::MakesRoom } else { Rejection::Full }));
        }
        let Part::Member(raw) = &mut self.part else { return Ok(Err(Rejection::Busy)) };
        if raw.propose(Vec::new(), data.into()).is_err() {
            return Ok(Err(Rejection::Busy));
        }
        if let Some(ahead_ms) = ahead_ms {
            self.time.set_ahead(ahead_ms);
        }
        self.proposals.wait(index, term, ticket, &mut self.output);
        self.turn()?;
        Ok(Ok(reply))
    }

    /// Proposes a change of members. The ticket is done when it is applied; a joint configuration
    /// is then left by itself.
    pub fn change_members(&mut self, ticket: u64, change: &ConfChangeV2) -> store::Result<Result<(), Rejection>> {
        let proposed = self.propose_members(change)?;
        if let Ok((index, term)) = proposed {
            self.proposals.wait(index, term, ticket, &mut self.output);
        }
        self.turn()?;
        Ok(proposed.map(drop))
    }

    /// Proposes a change of members. Returns index and term of its entry.
    fn propose_members(&mut self, change: &ConfChangeV2) -> store::Result<Result<(u64, u64), Rejection>> {
        self.observe_time();
        let clock_ms = self.now_ms();
        let Some(raw) = self.leading() else { return Ok(Err(self.not_leader())) };
        let (term, index) = (raw.raft.term, raw.raft.raft_log.last_index() + 1);
        let is_joint = !raw.store().store().persistent_state().members.voters_outgoing.is_empty();
        if raw.raft.has_pending_conf() || is_joint || change.changes.is_empty() {
            return Ok(Err(Rejection::Busy));
        }
        let known = raw.raft.prs().conf().to_conf_state();
        if known.voters.len() + known.learners.len() + change.changes.len() > crate::codec::MEMBERS_MAX {
            return Ok(Err(Rejection::TooLarge));
        }
        let context = store::members_entry_context(clock_ms, change);
        let Part::Member(raw) = &mut self.part else { return Ok(Err(Rejection::Busy)) };
        if raw.propose_conf_change(context.into(), change.clone()).is_err() {
            return Ok(Err(Rejection::Busy));
        }
        Ok(Ok((index, term)))
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

    fn observe_time(&mut self) {
        let (newest_ms, leads) = (self.store().clock_ms(ReadLevel::Newest), self.leading().is_some());
        self.time.observe(newest_ms, leads);
    }

    fn tick_time(&mut self) {
        if self.store().is_partial() {
            return;
        }
        let (newest_ms, leads) = (self.store().clock_ms(ReadLevel::Newest), self.leading().is_some());
        let view = View::new(self.store(), ReadLevel::Newest);
        let ahead_ms = Draft::new(&view, newest_ms, 0).ahead_ms();
        // A store that cannot be read says so to the next request.
        self.time.tick(newest_ms, ahead_ms.unwrap_or_default(), leads);
    }

    /// Asks whether a read of what is applied sees all that was acknowledged before. The ticket is
    /// done with [`Outcome::Readable`] when it does; the read is to be done at once then. Any
    /// member may be asked.
    pub fn read(&mut self, ticket: u64) -> store::Result<()> {
        match &self.part {
            Part::Receiver(_) => self.output.done.push(Done { ticket, outcome: Outcome::Unavailable }),
            // Planted: a leader reads without asking whether it still leads.
            Part::Member(raw) if raw.raft.state == StateRole::Leader && planted(Mutant::LeaderReadsUnasked) => {
                self.output.done.push(Done { ticket, outcome: Outcome::Readable });
            }
            // Planted: a replica that follows reads, or gives a backup of, what it has without
            // asking what there is.
            Part::Member(raw) if raw.raft.state != StateRole::Leader && planted(Mutant::FollowerReadsUnasked) => {
                self.output.done.push(Done { ticket, outcome: Outcome::Readable });
            }
            Part::Member(_) => self.wait_to_read(ticket, None),
        }
        self.turn()
    }

    /// Replicas that have an entry on their medium, as replica `at` counts them, if this is the
    /// leader.
    pub fn holders(&self, index: u64, at: u64) -> Option<Holders> {
        let raw = self.leading()?;
        let mut holders = Holders::default();
        for (member, progress) in raw.raft.prs().iter() {
            let has_it = progress.matched >= index;
            if *member == at {
                holders.is_here = has_it;
            } else {
                holders.others += usize::from(has_it);
                holders.members += 1;
            }
        }
        Some(holders)
    }

    /// Lets a read wait until a quorum has said that this replica, or another, leads; or only until
    /// so much is applied if it holds a lease.
    fn wait_to_read(&mut self, ticket: u64, condition: Option<ReadCondition>) {
        if let (Part::Member(raw), Some(lease)) = (&self.part, &self.lease)
            && raw.raft.state == StateRole::Leader
            && raw.raft.commit_to_current_term()
            && lease.holds(raw.raft.term)
        {
            return self.reads.wait_for(ticket, raw.raft.raft_log.committed, condition);
        }
        self.reads.wait(ticket, condition);
    }

    /// Hands leadership over, if it is the leader and `to` a voter that follows.
    pub fn transfer(&mut self, to: u64) -> store::Result<()> {
        if let Part::Member(raw) = &mut self.part
            && raw.raft.state == StateRole::Leader
        {
            raw.transfer_leader(to);
        }
        self.turn()
    }

    /// Begins an election without waiting, unless it may not vote, or has heard a leader of late.
    pub fn campaign(&mut self) -> store::Result<()> {
        self.persist_if_alone()?;
        if let Part::Member(raw) = &mut self.part
            && raw.raft.promotable()
            && self.stalled.is_none()
            && !self.unpersisted.is_blocked
            && (!self.promise.binds() || is_alone(raw, self.id))
        {
            // An error says that it may not be leader now.
            let _ = raw.campaign();
        }
        self.turn()
    }

    /// Takes the messages to be sent and the outcomes to be answered now.
    pub fn take_output(&mut self) -> Output {
        std::mem::take(&mut self.output)
    }

    /// How the replica stands.
    pub fn status(&self) -> Status {
        let store = self.store();
        let (role, term, leader, committed) = match &self.part {
            Part::Receiver(_) => (Role::Receiving, store.persistent_state().term, 0, 0),
            Part::Member(raw) => {
                let role = match raw.raft.state {
                    StateRole::Leader => Role::Leader,
                    StateRole::Follower if !raw.raft.promotable() => Role::Learner,
                    StateRole::Follower => Role::Follower,
                    StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
                };
                (role, raw.raft.term, self.known_leader(raw), raw.raft.raft_log.committed)
            }
        };
        let is_stalled = self.stalled.is_some() || self.unpersisted.is_blocked;
        Status { role, term, leader, committed, applied: store.applied(), last: store.last(), is_stalled }
    }

    /// Index of an entry of the leader's that this program cannot read, for another version has
    /// made it, if none has been taken since.
    pub fn unread(&self) -> Option<u64> {
        self.unread
    }

    /// Elections that it has begun since its start.
    pub fn elections(&self) -> u64 {
        self.elections
    }

    /// Snapshots that others fetch, and whether one is received.
    pub fn snapshots(&self) -> (usize, bool) {
        let is_receiver = matches!(self.part, Part::Receiver(_));
        (self.snapshot_senders.len(), is_receiver || self.incoming.is_some())
    }

    /// Persists if the replica is the only voter: it is elected at once, and Raft asserts that it
    /// has nothing then that is not durable.
    fn persist_if_alone(&mut self) -> store::Result<()> {
        let is_alone = |raw: &RawNode<Log>| raw.raft.state != StateRole::Leader && raw.raft.prs().is_singleton();
        match &self.part {
            Part::Member(raw) if self.wants_persist() && is_alone(raw) => self.persist(),
            _ => Ok(()),
        }
    }

    /// Raft, if this is the leader.
    fn leading(&self) -> Option<&RawNode<Log>> {
        match &self.part {
            Part::Member(raw) if raw.raft.state == StateRole::Leader => Some(raw),
            _ => None,
        }
    }

    /// The leader, or 0. Who has no vote begins no election when it hears the leader no more, so
    /// Raft would name that one for ever: also at a replica that was removed.
    fn known_leader(&self, raw: &RawNode<Log>) -> u64 {
        let has_vote = raw.raft.state != StateRole::Follower || raw.raft.promotable();
        if has_vote || self.promise.binds() { raw.raft.leader_id } else { raft::INVALID_ID }
    }

    fn not_leader(&self) -> Rejection {
        match &self.part {
            Part::Member(raw) => Rejection::NotLeader { leader: self.known_leader(raw) },
            Part::Receiver(_) => Rejection::NotLeader { leader: 0 },
        }
    }
}

/// Whether a replica is the only one that votes: then it has heard no other lead.
fn is_alone(raw: &RawNode<Log>, id: u64) -> bool {
    let members = raw.raft.prs().conf().to_conf_state();
    members.voters == [id] && members.voters_outgoing.is_empty()
}
