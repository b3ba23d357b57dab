//! perdura-kv beside its peers: what one client waits for, and what twenty get done.
//!
//! Clients, replicas and peers are processes and threads of this machine, over loopback, without
//! pinning. The floor goes the way that a write must go, client -> leader -> follower -> leader ->
//! client, with nothing done to it, through processes that wait as the servers.

mod busy;
mod drive;
mod far;
mod floor;
mod footprint;
mod lag;
mod limits;
mod peers;
mod relay;
mod restarts;
pub mod soak;
mod stores;

pub use far::inside as apart;
pub use floor::play;

use std::time::{Duration, Instant};

use anyhow::Result;

use super::plan::Plan;
use super::report::Report;
use crate::drive::kv::cluster::{self, Cluster};
use crate::shared::{paths, process};
use drive::{Case, Kind, add};
use peers::{Etcd, Redis};
use stores::{KEYS, STORES, each, of_store, with_option};

/// The list that makes entries durable as often as the thesis has it (3.4).
const OFTEN: (&str, &str) = ("list_k10", "raft.persist_entries = 10\nraft.persist_us = 1");
const OFTEN_NOTE: &str = "list_k10: raft.persist_entries = 10 and raft.persist_us = 1, as the thesis has it (3.4)";
const MEDIA: &str = "the files of wal, redis and etcd lie on the same medium as the maps, where a sync costs nothing; those of wal_disk on the disk of the checkout";

const CASES: [Case; 7] = [
    Case { name: "set/1", kind: Kind::Set, clients: 1, pipeline: 1 },
    Case { name: "cas/1", kind: Kind::Cas, clients: 1, pipeline: 1 },
    Case { name: "get/1", kind: Kind::Get, clients: 1, pipeline: 1 },
    Case { name: "set/20", kind: Kind::Set, clients: 20, pipeline: 1 },
    Case { name: "cas/20", kind: Kind::Cas, clients: 20, pipeline: 1 },
    Case { name: "get/20", kind: Kind::Get, clients: 20, pipeline: 1 },
    Case { name: "set/20x16", kind: Kind::Set, clients: 20, pipeline: 16 },
];

/// The medium of the replicas' data, for the head of a report.
fn medium() -> Result<String> {
    let medium = paths::medium();
    std::fs::create_dir_all(&medium)?;
    let shown = process::mount(&medium).map_or_else(|| "unknown".to_owned(), |(kind, _)| kind);
    let emulated = if process::is_dax(&medium) { "" } else { ", persistent memory emulated" };
    Ok(format!("{} ({shown}{emulated})", medium.display()))
}

/// Runs all systems in all cases, in rounds.
pub fn run(plan: &Plan) -> Result<Report> {
    let workload = format!(
        "SET, compare-and-set and GET of {KEYS} keys and values of 10 B; three replicas; /1 one client, /20 twenty, x16 pipelined"
    );
    let (mut report, medium) = (Report::new("kv", workload, medium()?), paths::medium());
    let mut clusters = Vec::new();
    if plan.perdura {
        cluster::build()?;
        for store in STORES {
            clusters.push((store, Cluster::start(&format!("bench-kv-{store}"), 3, &of_store(store, ""))?));
        }
        clusters.push((OFTEN.0, Cluster::start("bench-kv-often", 3, &of_store("list", OFTEN.1))?));
        clusters.push(("wal_disk", on_disk()?));
        if let Some(before) = plan.before {
            let program = before.join("perdura-kv");
            let cluster = Cluster::start_build(&program, "bench-kv-before", 3, &of_store("list", ""))?;
            clusters.push(("before", cluster));
        }
    }
    let redis = Redis::start(&medium, &mut report)?;
    let etcd = Etcd::start(&medium, &mut report)?;
    let length = Duration::from_millis(plan.size(2000, 300));
    for (_, cluster) in &clusters {
        drive::fill(cluster.leader_address()?, 0, KEYS)?;
    }
    if let Some(redis) = &redis {
        drive::fill(redis.address(), 0, KEYS)?;
    }
    let (mut round, cases) = (Duration::ZERO, plan.until(Duration::from_secs(16)));
    for number in 0..plan.rounds() {
        if number > 0 && !cases.has_time(round) {
            break;
        }
        let begun = Instant::now();
        for case in &CASES {
            one_case(case, &clusters, redis.as_ref(), etcd.as_ref(), length, number, &mut report)?;
        }
        round = begun.elapsed();
    }
    drop(etcd);
    for (store, cluster) in &mut clusters {
        // It has less garbage than the others to collect meanwhile: fewer cases.
        if *store != OFTEN.0 {
            footprint::bytes(store, cluster, &CASES, KEYS, length * 2, &mut report)?;
        }
        if STORES.contains(store) {
            alone(plan, store, cluster, &mut report)?;
        }
    }
    drop(clusters);
    if plan.perdura {
        busy::run(plan, (KEYS, length), redis.as_ref(), &mut report)?;
        leased(plan, length, &mut report)?;
        modelled(plan, length, &mut report)?;
        far::late(plan, length, &mut report)?;
        far::apart(plan, length, &mut report)?;
    }
    drop(redis);
    judge(&mut report);
    report.note(MEDIA.into());
    report.note(OFTEN_NOTE.into());
    Ok(report)
}

