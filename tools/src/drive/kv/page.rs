//! `cargo xtask kv-page`: the page of a replica in a real browser, while clients write and after
//! the leader was killed.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::cluster::{self, Cluster, Plan};
use super::load::{Load, write};
use super::python;
use crate::shared::{paths, process};

/// Seconds that one look of the browser may take.
const PATIENCE_S: u64 = 90;
/// Longer than the default: a browser that starts may keep a replica from its processor for half a
/// second.
const ELECTION_MS: u64 = 2000;

/// Opens the page of each replica, kills the leader, and looks at the next one's.
pub fn run() -> Result<()> {
    ensure!(Path::new("/usr/bin/chromium").exists(), "no browser (package chromium): run `make setup`");
    cluster::build()?;
    let (sources, pictures) = (paths::top().join("tests/kv-page"), paths::build().join("kv-page/pictures"));
    let python = python::interpreter(&sources, "kv-page")?;
    std::fs::create_dir_all(&pictures)?;
    let look = |words: &[String]| {
        let mut command = Command::new("timeout");
        command.arg(PATIENCE_S.to_string()).arg(&python).arg(sources.join("page.py")).arg(&pictures);
        process::run(command.args(words))
    };
    // The leader should stay the one that was found while the browser starts up.
    let more = format!("raft.election_ms = {ELECTION_MS}");
    let plan = Plan { store: "list".into(), size: "128M".into(), more };
    let mut cluster = Cluster::start("kv-page", 3, &plan)?;
    // The browser needs the processors too.
    let load = Load::with_pauses(Duration::from_millis(2));
    let begun = Instant::now();
    let ports: Vec<u16> = cluster.replicas.iter().map(|replica| replica.home.ports[0]).collect();
    std::thread::scope(|scope| {
        let writers = ["a", "b"].map(|key| scope.spawn(|| write(&load, &ports, key, begun)));
        let looked = looks(&mut cluster, &look);
        load.ends.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| drop(writer.join()));
        looked
    })?;
    println!("kv-page: pictures are in {}", pictures.display());
    Ok(())
}

fn url(cluster: &Cluster, place: usize) -> String {
    format!("http://127.0.0.1:{}/", cluster.replicas[place].home.ports[2])
}

fn looks(cluster: &mut Cluster, look: &dyn Fn(&[String]) -> Result<()>) -> Result<()> {
    let mut words = vec!["healthy".to_owned()];
    words.extend((0..cluster.replicas.len()).map(|place| url(cluster, place)));
    look(&words)?;
    let old = cluster.leader()?;
    let killed = cluster.replicas[old].votes()?["replica"].as_u64().context("an id")?;
    cluster.replicas[old].kill()?;
    let new = cluster.leader()?;
    look(&["bereft".to_owned(), url(cluster, new), killed.to_string()])
}
