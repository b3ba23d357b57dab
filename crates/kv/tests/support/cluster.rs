//! A few replicas with clients, in one thread: bytes in, bytes out. The network is perfect and the
//! clock stands until it is moved.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use perdura_kv::client::{Clients, Name, Peer, Settings};
use perdura_kv::node::{self, Clocks, Node, Role};
use perdura_kv::sim::{Place, Variant};
use perdura_kv::store::{PersistentState, Store};
use perdura_kv::wire::{Frames, PeerMessage, get_forward, get_forwarded, put_forward, put_forwarded};

/// A replica, its clients and the messages that have come.
pub struct Replica {
    pub node: Node,
    pub clients: Clients,
    messages: Vec<PeerMessage>,
    clocks: Shown,
    /// By how much its time of day is ahead of the time that passes.
    pub ahead_us: i64,
    /// Whether messages come and go.
    pub is_cut_off: bool,
    /// To whom it passes requests on, and the number of that connection.
    link: Option<(u64, u64)>,
    #[allow(dead_code, reason = "only some tests look at it")]
    pub place: Place,
}

/// The clocks of a replica, as they are moved.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    steady_us: Arc<AtomicU64>,
    wall_us: Arc<AtomicU64>,
}

impl Clocks for Shown {
    fn steady_us(&self) -> u64 {
        self.steady_us.load(Ordering::Relaxed)
    }

    fn wall_ms(&self) -> u64 {
        self.wall_us.load(Ordering::Relaxed) / 1000
    }
}

/// Some replicas.
pub struct Cluster {
    pub replicas: BTreeMap<u64, Replica>,
    /// The time that passes. All clocks show it, but for what a replica's time of day is ahead.
    pub now_us: u64,
    /// Whether followers pass requests on.
    pub forwards: bool,
    links: u64,
    settings: Settings,
    /// How often replicas were started again.
    starts: u64,
}

fn open(store: Box<dyn Store>, clocks: &Shown, settings: node::Settings) -> Node {
    Node::open(store, settings, Box::new(clocks.clone())).expect("a node")
}

/// A frame as it comes out at the other side.
fn sent<T>(put: impl FnOnce(&mut bytes::BytesMut), get: impl FnOnce(u8, bytes::Bytes) -> Option<T>) -> T {
    let mut frames = Frames::default();
    put(frames.input());
    let (kind, bytes) = frames.next(usize::MAX).expect("sound").expect("whole");
    get(kind, bytes).expect("what was sent")
}

/// A replica that has just been started. The clock of the founding entry is that of 1970.
fn replica(place: Place, store: Box<dyn Store>, settings: &Settings, ids: &[u64], nonce: u64) -> Replica {
    let usual = node::Settings::default();
    replica_of(place, store, settings, ids, node::Settings { nonce, clock_forward_ms_max: u64::MAX, ..usual })
}

fn replica_of(
    place: Place,
    store: Box<dyn Store>,
    settings: &Settings,
    ids: &[u64],
    node_settings: node::Settings,
) -> Replica {
    let clocks = Shown::default();
    let node = open(store, &clocks, node_settings);
    let mut clients = Clients::new(settings.clone());
    let name = |id: &u64| (*id, Name { host: "127.0.0.1".to_owned(), port: 7000 + *id as u16 });
    clients.set_names(ids.iter().map(name).collect());
    Replica { node, clients, messages: Vec::new(), clocks, ahead_us: 0, is_cut_off: false, link: None, place }
}

impl Cluster {
    /// Replicas 1 to `count`, of which 1 leads.
    #[allow(dead_code, reason = "some tests choose the stores")]
    pub fn new(count: u64, settings: &Settings) -> Self {
        Self::with_maps(Variant::List, &vec![32 << 20; count as usize], settings)
    }

    /// One replica, and a connection to it.
    #[allow(dead_code, reason = "only some tests need no other")]
    pub fn one() -> (Self, u32) {
        let mut cluster = Self::new(1, &Settings::default());
        let token = cluster.open(1);
        (cluster, token)
    }

    /// As many replicas as there are sizes of maps.
    pub fn with_maps(variant: Variant, bytes: &[u64], settings: &Settings) -> Self {
        let ids: Vec<u64> = (1..=bytes.len() as u64).collect();
        let made = |(id, bytes): (&u64, &u64)| {
            let persistent_state = PersistentState::founder(7, *id, ids.clone());
            Place::create(variant, *bytes, &persistent_state).expect("a store")
        };
        Self::with_stores(ids.iter().zip(bytes).map(made).collect(), settings)
    }

