//! INFO: what the server is, and how it stands.

use std::fmt::Display;

use bytes::Bytes;

use super::connection::Connection;
use super::context::Context;
use super::greeting::REDIS_VERSION;
use super::shared::Shared;
use crate::machine::draft::Draft;
use crate::node::{Node, Role};
use crate::resp::Reply;
use crate::store::{ReadLevel, View};

const SECTIONS: [&str; 11] = [
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cpu",
    "cluster",
    "raft",
    "commandstats",
    "keyspace",
];

/// INFO [section ...].
pub(super) fn answer(context: &Context<'_>, request: &[Bytes]) -> Reply {
    let wanted: Vec<String> = request[1..].iter().map(|name| String::from_utf8_lossy(name).to_lowercase()).collect();
    let is_all = wanted.iter().any(|one| matches!(&one[..], "all" | "everything"));
    let is_default = wanted.is_empty() || wanted.iter().any(|one| one == "default");
    let is_wanted =
        |section: &&str| is_all || is_default && *section != "commandstats" || wanted.iter().any(|one| one == section);
    let mut text = String::new();
    for section in SECTIONS.into_iter().filter(is_wanted) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let title = section[..1].to_uppercase() + &section[1..];
        text.push_str(&format!("# {title}\r\n"));
        for (key, value) in lines(context, section) {
            text.push_str(&format!("{key}:{value}\r\n"));
        }
        if section == "commandstats" {
            for (key, value) in context.shared.performance.shown() {
                text.push_str(&format!("{key}:{value}\r\n"));
            }
        }
    }
    Reply::text(text)
}

fn line(key: &'static str, value: &dyn Display) -> (&'static str, String) {
    (key, value.to_string())
}

fn lines(context: &Context<'_>, section: &str) -> Vec<(&'static str, String)> {
    let (settings, status) = (&context.shared.settings, context.node.status());
    match section {
        "server" => server(context),
        "clients" => vec![
            line("connected_clients", &(context.table.len())),
            line("maxclients", &settings.connections_max),
            line("blocked_clients", &context.shared.queues.waiting()),
        ],
        "memory" => memory(context),
        "cpu" => {
            let process = (settings.process)();
            vec![
                line("used_cpu_sys", &format!("{:.6}", process.cpu_system_s)),
                line("used_cpu_user", &format!("{:.6}", process.cpu_user_s)),
            ]
        }
        "commandstats" => Vec::new(),
        "persistence" => vec![line("loading", &u8::from(status.role == Role::Receiving)), line("aof_enabled", &1)],
        "stats" => stats(context.shared),
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
        _ => keyspace(context.node),
    }
}

fn server(context: &Context<'_>) -> Vec<(&'static str, String)> {
    let settings = &context.shared.settings;
    let uptime = context.now_us.saturating_sub(settings.start_us) / 1_000_000;
    vec![
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
    ]
}

fn memory(context: &Context<'_>) -> Vec<(&'static str, String)> {
    let (process, room) = ((context.shared.settings.process)(), context.room());
    let of_clients: usize = context.table.iter().map(Connection::bytes).sum();
    vec![
        line("used_memory", &process.resident_bytes),
        line("used_memory_rss", &process.resident_bytes),
        line("used_memory_peak", &process.resident_most_bytes),
        line("maxmemory", &0),
        line("maxmemory_policy", &"noeviction"),
        line("mem_clients_normal", &of_clients),
        line("store_size", &room.total),
        line("store_free", &room.free),
        line("store_kept", &room.kept),
        line("store_full", &u8::from(room.is_full())),
    ]
}

fn keyspace(node: &Node) -> Vec<(&'static str, String)> {
    let store = node.store();
    if store.is_partial() {
        return Vec::new();
    }
    let view = View::new(store, ReadLevel::Applied);
    let count = Draft::new(&view, store.clock_ms(ReadLevel::Applied), store.applied()).count().unwrap_or_default();
    if count == 0 { Vec::new() } else { vec![line("db0", &format!("keys={count},expires=0,avg_ttl=0"))] }
}

fn stats(shared: &Shared) -> Vec<(&'static str, String)> {
    let statistics = &shared.statistics;
    vec![
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
        line("full_requests", &statistics.full),
        line("longest_step_places", &shared.step.longest()),
        line("unknown_outcomes", &statistics.unknown),
    ]
}
