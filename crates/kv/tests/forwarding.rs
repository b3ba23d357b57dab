//! Requests that a replica passes on to the leader: each hazard of having them done elsewhere, on
//! whole replicas. What was said of the connection that carries them is in
//! `processes/forwarding.rs`.

use crate::support::seeds;

use crate::support::cluster::Cluster;
use crate::support::lines::{are, leader, says};
use bytes::Bytes;
use perdura_kv::client::Settings;
use perdura_kv::wire::{Forward, ForwardedCommand};
use perdura_pmem::sim::Random;

/// Three replicas, of which 1 leads and the others pass requests on, and a connection to 2 and to
/// 3.
fn three(settings: &Settings) -> (Cluster, u32, u32) {
    let mut cluster = Cluster::new(3, settings);
    cluster.forwards = true;
    cluster.settle();
    let tokens = (cluster.open(2), cluster.open(3));
    (cluster, tokens.0, tokens.1)
}

const DENIED: &str = "-NOPERM this user has no permissions to run the 'set' command";
const MOVED: &str = "-MOVED 12182 127.0.0.1:7001";

#[test]
fn a_follower_does_what_only_the_leader_can() {
    let (mut cluster, mine, other) = three(&Settings::default());
    are(
        &mut cluster,
        2,
        mine,
        &[
            ("SET foo 1 / GET foo / INCR foo", "+OK $1 1 :2"),
            ("SET foo x NX / SET foo 3 IFEQ 2 GET / APPEND foo y", "$-1 $1 2 :2"),
            (
                "INCR foo / NOPE / SET foo",
                "-ERR value is not an integer or out of range -ERR unknown command 'NOPE', with args beginning with:  -ERR wrong number of arguments for 'set' command",
            ),
            (
                "MULTI / SET foo 5 / INCR foo / PING / GET foo / ECHO hi / EXEC / GET foo",
                "+OK +QUEUED +QUEUED +QUEUED +QUEUED +QUEUED *5 +OK :6 +PONG $1 6 $2 hi $1 6",
            ),
            (
                "MULTI / SET foo 7 / DISCARD / GET foo / MULTI / PING / EXEC",
                "+OK +QUEUED +OK $1 6 +OK +QUEUED *1 +PONG",
            ),
            ("PERDURA.ONCE me 1 INCR foo / PERDURA.ONCE me 1 INCR foo / GET foo", ":7 :7 $1 7"),
            ("CLIENT REPLY SKIP / SET foo 8 / GET foo", "$1 8"),
            ("FLUSHALL / DBSIZE / SET foo 9", "+OK :0 +OK"),
        ],
    );
    are(
        &mut cluster,
        3,
        other,
        &[("PERDURA.ONCE me 1 INCR foo / GET foo / READONLY / SET foo 4 / GET foo", ":7 $1 9 +OK +OK $1 4")],
    );
    assert!(cluster.at(2).clients.statistics().forwarded > 10);
    assert_eq!(cluster.at(1).clients.connections(), 0);
    let token = cluster.open(2);
    let said = says(&mut cluster, 2, token, "HELLO 3 / GETDEL none / MULTI / GETDEL none / EXEC");
    assert!(said.ends_with("_ +OK +QUEUED *1 _"), "{said}");
}

/// The command that changed a watched key does not matter, nor where it was sent.
#[test]
fn exec_is_refused_by_the_leader_if_a_watched_key_was_changed() {
    let (mut cluster, mine, other) = three(&Settings::default());
    are(
        &mut cluster,
        2,
        mine,
        &[("SET foo 1 / WATCH foo gone / GET foo / MULTI / SET foo 2 / EXEC", "+OK +OK $1 1 +OK +QUEUED *1 +OK")],
    );
    are(&mut cluster, 2, mine, &[("WATCH foo", "+OK"), ("WATCH gone / MULTI", "+OK +OK")]);
    are(&mut cluster, 3, other, &[("SET gone 1", "+OK")]);
    are(&mut cluster, 2, mine, &[("SET foo 3 / EXEC / GET foo", "+QUEUED *-1 $1 2")]);
    are(&mut cluster, 2, mine, &[("WATCH foo / SET foo 4 / MULTI / EXEC / GET foo", "+OK +OK +OK *-1 $1 4")]);
    are(
        &mut cluster,
        2,
        mine,
        &[(
            "WATCH foo / MULTI / EXEC / WATCH foo / UNWATCH / SET foo 1 / MULTI / GET foo / EXEC",
            "+OK +OK *0 +OK +OK +OK +OK +QUEUED *1 $1 1",
        )],
    );
    // Another leads in between.
    are(&mut cluster, 2, mine, &[("WATCH foo", "+OK")]);
    cluster.at(1).is_cut_off = true;
    cluster.pass(2000);
    are(&mut cluster, 2, mine, &[("MULTI / SET foo 5 / EXEC", "+OK +QUEUED *-1")]);
}

