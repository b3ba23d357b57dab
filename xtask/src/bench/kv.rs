//! perdura-kv beside its peers: what one client waits for, and what twenty get done.
//!
//! Clients, replicas and peers are processes and threads of this machine, over loopback, without pinning. The floor goes the way that a
//! write must go, client -> leader -> follower -> leader -> client, with nothing done to it.

mod drive;
mod floor;
mod peers;
mod restarts;

use std::time::{Duration, Instant};

use anyhow::Result;

use super::plan::Plan;
use super::report::Report;
use crate::kv::cluster::{self, Cluster};
use crate::{paths, process};
use drive::{Case, Found, Kind};
use peers::{Etcd, Redis};

const STORES: [&str; 3] = ["list", "btree", "wal"];
const KEYS: u64 = 50_000;
const SLOW_WAL: &str = "not measured: a modelled slower medium, delays in the network, catching up, bytes written, memory and its growth; the files of wal, redis and etcd lie on the same medium as the maps";

const CASES: [Case; 6] = [
    Case { name: "set/1", kind: Kind::Set, clients: 1, pipeline: 1 },
    Case { name: "cas/1", kind: Kind::Cas, clients: 1, pipeline: 1 },
    Case { name: "get/1", kind: Kind::Get, clients: 1, pipeline: 1 },
    Case { name: "set/20", kind: Kind::Set, clients: 20, pipeline: 1 },
    Case { name: "cas/20", kind: Kind::Cas, clients: 20, pipeline: 1 },
    Case { name: "set/20x16", kind: Kind::Set, clients: 20, pipeline: 16 },
];

fn add(report: &mut Report, system: &str, case: &str, found: &Found) {
    report.add(system, case, "p50_us", "us", found.p50_us);
    report.add(system, case, "p90_us", "us", found.p90_us);
    report.add(system, case, "ops_per_s", "1/s", found.ops_per_s);
}

/// Runs all systems in all cases, in rounds.
pub fn run(plan: &Plan) -> Result<Report> {
    let medium = paths::medium();
    std::fs::create_dir_all(&medium)?;
    let shown = process::mount(&medium).map_or_else(|| "unknown".to_owned(), |(kind, _)| kind);
    let emulated = if process::is_dax(&medium) { "" } else { ", persistent memory emulated" };
    let workload = format!(
        "SET, compare-and-set and GET of {KEYS} keys and values of 10 B; three replicas; /1 one client, /20 twenty, x16 pipelined"
    );
    let mut report = Report::new("kv", workload, format!("{} ({shown}{emulated})", medium.display()));
    let mut clusters = Vec::new();
    if plan.perdura {
        cluster::build()?;
        for store in STORES {
            let plan = cluster::Plan { store: store.into(), size: "512M".into(), more: String::new() };
            clusters.push((store, Cluster::start(&format!("bench-kv-{store}"), 3, &plan)?));
        }
    }
    let redis = Redis::start(&medium, &mut report)?;
    let etcd = Etcd::start(&medium, &mut report)?;
    let length = Duration::from_millis(plan.size(2000, 300));
    for (_, cluster) in &clusters {
        drive::fill(cluster.replicas[cluster.leader()?].ports[0], KEYS)?;
    }
    if let Some(redis) = &redis {
        drive::fill(redis.port, KEYS)?;
    }
    let mut round = Duration::ZERO;
    for number in 0..plan.rounds() {
        if number > 0 && !plan.has_time(round) {
            break;
        }
        let begun = Instant::now();
        for case in &CASES {
            one_case(case, &clusters, redis.as_ref(), etcd.as_ref(), length, number, &mut report)?;
        }
        round = begun.elapsed();
    }
    for (store, cluster) in &mut clusters {
        restarts::starts(store, cluster, plan.size(9, 3), &mut report)?;
        if *store == "list" {
            restarts::failovers(store, cluster, plan.size(20, 3), &mut report)?;
        }
    }
    drop((clusters, redis, etcd));
    if plan.perdura {
        leased(plan, length, &mut report)?;
    }
    judge(&mut report);
    report.note(SLOW_WAL.into());
    Ok(report)
}

