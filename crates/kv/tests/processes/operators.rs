//! Commands of operators and their output.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use super::replica::{Replica, cluster, leader, set, wait_for};
use super::resp::Reply;

/// The status and the body of a path.
pub fn get(replica: &Replica, path: &str) -> (String, String) {
    get_at(replica, "localhost", path)
}

/// The same, asked by the name of a host.
fn get_at(replica: &Replica, host: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", replica.ports[2])).expect("HTTP");
    // In pieces, as networks may bring it.
    for piece in format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes().chunks(7) {
        stream.write_all(piece).expect("sent");
    }
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).expect("a status").to_owned(), body.to_owned())
}

/// A cluster is read and steered by its operators: numbers, pages, leadership, members, the end of
/// a process.
#[test]
fn operators_see_and_steer_a_cluster() {
    let top = tempfile::tempdir().expect("a directory");
    let mut replicas = cluster(top.path(), "list", "log = { format = 'json' }");
    let mut at = 0;
    assert!(set(&replicas, &mut at, "key", "value"));
    let first = leader(&replicas);
    for path in ["/", "/metrics", "/live", "/health", "/ready", "/state"] {
        assert_eq!(get(&replicas[first], path).0, "200", "{path}");
    }
    assert_eq!(get(&replicas[first], "/nothing").0, "404");
    for (host, status) in [("127.0.0.1", "200"), ("evil.test", "421")] {
        for path in ["/", "/metrics", "/state"] {
            assert_eq!(get_at(&replicas[first], host, path).0, status, "{host} {path}");
        }
    }
    assert!(get(&replicas[first], "/metrics").1.contains("perdura_kv_role{role=\"leader\"} 1"));
    let state: serde_json::Value = serde_json::from_str(&get(&replicas[first], "/state").1).expect("JSON");
    assert_eq!(state["state"]["members"].as_array().map(Vec::len), Some(3), "{state}");
    assert!(state["latency"]["intervals"].as_array().is_some_and(|all| !all.is_empty()), "{state}");

    let second = (first + 1) % 3;
    let id = replicas[second].id();
    // Asked at a replica that does not lead: the question goes on to the one that does.
    replicas[second].done(&["transfer", &id.to_string()]);
    assert_eq!(leader(&replicas), second);
    // Hazard: a member is written down at an address that nobody can be told, nor read back.
    let long = format!("{}:1", "h".repeat(300));
    for (peer, client) in
        [("nonsense", "h:1"), ("h:1", "h:port"), ("a b:1", "h:1"), (long.as_str(), "h:1"), ("", "h:1")]
    {
        let said = replicas[second].refused(&["members", "add", "77", peer, client], 2);
        assert!(said.contains("use HOST:PORT"), "{said}");
    }
    // A member stays where it is, whatever an operator says.
    let own = format!("127.0.0.1:{}", replicas[first].ports[1]);
    let known = replicas[first].id().to_string();
    replicas[second].done(&["members", "add", &known, &own, ""]);
    let said = replicas[second].refused(&["members", "add", &known, "127.0.0.1:1", ""], 2);
    assert!(said.contains(&format!("is a member already, at {own}")), "{said}");
    replicas[second].stop();
    assert!(replicas[second].log().lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    assert!(replicas[second].log().contains("handing leadership over"));
    let checked = replicas[second].done(&["check"]);
    assert!(checked.contains("sound: "), "{checked}");
    assert!(set(&replicas, &mut at, "key", "other"));
    replicas[first].done(&["members", "remove", &id.to_string()]);
    // Hazard: clients are told of who is no member any more.
    let mut client = replicas[first].client().expect("a client");
    wait_for("the names of two members", || match client.call(&["CLUSTER", "NODES"]).expect("a reply") {
        Reply::Bytes(text) => (String::from_utf8_lossy(&text).lines().count() == 2).then_some(()),
        other => panic!("{other:?}"),
    });
    let said = replicas[first].refused(&["members", "remove", &id.to_string()], 2);
    assert!(said.contains("there is no member"), "{said}");
    // The removed one does not come back under its id.
    replicas[second].start();
    replicas[second].logs("unknown id");
    // Nor is it sent clients.
    wait_for("it to be not ready", || (get(&replicas[second], "/ready").0 == "503").then_some(()));
}

/// The data of a cluster are copied while it runs, and another cluster is made of them.
#[test]
fn a_backup_becomes_another_cluster() {
    for store in ["list", "wal"] {
        let top = tempfile::tempdir().expect("a directory");
        let mut replica = Replica::new(top.path(), "a", store, "");
        replica.done(&["init"]);
        replica.start();
        replica.votes();
        let mut client = replica.client().expect("a client");
        for number in 0..2000 {
            let reply = client.call(&["SET", &format!("key:{number}"), &"v".repeat(200)]).expect("a reply");
            assert_eq!(reply, Reply::Text("OK".into()));
        }
        let backup = top.path().join("backup");
        let backup = backup.to_str().expect("a path");
        // A file that an earlier try has left, for all to read, does not say who may read this one.
        let left = format!("{backup}.partial");
        std::fs::write(&left, "old").expect("written");
        std::fs::set_permissions(&left, Permissions::from_mode(0o666)).expect("a mode");
        let earlier = std::fs::File::open(&left).expect("opened");
        replica.done(&["backup", backup]);
        // It has the hashes of passwords, and so has the directory of the data.
        let mode = |path: &std::path::Path| std::fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        assert_eq!((mode(backup.as_ref()), mode(&replica.data())), (0o600, 0o700));
        assert_eq!(earlier.metadata().expect("a file").len(), 3);
        assert!(replica.refused(&["backup", backup], 2).contains("it exists"));
        let mut bytes = std::fs::read(backup).expect("the backup");

        let mut other = Replica::new(top.path(), "b", store, "");
        other.done(&["restore", backup]);
        other.start();
        other.votes();
        let state = (replica.state().expect("a state"), other.state().expect("a state"));
        assert_ne!(state.0["cluster"], state.1["cluster"]);
        let mut client = other.client().expect("a client");
        for number in 0..2000 {
            let found = client.call(&["GET", &format!("key:{number}")]).expect("a reply");
            assert_eq!(found, Reply::Bytes("v".repeat(200).into_bytes()), "key:{number}");
        }

        // Two backups in one file, or what is left of a longer one.
        let longer = top.path().join("longer");
        std::fs::write(&longer, [&bytes[..], b"x"].concat()).expect("a file");
        let second = Replica::new(top.path(), "d", store, "");
        let said = second.refused(&["restore", longer.to_str().expect("a path")], 1);
        assert!(said.contains("behind the end of the backup"), "{said}");

        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let broken = top.path().join("broken");
        std::fs::write(&broken, &bytes).expect("a file");
        let third = Replica::new(top.path(), "c", store, "");
        let said = third.refused(&["restore", broken.to_str().expect("a path")], 1);
        assert!(said.contains("checksum"), "{said}");
        // It is of no use, and in the way of the next try.
        assert!(said.contains("has no data: remove the directory"), "{said}");
        assert!(third.refused(&["restore", backup], 2).contains("already"), "{said}");
        std::fs::remove_dir_all(third.data()).expect("removed");
        third.done(&["restore", backup]);
    }
}

/// Hazard: a member that has just crashed is called alive, and the machine cannot join again; a
/// replica that has no data yet says that there are no keys.
#[test]
fn a_machine_joins_again_right_after_a_crash_and_says_that_it_has_no_data() {
    let top = tempfile::tempdir().expect("a directory");
    let mut replicas = cluster(top.path(), "wal", "");
    let first = leader(&replicas);
    let (second, third) = ((first + 1) % 3, (first + 2) % 3);
    assert!(set(&replicas, &mut 0, "key", "value"));
    let to = replicas[first].peers();
    replicas[second].kill();
    std::fs::remove_dir_all(replicas[second].data()).expect("wiped");
    replicas[second].done(&["join", "--to", &to]);
    replicas[first].kill();
    replicas[third].kill();
    replicas[second].start();
    let mut client = wait_for("a client", || replicas[second].client().ok());
    for request in [&["READONLY"][..], &["GET", "key"]] {
        match client.call(request).expect("a reply") {
            Reply::Error(text) => assert!(text.starts_with("LOADING"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    replicas[first].start();
    replicas[third].start();
    replicas[second].votes();
    let is_ok = |reply: Reply| (reply == Reply::Text("OK".into())).then_some(());
    wait_for("the users", || is_ok(client.call(&["READONLY"]).expect("a reply")));
    assert_eq!(client.call(&["GET", "key"]).expect("a reply"), Reply::Bytes(b"value".to_vec()));
}

/// Hazard: a full map is seen by nobody but those whose writes are refused.
#[test]
fn a_full_map_is_seen() {
    let top = tempfile::tempdir().expect("a directory");
    let mut replica = Replica::new(top.path(), "a", "list", "");
    let text = std::fs::read_to_string(replica.config()).expect("a configuration");
    std::fs::write(replica.config(), text.replace("size = '64M'", "size = '2M'")).expect("written");
    replica.done(&["init"]);
    replica.start();
    replica.votes();
    assert_eq!(get(&replica, "/health").0, "200");
    let mut client = replica.client().expect("a client");
    let value = "v".repeat(2000);
    let refused = (0..2000).find(|number| {
        let reply = client.call(&["SET", &format!("key:{number}"), &value]).expect("a reply");
        matches!(reply, Reply::Error(text) if text.starts_with("OOM"))
    });
    let count = refused.expect("it is full at some time");
    wait_for("a bad health", || (get(&replica, "/health").0 == "503").then_some(()));
    // Hazard: what looks after the process ends it again and again for a store that is full.
    assert_eq!(get(&replica, "/live").0, "200");
    replica.logs("the store is full");
    let metrics = get(&replica, "/metrics").1;
    for wanted in
        ["perdura_kv_store_full 1", "perdura_kv_full_total 1", "perdura_kv_store_size_bytes ", "process_open_fds "]
    {
        assert!(metrics.contains(wanted), "{wanted}: {metrics}");
    }
    let number = |name: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}"));
        line.trim().parse().expect("a number")
    };
    assert!(number("process_resident_memory_bytes ") > 1e6 && number("process_start_time_seconds ") > 1.5e9);
    assert!(number("perdura_kv_elections_total ") >= 0.0 && number("perdura_kv_log_clock_ahead_seconds ") < 1.0);
    assert!(number("perdura_kv_step_seconds_max ") > 0.0);
    for key in 0..count {
        assert_eq!(client.call(&["DEL", &format!("key:{key}")]).expect("a reply"), Reply::Number(1));
    }
    wait_for("a good health", || (get(&replica, "/health").0 == "200").then_some(()));
    replica.logs("the store has room again");
}