/// Whatever is pipelined, over whichever connection: the replies are those of one replica that is
/// asked the same.
#[test]
fn pipelines_are_answered_as_if_one_replica_did_all() {
    const LINES: [&str; 16] = [
        "SET a 1",
        "GET a",
        "INCR a",
        "GET b",
        "APPEND b x",
        "MGET a b c",
        "DEL a",
        "SET c 5 NX",
        "PING",
        "STRLEN b",
        "NOPE",
        "MULTI / INCR a / GET b / ECHO e / EXEC",
        "MSET a 3 b 4",
        "DBSIZE",
        "WATCH a / MULTI / INCR c / EXEC",
        "ACL WHOAMI",
    ];
    for seed in seeds::seeds(40) {
        let mut random = Random::new(seed);
        let (mut cluster, first, second) = three(&Settings { requests_max: 8, ..Settings::default() });
        let mut single = Cluster::new(1, &Settings::default());
        let tokens = [single.open(1), single.open(1)];
        for _ in 0..20 {
            let lines: Vec<&str> = (0..random.below(25)).map(|_| LINES[random.below(16) as usize]).collect();
            let (lines, who) = (lines.join(" / "), random.below(2) as usize);
            let wanted = says(&mut single, 1, tokens[who], &lines);
            let (id, token) = [(2, first), (3, second)][who];
            let mut found = Vec::new();
            cluster.put(id, token, lines.replace(" / ", "\r\n").as_bytes());
            cluster.put(id, token, b"\r\n");
            loop {
                cluster.settle();
                let more = cluster.take(id, token);
                if more.is_empty() {
                    break;
                }
                found.extend(more);
            }
            let found = String::from_utf8(found).expect("a text").replace("\r\n", " ");
            assert_eq!(found.trim_end(), wanted, "seed {seed}: {lines}");
        }
    }
}

#[test]
fn a_client_that_does_not_read_is_held_up_at_the_follower() {
    let settings = Settings { requests_max: 10, output_bytes_max: 1000, ..Settings::default() };
    let (mut cluster, token, _) = three(&settings);
    assert_eq!(says(&mut cluster, 2, token, &format!("SET k {}", "x".repeat(300))), "+OK");
    cluster.put(2, token, "GETEX k PERSIST\r\n".repeat(100).as_bytes());
    cluster.put(2, token, "APPEND k y\r\n".repeat(50).as_bytes());
    assert!(!cluster.at(2).clients.wants_input(token));
    // Requests that were taken out are lost with the connection that they were for.
    let replica = cluster.at(2);
    assert_eq!(replica.clients.take_forwards().len(), 10, "no more is under way than may be");
    replica.clients.forwards_lost(u64::MAX, &replica.node);
    let (mut taken, mut rounds) = (Vec::new(), 0);
    loop {
        cluster.settle();
        let more = cluster.take(2, token);
        if more.is_empty() {
            break;
        }
        assert!(more.len() < 1000 + 10 * 400, "{} bytes at once", more.len());
        taken.extend(more);
        rounds += 1;
    }
    assert!(rounds > 5, "{rounds}");
    assert!(cluster.at(2).clients.wants_input(token));
    let text = String::from_utf8(taken).expect("a text");
    assert_eq!(text.matches("-UNKNOWN").count(), 10, "{text}");
    // Some came before there was another connection.
    assert_eq!(text.matches("$300\r\n").count() + text.matches("-MOVED").count(), 90);
    assert!(text.matches("-MOVED").count() < 20, "{text}");
    assert!(text.ends_with(":350\r\n"));
}

