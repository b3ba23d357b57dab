//! Replicas whose files may not grow: they stay, say so, and go on once there is room.

use std::path::Path;

use super::operators::get;
use super::replica::{Replica, cluster, leader, set, wait_for};
use super::resp::{Client, Reply};

/// Most bytes of a file.
const FILE_BYTES: u64 = 3 << 20;

fn with(replica: &Replica, more: &str) {
    let text = std::fs::read_to_string(replica.config()).expect("a configuration");
    std::fs::write(replica.config(), text.replace("emulate = true", &format!("emulate = true, {more}")))
        .expect("written");
}

fn founded(top: &Path, more: &str) -> Replica {
    let mut replica = Replica::new(top, "a", "wal", "");
    with(&replica, more);
    replica.done(&["init"]);
    replica.start();
    replica.votes();
    replica
}

/// A number of /metrics.
fn number(replica: &Replica, name: &str) -> f64 {
    let metrics = get(replica, "/metrics").1;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {metrics}"));
    line.trim().parse().expect("a number")
}

fn call(client: &mut Client, words: &[&str]) -> Reply {
    client.call(words).expect("a reply")
}

fn is_refused(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with("OOM"))
}

/// Numbers of the states that there are.
fn states(replica: &Replica) -> Vec<u64> {
    let entries = std::fs::read_dir(replica.data()).expect("a directory").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter_map(|name| name.strip_prefix("state.")?.parse().ok()).collect()
}

/// Hazard: a model of the medium changes what lies there. Each start has another one.
#[test]
fn data_are_the_same_with_each_model() {
    for store in ["list", "wal"] {
        let top = tempfile::tempdir().expect("a directory");
        let mut replica = Replica::new(top.path(), "a", store, "");
        let plain = std::fs::read_to_string(replica.config()).expect("a configuration");
        for (at, model) in ["optane", "off", "nv-cmm@0"].into_iter().enumerate() {
            std::fs::write(replica.config(), &plain).expect("written");
            with(&replica, &format!("emulate_model = '{model}'"));
            if at == 0 {
                replica.done(&["init"]);
            }
            replica.start();
            replica.votes();
            let mut client = replica.client().expect("a client");
            for before in 0..at {
                assert_eq!(call(&mut client, &["GET", &format!("k{before}")]), Reply::Bytes(vec![b'v'; 5000]));
            }
            assert_eq!(call(&mut client, &["SET", &format!("k{at}"), &"v".repeat(5000)]), Reply::Text("OK".into()));
            replica.kill();
        }
    }
}

/// Hazard: the state does not fit its file when it is written out. The process stays, deletions are
/// done, and the state is written out when it fits.
#[test]
fn a_state_that_has_no_room_is_written_out_later() {
    let top = tempfile::tempdir().expect("a directory");
    let replica = founded(top.path(), "log_size = '1M'");
    replica.limit_files(Some(FILE_BYTES));
    let mut client = replica.client().expect("a client");
    let value = "v".repeat(20_000);
    for key in 0..300 {
        assert_eq!(call(&mut client, &["SET", &format!("key:{key}"), &value]), Reply::Text("OK".into()));
    }
    wait_for("a shortage", || (number(&replica, "perdura_kv_store_without_room_total ") > 0.0).then_some(()));
    replica.logs("the medium had no room");
    let before = states(&replica);
    for key in 50..300 {
        assert_eq!(call(&mut client, &["DEL", &format!("key:{key}")]), Reply::Number(1));
    }
    for _ in 0..120 {
        assert_eq!(call(&mut client, &["SET", "key:0", &value]), Reply::Text("OK".into()));
    }
    wait_for("another state", || (states(&replica) != before).then_some(()));
    assert_eq!(call(&mut client, &["DBSIZE"]), Reply::Number(50));
}

/// Hazard: the process of a replica that joins ends when the snapshot has no room, at each start
/// again; and so does that of a replica that cannot write down who the members are.
#[test]
fn snapshots_and_changes_of_members_wait_for_room() {
    let top = tempfile::tempdir().expect("a directory");
    let quick = "raft.snapshot_idle_ms = 200";
    let mut replicas = cluster(top.path(), "wal", quick);
    let mut at = leader(&replicas);
    let value = "v".repeat(20_000);
    for key in 0..300 {
        assert!(set(&replicas, &mut at, &format!("key:{key}"), &value));
    }
    let mut joins = Replica::new(top.path(), "joins", "wal", quick);
    let leads = leader(&replicas);
    joins.done(&["join", "--to", &replicas[leads].peers()]);
    joins.start_with_files_of(FILE_BYTES);
    wait_for("two attempts", || {
        let answers = joins.state().is_some();
        (answers && number(&joins, "perdura_kv_store_without_room_total ") > 1.0).then_some(())
    });
    joins.logs("the medium had no room");
    joins.limit_files(None);
    joins.votes();

    // No write has room at the leader: the others commit who the members are.
    replicas.push(joins);
    let leads = leader(&replicas);
    let other = (leads + 1) % replicas.len();
    let (id, first) = (replicas[other].id(), replicas[leads].state().expect("a state")["uptime_s"].as_u64());
    replicas[leads].limit_files(Some(0));
    let all = &replicas;
    std::thread::scope(|scope| {
        let removing = scope.spawn(|| all[leads].command(&["members", "remove", &id.to_string()]));
        wait_for("a shortage", || (number(&all[leads], "perdura_kv_store_without_room_total ") > 0.0).then_some(()));
        assert_eq!(get(&all[leads], "/health").0, "503");
        let mut client = all[leads].client().expect("a client");
        assert!(is_refused(&call(&mut client, &["SET", "key:0", "new"])) || leader(all) != leads);
        all[leads].limit_files(None);
        let output = removing.join().expect("a command");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
    wait_for("a good health", || (get(&replicas[leads], "/health").0 == "200").then_some(()));
    assert!(replicas[leads].state().expect("a state")["uptime_s"].as_u64() >= first, "it was not started anew");
    replicas.remove(other);
    let mut at = 0;
    assert!(set(&replicas, &mut at, "key:0", "new"));
}

/// The state in DRAM has a limit: beyond it puts are refused, deletions make room, and puts go on.
#[test]
fn the_state_in_dram_is_limited() {
    let top = tempfile::tempdir().expect("a directory");
    let replica = founded(top.path(), "state_size = '1M'");
    let mut client = replica.client().expect("a client");
    let value = "v".repeat(2000);
    for _ in 0..2 {
        let refused = (0..2000).find(|key| is_refused(&call(&mut client, &["SET", &format!("key:{key}"), &value])));
        let count = refused.expect("it is full at some time");
        assert!((400..540).contains(&count), "{count} of 2 KB in 1 MiB");
        wait_for("a bad health", || (get(&replica, "/health").0 == "503").then_some(()));
        assert!(is_refused(&call(&mut client, &["APPEND", "key:0", &value])));
        assert!(is_refused(&call(&mut client, &["MSET", "a", &value, "b", &value])));
        let used = number(&replica, "perdura_kv_store_size_bytes ") - number(&replica, "perdura_kv_store_free_bytes ");
        assert!(used <= f64::from(1 << 20), "{used}");
        for key in 0..count {
            assert_eq!(call(&mut client, &["DEL", &format!("key:{key}")]), Reply::Number(1));
        }
        wait_for("a good health", || (get(&replica, "/health").0 == "200").then_some(()));
        assert_eq!(call(&mut client, &["MSET", "a", &value, "b", &value]), Reply::Text("OK".into()));
        assert_eq!(call(&mut client, &["DEL", "a", "b"]), Reply::Number(2));
    }
}
