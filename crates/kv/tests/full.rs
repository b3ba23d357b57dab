//! Maps that are full, and replicas without room.

use crate::support::cluster;

use crate::support::cluster::Cluster;
use crate::support::lines::{are, leader, says};
use perdura_kv::client::Settings;
use perdura_kv::node::{self, Node, Outcome, Role};
use perdura_kv::sim::Variant;
use perdura_kv::wire::PeerMessage;
use raft::eraftpb::{
    ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState, Entry, Message, MessageType, Snapshot, SnapshotMetadata,
};

/// Sets keys from a number on until one is refused. Returns its number and the answer.
fn fill(cluster: &mut Cluster, token: u32, from: u64) -> (u64, String) {
    let value = "v".repeat(2000);
    let mut said = (from..10_000).map(|number| (number, says(cluster, 1, token, &format!("SET k{number} {value}"))));
    said.find(|(_, reply)| reply != "+OK").expect("it is full at some time")
}

/// A map that is full is no reason to stop: reads are answered, what is deleted makes room, and all
/// replicas have the same.
#[test]
fn a_full_map_refuses_what_needs_room_and_takes_deletions() {
    for variant in [Variant::List, Variant::BTree] {
        let mut cluster = Cluster::with_maps(variant, &[1 << 20; 3], &Settings::default());
        let token = cluster.open(1);
        let mut from = 0;
        for round in 0..3 {
            let (end, refused) = fill(&mut cluster, token, from);
            assert!(refused.starts_with("-OOM"), "{variant:?}: {refused}");
            assert!(end - from > 50, "{variant:?}, round {round}: only {} fit", end - from);
            cluster.pass(1000);
            let last = end - 1;
            let size = end - from;
            let kept = format!("$2000 {}", "v".repeat(2000));
            are(&mut cluster, 1, token, &[(&format!("GET k{last}"), &kept), ("DBSIZE", &format!(":{size}"))]);
            for number in from..end {
                are(&mut cluster, 1, token, &[(&format!("DEL k{number}"), ":1")]);
            }
            cluster.pass(100);
            are(&mut cluster, 1, token, &[("DBSIZE", ":0"), ("SET a 1 / DEL a", "+OK :1")]);
            from = end;
        }
        cluster.pass(1000);
        let applied = cluster.at(1).node.status().applied;
        for replica in cluster.replicas.values() {
            let status = replica.node.status();
            assert!(status.applied == applied && !status.is_stalled, "{variant:?}: {status:?}");
        }
    }
}

/// A disk that is full is no reason to stop either, nor to stay full: what is deleted makes room
/// once the state is written out.
#[test]
fn a_full_disk_refuses_what_needs_room_and_takes_deletions() {
    const DISK_BYTES: u64 = 600_000;
    let mut cluster = Cluster::with_maps(Variant::Wal, &[1 << 20; 3], &Settings::default());
    cluster.replicas.values().for_each(|replica| replica.place.disk().limit(DISK_BYTES));
    let token = cluster.open(1);
    let mut from = 0;
    for round in 0..3 {
        let (end, refused) = fill(&mut cluster, token, from);
        assert!(refused.starts_with("-OOM"), "{refused}");
        assert!(end - from > 50, "round {round}: only {} fit", end - from);
        assert!(cluster.at(1).node.store().room().is_full(), "round {round}: {:?}", cluster.at(1).node.store().room());
        cluster.pass(1000);
        let kept = format!("$2000 {}", "v".repeat(2000));
        are(&mut cluster, 1, token, &[(&format!("GET k{}", end - 1), &kept), ("DBSIZE", &format!(":{}", end - from))]);
        for number in from..end {
            are(&mut cluster, 1, token, &[(&format!("DEL k{number}"), ":1")]);
        }
        cluster.pass(100);
        are(&mut cluster, 1, token, &[("DBSIZE", ":0"), ("SET a 1 / DEL a", "+OK :1")]);
        assert!(!cluster.at(1).node.store().room().is_full());
        from = end;
    }
    assert!(cluster.replicas.values().all(|replica| !replica.node.status().is_stalled));
}

