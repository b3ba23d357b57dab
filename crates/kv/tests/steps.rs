//! No client holds up others for long: work between two polls of the event loop is counted, over
//! all commands at their limits.

use crate::support::cluster::Cluster;
use crate::support::stores::{filled as store, push, put, snapshot, value};
use perdura_kv::client::{STEP_PLACES, Settings};
use perdura_kv::command::PLACES_MAX;
use perdura_kv::store::ErrorKind;
use perdura_pmem::sim::Random;

/// Keys that there are.
const KEYS: usize = 60_000;

/// A request as clients send it.
fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    words.iter().for_each(|word| bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes()));
    bytes
}

fn named(command: &str, count: usize, with_values: bool) -> Vec<u8> {
    let names: Vec<String> = (0..count).map(|number| format!("key:{number:06}")).collect();
    let mut words = vec![command];
    for name in &names {
        words.push(name);
        words.extend(with_values.then_some("v"));
    }
    request(&words)
}

fn filled() -> (Cluster, u32) {
    let settings = Settings { requests_max: 1 << 20, output_bytes_max: 1 << 30, ..Settings::default() };
    let mut cluster = Cluster::new(1, &settings);
    let token = cluster.open(1);
    for first in (0..KEYS).step_by(10_000) {
        let names: Vec<String> = (first..first + 10_000).map(|number| format!("key:{number:06}")).collect();
        let words: Vec<&str> = names.iter().flat_map(|name| [&name[..], "v"]).collect();
        cluster.put(1, token, &request(&[&["MSET"], &words[..]].concat()));
        cluster.settle();
    }
    cluster.take(1, token);
    (cluster, token)
}

/// Hazard: a short request, or many short ones behind one another, hold the reactor until the
/// others elect another leader.
#[test]
fn no_step_is_longer_than_said() {
    let (mut cluster, token) = filled();
    let long_key = "a".repeat(32_000);
    let long_pattern = format!("*{}b*", "a".repeat(16_000));
    cluster.put(1, token, &request(&["SET", &long_key, "v"]));
    cluster.settle();
    assert_eq!(cluster.take(1, token), b"+OK\r\n");
    let all: Vec<Vec<u8>> = vec![
        request(&["KEYS", "*"]),
        request(&["KEYS", "*none*"]),
        request(&["KEYS", &long_pattern]),
        request(&["SCAN", "0", "COUNT", "10000", "MATCH", &long_pattern]).repeat(3),
        request(&["SCAN", "0", "COUNT", "10000"]).repeat(5),
        request(&["PERDURA.RANGE", "COUNT", "10000", "WITHVALUES"]).repeat(5),
        named("EXISTS", PLACES_MAX / 2, false).repeat(3),
        named("MGET", PLACES_MAX / 2, false).repeat(3),
        named("TOUCH", 10, false).repeat(2_000),
        named("MSET", 8_000, true).repeat(5),
        named("DEL", 8_000, false).repeat(5),
        named("WATCH", 9_000, false),
        request(&["UNWATCH"]),
        request(&["RANDOMKEY"]).repeat(1000),
        request(&["GET", "key:000000"]).repeat(20_000),
        request(&["INCR", "n"]).repeat(10_000),
        [request(&["MULTI"]), named("EXISTS", 1000, false).repeat(30), request(&["EXEC"])].concat(),
        named("MSET", PLACES_MAX / 2 - 1, true).repeat(2),
        named("DEL", PLACES_MAX / 2 - 1, false).repeat(2),
        transaction("INCR n", PLACES_MAX / 3 - 1),
        transaction("DBSIZE", PLACES_MAX - 2),
        request(&["DBSIZE"]),
    ];
    for bytes in all {
        cluster.put(1, token, &bytes);
        cluster.settle();
        let said = cluster.take(1, token);
        assert!(
            !said.is_empty() && !said.starts_with(b"-"),
            "{}",
            String::from_utf8_lossy(&said[..said.len().min(99)])
        );
        let longest = cluster.at(1).clients.longest_step();
        let what = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        // A request and a read may each be the last of their half.
        assert!(longest <= STEP_PLACES + 2 * (PLACES_MAX + 1), "{longest} places in a step after {what}");
    }
    assert!(cluster.at(1).clients.longest_step() > STEP_PLACES, "the count counts");
}