/// Requests of many clients together fill the connection to the leader: further ones wait, and all
/// are done.
#[test]
fn more_than_may_be_under_way_waits_and_is_done() {
    let (mut cluster, first, other) = three(&Settings::default());
    are(&mut cluster, 2, first, &[("SET k 1", "+OK")]);
    let tokens: Vec<u32> = (0..4).map(|_| cluster.open(2)).collect();
    let large = format!("*3\r\n$5\r\nSETNX\r\n$1\r\nk\r\n$40000000\r\n{}\r\n", "v".repeat(40_000_000));
    tokens.iter().for_each(|token| cluster.put(2, *token, large.as_bytes()));
    cluster.put(2, first, b"INCR k\r\n");
    assert_eq!(cluster.at(2).clients.statistics().forwarded, 3, "the first, and two large ones");
    cluster.settle();
    are(&mut cluster, 3, other, &[("GET k", "$1 2")]);
    for token in tokens {
        assert_eq!(cluster.take(2, token), b":0\r\n");
    }
    assert_eq!(cluster.take(2, first), b":2\r\n");
}

/// The leader is cut off with requests under way: nobody knows of those that were sent, and the
/// others were not done.
#[test]
fn a_lost_leader_says_what_is_not_known_of_what_was_passed_on() {
    let (mut cluster, mine, other) = three(&Settings::default());
    are(&mut cluster, 2, mine, &[("SET k 1", "+OK")]);
    cluster.at(1).is_cut_off = true;
    cluster.put(2, mine, b"SET k 2\r\nGET k\r\nSET k 3\r\n");
    cluster.settle();
    assert_eq!(cluster.take(2, mine), b"");
    cluster.pass(2_000);
    assert!(leader(&cluster) > 1);
    let said = String::from_utf8(cluster.take(2, mine)).expect("a text");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("-UNKNOWN") && lines.len() >= 3, "{said}");
    assert_eq!(cluster.at(2).clients.statistics().unknown, 1);
    are(&mut cluster, 3, other, &[("SET k 7 / GET k", "+OK $1 7")]);
    cluster.at(1).is_cut_off = false;
    cluster.pass(1_000);
    let old = cluster.open(1);
    are(&mut cluster, 1, old, &[("GET k / SET k 8 / GET k", "$1 7 +OK $1 8")]);
    are(&mut cluster, 2, mine, &[("GET k", "$1 8")]);
}

#[test]
fn what_was_not_sent_was_not_done() {
    let (mut cluster, mine, _) = three(&Settings::default());
    cluster.put(2, mine, b"SET foo 1\r\nWATCH foo\r\n");
    let replica = cluster.at(2);
    replica.clients.forwards_lost(u64::MAX, &replica.node);
    assert_eq!(String::from_utf8_lossy(&cluster.take(2, mine)), format!("{MOVED}\r\n{MOVED}\r\n"));
    cluster.forwards = false;
    are(
        &mut cluster,
        2,
        mine,
        &[("MULTI / PING / EXEC / SET foo 1 / WAIT 0 0", &format!("+OK +QUEUED *-1 {MOVED} -MOVED 0 127.0.0.1:7001"))],
    );
    // Of the first two one was sent whole. A WATCH changes nothing.
    cluster.forwards = true;
    cluster.settle();
    cluster.put(2, mine, b"SET foo 1\r\nSET foo 2\r\n");
    let replica = cluster.at(2);
    let second = replica.clients.take_forwards()[1].number;
    replica.clients.forwards_lost(second, &replica.node);
    let said = String::from_utf8_lossy(&cluster.take(2, mine)).into_owned();
    assert!(said.starts_with("-UNKNOWN ") && said.ends_with(&format!("\r\n{MOVED}\r\n")), "{said}");
}

/// Rights count at the replica that is asked and at the leader, which may know of a change first.
#[test]
fn users_have_no_more_rights_by_being_passed_on() {
    let (mut cluster, admin, other) = three(&Settings::default());
    are(
        &mut cluster,
        2,
        admin,
        &[
            ("ACL SETUSER alice on >pw ~a:* +@all / AUTH alice pw / ACL WHOAMI", "+OK +OK $5 alice"),
            ("SET a:1 x / MULTI / SET a:2 y / EXEC", "+OK +OK +QUEUED *1 +OK"),
            ("SET b x", "-NOPERM this user has no permissions to access one of the keys used as arguments"),
            ("ACL SETUSER alice nope", "-ERR Error in ACL SETUSER modifier 'nope': Syntax error"),
        ],
    );
    let token = cluster.open(1);
    cluster.pass(100);
    are(&mut cluster, 3, other, &[("AUTH alice pw / SET a:1 y", "+OK +OK")]);
    // The replica that she is at has not heard of it.
    cluster.at(3).is_cut_off = true;
    are(&mut cluster, 1, token, &[("ACL SETUSER alice -set", "+OK")]);
    cluster.at(3).is_cut_off = false;
    are(&mut cluster, 3, other, &[("SET a:1 z / GET a:1", &format!("{DENIED} $1 y"))]);
    assert!(says(&mut cluster, 1, token, "ACL LOG").contains("$3 set"));
    are(&mut cluster, 3, other, &[("ACL DELUSER alice", ":1")]);
    cluster.pass(100);
    assert!(cluster.at(3).clients.is_over(other) && cluster.at(2).clients.is_over(admin));
}

