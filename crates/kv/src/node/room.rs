//! A store that is full. The leader refuses what would leave no room for deletions, so that they go
//! on. Should an entry find no room all the same, Raft goes back to what the store has, as after a
//! restart: a leader has sent the entry to nobody yet, says so to who waits for it, and leads no
//! more, for it could send no heartbeats behind an entry that it cannot store; a follower has not
//! heard of it, and is as one that lags. It hears it again, or gets a snapshot in its place, some
//! ticks later, or when the store's own thread has cleared garbage away, for which nobody waits.

use raft::StateRole;
use raft::eraftpb::{Message, MessageType};

use super::stalled::Stalled;
use super::{Node, Part, check};
use crate::entry::Change;
use crate::machine::key;
use crate::store::{self, Share};

/// How much of the room that is left an entry may take.
pub(super) fn share(changes: &[Change]) -> Share {
    let mut put = changes.iter().filter(|change| change.value.is_some()).map(|change| &change.key[..]);
    // A deletion counts keys and moves time on besides.
    if put.clone().all(|place| [key::COUNT, key::GENERATION, key::TIME].contains(&place)) {
        Share::Deletions
    } else if put.all(|place| place.first() == Some(&key::SYSTEM)) {
        Share::System
    } else {
        Share::Usual
    }
}

impl Node {
    /// Whether the leader's store has room for an entry. Snapshots that others fetch end if a
    /// deletion would not have: nothing is cleared away while they are held.
    pub(super) fn has_room(&mut self, changes: &[Change]) -> store::Result<bool> {
        let share = share(changes);
        let has_room = |node: &mut Self| match &mut node.part {
            Part::Member(raw) => raw.mut_store().store_mut().has_room(changes, share),
            Part::Receiver(_) => Ok(false),
        };
        let found = has_room(self)?;
        if found || share != Share::Deletions || self.snapshot_senders.is_empty() {
            return Ok(found);
        }
        std::mem::take(&mut self.snapshot_senders).into_keys().for_each(|to| self.let_go(to));
        has_room(self)
    }

    /// Whether this replica leads and its store clears garbage away for what had no room.
    pub fn collects(&self) -> bool {
        self.leading().is_some_and(|raw| raw.store().store().collects())
    }

    /// The store has no room for what Raft wants stored.
    pub(super) fn stall(&mut self) -> store::Result<()> {
        let Part::Member(raw) = &mut self.part else { return Ok(()) };
        // Raft takes all that it begins with for durable.
        raw.mut_store().store_mut().persist()?;
        let led_in = (raw.raft.state == StateRole::Leader).then_some(raw.raft.term);
        let store = raw.mut_store().take_store();
        let collects = store.collects();
        if let Some(term) = led_in {
            self.proposals.take_back(store.last(), term, &mut self.output);
        }
        self.forget_all();
        self.part = Part::Member(Box::new(self.settings.open(store)?));
        self.stalled = Some(Stalled { ticks_left: self.settings.election_ticks / 2, collects });
        Ok(())
    }

    /// Whether a message is left alone because of what had no room: who leads without room for its
    /// first entry is of no use.
    pub(super) fn ignores(&self, message: &Message) -> bool {
        self.stalled.is_some_and(|stalled| match message.msg_type {
            MessageType::MsgTimeoutNow => true,
            MessageType::MsgSnapshot => false,
            _ => stalled.ticks_left > 0 && check::is_of_leader(message),
        })
    }

    /// A tick has passed. Returns whether the replica may want to lead.
    pub(super) fn tick_stalled(&mut self) -> store::Result<bool> {
        let (Some(stalled), Part::Member(raw)) = (&mut self.stalled, &mut self.part) else { return Ok(true) };
        stalled.ticks_left = stalled.ticks_left.saturating_sub(1);
        if stalled.collects && !raw.store().store().collects() {
            *stalled = Stalled { ticks_left: 0, collects: false };
        }
        raw.mut_store().store_mut().has_room(&[], Share::Deletions)
    }
}