/// A transaction of one command, so many times.
fn transaction(line: &str, count: usize) -> Vec<u8> {
    let words: Vec<&str> = line.split(' ').collect();
    [request(&["MULTI"]), request(&words).repeat(count), request(&["EXEC"])].concat()
}

/// Hazard: one entry is made, taken and applied whole: what changes very many keys is refused, by
/// the limit's name, and nothing of it is done.
#[test]
fn what_would_be_too_long_is_refused_by_its_limit() {
    let (mut cluster, token) = filled();
    let limit = "32768 keys";
    let applied = cluster.at(1).node.status().last;
    for (bytes, limit) in [
        (named("MSET", PLACES_MAX / 2 + 1, true), limit),
        (named("DEL", PLACES_MAX / 2 + 1, false), limit),
        (named("EXISTS", PLACES_MAX + 1, false), limit),
        (request(&[&["EXISTS"], &vec!["key:000000"; 100_000][..]].concat()), limit),
        (request(&[&["MSET"], &vec!["key:000000"; 200_000][..]].concat()), limit),
        (transaction("INCR n", PLACES_MAX / 3 + 2), limit),
        (transaction("SET n 1", 100_000), "32768 commands"),
    ] {
        cluster.put(1, token, &bytes);
        cluster.settle();
        let said = String::from_utf8_lossy(&cluster.take(1, token)).into_owned();
        let refusal = said.lines().find(|line| line.starts_with('-')).unwrap_or_default().to_owned();
        assert!(refusal.contains(limit), "{refusal} of {} bytes", said.len());
        assert!(said.lines().last().is_some_and(|line| line.starts_with('-')), "it is not done in part");
        let longest = cluster.at(1).clients.longest_step();
        assert!(longest <= STEP_PLACES + 2 * (PLACES_MAX + 1), "{longest} places in a step");
    }
    assert_eq!(cluster.at(1).node.status().last, applied);
}

/// Hazard: a listing passes over keys that have ended and are not cleared away without counting
/// them.
#[test]
fn keys_that_have_ended_count_as_work() {
    let settings = Settings { requests_max: 1 << 20, output_bytes_max: 1 << 30, ..Settings::default() };
    let mut cluster = Cluster::new(1, &settings);
    let token = cluster.open(1);
    for number in 0..20_000 {
        cluster.put(1, token, &request(&["SET", &format!("ended:{number:05}"), "v", "PX", "50"]));
    }
    cluster.put(1, token, &request(&["SET", "key", "v"]));
    cluster.settle();
    // No tick comes: nothing is cleared away. The next entry carries the time.
    cluster.now_us += 1_000_000;
    cluster.put(1, token, &request(&["SET", "key", "w"]));
    cluster.settle();
    cluster.take(1, token);
    let (mut cursor, mut pages) = ("0".to_owned(), 0);
    loop {
        cluster.at(1).clients.begin_step();
        let before = cluster.at(1).clients.longest_step();
        cluster.put(1, token, &request(&["SCAN", &cursor, "COUNT", "1000"]));
        cluster.settle();
        let said = String::from_utf8_lossy(&cluster.take(1, token)).into_owned();
        assert_eq!(cluster.at(1).clients.longest_step(), before, "a page is no longer than what was before");
        cursor = said.lines().nth(2).expect("a cursor").to_owned();
        pages += 1;
        assert!(said.contains("*0") || said.contains("key"), "{said}");
        if cursor == "0" {
            assert!(said.ends_with("$3\r\nkey\r\n"), "{said}");
            break;
        }
    }
    assert_eq!(pages, 21);
    cluster.put(1, token, &request(&["PERDURA.RANGE"]));
    cluster.settle();
    assert_eq!(cluster.take(1, token), b"*1\r\n$3\r\nkey\r\n");
}

