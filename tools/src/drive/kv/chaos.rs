//! `cargo xtask kv-chaos`: replicas in network namespaces under faults that a seed decides, and
//! clients whose histories Porcupine judges.
//!
//! The outer process builds, shows that the judge can say no, and judges. The inner one, in
//! namespaces of its own (net.rs), has the cluster, the clients and the faults. The seed decides
//! what is done and in which order; when it takes effect is up to the machine.

mod clients;
mod end;
mod faults;
mod history;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::cluster::{self, Cluster, Home, Plan, Replica};
use super::net::{self, Net};
use crate::shared::args::Args;
use crate::shared::paths;

/// Replicas of the cluster, and one more place for those that join.
const REPLICAS: usize = 3;
const PLACES: usize = REPLICAS + 1;

/// Settings of a run.
#[derive(Clone, Copy)]
struct Run {
    seconds: u64,
    seed: u64,
}

/// `kv-chaos [--seconds N] [--seed N]`.
pub fn run(mut args: Args) -> Result<()> {
    let seconds = args.option("--seconds")?.unwrap_or(60);
    let seed = args.option("--seed")?.unwrap_or(1);
    let (run, is_inside) = (Run { seconds, seed }, args.flag("--inside"));
    args.finish()?;
    if is_inside { inside(run) } else { outside(run) }
}

/// The directory of a run. Removed at its end.
struct Top(PathBuf);

