//! Faults of the replicas.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rustix::process::Signal;

use crate::drive::kv::cluster::{Cluster, Replica, wait_for};
use crate::drive::kv::net::{self, Net};

/// How long a fault lasts, and the time between two, in milliseconds.
const LASTS_MS: std::ops::Range<u64> = 200..2500;
const REST_MS: std::ops::Range<u64> = 200..1200;
/// By how much a time of day jumps, in seconds.
const JUMP_S: std::ops::RangeInclusive<i32> = -3600..=3600;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A replica hears no other, and none hears it.
    CutOff,
    /// A replica hears nobody, or nobody hears it.
    OneSided,
    /// Two replicas do not hear each other.
    LinkCut,
    Stopped,
    Killed,
    AllKilled,
    /// A replica's clock jumps.
    Clock,
    /// Leadership is handed over.
    Transfer,
    /// A replica loses its data, and joins under a new id.
    Wiped,
    /// A replica joins, and another is removed.
    Members,
}

const FAULTS: [(Fault, &str); 10] = [
    (Fault::CutOff, "cut off"),
    (Fault::OneSided, "one-sided"),
    (Fault::LinkCut, "link cut"),
    (Fault::Stopped, "stopped"),
    (Fault::Killed, "killed"),
    (Fault::AllKilled, "all killed"),
    (Fault::Clock, "clock"),
    (Fault::Transfer, "transfer"),
    (Fault::Wiped, "wiped"),
    (Fault::Members, "members"),
];

impl Fault {
    /// Whether it may come beside another.
    fn is_passing(self) -> bool {
        !matches!(self, Fault::Transfer | Fault::Wiped | Fault::Members)
    }
}

/// Does all that to a cluster.
pub struct Nemesis {
    cluster: Cluster,
    net: Net,
    random: StdRng,
    counts: [u32; FAULTS.len()],
    begun: Instant,
}

impl Nemesis {
    /// The faults of this cluster. One of its replicas does not run: it is the place for those that
    /// join.
    pub fn new(cluster: Cluster, net: Net, random: StdRng) -> Self {
        Self { cluster, net, random, counts: [0; FAULTS.len()], begun: Instant::now() }
    }

    /// How often each kind has come.
    pub fn counts(&self) -> Vec<(&'static str, u32)> {
        FAULTS.iter().zip(self.counts).map(|((_, name), count)| (*name, count)).collect()
    }

    /// The cluster, when all is over.
    pub fn into_cluster(self) -> Cluster {
        self.cluster
    }

    /// Fault after fault: each kind once, then as they are drawn.
    pub fn run(&mut self, lasts: Duration) -> Result<()> {
        let mut first: Vec<Fault> = FAULTS.iter().map(|(fault, _)| *fault).collect();
        first.shuffle(&mut self.random);
        while self.begun.elapsed() < lasts {
            let fault = first.pop().unwrap_or_else(|| self.any());
            let beside = Some(self.any()).filter(|one| fault.is_passing() && one.is_passing() && *one != fault);
            let beside = beside.filter(|_| self.random.random_ratio(1, 3));
            self.befall(fault)?;
            beside.map_or(Ok(()), |beside| self.befall(beside))?;
            if fault.is_passing() {
                self.pause(LASTS_MS);
            }
            self.heal().with_context(|| format!("after {fault:?} and {beside:?}"))?;
            self.pause(REST_MS);
        }
        Ok(())
    }

    fn any(&mut self) -> Fault {
        FAULTS.choose(&mut self.random).expect("there are faults").0
    }

    fn pause(&mut self, range_ms: std::ops::Range<u64>) {
        let ms = self.random.random_range(range_ms);
        std::thread::sleep(Duration::from_millis(ms));
    }

    fn say(&self, fault: Fault, what: &str) {
        println!("  {:>6.2} s  {fault:?}: {what}", self.begun.elapsed().as_secs_f64());
    }

    /// The places of replicas that run, in an order that is drawn; the leader is often the first.
    fn victims(&mut self) -> Vec<usize> {
        let running = |cluster: &Cluster| -> Vec<usize> {
            let runs = |place: &usize| cluster.replicas[*place].runs();
            (0..cluster.replicas.len()).filter(runs).collect()
        };
        let mut places = running(&self.cluster);
        places.shuffle(&mut self.random);
        if self.random.random() {
            let leads =
                |place: &usize| self.cluster.replicas[*place].state().is_some_and(|state| state["role"] == "leader");
            if let Some(leader) = places.iter().position(leads) {
                places.swap(0, leader);
            }
        }
        places
    }

