//! How a replica comes to receive a snapshot (receiver.rs), and goes on with it.

use raft::eraftpb::Message;

use super::receiver::{Offer, Receiver, Taken};
use super::{Node, Part};
use crate::store::{self, ErrorKind, Store};
use crate::wire::{Chunk, Letter};

impl Node {
    /// Begins to fetch a snapshot that was offered. If it is the one that is being fetched, it goes on.
    pub(super) fn begin_incoming(&mut self, message: Message) -> store::Result<()> {
        let Part::Member(raw) = &mut self.part else { return Ok(()) };
        let key = |message: &Message| {
            let metadata = message.get_snapshot().get_metadata();
            (message.from, metadata.index, metadata.term)
        };
        if let Some(offer) = self.incoming.as_mut().filter(|offer| key(&offer.message) == key(&message)) {
            offer.message = message;
            self.output.letters.push(offer.fetch());
            return Ok(());
        }
        if self.settings.receives_in_place {
            return self.begin_receiving(message);
        }
        // Nobody may hold a snapshot of a store that is about to be replaced.
        self.giving.clear();
        drop(raw.store().taken());
        match raw.mut_store().store_mut().receive(false) {
            Err(error) if error.kind() == ErrorKind::Unready => return Ok(()),
            begun => begun?,
        }
        let offer = Offer::new(message);
        self.output.letters.push(offer.fetch());
        self.incoming = Some(offer);
        Ok(())
    }

    pub(super) fn tick_incoming(&mut self) {
        match self.incoming.as_mut().map(|offer| offer.tick(&self.settings)) {
            Some(Some(again)) => self.output.letters.extend(again),
            _ => self.incoming = None,
        }
    }

    /// A chunk has come. Returns whether it was of use.
    pub(super) fn take_chunk(&mut self, chunk: &Chunk) -> store::Result<bool> {
        let Part::Member(raw) = &mut self.part else { return Ok(false) };
        let Some(mut offer) = self.incoming.take() else { return Ok(false) };
        match offer.take(chunk, raw.mut_store().store_mut()) {
            Ok(Taken::Nothing) => {
                self.incoming = Some(offer);
                return Ok(false);
            }
            Ok(Taken::Next(letter)) => {
                self.output.letters.push(letter);
                self.incoming = Some(offer);
            }
            Ok(Taken::All) => {
                let store = raw.mut_store().take_store();
                self.begin_anew(store, offer.message)?;
            }
            Err(error) if error.kind() == ErrorKind::Full || raw.store().store().is_partial() => {
                self.begin_receiving(offer.message)?;
            }
            // Entries have come meanwhile, or it was not whole. If it is still needed, it is offered again.
            Err(error) if error.kind() == ErrorKind::Refused => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Leaves Raft to receive a snapshot into a store that has no room for both. One that it has no room for even so leaves it as it is: it
    /// lags, but has what it has acknowledged, and votes.
    fn begin_receiving(&mut self, message: Message) -> store::Result<()> {
        let Part::Member(raw) = &mut self.part else { return Ok(()) };
        // Nobody may hold a snapshot of a store that is about to be emptied.
        self.giving.clear();
        drop(raw.store().taken());
        let store = raw.mut_store().store_mut();
        if !store.is_partial() && !store.takes(store.snapshot_format().check(&message.context)?) {
            return Ok(());
        }
        match store.receive(true) {
            Err(error) if error.kind() == ErrorKind::Unready => return Ok(()),
            begun => begun?,
        }
        self.forget_all();
        let Part::Member(raw) = &mut self.part else { return Ok(()) };
        let mut receiver = Box::new(Receiver::new(raw.mut_store().take_store()));
        receiver.fetch(message, &mut self.output);
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
        self.step(Letter::Raft(offer)).map(drop)
    }
}
