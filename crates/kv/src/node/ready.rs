//! Processing of Raft's Ready: entries and votes into the store, messages out, and committed
//! entries applied.
//!
//! Raft numbers what it wants made durable. The messages of a replica that does not lead promise
//! something by that, and wait here until it is. A leader's do not: it counts itself in the quorum
//! only once its own entries are durable (Raft's thesis, 10.2.1).
//!
//! A leader sends messages only after its own store has taken their entries: an entry that has no
//! room there is sent to no replica (room.rs).

use perdura_pmem::{Mutant, planted};
use raft::eraftpb::{Entry, MessageType};
use raft::{RawNode, Ready, StateRole};

use super::{Mode, Node};
use crate::store::{self, ErrorKind, Log, change_of_members, is_change_of_members};

impl Node {
    /// Whether there is something to be made durable, and the store is not at it.
    pub fn wants_persist(&self) -> bool {
        self.unpersisted.is_any() && !self.unpersisted.is_under_way() && !self.unpersisted.is_blocked()
    }

    /// Whether so many entries are not durable that it is better to wait for no more
    /// (`Settings::persist_entries`).
    pub fn must_persist(&self) -> bool {
        self.wants_persist() && self.unpersisted.entries() >= self.settings.persist_entries
    }

    /// Makes durable what has come so far, or begins to, if the store does that beside: then
    /// [`Node::end_persist`] finds out when it is. What waited for it can be taken out then.
    pub fn persist(&mut self) -> store::Result<()> {
        let Mode::Member(raw) = &mut self.mode else { return Ok(()) };
        if !self.unpersisted.is_any() || self.unpersisted.is_under_way() {
            return Ok(());
        }
        // Planted: what was not made durable is called so.
        let is_planted = planted(Mutant::PersistedBeforeFence);
        let begun = if is_planted { Ok(true) } else { raw.mut_store().store_mut().begin_persist() };
        self.unpersisted.begin();
        self.persisted(begun)
    }

    /// Looks whether what [`Node::persist`] has begun is durable.
    pub fn end_persist(&mut self) -> store::Result<()> {
        let Mode::Member(raw) = &mut self.mode else { return Ok(()) };
        if !self.unpersisted.is_under_way() {
            return Ok(());
        }
        let ended = raw.mut_store().store_mut().end_persist();
        // Planted: a persist that is under way is taken for one that has ended.
        let ended = ended.map(|has_ended| has_ended || planted(Mutant::PersistTakenForEnded));
        self.persisted(ended)
    }

    /// Makes durable what has come so far before it returns.
    pub fn persist_and_wait(&mut self) -> store::Result<()> {
        let Mode::Member(raw) = &mut self.mode else { return Ok(()) };
        if !self.unpersisted.is_any() && !self.unpersisted.is_under_way() {
            return Ok(());
        }
        let persisted = raw.mut_store().store_mut().persist();
        self.unpersisted.begin();
        self.persisted(persisted.map(|()| true))
    }

    /// Goes on after a persist, if it has ended. Without room no acknowledgement rests on it, and
    /// the replica goes on with what it has.
    fn persisted(&mut self, ended: store::Result<bool>) -> store::Result<()> {
        match ended {
            Err(error) if error.kind() == ErrorKind::Full => {
                self.unpersisted.block(false);
                return Ok(());
            }
            ended => {
                if !ended? {
                    return Ok(());
                }
            }
        }
        let (number, late) = self.unpersisted.persisted();
        if let (Some(number), Mode::Member(raw)) = (number, &mut self.mode) {
            raw.on_persist_ready(number);
        }
        late.into_iter().for_each(|message| self.output.send(message));
        self.process_ready()
    }

    /// Tries again what had no room. Returns whether it has none still.
    pub(super) fn persist_again(&mut self) -> store::Result<bool> {
        if self.unpersisted.unblock() {
            self.persist()?;
        }
        Ok(self.unpersisted.is_blocked())
    }

    /// Persists if the replica is the only voter: it is elected at once, and Raft asserts that it
    /// has nothing then that is not durable.
    pub(super) fn persist_if_alone(&mut self) -> store::Result<()> {
        let is_alone = |raw: &RawNode<Log>| raw.raft.state != StateRole::Leader && raw.raft.prs().is_singleton();
        match &self.mode {
            Mode::Member(raw) if !self.unpersisted.is_blocked() && is_alone(raw) => self.persist_and_wait(),
            _ => Ok(()),
        }
    }

    /// Compacts to the applied index, and lets the store do a part of what can wait. To be called
    /// when replies are sent. Returns whether there may be more to do.
    pub fn tidy(&mut self) -> store::Result<bool> {
        let receives = self.go_on_receiving()?;
        let Mode::Member(raw) = &mut self.mode else { return Ok(receives) };
        let store = raw.mut_store().store_mut();
        store.compact(store.applied())?;
        Ok(store.upkeep()? || receives)
    }