/// Others may fill the disk whole. Then nothing is acknowledged, what there is can be read, also
/// after a start, and all goes on once there is room.
#[test]
fn a_disk_that_others_fill_ends_no_replica() {
    let mut cluster = Cluster::with_maps(Variant::Wal, &[1 << 20], &Settings::default());
    let token = cluster.open(1);
    are(&mut cluster, 1, token, &[("SET a 1", "+OK")]);
    cluster.at(1).place.disk().limit(1);
    let value = "v".repeat(5000);
    // The first finds out: it waits, and is done when there is room again.
    let (waits, other) = (cluster.open(1), cluster.open(1));
    are(&mut cluster, 1, waits, &[(&format!("SET b {value}"), "")]);
    for line in [&format!("SET c {value}"), "DEL a"] {
        let said = says(&mut cluster, 1, other, line);
        assert!(said.starts_with("-OOM"), "{said}");
    }
    cluster.pass(1000);
    are(&mut cluster, 1, token, &[("GET a", "$1 1")]);
    cluster.at(1).place.disk().limit(0);
    cluster.pass(100);
    assert_eq!(cluster.take(1, waits), b"+OK\r\n");
    are(&mut cluster, 1, token, &[("SET d 1", "+OK")]);
    cluster.at(1).place.disk().limit(1);

    let place = cluster.replicas.remove(&1).expect("a replica").place.closed();
    let store = place.open().expect("it opens on a disk that is full");
    let mut node = Node::open(
        store,
        node::Settings { nonce: 5, ..node::Settings::default() },
        Box::new(cluster::Shown::default()),
    )
    .expect("a node");
    for _ in 0..100 {
        node.tick().expect("it stays");
        if node.wants_persist() {
            node.persist().expect("it stays");
        }
        node.tidy().expect("it stays");
    }
    let status = node.status();
    assert!(
        status.is_stalled && status.committed < status.last,
        "nothing is committed that is not durable: {status:?}"
    );
    place.disk().limit(0);
    for _ in 0..100 {
        node.tick().expect("a store");
        if node.wants_persist() {
            node.persist().expect("a store");
        }
    }
    assert_eq!(node.status().committed, node.status().last);
    assert!(node.status().role == Role::Leader && !node.status().is_stalled, "{:?}", node.status());
}

/// A replica whose map is smaller than those of the others has no room while these have. It answers
/// and votes with what it has, the others go on, and it comes back by a snapshot once there is less
/// to be had.
#[test]
fn a_replica_without_room_lags_and_comes_back() {
    for variant in [Variant::List, Variant::BTree] {
        let mut cluster = Cluster::with_maps(variant, &[2 << 20, 2 << 20, 1 << 20], &Settings::default());
        let token = cluster.open(1);
        let (end, _) = fill(&mut cluster, token, 0);
        cluster.pass(2000);
        let (leads, lags) = (cluster.at(1).node.status(), cluster.at(3).node.status());
        assert!(leads.role == Role::Leader && !leads.is_stalled, "{variant:?}: {leads:?}");
        assert!(lags.applied < leads.applied && lags.term == leads.term, "{variant:?}: {lags:?}");
        for number in 0..end {
            are(&mut cluster, 1, token, &[(&format!("DEL k{number}"), ":1")]);
        }
        are(&mut cluster, 1, token, &[("SET a 1", "+OK")]);
        cluster.pass(8000);
        let (leads, lags) = (cluster.at(1).node.status(), cluster.at(3).node.status());
        assert!(lags.applied == leads.applied && !lags.is_stalled, "{variant:?}: {lags:?}, {leads:?}");
    }
}

/// A replica without room is not made leader, and does not become one by itself; but it votes.
#[test]
fn a_replica_without_room_does_not_lead() {
    let mut cluster = Cluster::with_maps(Variant::List, &[1 << 20, 4 << 20, 4 << 20], &Settings::default());
    cluster.at(1).node.transfer(2).expect("a store");
    cluster.settle();
    let token = cluster.open(2);
    let value = "v".repeat(2000);
    for number in 0..700 {
        are(&mut cluster, 2, token, &[(&format!("SET k{number} {value}"), "+OK")]);
    }
    cluster.pass(1000);
    let status = cluster.at(1).node.status();
    assert!(status.is_stalled, "{status:?}");
    cluster.at(2).node.transfer(1).expect("a store");
    cluster.pass(2000);
    assert_ne!(leader(&cluster), 1);
    cluster.at(2).is_cut_off = true;
    cluster.pass(5000);
    assert_eq!(leader(&cluster), 3);
}

