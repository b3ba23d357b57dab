//! INFO: what the server is, and how it stands.

use std::fmt::Display;

use bytes::Bytes;

use super::context::Context;
use super::greeting::REDIS_VERSION;
use crate::machine::draft::Draft;
use crate::node::Role;
use crate::resp::Reply;
use crate::store::{Moment, View};

const SECTIONS: [&str; 8] = ["server", "clients", "persistence", "stats", "replication", "cluster", "raft", "keyspace"];

/// INFO [section ...].
pub fn answer(context: &Context<'_>, request: &[Bytes]) -> Reply {
    let wanted: Vec<String> = request[1..].iter().map(|name| String::from_utf8_lossy(name).to_lowercase()).collect();
    let is_all = wanted.is_empty() || wanted.iter().any(|one| matches!(&one[..], "all" | "default" | "everything"));
    let mut text = String::new();
    for section in SECTIONS.into_iter().filter(|section| is_all || wanted.iter().any(|one| one == section)) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let title = section[..1].to_uppercase() + &section[1..];
        text.push_str(&format!("# {title}\r\n"));
        for (key, value) in lines(context, section) {
            text.push_str(&format!("{key}:{value}\r\n"));
        }
    }
    Reply::text(text)
}

fn lines(context: &Context<'_>, section: &str) -> Vec<(&'static str, String)> {
    let (settings, status) = (&context.shared.settings, context.node.status());
    let statistics = &context.shared.statistics;
    let line = |key: &'static str, value: &dyn Display| (key, value.to_string());
    let uptime = context.now_us.saturating_sub(settings.start_us) / 1_000_000;
    match section {
        "server" => vec![
            line("redis_version", &REDIS_VERSION),
            line("perdura_version", &env!("CARGO_PKG_VERSION")),
            line("redis_mode", if settings.is_cluster { &"cluster" } else { &"standalone" }),
            line("os", &std::env::consts::OS),
            line("arch_bits", &usize::BITS),
            line("process_id", &settings.process_id),
            line("run_id", &format!("{:040x}", context.node.id())),
            line("tcp_port", &settings.port),
            line("server_time_usec", &context.now_us),
            line("uptime_in_seconds", &uptime),
            line("uptime_in_days", &(uptime / 86_400)),
        ],
        "clients" => vec![
            line("connected_clients", &(context.table.len())),
            line("maxclients", &settings.connections_max),
            line("blocked_clients", &context.shared.waiting.len()),
        ],
        "persistence" => vec![line("loading", &u8::from(status.role == Role::Receiving)), line("aof_enabled", &1)],
        "stats" => vec![
            line("total_connections_received", &statistics.connections),
            line("rejected_connections", &statistics.connections_refused),
            line("evicted_clients", &statistics.evicted),
            line("total_commands_processed", &statistics.commands),
            line("total_error_replies", &statistics.errors),
            line("keyspace_hits", &statistics.hits),
            line("keyspace_misses", &statistics.misses),
            line("total_net_input_bytes", &statistics.input_bytes),
            line("total_net_output_bytes", &statistics.output_bytes),
            line("expired_keys", &statistics.expired),
            line("moved_requests", &statistics.moved),
            line("forwarded_requests", &statistics.forwarded),
            line("busy_requests", &statistics.busy),
            line("unknown_outcomes", &statistics.unknown),
        ],
        "replication" => {
            let role: &dyn Display = if status.role == Role::Leader { &"master" } else { &"slave" };
            let others = context.node.holders(0, context.node.id()).map_or(0, |holders| holders.members);
            let link: &dyn Display = if status.leader == 0 { &"down" } else { &"up" };
            vec![
                line("role", role),
                line("connected_slaves", &others),
                line("master_link_status", link),
                line("master_repl_offset", &status.committed),
                line("slave_repl_offset", &status.applied),
            ]
        }
        "cluster" => vec![line("cluster_enabled", &u8::from(settings.is_cluster))],
        "raft" => vec![
            line("raft_role", &format!("{:?}", status.role).to_lowercase()),
            line("raft_term", &status.term),
            line("raft_leader", &format!("{:x}", status.leader)),
            line("raft_committed", &status.committed),
            line("raft_applied", &status.applied),
            line("raft_last", &status.last),
        ],
        _ => {
            let store = context.node.store();
            if store.is_partial() {
                return Vec::new();
            }
            let view = View::new(store, Moment::Applied);
            let count = Draft::new(&view, store.clock_ms(Moment::Applied), store.applied()).count().unwrap_or_default();
            if count == 0 { Vec::new() } else { vec![line("db0", &format!("keys={count},expires=0,avg_ttl=0"))] }
        }
    }
}
