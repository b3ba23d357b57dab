//! CLUSTER, for clients in cluster mode: one shard with all slots, whose master is the leader.
//!
//! A replica whose address for clients is not known is left out.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::context::Context;
use super::hash_slot::{self, SLOTS};
use super::settings::Name;
use crate::command::help;
use crate::node::Status;
use crate::resp::Reply;

/// CLUSTER and what follows.
pub(super) fn answer(context: &Context<'_>, inner: &str, request: &[Bytes]) -> Reply {
    let shared = &context.shared;
    if !shared.settings.is_cluster && inner != "keyslot" {
        return Reply::error("This instance has cluster support disabled");
    }
    let (names, status, own) = (&shared.names, context.node.status(), context.node.id());
    match inner {
        "keyslot" => Reply::Integer(i64::from(hash_slot::of(&request[2]))),
        "myid" => Reply::text(id(own)),
        "slots" => slots(names, &status),
        "shards" => shards(names, &status),
        "nodes" => Reply::text(nodes(names, &status, own)),
        "info" => Reply::text(info(names, &status)),
        _ => help("cluster"),
    }
}

/// A replica's id as clients know ids: 40 hexadecimal digits.
fn id(replica: u64) -> String {
    format!("{replica:040x}")
}

fn last_slot() -> Reply {
    Reply::Integer(i64::from(SLOTS) - 1)
}

/// The replicas with names, the leader first.
fn ordered<'a>(names: &'a BTreeMap<u64, Name>, status: &Status) -> Vec<(u64, &'a Name)> {
    let mut all: Vec<(u64, &Name)> = names.iter().map(|(replica, name)| (*replica, name)).collect();
    all.sort_by_key(|(replica, _)| *replica != status.leader);
    all
}

fn slots(names: &BTreeMap<u64, Name>, status: &Status) -> Reply {
    if !names.contains_key(&status.leader) {
        return Reply::Array(Vec::new());
    }
    let one = |(replica, name): (u64, &Name)| {
        Reply::Array(vec![
            Reply::text(&name.host[..]),
            Reply::Integer(i64::from(name.port)),
            Reply::text(id(replica)),
            Reply::Array(Vec::new()),
        ])
    };
    let replicas = ordered(names, status).into_iter().map(one);
    Reply::Array(vec![Reply::Array([Reply::Integer(0), last_slot()].into_iter().chain(replicas).collect())])
}

fn shards(names: &BTreeMap<u64, Name>, status: &Status) -> Reply {
    let text = |text: &str| Reply::text(text);
    let one = |(replica, name): (u64, &Name)| {
        let role = if replica == status.leader { "master" } else { "replica" };
        Reply::Map(vec![
            (text("id"), text(&id(replica))),
            (text("port"), Reply::Integer(i64::from(name.port))),
            (text("ip"), text(&name.host)),
            (text("endpoint"), text(&name.host)),
            (text("role"), text(role)),
            (text("replication-offset"), Reply::Integer(status.committed as i64)),
            (text("health"), text("online")),
        ])
    };
    let slots = if names.contains_key(&status.leader) { vec![Reply::Integer(0), last_slot()] } else { Vec::new() };
    Reply::Array(vec![Reply::Map(vec![
        (text("slots"), Reply::Array(slots)),
        (text("nodes"), Reply::Array(ordered(names, status).into_iter().map(one).collect())),
    ])])
}

fn nodes(names: &BTreeMap<u64, Name>, status: &Status, own: u64) -> String {
    let line = |(replica, name): (u64, &Name)| {
        let is_leader = replica == status.leader;
        let myself = if replica == own { "myself," } else { "" };
        let role = if is_leader { "master" } else { "slave" };
        let master = if is_leader || status.leader == 0 { "-".to_owned() } else { id(status.leader) };
        let slots = if is_leader { " 0-16383" } else { "" };
        let Name { host, port } = name;
        format!("{} {host}:{port}@{port} {myself}{role} {master} 0 0 {} connected{slots}\n", id(replica), status.term,)
    };
    ordered(names, status).into_iter().map(line).collect()
}

fn info(names: &BTreeMap<u64, Name>, status: &Status) -> String {
    let is_up = names.contains_key(&status.leader);
    let slots = if is_up { SLOTS } else { 0 };
    let lines = [
        ("cluster_enabled", "1".to_owned()),
        ("cluster_state", if is_up { "ok" } else { "fail" }.to_owned()),
        ("cluster_slots_assigned", SLOTS.to_string()),
        ("cluster_slots_ok", slots.to_string()),
        ("cluster_slots_pfail", "0".to_owned()),
        ("cluster_slots_fail", (SLOTS - slots).to_string()),
        ("cluster_known_nodes", names.len().to_string()),
        ("cluster_size", "1".to_owned()),
        ("cluster_current_epoch", status.term.to_string()),
        ("cluster_my_epoch", status.term.to_string()),
    ];
    lines.iter().map(|(key, value)| format!("{key}:{value}\r\n")).collect()
}