/// A leader whose store cannot take its own entry has told nobody of it. It leads no more, so that
/// another can, and clients that wait get an error. It had told the others first; then all stood
/// still at the same entry.
#[test]
fn a_leader_without_room_leads_no_more() {
    let mut cluster = Cluster::with_maps(Variant::List, &[1 << 20; 3], &Settings::default());
    let token = cluster.open(1);
    let (end, _) = fill(&mut cluster, token, 0);
    // Nothing can be cleared away here meanwhile, but at the others.
    let held = cluster.at(1).node.store().snapshot(1000).expect("a snapshot");
    let refused = (0..end).any(|number| says(&mut cluster, 1, token, &format!("DEL k{number}")) != ":1");
    assert!(refused, "there was room for all deletions");
    // Changes of members are not refused: who adds a larger replica needs them.
    let mut kinds = [ConfChangeType::AddLearnerNode, ConfChangeType::RemoveNode].into_iter().cycle();
    let mut changes = 0;
    while cluster.at(1).node.status().role == Role::Leader {
        let change_type = kinds.next().expect("a cycle");
        let single = ConfChangeSingle { change_type, node_id: 9, ..ConfChangeSingle::default() };
        let change = ConfChangeV2 { changes: vec![single].into(), ..ConfChangeV2::default() };
        let _ = cluster.at(1).node.change_members(1 << 62, &change).expect("a store");
        changes += 1;
        assert!(changes < 10_000, "it does not get full");
        cluster.settle();
    }
    let status = cluster.at(1).node.status();
    assert!(status.is_stalled, "{status:?}");
    cluster.pass(2000);
    let now = leader(&cluster);
    assert!(now > 1, "nobody leads");
    let token = cluster.open(now);
    assert_eq!(says(&mut cluster, now, token, &format!("DEL k{}", end - 1)), ":1");
    drop(held);
    cluster.pass(5000);
    let (leads, lags) = (cluster.at(now).node.status(), cluster.at(1).node.status());
    assert!(lags.applied == leads.applied && !lags.is_stalled, "{lags:?}, {leads:?}");
}

/// A snapshot cannot be received while an operator's backup holds one: it is offered again. The
/// replica had ended.
#[test]
fn a_replica_that_is_backed_up_receives_later() {
    let mut cluster = Cluster::new(3, &Settings::default());
    let token = cluster.open(1);
    are(&mut cluster, 1, token, &[("SET a 1", "+OK")]);
    cluster.at(3).is_cut_off = true;
    let value = "v".repeat(500);
    for number in 0..50 {
        are(&mut cluster, 1, token, &[(&format!("SET k{number} {value}"), "+OK")]);
    }
    let held = cluster.at(3).node.store().snapshot(1000).expect("a snapshot");
    cluster.at(3).is_cut_off = false;
    cluster.pass(3000);
    assert!(cluster.at(3).node.status().applied < cluster.at(1).node.status().applied);
    drop(held);
    cluster.pass(5000);
    assert_eq!(cluster.at(3).node.status().applied, cluster.at(1).node.status().applied);
}

/// Hazard: a replica that cannot begin to receive a snapshot for a moment waits until the leader
/// has let that go and offers another.
#[test]
fn a_replica_that_was_backed_up_receives_at_once() {
    for receives_in_place in [false, true] {
        let mut cluster = Cluster::new(3, &Settings::default());
        let token = cluster.open(1);
        cluster.at(3).is_cut_off = true;
        let value = "v".repeat(500);
        for number in 0..50 {
            are(&mut cluster, 1, token, &[(&format!("SET k{number} {value}"), "+OK")]);
        }
        if receives_in_place {
            cluster.restart_with(3, node::Settings { nonce: 77, receives_in_place, ..node::Settings::default() });
        }
        let held = cluster.at(3).node.store().snapshot(1000).expect("a snapshot");
        cluster.at(3).is_cut_off = false;
        // The leader has offered it, and waits until it is fetched, or for 1000 ms.
        cluster.pass(300);
        let leads = cluster.at(1).node.status();
        assert!(cluster.at(3).node.status().applied < leads.applied && cluster.at(1).node.snapshots().0 == 1);
        drop(held);
        cluster.pass(150);
        let status = cluster.at(3).node.status();
        assert_eq!(status.applied, cluster.at(1).node.status().applied, "{receives_in_place}: {status:?}");
    }
}

