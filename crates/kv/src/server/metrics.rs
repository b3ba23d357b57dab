//! Numbers for Prometheus, in its text format.

use std::fmt::{Display, Write};

use super::admin::State;
use super::histogram::{BUCKETS, Histogram, bound_us};
use super::runtime::Runtime;
use super::{clock, process};
use crate::client::{Clients, Process, Statistics};
use crate::node::Node;
use crate::store::{Footprint, ReadLevel, Room};

/// Counters of the event loop.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    /// Messages that were sent.
    pub messages_sent: u64,
    /// Messages that came.
    pub messages_received: u64,
    /// Messages that were dropped because too much waited.
    pub messages_dropped: u64,
    /// Messages that no sound replica sends.
    pub messages_refused: u64,
    /// Times that entries were made durable.
    pub persists: u64,
    /// Steps of the event loop.
    pub steps: u64,
    /// Times that the server has stopped spinning for a while, since others wanted the processor.
    pub spin_pauses: u64,
    /// The longest time between two polls, in microseconds, without what other threads took.
    pub longest_step_us: u64,
}

/// Gauges of a replica.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gauges {
    /// Room of the store.
    pub room: Room,
    /// Use of the store's medium.
    pub footprint: Footprint,
    /// Writes for which the store's medium had no room.
    pub shortages: u64,
    /// Figures of the process, as the system has them.
    pub process: Process,
    /// When it was started, and now, in milliseconds since 1970 by the machine's clock.
    pub start_ms: u64,
    /// Now.
    pub wall_ms: u64,
    /// The clock of the newest entry.
    pub log_clock_ms: u64,
    /// Elections that the replica has begun.
    pub elections: u64,
    /// Snapshots that are given to others, and received.
    pub snapshot_senders: u64,
    /// Whether one is received.
    pub is_receiving: bool,
    /// Bytes of requests and replies.
    pub client_bytes: u64,
    /// Places of the longest step.
    pub longest_step: u64,
}

impl Gauges {
    /// The gauges now.
    pub(super) fn of(runtime: &Runtime, node: &Node, clients: &Clients) -> Self {
        let (store, (snapshot_senders, is_receiving)) = (node.store(), node.snapshots());
        let wall_ms = clock::wall_ms();
        Self {
            room: node.room(),
            footprint: if store.is_partial() { Footprint::default() } else { store.footprint() },
            shortages: store.shortages().count,
            process: process::now(),
            start_ms: wall_ms - runtime.now_ms().min(wall_ms),
            wall_ms,
            log_clock_ms: store.clock_ms(ReadLevel::Newest),
            elections: node.elections(),
            snapshot_senders: snapshot_senders as u64,
            is_receiving,
            client_bytes: clients.bytes() as u64,
            longest_step: clients.longest_step() as u64,
        }
    }
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP perdura_kv_{name} {help}\n# TYPE perdura_kv_{name} {kind}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        let _ = writeln!(self.0, "perdura_kv_{name} {value}");
    }
}

/// The numbers of a replica.
pub(super) fn page(
    state: &State,
    (clients, users_disabled): (&Statistics, usize),
    (traffic, links_up): (&Traffic, usize),
    gauges: &Gauges,
    latency: &Histogram,
) -> String {
    let mut page = Page::default();
    page.head("info", "gauge", "The replica, its cluster, version and store.");
    let State { version, cluster, replica, store, .. } = state;
    let _ = writeln!(
        page.0,
        "perdura_kv_info{{version=\"{version}\",cluster=\"{cluster}\",replica=\"{replica}\",store=\"{store}\"}} 1"
    );
    of_raft(&mut page, state);
    of_clock(&mut page, state);
    of_clients(&mut page, state, clients);
    page.one("users_disabled", "gauge", "Users without rights, for their records cannot be read.", users_disabled);
    let Traffic {
        messages_sent,
        messages_received,
        messages_dropped,
        messages_refused,
        persists,
        steps,
        spin_pauses,
        ..
    } = *traffic;
    for (name, help, value) in [
        ("messages_sent_total", "Messages to other replicas.", messages_sent),
        ("messages_received_total", "Messages of other replicas.", messages_received),
        ("messages_dropped_total", "Messages that a full queue had no room for.", messages_dropped),
        ("messages_refused_total", "Messages that no sound replica sends.", messages_refused),
        ("persists_total", "Times that entries were made durable.", persists),
        ("steps_total", "Steps of the event loop.", steps),
        (
            "spin_pauses_total",
            "Times that spinning was given up for a while: others wanted the processor.",
            spin_pauses,
        ),
        (
            "medium_written_bytes_total",
            "Bytes written to the store's medium since the start.",
            gauges.footprint.written_bytes,
        ),
    ] {
        page.one(name, "counter", help, value);
    }
    page.one("medium_used_bytes", "gauge", "Bytes of the store's medium in use.", gauges.footprint.used_bytes);
    page.one("links_up", "gauge", "Replicas to which messages go.", links_up);
    of_room(&mut page, gauges, traffic);
    of_process(&mut page, gauges);
    of_latency(&mut page, latency);
    page.0
}

