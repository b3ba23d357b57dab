//! A map that is short of room and full of garbage: its thread collects, and the reactor does not wait for it.

#![allow(clippy::disallowed_methods, reason = "the thread takes the time that it takes: no seed runs it again")]

#[path = "support/cluster.rs"]
mod cluster;

use std::sync::Arc;
use std::time::Duration;

use cluster::Cluster;
use perdura_kv::client::Settings;
use perdura_kv::sim::{Place, Variant};
use perdura_kv::store::{MapConfig, MapStore, Standing};
use perdura_map::{Kind, Layout};
use perdura_pmem::{Medium, SimMedium};

const BYTES: u64 = 4 << 20;
const VALUE_BYTES: usize = 2000;

/// Lets the thread work, and lets time pass.
fn wait(cluster: &mut Cluster) {
    std::thread::sleep(Duration::from_millis(1));
    cluster.tick();
    cluster.settle();
}

/// Hazard: a request that finds no room makes the reactor collect the whole map first: 88 ms at four fifths of live keys, and longer the larger
/// the map is. It waits until the map's own thread has made room; others are served, and no client is told of it.
#[test]
fn who_finds_no_room_waits_for_the_collector_and_nobody_else_does() {
    for (kind, live_percent) in [(Kind::List, 60), (Kind::BTree, 75)] {
        let standing = Standing::founder(7, 1, vec![1]);
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let layout = if kind == Kind::List { Layout::list(BYTES) } else { Layout::btree(BYTES) };
        let config = MapConfig { ring_bytes: 2000, ..MapConfig::default() };
        let store = MapStore::create(&medium, "m", (kind, &layout), &standing, 1000, &config).expect("a store");
        let (place, _) = Place::create(Variant::List, 1 << 20, &standing).expect("a place");
        let mut cluster = Cluster::with_stores(vec![(place, Box::new(store))], &Settings::default());
        let (writes, reads) = (cluster.open(1), cluster.open(1));
        let value = "v".repeat(VALUE_BYTES);
        let live = BYTES as usize / 100 * live_percent / VALUE_BYTES;
        let (mut waited, mut transactions) = (0, 0);
        for number in 0..12 * live {
            let set = format!("SET k{} {value}\r\n", number % live);
            let is_transaction = number % 5 == 4;
            let line = if is_transaction { format!("MULTI\r\n{set}EXEC\r\n") } else { set };
            let wanted = if is_transaction { "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n" } else { "+OK\r\n" };
            cluster.put(1, writes, line.as_bytes());
            cluster.settle();
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
