//! Clusters of our own stores, and a case in each of them.

use std::time::Duration;

use anyhow::Result;

use super::drive::{self, Case, add};
use crate::bench::report::Report;
use crate::drive::kv::cluster::{self, Cluster};

/// The stores.
pub const STORES: [&str; 3] = ["list", "btree", "wal"];
/// Keys that each cluster is filled with.
pub const KEYS: u64 = 50_000;

/// How replicas of a store are set up, with more lines of the configuration.
pub fn of_store(store: &str, more: &str) -> cluster::Plan {
    cluster::Plan { store: store.into(), size: "512M".into(), more: more.into() }
}

/// A cluster of each store, filled, with an option more.
pub fn with_option(name: &str, option: &str) -> Result<Vec<(&'static str, Cluster)>> {
    let start = |store: &'static str| {
        let cluster = Cluster::start(&format!("bench-kv-{name}-{store}"), 3, &of_store(store, option))?;
        drive::fill(cluster.leader_address()?, 0, KEYS)?;
        Ok((store, cluster))
    };
    STORES.into_iter().map(start).collect()
}

/// Runs a case once in each of the clusters.
pub fn each(case: &Case, clusters: &[(&str, Cluster)], length: Duration, report: &mut Report) -> Result<()> {
    for (store, cluster) in clusters {
        add(report, store, case.name, &drive::run(cluster.leader_address()?, case, KEYS, length, drive::Dialect::Own)?);
    }
    Ok(())
}
