//! A disk that has no room in the midst of what is done: a snapshot takes the old state's place, or
//! members change.

use crate::support::lines;

use crate::support::cluster::Cluster;
use crate::support::lines::are;
use crate::support::stores::{filled, push, put, snapshot, value};
use bytes::Bytes;
use perdura_kv::client::Settings;
use perdura_kv::node::Role;
use perdura_kv::sim::Variant;
use perdura_kv::store::{ErrorKind, PersistentState};
use perdura_pmem::sim::Random;
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2};

/// Hazard: the disk fills while a state that was received takes the old one's place. Wherever that
/// is, the store is what it was, goes on, also after a power failure, and takes the snapshot once
/// there is room.
#[test]
fn a_snapshot_without_room_in_its_midst_changes_nothing() {
    let (_given, source) = filled(1, 5, "new", 90);
    let (metadata, chunks) = snapshot(&*source);
    let mut refused = 0;
    for room in (0..).step_by(1500) {
        let (place, mut store) = filled(2, 4, "old", 30);
        place.disk().limit(store.footprint().used_bytes + room + 1);
        store.receive(false).expect("it waits");
        push(&mut *store, &chunks);
        match store.finish(&metadata) {
            Ok(()) => {
                assert_eq!((store.applied(), value(&*store, "old")), (91, None));
                break;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Full, "with {room} bytes: {error}"),
        }
        refused += 1;
        assert!(
            store.shortages().count > 0 && store.shortages().last.contains("no storage space"),
            "{:?}",
            store.shortages()
        );
        let persistent_state = PersistentState { term: 4, vote: 3, ..PersistentState::founder(7, 2, vec![1, 2, 3]) };
        assert_eq!((store.applied(), store.last(), store.is_partial()), (31, 31, false));
        assert_eq!((store.persistent_state(), value(&*store, "new")), (&persistent_state, None));
        place.disk().limit(0);
        // A promise made now is not taken back by a log that was begun.
        let voted = PersistentState { term: 6, vote: 1, ..persistent_state };
        store.set_vote(6, 1).expect("a vote");
        store.append(&[put(32, 4, "old", b"later")]).expect("an entry");
        store.persist().expect("a disk");
        let failed = place.failed(&mut Random::new(room));
        drop(store);
        let mut store = failed.open().unwrap_or_else(|error| panic!("with {room} bytes: {error}"));
        assert_eq!((store.last(), value(&*store, "old")), (32, Some(Bytes::from_static(b"later"))));
        assert_eq!(*store.persistent_state(), voted);
        store.receive(false).expect("it waits");
        push(&mut *store, &chunks);
        store.finish(&metadata).expect("there is room");
        assert_eq!((store.applied(), value(&*store, "new")), (91, Some(vec![90; 700].into())));
    }
    assert!(refused > 10, "{refused} times without room");
}

/// The same of a store that has given up its state for it: it waits on, also after a start.
#[test]
fn an_emptied_store_without_room_waits_on() {
    let (_given, source) = filled(1, 5, "new", 90);
    let (metadata, chunks) = snapshot(&*source);
    let (place, mut store) = filled(2, 4, "old", 30);
    place.disk().limit(1);
    // There is no room to say that it is emptied once the log must become longer.
    let refused = (0..1000).find_map(|number| {
        store.set_vote(10 + number, 1).expect("a vote");
        store.persist().err()
    });
    assert_eq!(refused.expect("it is full at some time").kind(), ErrorKind::Full);
    assert_eq!(store.receive(true).expect_err("no room").kind(), ErrorKind::Full);
    assert!(!store.is_partial() && value(&*store, "old").is_some());
    place.disk().limit(0);
    store.persist().expect("there is room");
    let mut store = {
        drop(store);
        place.closed().open().expect("it opens")
    };
    assert!(!store.is_partial(), "what had no room is not done later");
    store.receive(true).expect("there is room");
    for _ in 0..2 {
        place.disk().limit(store.footprint().used_bytes + 5000);
        push(&mut *store, &chunks);
        assert_eq!(store.finish(&metadata).expect_err("no room").kind(), ErrorKind::Full);
        assert!(store.is_partial());
        store.receive(true).expect("it waits");
    }
    drop(store);
    let mut store = place.closed().open().expect("it opens on a disk that is full");
    assert!(store.is_partial());
    place.disk().limit(0);
    store.receive(true).expect("it waits");
    push(&mut *store, &chunks);
    store.finish(&metadata).expect("there is room");
    assert_eq!((store.applied(), store.is_partial()), (91, false));
}

