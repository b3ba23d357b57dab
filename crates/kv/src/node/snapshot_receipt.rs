//! A snapshot that is received while the replica takes part in Raft: beside log and state, or,
//! where the store has no room for both, in their place (snapshot_receiver.rs).

use raft::RawNode;
use raft::eraftpb::{Message, MessageType};

use super::output::Output;
use super::postponed::{Begun, Postponed, begin};
use super::settings::Settings;
use super::snapshot_receiver::{Offer, Taken, is_needed};
use super::snapshot_sender::SnapshotSenders;
use crate::store::{self, Error, ErrorKind, Log, Store};
use crate::wire::Chunk;

/// Continuation of a receipt that concerns the replica as a whole.
pub(super) enum Next {
    /// Nothing.
    Wait,
    /// The store is emptied, for an offer that it has no room for beside its content.
    Empty(Postponed),
    /// Raft begins anew on the installed content, with its message.
    Begin(Message),
}

/// The snapshot, if one is offered or received.
#[derive(Default)]
pub(super) struct SnapshotReceipt {
    offer: Option<Offer>,
    /// An offer whose content cannot be received yet.
    postponed: Option<Postponed>,
}

fn is_full(error: &Error) -> bool {
    error.kind() == ErrorKind::Full
}

/// Leads to a receipt into an emptied store. A snapshot that the store has no room for even so
/// leaves it as it is: the replica lags, but has what it has acknowledged, and votes.
fn in_place(message: Message, raw: &RawNode<Log>) -> store::Result<Next> {
    let store = raw.store().store();
    if !store.is_partial() && !store.takes(store.snapshot_format().check(&message.context)?) {
        return Ok(Next::Wait);
    }
    Ok(Next::Empty(Postponed::new(message, true)))
}

impl SnapshotReceipt {
    /// Whether one is received.
    pub(super) fn is_any(&self) -> bool {
        self.offer.is_some()
    }

    /// Whether a snapshot has come whole and is being installed.
    fn is_whole(&self) -> bool {
        self.offer.as_ref().is_some_and(Offer::is_whole)
    }

    /// Gives up what is received.
    pub(super) fn clear(&mut self) {
        (self.offer, self.postponed) = (None, None);
    }

    /// Tries an offer again at the next tick.
    pub(super) fn postpone(&mut self, offer: Option<Postponed>) {
        self.postponed = offer;
    }

    /// Begins to fetch a snapshot that was offered. If it is the one that is being fetched, it goes
    /// on.
    pub(super) fn begin(
        &mut self,
        message: Message,
        raw: &mut RawNode<Log>,
        senders: &mut SnapshotSenders,
        settings: &Settings,
        output: &mut Output,
    ) -> store::Result<Next> {
        let key = |message: &Message| {
            let metadata = message.get_snapshot().get_metadata();
            (message.from, metadata.index, metadata.term)
        };
        // One that has come whole is installed first.
        if self.is_whole() {
            return Ok(Next::Wait);
        }
        if let Some(offer) = self.offer.as_mut().filter(|offer| key(&offer.message) == key(&message)) {
            offer.message = message;
            output.messages.push(offer.fetch());
            return Ok(Next::Wait);
        }
        if settings.receives_in_place {
            return in_place(message, raw);
        }
        self.begin_beside(Postponed::new(message, false), raw, senders, output)
    }

    /// A tick has passed: asks for a chunk again, and tries again to begin with an offer that was
    /// postponed, if the snapshot is still needed.
    pub(super) fn tick(
        &mut self,
        raw: &mut RawNode<Log>,
        senders: &mut SnapshotSenders,
        settings: &Settings,
        output: &mut Output,
    ) -> store::Result<Next> {
        match self.offer.as_mut().map(|offer| offer.tick(settings)) {
            Some(Some(again)) => output.messages.extend(again),
            _ => self.offer = None,
        }
        match self.postponed.take().and_then(|offer| offer.again(settings.snapshot_idle_ticks)) {
            Some(offer) if !is_needed(raw, &offer.message) => Ok(Next::Wait),
            Some(offer) if offer.empties => Ok(Next::Empty(offer)),
            Some(offer) => self.begin_beside(offer, raw, senders, output),
            None => Ok(Next::Wait),
        }
    }

    /// Begins to fetch a snapshot beside log and state.
    fn begin_beside(
        &mut self,
        offer: Postponed,
        raw: &mut RawNode<Log>,
        senders: &mut SnapshotSenders,
        output: &mut Output,
    ) -> store::Result<Next> {
        // Nobody may hold a snapshot of a store that is about to be replaced.
        senders.clear();
        drop(raw.store().taken());
        // The chunks fetched so far are given up.
        self.clear();
        match begin(raw.mut_store().store_mut(), false)? {
            Begun::Now => {
                let offer = Offer::new(offer.message);
                output.messages.push(offer.fetch());
                self.offer = Some(offer);
            }
            Begun::Later => self.postponed = Some(offer),
            Begun::NoRoom => {}
        }
        Ok(Next::Wait)
    }

    /// A chunk has come. Returns also whether it was of use.
    pub(super) fn take(
        &mut self,
        chunk: &Chunk,
        raw: &mut RawNode<Log>,
        output: &mut Output,
    ) -> store::Result<(bool, Next)> {
        let Some(mut offer) = self.offer.take() else { return Ok((false, Next::Wait)) };
        let taken = offer.take(chunk, raw.mut_store().store_mut());
        let is_used = !matches!(taken, Ok(Taken::Nothing));
        self.took(offer, taken, raw, output).map(|next| (is_used, next))
    }

    /// Installs a part of a snapshot that has come whole.
    pub(super) fn go_on(&mut self, raw: &mut RawNode<Log>, output: &mut Output) -> store::Result<Next> {
        let Some(mut offer) = self.offer.take_if(|offer| offer.is_whole()) else { return Ok(Next::Wait) };
        let taken = offer.go_on(raw.mut_store().store_mut());
        self.took(offer, taken, raw, output)
    }

    /// Whether an installation is under way that does not go on by itself.
    pub(super) fn has_more(&self, raw: &RawNode<Log>) -> bool {
        self.is_whole() && !raw.store().store().finishes()
    }

    /// While a content is built beside the current one nothing is appended or committed. Returns
    /// whether the message is left alone for that: the leader sends entries again.
    pub(super) fn holds_off(&self, message: &mut Message, store: &dyn Store) -> bool {
        if !(self.is_whole() && store.finishes()) {
            return false;
        }
        message.commit = message.commit.min(store.applied());
        message.msg_type == MessageType::MsgAppend
    }

    /// A part of a snapshot was taken.
    fn took(
        &mut self,
        offer: Offer,
        taken: store::Result<Taken>,
        raw: &RawNode<Log>,
        output: &mut Output,
    ) -> store::Result<Next> {
        let store = raw.store().store();
        match taken {
            Ok(Taken::Nothing | Taken::Whole) => self.offer = Some(offer),
            Ok(Taken::Next(message)) => {
                output.messages.push(message);
                self.offer = Some(offer);
            }
            Ok(Taken::All) => return Ok(Next::Begin(offer.message)),
            Err(error) if store.is_partial() || is_full(&error) && store.gains_by_emptying() => {
                return in_place(offer.message, raw);
            }
            // Entries have come meanwhile, it was not whole, or it finds no room yet. If it is
            // still needed, it is offered again.
            Err(error) if error.kind() == ErrorKind::Refused || is_full(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(Next::Wait)
    }
}
