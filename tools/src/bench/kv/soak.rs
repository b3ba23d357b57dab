//! Soak: keys are overwritten for half an hour, at a steady rate that leaves all clusters time.
//! Memory and room on the medium of a leader and of a follower must stay as they are.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::super::plan::Plan;
use super::super::report::{Report, median};
use super::drive::{self, key, next, value};
use super::footprint::metric;
use super::medium;
use super::stores::{KEYS, STORES};
use crate::drive::kv::cluster::{self, Cluster};
use crate::drive::kv::resp::{Client, Reply, put};
use crate::shared::process;

const CLIENTS: usize = 4;
const PIPELINE: usize = 16;
/// Size of a map. What DRAM holds for a page becomes resident when the page is first used, so all
/// pages must be within the warm-up.
const SIZE: &str = "64M";
/// From one pipeline of a client to the next.
const PERIOD: Duration = Duration::from_millis(10);
const SMALL: &str = "store.ring_size = '1M'\nstore.log_size = '4M'\nraft.spin_us = 0";
/// Looks for a sample.
///
/// Use of a medium, and somewhat of memory, goes up and down as logs fill and garbage is collected.
/// So a sample is the mean of ten looks. The begin is the median of the first samples after a
/// warm-up, in which the ring of last entries, here a small one, becomes full; the end is that of
/// the last third.
const LOOKS: u32 = 10;
/// Samples that are the begin.
const FIRST: usize = 6;
const ROLES: [&str; 2] = ["leader", "follower"];
/// Metrics: names of all samples, of the begin and of the end, and a description.
const METRICS: [(&str, &str, &str, &str); 2] = [
    ("dram_mib", "dram_begin_mib", "dram_end_mib", "memory"),
    ("used_mib", "used_begin_mib", "used_end_mib", "medium in use"),
];
const MIB: f64 = (1 << 20) as f64;

/// A cluster, what its clients have done, and who led when it was looked at last.
struct Soaked {
    store: &'static str,
    cluster: Cluster,
    done: AtomicU64,
    leader: usize,
    changes: usize,
}

/// Runs the clusters of all stores side by side.
pub fn run(plan: &Plan) -> Result<Report> {
    let window = Duration::from_secs(plan.size(10, 1));
    let (warm_up, windows) = (plan.size(12, 6), plan.size(168, 14));
    let workload = format!(
        "{:?} of SET of {KEYS} keys and values of 10 B, the first {:?} not counted, by {CLIENTS} clients with {PIPELINE} requests each {PERIOD:?}; three replicas of each store, \
         side by side",
        window * (warm_up + windows) as u32,
        window * warm_up as u32
    );
    let mut report = Report::new("kv-soak", workload, medium()?);
    if !plan.perdura {
        return Ok(report);
    }
    cluster::build()?;
    let mut all = Vec::new();
    for store in STORES {
        let plan = cluster::Plan { store: store.into(), size: SIZE.into(), more: SMALL.into() };
        let cluster = Cluster::start(&format!("bench-kv-soak-{store}"), 3, &plan)?;
        let leader = cluster.leader()?;
        drive::fill(cluster.replicas[leader].clients(), 0, KEYS)?;
        all.push(Soaked { store, cluster, done: AtomicU64::new(0), leader, changes: 0 });
    }
    soak(&mut all, window, (warm_up, windows), &mut report)?;
    for one in &mut all {
        one.check()?;
        let (store, done, changes) = (one.store, one.done.load(Ordering::Relaxed), one.changes);
        report.note(format!("{store}: {done} operations, {changes} changes of leader"));
    }
    judge(&mut report, !plan.quick);
    Ok(report)
}

/// Loads all clusters, and looks at them meanwhile.
fn soak(all: &mut [Soaked], window: Duration, (warm_up, windows): (u64, u64), report: &mut Report) -> Result<()> {
    let ports: Vec<Vec<u16>> =
        all.iter().map(|one| one.cluster.replicas.iter().map(|replica| replica.home.ports[0]).collect()).collect();
    let done: Vec<AtomicU64> = all.iter().map(|_| AtomicU64::new(0)).collect();
    let ends = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (ports, done) in ports.iter().zip(&done) {
            (0..CLIENTS).for_each(|client| _ = scope.spawn(move || overwrite(ports, client, done, ends)));
        }
        let outcome = (0..warm_up + windows).try_for_each(|number| -> Result<()> {
            let (begun, mut sums) = (Instant::now(), vec![[[0.0; 2]; 2]; all.len()]);
            for look in 1..=LOOKS {
                std::thread::sleep((window * look / LOOKS).saturating_sub(begun.elapsed()));
                all.iter_mut().zip(&mut sums).try_for_each(|(one, sums)| one.look(sums))?;
            }
            for ((one, sums), done) in all.iter().zip(&sums).zip(&done) {
                let done = done.swap(0, Ordering::Relaxed);
                one.done.fetch_add(done, Ordering::Relaxed);
                if number >= warm_up {
                    report.add(one.store, "load", "ops_per_s", "1/s", done as f64 / begun.elapsed().as_secs_f64());
                    one.add(sums, report);
                }
            }
            Ok(())
        });
        ends.store(true, Ordering::Relaxed);
        outcome
    })
}