/// While one client lists all keys others are answered, and what it sends behind comes after.
#[test]
fn others_are_served_while_keys_are_listed() {
    let (mut cluster, lists) = filled();
    let other = cluster.open(1);
    cluster.put(1, lists, &[request(&["KEYS", "key:0*"]), request(&["DBSIZE"])].concat());
    let mut turns = 0;
    let mut answered_after = None;
    loop {
        let now_us = cluster.now_us;
        let replica = cluster.at(1);
        replica.clients.begin_step();
        replica.clients.step(&mut replica.node, now_us).expect("a store");
        for done in replica.node.take_output().done {
            replica.clients.done(done, &mut replica.node).expect("a store");
        }
        turns += 1;
        if turns == 2 {
            cluster.put(1, other, &request(&["GET", "key:000001"]));
        }
        if answered_after.is_none() && turns > 2 && !cluster.take(1, other).is_empty() {
            answered_after = Some(turns);
        }
        if !cluster.at(1).clients.output(lists).is_empty() || turns > 1000 {
            break;
        }
    }
    assert!(answered_after.is_some_and(|at| at < turns), "{answered_after:?} of {turns}");
    cluster.settle();
    let said = cluster.take(1, lists);
    assert!(said.starts_with(format!("*{KEYS}\r\n$10\r\nkey:000000\r\n").as_bytes()));
    assert!(said.ends_with(format!("\r\n:{KEYS}\r\n").as_bytes()));
}

/// Hazard: a replica that has received a snapshot writes out all of it at once, answers nobody
/// meanwhile, and the leader loses a quorum that it needs. It is written a part at a time.
/// Meanwhile log and state are what they were: votes are kept, a failure of the power brings them
/// back, and an entry that comes ends it.
#[test]
fn a_snapshot_is_put_in_force_in_parts() {
    // A part, the longest value, and what a log is made longer by.
    const PART_BYTES: u64 = 500 + 20_000 + 2 * 2000 + 1000;
    let (_given, source) = store(1, 5, "new", 90);
    let (metadata, chunks) = snapshot(&*source);
    for stops_after in [1, 10, 40, u32::MAX] {
        let (place, mut target) = store(2, 4, "old", 30);
        target.receive(false).expect("it waits");
        push(&mut *target, &chunks);
        let mut parts = 0;
        let is_in_force = loop {
            let before = target.footprint().written_bytes;
            let is_in_force = target.finish_some(&metadata).expect("there is room");
            let written = target.footprint().written_bytes - before;
            assert!(written <= PART_BYTES, "{written} bytes at once");
            parts += 1;
            if is_in_force || parts == stops_after {
                break is_in_force;
            }
            assert!(value(&*target, "old").is_some() && value(&*target, "new").is_none());
        };
        if is_in_force {
            assert!(parts > 50 && stops_after == u32::MAX, "{parts}");
            assert_eq!(value(&*target, "new"), Some(vec![90; 700].into()));
            while target.upkeep().expect("upkeep") {}
            continue;
        }
        target.set_vote(6, 1).expect("a vote");
        target.persist().expect("a disk");
        let failed = place.failed(&mut Random::new(u64::from(stops_after)));
        let found = failed.open().expect("it opens");
        assert_eq!((found.persistent_state().term, found.persistent_state().vote, found.applied()), (6, 1, 31));
        assert!(value(&*found, "old").is_some() && value(&*found, "new").is_none());
        target.append(&[put(32, 6, "old", b"later")]).expect("an entry");
        let ended = target.finish_some(&metadata).expect_err("it has ended");
        assert_eq!(ended.kind(), ErrorKind::Refused);
        target.persist().expect("a disk");
        assert_eq!(value(&*target, "old").expect("a value"), "later");
        target.receive(false).expect("it waits");
        push(&mut *target, &chunks);
        target.finish(&metadata).expect("there is room");
        assert_eq!((target.persistent_state().term, target.persistent_state().vote, target.applied()), (6, 1, 91));
    }
}
