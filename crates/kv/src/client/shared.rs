//! State that all connections share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::admission::Admission;
use super::denials::Denials;
use super::forwards::Forwards;
use super::notices::Notices;
use super::performance::{Performance, Thresholds};
use super::settings::{Name, Settings};
use super::statistics::Statistics;
use super::step::Step;
use crate::acl::Acl;
use crate::machine::memory::Memory;
use crate::node::{Node, Rejection, Role};
use crate::resp::Reply;
use crate::wire::Forwarded;

/// State that all connections share.
#[derive(Debug)]
pub struct Shared {
    pub settings: Settings,
    pub statistics: Statistics,
    /// Where clients reach the replicas.
    pub names: BTreeMap<u64, Name>,
    /// Connections that the reactor must look at.
    pub woken: Vec<u32>,
    /// Requests passed on to the leader.
    pub forwards: Forwards,
    /// Connections of what other replicas have passed on that may be answered, and answers to them.
    pub served: Vec<u32>,
    pub answers: Vec<(u64, Forwarded)>,
    /// Connections with requests that were held up.
    pub held: Vec<u32>,
    /// Connections with a request that waits until the store has made room.
    pub short: BTreeSet<u32>,
    /// How long commands take.
    pub performance: Performance,
    /// Work since the reactor's last turn.
    pub step: Step,
    /// Connections in WAIT.
    pub waiting: Vec<u32>,
    /// Where listings are.
    pub memory: Arc<Memory>,
    /// Users and their rights, and whether they are known.
    pub acl: Acl,
    pub admission: Admission,
    /// Notices for the operator.
    pub notices: Notices,
    /// Requests that were refused to them.
    pub denials: Denials,
    /// Whether an entry that clears away is under way.
    pub is_sweeping: bool,
}

impl Shared {
    pub fn new(settings: Settings) -> Self {
        Self {
            statistics: Statistics::default(),
            names: BTreeMap::new(),
            woken: Vec::new(),
            forwards: Forwards::default(),
            served: Vec::new(),
            answers: Vec::new(),
            held: Vec::new(),
            short: BTreeSet::new(),
            performance: Performance::default(),
            step: Step::default(),
            waiting: Vec::new(),
            memory: Arc::new(Memory::new(settings.seed)),
            acl: Acl::closed(),
            admission: Admission::default(),
            notices: Notices::default(),
            denials: Denials::default(),
            is_sweeping: false,
            settings,
        }
    }

    /// From when on commands are slow.
    pub fn thresholds(&self) -> Thresholds {
        let Settings { slow_us, slow_max, spike_ms, .. } = self.settings;
        Thresholds { slow_us: slow_us as u64, slow_max, spike_ms: spike_ms as u64 }
    }

    /// The answer to a request that was not taken, about keys in a hash slot.
    pub fn refusal(&mut self, why: Rejection, slot: u16) -> Reply {
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
    pub fn again(&mut self, slot: u16, node: &Node) -> Reply {
        let status = node.status();
        let leader = if status.role == Role::Leader { 0 } else { status.leader };
        self.elsewhere(leader, slot)
    }

    /// The answer to a request of which nobody can say what comes of it.
    pub fn unknown(&mut self) -> Reply {
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