/// Rights are those of the user who has sent EXEC, as at the leader, and not of one whom the
/// transaction has logged in.
#[test]
fn a_transaction_that_logs_another_user_in_is_done_with_the_rights_of_the_first() {
    let (mut cluster, admin, _) = three(&Settings::default());
    are(&mut cluster, 2, admin, &[("ACL SETUSER bob on >pw ~* +get +auth +acl|whoami", "+OK")]);
    for id in [1, 2] {
        let token = cluster.open(id);
        let lines = "MULTI / AUTH bob pw / SET foo 1 / EXEC / ACL WHOAMI / SET foo 2";
        let wanted = format!("+OK +QUEUED +QUEUED *2 +OK +OK $3 bob {DENIED}");
        are(&mut cluster, id, token, &[(lines, &wanted)]);
    }
}

/// Hazard: what is watched by way of the leader takes memory that nobody counts.
#[test]
fn keys_that_are_watched_by_way_of_the_leader_are_counted() {
    let (mut cluster, mine, _) = three(&Settings::default());
    for number in 0..20 {
        let key = format!("{number}{}", "x".repeat(30_000));
        are(&mut cluster, 2, mine, &[(&format!("WATCH {key} {key}"), "+OK")]);
    }
    let bytes = cluster.at(2).clients.bytes();
    assert!((600_000..650_000).contains(&bytes), "{bytes}");
    are(&mut cluster, 2, mine, &[("UNWATCH", "+OK")]);
    assert_eq!(cluster.at(2).clients.bytes(), 0);
}

/// Hazard: what other replicas' clients ask for takes the leader's own clients their connections.
#[test]
fn no_client_of_the_leader_is_closed_for_those_of_others() {
    let settings = Settings { memory_bytes_max: 1 << 20, ..Settings::default() };
    let (mut cluster, mine, _) = three(&settings);
    let own = cluster.open(1);
    are(&mut cluster, 1, own, &[("MULTI / SET foo 1", "+OK +QUEUED")]);
    are(&mut cluster, 2, mine, &[(&format!("SET big {}", "x".repeat(60_000)), "+OK")]);
    let reads = "GETEX big / ".repeat(30);
    // The connection that has asked for it has too much itself, where it is.
    assert_eq!(says(&mut cluster, 2, mine, &format!("MULTI / {reads}EXEC")), "");
    assert_eq!([1, 2].map(|id| cluster.at(id).clients.statistics().evicted), [0, 1]);
    are(&mut cluster, 1, own, &[("EXEC", "*1 +OK")]);
}

/// WAIT counts what others than the client's own replica have, up to the newest write that was
/// passed on.
#[test]
fn wait_is_answered_as_the_clients_replica_sees_it() {
    let (mut cluster, mine, _) = three(&Settings::default());
    are(
        &mut cluster,
        2,
        mine,
        &[
            ("SET k 1 / WAIT 2 0 / WAITAOF 1 2 0", "+OK :2 *2 :1 :2"),
            ("WAIT 3 0", "-ERR there cannot be 3 other replicas: the cluster has 2"),
        ],
    );
    cluster.at(3).is_cut_off = true;
    are(&mut cluster, 2, mine, &[("SET k 2 / WAIT 2 100 / INCR k", "+OK")]);
    let token = cluster.open(1);
    are(&mut cluster, 1, token, &[("GET k", "$1 2")]);
    cluster.pass(150);
    assert_eq!(cluster.take(2, mine), b":1\r\n:3\r\n");
    are(&mut cluster, 2, mine, &[("SET k 3 / WAIT 2 0", "+OK")]);
    cluster.at(3).is_cut_off = false;
    cluster.pass(500);
    assert_eq!(cluster.take(2, mine), b":2\r\n");
}