/// Hazard: who waits for an entry that the leader's own store had no room for, and so nobody has,
/// is told that it may have been done.
#[test]
fn what_a_leader_had_no_room_for_was_not_done() {
    const FIRST: u64 = 1 << 63;
    let mut cluster = Cluster::with_maps(Variant::List, &[1 << 20], &Settings::default());
    let token = cluster.open(1);
    fill(&mut cluster, token, 0);
    let _held = cluster.at(1).node.store().snapshot(1000).expect("a snapshot");
    let kinds = [ConfChangeType::AddLearnerNode, ConfChangeType::RemoveNode].into_iter().cycle();
    for (ticket, change_type) in (FIRST..FIRST + 10_000).zip(kinds) {
        let single = ConfChangeSingle { change_type, node_id: 9, ..ConfChangeSingle::default() };
        let change = ConfChangeV2 { changes: vec![single].into(), ..ConfChangeV2::default() };
        let node = &mut cluster.at(1).node;
        node.change_members(ticket, &change).expect("a store").expect("it leads, and is not busy");
        if node.status().role != Role::Leader {
            let done = node.take_output().done;
            let fates: Vec<Outcome> =
                done.iter().filter(|done| done.ticket == ticket).map(|done| done.outcome).collect();
            assert_eq!(fates, [Outcome::Never]);
            return;
        }
        cluster.settle();
    }
    panic!("it does not get full");
}

/// Hazard: a replica that was removed, or a learner that is cut off, names the leader that it heard
/// last for ever, and so is called ready.
#[test]
fn who_has_no_vote_and_hears_no_leader_names_none() {
    let mut cluster = Cluster::new(3, &Settings::default());
    let leads = cluster.at(1).node.status().leader;
    let single =
        ConfChangeSingle { change_type: ConfChangeType::RemoveNode, node_id: 3, ..ConfChangeSingle::default() };
    let change = ConfChangeV2 { changes: vec![single].into(), ..ConfChangeV2::default() };
    cluster.at(1).node.change_members(1 << 63, &change).expect("a store").expect("it leads");
    cluster.settle();
    let status = cluster.at(3).node.status();
    assert_eq!((status.role, status.leader), (Role::Learner, leads), "it has just heard it");
    cluster.pass(1000);
    assert_eq!(cluster.at(3).node.status().leader, 0);
    let token = cluster.open(3);
    let said = says(&mut cluster, 3, token, "SET a 1");
    assert!(said.starts_with("-CLUSTERDOWN"), "{said}");
    assert_eq!(cluster.at(2).node.status().leader, leads);
}

/// Hazard: a replica whose program is older than the leader's takes its entries for those of no
/// sound replica, and says so to nobody: it lags, and is called ready.
#[test]
fn entries_of_a_newer_program_are_left_alone_and_told() {
    let mut cluster = Cluster::new(3, &Settings::default());
    let status = cluster.at(2).node.status();
    let append = |data: &'static [u8], term| {
        let entry = Entry { term, index: status.last + 1, data: data.into(), ..Entry::default() };
        let (msg_type, index, log_term) = (MessageType::MsgAppend, status.last, status.term);
        let entries = vec![entry].into();
        PeerMessage::Raft(Message { msg_type, from: 1, to: 2, term, index, log_term, entries, ..Message::default() })
    };
    let node = &mut cluster.at(2).node;
    // One that cannot be read, and is of no other version either.
    assert_eq!(node.step(append(b"\x01", status.term)).ok(), Some(false));
    assert_eq!(node.unread(), None);
    for _ in 0..2 {
        assert_eq!(node.step(append(b"\x02 newer", status.term)).ok(), Some(false));
        assert_eq!(node.unread(), Some(status.last + 1));
    }
    // It votes, has what it has, and goes on when it can read what comes.
    assert_eq!(node.status(), status);
    let token = cluster.open(1);
    are(&mut cluster, 1, token, &[("SET a 1", "+OK")]);
    cluster.pass(100);
    let (here, leads) = (cluster.at(2).node.status(), cluster.at(1).node.status());
    assert_eq!((cluster.at(2).node.unread(), here.applied), (None, leads.applied));
}