/// Whether a store of our own runs a case: what differs from another one of ours in durability
/// alone runs no more reads than it must.
fn runs(store: &str, case: &Case) -> bool {
    match store {
        "wal_disk" => case.name != "get/20",
        _ if store == OFTEN.0 => case.kind == Kind::Set && case.pipeline == 1,
        _ => true,
    }
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
    let (count, length) = (clusters.len() + 3, case.length(length));
    for place in 0..count {
        let place = (place + number) % count;
        match (place.checked_sub(clusters.len()), redis, etcd) {
            (None, ..) if runs(clusters[place].0, case) => {
                let (store, cluster) = &clusters[place];
                let server = cluster.leader_address()?;
                let spent = cluster.cpu_time()?;
                let found = drive::run(server, case, KEYS, length, drive::Dialect::Own)?;
                let spent = cluster.cpu_time()?.saturating_sub(spent);
                add(report, store, case.name, &found);
                report.add(
                    store,
                    case.name,
                    "cpu_us_per_op",
                    "us",
                    spent.as_secs_f64() * 1e6 / found.operations as f64,
                );
            }
            (Some(0), ..) if case.pipeline == 1 => {
                let way = if case.kind == Kind::Get { floor::Way::TWO } else { floor::Way::FOUR };
                add(report, "floor", case.name, &floor::run(way, case.clients, length)?);
            }
            (Some(1), Some(redis), _) => {
                add(
                    report,
                    "redis",
                    case.name,
                    &drive::run(redis.address(), case, KEYS, length, drive::Dialect::Redis)?,
                );
            }
            (Some(2), _, Some(etcd)) if case.pipeline == 1 => {
                add(report, "etcd", case.name, &etcd.run(case, KEYS, length)?);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Measures one store after the other.
fn alone(plan: &Plan, store: &str, cluster: &mut Cluster, report: &mut Report) -> Result<()> {
    restarts::starts(store, cluster, plan.size(9, 3), report)?;
    footprint::memory(store, KEYS, plan.size(450_000, 50_000), report)?;
    let ways: &[bool] = if plan.quick { &[false] } else { &[false, true] };
    lag::catch_up(store, cluster, plan.size(5, 1), ways, report)?;
    for _ in 0..plan.size(3, 1) {
        limits::longest_step(store, report)?;
    }
    if store == "list" {
        restarts::failovers(store, cluster, plan.size(20, 3), report)?;
    }
    Ok(())
}

/// Reads under leases, of clusters of their own: these send heartbeats each tick.
fn leased(plan: &Plan, length: Duration, report: &mut Report) -> Result<()> {
    let cases = [
        Case { name: "lease_get/1", kind: Kind::Get, clients: 1, pipeline: 1 },
        Case { name: "lease_get/20", kind: Kind::Get, clients: 20, pipeline: 1 },
    ];
    let clusters = with_option("lease", "raft.leases = true")?;
    for _ in 0..plan.size(5, 1) {
        for case in &cases {
            let length = case.length(length);
            add(report, "floor", case.name, &floor::run(floor::Way::TWO, case.clients, length)?);
            each(case, &clusters, length, report)?;
        }
    }
    Ok(())
}

/// Stores whose medium takes the time of Optane, as modelled: maps by lines and fences, the log by
/// what its writes copy past the caches and a fence for each sync.
fn modelled(plan: &Plan, length: Duration, report: &mut Report) -> Result<()> {
    let cases = [
        Case { name: "optane_set/1", kind: Kind::Set, clients: 1, pipeline: 1 },
        Case { name: "optane_set/20", kind: Kind::Set, clients: 20, pipeline: 1 },
    ];
    if process::is_dax(&paths::medium()) {
        report.note("no optane_set: only emulated memory can take the time of another medium".into());
        return Ok(());
    }
    let clusters = with_option("optane", "store.emulate_model = 'optane'")?;
    for _ in 0..plan.size(5, 1) {
        cases.iter().try_for_each(|case| each(case, &clusters, length, report))?;
    }
    Ok(())
}

/// The write-ahead log where a sync is one: on the disk that has the checkout.
fn on_disk() -> Result<Cluster> {
    Cluster::start_in(&paths::build().join("bench-kv"), "wal", 3, &of_store("wal", ""))
}

fn judge(report: &mut Report) {
    let ratio = |own: f64, other: f64| own / other;
    for case in ["set/1", "cas/1"] {
        let against = |report: &Report, peer| report.paired("list", peer, case, "p50_us", ratio);
        report.at_most(&format!("list, {case}: p50 against the floor"), against(report, "floor"), 1.3);
        report.at_most(&format!("list, {case}: p50 against wal"), against(report, "wal"), 1.0);
        report.at_most(&format!("list, {case}: p50 against etcd"), against(report, "etcd"), 0.1);
    }
    if report.value("floor", "set/1", "p50_us").is_some_and(|floor| floor < 60.0) {
        report.at_most("list, set/1: p50 in microseconds", report.value("list", "set/1", "p50_us"), 75.0);
    }
    for (case, metric) in [("set/20", "p50_us"), ("set/20", "p90_us"), ("cas/20", "p50_us"), ("cas/20", "p90_us")] {
        for (peer, most) in [("wal", 1.0), ("etcd", 0.1)] {
            let found = report.paired("list", peer, case, metric, ratio);
            report.at_most(&format!("list, {case}: {metric} against {peer}"), found, most);
        }
    }
    report.at_least("list, set/20: operations a second", report.value("list", "set/20", "ops_per_s"), 60_000.0);
    report.at_least("list, set/20x16: operations a second", report.value("list", "set/20x16", "ops_per_s"), 250_000.0);
    for (case, least) in [("set/20", 1.5), ("set/20x16", 2.0)] {
        if let Some(found) = report.paired("list", "before", case, "ops_per_s", ratio) {
            report.at_least(&format!("list, {case}: operations a second against the build before"), Some(found), least);
        }
    }
    report.at_most("list, set/20: CPU of the replicas a SET", report.value("list", "set/20", "cpu_us_per_op"), 18.0);
    let modelled = report.paired("list", "wal", "optane_set/1", "p50_us", ratio);
    report.at_most("list, optane_set/1: p50 against wal, both on modelled memory", modelled, 0.7);
    let get = report.paired_series(("list", "get/1", "p50_us"), ("list", "set/1", "p50_us"), ratio);
    report.at_most("list, get/1: p50 against set/1", get, 1.0);
    let leased = report.paired("list", "floor", "lease_get/1", "p50_us", ratio);
    report.at_most("list, lease_get/1: p50 against a bare round trip", leased, 1.2);
    for (case, metric) in [("late_set/1", "p50_us"), ("late_set/20", "p50_us"), ("late_set/20", "p90_us")] {
        let found = report.paired("list", "floor", case, metric, ratio);
        report.at_most(&format!("list, {case}: {metric} against the floor with the same delay"), found, 1.2);
    }
    let catchup = report.value("list", "lag/1KB", "catchup_ms");
    report.at_most("list: milliseconds to catch up with 15,000 writes of 1 KB", catchup, 50.0);
    for case in ["lag/1KB", "lag/4KB"] {
        let found = report.paired("list", "wal", case, "catchup_ms", ratio);
        report.at_most(&format!("list, {case}: catching up against wal"), found, 1.0);
    }
    for case in ["set/1", "set/20"] {
        for peer in ["wal", "wal_disk"] {
            let found = report.paired("list", peer, case, "bytes_per_set", ratio);
            report.at_most(&format!("list, {case}: bytes to the medium for a SET against {peer}"), found, 0.5);
        }
    }
    report.at_most("list: milliseconds to start", report.value("list", "start", "start_ms"), 30.0);
    report.at_most("btree: milliseconds to start", report.value("btree", "start", "start_ms"), 10.0);
    for store in STORES {
        let longest = report.value(store, "limits", "longest_step_ms");
        report.at_most(&format!("{store}: milliseconds of the longest step"), longest, limits::STEP_MS_MAX);
    }
    busy::judge(report);
    let failover = report.value("list", "failover", "failover_ms");
    report.at_most("list: milliseconds until another leader takes writes", failover, 1000.0);
}
