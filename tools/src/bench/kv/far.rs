//! Replicas that are far from each other: behind relays on loopback, or as machines of their own.
//! As machines each has a network namespace behind a bridge (drive/kv/net.rs). A namespace is not
//! left again, so an inner process has them, and hands its figures to the outer one in a file.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::drive::{self, Case, Kind, add};
use super::floor::{self, Way};
use super::relay::Relay;
use super::stores::{KEYS, STORES, each, of_store};
use crate::bench::plan::Plan;
use crate::bench::report::{self, Report, median};
use crate::drive::kv::cluster::{self, Cluster, Home};
use crate::drive::kv::net::{self, Net};
use crate::shared::paths;

/// Delay of `late` between two replicas, in each direction.
const LATE: Duration = Duration::from_micros(100);
const LATE_NOTE: &str = "late: 100 us more between replicas in each direction, by a relay of our own (bench/kv/relay.rs), through which the floor goes too";
const LATE_CASES: [Case; 2] = [
    Case { name: "late_set/1", kind: Kind::Set, clients: 1, pipeline: 1 },
    Case { name: "late_set/20", kind: Kind::Set, clients: 20, pipeline: 1 },
];

/// By how much longer a write of one client takes between machines in the thesis (4.1): 100 and 230
/// us with the list, 120 and 250 with the B+-tree; with its log 150 and 257.
const THESIS_MORE_US: f64 = 130.0;
const APART_CASES: [Case; 6] = [
    Case { name: "apart_set/1", kind: Kind::Set, clients: 1, pipeline: 1 },
    Case { name: "apart_cas/1", kind: Kind::Cas, clients: 1, pipeline: 1 },
    Case { name: "apart_get/1", kind: Kind::Get, clients: 1, pipeline: 1 },
    Case { name: "apart_set/20", kind: Kind::Set, clients: 20, pipeline: 1 },
    Case { name: "apart_cas/20", kind: Kind::Cas, clients: 20, pipeline: 1 },
    Case { name: "apart_get/20", kind: Kind::Get, clients: 20, pipeline: 1 },
];
const REPLICAS: usize = 3;
/// The file with what the inner process has found, in its directory.
const FOUND: &str = "found.json";
/// Metrics of each case, with their units.
const METRICS: [(&str, &str); 3] = [("p50_us", "us"), ("p90_us", "us"), ("ops_per_s", "1/s")];

