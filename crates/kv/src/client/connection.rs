//! One connection: its parts, of which each is borrowed by itself, and what concerns several of
//! them.

use super::blocking::Blocking;
use super::input::Input;
use super::lifecycle::Lifecycle;
use super::login::Login;
use super::output::Output;
use super::peer_sessions::ProxiedRequest;
use super::profile::{Peer, Profile};
use super::slots::{Slots, State};
use super::transaction_state::{Transaction, Watched};
use crate::resp::{Protocol, Reply};

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    token: u32,
    pub profile: Profile,
    pub login: Login,
    pub input: Input,
    /// Replies that are not in the output yet.
    pub slots: Slots,
    pub output: Output,
    pub transaction: Option<Transaction>,
    pub watched: Watched,
    pub blocking: Blocking,
    /// The newest entry that its commands have made or rest on, which its reads must have seen.
    pub newest: u64,
    /// Whether it reads what is applied here, without asking the leader: READONLY.
    pub is_readonly: bool,
    /// Request of another replica that it is there for, if it is not a client's.
    pub proxied: Option<ProxiedRequest>,
    pub lifecycle: Lifecycle,
}

impl Connection {
    pub(super) fn new(id: u64, token: u32, first: u64, peer: Peer, now_us: u64) -> Self {
        Self {
            token,
            profile: Profile::new(id, peer, now_us),
            login: Login::default(),
            input: Input::default(),
            slots: Slots::new(first),
            output: Output::default(),
            transaction: None,
            watched: Watched::default(),
            blocking: Blocking::default(),
            newest: 0,
            is_readonly: false,
            proxied: None,
            lifecycle: Lifecycle::default(),
        }
    }

    /// Where it lies in the table, which another may take after it.
    pub(super) fn token(&self) -> u32 {
        self.token
    }

    /// Makes it as it was at its beginning, but for who it is.
    pub(super) fn reset(&mut self) {
        self.discard();
        self.output.reset();
        self.is_readonly = false;
        self.profile.reset();
    }

    /// Gives up its transaction and forgets the watched keys.
    pub(super) fn discard(&mut self) {
        (self.transaction, self.watched) = (None, Watched::default());
    }

    /// Lets EXEC do nothing, for a request was refused.
    pub(super) fn spoil(&mut self) {
        self.transaction.iter_mut().for_each(Transaction::spoil);
    }

    /// Adds a reply, or what is to become one.
    pub(super) fn push(&mut self, state: State) -> u64 {
        self.slots.push(self.output.protocol(), self.output.is_mute(), self.input.taken(), state)
    }

    /// Replies.
    pub(super) fn say(&mut self, reply: Reply) {
        if self.slots.is_empty() {
            self.output.say(&reply);
        } else {
            self.push(State::Answered(reply));
        }
    }

    /// Bytes of replies that have not been written to the client.
    pub(super) fn reply_bytes(&self) -> usize {
        self.output.buffer().len() + self.slots.bytes()
    }

    /// Bytes of all that waits here, roughly: requests, whole or not, and replies.
    pub(super) fn bytes(&self) -> usize {
        let queued = self.transaction.as_ref().map_or(0, Transaction::bytes);
        let asked = self.input.bytes_held() + self.argument_bytes();
        asked + queued + self.watched.bytes() + self.blocking.bytes() + self.reply_bytes()
    }

    /// Bytes of requests that have come whole and are not done, roughly.
    fn argument_bytes(&self) -> usize {
        self.slots.read_bytes().max(self.slots.kept_bytes(self.input.taken())) + self.input.parked_bytes()
    }

    /// Gives up what waits, for it is to be closed at once.
    pub(super) fn kill(&mut self) {
        self.lifecycle.kill();
        self.input = Input::default();
        self.output.clear();
        self.discard();
        self.blocking.take_listing();
    }

    /// Line of CLIENT LIST and ACL LOG about it.
    pub(super) fn line(&self, now_us: u64) -> String {
        let Self { transaction, slots, .. } = self;
        let flags = match (transaction, self.blocking.wait(), self.is_readonly) {
            (Some(_), ..) => "x",
            (_, Some(_), _) => "b",
            (.., true) => "r",
            _ => "N",
        };
        let multi = transaction.as_ref().map_or(-1, |transaction| transaction.requests().len() as i64);
        let (output, capacity) = (self.output.buffer().len(), self.output.buffer().capacity());
        let state = format!(
            "flags={flags} db=0 sub=0 psub=0 ssub=0 multi={multi} qbuf={} qbuf-free=0 argv-mem={} multi-mem={} rbs={capacity} rbp={capacity} obl={output} oll={} omem={} tot-mem={} events=r",
            self.input.bytes_held(),
            self.argument_bytes(),
            transaction.as_ref().map_or(0, Transaction::bytes),
            slots.len(),
            slots.bytes(),
            self.bytes() + size_of::<Self>(),
        );
        let protocol = if self.output.protocol() == Protocol::Resp3 { 3 } else { 2 };
        let login = format!("user={} redir=-1 resp={protocol}", String::from_utf8_lossy(self.login.user()));
        self.profile.line(now_us, self.token, &state, &login)
    }
}