/// Runs a case once in each system, in an order that rotates.
fn one_case(
    case: &Case,
    clusters: &[(&str, Cluster)],
    redis: Option<&Redis>,
    etcd: Option<&Etcd>,
    length: Duration,
    number: usize,
    report: &mut Report,
) -> Result<()> {
    let count = clusters.len() + 3;
    for place in 0..count {
        let place = (place + number) % count;
        match (place.checked_sub(clusters.len()), redis, etcd) {
            (None, ..) => {
                let (store, cluster) = &clusters[place];
                let port = cluster.replicas[cluster.leader()?].ports[0];
                add(report, store, case.name, &drive::run(port, case, KEYS, length, drive::Dialect::Own)?);
            }
            (Some(0), ..) if case.clients == 1 => {
                let hops = if case.kind == Kind::Get { floor::Hops::Two } else { floor::Hops::Four };
                add(report, "floor", case.name, &floor::run(hops, length)?);
            }
            (Some(1), Some(redis), _) => {
                add(report, "redis", case.name, &drive::run(redis.port, case, KEYS, length, drive::Dialect::Redis)?);
            }
            (Some(2), _, Some(etcd)) if case.pipeline == 1 => {
                add(report, "etcd", case.name, &etcd.run(case, KEYS, length)?);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reads under leases, of clusters of their own: these send heartbeats each tick.
fn leased(plan: &Plan, length: Duration, report: &mut Report) -> Result<()> {
    let case = Case { name: "lease_get/1", kind: Kind::Get, clients: 1, pipeline: 1 };
    let mut clusters = Vec::new();
    for store in STORES {
        let plan = cluster::Plan { store: store.into(), size: "512M".into(), more: "raft.leases = true".into() };
        let cluster = Cluster::start(&format!("bench-kv-lease-{store}"), 3, &plan)?;
        let port = cluster.replicas[cluster.leader()?].ports[0];
        drive::fill(port, KEYS)?;
        clusters.push((store, port, cluster));
    }
    for _ in 0..plan.rounds() {
        add(report, "floor", case.name, &floor::run(floor::Hops::Two, length)?);
        for (store, port, _) in &clusters {
            add(report, store, case.name, &drive::run(*port, &case, KEYS, length, drive::Dialect::Own)?);
        }
    }
    Ok(())
}

fn judge(report: &mut Report) {
    let ratio = |own: f64, other: f64| own / other;
    for case in ["set/1", "cas/1"] {
        let against = |report: &Report, peer| report.paired("list", peer, case, "p50_us", ratio);
        report.at_most(&format!("list, {case}: p50 against the floor"), against(report, "floor"), 1.3);
        report.at_most(&format!("list, {case}: p50 against wal"), against(report, "wal"), 1.0);
        report.at_most(&format!("list, {case}: p50 against etcd"), against(report, "etcd"), 0.1);
    }
    for (case, metric) in [("set/20", "p50_us"), ("set/20", "p90_us"), ("cas/20", "p50_us"), ("cas/20", "p90_us")] {
        for (peer, most) in [("wal", 1.0), ("etcd", 0.1)] {
            let found = report.paired("list", peer, case, metric, ratio);
            report.at_most(&format!("list, {case}: {metric} against {peer}"), found, most);
        }
    }
    report.at_least("list, set/20: operations a second", report.value("list", "set/20", "ops_per_s"), 60_000.0);
    report.at_least("list, set/20x16: operations a second", report.value("list", "set/20x16", "ops_per_s"), 250_000.0);
    let get = report.paired_series(("list", "get/1", "p50_us"), ("list", "set/1", "p50_us"), ratio);
    report.at_most("list, get/1: p50 against set/1", get, 1.0);
    let leased = report.paired("list", "floor", "lease_get/1", "p50_us", ratio);
    report.at_most("list, lease_get/1: p50 against a bare round trip", leased, 1.2);
    report.at_most("list: milliseconds to start", report.value("list", "start", "start_ms"), 30.0);
    report.at_most("btree: milliseconds to start", report.value("btree", "start", "start_ms"), 10.0);
    let failover = report.value("list", "failover", "failover_ms");
    report.at_most("list: milliseconds until another leader takes writes", failover, 1000.0);
}