    /// As many replicas as there are stores of founders, and where each lies.
    pub fn with_stores(stores: Vec<(Place, Box<dyn Store>)>, settings: &Settings) -> Self {
        let ids: Vec<u64> = (1..=stores.len() as u64).collect();
        let mut replicas = BTreeMap::new();
        for (id, (place, store)) in ids.iter().zip(stores) {
            replicas.insert(*id, replica(place, store, settings, &ids, *id));
        }
        let (settings, now_us) = (settings.clone(), 1_700_000_000_000_000);
        let mut cluster = Self { replicas, now_us, forwards: false, links: 0, settings, starts: 0 };
        cluster.moment();
        cluster.at(1).node.campaign().expect("a campaign");
        cluster.settle();
        cluster.pass(100);
        assert_eq!(cluster.at(1).node.status().role, Role::Leader);
        cluster
    }

    /// Shows the time on all clocks, and returns it.
    fn moment(&mut self) -> u64 {
        for Replica { clocks, ahead_us, .. } in self.replicas.values() {
            clocks.steady_us.store(self.now_us, Ordering::Relaxed);
            clocks.wall_us.store(self.now_us.saturating_add_signed(*ahead_us), Ordering::Relaxed);
        }
        self.now_us
    }

    /// Ends the processes of some replicas, lets `ms` pass, and starts them again. Their clients
    /// are gone.
    #[allow(dead_code, reason = "not every test restarts replicas together")]
    pub fn restart_together(&mut self, ids: &[u64], ms: u64, settings: &Settings) {
        let ended: Vec<(u64, Replica)> =
            ids.iter().filter_map(|id| self.replicas.remove(id).map(|replica| (*id, replica))).collect();
        self.pass(ms);
        for (id, Replica { node, clients, place, ahead_us, .. }) in ended {
            drop((node, clients));
            let store = place.open().expect("a store");
            let node_settings = node::Settings { nonce: id + self.now_us, ..node::Settings::default() };
            let mut started = replica_of(place, store, settings, ids, node_settings);
            started.ahead_us = ahead_us;
            self.replicas.insert(id, started);
        }
        self.moment();
    }

    /// Ends the process of a replica and starts it again. Nothing is done yet; its connections are
    /// gone.
    #[allow(dead_code, reason = "only some tests start replicas again")]
    pub fn restart(&mut self, id: u64) {
        let old = self.replicas.remove(&id).expect("a replica");
        drop(old.node.into_store());
        let place = old.place.closed();
        let store = place.open().expect("a store");
        self.start(id, place, store);
    }

    /// Ends the process of a replica and starts it again with other settings.
    #[allow(dead_code, reason = "only some tests change settings")]
    pub fn restart_with(&mut self, id: u64, node_settings: node::Settings) {
        let old = self.replicas.remove(&id).expect("a replica");
        drop(old.node.into_store());
        let (place, ids) = (old.place.closed(), self.replicas.keys().copied().chain([id]).collect::<Vec<u64>>());
        let store = place.open().expect("a store");
        let mut started = replica_of(place, store, &self.settings, &ids, node_settings);
        started.is_cut_off = old.is_cut_off;
        self.replicas.insert(id, started);
        self.moment();
    }

    /// Starts a replica without data, as one that joins.
    #[allow(dead_code, reason = "only some tests have replicas that join")]
    pub fn join(&mut self, id: u64, variant: Variant) {
        let (place, store) = Place::create(variant, 32 << 20, &PersistentState::joiner(7, id)).expect("a store");
        self.start(id, place, store);
    }

    fn start(&mut self, id: u64, place: Place, store: Box<dyn Store>) {
        self.starts += 1;
        let ids: Vec<u64> = self.replicas.keys().copied().chain([id]).collect();
        let started = replica(place, store, &self.settings, &ids, 1000 * self.starts + id);
        self.replicas.insert(id, started);
        self.moment();
    }

    pub fn at(&mut self, id: u64) -> &mut Replica {
        self.replicas.get_mut(&id).expect("a replica")
    }