impl Top {
    fn new() -> Result<Self> {
        let top = cluster::directory(&paths::medium(), "kv-chaos")?;
        std::fs::create_dir(&top).with_context(|| top.display().to_string())?;
        Ok(Self(top))
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        // Nobody else uses it, whatever becomes of it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn outside(run: Run) -> Result<()> {
    let Run { seconds, seed } = run;
    cluster::build()?;
    let judge = history::judge()?;
    let top = Top::new()?;
    println!("kv-chaos: seed {seed}, {seconds} s");
    let words = ["kv-chaos", "--inside", "--seed", &seed.to_string(), "--seconds", &seconds.to_string()];
    let ended = net::enter(&top.0, &words.map(str::to_owned))?;
    let judged = if ended.success() { history::is_linearizable(&judge, &top.0) } else { Ok(false) };
    let summary = std::fs::read_to_string(top.0.join("summary")).unwrap_or_default();
    if let Ok(true) = judged {
        println!("kv-chaos: seed {seed}, {summary}, violations 0");
        return Ok(());
    }
    let kept = keep(&top.0, seed)?;
    println!("kv-chaos: VIOLATION or failure with seed {seed}: logs and history are in {}", kept.display());
    println!("kv-chaos: again: cargo xtask kv-chaos --seconds {seconds} --seed {seed}");
    judged?;
    bail!("kv-chaos: seed {seed}: {}", if ended.success() { "violations" } else { "failed" })
}

/// Copies what tells how it came about. The replicas' data are too large.
fn keep(top: &Path, seed: u64) -> Result<PathBuf> {
    let kept = paths::build().join(format!("kv-chaos/seed-{seed}"));
    if kept.exists() {
        std::fs::remove_dir_all(&kept)?;
    }
    std::fs::create_dir_all(&kept)?;
    for entry in std::fs::read_dir(top)? {
        let path = entry?.path();
        if path.is_file() {
            std::fs::copy(&path, kept.join(path.file_name().unwrap_or_default()))?;
        }
    }
    Ok(kept)
}

/// The library that fakes the time of day.
fn fake_time() -> Result<PathBuf> {
    let found = std::fs::read_dir("/usr/lib")?.filter_map(|entry| {
        let library = entry.ok()?.path().join("faketime/libfaketimeMT.so.1");
        library.exists().then_some(library)
    });
    found.last().context("libfaketime is missing (package faketime): run `make setup`")
}

/// Where a replica runs: at a node, by a clock that is moved by writing to a file.
fn home(node: usize, library: &Path) -> Result<Home> {
    let clock = Path::new(net::PLACE).join(format!("clock-{node}"));
    std::fs::write(&clock, "+0\n")?;
    let environment = vec![
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", clock.display().to_string()),
        ("FAKETIME_CACHE_DURATION", "1".into()),
        // Two names, of two versions. The steady clock is not moved: what people set does not move
        // it either.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ("DONT_FAKE_MONOTONIC", "1".into()),
    ];
    Ok(Home {
        address: Net::address(node),
        ports: [6379, 7379, 9379],
        before: Net::before(node),
        environment,
        program: None,
    })
}

/// A cluster as the seed decides, with an idle place, and whether its replicas pass requests on.
fn found(random: &mut StdRng) -> Result<(Cluster, bool)> {
    let library = fake_time()?;
    let raft =
        format!("raft = {{ leases = {}, announces_commits = {} }}", random.random::<bool>(), random.random::<bool>());
    let forwards: bool = random.random();
    let more = format!("clients.forwards = {forwards}\n{raft}");
    let is_wal = random.random_ratio(1, 5);
    let mut plans = Vec::new();
    for _ in 0..PLACES {
        let store = if is_wal { "wal" } else { ["list", "list", "btree"][random.random_range(0..3)] };
        plans.push(Plan { store: store.into(), size: "128M".into(), more: more.clone() });
    }
    let stores: Vec<&str> = plans.iter().map(|plan| plan.store.as_str()).collect();
    println!("kv-chaos: stores {}; clients.forwards = {forwards}; {raft}", stores.join(", "));
    let mut cluster = Cluster::new(Path::new(net::PLACE).join("replicas"))?;
    for (node, plan) in plans[..REPLICAS].iter().enumerate() {
        cluster.add(plan, home(node, &library)?)?;
    }
    cluster.all_vote()?;
    cluster.replicas.push(Replica::new(cluster.next_place(), &plans[REPLICAS], home(REPLICAS, &library)?)?);
    Ok((cluster, forwards))
}

fn inside(run: Run) -> Result<()> {
    let mut random = StdRng::seed_from_u64(run.seed);
    let net = Net::with_drops(PLACES)?;
    let (cluster, forwards) = found(&mut random)?;
    let outcome = under_faults(run, net, cluster, forwards, &mut random);
    outcome.with_context(|| format!("seed {}", run.seed))
}

fn under_faults(run: Run, net: Net, cluster: Cluster, forwards: bool, random: &mut StdRng) -> Result<()> {
    let addresses: Vec<_> = cluster.replicas.iter().map(Replica::clients).collect();
    let load = clients::Load::new(&addresses, forwards);
    let mut nemesis = faults::Nemesis::new(cluster, net, StdRng::seed_from_u64(random.random()));
    let lasts = Duration::from_secs(run.seconds);
    let (histories, outcome) = load.run(run.seed, || nemesis.run(lasts).and_then(|()| nemesis.heal()));
    nemesis.keep_logs()?;
    let mut history: Vec<_> = histories.into_iter().flatten().collect();
    outcome?;
    let counts = nemesis.counts();
    let mut cluster = nemesis.into_cluster();
    end::read_again(&cluster, &load, &mut history)?;
    let compared = end::compare(&cluster)?;
    end::check(&mut cluster)?;
    let answered = history.iter().filter(|done| done.outcome.is_some()).count();
    let unknown = history.len() - answered;
    history::write(&Path::new(net::PLACE).join("history.jsonl"), &history)?;
    let faults: u32 = counts.iter().map(|(_, count)| count).sum();
    let kinds: Vec<String> = counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let summary = format!(
        "{answered} operations, {unknown} unknown and {} reads unanswered, {compared} keys the same everywhere, {faults} faults ({})",
        load.unanswered_reads(),
        kinds.join(", ")
    );
    std::fs::write(Path::new(net::PLACE).join("summary"), summary)?;
    ensure!(answered as u64 > run.seconds * 100, "only {answered} operations were answered in {} s", run.seconds);
    let left_out: Vec<&str> = counts.iter().filter(|(_, count)| *count == 0).map(|(kind, _)| *kind).collect();
    ensure!(run.seconds < 60 || left_out.is_empty(), "faults that never came: {}", left_out.join(", "));
    Ok(())
}