    /// Does what Raft wants, until it wants nothing.
    pub(super) fn process_ready(&mut self) -> store::Result<()> {
        if let Mode::Member(raw) = &mut self.mode {
            self.reads.ask(raw);
        }
        loop {
            let Mode::Member(raw) = &mut self.mode else { return Ok(()) };
            // Planted: a leader commits entries of earlier terms as soon as a quorum has them.
            if raw.raft.state == StateRole::Leader && planted(Mutant::CommitsEarlierTerms) {
                let (index, _) = raw.raft.mut_prs().maximal_committed_index();
                raw.raft.raft_log.commit_to(index);
            }
            if !raw.has_ready() {
                break;
            }
            let mut ready = raw.ready();
            if !store_ready(raw.mut_store(), &ready)? {
                self.go_back()?;
                continue;
            }
            if !ready.entries().is_empty() {
                self.stall.end();
            }
            for mut message in ready.take_messages() {
                if message.msg_type == MessageType::MsgSnapshot {
                    let store = raw.store().store();
                    message.context = store.snapshot_format().offer(store.content_bytes());
                }
                self.output.send(message);
            }
            for taken in raw.store().taken() {
                self.senders.insert(taken.to, taken.snapshot);
            }
            self.stored(ready)?;
        }
        let Mode::Member(raw) = &self.mode else { return Ok(()) };
        self.reads.applied(raw.store().store(), &mut self.output);
        Ok(())
    }

    /// The store has taken what Raft wanted stored.
    fn stored(&mut self, mut ready: Ready) -> store::Result<()> {
        let Mode::Member(raw) = &mut self.mode else { return Ok(()) };
        let leads_in = (raw.raft.state == StateRole::Leader).then_some(raw.raft.term);
        for answer in ready.take_read_states() {
            self.reads.answered(&answer, leads_in, &mut self.output);
        }
        let committed = ready.take_committed_entries();
        let mut late = ready.take_persisted_messages();
        let number = ready.number();
        self.unpersisted.add_entries(ready.entries().len());
        let must_wait = ready.must_sync() || self.unpersisted.is_numbered();
        raw.advance_append_async(ready);
        if !must_wait {
            raw.on_persist_ready(number);
        }
        // Planted: a vote or an acknowledgement leaves before it is durable.
        if !must_wait || planted(Mutant::SentBeforeDurable) {
            std::mem::take(&mut late).into_iter().for_each(|message| self.output.send(message));
        }
        if must_wait {
            self.unpersisted.wait(number, late);
        }
        self.apply(committed)
    }

    fn apply(&mut self, committed: Vec<Entry>) -> store::Result<()> {
        let Mode::Member(raw) = &mut self.mode else { return Ok(()) };
        let Some(last) = committed.last().map(|entry| entry.index) else { return Ok(()) };
        let members_at = raw.store().store().persistent_state().members_at;
        for entry in &committed {
            // Those up to the noted index have made the members already that Raft began with.
            if is_change_of_members(entry) && entry.index > members_at {
                // One that cannot be made is refused by all replicas alike.
                if let Ok(members) = raw.apply_conf_change(&change_of_members(entry)?) {
                    raw.mut_store().store_mut().set_members(entry.index, &members)?;
                    self.reads.end_lease();
                }
            }
        }
        let store = raw.mut_store().store_mut();
        store.commit(last)?;
        if store.persistent_state().members_at != members_at {
            // A replica that has to go back to the members before may need some of those that are
            // gone.
            match store.persist() {
                // It goes on with them: who takes replicas away waits until none is without room.
                Err(error) if error.kind() == ErrorKind::Full => {
                    self.unpersisted.block(true);
                }
                persisted => persisted?,
            }
        }
        raw.advance_apply_to(last);
        for entry in &committed {
            self.proposals.applied(entry.index, entry.term, &mut self.output);
        }
        self.step_down_if_removed();
        Ok(())
    }

    /// The store has no room for what Raft wants stored: Raft goes back to what the store has.
    fn go_back(&mut self) -> store::Result<()> {
        let Mode::Member(raw) = &mut self.mode else { return Ok(()) };
        // Raft takes all that it begins with for durable.
        raw.mut_store().store_mut().persist()?;
        let led_in = (raw.raft.state == StateRole::Leader).then_some(raw.raft.term);
        let store = raw.mut_store().take_store();
        let collects = store.collects();
        if let Some(term) = led_in {
            self.proposals.take_back(store.last(), term, &mut self.output);
        }
        self.open_anew(store)?;
        self.stall.begin(self.settings.election_ticks / 2, collects);
        Ok(())
    }

    /// A leader that is no member any more follows: Raft would count on its progress, which is
    /// gone. Before that it tells the others up to where entries are committed, for they elect the
    /// next leader, and may need the new members for it. What it has proposed and not applied may
    /// be committed by them.
    fn step_down_if_removed(&mut self) {
        let Mode::Member(raw) = &mut self.mode else { return };
        let raft = &mut raw.raft;
        if raft.state == StateRole::Leader && raft.prs().get(self.id).is_none() {
            raft.ping();
            raft.become_follower(raft.term, raft::INVALID_ID);
            self.proposals.fail(&mut self.output);
        }
    }
}

/// Stores the vote first and then the entries. Returns whether there was room.
fn store_ready(log: &mut Log, ready: &Ready) -> store::Result<bool> {
    let store = log.store_mut();
    if let Some(state) = ready.hs() {
        store.set_vote(state.term, state.vote)?;
    }
    match store.append(ready.entries()) {
        Err(error) if error.kind() == ErrorKind::Full => Ok(false),
        appended => appended.map(|()| true),
    }
}