    /// Opens a connection at a replica.
    pub fn open(&mut self, id: u64) -> u32 {
        let now_us = self.moment();
        self.at(id).clients.open(Peer::default(), now_us).expect("a connection")
    }

    /// Puts bytes into a connection. Nothing is sent to other replicas.
    pub fn put(&mut self, id: u64, token: u32, bytes: &[u8]) {
        let now_us = self.moment();
        let Replica { node, clients, ahead_us, .. } = self.at(id);
        let now_us = now_us.saturating_add_signed(*ahead_us);
        clients.input(token).extend_from_slice(bytes);
        clients.advance(token, node, now_us).expect("a store");
    }

    /// Takes the output of a connection.
    pub fn take(&mut self, id: u64, token: u32) -> Vec<u8> {
        let now_us = self.moment();
        let Replica { node, clients, .. } = self.at(id);
        let bytes = clients.output(token).split().to_vec();
        clients.advance(token, node, now_us).expect("a store");
        bytes
    }

    /// Steps and messages until nothing is left.
    pub fn settle(&mut self) {
        while self.round() {}
    }

    /// A step of each replica. Returns whether something was sent, which comes in the next.
    pub fn round(&mut self) -> bool {
        let now_us = self.moment();
        let mut sent = Vec::new();
        for replica in self.replicas.values_mut() {
            let Replica { node, clients, messages, .. } = replica;
            for message in std::mem::take(messages) {
                node.step(message).expect("a store");
            }
            loop {
                clients.begin_step();
                clients.step(node, now_us).expect("a store");
                if node.wants_persist() {
                    node.persist().expect("a store");
                }
                let output = node.take_output();
                let is_quiet = output.messages.is_empty() && output.done.is_empty();
                if !replica.is_cut_off {
                    sent.extend(output.messages);
                }
                for done in output.done {
                    clients.done(done, node).expect("a store");
                }
                if is_quiet && !clients.has_work() {
                    break;
                }
            }
            node.tidy().expect("a store");
            clients.take_woken();
        }
        let has_passed = self.forwards && self.pass_requests();
        if sent.is_empty() && !has_passed {
            return false;
        }
        for message in sent {
            // Members may be named that are not there.
            if let Some(to) = self.replicas.get_mut(&message.to()).filter(|to| !to.is_cut_off) {
                to.messages.push(message);
            }
        }
        true
    }

    /// Takes requests to the leader, and answers back. Returns whether there were any.
    fn pass_requests(&mut self) -> bool {
        let (now_us, mut has_passed) = (self.moment(), false);
        let ids: Vec<u64> = self.replicas.keys().copied().collect();
        for id in &ids {
            let links = self.links + 1;
            let Replica { node, clients, link, .. } = self.at(*id);
            let status = node.status();
            let leader = if status.role == Role::Leader { 0 } else { status.leader };
            if link.map_or(0, |(to, _)| to) != leader {
                clients.forwards_lost(u64::MAX, node);
                *link = (leader != 0).then_some((leader, links));
            }
            clients.open_forwards((leader != 0).then_some((leader, status.term)));
            let (forwards, key) = (clients.take_forwards(), link.map_or(0, |(_, key)| key));
            self.links = links;
            for forward in forwards {
                has_passed = true;
                let forward = sent(|out| put_forward(&forward, out), |kind, bytes| get_forward(kind, bytes).ok());
                let Replica { node, clients, .. } = self.at(leader);
                clients.take_in(key, *id, forward, node, now_us).expect("a store");
            }
        }
        for id in &ids {
            for (key, answer) in self.at(*id).clients.take_answers() {
                has_passed = true;
                let answer = sent(|out| put_forwarded(&answer, out), |kind, bytes| get_forwarded(kind, bytes).ok());
                if let Some(to) = self.replicas.values_mut().find(|to| to.link == Some((*id, key))) {
                    assert!(to.clients.forwarded(answer, &mut to.node).expect("a store"));
                }
            }
        }
        has_passed
    }

    /// Lets time pass, in ticks of 10 ms.
    pub fn pass(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(10) {
            self.tick();
            self.settle();
        }
    }

    /// A tick of 10 ms at each replica.
    pub fn tick(&mut self) {
        self.now_us += 10_000;
        self.moment();
        for replica in self.replicas.values_mut() {
            replica.node.tick().expect("a store");
            replica.clients.tick(&mut replica.node).expect("a store");
        }
    }
}
