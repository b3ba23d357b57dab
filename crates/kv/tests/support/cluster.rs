//! A few replicas with clients, in one thread: bytes in, bytes out. The network is perfect and the clock stands until it is moved.

use std::collections::BTreeMap;

use perdura_kv::client::{Clients, Name, Peer, Settings};
use perdura_kv::node::{self, Node, Role};
use perdura_kv::sim::{Place, Variant};
use perdura_kv::store::Standing;
use perdura_kv::wire::{Frames, Letter, get_forward, get_forwarded, put_forward, put_forwarded};

/// A replica, its clients and the letters that have come.
pub struct Replica {
    pub node: Node,
    pub clients: Clients,
    letters: Vec<Letter>,
    /// Whether letters come and go.
    pub is_cut_off: bool,
    /// To whom it passes requests on, and the number of that connection.
    link: Option<(u64, u64)>,
    #[allow(dead_code, reason = "only tests of full disks look at it")]
    pub place: Place,
}

/// Some replicas.
pub struct Cluster {
    pub replicas: BTreeMap<u64, Replica>,
    pub now_us: u64,
    /// Whether followers pass requests on.
    pub forwards: bool,
    links: u64,
}

/// A frame as it comes out at the other side.
fn sent<T>(put: impl FnOnce(&mut bytes::BytesMut), get: impl FnOnce(u8, bytes::Bytes) -> Option<T>) -> T {
    let mut frames = Frames::default();
    put(frames.input());
    let (kind, bytes) = frames.next(usize::MAX).expect("sound").expect("whole");
    get(kind, bytes).expect("what was sent")
}

impl Cluster {
    /// Replicas 1 to `count`, of which 1 leads.
    pub fn new(count: u64, settings: &Settings) -> Self {
        Self::with_maps(Variant::List, &vec![32 << 20; count as usize], settings)
    }

    /// As many replicas as there are sizes of maps.
    pub fn with_maps(variant: Variant, bytes: &[u64], settings: &Settings) -> Self {
        let ids: Vec<u64> = (1..=bytes.len() as u64).collect();
        let mut replicas = BTreeMap::new();
        for (id, bytes) in ids.iter().zip(bytes) {
            let standing = Standing::founder(7, *id, ids.clone());
            let (place, store) = Place::create(variant, *bytes, &standing).expect("a store");
            let node = Node::open(store, node::Settings { nonce: *id, ..node::Settings::default() }).expect("a node");
            let mut clients = Clients::new(settings.clone());
            let name = |id: &u64| (*id, Name { host: "127.0.0.1".to_owned(), port: 7000 + *id as u16 });
            clients.set_names(ids.iter().map(name).collect());
            replicas.insert(*id, Replica { node, clients, letters: Vec::new(), is_cut_off: false, link: None, place });
        }
        let mut cluster = Self { replicas, now_us: 1_700_000_000_000_000, forwards: false, links: 0 };
        cluster.at(1).node.campaign().expect("a campaign");
        cluster.settle();
        cluster.pass(100);
        assert_eq!(cluster.at(1).node.status().role, Role::Leader);
        cluster
    }

    pub fn at(&mut self, id: u64) -> &mut Replica {
        self.replicas.get_mut(&id).expect("a replica")
    }

    /// Opens a connection at a replica.
    pub fn open(&mut self, id: u64) -> u32 {
        let now_us = self.now_us;
        self.at(id).clients.open(Peer::default(), now_us).expect("a connection")
    }

    /// Puts bytes into a connection. Nothing is sent to other replicas.
    pub fn put(&mut self, id: u64, token: u32, bytes: &[u8]) {
        let now_us = self.now_us;
        let Replica { node, clients, .. } = self.at(id);
        clients.input(token).extend_from_slice(bytes);
        clients.advance(token, node, now_us).expect("a store");
    }

    /// What has come out of a connection.
    pub fn take(&mut self, id: u64, token: u32) -> Vec<u8> {
        let now_us = self.now_us;
        let Replica { node, clients, .. } = self.at(id);
        let bytes = clients.output(token).split().to_vec();
        clients.advance(token, node, now_us).expect("a store");
        bytes
    }

    /// Turns and letters until nothing is left.
    pub fn settle(&mut self) {
        let now_us = self.now_us;
        loop {
            let mut sent = Vec::new();
            for replica in self.replicas.values_mut() {
                let Replica { node, clients, letters, .. } = replica;
                for letter in std::mem::take(letters) {
                    node.step(letter).expect("a store");
                }
                loop {
                    clients.begin_step();
                    clients.turn(node, now_us).expect("a store");
                    if node.wants_persist() {
                        node.persist().expect("a store");
                    }
                    let output = node.take_output();
                    let is_quiet = output.letters.is_empty() && output.done.is_empty();
                    if !replica.is_cut_off {
                        sent.extend(output.letters);
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
                return;
            }
            for letter in sent {
                // Members may be named that are not there.
                if let Some(to) = self.replicas.get_mut(&letter.to()).filter(|to| !to.is_cut_off) {
                    to.letters.push(letter);
                }
            }
        }
    }

    /// Takes requests to the leader, and answers back. Returns whether there were any.
    fn pass_requests(&mut self) -> bool {
        let (now_us, mut has_passed) = (self.now_us, false);
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
            self.now_us += 10_000;
            let now_us = self.now_us;
            for replica in self.replicas.values_mut() {
                replica.node.tick().expect("a store");
                replica.clients.tick(&mut replica.node, now_us).expect("a store");
            }
            self.settle();
        }
    }
}