    fn befall(&mut self, fault: Fault) -> Result<()> {
        let place = FAULTS.iter().position(|(one, _)| *one == fault).expect("each fault is in the list");
        self.counts[place] += 1;
        let places = self.victims();
        let Some((&victim, others)) = places.split_first() else { return Ok(()) };
        self.say(fault, &format!("replica {}", victim + 1));
        match fault {
            Fault::CutOff => others.iter().try_for_each(|other| self.cut(victim, *other)),
            Fault::OneSided if self.random.random() => {
                others.iter().try_for_each(|other| self.net.drop_from(victim, *other))
            }
            Fault::OneSided => others.iter().try_for_each(|other| self.net.drop_from(*other, victim)),
            Fault::LinkCut => others.first().map_or(Ok(()), |other| self.cut(victim, *other)),
            Fault::Stopped => self.cluster.replicas[victim].signal(Signal::STOP),
            Fault::Killed => self.cluster.replicas[victim].kill(),
            Fault::AllKilled => places.iter().try_for_each(|place| self.cluster.replicas[*place].kill()),
            Fault::Clock => self.move_clock(victim),
            Fault::Transfer => self.transfer(),
            Fault::Wiped => self.wipe(victim),
            Fault::Members => self.exchange(victim),
        }
    }

    fn cut(&self, one: usize, other: usize) -> Result<()> {
        self.net.drop_from(one, other)?;
        self.net.drop_from(other, one)
    }

    fn move_clock(&mut self, place: usize) -> Result<()> {
        let by = self.random.random_range(JUMP_S);
        let path = Path::new(net::PLACE).join(format!("clock-{place}"));
        // In one step: the replica never reads half of it.
        let new = path.with_extension("new");
        std::fs::write(&new, format!("{by:+}\n"))?;
        Ok(std::fs::rename(new, path)?)
    }

    fn transfer(&mut self) -> Result<()> {
        let leader = self.cluster.leader()?;
        let state = self.cluster.replicas[leader].votes()?;
        let voters = state["members"].as_array().into_iter().flatten();
        let others = voters.filter(|member| member["kind"] == "voter" && member["leads"] != true);
        let ids: Vec<u64> = others.filter_map(|member| member["replica"].as_u64()).collect();
        let Some(to) = ids.choose(&mut self.random) else { return Ok(()) };
        let words = ["transfer", &to.to_string(), "--to", &self.cluster.replicas[leader].peers()];
        // The other may lag, or another may lead meanwhile: then it is refused, and nothing has
        // happened.
        if let Err(why) = self.cluster.replicas[leader].command(&words) {
            self.say(Fault::Transfer, &format!("refused: {why:#}"));
        }
        Ok(())
    }

    fn wipe(&mut self, victim: usize) -> Result<()> {
        self.cluster.replicas[victim].kill()?;
        self.cluster.replace(victim)?;
        Ok(())
    }

    /// A replica joins at the idle place; then one that was there is removed, and its place is
    /// idle.
    fn exchange(&mut self, victim: usize) -> Result<()> {
        let idle = self.cluster.replicas.iter().position(|replica| !replica.runs()).context("an idle place")?;
        self.cluster.replace(idle)?;
        let id = self.cluster.replicas[victim].votes()?["replica"].as_u64().context("an id")?.to_string();
        wait_for("a replica to be removed", || {
            let leader = &self.cluster.replicas[self.cluster.leader().ok()?];
            // A leader that was lost in the midst may have done it.
            let removed = leader.command(&["members", "remove", &id, "--to", &leader.peers()]);
            removed.map_or_else(|why| why.to_string().contains("there is no member").then_some(()), |_| Some(()))
        })?;
        self.cluster.replicas[victim].kill()?;
        self.cluster.replicas[victim].wipe()
    }

    /// Ends all faults, and waits until the cluster serves and all replicas vote.
    pub fn heal(&mut self) -> Result<()> {
        self.net.heal()?;
        for replica in &mut self.cluster.replicas {
            replica.still_runs()?;
            if replica.runs() {
                replica.signal(Signal::CONT)?;
            } else if replica.place().join("data").exists() {
                replica.start()?;
            }
        }
        self.cluster.all_vote()
    }

    /// Copies the replicas' logs to where they are kept if all fails.
    pub fn keep_logs(&self) -> Result<()> {
        let keep = |(number, replica): (usize, &Replica)| {
            let kept = Path::new(net::PLACE).join(format!("log-{}", number + 1));
            std::fs::copy(replica.place().join("log"), kept).map(|_| ())
        };
        Ok(self
            .cluster
            .replicas
            .iter()
            .enumerate()
            .filter(|(_, one)| one.place().join("log").exists())
            .try_for_each(keep)?)
    }
}