/// Clusters of all stores, filled, and the relays through which their replicas reach each other.
type Far = (Vec<(&'static str, Cluster)>, Vec<Relay>);

/// Starts them. `home` says where a replica of a cluster is, both by number.
fn start(place: &Path, host: Ipv4Addr, delay: Duration, home: impl Fn(usize, usize) -> Result<Home>) -> Result<Far> {
    let (mut clusters, mut relays) = (Vec::new(), Vec::new());
    for (number, store) in STORES.into_iter().enumerate() {
        let mut made = Cluster::new(cluster::directory(place, &format!("bench-kv-far-{store}"))?)?;
        for replica in 0..REPLICAS {
            let home = home(number, replica)?;
            let relay = Relay::start(host, SocketAddr::from((home.address, home.ports[1])), delay)?;
            let more = format!("peers.announce = '{}'", relay.address);
            made.add(&of_store(store, &more), home)?;
            relays.push(relay);
        }
        made.all_vote()?;
        drive::fill(made.leader_address()?, 0, KEYS)?;
        clusters.push((store, made));
    }
    Ok((clusters, relays))
}

/// Replicas behind relays on loopback.
pub fn late(plan: &Plan, length: Duration, report: &mut Report) -> Result<()> {
    let (clusters, relays) = start(&paths::medium(), Ipv4Addr::LOCALHOST, LATE, |_, _| Home::loopback())?;
    for _ in 0..plan.size(5, 1) {
        for case in &LATE_CASES {
            add(report, "floor", case.name, &floor::run(Way::FOUR.late(LATE), case.clients, length)?);
            each(case, &clusters, length, report)?;
        }
    }
    drop((clusters, relays));
    report.note(LATE_NOTE.into());
    Ok(())
}

/// The directory of the inner process, which goes with this.
struct Top(std::path::PathBuf);

impl Drop for Top {
    fn drop(&mut self) {
        // Nobody else uses it, whatever becomes of it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Replicas as machines of their own, and clients at the bridge, as near to the leader as can be.
/// Where namespaces cannot be made, a note says so.
pub fn apart(plan: &Plan, length: Duration, report: &mut Report) -> Result<()> {
    let top = Top(cluster::directory(&paths::medium(), "bench-kv-apart")?);
    std::fs::create_dir(&top.0).with_context(|| top.0.display().to_string())?;
    let words = ["kv-apart".to_owned(), (length.as_millis() / 4).to_string(), plan.size(3, 1).to_string()];
    let ended = match net::enter(&top.0, &words) {
        Ok(ended) => ended,
        Err(error) => {
            report.note(none(&error));
            return Ok(());
        }
    };
    ensure!(ended.success(), "replicas in namespaces: {ended}");
    let found: Value = serde_json::from_slice(&std::fs::read(top.0.join(FOUND))?)?;
    take(&found, report)
}

/// The note where there is no such network.
fn none(error: &anyhow::Error) -> String {
    format!("no apart_...: {error:#}")
}

/// Adds what the inner process has found.
fn take(found: &Value, report: &mut Report) -> Result<()> {
    for result in found["results"].as_array().context("no results")? {
        let (Some(system), Some(case)) = (result["system"].as_str(), result["case"].as_str()) else {
            anyhow::bail!("no result: {result}");
        };
        let metric = METRICS.into_iter().find(|(metric, _)| result["metric"] == *metric);
        let (metric, unit) = metric.with_context(|| format!("an unknown metric: {result}"))?;
        for run in result["runs"].as_array().context("no runs")? {
            report.add(system, case, metric, unit, run.as_f64().context("no number")?);
        }
    }
    let notes = found["notes"].as_array().into_iter().flatten();
    notes.filter_map(Value::as_str).for_each(|note| report.note(note.into()));
    Ok(())
}

/// The inner process: `kv-apart MILLISECONDS ROUNDS`, the time of a run and the number of rounds.
pub fn inside(words: &[String]) -> Result<()> {
    let [length, rounds] = words else { anyhow::bail!("kv-apart: {words:?}") };
    let (length, rounds) = (Duration::from_millis(length.parse()?), rounds.parse::<usize>()?);
    let (place, mut report) = (Path::new(net::PLACE), Report::new("kv", String::new(), String::new()));
    match Net::new(REPLICAS) {
        Ok(_) => in_net(place, length, rounds, &mut report)?,
        Err(error) => report.note(none(&error)),
    }
    report::write_json(&place.join(FOUND), &report.to_json())
}

/// Runs all cases in the private network.
fn in_net(place: &Path, length: Duration, rounds: usize, report: &mut Report) -> Result<()> {
    let delay = delay(length, report)?;
    let home = |cluster: usize, replica: usize| {
        let ports = [6379, 7379, 9379].map(|port| port + cluster as u16);
        Ok(Home { address: Net::address(replica), ports, before: Net::before(replica), ..Home::loopback()? })
    };
    let (clusters, relays) = start(place, Net::BRIDGE, delay, home)?;
    for _ in 0..rounds {
        for case in &APART_CASES {
            if case.kind == Kind::Set {
                add(report, "floor", case.name, &floor::run(Way::NODES.late(delay), case.clients, length)?);
            }
            each(case, &clusters, length, report)?;
        }
    }
    drop((clusters, relays));
    Ok(())
}

/// The relays' delay by which the floor of one client takes as much longer as a write does between
/// the thesis' machines, found in two steps: a relay takes time by itself, and more when it sleeps.
fn delay(length: Duration, report: &mut Report) -> Result<Duration> {
    let floor = |way: Way| -> Result<f64> {
        let runs = (0..3).map(|_| Ok(floor::run(way, 1, length)?.p50_us)).collect::<Result<Vec<_>>>()?;
        Ok(median(&runs))
    };
    let (near, alone) = (floor(Way::NODES)?, floor(Way::NODES.late(Duration::ZERO))?);
    let first = Duration::from_micros(corrected(0.0, alone - near) as u64);
    let delay_us = corrected(first.as_micros() as f64, floor(Way::NODES.late(first))? - near);
    report.note(format!(
        "apart: each replica in a network namespace of its own, a relay of our own between them; the floor of one client takes {near:.0} us there without relays and {alone:.0} us through \
         them; they delay by {delay_us:.0} us in each direction, so that it takes about {THESIS_MORE_US:.0} us longer, as a write does between the thesis' machines"
    ));
    Ok(Duration::from_micros(delay_us as u64))
}

/// A delay in each direction, in microseconds, after one with which the floor took `more` longer.
fn corrected(delay_us: f64, more: f64) -> f64 {
    (delay_us + (THESIS_MORE_US - more) / 2.0).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_counts_in_the_delay() {
        assert_eq!(corrected(0.0, 0.0), 65.0);
        assert_eq!(corrected(0.0, 100.0), 15.0);
        assert_eq!(corrected(15.0, 150.0), 5.0, "one that sleeps takes longer");
        assert_eq!(corrected(0.0, 160.0), 0.0, "a relay cannot be made faster than it is");
    }

    #[test]
    fn what_the_inner_process_has_found_is_the_outer_ones() {
        let (mut inner, mut outer) =
            (Report::new("kv", String::new(), String::new()), Report::new("kv", String::new(), String::new()));
        for p50_us in [3.0, 1.0, 2.0] {
            let found = drive::Found { p50_us, p90_us: 5.0, ops_per_s: 7.0, operations: 9 };
            add(&mut inner, "list", "apart_set/1", &found);
        }
        inner.note("apart: so".into());
        take(&inner.to_json(), &mut outer).unwrap();
        assert_eq!(outer.to_json(), inner.to_json());
        assert!(
            take(&serde_json::json!({"results": [{"system": "list", "case": "a", "metric": "s"}]}), &mut outer)
                .is_err()
        );
    }
}
