//! Snapshots of a replica: how it comes to receive one, and takes part in Raft again.

use raft::eraftpb::Message;

use super::postponed::{Begun, Postponed, begin};
use super::snapshot_receipt::Next;
use super::snapshot_receiver::Receiver;
use super::unpersisted::Unpersisted;
use super::{Mode, Node};
use crate::store::{self, Store};
use crate::wire::{Chunk, PeerMessage};

impl Node {
    /// A chunk has come. Returns whether it was of use.
    pub(super) fn take_chunk(&mut self, chunk: &Chunk) -> store::Result<bool> {
        let Mode::Member(raw) = &mut self.mode else { return Ok(false) };
        let (is_used, next) = self.receipt.take(chunk, raw, &mut self.output)?;
        self.receive(next)?;
        Ok(is_used)
    }

    /// Installs a part of a snapshot that has come whole. Returns whether there is more to do.
    pub(super) fn go_on_receiving(&mut self) -> store::Result<bool> {
        match &mut self.mode {
            Mode::Receiver(receiver) => {
                if let Some(offer) = receiver.go_on(&mut self.output)? {
                    self.begin_anew(offer)?;
                }
            }
            Mode::Member(raw) => {
                let next = self.receipt.go_on(raw, &mut self.output)?;
                self.receive(next)?;
            }
        }
        Ok(match &self.mode {
            Mode::Receiver(receiver) => receiver.has_more(),
            Mode::Member(raw) => self.receipt.has_more(raw),
        })
    }

    /// Goes on with a receipt.
    pub(super) fn receive(&mut self, next: Next) -> store::Result<()> {
        match next {
            Next::Wait => Ok(()),
            Next::Empty(offer) => self.begin_emptied(offer),
            Next::Begin(message) => self.begin_anew(message),
        }
    }

    /// Leaves Raft, and begins to fetch a snapshot into a store that is emptied for it.
    fn begin_emptied(&mut self, offer: Postponed) -> store::Result<()> {
        let Mode::Member(raw) = &mut self.mode else { return Ok(()) };
        // Nobody may hold a snapshot of a store that is about to be emptied.
        self.senders.clear();
        drop(raw.store().taken());
        let store = raw.mut_store().store_mut();
        let begun = begin(store, true)?;
        if begun != Begun::Now && !store.is_partial() {
            self.receipt.postpone((begun == Begun::Later).then_some(offer));
            return Ok(());
        }
        let mut receiver = Box::new(Receiver::new(self.mode.take_store()));
        self.forget_all();
        if begun == Begun::Now {
            receiver.fetch(offer.message, &mut self.output);
        } else {
            receiver.postpone(offer);
        }
        self.mode = Mode::Receiver(receiver);
        Ok(())
    }

    /// Begins Raft anew on a snapshot that was received, with the message that has offered it.
    pub(super) fn begin_anew(&mut self, offer: Message) -> store::Result<()> {
        let store = self.mode.take_store();
        self.open_anew(store)?;
        self.stall.end();
        self.step(PeerMessage::Raft(offer)).map(drop)
    }

    /// Runs Raft anew on a store.
    pub(super) fn open_anew(&mut self, store: Box<dyn Store>) -> store::Result<()> {
        self.forget_all();
        self.mode = Mode::Member(Box::new(self.settings.open(store)?));
        Ok(())
    }

    /// Forgets what Raft has reported, and fails what waits: Raft begins anew.
    fn forget_all(&mut self) {
        self.unpersisted = Unpersisted::default();
        self.senders.clear();
        self.receipt.clear();
        // A leader that has been heard before may have sent what is received.
        self.elections.hear_leader(&self.settings);
        self.proposals.fail(&mut self.output);
        self.reads.fail(&mut self.output);
    }
}
