//! How a replica is run.

use raft::{Config, RawNode};
use slog::Logger;

use crate::store::{self, Error, ErrorKind, Log, Store};

/// How a replica is run. Times are in ticks, whose length the caller decides.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Time without a leader after which an election begins; up to twice that is waited.
    pub election_ticks: usize,
    /// Time between heartbeats.
    pub heartbeat_ticks: usize,
    /// Most bytes of entries in a message, beyond the first.
    pub message_bytes_max: u64,
    /// Entries after which a persist waits for no more.
    pub persist_entries: usize,
    /// Most messages under way to a replica.
    pub messages_max: usize,
    /// Most bytes of entries that are not applied; beyond it requests are refused.
    pub uncommitted_bytes_max: u64,
    /// Bytes of a snapshot's chunk, roughly.
    pub chunk_bytes: usize,
    /// Time after which a snapshot that nobody fetches is let go.
    pub snapshot_idle_ticks: usize,
    /// Whether a store is always emptied before it receives a snapshot, and not only if it has no
    /// room for both. Until it has it, the replica is not in any quorum.
    pub receives_in_place: bool,
    /// Whether a learner that has caught up is made a voter by the leader.
    pub promotes_learners: bool,
    /// Whether followers hear of a commit by the next message only, and not by one of its own.
    pub commits_quietly: bool,
    /// Milliseconds by which the time of the log may go forward at once when a replica leads that
    /// does not know how old its newest entry is.
    pub clock_forward_ms_max: u64,
    /// Decides, with the replica's id, how long it waits before elections.
    pub seed: u64,
    /// Another number at each start, so that no answer to a read of an earlier one counts.
    pub nonce: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            election_ticks: 10,
            heartbeat_ticks: 2,
            message_bytes_max: 1 << 20,
            persist_entries: 10,
            messages_max: 256,
            uncommitted_bytes_max: 256 << 20,
            chunk_bytes: 256 << 10,
            snapshot_idle_ticks: 100,
            receives_in_place: false,
            promotes_learners: true,
            commits_quietly: false,
            clock_forward_ms_max: 7 * 86_400_000,
            seed: 0,
            nonce: 0,
        }
    }
}

/// Mixes numbers into one that looks random.
fn mix(words: [u64; 4]) -> u64 {
    words.into_iter().fold(0x9e37_79b9_7f4a_7c15, |sum, word| {
        let mut sum = (sum ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        sum ^= sum >> 29;
        sum.wrapping_mul(0x94d0_49bb_1331_11eb) ^ (sum >> 32)
    })
}

impl Settings {
    /// How long a replica waits for a leader.
    pub(super) fn election_timeout(&self, id: u64, term: u64, elections: u64) -> usize {
        let more = mix([self.seed, id, term, elections]) % self.election_ticks as u64;
        self.election_ticks + more as usize
    }

    /// Raft over a store.
    pub(super) fn open(&self, store: Box<dyn Store>) -> store::Result<RawNode<Log>> {
        let config = Config {
            id: store.persistent_state().replica,
            election_tick: self.election_ticks,
            heartbeat_tick: self.heartbeat_ticks,
            applied: store.applied(),
            max_size_per_msg: self.message_bytes_max,
            max_inflight_msgs: self.messages_max,
            check_quorum: true,
            pre_vote: true,
            skip_bcast_commit: self.commits_quietly,
            max_uncommitted_size: self.uncommitted_bytes_max,
            max_committed_size_per_ready: self.message_bytes_max,
            ..Config::default()
        };
        let logger = Logger::root(slog::Discard, slog::o!());
        RawNode::new(&config, Log::new(store, self.chunk_bytes), &logger)
            .map_err(|error| Error::new(ErrorKind::Configuration, error.to_string()))
    }
}
