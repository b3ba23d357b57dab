//! A cluster whose quorum is lost for good, and what keeps operators from losing it.

use std::path::Path;

use super::replica::{Replica, cluster, leader, set};
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

/// Two of three replicas are lost. What the third has becomes a cluster again, under another identity: an old member that comes back is refused.
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
        let said = new.done(&["recover", "--from", &from]);
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

/// Hazard: a learner that nobody runs is made a voter: a cluster of one then waits for its vote for ever.
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
