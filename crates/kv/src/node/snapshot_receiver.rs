//! Receiving a snapshot, by chunks that are fetched from the leader, one at a time.
//!
//! If the store has room for both, it keeps log and state until the snapshot is whole, and the
//! replica goes on as a member of Raft: whatever fails, it is as it was. Else the store is emptied
//! first, and meanwhile the replica takes no part in Raft. It must not vote then, for it lacks
//! entries that it has acknowledged. It answers heartbeats, so that the leader stays one that has
//! it in its quorum.
//!
//! When the content is whole, Raft begins anew on it, and is given the offer, so that it
//! acknowledges it.

use raft::RawNode;
use raft::eraftpb::{Message, MessageType, SnapshotMetadata};

use super::output::Output;
use super::postponed::{Begun, Postponed, begin};
use super::settings::Settings;
use crate::codec::all_members;
use crate::store::{self, ErrorKind, Log, Store};
use crate::wire::{Chunk, Fetch, PeerMessage};

/// Ticks without a chunk after which it is asked for again.
const AGAIN_TICKS: usize = 3;

/// Outcome of a chunk.
pub(super) enum Taken {
    /// It was another's.
    Nothing,
    /// The next is fetched.
    Next(PeerMessage),
    /// There are no more, and they are being installed.
    Whole,
    /// It is installed.
    All,
}

/// A snapshot that is fetched.
pub(super) struct Offer {
    /// Raft's message, which is acknowledged in the end.
    pub(super) message: Message,
    /// Number of the next chunk.
    next: u32,
    idle_ticks: usize,
    /// Whether all chunks have come.
    is_whole: bool,
}

impl Offer {
    pub(super) fn new(message: Message) -> Self {
        Self { message, next: 0, idle_ticks: 0, is_whole: false }
    }

    /// Whether all chunks have come. It is installed by [`Offer::go_on`].
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Installs a part of the whole. Errors: as of [`Offer::take`].
    pub(super) fn go_on(&mut self, store: &mut dyn Store) -> store::Result<Taken> {
        Ok(if store.finish_some(self.metadata())? { Taken::All } else { Taken::Whole })
    }

    /// Puts a chunk into the store, and after the last installs a part of the whole. Errors:
    /// `Refused` and `Full`, after which it begins again.
    pub(super) fn take(&mut self, chunk: &Chunk, store: &mut dyn Store) -> store::Result<Taken> {
        let SnapshotMetadata { index, term, .. } = *self.metadata();
        let is_next =
            (chunk.from, chunk.index, chunk.term, chunk.number) == (self.message.from, index, term, self.next);
        if self.is_whole || !is_next {
            return Ok(Taken::Nothing);
        }
        store.push(chunk.number, &chunk.bytes)?;
        if chunk.is_last {
            self.is_whole = true;
            return self.go_on(store);
        }
        (self.next, self.idle_ticks) = (self.next + 1, 0);
        Ok(Taken::Next(self.fetch()))
    }

    /// A tick has passed. Returns the fetch to send again, or `None` if the sender is gone or has
    /// dropped the snapshot.
    pub(super) fn tick(&mut self, settings: &Settings) -> Option<Option<PeerMessage>> {
        if self.is_whole {
            return Some(None);
        }
        self.idle_ticks += 1;
        let again = self.idle_ticks.is_multiple_of(AGAIN_TICKS).then(|| self.fetch());
        (self.idle_ticks < settings.snapshot_idle_ticks).then_some(again)
    }

    fn metadata(&self) -> &SnapshotMetadata {
        self.message.get_snapshot().get_metadata()
    }

    pub(super) fn fetch(&self) -> PeerMessage {
        let SnapshotMetadata { index, term, .. } = *self.metadata();
        let Message { from, to, .. } = self.message;
        PeerMessage::Fetch(Fetch { from: to, to: from, index, term, number: self.next })
    }
}

/// A replica that waits for a snapshot, or is fetching one.
pub(super) struct Receiver {
    log: Log,
    offer: Option<Offer>,
    /// One that the store cannot begin to receive yet.
    postponed: Option<Postponed>,
}

/// Whether the content of an offered snapshot is needed: the log does not lead to its index.
pub(super) fn is_needed(raw: &RawNode<Log>, message: &Message) -> bool {
    let SnapshotMetadata { index, term, .. } = *message.get_snapshot().get_metadata();
    let log = &raw.raft.raft_log;
    message.term >= raw.raft.term
        && index > log.committed
        && !log.match_term(index, term)
        && names(message, raw.raft.id)
}

/// Whether a replica is one of the members of an offered snapshot.
fn names(message: &Message, id: u64) -> bool {
    all_members(message.get_snapshot().get_metadata().get_conf_state()).contains(&id)
}

impl Receiver {
    pub(super) fn new(store: Box<dyn Store>) -> Self {
        // It gives no snapshots.
        Self { log: Log::new(store, 0), offer: None, postponed: None }
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.log.store()
    }

    pub(super) fn take_store(&mut self) -> Box<dyn Store> {
        self.log.take_store()
    }

