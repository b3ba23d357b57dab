//! State that all connections share.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::admission::Admission;
use super::connection::Connection;
use super::denials::Denials;
use super::forwards::Forwards;
use super::notices::Notices;
use super::performance::{Performance, Thresholds};
use super::profile::Profile;
use super::queues::Queues;
use super::settings::{Name, Settings};
use super::statistics::Statistics;
use super::step::Step;
use crate::command::Command;
use crate::machine::memory::Memory;
use crate::node::{Node, Rejection, Role};
use crate::resp::Reply;

/// State that all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub settings: Settings,
    pub statistics: Statistics,
    /// Where clients reach the replicas.
    pub names: BTreeMap<u64, Name>,
    /// Connections that something is to be done for.
    pub queues: Queues,
    /// Requests passed on to the leader.
    pub forwards: Forwards,
    /// How long commands take.
    pub performance: Performance,
    /// Work in the present step.
    pub step: Step,
    /// Where listings are.
    pub memory: Arc<Memory>,
    /// Users and their rights, and whether they are known.
    pub admission: Admission,
    /// Notices for the operator.
    pub notices: Notices,
    /// Requests that were refused to them.
    pub denials: Denials,
}

impl Shared {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            statistics: Statistics::default(),
            names: BTreeMap::new(),
            queues: Queues::default(),
            forwards: Forwards::default(),
            performance: Performance::default(),
            step: Step::default(),
            memory: Arc::new(Memory::new(settings.seed)),
            admission: Admission::new(),
            notices: Notices::default(),
            denials: Denials::default(),
            settings,
        }
    }

    /// A reply has become known.
    pub(super) fn answered(&mut self, connection: &mut Connection) {
        self.statistics.output_bytes += self.queues.wake(connection) as u64;
        if connection.input.is_held() {
            self.queues.hold([connection.token()]);
        }
    }

    /// Microseconds of a clock that never goes back.
    pub(super) fn steady_us(&self) -> u64 {
        (self.settings.steady_us)()
    }

    /// Notes that a command of a connection took so long ([`Performance::note`]).
    pub(super) fn note(&mut self, profile: &Profile, command: (&Command, &[Bytes], usize), us: u64, now_us: u64) {
        let Settings { slow_us, slow_max, spike_ms, .. } = self.settings;
        let bounds = Thresholds { slow_us: slow_us as u64, slow_max, spike_ms: spike_ms as u64 };
        self.performance.note(profile, command, us, now_us, bounds);
    }

    /// The answer to a request that was not taken, about keys in a hash slot.
    pub(super) fn refusal(&mut self, why: Rejection, slot: u16) -> Reply {
        match why {
            Rejection::NotLeader { leader } => self.elsewhere(leader, slot),
            Rejection::Full => {
                self.statistics.full += 1;
                Reply::Error("OOM command not allowed: the leader has no room for it".to_owned())
            }
            Rejection::Busy => {
                self.statistics.busy += 1;
                Reply::Error(
                    "BUSY too many commands are under way, or the leader is being changed: try again".to_owned(),
                )
            }
            Rejection::MakesRoom => {
                self.statistics.busy += 1;
                Reply::Error("BUSY the leader makes room for it: try again".to_owned())
            }
            Rejection::TooLarge => Reply::error("the command changes more than fits one entry of the log"),
        }
    }

    /// The answer to a request of which nothing has come, and nothing will.
    pub(super) fn again(&mut self, slot: u16, node: &Node) -> Reply {
        let status = node.status();
        let leader = if status.role == Role::Leader { 0 } else { status.leader };
        self.elsewhere(leader, slot)
    }

    /// The answer to a request whose outcome is unknown.
    pub(super) fn unknown(&mut self) -> Reply {
        self.statistics.unknown += 1;
        Reply::Error("UNKNOWN the leader was lost: the command may take effect, or may not".to_owned())
    }

    fn elsewhere(&mut self, leader: u64, slot: u16) -> Reply {
        match self.names.get(&leader) {
            Some(Name { host, port }) => {
                self.statistics.moved += 1;
                Reply::Error(format!("MOVED {slot} {host}:{port}"))
            }
            None => Reply::Error("CLUSTERDOWN The cluster is down: no leader is known".to_owned()),
        }
    }
}
