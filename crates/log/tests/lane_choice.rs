//! The home lane by session, by transaction and by processor. A choice that all transactions come
//! to one lane by would be slow and nothing else, so no other test would notice.

use crate::support::{commit, found, opened, recover, tiny};
use perdura_log::{GenerationState, GenerationStatus, LaneChoice, Log, LogConfig, LogStage, Recovery};
use perdura_pmem::numa::current_cpu;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Commits that one lane has room for.
const COMMITS: u64 = 40;

fn config(lane_choice: LaneChoice) -> LogConfig {
    LogConfig { lane_choice, ..tiny(8, 4) }
}

/// Lanes of the active generation with a record.
fn lanes_in_use(log: &Log) -> Vec<usize> {
    let status = log.status();
    let is_active = |generation: &&GenerationStatus| generation.state == GenerationState::Active;
    let active = status.generations.iter().find(is_active).expect("a running log has one");
    (0..active.filled.len()).filter(|lane| active.filled[*lane] > 0).collect()
}

#[test]
fn a_session_keeps_its_lane_and_its_transactions_change_theirs() {
    let lanes_of = |choice, sessions: u64| {
        let config = config(choice);
        let (medium, log) = opened(&config);
        assert!(lanes_in_use(&log).is_empty(), "a new log is empty");
        for number in 0..COMMITS {
            commit(&log, number % sessions, &[7; 20]);
        }
        let lanes = lanes_in_use(&log).len();
        drop(log);
        let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
        assert_eq!(found(&recovery).len() as u64, COMMITS, "{choice:?}");
        lanes
    };
    assert_eq!(lanes_of(LaneChoice::Session, 1), 1);
    assert!(lanes_of(LaneChoice::Session, 16) > 4);
    assert_eq!(lanes_of(LaneChoice::Transaction, 1), 8);
}

#[test]
fn a_processor_has_its_lane() {
    let (_, log) = opened(&config(LaneChoice::Core));
    let mut cpus = BTreeSet::new();
    for session in 0..COMMITS {
        cpus.insert(current_cpu() % 8);
        commit(&log, session, &[7; 20]);
        cpus.insert(current_cpu() % 8);
    }
    let lanes = lanes_in_use(&log);
    assert!(!lanes.is_empty() && lanes.iter().all(|lane| cpus.contains(lane)), "{lanes:?} of {cpus:?}");
}

/// The choice is no property of the pool: each start has its own.
#[test]
fn a_pool_takes_another_choice_at_its_next_start() {
    let (medium, log) = opened(&config(LaneChoice::Session));
    commit(&log, 1, b"one lane");
    drop(log);
    let (log, _) = recover(&medium, &config(LaneChoice::Transaction)).expect("it recovers");
    (0..COMMITS).for_each(|_| {
        commit(&log, 1, b"all lanes");
    });
    assert_eq!(lanes_in_use(&log).len(), 8);
}

static NOW: AtomicU64 = AtomicU64::new(0);

/// A stage that nobody ends would have its time counted with the next one, and its own would read
/// as 0.
#[test]
fn each_stage_of_a_commit_is_timed() {
    let (_, log) = opened(&config(LaneChoice::Session));
    commit(&log, 1, b"before");
    assert!(LogStage::ALL.iter().all(|stage| log.stage_times().of(*stage) == 0), "nobody has set a clock");
    log.time_stages(|| NOW.fetch_add(1, Relaxed));
    let before = log.stage_times();
    let csn = commit(&log, 1, b"timed");
    assert!(log.wait_visible(csn));
    let times = log.stage_times().since(&before);
    for stage in LogStage::ALL {
        assert!(times.of(stage) >= 1, "{stage:?}");
    }
}
