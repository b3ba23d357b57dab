//! The longest step of a replica over all commands at their limits: nobody else is answered
//! meanwhile, neither a client nor another replica.

use anyhow::{Result, ensure};

use super::drive::{self, key};
use super::footprint::metric;
use crate::bench::report::Report;
use crate::drive::kv::cluster::{Cluster, Plan};
use crate::drive::kv::resp::{Client, Reply, put};

/// Keys that there are, and most that one command may name or pass over.
const KEYS: u64 = 200_000;
const PLACES_MAX: u64 = 32_768;
/// Times that each is run.
const ROUNDS: usize = 3;
/// Part of an election's time that a step may take: 10, of `raft.election_ms`' default of 1000.
pub const STEP_MS_MAX: f64 = 100.0;

/// A command that names keys, and with them values.
fn named(command: &str, count: u64, with_values: bool) -> Vec<u8> {
    let names: Vec<String> = (0..count).map(key).collect();
    let mut words: Vec<&[u8]> = vec![command.as_bytes()];
    for name in &names {
        words.push(name.as_bytes());
        words.extend(with_values.then_some(&b"v"[..]));
    }
    let mut out = Vec::new();
    put(&mut out, &words);
    out
}

fn lines(lines: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    lines.iter().for_each(|line| put(&mut out, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
    out
}

/// A transaction of one command, so many times.
fn transaction(line: &str, count: u64) -> (Vec<u8>, u64) {
    let bytes = [lines(&["MULTI"]), lines(&[line]).repeat(count as usize), lines(&["EXEC"])].concat();
    (bytes, count + 2)
}

/// Requests, and the number of their replies.
fn requests() -> Vec<(Vec<u8>, u64)> {
    let pattern = format!("*{}b*", "a".repeat(16_000));
    let (keys, scan) = (format!("KEYS {pattern}"), format!("SCAN 0 COUNT 10000 MATCH {pattern}"));
    let value = "v".repeat(16 << 20);
    let mut long = Vec::new();
    put(&mut long, &[b"SET", b"long", value.as_bytes()]);
    vec![
        (lines(&["KEYS *"]), 1),
        (lines(&[&keys]), 1),
        (lines(&[&scan]).repeat(3), 3),
        (lines(&["SCAN 0 COUNT 10000"]).repeat(5), 5),
        (lines(&["PERDURA.RANGE COUNT 10000 WITHVALUES"]).repeat(5), 5),
        (named("MSET", PLACES_MAX / 2 - 1, true).repeat(2), 2),
        (named("MGET", PLACES_MAX / 2, false).repeat(3), 3),
        (named("EXISTS", PLACES_MAX / 2, false).repeat(3), 3),
        (named("DEL", PLACES_MAX / 2 - 1, false).repeat(2), 2),
        transaction("INCR n", PLACES_MAX / 3 - 1),
        transaction("DBSIZE", PLACES_MAX - 2),
        (lines(&["GET long"]).repeat(8), 8),
        (long.repeat(2), 2),
    ]
}

/// Runs them at a cluster of its own, and asks its replicas for their longest step.
pub fn longest_step(store: &str, report: &mut Report) -> Result<()> {
    let plan = Plan { store: store.into(), size: "512M".into(), more: String::new() };
    let cluster = Cluster::start(&format!("bench-kv-limits-{store}"), 3, &plan)?;
    let server = cluster.leader_address()?;
    drive::fill(server, 0, KEYS)?;
    let mut client = Client::at(server)?;
    for _ in 0..ROUNDS {
        for (bytes, replies) in requests() {
            client.send(&bytes)?;
            for _ in 0..replies {
                let reply = client.reply()?;
                ensure!(!matches!(reply, Reply::Error(_)), "{store}: {reply:?}");
            }
        }
    }
    let steps = cluster.replicas.iter().map(|replica| metric::<f64>(replica, "perdura_kv_step_seconds_max"));
    let steps: Vec<f64> = steps.collect::<Result<_>>()?;
    report.add(store, "limits", "longest_step_ms", "ms", steps.into_iter().fold(0.0, f64::max) * 1000.0);
    Ok(())
}
