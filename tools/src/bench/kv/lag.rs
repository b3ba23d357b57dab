//! A replica that lags: how long it takes to have what the others have written meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::process::Signal;

use super::super::report::Report;
use crate::drive::kv::cluster::{Cluster, wait_for};
use crate::drive::kv::resp::{Client, Reply, put};

const WRITES: u64 = 15_000;
/// The values' sizes.
const SIZES: [(usize, &str); 2] = [(1024, "1KB"), (4096, "4KB")];
const PAUSE: Duration = Duration::from_micros(500);

/// Writes with large values, in batches.
fn write(port: u16, bytes: usize, number: u64) -> Result<()> {
    const BATCH: u64 = 100;
    let (mut client, value) = (Client::connect(port)?, vec![b'a' + number as u8; bytes]);
    for batch in 0..WRITES / BATCH {
        let mut requests = Vec::new();
        for place in 0..BATCH {
            put(&mut requests, &[b"SET", format!("lag:{}", batch * BATCH + place).as_bytes(), &value]);
        }
        client.send(&requests)?;
        for _ in 0..BATCH {
            let reply = client.reply()?;
            ensure!(reply == Reply::Text("OK".into()), "{reply:?}");
        }
    }
    Ok(())
}

/// A number in the section raft of INFO; `None` while the replica loads its users.
fn index(client: &mut Client, name: &str) -> Result<Option<u64>> {
    let text = match client.call(&["INFO", "raft"])? {
        Reply::Bytes(text) => String::from_utf8(text)?,
        Reply::Error(why) if why.starts_with("LOADING") => return Ok(None),
        reply => anyhow::bail!("INFO raft: {reply:?}"),
    };
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok());
    found.map(Some).ok_or_else(|| anyhow::anyhow!("INFO raft has no {name}"))
}

/// Stops a follower, writes, and lets it go on (`catchup_ms`: until it has applied all), or kills
/// it and starts it again (`restart_catchup_ms`: from the start of its process on): `ways` says
/// whether it is killed.
pub fn catch_up(store: &str, cluster: &mut Cluster, rounds: u64, ways: &[bool], report: &mut Report) -> Result<()> {
    for (bytes, name) in SIZES {
        for number in 0..rounds {
            let leader = cluster.leader()?;
            let (place, leader) = ((leader + 1) % cluster.replicas.len(), cluster.replicas[leader].home.ports[0]);
            for &is_killed in ways {
                let follower = &mut cluster.replicas[place];
                let mut client = follower.client()?;
                if is_killed {
                    follower.kill()?
                } else {
                    follower.signal(Signal::STOP)?
                }
                write(leader, bytes, number * 2 + u64::from(is_killed))?;
                let last = index(&mut Client::connect(leader)?, "raft_applied")?;
                let begun = Instant::now();
                if is_killed {
                    follower.start()?;
                    client = wait_for("a replica to serve", || follower.client().ok())?;
                } else {
                    follower.signal(Signal::CONT)?;
                }
                while index(&mut client, "raft_applied")? < last {
                    ensure!(begun.elapsed() < Duration::from_secs(30), "{store}: a replica does not catch up");
                    std::thread::sleep(PAUSE);
                }
                let metric = if is_killed { "restart_catchup_ms" } else { "catchup_ms" };
                report.add(store, &format!("lag/{name}"), metric, "ms", begun.elapsed().as_secs_f64() * 1000.0);
                follower.votes()?;
            }
        }
    }
    Ok(())
}
