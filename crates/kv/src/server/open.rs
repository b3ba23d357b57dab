//! Opening of a server by its configuration.

use slog::{Logger, warn};

use super::admin::Admin;
use super::browsers::Browsers;
use super::client_sockets::ClientSockets;
use super::listeners::Listeners;
use super::metrics::Traffic;
use super::peers::dial::DialSettings;
use super::peers::directory::PeerDirectory;
use super::peers::forwarder::Forwarder;
use super::peers::handshake::{Addresses, Hello};
use super::peers::inbound::InboundConnections;
use super::peers::links::Links;
use super::pool::{self, StartError};
use super::renewal::Renewal;
use super::reports::LastLogged;
use super::runtime::Runtime;
use super::schedule::Schedule;
use super::tls::{TlsAcceptor, TlsConnector};
use super::{Server, clock, descriptors, process};
use crate::client::{self, Clients};
use crate::config::Config;
use crate::node::{self, LeaseSettings, Node};
use crate::store::Store;

/// Bytes that are read at a time.
const SCRATCH_BYTES: usize = 64 << 10;

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

fn open_node(config: &Config, store: Box<dyn Store>, start: u64) -> Result<Node, StartError> {
    let node = Node::open(store, node_settings(config, start), Box::new(clock::Steady));
    let mut node = node.map_err(|error| pool::start_error(&config.directory, &error))?;
    if config.raft.leases {
        let (tick_us, drift_percent) = (config.raft.tick_ms * 1000, config.raft.clock_drift_percent);
        node.hold_leases(LeaseSettings { tick_us, drift_percent }, Box::new(clock::Steady));
    }
    Ok(node)
}

impl Server {
    /// Opens the replica's data and all listeners.
    pub(super) fn open(mut config: Config, log: Logger) -> Result<Server, StartError> {
        let connections_max = descriptors::allow(config.clients.connections_max);
        if connections_max < config.clients.connections_max {
            warn!(log, "fewer clients than clients.connections_max can connect: raise the process' limit of descriptors (ulimit -n)";
                "wanted" => config.clients.connections_max, "possible" => connections_max);
            config.clients.connections_max = connections_max;
        }
        let pool = pool::open(&config)?;
        let start = clock::draw().map_err(refused)?;
        let cluster = pool.store.persistent_state().cluster;
        let mut store = pool.store;
        let runtime = Runtime::new(config.clone(), log).map_err(refused)?;
        store.write_beside(runtime.wake().map_err(refused)?).map_err(refused)?;
        let node = open_node(&config, store, start)?;
        let addresses = Addresses { peer: config.peer_address(), client: config.client_address() };
        let hello = Hello { cluster, replica: node.id(), meant: 0, start, addresses: addresses.clone() };
        let mut directory = PeerDirectory::default();
        directory.announce(node.id(), addresses, |_| true);
        let renewal = Renewal::new(&config);
        let acceptor = |tls: &Option<_>| tls.as_ref().map(TlsAcceptor::new).transpose().map_err(refused);
        let (client_tls, peer_tls) = (acceptor(&config.clients.tls)?, acceptor(&config.peers.tls)?);
        let settings = DialSettings {
            hello,
            tls: config.peers.tls.as_ref().map(TlsConnector::new).transpose().map_err(refused)?,
            queue_bytes_max: config.peers.queue_size_max.0 as usize,
            silence_ms: config.peers.silence_ms,
        };
        let clients = Clients::new(client_settings(&config, start));
        // Before any other replica announces its addresses.
        let read = directory.read(&node);
        read.map_err(|error| pool::start_error(&config.directory, &error))?;
        Ok(Server {
            listeners: Listeners::open(&runtime).map_err(refused)?,
            node,
            clients,
            sockets: ClientSockets::new(client_tls),
            directory,
            links: Links::new(settings),
            forwarder: Forwarder::default(),
            inbound: InboundConnections::new(peer_tls),
            admin: Admin::default(),
            browsers: Browsers::default(),
            schedule: Schedule::new(),
            has_upkeep: true,
            traffic: Traffic::default(),
            logged: LastLogged::default(),
            renewal,
            scratch: vec![0; SCRATCH_BYTES],
            runtime,
            _lock: pool.lock,
        })
    }
}
