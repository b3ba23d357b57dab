//! A cluster whose quorum is lost for good, and what keeps operators from losing it.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::replica::{Replica, cluster, leader, set, wait_for};
use super::resp::Reply;

/// Names and bytes of the files of a directory.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(directory).expect("a directory").flatten();
    let mut found: Vec<_> = entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("a file")))
        .collect();
    found.sort();
    found
}

/// Two of three replicas are lost. What the third has becomes a cluster again, under another
/// identity: an old member that comes back is refused.
#[test]
fn a_lost_quorum_is_recovered_from() {
    for store in ["list", "wal"] {
        let top = tempfile::tempdir().expect("a directory");
        let mut replicas = cluster(top.path(), store, "");
        let mut at = leader(&replicas);
        for number in 0..50 {
            assert!(set(&replicas, &mut at, &format!("key:{number}"), &"v".repeat(500)));
        }
        let last = leader(&replicas);
        let from = replicas[last].data().to_str().expect("a path").to_owned();
        let old_cluster = replicas[last].state().expect("a state")["cluster"].clone();
        // In its place, at its addresses.
        let mut new = Replica::new(top.path(), "new", store, "");
        new.ports = replicas[last].ports;
        let text = std::fs::read_to_string(replicas[last].config()).expect("a configuration");
        std::fs::write(new.config(), text.replace(&from, &new.data().display().to_string())).expect("written");
        let said = new.refused(&["recover", "--from", &from], 2);
        assert!(said.contains("in use"), "{said}");
        replicas.iter_mut().for_each(Replica::kill);
        let before = files(&replicas[last].data());
        // Its copy has all values and the hashes of passwords.
        let copy = top.path().join("new/data.recovering");
        let said = std::thread::scope(|scope| {
            let recovering = scope.spawn(|| new.done(&["recover", "--from", &from]));
            let mut modes = BTreeSet::new();
            while !recovering.is_finished() {
                modes.extend(copy.metadata().map(|found| found.permissions().mode() & 0o777));
            }
            assert_eq!(modes, BTreeSet::from([0o700]), "{store}");
            recovering.join().expect("it ends")
        });
        assert!(said.contains("the first of") && said.contains("never start a replica of the old cluster"), "{said}");
        assert!(before == files(&replicas[last].data()), "the directory was changed");
        assert!(!top.path().join("new/data.recovering").exists());
        let said = new.refused(&["recover", "--from", &from], 2);
        assert!(said.contains("there is a replica already"), "{said}");

        new.start();
        new.votes();
        assert_ne!(new.state().expect("a state")["cluster"], old_cluster);
        let mut client = new.client().expect("a client");
        for number in 0..50 {
            let found = client.call(&["GET", &format!("key:{number}")]).expect("a reply");
            assert_eq!(found, Reply::Bytes("v".repeat(500).into_bytes()), "key:{number}");
        }
        let old = (last + 1) % 3;
        replicas[old].start();
        new.logs("wrong cluster id");
        assert_eq!(client.call(&["SET", "key:0", "new"]).expect("a reply"), Reply::Text("OK".into()));
        // Another replica joins anew.
        let mut joins = Replica::new(top.path(), "joins", store, "");
        joins.done(&["join", "--to", &new.peers()]);
        joins.start();
        joins.votes();
    }
}

/// Hazard: a learner that nobody runs is made a voter: a cluster of one then waits for its vote for
/// ever.
#[test]
fn a_learner_that_never_answered_is_not_promoted() {
    let top = tempfile::tempdir().expect("a directory");
    let mut replica = Replica::new(top.path(), "a", "list", "");
    replica.done(&["init"]);
    replica.start();
    replica.votes();
    let said = replica.refused(&["members", "promote", "77"], 2);
    assert!(said.contains("there is no member 77"), "{said}");
    replica.done(&["members", "add", "77", "127.0.0.1:1", "127.0.0.1:2"]);
    let said = replica.refused(&["members", "promote", "77"], 2);
    assert!(said.contains("in sync with the leader"), "{said}");
    let mut client = replica.client().expect("a client");
    assert_eq!(client.call(&["SET", "key", "value"]).expect("a reply"), Reply::Text("OK".into()));
    replica.done(&["members", "remove", "77"]);
}

/// Hazard: operators take the cluster its quorum: the last voter, or one without which those that
/// answer are none. Right after a crash too, when the dead one was heard a moment ago.
#[test]
fn a_voter_that_a_quorum_needs_is_not_removed() {
    let top = tempfile::tempdir().expect("a directory");
    let mut replicas = cluster(top.path(), "list", "");
    let leads = leader(&replicas);
    let first = replicas.remove(leads);
    let [second, dead] = &mut replicas[..] else { panic!("two others") };
    let said = first.refused(&["members", "remove", "4242"], 2);
    assert!(said.contains("there is no member 4242"), "{said}");
    let said = first.refused(&["members", "remove", "none"], 2);
    assert!(said.contains("is no id of a replica"), "{said}");
    let (id, last) = (second.id(), dead.id().to_string());
    let is_voter = || {
        let state = first.state().expect("a state");
        let members = state["members"].as_array().expect("members");
        members.iter().any(|one| one["replica"] == id && one["kind"] == "voter")
    };
    dead.kill();
    std::thread::scope(|scope| {
        let removing = scope.spawn(|| first.command(&["members", "remove", &id.to_string()]));
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!removing.is_finished() && is_voter());
        dead.start();
        let output = removing.join().expect("a command");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
    assert!(!is_voter());
    dead.votes();
    let mut client = first.client().expect("a client");
    assert_eq!(client.call(&["SET", "key", "value"]).expect("a reply"), Reply::Text("OK".into()));
    // And the last one stays.
    first.done(&["members", "remove", &last]);
    let said = first.refused(&["members", "remove", &first.id().to_string()], 2);
    assert!(said.contains("the only voter"), "{said}");
    assert_eq!(client.call(&["SET", "key", "value"]).expect("a reply"), Reply::Text("OK".into()));
}

/// An operator brings a replica back from an older copy of its directory: it has acknowledged what
/// it has not.
#[test]
fn an_older_copy_of_a_replica_takes_no_part_and_says_why() {
    let top = tempfile::tempdir().expect("a directory");
    let mut replicas = cluster(top.path(), "list", "");
    let mut leads = leader(&replicas);
    let follows = (leads + 1) % 3;
    replicas[follows].stop();
    let map = replicas[follows].data().join("kv.map");
    let older = std::fs::read(&map).expect("a file");
    replicas[follows].start();
    replicas[follows].votes();
    for number in 0..20 {
        assert!(set(&replicas, &mut leads, &format!("key:{number}"), "value"));
    }
    let last = |replica: &Replica| replica.state()?["last"].as_u64();
    loop {
        wait_for("all entries", || (last(&replicas[follows])? == last(&replicas[leads])?).then_some(()));
        let follower = &mut replicas[follows];
        follower.stop();
        std::fs::write(&map, &older).expect("it is written");
        follower.start();
        // Another leader, elected meanwhile, gives it all it lacks.
        let is_ready = || follower.state().is_some_and(|state| state["is_ready"] == true);
        let has_said = || follower.log().contains("entries are missing that this replica has acknowledged");
        if wait_for("a line, or a voter", || has_said().then_some(true).or_else(|| is_ready().then_some(false))) {
            break;
        }
    }
    assert!(set(&replicas, &mut leads, "key:0", "new"), "the others go on");
}
