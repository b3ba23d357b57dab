//! A map that is short of room and full of garbage: its thread collects, and the reactor does not
//! wait for it.

#![allow(clippy::disallowed_methods, reason = "the thread takes the time that it takes: no seed runs it again")]

use std::sync::Arc;
use std::time::Duration;

use crate::support::cluster::Cluster;
use perdura_kv::client::Settings;
use perdura_kv::entry::{Change, WriteBatch};
use perdura_kv::sim::{Place, Variant};
use perdura_kv::store::{ErrorKind, MapConfig, MapStore, PersistentState, Store};
use perdura_map::{Kind, Layout};
use perdura_pmem::{Medium, SimMedium};
use raft::eraftpb::Entry;

const BYTES: u64 = 4 << 20;
const VALUE_BYTES: usize = 2000;

/// Lets the thread work, and lets time pass.
fn wait(cluster: &mut Cluster) {
    std::thread::sleep(Duration::from_millis(1));
    cluster.tick();
    cluster.settle();
}

/// The store of one of some founders, in a small map whose thread collects.
fn store_of(kind: Kind, id: u64, ids: &[u64]) -> (Place, Box<dyn Store>) {
    let persistent_state = PersistentState::founder(7, id, ids.to_vec());
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let layout = if kind == Kind::List { Layout::list(BYTES) } else { Layout::btree(BYTES) };
    let config = MapConfig { ring_bytes: 2000, ..MapConfig::default() };
    let store = MapStore::create(&medium, "m", (kind, &layout), &persistent_state, 1000, &config).expect("a store");
    let (place, _) = Place::create(Variant::List, 1 << 20, &persistent_state).expect("a place");
    (place, Box::new(store))
}

/// A new connection, and its id.
fn opened(cluster: &mut Cluster) -> (u32, String) {
    let token = cluster.open(1);
    cluster.put(1, token, b"CLIENT ID\r\n");
    cluster.settle();
    let said = String::from_utf8(cluster.take(1, token)).expect("a number");
    (token, said.trim().trim_start_matches(':').to_owned())
}

/// A store with room.
fn large(id: u64, ids: &[u64]) -> (Place, Box<dyn Store>) {
    Place::create(Variant::List, 32 << 20, &PersistentState::founder(7, id, ids.to_vec())).expect("a store")
}

/// Hazard: a request that finds no room makes the reactor collect the whole map first: 88 ms at
/// four fifths of live keys, and longer the larger the map is. It waits until the map's own thread
/// has made room; others are served, and no client is told of it.
#[test]
fn who_finds_no_room_waits_for_the_collector_and_nobody_else_does() {
    for (kind, live_percent) in [(Kind::List, 60), (Kind::BTree, 75)] {
        let mut cluster = Cluster::with_stores(vec![store_of(kind, 1, &[1])], &Settings::default());
        let (writes, reads) = (cluster.open(1), cluster.open(1));
        let value = "v".repeat(VALUE_BYTES);
        let live = BYTES as usize / 100 * live_percent / VALUE_BYTES;
        let (mut waited, mut transactions) = (0, 0);
        for number in 0..120 * live {
            // The list's thread may keep ahead of transactions for a while.
            if number >= 12 * live && (kind == Kind::BTree || transactions > 0) {
                break;
            }
            let set = format!("SET k{} {value}\r\n", number % live);
            let is_transaction = number % 5 == 4;
            // Requests that touch no keys are done once, though the transaction waits.
            let victim = is_transaction.then(|| opened(&mut cluster));
            let line = match &victim {
                Some((_, id)) => format!("MULTI\r\nCLIENT KILL ID {id}\r\n{set}EXEC\r\n"),
                None => set,
            };
            let wanted = if is_transaction { "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n+OK\r\n" } else { "+OK\r\n" };
            cluster.put(1, writes, line.as_bytes());
            cluster.settle();
            if let Some((token, _)) = victim {
                assert!(cluster.at(1).clients.is_killed(token));
                cluster.at(1).clients.close(token);
            }
            let mut said = cluster.take(1, writes);
            while said.len() < wanted.len() && !said.starts_with(b"-") {
                waited += 1;
                transactions += usize::from(is_transaction);
                assert!(waited < 100_000, "{kind:?}: room is not made");
                cluster.put(1, reads, b"GET k0\r\n");
                cluster.settle();
                assert!(cluster.take(1, reads).starts_with(b"$2000\r\n"), "{kind:?}: a read waits too");
                wait(&mut cluster);
                said.extend(cluster.take(1, writes));
            }
            assert_eq!(
                String::from_utf8_lossy(&said),
                wanted,
                "{kind:?}: write {number}, {:?}",
                cluster.at(1).node.store().room()
            );
        }
        // The thread of a B+-tree may keep ahead of one client.
        assert!(kind == Kind::BTree || waited > 0 && transactions > 0, "it was never short of room");
        assert_eq!(cluster.at(1).clients.statistics().busy, 0);
        cluster.put(1, reads, b"DBSIZE\r\n");
        cluster.settle();
        assert_eq!(String::from_utf8_lossy(&cluster.take(1, reads)), format!(":{live}\r\n"));
    }
}

