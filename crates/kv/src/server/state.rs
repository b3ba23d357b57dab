//! Parts of a server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

use mio::{Poll, Token};
use raft::eraftpb::ConfState;
use slog::{Logger, warn};

use super::channel::Channel;
use super::clock::{self, Clock};
use super::descriptors;
use super::handshake::{Addresses, Hello};
use super::histogram::Histogram;
use super::http::Browser;
use super::inbound::Inbound;
use super::leader_tasks::LeaderTasks;
use super::link::{Link, Links, Plan};
use super::metrics::Traffic;
use super::peer_directory::PeerDirectory;
use super::pool::{self, Lock, StartError};
use super::process;
use super::refusals::Refusals;
use super::renewal::Renewal;
use super::socket::Listener;
use super::tls::{TlsAcceptor, TlsConnector};
use crate::client::{self, Clients};
use crate::config::{Config, StoreKind, is_loopback};
use crate::node::{self, ClockStatus, LeaseSettings, Node};

/// Most connections at the address for browsers.
pub const BROWSERS_MAX: usize = 64;
/// Bytes that are read at a time.
const SCRATCH_BYTES: usize = 64 << 10;
/// Marks tickets that are the server's own.
pub const OWN: u64 = 1 << 63;

/// For whom a socket listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Clients.
    Client,
    /// Replicas and operators.
    Peer,
    /// Browsers.
    Browser,
}

impl Port {
    /// Its name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Port::Client => "clients",
            Port::Peer => "peers",
            Port::Browser => "http",
        }
    }
}

/// Source of a poll event. The number of a token is this and a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Listener,
    Client,
    Link,
    Inbound,
    Browser,
    Signal,
    Forwards,
}

const SOURCES: [Source; 7] = [
    Source::Listener,
    Source::Client,
    Source::Link,
    Source::Inbound,
    Source::Browser,
    Source::Signal,
    Source::Forwards,
];
const SOURCE_SHIFT: u32 = 56;

impl Source {
    /// The token of a key.
    pub fn token(self, key: u64) -> Token {
        Token(((self as u64) << SOURCE_SHIFT | key) as usize)
    }

    /// Source of a token, and its key.
    pub fn of(token: Token) -> (Source, u64) {
        let word = token.0 as u64;
        (SOURCES[(word >> SOURCE_SHIFT) as usize % SOURCES.len()], word & ((1 << SOURCE_SHIFT) - 1))
    }
}

/// A client's connection.
pub struct Line {
    pub channel: Channel,
    /// When the first bytes came that are not answered, or 0.
    pub since_us: u64,
    /// When something came last.
    pub active_ms: u64,
    /// Whether it is in the list of those that have more to be read.
    pub is_readable: bool,
}

/// An operator who waits for leadership to be handed over: the connection, to whom, and until when.
pub struct Handover {
    pub connection: u64,
    pub to: u64,
    pub until_ms: u64,
}

/// State of the log's lines about room. Times are in milliseconds of the server's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoomLog {
    pub is_full: bool,
    pub looked_ms: u64,
    /// Writes without room that were logged, and when.
    pub shortages: u64,
    pub shortage_ms: u64,
}

/// A server.
pub struct Server {
    pub config: Config,
    pub log: Logger,
    pub clock: Clock,
    pub poll: Poll,
    pub id: u64,
    pub cluster: u128,
    pub node: Node,
    pub clients: Clients,
    /// By the client's token.
    pub lines: Vec<Option<Line>>,
    /// Clients that have more to be read.
    pub readable: VecDeque<u32>,
    pub client_tls: Option<TlsAcceptor>,
    pub peer_tls: Option<TlsAcceptor>,
    pub renewal: Renewal,
    pub listeners: Vec<(Listener, Port)>,
    /// Listeners at which more may have connected.
    pub readable_listeners: BTreeSet<usize>,
    /// Whether a listener must be looked at though nothing has happened: a connection could not be
    /// taken.
    pub accepts_again: bool,
    /// When it was logged last that one could not be taken.
    pub untaken_ms: Option<u64>,
    pub plan: Plan,
    pub links: Links,
    /// The link by which requests of clients are passed on to the leader, and its key.
    pub forwards: Option<(u64, Link)>,
    /// The next key of a link, a connection or a browser. None is used twice.
    pub next_key: u64,
    /// The replica of a link, by its key.
    pub link_keys: BTreeMap<u64, u64>,
    pub inbound: BTreeMap<u64, Inbound>,
    pub readable_inbound: VecDeque<u64>,
    pub browsers: BTreeMap<u64, Browser>,
    pub directory: PeerDirectory,
    /// Whether clients must be told other names of replicas.
    pub has_new_names: bool,
    /// The index of the entry that made the members they were told of.
    pub named_at: u64,
    pub leader_tasks: LeaderTasks,
    pub next_ticket: u64,
    /// Inbound connections who wait for a ticket.
    pub asked: BTreeMap<u64, u64>,
    pub handovers: Vec<Handover>,
    pub latency: Histogram,
    pub traffic: Traffic,
    /// Refused connections, by what was listening.
    pub refused: [Refusals; 3],
    pub scratch: Vec<u8>,
    /// When the oldest entry was made that is not durable.
    pub unpersisted_since_us: Option<u64>,
    pub has_upkeep: bool,
    pub ticker: clock::Ticker,
    /// When it ends, if it was told to.
    pub ends_ms: Option<u64>,
    /// The role that it has logged last: leader and term.
    pub told: (u64, u64, String),
    /// The room that it has logged last.
    pub room_log: RoomLog,
    /// The time of the log as it has said last.
    pub clock_told: ClockStatus,
    /// Whether it has said last that it cannot read what the leader sends.
    pub unread_told: bool,
    /// Why it could not take a snapshot, as it has said last.
    pub snapshot_mismatch: String,
    /// Kept until the store is closed: the field is dropped last.
    pub _lock: Lock,
}

