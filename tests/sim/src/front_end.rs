//! The clients of a machine: the server's own room `client` over one node, as its reactor drives
//! it.

use perdura_kv::client::{Clients, Name, Peer, Settings};
use perdura_kv::node::{Done, Node, Role};
use perdura_kv::store;
use perdura_kv::wire::{Forward, Forwarded};

use std::collections::BTreeMap;

/// Replicas that clients can be told of.
const REPLICAS_MAX: u64 = 16;

/// Clients of a machine.
pub(super) struct FrontEnd {
    clients: Clients,
    /// By the machine's clock, in microseconds since 1970. It moves before each call.
    pub(super) now_us: u64,
    /// Number of the connection on which requests are forwarded to the leader.
    pub(super) link: Option<u64>,
}

impl FrontEnd {
    pub(super) fn new(seed: u64) -> Self {
        let mut clients = Clients::new(Settings { seed, ..Settings::default() });
        let name = |id: u64| (id, Name { host: "replica".to_owned(), port: id as u16 });
        clients.set_names((1..=REPLICAS_MAX).map(name).collect::<BTreeMap<_, _>>());
        Self { clients, now_us: 0, link: None }
    }

    /// A client connects.
    pub(super) fn open(&mut self) -> Option<u32> {
        self.clients.open(Peer::default(), self.now_us)
    }

    pub(super) fn close(&mut self, token: u32) {
        self.clients.close(token);
    }

    /// A client sends lines.
    pub(super) fn send(&mut self, token: u32, lines: &str, node: &mut Node) -> store::Result<()> {
        self.clients.input(token).extend_from_slice(lines.as_bytes());
        self.clients.advance(token, node, self.now_us)
    }

    pub(super) fn tick(&mut self, node: &mut Node) -> store::Result<()> {
        self.clients.tick(node)
    }

    /// Whether it knows who may connect.
    pub(super) fn knows_users(&self) -> bool {
        self.clients.knows_users()
    }

    /// Whether something waits for the next step.
    pub(super) fn has_work(&self) -> bool {
        self.clients.has_work()
    }

    pub(super) fn step(&mut self, node: &mut Node) -> store::Result<()> {
        self.clients.begin_step();
        self.clients.step(node, self.now_us)
    }

    pub(super) fn done(&mut self, done: Done, node: &mut Node) -> store::Result<()> {
        self.clients.done(done, node)
    }

    /// The bytes that have come out of connections, by token, and whether each is to be closed.
    /// Requests that were held up by them go on.
    pub(super) fn take_output(&mut self, node: &mut Node) -> store::Result<Vec<(u32, Vec<u8>, bool)>> {
        let mut taken = Vec::new();
        for token in self.clients.take_woken() {
            let is_killed = self.clients.is_killed(token);
            let bytes = if is_killed { Vec::new() } else { self.clients.output(token).split().to_vec() };
            let is_over = is_killed || self.clients.is_over(token);
            if !is_over && !bytes.is_empty() {
                self.clients.advance(token, node, self.now_us)?;
            }
            taken.push((token, bytes, is_over));
        }
        Ok(taken)
    }

    /// The replica to which requests can be forwarded, and its term: the leader, unless it is this
    /// one.
    pub(super) fn leader(node: &Node) -> Option<(u64, u64)> {
        let status = node.status();
        (status.role != Role::Leader && status.leader != 0).then_some((status.leader, status.term))
    }

    /// Requests to be forwarded.
    pub(super) fn take_forwards(&mut self, to: Option<(u64, u64)>) -> Vec<Forward> {
        self.clients.open_forwards(to);
        self.clients.take_forwards()
    }

    /// The connection to the leader is lost. `unsent` is the number of the first request that was
    /// not sent.
    pub(super) fn lose_link(&mut self, unsent: u64, node: &Node) {
        self.link = None;
        self.clients.forwards_lost(unsent, node);
    }

    /// A request of another replica's client.
    pub(super) fn forwarded(&mut self, link: u64, from: u64, forward: Forward, node: &mut Node) -> store::Result<()> {
        self.clients.take_in(link, from, forward, node, self.now_us)
    }

    /// Answers to be sent back, with the connection of each.
    pub(super) fn take_answers(&mut self) -> Vec<(u64, Forwarded)> {
        self.clients.take_answers()
    }

    /// An answer of the leader. Returns whether it was asked for.
    pub(super) fn answered(&mut self, answer: Forwarded, node: &mut Node) -> store::Result<bool> {
        self.clients.forwarded(answer, node)
    }

    /// Forgets requests of connections that are gone.
    pub(super) fn keep_links(&mut self, is_there: impl Fn(u64) -> bool) {
        self.clients.keep_peer_sessions(is_there);
    }
}