/// Hazard: PERDURA.ONCE, a change of users and what another replica passes on are refused while
/// room is made, though others wait; or what is passed on behind what waits comes before it.
#[test]
fn once_users_and_what_is_passed_on_wait_too() {
    let ids = [1, 2, 3];
    let stores = vec![store_of(Kind::List, 1, &ids), large(2, &ids), large(3, &ids)];
    let mut cluster = Cluster::with_stores(stores, &Settings::default());
    cluster.forwards = true;
    cluster.settle();
    let tokens = [1, 2].map(|id| (id, cluster.open(id)));
    let value = "v".repeat(VALUE_BYTES);
    let live = BYTES as usize / 100 * 60 / VALUE_BYTES;
    let mut waited = [[0; 3]; 2];
    let mut sessions = [0; 2];
    for number in 0..12 * live {
        if waited.iter().all(|waited| waited[0] > 0 && waited[1] > 0) {
            break;
        }
        let (at, key) = (number % 2, number / 2 % live);
        let (id, token) = tokens[at];
        let what = number / 2 % 3;
        // Requests behind it on the connection are done after it.
        let (line, wanted) = match what {
            0 => {
                let rest = &value[number.to_string().len()..];
                (format!("SET k{key} {value}\r\nSET k{key} {number}\r\nAPPEND k{key} {rest}\r\n"), 3)
            }
            1 => {
                sessions[at] += 1;
                (format!("PERDURA.ONCE of{id} {} SET k{key} {value}\r\n", sessions[at]), 1)
            }
            _ => (format!("ACL SETUSER u{key} on >{number} ~{value}*\r\nACL DELUSER u{key}\r\n"), 2),
        };
        cluster.put(id, token, line.as_bytes());
        cluster.settle();
        let mut said = cluster.take(id, token);
        let lines = |said: &[u8]| said.iter().filter(|byte| **byte == b'\n').count();
        while lines(&said) < wanted && !said.starts_with(b"-") {
            waited[at][what] += 1;
            assert!(waited[at][what] < 100_000, "room is not made");
            wait(&mut cluster);
            said.extend(cluster.take(id, token));
        }
        let wanted = match what {
            0 => format!("+OK\r\n+OK\r\n:{VALUE_BYTES}\r\n"),
            1 => "+OK\r\n".to_owned(),
            _ => "+OK\r\n:1\r\n".to_owned(),
        };
        assert_eq!(String::from_utf8_lossy(&said), wanted, "write {number} at {id}");
    }
    assert!(waited.iter().all(|waited| waited[0] > 0 && waited[1] > 0), "never short of room: {waited:?}");
    assert_eq!(cluster.at(1).clients.statistics().busy, 0);
}

/// Hazard: a follower whose map has no room for an entry collects all of it before it goes on, and
/// answers nobody meanwhile. It is told at once that there is none, and leaves that to the map's
/// thread.
#[test]
fn an_entry_without_room_is_left_to_the_collector() {
    let (_place, mut store) = store_of(Kind::List, 2, &[1, 2]);
    let live = BYTES / 100 * 60 / VALUE_BYTES as u64;
    let mut refused = 0;
    for index in 2..12 * live {
        let change = Change { key: format!("k{}", index % live).into(), value: Some(vec![b'v'; VALUE_BYTES].into()) };
        let batch = WriteBatch { clock_ms: 1000 + index, changes: vec![change] };
        let entry = Entry { index, term: 1, data: batch.to_bytes(), ..Entry::default() };
        while let Err(error) = store.append(std::slice::from_ref(&entry)) {
            assert_eq!((error.kind(), store.last()), (ErrorKind::Full, index - 1));
            refused += 1;
            assert!(refused < 10_000, "room is not made");
            while store.collects() {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        store.commit(index).expect("a commit");
        store.compact(index).expect("compacted");
        store.persist().expect("persisted");
    }
    assert!(refused > 0, "it was never short of room");
}
