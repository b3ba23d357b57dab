//! No client holds up others for long: work between two turns of the reactor is counted, over all commands at their limits.

#[path = "support/cluster.rs"]
mod cluster;

use cluster::Cluster;
use perdura_kv::client::{STEP_PLACES, Settings};
use perdura_kv::command::PLACES_MAX;

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

/// Hazard: a short request, or many short ones behind one another, hold the reactor until the others elect another leader.
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
        replica.clients.turn(&mut replica.node, now_us).expect("a store");
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
