//! How a replica comes to receive a snapshot (snapshot_receiver.rs), and goes on with it.

use raft::RawNode;
use raft::eraftpb::{Message, MessageType};

use super::postponed::{Begun, Postponed, begin};
use super::snapshot_receiver::{Offer, Receiver, Taken};
use super::{Node, Part, snapshot_receiver};
use crate::store::{self, Error, ErrorKind, Log, Store};
use crate::wire::{Chunk, PeerMessage};

fn is_full(error: &Error) -> bool {
    error.kind() == ErrorKind::Full
}

/// Whether a store has more room for a snapshot once it is emptied.
fn gains(raw: &RawNode<Log>) -> bool {
    raw.store().store().gains_by_emptying()
}

impl Node {
    /// Begins to fetch a snapshot that was offered. If it is the one that is being fetched, it goes
    /// on.
    pub(super) fn begin_incoming(&mut self, message: Message) -> store::Result<()> {
        let key = |message: &Message| {
            let metadata = message.get_snapshot().get_metadata();
            (message.from, metadata.index, metadata.term)
        };
        // One that has come whole is put in force first.
        if self.incoming.as_ref().is_some_and(Offer::is_whole) {
            return Ok(());
        }
        if let Some(offer) = self.incoming.as_mut().filter(|offer| key(&offer.message) == key(&message)) {
            offer.message = message;
            self.output.messages.push(offer.fetch());
            return Ok(());
        }
        if self.settings.receives_in_place {
            return self.begin_receiving(message);
        }
        self.begin_beside(Postponed::new(message, false))
    }

    /// Tries again to begin with an offer that was postponed, if the snapshot is still needed.
    pub(super) fn begin_postponed(&mut self) -> store::Result<()> {
        let again = self.postponed.take().and_then(|offer| offer.again(self.settings.snapshot_idle_ticks));
        match (again, &self.part) {
            (Some(offer), Part::Member(raw)) if snapshot_receiver::is_needed(raw, &offer.message) => {
                if offer.empties {
                    self.begin_emptied(offer)
                } else {
                    self.begin_beside(offer)
                }
            }
            _ => Ok(()),
        }
    }

    /// Begins to fetch a snapshot beside log and state.
    fn begin_beside(&mut self, offer: Postponed) -> store::Result<()> {
        let Part::Member(raw) = &mut self.part else { return Ok(()) };
        // Nobody may hold a snapshot of a store that is about to be replaced.
        self.snapshot_senders.clear();
        drop(raw.store().taken());
        // The chunks fetched so far are given up.
        (self.incoming, self.postponed) = (None, None);
        match begin(raw.mut_store().store_mut(), false)? {
            Begun::Now => {
                let offer = Offer::new(offer.message);
                self.output.messages.push(offer.fetch());
                self.incoming = Some(offer);
            }
            Begun::Later => self.postponed = Some(offer),
            Begun::NoRoom => {}
        }
        Ok(())
    }

    pub(super) fn tick_incoming(&mut self) {
        match self.incoming.as_mut().map(|offer| offer.tick(&self.settings)) {
            Some(Some(again)) => self.output.messages.extend(again),
            _ => self.incoming = None,
        }
    }

    /// A chunk has come. Returns whether it was of use.
    pub(super) fn take_chunk(&mut self, chunk: &Chunk) -> store::Result<bool> {
        let Part::Member(raw) = &mut self.part else { return Ok(false) };
        let Some(mut offer) = self.incoming.take() else { return Ok(false) };
        let taken = offer.take(chunk, raw.mut_store().store_mut());
        self.took(offer, taken)
    }

    /// Puts a part of a snapshot that has come whole in force. Returns whether there is more to do.
    pub(super) fn go_on_receiving(&mut self) -> store::Result<bool> {
        match &mut self.part {
            Part::Receiver(receiver) => {
                if let Some(offer) = receiver.go_on(&mut self.output)? {
                    self.received(offer)?;
                }
            }
            Part::Member(raw) => {
                let Some(mut offer) = self.incoming.take_if(|offer| offer.is_whole()) else { return Ok(false) };
                let taken = offer.go_on(raw.mut_store().store_mut());
                self.took(offer, taken)?;
            }
        }
        Ok(match &self.part {
            Part::Receiver(receiver) => receiver.has_more(),
            Part::Member(raw) => self.incoming.as_ref().is_some_and(Offer::is_whole) && !raw.store().store().finishes(),
        })
    }