fn of_raft(page: &mut Page, state: &State) {
    page.head("role", "gauge", "1 for what the replica is.");
    for role in ["leader", "follower", "candidate", "learner", "receiving"] {
        let _ = writeln!(page.0, "perdura_kv_role{{role=\"{role}\"}} {}", u8::from(state.role == role));
    }
    for (name, help, value) in [
        ("term", "The newest term known.", state.term),
        ("leader", "The id of the leader, or 0.", state.leader),
        ("committed_index", "The last index known to be committed.", state.committed),
        ("applied_index", "The last index that is applied.", state.applied),
        ("last_index", "The last index of the log.", state.last),
        ("ready", "Whether clients can be served.", u64::from(state.is_ready)),
        ("stalled", "Whether the store has no room.", u64::from(state.is_stalled)),
        ("outdated", "Whether the leader has entries that this program cannot read.", u64::from(state.is_outdated)),
        ("uptime_seconds", "Seconds since the start.", state.uptime_s),
    ] {
        page.one(name, "gauge", help, value);
    }
    page.head("member_lag", "gauge", "Entries that a member does not have; the leader knows them.");
    for member in &state.members {
        if let Some(matched) = member.matched {
            let lag = state.last.saturating_sub(matched);
            let _ = writeln!(
                page.0,
                "perdura_kv_member_lag{{replica=\"{}\",kind=\"{}\"}} {lag}",
                member.replica, member.kind
            );
        }
    }
}

fn of_clock(page: &mut Page, state: &State) {
    let help = "Seconds by which the time of day of this machine is ahead of the time by which keys end.";
    page.one("clock_skew_seconds", "gauge", help, state.clock_skew_ms as f64 / 1e3);
    let help = "Times that the difference was too large to be corrected.";
    page.one("clock_jumps_refused_total", "counter", help, state.clock_refusals);
}

fn of_clients(page: &mut Page, state: &State, clients: &Statistics) {
    page.one("clients", "gauge", "Clients that are connected.", state.clients);
    for (name, help, value) in clients.all() {
        page.one(name, "counter", help, value);
    }
}

fn of_room(page: &mut Page, gauges: &Gauges, traffic: &Traffic) {
    let Gauges { room, elections, snapshot_senders, is_receiving, client_bytes, longest_step, .. } = *gauges;
    for (name, help, value) in [
        ("store_size_bytes", "Bytes that the store has.", room.total),
        ("store_free_bytes", "Bytes of them that are free, or will be when garbage is cleared away.", room.free),
        ("store_kept_bytes", "Bytes of the free ones that are kept for others than those who put keys.", room.kept),
        ("store_full", "Whether little or nothing is put any more.", u64::from(room.is_full())),
        ("snapshots_sending", "Snapshots that others fetch.", snapshot_senders),
        ("snapshots_receiving", "Snapshots that are received.", u64::from(is_receiving)),
        ("clients_bytes", "Bytes of requests and replies of all clients.", client_bytes),
        ("step_places_max", "Places of the longest step of work for clients.", longest_step),
    ] {
        page.one(name, "gauge", help, value);
    }
    let longest = traffic.longest_step_us as f64 / 1e6;
    page.one("step_seconds_max", "gauge", "The longest time between two polls for events.", longest);
    page.one("elections_total", "counter", "Elections that the replica has begun.", elections);
    let help = "Writes for which the store's medium had no room, those that were tried again included.";
    page.one("store_without_room_total", "counter", help, gauges.shortages);
    let ahead = (gauges.log_clock_ms as f64 - gauges.wall_ms as f64) / 1e3;
    page.one("log_clock_ahead_seconds", "gauge", "The clock of the newest entry less the machine's.", ahead);
}