/// Hazard: a replica that was started on an older copy of its directory stands for election again
/// and again, and no log says why.
#[test]
fn a_replica_that_has_lost_entries_says_so() {
    let mut cluster = Cluster::new(3, &Settings::default());
    let status = cluster.at(2).node.status();
    let heartbeat = |commit, term| {
        let msg_type = MessageType::MsgHeartbeat;
        PeerMessage::Raft(Message { msg_type, from: 1, to: 2, term, commit, ..Message::default() })
    };
    let node = &mut cluster.at(2).node;
    assert_eq!(node.step(heartbeat(status.last, status.term)).ok(), Some(true));
    assert_eq!(node.step(heartbeat(u64::MAX, status.term)).ok(), Some(false));
    assert_eq!(node.step(heartbeat(status.last + 7, status.term - 1)).ok(), Some(true), "an old leader's is no sign");
    assert_eq!(node.lost_up_to(), None);
    assert_eq!(node.step(heartbeat(status.last + 7, status.term)).ok(), Some(false));
    assert_eq!((node.lost_up_to(), node.status()), (Some(status.last + 7), status));
}

/// Messages of another replica: an entry that no store takes, which ended the process, and a
/// question that Raft would pass on in the name of who has asked, over a connection that is not its
/// own.
#[test]
fn messages_that_would_do_harm_are_dropped() {
    let mut cluster = Cluster::new(3, &Settings::default());
    let status = cluster.at(2).node.status();
    let message = |msg_type, from, data: &'static [u8]| {
        let entry = Entry { term: status.term, index: status.last + 1, data: data.into(), ..Entry::default() };
        Message { msg_type, from, to: 2, entries: vec![entry].into(), ..Message::default() }
    };
    let (term, index) = (status.term, status.last);
    let unreadable = message(MessageType::MsgAppend, 1, b"\x09");
    let append = Message { term, index, log_term: term, commit: index, ..unreadable };
    assert_eq!(cluster.at(2).node.step(PeerMessage::Raft(append)).ok(), Some(false));
    // Raft took its members, and the replica voted alone.
    let members = ConfState { voters: vec![2], ..ConfState::default() };
    let metadata =
        SnapshotMetadata { conf_state: Some(members).into(), index, term: term + 1, ..SnapshotMetadata::default() };
    let mut other = Message { term: term + 1, ..message(MessageType::MsgSnapshot, 1, b"") };
    other.set_snapshot(Snapshot { metadata: Some(metadata).into(), ..Snapshot::default() });
    assert_eq!(cluster.at(2).node.step(PeerMessage::Raft(other)).ok(), Some(false));
    cluster.at(2).node.step(PeerMessage::Raft(message(MessageType::MsgReadIndex, 3, b"read"))).expect("a store");
    let output = cluster.at(2).node.take_output();
    assert!(output.messages.iter().all(|message| message.from() == 2), "{:?}", output.messages);
}

/// Hazard: the cluster loses its quorum with a replica that operators take out while another is
/// down. The leader knows who answers.
#[test]
fn a_leader_knows_which_voters_it_can_do_without() {
    let mut cluster = Cluster::new(3, &Settings::default());
    cluster.pass(100);
    let quorum = |cluster: &mut Cluster, voters: &[u64]| {
        // The leader that was heard is forgotten at each election timeout, and known again by the
        // next heartbeat.
        (0..20).any(|_| {
            cluster.pass(10);
            cluster.at(1).node.active_of(voters) > voters.len() / 2
        })
    };
    assert!(quorum(&mut cluster, &[1, 2]) && quorum(&mut cluster, &[1, 3]));
    assert_eq!(cluster.at(2).node.active_of(&[2]), 0, "it does not lead");
    cluster.at(3).is_cut_off = true;
    cluster.pass(2000);
    assert!(!quorum(&mut cluster, &[1, 3]), "without 2 there is 1 of two");
    assert!(quorum(&mut cluster, &[1, 2]), "3 can go");
    assert!(!cluster.at(1).node.is_in_sync(3) && quorum(&mut cluster, &[1]));
}
