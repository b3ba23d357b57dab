//! Replicas that are killed: how long one takes to start, and how long clients wait for another
//! leader.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::super::report::Report;
use crate::drive::kv::cluster::{Cluster, wait_for};
use crate::drive::kv::resp::{Client, Reply};

/// How long a client waits before it asks again.
const PAUSE: Duration = Duration::from_micros(200);

/// Kills a follower and starts it again, `count` times. What is measured begins with the start of
/// the process, and ends with the reply to a PING, which is not answered before the store is open.
pub fn starts(store: &str, cluster: &mut Cluster, count: u64, report: &mut Report) -> Result<()> {
    let place = (cluster.leader()? + 1) % cluster.replicas.len();
    let replica = &mut cluster.replicas[place];
    for _ in 0..count {
        replica.kill()?;
        let begun = Instant::now();
        replica.start()?;
        wait_briefly("a PING to be answered", || replica.client().ok()?.call(&["PING"]).ok())?;
        report.add(store, "start", "start_ms", "ms", begun.elapsed().as_secs_f64() * 1000.0);
        replica.votes()?;
    }
    Ok(())
}

/// Kills the leader, `count` times. What is measured begins with the kill, and ends with the first
/// write that another acknowledges. Each time the last write before the kill must be there.
pub fn failovers(store: &str, cluster: &mut Cluster, count: u64, report: &mut Report) -> Result<()> {
    for number in 0..count {
        let leader = cluster.leader()?;
        let (key, value) = (format!("failover:{number}"), format!("{number}"));
        let written = cluster.replicas[leader].client()?.call(&["SET", &key, &value])?;
        ensure!(written == Reply::Text("OK".into()), "SET {key}: {written:?}");
        let begun = Instant::now();
        cluster.replicas[leader].kill()?;
        let ports: Vec<u16> = cluster
            .replicas
            .iter()
            .enumerate()
            .filter(|(place, _)| *place != leader)
            .map(|(_, one)| one.home.ports[0])
            .collect();
        let mut next = wait_briefly("another leader", || ports.iter().find_map(|port| writes(*port)))?;
        report.add(store, "failover", "failover_ms", "ms", begun.elapsed().as_secs_f64() * 1000.0);
        let found = next.call(&["GET", &key])?;
        ensure!(found == Reply::Bytes(value.into_bytes()), "{key} was acknowledged, and is {found:?}");
        cluster.replicas[leader].start()?;
        cluster.replicas[leader].votes()?;
    }
    Ok(())
}

/// A connection to the replica at the port, if it takes a write.
fn writes(port: u16) -> Option<Client> {
    let mut client = Client::connect(port).ok()?;
    (client.call(&["SET", "failover", "written"]).ok()? == Reply::Text("OK".into())).then_some(client)
}

/// As `wait_for`, but asks at short intervals.
fn wait_briefly<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    const LOOKS: usize = 20;
    wait_for(what, || {
        (0..LOOKS).find_map(|_| {
            let found = look();
            if found.is_none() {
                std::thread::sleep(PAUSE);
            }
            found
        })
    })
}
