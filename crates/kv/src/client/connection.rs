//! One connection.

use bytes::{Bytes, BytesMut};

use super::connection_state::{ProxiedRequest, Transaction, Wait, Watched};
use super::slots::{Slots, State, weight};
use crate::command::Listing;
use crate::resp::{Protocol, Reply, Requests};

/// Other end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its address, as CLIENT LIST says it: `127.0.0.1:50000`, or the path of a Unix socket and
    /// `:0`.
    pub address: String,
    /// The address that it has connected to.
    pub local: String,
    /// Whether it is refused while whoever connects may do everything: it is on another machine,
    /// and has shown no certificate.
    pub is_remote: bool,
}

/// Which replies a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// All.
    #[default]
    All,
    /// None.
    None,
    /// All from behind the next request on: it is not told yet which that is.
    SkipNext,
    /// All but that to the present request.
    AllButThis,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// Its id, which no other connection has had since the process was started.
    pub id: u64,
    /// Where it lies in the table, which another may take after it.
    pub token: u32,
    pub peer: Peer,
    pub requests: Requests,
    pub slots: Slots,
    /// Bytes to be written.
    pub output: BytesMut,
    pub protocol: Protocol,
    pub wanted: Wanted,
    /// User whose rights it has.
    pub user: Bytes,
    /// Whether it has said who it is, where that is asked for.
    pub is_known: bool,
    /// Whether it has shown a password.
    pub has_logged_in: bool,
    /// Whether a request of it that changes users was done last. What follows waits for the answer,
    /// for it rests on that.
    pub changes_users: bool,
    pub name: Bytes,
    /// The client library's name and version, as it gives them.
    pub library: [Bytes; 2],
    /// Whether it reads what is applied here, without asking the leader.
    pub is_readonly: bool,
    /// When it was opened, and when its last request came, in microseconds since 1970.
    pub opened_us: u64,
    pub active_us: u64,
    /// The name of its last command.
    pub command: &'static str,
    /// Whether requests have come that are not looked at: too much is under way, or one waits.
    pub is_held: bool,
    /// Whether it is closed when all replies are written.
    pub is_over: bool,
    /// Whether it is in the list of those that the reactor must look at.
    pub is_woken: bool,
    /// The newest entry that its commands have made or rest on.
    pub newest: u64,
    /// A request that waits until those before it are answered.
    pub parked: Option<Vec<Bytes>>,
    /// Whether that waits until the store has made room.
    pub waits_for_room: bool,
    /// Condition of a WAIT.
    pub wait: Option<Wait>,
    pub transaction: Option<Transaction>,
    pub watched: Watched,
    /// Whether nothing more is done until the leader has answered: to WAIT, or to WATCH, whose
    /// versions it tells.
    pub is_asking: bool,
    /// Whether nothing more is done until its KEYS is, and how far that is.
    pub is_listing: bool,
    pub listing: Option<Listing>,
    /// Microseconds that it has taken.
    pub listed_us: u64,
    /// Request of another replica that it is there for, if it is not a client's.
    pub proxied: Option<ProxiedRequest>,
    /// Whether it is closed at once.
    pub is_killed: bool,
    /// Bytes that it had when they were counted last.
    pub counted_bytes: usize,
}

impl Connection {
    pub fn new(id: u64, token: u32, first: u64, peer: Peer, now_us: u64) -> Self {
        Self {
            id,
            token,
            peer,
            requests: Requests::default(),
            slots: Slots::new(first),
            output: BytesMut::new(),
            protocol: Protocol::Resp2,
            wanted: Wanted::All,
            user: Bytes::from_static(b"default"),
            is_known: false,
            has_logged_in: false,
            changes_users: false,
            name: Bytes::new(),
            library: [Bytes::new(), Bytes::new()],
            is_readonly: false,
            opened_us: now_us,
            active_us: now_us,
            command: "NULL",
            is_held: false,
            is_over: false,
            is_woken: false,
            newest: 0,
            parked: None,
            waits_for_room: false,
            wait: None,
            transaction: None,
            watched: Watched::default(),
            is_asking: false,
            is_listing: false,
            listing: None,
            listed_us: 0,
            proxied: None,
            is_killed: false,
            counted_bytes: 0,
        }
    }

    /// Makes it as it was at its beginning, but for who it is.
    pub fn reset(&mut self) {
        self.transaction = None;
        self.watched = Watched::default();
        self.protocol = Protocol::Resp2;
        self.wanted = Wanted::All;
        self.is_readonly = false;
        self.name = Bytes::new();
    }

    /// Lets EXEC do nothing, for a request was refused.
    pub fn spoil(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.is_spoilt = true;
        }
    }

    /// Adds a reply, or what is to become one.
    pub fn push(&mut self, state: State) -> u64 {
        let is_mute = self.wanted != Wanted::All;
        self.slots.push(self.protocol, is_mute, self.requests.taken(), state)
    }

    /// Replies.
    pub fn say(&mut self, reply: Reply) {
        if self.slots.is_empty() {
            if self.wanted == Wanted::All {
                reply.write(self.protocol, &mut self.output);
            }
        } else {
            self.push(State::Answered(reply));
        }
    }

    /// Bytes of replies that have not been written to the client.
    pub fn reply_bytes(&self) -> usize {
        self.output.len() + self.slots.bytes()
    }

    /// Bytes of all that waits here, roughly: requests, whole or not, and replies.
    pub fn bytes(&self) -> usize {
        let queued = self.transaction.as_ref().map_or(0, |transaction| transaction.bytes);
        let asked = self.requests.bytes_held() + self.argument_bytes();
        let listed = self.listing.as_ref().map_or(0, Listing::bytes);
        asked + queued + self.watched.bytes + listed + self.reply_bytes()
    }

    /// Bytes of requests that have come whole and are not done, roughly.
    pub fn argument_bytes(&self) -> usize {
        let parked = self.parked.as_ref().map_or(0, |request| weight(request));
        self.slots.read_bytes().max(self.slots.kept_bytes(self.requests.taken())) + parked
    }

    /// Gives up what waits, for it is to be closed at once.
    pub fn kill(&mut self) {
        self.is_killed = true;
        (self.requests, self.output) = (Requests::default(), BytesMut::new());
        (self.transaction, self.parked, self.watched) = (None, None, Watched::default());
        self.listing = None;
    }
}