/// One client: overwrites keys at whoever leads.
fn overwrite(ports: &[u16], client: usize, done: &AtomicU64, ends: &AtomicBool) {
    let (mut at, mut state, mut open) = (client, client as u64 * 7919 + 1, None);
    while !ends.load(Ordering::Relaxed) {
        let Some(client) = &mut open else {
            at = (at + 1) % ports.len();
            open = Client::connect(ports[at]).ok();
            continue;
        };
        let begun = Instant::now();
        let outcome = batch(client, &mut state, done);
        if outcome.is_err() {
            open = None;
        }
        std::thread::sleep(PERIOD.saturating_sub(begun.elapsed()));
    }
}

/// Some requests, sent together. Error: not all were done.
fn batch(client: &mut Client, state: &mut u64, done: &AtomicU64) -> Result<()> {
    let mut out = Vec::new();
    for _ in 0..PIPELINE {
        let number = next(state);
        put(&mut out, &[b"SET", key(number % KEYS).as_bytes(), value(number).as_bytes()]);
    }
    client.send(&out)?;
    for _ in 0..PIPELINE {
        let reply = client.reply()?;
        ensure!(reply == Reply::Text("OK".into()), "{reply:?}");
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

impl Soaked {
    /// Adds what the leader and a follower take, by role and metric.
    fn look(&mut self, sums: &mut [[f64; 2]; 2]) -> Result<()> {
        let replicas = &self.cluster.replicas;
        let leads =
            |place: &usize| metric(&replicas[*place], "perdura_kv_role{role=\"leader\"}").is_ok_and(|is: u64| is == 1);
        // While none leads, the last one counts.
        if let Some(leader) =
            (self.leader..self.leader + replicas.len()).map(|place| place % replicas.len()).find(leads)
        {
            self.changes += usize::from(leader != self.leader);
            self.leader = leader;
        }
        for (role, sums) in sums.iter_mut().enumerate() {
            let replica = &replicas[(self.leader + role) % replicas.len()];
            // RssAnon: maps, which are files, are not counted.
            sums[0] += process::status_bytes(replica.pid(), "RssAnon")? as f64;
            sums[1] += metric::<f64>(replica, "perdura_kv_medium_used_bytes")?;
        }
        Ok(())
    }

    fn add(&self, sums: &[[f64; 2]; 2], report: &mut Report) {
        for (role, sums) in ROLES.iter().zip(sums) {
            for ((metric, ..), sum) in METRICS.iter().zip(sums) {
                report.add(self.store, role, metric, "MiB", sum / f64::from(LOOKS) / MIB);
            }
        }
    }

    /// All replicas must run, and have all keys and no other.
    fn check(&mut self) -> Result<()> {
        for replica in &mut self.cluster.replicas {
            replica.still_runs()?;
        }
        let leader = self.cluster.leader()?;
        let keys = self.cluster.replicas[leader].client()?.call(&["DBSIZE"])?;
        ensure!(keys == Reply::Number(KEYS as i64), "{}: {keys:?} keys after the load", self.store);
        Ok(())
    }
}

/// The begin and the end of all samples.
fn ends(samples: &[f64]) -> Option<(f64, f64)> {
    let last = samples.len() / 3;
    (samples.len() >= FIRST && last > 0).then(|| (median(&samples[..FIRST]), median(&samples[samples.len() - last..])))
}

/// Adds begin and end of all samples. A quick run is not judged: memory still grows at its begin,
/// for there was no time to warm up.
fn judge(report: &mut Report, is_judged: bool) {
    for store in STORES {
        for role in ROLES {
            for (metric, begin, end, what) in METRICS {
                let Some((first, last)) = report.runs(store, role, metric).and_then(ends) else { continue };
                report.add(store, role, begin, "MiB", first);
                report.add(store, role, end, "MiB", last);
                if is_judged {
                    report.at_most(&format!("{store}, {role}: {what}, end / begin"), Some(last / first), 1.1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ends;

    /// Samples between the begin and the last third may be anything: the medium of a log goes up
    /// and down.
    #[test]
    fn growth_is_from_the_begin_to_the_last_third() {
        let samples = [1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 9.0, 9.0, 2.0, 2.0, 2.0, 7.0];
        assert_eq!(ends(&samples), Some((1.0, 2.0)));
        assert_eq!(ends(&samples[..3]), None);
    }
}