/// Requests that no replica passes on, as one that is wrong or evil may send them: an error, and
/// nothing else.
#[test]
fn what_is_not_to_be_passed_on_is_refused() {
    let (mut cluster, _, _) = three(&Settings::default());
    let token = cluster.open(1);
    let term = cluster.at(1).node.status().term;
    let words = |line: &str| line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect::<Vec<_>>();
    let asked =
        |line: &str, said: bool| ForwardedCommand { request: words(line), said: said.then(|| Bytes::from("+x\r\n")) };
    let forward = Forward {
        number: 7,
        term,
        newest: u64::MAX,
        is_resp3: true,
        is_transaction: false,
        user: Bytes::from("default"),
        watched: Vec::new(),
        requests: Vec::new(),
    };
    let mut answer = |id: u64, forward: Forward| {
        let now_us = cluster.now_us;
        let replica = cluster.at(id);
        replica.clients.take_in(99, 2, forward, &mut replica.node, now_us).expect("a store");
        let answers = replica.clients.take_answers();
        assert!(!replica.clients.has_forwards());
        answers
            .into_iter()
            .map(|(_, answer)| String::from_utf8_lossy(&answer.reply).trim_end().to_owned())
            .collect::<String>()
    };
    let refused = "-ERR the command is not one that a replica passes on";
    for line in [
        "GET k",
        "CLIENT KILL ID 1",
        "CONFIG SET maxclients 1",
        "AUTH x",
        "MULTI",
        "EXEC",
        "QUIT",
        "RESET",
        "ACL LOG RESET",
    ] {
        assert_eq!(answer(1, Forward { requests: vec![asked(line, false)], ..forward.clone() }), refused, "{line}");
    }
    assert_eq!(answer(1, Forward { requests: vec![asked("SET k v", true)], ..forward.clone() }), refused);
    for (line, said) in [
        ("EXEC", true),
        ("MULTI", true),
        ("WAIT 0 0", false),
        ("PERDURA.ONCE a 1 SET k v", false),
        ("PING", false),
        ("SET k v", true),
    ] {
        let requests = vec![asked("SET k v", false), asked(line, said)];
        assert_eq!(answer(1, Forward { requests, is_transaction: true, ..forward.clone() }), refused, "{line}");
    }
    assert_eq!(
        answer(1, Forward { requests: vec![asked("SET k", false)], ..forward.clone() }),
        "-ERR wrong number of arguments for 'set' command"
    );
    assert_eq!(
        answer(1, Forward { requests: vec![asked("SET k v", false)], user: Bytes::from("eve"), ..forward.clone() }),
        "-NOAUTH Authentication required."
    );
    // Of another term, or to one that does not lead: it is told where to go, and goes no further.
    let set = Forward { requests: vec![asked("SET foo v", false)], ..forward };
    assert_eq!(answer(1, Forward { term: term - 1, ..set.clone() }), MOVED);
    assert_eq!(answer(3, set), MOVED);
    are(&mut cluster, 1, token, &[("DBSIZE", ":0")]);
}

/// Hazard: a lock is given back by one that does not hold it any more, at the leader, through a
/// follower or within a transaction.
#[test]
fn delifeq_does_what_a_map_does() {
    let (mut cluster, mine, other) = three(&Settings::default());
    let places = [(1, cluster.open(1)), (2, mine), (3, other)];
    for seed in seeds::seeds(3) {
        let mut random = Random::new(seed);
        let mut model = std::collections::BTreeMap::new();
        are(&mut cluster, 1, places[0].1, &[("FLUSHALL", "+OK")]);
        for step in 0..300 {
            let (id, token) = places[random.below(3) as usize];
            let (key, value) = (random.below(3), random.below(3));
            let (line, wanted) = match random.below(4) {
                0 => {
                    model.insert(key, value);
                    (format!("SET {key} {value}"), "+OK".to_owned())
                }
                1 => (format!("EXISTS {key}"), format!(":{}", i32::from(model.contains_key(&key)))),
                _ => {
                    let is_equal = model.get(&key) == Some(&value);
                    if is_equal {
                        model.remove(&key);
                    }
                    (format!("DELIFEQ {key} {value}"), format!(":{}", i32::from(is_equal)))
                }
            };
            let (line, wanted) = match random.below(3) {
                0 => (format!("MULTI / {line} / EXEC"), format!("+OK +QUEUED *1 {wanted}")),
                _ => (line, wanted),
            };
            assert_eq!(says(&mut cluster, id, token, &line), wanted, "seed {seed}, step {step}: {line}");
        }
    }
}