    /// Whether a snapshot that has come whole is built beside what is in force.
    fn builds(&self) -> bool {
        let Part::Member(raw) = &self.part else { return false };
        self.incoming.as_ref().is_some_and(Offer::is_whole) && raw.store().store().finishes()
    }

    /// While a content is built nothing is appended or committed. Returns whether the message is
    /// left alone for that: the leader sends entries again.
    pub(super) fn holds_off(&self, message: &mut Message) -> bool {
        if !self.builds() {
            return false;
        }
        message.commit = message.commit.min(self.store().applied());
        message.msg_type == MessageType::MsgAppend
    }

    /// A part of a snapshot was taken. Returns whether it was of use.
    fn took(&mut self, offer: Offer, taken: store::Result<Taken>) -> store::Result<bool> {
        let Part::Member(raw) = &mut self.part else { return Ok(false) };
        match taken {
            Ok(Taken::Nothing) => {
                self.incoming = Some(offer);
                return Ok(false);
            }
            Ok(Taken::Whole) => self.incoming = Some(offer),
            Ok(Taken::Next(message)) => {
                self.output.messages.push(message);
                self.incoming = Some(offer);
            }
            Ok(Taken::All) => {
                let store = raw.mut_store().take_store();
                self.begin_anew(store, offer.message)?;
            }
            Err(error) if raw.store().store().is_partial() || is_full(&error) && gains(raw) => {
                self.begin_receiving(offer.message)?;
            }
            // Entries have come meanwhile, it was not whole, or it finds no room yet. If it is
            // still needed, it is offered again.
            Err(error) if error.kind() == ErrorKind::Refused || is_full(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Leaves Raft to receive a snapshot into a store that has no room for both. One that it has no
    /// room for even so leaves it as it is: it lags, but has what it has acknowledged, and votes.
    fn begin_receiving(&mut self, message: Message) -> store::Result<()> {
        let Part::Member(raw) = &mut self.part else { return Ok(()) };
        let store = raw.mut_store().store_mut();
        if !store.is_partial() && !store.takes(store.snapshot_format().check(&message.context)?) {
            return Ok(());
        }
        self.begin_emptied(Postponed::new(message, true))
    }

    /// Begins to fetch a snapshot into a store that is emptied for it.
    fn begin_emptied(&mut self, offer: Postponed) -> store::Result<()> {
        let Part::Member(raw) = &mut self.part else { return Ok(()) };
        // Nobody may hold a snapshot of a store that is about to be emptied.
        self.snapshot_senders.clear();
        drop(raw.store().taken());
        let store = raw.mut_store().store_mut();
        let begun = begin(store, true)?;
        if begun != Begun::Now && !store.is_partial() {
            self.postponed = (begun == Begun::Later).then_some(offer);
            return Ok(());
        }
        self.forget_all();
        let Part::Member(raw) = &mut self.part else { return Ok(()) };
        let mut receiver = Box::new(Receiver::new(raw.mut_store().take_store()));
        if begun == Begun::Now {
            receiver.fetch(offer.message, &mut self.output);
        } else {
            receiver.postpone(offer);
        }
        self.part = Part::Receiver(receiver);
        Ok(())
    }

    /// Takes part in Raft again.
    pub(super) fn received(&mut self, offer: Message) -> store::Result<()> {
        let Part::Receiver(receiver) = &mut self.part else { return Ok(()) };
        let store = receiver.take_store();
        self.begin_anew(store, offer)
    }

    /// Begins Raft anew on what was received.
    fn begin_anew(&mut self, store: Box<dyn Store>, offer: Message) -> store::Result<()> {
        self.forget_all();
        self.part = Part::Member(Box::new(self.settings.open(store)?));
        self.stalled = None;
        self.step(PeerMessage::Raft(offer)).map(drop)
    }
}
