//! Leaders are killed and replicas wiped. No write that was acknowledged may be lost, and writes
//! must soon go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::replica::{Replica, cluster, leader, set, wait_for};
use super::resp::{Client, Reply};

/// State of one writer: the last number of its key that was acknowledged, and the last that it has
/// sent. And its longest wait.
struct Written {
    acknowledged: u64,
    sent: u64,
    pause: Duration,
}

/// Writes rising numbers to a key until it is told to end.
fn write(replicas: &[u16], key: &str, ends: &AtomicBool) -> Written {
    let mut written = Written { acknowledged: 0, sent: 0, pause: Duration::ZERO };
    let (mut at, mut client, mut last) = (0, None, Instant::now());
    while !ends.load(Ordering::Relaxed) {
        let Some(open) = &mut client else {
            at = (at + 1) % replicas.len();
            client = Client::connect(replicas[at]).ok();
            continue;
        };
        let number = written.sent + 1;
        match open.call(&["SET", key, &number.to_string()]) {
            Ok(Reply::Text(_)) => {
                (written.acknowledged, written.sent) = (number, number);
                written.pause = written.pause.max(last.elapsed());
                last = Instant::now();
            }
            // It has not been done: another replica is asked the same.
            Ok(_) => {
                client = None;
                std::thread::sleep(Duration::from_millis(2));
            }
            // Nobody knows whether it was done.
            Err(_) => (written.sent, client) = (number, None),
        }
    }
    written
}

/// Kills the leader under load, `kills` times, starting it again each time.
fn kills_lose_nothing(store: &str, kills: usize) {
    const WRITERS: usize = 3;
    let top = tempfile::tempdir().expect("a directory");
    let mut replicas = cluster(top.path(), store, "");
    let ports: Vec<u16> = replicas.iter().map(|replica| replica.ports[0]).collect();
    let ends = AtomicBool::new(false);
    let written: Vec<Written> = std::thread::scope(|scope| {
        let (ports, ends) = (&ports, &ends);
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write(ports, &format!("key:{writer}"), ends))).collect();
        for _ in 0..kills {
            std::thread::sleep(Duration::from_millis(500));
            let place = leader(&replicas);
            replicas[place].kill();
            std::thread::sleep(Duration::from_millis(1500));
            replicas[place].start();
            replicas[place].votes();
        }
        ends.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("a writer")).collect()
    });
    for (writer, Written { acknowledged, sent, pause }) in written.iter().enumerate() {
        println!(
            "{store}: writer {writer}: {acknowledged} of {sent} acknowledged, longest pause {} ms",
            pause.as_millis()
        );
        assert!(*acknowledged > 10, "nothing was written");
    }
    for replica in &replicas {
        for (writer, Written { acknowledged, sent, .. }) in written.iter().enumerate() {
            let key = format!("key:{writer}");
            let found = wait_for("a read", || match replica.client().ok()?.call(&["GET", &key]).ok()? {
                Reply::Bytes(bytes) => String::from_utf8(bytes).ok()?.parse::<u64>().ok(),
                Reply::Error(text) if text.starts_with("MOVED") => Some(*sent),
                _ => None,
            });
            assert!(
                (*acknowledged..=*sent).contains(&found),
                "{key} is {found}, acknowledged {acknowledged} of {sent}"
            );
        }
    }
}

#[test]
fn a_list_loses_no_acknowledged_write_when_leaders_are_killed() {
    kills_lose_nothing("list", 2);
}

#[test]
fn a_wal_loses_no_acknowledged_write_when_leaders_are_killed() {
    kills_lose_nothing("wal", 1);
}

/// The members of a cluster by id, as a replica knows them.
fn members(replica: &Replica) -> Vec<u64> {
    let state = replica.state().unwrap_or_default();
    let members = state["members"].as_array().cloned().unwrap_or_default();
    members.iter().filter_map(|member| member["replica"].as_u64()).collect()
}

/// A wiped replica has forgotten its vote and its acknowledgements. It joins under a new id, and
/// the old one is no member any more.
#[test]
fn a_wiped_replica_joins_under_a_new_id_in_place_of_the_old() {
    let top = tempfile::tempdir().expect("a directory");
    let mut replicas = cluster(top.path(), "btree", "");
    let mut at = 0;
    for number in 0..300 {
        assert!(set(&replicas, &mut at, &format!("key:{number}"), &"v".repeat(100)));
    }
    let (wiped, other) = if leader(&replicas) == 2 { (1, 0) } else { (2, 0) };
    let old = replicas[wiped].id();
    let to = replicas[other].peers();
    assert!(replicas[wiped].refused(&["join", "--to", &to], 2).contains("there is a replica already"));
    replicas[wiped].kill();
    std::fs::remove_dir_all(replicas[wiped].data()).expect("the data are removed");
    let begun = Instant::now();
    // While the leader takes the old one for alive it is not replaced.
    wait_for("the replica to join", || {
        let is_done = replicas[wiped].command(&["join", "--to", &to]).status.success();
        if !is_done {
            let _ = std::fs::remove_dir_all(replicas[wiped].data());
        }
        is_done.then_some(())
    });
    replicas[wiped].start();
    replicas[wiped].votes();
    println!("a wiped replica is a voter again after {} ms", begun.elapsed().as_millis());
    let new = replicas[wiped].id();
    assert_ne!(old, new);
    let found = members(&replicas[wiped]);
    assert!(found.contains(&new) && !found.contains(&old) && found.len() == 3, "{old} -> {new}: {found:?}");
    // It counts: with one of the others down, writes go on.
    let third = (0..3).find(|place| ![wiped, leader(&replicas)].contains(place)).expect("a third");
    replicas[third].kill();
    assert!(set(&replicas, &mut at, "after", "all"));
}