    /// Begins with a snapshot that was offered.
    pub(super) fn begin(&mut self, message: Message, output: &mut Output) -> store::Result<()> {
        self.begin_with(Postponed::new(message, true), output)
    }

    fn begin_with(&mut self, offer: Postponed, output: &mut Output) -> store::Result<()> {
        self.offer = None;
        match begin(self.log.store_mut(), true)? {
            Begun::Now => self.fetch(offer.message, output),
            Begun::Later => self.postpone(offer),
            Begun::NoRoom => {}
        }
        Ok(())
    }

    /// Tries an offer again at the next tick.
    pub(super) fn postpone(&mut self, offer: Postponed) {
        self.postponed = Some(offer);
    }

    /// Fetches a snapshot for which the store waits.
    pub(super) fn fetch(&mut self, message: Message, output: &mut Output) {
        let offer = Offer::new(message);
        output.messages.push(offer.fetch());
        (self.offer, self.postponed) = (Some(offer), None);
    }

    pub(super) fn tick(&mut self, settings: &Settings, output: &mut Output) -> store::Result<()> {
        if let Some(offer) = self.postponed.take().and_then(|offer| offer.again(settings.snapshot_idle_ticks)) {
            return self.begin_with(offer, output);
        }
        match self.offer.as_mut().map(|offer| offer.tick(settings)) {
            Some(Some(again)) => output.messages.extend(again),
            // Another offer comes.
            _ => self.offer = None,
        }
        Ok(())
    }

    /// Takes a message. Returns the offer when its content is whole.
    pub(super) fn step(
        &mut self,
        message: PeerMessage,
        id: u64,
        output: &mut Output,
    ) -> store::Result<Option<Message>> {
        match message {
            PeerMessage::Raft(message) if message.term >= self.log.store().persistent_state().term => {
                self.step_raft(message, id, output).map(|()| None)
            }
            PeerMessage::Chunk(chunk) => self.take(&chunk, output),
            _ => Ok(None),
        }
    }

    fn step_raft(&mut self, message: Message, id: u64, output: &mut Output) -> store::Result<()> {
        let Message { from, to, term, index, .. } = message;
        let answer = Message { from: to, to: from, term, ..Message::default() };
        match message.msg_type {
            MessageType::MsgHeartbeat => {
                let (msg_type, context) = (MessageType::MsgHeartbeatResponse, message.context);
                output.send(Message { msg_type, context, ..answer });
            }
            // The leader does not know that there is nothing here: so it goes back to before its
            // first entry, and offers a snapshot.
            MessageType::MsgAppend => {
                output.send(Message { msg_type: MessageType::MsgAppendResponse, index, reject: true, ..answer });
            }
            MessageType::MsgSnapshot if names(&message, id) => {
                let bytes = self.log.store().snapshot_format().check(&message.context)?;
                if !self.log.store().takes(bytes) {
                    return Ok(());
                }
                let metadata = message.get_snapshot().get_metadata();
                let key = (from, metadata.index, metadata.term);
                let is_known = |offer: &Offer| {
                    let metadata = offer.metadata();
                    (offer.message.from, metadata.index, metadata.term) == key
                };
                match &mut self.offer {
                    Some(offer) if is_known(offer) => {
                        offer.message = message;
                        output.messages.push(offer.fetch());
                    }
                    Some(offer) if offer.message.term > term || offer.is_whole => {}
                    _ => self.begin(message, output)?,
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn take(&mut self, chunk: &Chunk, output: &mut Output) -> store::Result<Option<Message>> {
        let Some(offer) = &mut self.offer else { return Ok(None) };
        let taken = offer.take(chunk, self.log.store_mut());
        self.took(taken, output)
    }

    /// Installs a part of what has come whole. Returns the offer when all is installed.
    pub(super) fn go_on(&mut self, output: &mut Output) -> store::Result<Option<Message>> {
        let Some(offer) = self.offer.as_mut().filter(|offer| offer.is_whole) else { return Ok(None) };
        let taken = offer.go_on(self.log.store_mut());
        self.took(taken, output)
    }

    /// Whether an installation is under way that does not go on by itself.
    pub(super) fn has_more(&self) -> bool {
        self.offer.as_ref().is_some_and(Offer::is_whole) && !self.log.store().finishes()
    }

    fn took(&mut self, taken: store::Result<Taken>, output: &mut Output) -> store::Result<Option<Message>> {
        let Some(offer) = &mut self.offer else { return Ok(None) };
        match taken {
            Ok(Taken::Nothing | Taken::Whole) => {}
            Ok(Taken::Next(message)) => output.messages.push(message),
            Ok(Taken::All) => return Ok(self.offer.take().map(|offer| offer.message)),
            Err(error) if error.kind() == ErrorKind::Refused => {
                let message = offer.message.clone();
                self.begin(message, output)?;
            }
            // Less may be offered later.
            Err(error) if error.kind() == ErrorKind::Full => self.offer = None,
            Err(error) => return Err(error),
        }
        Ok(None)
    }
}
