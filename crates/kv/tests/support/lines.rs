//! Lines to a connection of a cluster, and what comes back.

use perdura_kv::node::Role;

use super::cluster::{Cluster, Replica};

/// Sends lines to a connection and returns what comes back, with spaces for the ends of lines.
pub fn says(cluster: &mut Cluster, id: u64, token: u32, lines: &str) -> String {
    cluster.put(id, token, lines.replace(" / ", "\r\n").as_bytes());
    cluster.put(id, token, b"\r\n");
    cluster.settle();
    String::from_utf8_lossy(&cluster.take(id, token)).replace("\r\n", " ").trim_end().to_owned()
}

#[allow(dead_code, reason = "only some tests ask")]
/// Leader among the replicas that are not cut off.
pub fn leader(cluster: &Cluster) -> u64 {
    let leads = |replica: &&Replica| replica.node.status().role == Role::Leader && !replica.is_cut_off;
    cluster.replicas.values().find(leads).map_or(0, |replica| replica.node.id())
}

#[track_caller]
pub fn are(cluster: &mut Cluster, id: u64, token: u32, cases: &[(&str, &str)]) {
    for (lines, wanted) in cases {
        assert_eq!(says(cluster, id, token, lines), *wanted, "{lines}");
    }
}
