//! `cargo xtask demo-kv`: a cluster of three replicas under load. Its leader is killed, and a
//! replica loses all its data and is replaced by a new one.
//!
//! The demo checks what it shows: it fails if a write that was acknowledged is lost.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::cluster::{self, Cluster, Plan, wait_for};
use super::load::{Load, write};
use super::resp::Reply;
use crate::shared::process;

const WRITERS: u64 = 8;
const SHOWN: Duration = Duration::from_secs(3);
/// Keys that are there before a replica is wiped.
const KEYS: u64 = 20_000;
const VALUE_BYTES: usize = 1000;

fn heading(text: &str) {
    println!("\n== {text}");
}

fn show(state: &Value) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for member in state["members"].as_array().into_iter().flatten() {
        let leads = if member["leads"] == true { "leader" } else { member["kind"].as_str().unwrap_or("") };
        println!("  replica {:>16}  {leads:<8} clients {}", text(&member["replica"]), text(&member["client"]));
    }
}

/// Runs the demo from top to bottom.
pub fn run() -> Result<()> {
    cluster::build()?;
    let begun = Instant::now();
    println!("perdura-kv: a replicated key-value server whose log is an ordered map in persistent memory");
    println!("  machine: {}", process::machine());
    heading("Three replicas on this machine: one is founded, two join it");
    let plan = Plan { store: "list".into(), size: "256M".into(), more: String::new() };
    let mut cluster = Cluster::start("demo-kv", 3, &plan)?;
    println!("  directory: {}", cluster.place().display());
    show(&cluster.replicas[0].votes()?);
    let browser = cluster.replicas[0].home.ports[2];
    println!(
        "  while the demo runs: redis-cli -p {}, or http://127.0.0.1:{browser}/",
        cluster.replicas[0].home.ports[0]
    );
    under_load(&mut cluster)?;
    wiped(&mut cluster)?;
    println!("\ndemo-kv: everything checked, {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn under_load(cluster: &mut Cluster) -> Result<()> {
    heading(&format!("{WRITERS} clients, each writes as fast as it is answered"));
    let (load, begun) = (Load::default(), Instant::now());
    let ports: Vec<u16> = cluster.replicas.iter().map(|replica| replica.home.ports[0]).collect();
    let written = std::thread::scope(|scope| -> Result<Vec<(u64, u64)>> {
        let (load, ports) = (&load, &ports);
        let write = |writer: u64| scope.spawn(move || write(load, ports, &format!("writer:{writer}"), begun));
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        let shown = kill_leader(cluster, load, begun);
        load.ends.store(true, Ordering::Relaxed);
        let written = writers.into_iter().map(|writer| writer.join().expect("no writer panics")).collect();
        shown.map(|()| written)
    })?;
    let mut took = load.took_us.into_inner().expect("no writer panics");
    took.sort_unstable();
    let part = |percent: usize| took.get(took.len() * percent / 100).copied().unwrap_or(0);
    println!("  all in all {} writes, median {} us, 99 of 100 within {} us", took.len(), part(50), part(99));
    let mut checked = 0;
    for replica in &cluster.replicas {
        let mut client = replica.client()?;
        for (writer, (acknowledged, sent)) in written.iter().enumerate() {
            let found = match client.call(&["GET", &format!("writer:{writer}")])? {
                Reply::Bytes(bytes) => String::from_utf8(bytes)?.parse::<u64>()?,
                Reply::Error(text) if text.starts_with("MOVED") => break,
                other => anyhow::bail!("writer:{writer}: {other:?}"),
            };
            ensure!(
                (*acknowledged..=*sent).contains(&found),
                "writer:{writer} is {found}, {acknowledged} was acknowledged"
            );
            checked += 1;
        }
    }
    ensure!(checked >= WRITERS, "no replica was read");
    println!("  every write that was acknowledged is there: the last of each client was read again");
    Ok(())
}

fn kill_leader(cluster: &mut Cluster, load: &Load, begun: Instant) -> Result<()> {
    let rate = |before: u64| (load.done.load(Ordering::Relaxed) - before) as f64 / SHOWN.as_secs_f64();
    let before = load.afresh(begun);
    std::thread::sleep(SHOWN);
    println!("  {:.0} writes/s, longest pause {} ms", rate(before), load.pause_ms());
    let leader = cluster.leader()?;
    heading(&format!("kill -9 of the leader, process {}", cluster.replicas[leader].pid()));
    let before = load.afresh(begun);
    cluster.replicas[leader].kill()?;
    std::thread::sleep(SHOWN);
    let pause_ms = load.pause_ms();
    println!(
        "  {pause_ms} ms without a write, until the others had a new leader; then on: {:.0} writes/s",
        rate(before)
    );
    heading("The killed replica is started again");
    let started = Instant::now();
    cluster.replicas[leader].start()?;
    cluster.replicas[leader].votes()?;
    println!("  it follows after {} ms", started.elapsed().as_millis());
    std::thread::sleep(Duration::from_millis(500));
    Ok(())
}

fn wiped(cluster: &mut Cluster) -> Result<()> {
    heading(&format!("{KEYS} keys of {VALUE_BYTES} bytes; then a replica loses all its data"));
    let leader = cluster.leader()?;
    let mut client = cluster.replicas[leader].client()?;
    let value = "v".repeat(VALUE_BYTES);
    for batch in 0..KEYS / 100 {
        let mut requests = Vec::new();
        for number in 0..100 {
            let key = format!("key:{}", batch * 100 + number);
            super::resp::put(&mut requests, &[b"SET", key.as_bytes(), value.as_bytes()]);
        }
        client.send(&requests)?;
        for _ in 0..100 {
            let reply = client.reply()?;
            ensure!(reply == Reply::Text("OK".into()), "{reply:?}");
        }
    }
    let place = (leader + 1) % 3;
    let old = cluster.replicas[place].votes()?["replica"].as_u64().context("an id")?;
    cluster.replicas[place].kill()?;
    cluster.replicas[place].wipe()?;
    println!("  replica {old} is gone; it has forgotten what it promised, so it comes back as another");
    let begun = Instant::now();
    let state = cluster.replace(place)?;
    let new = state["replica"].as_u64().context("an id")?;
    println!("  replica {new} has joined in its place, and votes after {} ms", begun.elapsed().as_millis());
    let applied = state["applied"].as_u64().context("an index")?;
    let last = cluster.replicas[leader].votes()?["applied"].as_u64().context("an index")?;
    wait_for("the replica to have all", || {
        cluster.replicas[place].state().filter(|state| state["applied"].as_u64() >= Some(last))
    })?;
    println!("  it had index {applied} of {last} then, and has all now");
    show(&cluster.replicas[leader].votes()?);
    ensure!(new != old, "the new replica has the old one's id");
    Ok(())
}