fn refused<E: std::fmt::Display>(error: E) -> StartError {
    StartError::Refused(error.to_string())
}

fn node_settings(config: &Config, start: u64) -> node::Settings {
    let raft = &config.raft;
    let ticks = |ms: u64| usize::try_from(ms.div_ceil(raft.tick_ms)).unwrap_or(usize::MAX);
    node::Settings {
        election_ticks: ticks(raft.election_ms),
        heartbeat_ticks: ticks(raft.heartbeat_ms),
        persist_entries: raft.persist_entries as usize,
        commits_quietly: !raft.announces_commits,
        promotes_learners: raft.promotes,
        uncommitted_bytes_max: raft.pending_size_max.0,
        chunk_bytes: raft.chunk_size.0 as usize,
        snapshot_idle_ticks: ticks(raft.snapshot_idle_ms),
        clock_forward_ms_max: raft.clock_forward_max_s.saturating_mul(1000),
        seed: start,
        nonce: start,
        ..node::Settings::default()
    }
}

fn client_settings(config: &Config, start: u64) -> client::Settings {
    let clients = &config.clients;
    client::Settings {
        connections_max: clients.connections_max,
        connections_most: clients.connections_max,
        requests_max: clients.pipeline_max,
        output_bytes_max: clients.output_size_max.0 as usize,
        memory_bytes_max: clients.memory_max.0 as usize,
        value_bytes_max: clients.value_size_max.0 as usize,
        start_us: clock::wall_ms() * 1000,
        process_id: std::process::id(),
        port: config.client_address().rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0),
        seed: start,
        default_password: clients.password_sha256.clone(),
        steady_us: || crate::node::Clock::now_us(&clock::Steady),
        process: process::now,
        random: |count| clock::draw_bytes(count).ok(),
        ..client::Settings::default()
    }
}

