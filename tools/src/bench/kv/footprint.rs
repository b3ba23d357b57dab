//! Costs of writes besides time: bytes that go to the media, memory, and room on the medium.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};

use super::super::report::Report;
use super::drive::{self, Case, Dialect};
use crate::drive::kv::cluster::{Cluster, Plan, Replica};
use crate::shared::process;

/// A number of a replica's page for Prometheus.
pub fn metric<T: FromStr>(replica: &Replica, name: &str) -> Result<T> {
    let mut stream = TcpStream::connect(("127.0.0.1", replica.home.ports[2]))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    found.with_context(|| format!("/metrics has no {name}"))
}

/// Bytes that all replicas have written to their media: as they count them, or for `wal_disk` as
/// the disk does.
fn written(store: &str, cluster: &Cluster) -> Result<u64> {
    const WRITTEN: &str = "perdura_kv_medium_written_bytes_total";
    match store {
        "wal_disk" => process::disk_bytes(cluster.place()),
        _ => cluster.replicas.iter().map(|replica| metric::<u64>(replica, WRITTEN)).sum(),
    }
}

/// Bytes written to the media of all replicas for a SET of 20 clients, and of one. Those of the
/// state that wal writes out are among them.
pub fn bytes(
    store: &str,
    cluster: &Cluster,
    cases: &[Case],
    keys: u64,
    length: Duration,
    report: &mut Report,
) -> Result<()> {
    let server = cluster.leader_address()?;
    for case in cases.iter().filter(|case| case.pipeline == 1 && case.kind == drive::Kind::Set) {
        let before = written(store, cluster)?;
        let found = drive::run(server, case, keys, length, Dialect::Own)?;
        let more = written(store, cluster)? - before;
        let replicas = cluster.replicas.len() as f64;
        report.add(store, case.name, "bytes_per_set", "B", more as f64 / found.operations as f64 / replicas);
    }
    Ok(())
}

/// Memory and room on the medium for a key, as they grow with `more` keys, of a replica alone with
/// a small ring of last entries.
pub fn memory(store: &str, keys: u64, more: u64, report: &mut Report) -> Result<()> {
    const USED: &str = "perdura_kv_medium_used_bytes";
    let plan = Plan { store: store.into(), size: "512M".into(), more: "store.ring_size = '1M'".into() };
    let cluster = Cluster::start(&format!("bench-kv-memory-{store}"), 1, &plan)?;
    let leader = &cluster.replicas[0];
    let measured = || -> Result<(f64, f64)> {
        Ok((process::status_bytes(leader.pid(), "RssAnon")? as f64, metric(leader, USED)?))
    };
    drive::fill(leader.clients(), 10_000_000, keys)?;
    let before = measured()?;
    drive::fill(leader.clients(), 20_000_000, more)?;
    let after = measured()?;
    report.add(store, "memory", "dram_per_key", "B", (after.0 - before.0) / more as f64);
    report.add(store, "memory", "medium_per_key", "B", (after.1 - before.1) / more as f64);
    Ok(())
}