fn change(kind: ConfChangeType, node_id: u64) -> ConfChangeV2 {
    let single = ConfChangeSingle { change_type: kind, node_id, ..ConfChangeSingle::default() };
    ConfChangeV2 { changes: vec![single].into(), ..ConfChangeV2::default() }
}

/// Hazard: a replica joins on a disk that is too small, and its process ends at each snapshot.
#[test]
fn a_replica_takes_a_snapshot_once_it_has_room() {
    let mut cluster = Cluster::with_maps(Variant::Wal, &[0; 3], &Settings::default());
    let token = cluster.open(1);
    let value = "v".repeat(2000);
    for number in 0..100 {
        are(&mut cluster, 1, token, &[(&format!("SET k{number} {value}"), "+OK")]);
    }
    cluster.join(4, Variant::Wal);
    cluster.at(4).place.disk().limit(100_000);
    let taken = cluster.at(1).node.change_members(1 << 62, &change(ConfChangeType::AddLearnerNode, 4));
    taken.expect("a store").expect("it is taken");
    cluster.pass(6000);
    let (status, store) = (cluster.at(4).node.status(), cluster.at(4).node.store());
    assert!(status.applied == 0 && !store.is_partial(), "{status:?}");
    assert!(cluster.at(4).node.store().shortages().count > 1, "it is tried again");
    cluster.at(4).place.disk().limit(0);
    cluster.pass(6000);
    let applied = cluster.at(1).node.status().applied;
    assert_eq!(cluster.at(4).node.status().applied, applied);
}

/// Hazard: the entry that changes the members is committed by the others, and has no room here: the
/// process ended.
#[test]
fn members_change_while_a_replica_has_no_room() {
    let mut lost = 0;
    for (full, less) in [1, 3].into_iter().flat_map(|full| (0..8).map(move |step| (full, 100 * step))) {
        let mut cluster = Cluster::with_maps(Variant::Wal, &[0; 3], &Settings::default());
        let token = cluster.open(1);
        are(&mut cluster, 1, token, &[("SET a 1", "+OK")]);
        // The log has some room of its own, which is used up at another moment.
        cluster.at(full).place.disk().limit(1);
        are(&mut cluster, 1, token, &[(&format!("SET a {}", "v".repeat(100 + less)), "+OK")]);
        let kinds = [ConfChangeType::AddLearnerNode, ConfChangeType::RemoveNode];
        for kind in kinds.into_iter().cycle().take(40) {
            // One that is not applied here, for it has no room, lets no other begin.
            let _ = cluster.at(1).node.change_members(1 << 62, &change(kind, 9 + less as u64)).expect("a store");
            cluster.pass(50);
        }
        let members = cluster.at(full).node.store().persistent_state().members_at;
        assert!(cluster.at(full).node.status().is_stalled && cluster.at(full).node.store().shortages().count > 0);
        // Whether they are noted and not durable.
        let failed = cluster.at(full).place.failed(&mut Random::new(1)).open().expect("it opens");
        lost += usize::from(failed.persistent_state().members_at < members);
        cluster.at(full).place.disk().limit(0);
        cluster.pass(1000);
        let status = cluster.at(full).node.status();
        assert!(!status.is_stalled, "{status:?}");
        assert!(cluster.at(full).node.store().persistent_state().members_at >= members);
        assert!(!cluster.at(full).node.wants_persist());
        let leads = lines::leader(&cluster);
        assert_eq!(cluster.at(leads).node.status().role, Role::Leader);
        let token = cluster.open(leads);
        are(&mut cluster, leads, token, &[("SET c 1", "+OK")]);
        let failed = cluster.at(full).place.failed(&mut Random::new(1)).open().expect("it opens");
        assert!(failed.persistent_state().members_at >= members);
    }
    assert!(lost > 0, "it was never the members that had no room");
}
