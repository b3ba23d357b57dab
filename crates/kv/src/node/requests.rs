//! Requests to a replica: changes of keys and of members, and reads.

use perdura_pmem::{Mutant, planted};
use raft::StateRole;
use raft::eraftpb::{ConfChangeType, ConfChangeV2};

use super::output::{Done, Outcome, Rejection};
use super::reads::ReadCondition;
use super::{Mode, Node, room};
use crate::codec::change_of;
use crate::entry::{ENTRY_BYTES_MAX, KeyChange, parse};
use crate::machine::draft::Draft;
use crate::store::{self, ReadLevel, View};

impl Node {
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
        let Some(raw) = self.mode.leading() else { return Ok(Err(self.not_leader())) };
        let (term, index) = (raw.raft.term, raw.raft.raft_log.last_index() + 1);
        let store = raw.store().store();
        // Planted: a request does not see those before it that are not applied.
        let level = if planted(Mutant::ComparesAppliedOnly) { ReadLevel::Applied } else { ReadLevel::Newest };
        let view = View::new(store, level);
        let mut draft = Draft::new(&view, now_ms, index);
        let (reply, ahead_ms, data) = match run(&mut draft) {
            Ok(reply) if !draft.is_empty() => (reply, draft.set_back(), draft.to_data()),
            Ok(reply) | Err(reply) => {
                // It rests on entries that may still be taken back, and on this being the leader.
                // Planted: only on the latter.
                let rests = index - 1 > store.applied() && !planted(Mutant::FailedCompareAnsweredEarly);
                let entry = if rests { Some((index - 1, store.term(index - 1)?)) } else { None };
                self.reads.wait(ticket, Some(ReadCondition { led_in: term, entry }), raw);
                self.process_ready()?;
                return Ok(Ok(reply));
            }
        };
        if data.len() > ENTRY_BYTES_MAX {
            return Ok(Err(Rejection::TooLarge));
        }
        let Mode::Member(raw) = &mut self.mode else { return Ok(Err(Rejection::Busy)) };
        let (_, changes) = parse(&data[..], |key, value| KeyChange { key, value }).expect("an entry of its own");
        if !room::has_room(raw, &mut self.senders, &changes)? {
            let makes_room = raw.store().store().makes_room();
            return Ok(Err(if makes_room { Rejection::MakesRoom } else { Rejection::Full }));
        }
        if raw.propose(Vec::new(), data.into()).is_err() {
            return Ok(Err(Rejection::Busy));
        }
        if let Some(ahead_ms) = ahead_ms {
            self.time.set_ahead(ahead_ms);
        }
        self.proposals.wait(index, term, ticket, &mut self.output);
        self.process_ready()?;
        Ok(Ok(reply))
    }

    /// Proposes a change of members. The ticket is done when it is applied; a joint configuration
    /// is then left by itself.
    pub fn change_members(&mut self, ticket: u64, change: &ConfChangeV2) -> store::Result<Result<(), Rejection>> {
        let proposed = self.propose_members(change)?;
        if let Ok((index, term)) = proposed {
            self.proposals.wait(index, term, ticket, &mut self.output);
        }
        self.process_ready()?;
        Ok(proposed.map(drop))
    }

    /// Proposes a change of members. Returns index and term of its entry.
    fn propose_members(&mut self, change: &ConfChangeV2) -> store::Result<Result<(u64, u64), Rejection>> {
        self.observe_time();
        let clock_ms = self.now_ms();
        let Some(raw) = self.mode.leading() else { return Ok(Err(self.not_leader())) };
        let (term, index) = (raw.raft.term, raw.raft.raft_log.last_index() + 1);
        let is_joint = !self.members().voters_outgoing.is_empty();
        if raw.raft.has_pending_conf() || is_joint || change.changes.is_empty() {
            return Ok(Err(Rejection::Busy));
        }
        let known = raw.raft.prs().conf().to_conf_state();
        if known.voters.len() + known.learners.len() + change.changes.len() > crate::codec::MEMBERS_MAX {
            return Ok(Err(Rejection::TooLarge));
        }
        let context = store::members_entry_context(clock_ms, change);
        let Mode::Member(raw) = &mut self.mode else { return Ok(Err(Rejection::Busy)) };
        if raw.propose_conf_change(context.into(), change.clone()).is_err() {
            return Ok(Err(Rejection::Busy));
        }
        Ok(Ok((index, term)))
    }

    /// Proposes that a learner that has caught up be a voter, if this is the leader and no change
    /// of members is under way.
    pub(super) fn promote(&mut self) -> store::Result<()> {
        let learner = match self.mode.leading() {
            Some(raw) if self.settings.promotes_learners => self.membership.in_sync(raw),
            _ => None,
        };
        if let Mode::Member(raw) = &self.mode {
            self.membership.tick(raw);
        }
        let Some(learner) = learner else { return Ok(()) };
        // Refused while another change is under way: it is tried again at the next tick.
        let _ = self.propose_members(&change_of(&[(ConfChangeType::AddNode, learner)]))?;
        self.process_ready()
    }

    /// Asks whether a read of what is applied sees all that was acknowledged before. The ticket is
    /// done with [`Outcome::Readable`] when it does; the read is to be done at once then. Any
    /// member may be asked.
    pub fn read(&mut self, ticket: u64) -> store::Result<()> {
        match &self.mode {
            Mode::Receiver(_) => self.output.done.push(Done { ticket, outcome: Outcome::Unavailable }),
            // Planted: a leader reads without asking whether it still leads.
            Mode::Member(raw) if raw.raft.state == StateRole::Leader && planted(Mutant::LeaderReadsUnasked) => {
                self.output.done.push(Done { ticket, outcome: Outcome::Readable });
            }
            // Planted: a replica that follows reads, or gives a backup of, what it has without
            // asking what there is.
            Mode::Member(raw) if raw.raft.state != StateRole::Leader && planted(Mutant::FollowerReadsUnasked) => {
                self.output.done.push(Done { ticket, outcome: Outcome::Readable });
            }
            Mode::Member(raw) => self.reads.wait(ticket, None, raw),
        }
        self.process_ready()
    }

    /// Hands leadership over, if it is the leader and `to` a voter that follows.
    pub fn transfer(&mut self, to: u64) -> store::Result<()> {
        if let Mode::Member(raw) = &mut self.mode
            && raw.raft.state == StateRole::Leader
        {
            raw.transfer_leader(to);
        }
        self.process_ready()
    }

    /// Looks at the clock of the newest entry.
    pub(super) fn observe_time(&mut self) {
        let (newest_ms, leads) = (self.store().clock_ms(ReadLevel::Newest), self.mode.leading().is_some());
        self.time.observe(newest_ms, leads);
    }
}
