//! `cargo xtask kv-clients`: the clients that people have, unchanged, on a cluster of three
//! replicas: redis-cli, redis-benchmark, redis-py, go-redis and redis-rs, plain and, where they
//! have one, in cluster mode.
//!
//! The programs of tests/kv-clients fetch their libraries from PyPI, the Go proxy and crates.io, in
//! the versions pinned there.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::cluster::{self, Cluster, Plan};
use super::python;
use crate::shared::{paths, process};

/// Seconds that a client may take, its build included.
const PATIENCE_S: u32 = 300;

struct Addresses {
    leader: u16,
    all: Vec<u16>,
}

impl Addresses {
    /// The leader's address, then all.
    fn words(&self) -> Vec<String> {
        [self.leader].iter().chain(&self.all).map(|port| format!("127.0.0.1:{port}")).collect()
    }
}

type Client = (&'static str, fn(&Addresses) -> Result<()>);

const CLIENTS: [Client; 5] =
    [("redis-cli", cli), ("redis-benchmark", benchmark), ("redis-py", redis_py), ("go-redis", go), ("redis-rs", rust)];

/// Runs all clients, or those named, and closes with `N passed, N failed`.
pub fn run(names: &[String]) -> Result<()> {
    let wanted: Vec<&Client> =
        CLIENTS.iter().filter(|(name, _)| names.is_empty() || names.iter().any(|one| one == name)).collect();
    ensure!(!wanted.is_empty(), "the clients are {}", CLIENTS.map(|(name, _)| name).join(", "));
    cluster::build()?;
    let plan = Plan { store: "list".into(), size: "128M".into(), more: String::new() };
    let cluster = Cluster::start("kv-clients", 3, &plan)?;
    let all: Vec<u16> = cluster.replicas.iter().map(|replica| replica.home.ports[0]).collect();
    let mut failed = 0;
    for (name, client) in &wanted {
        // The leader may have changed meanwhile.
        let addresses = Addresses { leader: all[cluster.leader()?], all: all.clone() };
        match client(&addresses) {
            Ok(()) => println!("kv-clients: {name}: ok"),
            Err(error) => {
                failed += 1;
                println!("kv-clients: error: {name}: {error:#}");
            }
        }
    }
    println!("{} passed, {failed} failed", wanted.len() - failed);
    ensure!(failed == 0, "{failed} clients failed");
    Ok(())
}

fn limited(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE_S.to_string()).arg(program);
    command
}

fn sources(language: &str) -> PathBuf {
    paths::top().join("tests/kv-clients").join(language)
}

/// Output of redis-cli for a request.
fn says(port: u16, words: &[&str]) -> Result<String> {
    let mut command = limited("redis-cli");
    command.args(["-h", "127.0.0.1", "-p", &port.to_string()]).args(words);
    Ok(process::output(&mut command).context("redis-cli (package redis-tools)")?.trim_end().to_owned())
}

fn is(port: u16, words: &[&str], wanted: &str) -> Result<()> {
    let found = says(port, words)?;
    ensure!(found == wanted, "{} prints {found:?}, not {wanted:?}", words.join(" "));
    Ok(())
}

fn cli(addresses: &Addresses) -> Result<()> {
    let leader = addresses.leader;
    let follower = *addresses.all.iter().find(|port| **port != leader).context("a follower")?;
    is(leader, &["SET", "cli", "1"], "OK")?;
    is(leader, &["-3", "INCR", "cli"], "2")?;
    is(follower, &["GET", "cli"], "2")?;
    let moved = says(follower, &["SET", "cli", "3"])?;
    let slot = says(leader, &["CLUSTER", "KEYSLOT", "cli"])?;
    ensure!(moved == format!("MOVED {slot} 127.0.0.1:{leader}"), "a follower says {moved}");
    is(follower, &["-c", "SET", "cli", "3"], "OK")?;
    is(follower, &["-c", "GET", "cli"], "3")?;
    is(leader, &["--scan", "--pattern", "cli"], "cli")?;
    let info = says(leader, &["INFO", "replication"])?;
    ensure!(info.contains("role:master"), "INFO says {info}");
    let checked = says(leader, &["CLUSTER", "INFO"])?;
    ensure!(checked.contains("cluster_state:ok"), "CLUSTER INFO says {checked}");
    let docs = says(leader, &["COMMAND", "DOCS", "GET"])?;
    ensure!(docs.contains("summary"), "COMMAND DOCS says {docs}");
    Ok(())
}

fn benchmark(addresses: &Addresses) -> Result<()> {
    let port = addresses.leader.to_string();
    // Its cluster mode wants several masters, which no cluster of one shard has, of whatever
    // server.
    let more: [&[&str]; 2] = [&[], &["-P", "16"]];
    for words in more {
        let mut command = limited("redis-benchmark");
        command.args(["-h", "127.0.0.1", "-p", &port, "-q", "-n", "5000", "-c", "20", "-r", "1000"]);
        command.args(["-t", "ping,set,get,incr,mset"]).args(words);
        let found = process::output(&mut command).context("redis-benchmark (package redis-tools)")?;
        for test in ["SET", "GET", "INCR", "MSET"] {
            let has = |line: &str| line.trim_start().starts_with(test) && line.contains("requests per second");
            ensure!(found.split(['\n', '\r']).any(has), "no figure for {test} in {found}");
        }
        ensure!(!found.contains("rror"), "it complains: {found}");
    }
    Ok(())
}

/// Runs a program that says at its end that all is well.
fn ends_well(command: &mut Command, mark: &str) -> Result<()> {
    let found = process::output(command)?;
    ensure!(found.contains(mark), "it says: {found}");
    Ok(())
}

fn redis_py(addresses: &Addresses) -> Result<()> {
    let python = python::interpreter(&sources("python"), "kv-clients")?;
    let mut command = limited(&python.display().to_string());
    ends_well(command.arg(sources("python").join("client.py")).args(addresses.words()), "redis-py: ok")
}

fn go(addresses: &Addresses) -> Result<()> {
    let mut command = limited("go");
    command.current_dir(sources("go")).args(["run", "."]).args(addresses.words());
    ends_well(&mut command, "go-redis: ok").context("go (package golang-go, or from go.dev)")
}

fn rust(addresses: &Addresses) -> Result<()> {
    let target = paths::build().join("kv-clients/target");
    let mut command = limited("cargo");
    command.current_dir(sources("rust")).args(["run", "--quiet", "--locked", "--target-dir"]).arg(target).arg("--");
    ends_well(command.args(addresses.words()), "redis-rs: ok")
}
