//! A store that is full. The leader refuses what would leave no room for deletions, so that they go
//! on. Should an entry find no room all the same, Raft goes back to what the store has, as after a
//! restart: a leader has sent the entry to nobody yet, fails its proposals, and leads no more, for
//! it could send no heartbeats behind an entry that it cannot store; a follower has not heard of
//! it, and is as one that lags. It hears it again, or gets a snapshot in its place, some ticks
//! later, or when the store's own thread has cleared garbage away, for which nobody waits.

use raft::RawNode;
use raft::eraftpb::{Message, MessageType};

use super::check;
use super::snapshot_sender::SnapshotSenders;
use crate::entry::KeyChange;
use crate::machine::key;
use crate::store::{self, Log, Share, Store};

/// How much of the room that is left an entry may take.
fn share(changes: &[KeyChange<'_>]) -> Share {
    let mut put = changes.iter().filter(|change| change.value.is_some()).map(|change| change.key);
    // A deletion counts keys and moves time on besides.
    if put.clone().all(|place| [key::COUNT, key::GENERATION, key::TIME].contains(&place)) {
        Share::Deletions
    } else if put.all(|place| place.first() == Some(&key::SYSTEM)) {
        Share::System
    } else {
        Share::Usual
    }
}

/// Whether the leader's store has room for an entry. Snapshots that others fetch end if a deletion
/// would not have: nothing is cleared away while they are held.
pub(super) fn has_room(
    raw: &mut RawNode<Log>,
    senders: &mut SnapshotSenders,
    changes: &[KeyChange<'_>],
) -> store::Result<bool> {
    let share = share(changes);
    let found = raw.mut_store().store_mut().has_room(changes, share)?;
    if found || share != Share::Deletions || senders.is_empty() {
        return Ok(found);
    }
    senders.end_all(raw);
    raw.mut_store().store_mut().has_room(changes, share)
}

/// State since a store had no room for the last entries that came.
#[derive(Debug, Default)]
pub(super) struct Stall {
    state: Option<Stalled>,
}

#[derive(Clone, Copy, Debug)]
struct Stalled {
    /// Ticks in which no leader is heard, for it would send the same again at once.
    ticks_left: usize,
    /// Whether the store clears garbage away: when that has ended the leader is heard at once.
    collects: bool,
}

impl Stall {
    /// Whether the store had no room, and has taken nothing since.
    pub(super) fn is_stalled(&self) -> bool {
        self.state.is_some()
    }

    /// The store had no room.
    pub(super) fn begin(&mut self, ticks_left: usize, collects: bool) {
        self.state = Some(Stalled { ticks_left, collects });
    }

    /// The store has taken entries.
    pub(super) fn end(&mut self) {
        self.state = None;
    }

    /// Whether a message is left alone because of what had no room: a leader without room for its
    /// first entry is of no use.
    pub(super) fn ignores(&self, message: &Message) -> bool {
        self.state.is_some_and(|stalled| match message.msg_type {
            MessageType::MsgTimeoutNow => true,
            MessageType::MsgSnapshot => false,
            _ => stalled.ticks_left > 0 && check::is_of_leader(message),
        })
    }

    /// A tick has passed. Returns whether the replica may want to lead.
    pub(super) fn tick(&mut self, store: &mut dyn Store) -> store::Result<bool> {
        let Some(stalled) = &mut self.state else { return Ok(true) };
        stalled.ticks_left = stalled.ticks_left.saturating_sub(1);
        if stalled.collects && !store.collects() {
            *stalled = Stalled { ticks_left: 0, collects: false };
        }
        store.has_room(&[], Share::Deletions)
    }
}