/// By the names that Prometheus' own programs use.
fn of_process(page: &mut Page, Gauges { process, start_ms, .. }: &Gauges) {
    let start_s = *start_ms as f64 / 1e3;
    for (name, kind, help, value) in [
        ("cpu_seconds_total", "counter", "Seconds of processors.", process.cpu_user_s + process.cpu_system_s),
        ("resident_memory_bytes", "gauge", "Bytes in DRAM.", process.resident_bytes as f64),
        ("virtual_memory_bytes", "gauge", "Bytes of addresses.", process.virtual_bytes as f64),
        ("open_fds", "gauge", "Descriptors that are open.", process.descriptors as f64),
        ("max_fds", "gauge", "Descriptors that may be open.", process.descriptors_max as f64),
        ("start_time_seconds", "gauge", "When the process was started, in seconds since 1970.", start_s),
    ] {
        let _ = writeln!(page.0, "# HELP process_{name} {help}\n# TYPE process_{name} {kind}\nprocess_{name} {value}");
    }
}

fn of_latency(page: &mut Page, latency: &Histogram) {
    page.head("exchange_seconds", "histogram", "From a client's bytes to the last reply to them.");
    let (counts, sum_us) = latency.totals();
    let mut sum = 0;
    for (bucket, count) in counts.iter().enumerate() {
        sum += count;
        if bucket < BUCKETS - 1 {
            let bound = bound_us(bucket) as f64 / 1e6;
            let _ = writeln!(page.0, "perdura_kv_exchange_seconds_bucket{{le=\"{bound}\"}} {sum}");
        }
    }
    let seconds = sum_us as f64 / 1e6;
    let _ = writeln!(
        page.0,
        "perdura_kv_exchange_seconds_bucket{{le=\"+Inf\"}} {sum}\nperdura_kv_exchange_seconds_sum {seconds}\nperdura_kv_exchange_seconds_count {sum}"
    );
}

#[cfg(test)]
mod tests {
    use super::super::admin::Member;
    use super::{Gauges, Histogram, State, Statistics, Traffic, page};

    /// The page of a leader whose member 2 lags.
    fn of_a_leader() -> String {
        let members = vec![Member { replica: 2, kind: "voter".into(), matched: Some(5), ..Member::default() }];
        let state = State { last: 9, role: "leader".into(), members, ..State::default() };
        let mut latency = Histogram::default();
        [3, 100, 5000, u64::MAX / 2].into_iter().for_each(|us| latency.note(1, us));
        page(&state, (&Statistics::default(), 0), (&Traffic::default(), 0), &Gauges::default(), &latency)
    }

    /// A page of docs/.
    fn document(name: &str) -> String {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).expect(&path)
    }

    /// Hazard: a metric is renamed, and the alarms that operators have made of its name fall
    /// silent.
    #[test]
    fn the_document_lists_every_metric_and_no_other() {
        let page = of_a_leader();
        let (mut made, mut help) = (Vec::new(), "");
        for line in page.lines() {
            if let Some(text) = line.strip_prefix("# HELP ") {
                help = text;
            } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|text| text.split_once(' ')) {
                let help = help.strip_prefix(name).expect("HELP and TYPE of one metric").trim().trim_end_matches('.');
                made.push(format!("| `{name}` | {kind} | {help} |"));
            }
        }
        let table = document("kv-config.md");
        let is_listed = |line: &&str| line.starts_with("| `perdura_kv_") || line.starts_with("| `process_");
        let listed: Vec<&str> = table.lines().filter(is_listed).collect();
        assert_eq!(listed, made, "docs/kv-config.md; the table is to be\n{}", made.join("\n"));
        for name in ["kv.md", "kv-config.md", "kv-commands.md"] {
            let text = document(name);
            let words = text.split(|sign: char| !(sign.is_ascii_alphanumeric() || sign == '_'));
            for word in words.filter(|word| word.len() > "perdura_kv_".len() && word.starts_with("perdura_kv_")) {
                assert!(page.contains(&format!("# TYPE {word} ")), "docs/{name}: {word}");
            }
        }
    }

    #[test]
    fn every_line_is_a_comment_or_a_number_and_every_name_has_a_type() {
        let text = of_a_leader();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let name = name.split('{').next().unwrap_or_default();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(text.contains(&format!("# TYPE {family} ")), "{line}");
        }
        assert!(text.contains("perdura_kv_member_lag{replica=\"2\",kind=\"voter\"} 4"), "{text}");
        assert!(text.contains("perdura_kv_exchange_seconds_count 4"), "{text}");
        assert!(text.contains("perdura_kv_role{role=\"leader\"} 1"), "{text}");
    }
}
