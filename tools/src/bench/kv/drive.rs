//! Clients that ask as fast as they are answered.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::bench::report::Report;
use crate::drive::kv::resp::{Client, Reply, put};

/// Kind of requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Set,
    Cas,
    Get,
}

/// A case.
pub struct Case {
    pub name: &'static str,
    pub kind: Kind,
    pub clients: usize,
    pub pipeline: usize,
}

impl Case {
    /// How long a run of it takes, of `full`: twenty that read need no more than half.
    pub fn length(&self, full: Duration) -> Duration {
        if self.kind == Kind::Get && self.clients > 1 { full / 2 } else { full }
    }
}

/// How a server compares and sets.
#[derive(Clone, Copy)]
pub enum Dialect {
    /// `SET key value IFEQ old`.
    Own,
    /// A script.
    Redis,
}

/// Results of a case.
pub struct Found {
    pub p50_us: f64,
    pub p90_us: f64,
    pub ops_per_s: f64,
    /// All that were done.
    pub operations: usize,
}

/// Adds the figures of a case to a report.
pub fn add(report: &mut Report, system: &str, case: &str, found: &Found) {
    report.add(system, case, "p50_us", "us", found.p50_us);
    report.add(system, case, "p90_us", "us", found.p90_us);
    report.add(system, case, "ops_per_s", "1/s", found.ops_per_s);
}

const SCRIPT: &[u8] =
    b"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('set', KEYS[1], ARGV[2]) end return false";

/// The figures of all waits, in nanoseconds, each for so many operations.
fn found(mut waits_ns: Vec<u64>, operations: usize, length: Duration) -> Found {
    waits_ns.sort_unstable();
    let part = |percent: usize| waits_ns.get(waits_ns.len() * percent / 100).copied().unwrap_or(0) as f64 / 1000.0;
    let operations = waits_ns.len() * operations;
    let ops_per_s = operations as f64 / length.as_secs_f64();
    Found { p50_us: part(50), p90_us: part(90), ops_per_s, operations }
}

pub fn key(number: u64) -> String {
    format!("k{number:09}")
}

pub fn value(number: u64) -> String {
    format!("v{:09}", number % 1_000_000_000)
}

/// Sets so many keys, from a number on.
pub fn fill(server: SocketAddr, from: u64, keys: u64) -> Result<()> {
    const BATCH: u64 = 500;
    let mut client = Client::at(server)?;
    let end = from + keys;
    for first in (from..end).step_by(BATCH as usize) {
        let mut requests = Vec::new();
        let batch = first..end.min(first + BATCH);
        for number in batch.clone() {
            put(&mut requests, &[b"SET", key(number).as_bytes(), value(0).as_bytes()]);
        }
        client.send(&requests)?;
        for _ in batch {
            let reply = client.reply()?;
            ensure!(reply == Reply::Text("OK".into()), "filling: {reply:?}");
        }
    }
    Ok(())
}

/// A number that follows from the one before, all over its range.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

struct Asker {
    client: Client,
    state: u64,
    /// Keys of this client alone, and what they hold, so that comparing succeeds.
    own: Vec<(u64, u64)>,
    asked: usize,
}

impl Asker {
    fn put_one(&mut self, out: &mut Vec<u8>, kind: Kind, keys: u64, dialect: Dialect) {
        let name = key(next(&mut self.state) % keys);
        match (kind, dialect) {
            (Kind::Get, _) => put(out, &[b"GET", name.as_bytes()]),
            (Kind::Set, _) => put(out, &[b"SET", name.as_bytes(), value(self.state).as_bytes()]),
            (Kind::Cas, dialect) => {
                let place = self.asked % self.own.len();
                self.asked += 1;
                let (number, held) = &mut self.own[place];
                let (name, old, new) = (key(*number), value(*held), value(*held + 1));
                *held += 1;
                match dialect {
                    Dialect::Own => put(out, &[b"SET", name.as_bytes(), new.as_bytes(), b"IFEQ", old.as_bytes()]),
                    Dialect::Redis => {
                        put(out, &[b"EVAL", SCRIPT, b"1", name.as_bytes(), old.as_bytes(), new.as_bytes()])
                    }
                }
            }
        }
    }
}

/// Runs a case at a server for some time.
pub fn run(server: SocketAddr, case: &Case, keys: u64, length: Duration, dialect: Dialect) -> Result<Found> {
    let mut askers = Vec::new();
    for place in 0..case.clients as u64 {
        let mut client = Client::at(server)?;
        let count = if case.kind == Kind::Cas { 100 } else { 0 };
        let own: Vec<(u64, u64)> = (0..count).map(|number| (2_000_000 + place * 100 + number, 0)).collect();
        for (number, held) in &own {
            client.call(&["SET", &key(*number), &value(*held)])?;
        }
        askers.push(Asker { client, state: place * 7919 + 1, own, asked: 0 });
    }
    all(askers, length, case.pipeline, |asker| {
        let mut out = Vec::new();
        (0..case.pipeline).for_each(|_| asker.put_one(&mut out, case.kind, keys, dialect));
        let asked = Instant::now();
        asker.client.send(&out)?;
        for _ in 0..case.pipeline {
            let reply = asker.client.reply()?;
            let is_done =
                matches!((case.kind, &reply), (Kind::Get, Reply::Bytes(_)) | (Kind::Set | Kind::Cas, Reply::Text(_)));
            ensure!(is_done, "{}: {reply:?}", case.name);
        }
        Ok(asked.elapsed())
    })
}

/// Has each client, in a thread of its own, ask again and again for some time. `ask` says how long
/// it has waited, for so many operations.
pub fn all<C: Send>(
    clients: Vec<C>,
    length: Duration,
    operations: usize,
    ask: impl Fn(&mut C) -> Result<Duration> + Sync,
) -> Result<Found> {
    let (begun, ask) = (Instant::now(), &ask);
    let waits = std::thread::scope(|scope| -> Result<Vec<u64>> {
        let run = |mut client: C| {
            scope.spawn(move || -> Result<Vec<u64>> {
                let mut waits = Vec::with_capacity(1 << 16);
                while begun.elapsed() < length {
                    waits.push(ask(&mut client)?.as_nanos() as u64);
                }
                Ok(waits)
            })
        };
        let running: Vec<_> = clients.into_iter().map(run).collect();
        let mut waits = Vec::new();
        for client in running {
            waits.extend(client.join().expect("no client panics")?);
        }
        Ok(waits)
    })?;
    Ok(found(waits, operations, begun.elapsed()))
}