impl Server {
    /// Opens the replica's data and all listeners.
    pub fn open(mut config: Config, log: Logger) -> Result<Server, StartError> {
        let connections_max = descriptors::allow(config.clients.connections_max);
        if connections_max < config.clients.connections_max {
            warn!(log, "fewer clients than clients.connections_max can connect: raise the process' limit of descriptors (ulimit -n)";
                "wanted" => config.clients.connections_max, "possible" => connections_max);
            config.clients.connections_max = connections_max;
        }
        let pool = pool::open(&config)?;
        let poll = Poll::new().map_err(refused)?;
        let start = clock::draw().map_err(refused)?;
        let persistent_state = pool.store.persistent_state().clone();
        let (id, cluster) = (persistent_state.replica, persistent_state.cluster);
        let node = Node::open(pool.store, node_settings(&config, start), Box::new(clock::Steady));
        let mut node = node.map_err(|error| pool::start_error(&config.directory, &error))?;
        if config.raft.leases {
            let (tick_us, drift_percent) = (config.raft.tick_ms * 1000, config.raft.clock_drift_percent);
            node.hold_leases(LeaseSettings { tick_us, drift_percent }, Box::new(clock::Steady));
        }
        let addresses = Addresses { peer: config.peer_address(), client: config.client_address() };
        let hello = Hello { cluster, replica: id, meant: 0, start, addresses: addresses.clone() };
        let mut directory = PeerDirectory::default();
        directory.hear(id, addresses, |_| true);
        let renewal = Renewal::new(&config);
        let serves = |tls: &Option<_>| tls.as_ref().map(TlsAcceptor::new).transpose().map_err(refused);
        let (client_tls, peer_tls) = (serves(&config.clients.tls)?, serves(&config.peers.tls)?);
        let plan = Plan {
            hello,
            tls: config.peers.tls.as_ref().map(TlsConnector::new).transpose().map_err(refused)?,
            queue_bytes_max: config.peers.queue_size_max.0 as usize,
            silence_ms: config.peers.silence_ms,
        };
        let mut server = Server {
            clock: Clock::start(),
            id,
            cluster,
            node,
            clients: Clients::new(client_settings(&config, start)),
            lines: Vec::new(),
            readable: VecDeque::new(),
            client_tls,
            peer_tls,
            listeners: Vec::new(),
            readable_listeners: BTreeSet::new(),
            accepts_again: false,
            untaken_ms: None,
            plan,
            links: Links::new(),
            forwards: None,
            next_key: 0,
            link_keys: BTreeMap::new(),
            inbound: BTreeMap::new(),
            readable_inbound: VecDeque::new(),
            browsers: BTreeMap::new(),
            directory,
            has_new_names: true,
            named_at: 0,
            leader_tasks: LeaderTasks::default(),
            next_ticket: 0,
            asked: BTreeMap::new(),
            handovers: Vec::new(),
            latency: Histogram::default(),
            renewal,
            traffic: Traffic::default(),
            refused: Default::default(),
            scratch: vec![0; SCRATCH_BYTES],
            unpersisted_since_us: None,
            has_upkeep: true,
            ticker: clock::Ticker::default(),
            ends_ms: None,
            told: (0, 0, String::new()),
            room_log: RoomLog::default(),
            clock_told: ClockStatus::default(),
            unread_told: false,
            snapshot_mismatch: String::new(),
            _lock: pool.lock,
            config,
            log,
            poll,
        };
        // Before any other replica says where it is.
        let read = server.directory.read(server.node.store(), id);
        read.map_err(|error| pool::start_error(&server.config.directory, &error))?;
        server.listen().map_err(refused)?;
        Ok(server)
    }

    fn listen(&mut self) -> io::Result<()> {
        let clients = &self.config.clients;
        let mut all = Vec::new();
        for address in &clients.listen {
            all.push((Listener::tcp(address)?, Port::Client));
        }
        if let Some(path) = &clients.unix {
            all.push((Listener::unix(path)?, Port::Client));
        }
        all.push((Listener::tcp(&self.config.peers.listen)?, Port::Peer));
        if !self.config.http.listen.is_empty() {
            all.push((Listener::tcp(&self.config.http.listen)?, Port::Browser));
        }
        for (key, (listener, _)) in all.iter_mut().enumerate() {
            listener.register(self.poll.registry(), Source::Listener.token(key as u64))?;
        }
        self.listeners = all;
        let peers = &self.config.peers;
        if peers.tls.is_none() && !is_loopback(&peers.listen) {
            warn!(self.log, "whoever reaches the address for replicas may do all: set peers.tls, or keep others from it";
                "address" => &peers.listen);
        }
        if peers.tls.is_some() && peers.names.is_empty() {
            warn!(
                self.log,
                "whoever has a certificate of peers.tls.authorities may operate the cluster: use an authority of its own, or set \
                 peers.names"
            );
        }
        if !self.config.clients.protected && self.config.clients.listen.iter().any(|address| !is_loopback(address)) {
            warn!(
                self.log,
                "clients.protected is off: while the user default has no password, whoever reaches the address for clients may do all"
            );
        }
        Ok(())
    }

    /// A ticket of the server's own.
    pub fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        OWN | self.next_ticket
    }

    /// A key that none has had.
    pub fn key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    /// The members that the replica knows of.
    pub fn members(&self) -> &ConfState {
        &self.node.store().persistent_state().members
    }

    /// The clients' clock: microseconds since 1970.
    pub fn wall_us(&self) -> u64 {
        u64::try_from(clock::wall().as_micros()).unwrap_or(u64::MAX)
    }

    /// The addresses that are listened at for some.
    pub fn addresses(&self, wanted: Port) -> String {
        let of_it = self.listeners.iter().filter(|(_, port)| *port == wanted);
        of_it.map(|(listener, _)| listener.local()).collect::<Vec<_>>().join(" ")
    }

    /// Name of the store's kind.
    pub fn store_name(&self) -> &'static str {
        match self.config.store.kind {
            StoreKind::List => "list",
            StoreKind::Btree => "btree",
            StoreKind::Wal => "wal",
        }
    }
}
