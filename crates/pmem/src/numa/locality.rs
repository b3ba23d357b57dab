//! Locality: every thread that touches a pool runs on the node of the pool's memory, while that
//! node has processors to spare (NF-log, SNU 2022, 2.4).

use super::balance::{Balance, Step};
use super::cpus::Cpus;
use super::load::{STAT, Sample};
use super::machine::Machine;
use super::registry::Registry;
use super::thread::Attachment;
use super::topology::Topology;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Shortest time between two looks at the load.
const PERIOD: Duration = Duration::from_millis(200);

/// The placement of a pool's threads, decided when the pool is opened. Clones share it.
///
/// Where there is nothing to place, attaching does nothing.
#[derive(Clone)]
pub struct Locality(Result<Arc<Placement>, Off>);

/// Reason for which threads stay where they are.
#[derive(Clone, Debug)]
struct Off {
    reason: Arc<str>,
    is_fault: bool,
}

/// The node on which threads work, and the threads.
struct Placement {
    machine: Machine,
    node: u32,
    nodes: usize,
    home: Cpus,
    /// Those of them that the process may use.
    usable: Cpus,
    /// Processors of each other node that the process may use.
    others: Vec<Cpus>,
    registry: Arc<Registry>,
    watch: Mutex<Watch>,
}

/// The looks at the load.
struct Watch {
    next: Duration,
    last: Option<Sample>,
    balance: Balance,
}

impl Locality {
    /// Threads stay where they are, for a reason.
    pub fn off(reason: &str) -> Locality {
        Locality(Err(Off { reason: reason.into(), is_fault: false }))
    }

    /// The placement of threads that work on memory of `node`: on this node, or if the process may
    /// use none of its processors (or it has none) on the nearest other one. The calling thread's
    /// affinity is taken to be that of the process.
    ///
    /// Threads stay where they are on a machine with one node, where `node` is not called, and if
    /// the node is unknown.
    pub fn of(machine: &Machine, node: impl FnOnce() -> Option<u32>) -> Locality {
        match Placement::new(machine, node) {
            Ok(placement) => Locality(Ok(Arc::new(placement))),
            Err(off) => Locality(Err(off)),
        }
    }

    /// Pins the calling thread for as long as the result lives, to those of the node's processors
    /// on which it may run; unless the node is full. A thread that is attached several times is
    /// pinned until the last of them is dropped, which gives it the affinity back that it had.
    ///
    /// A thread that a pinned one starts inherits the pin, as the system has it.
    pub fn attach(&self) -> Attachment {
        match &self.0 {
            Ok(placement) => placement.registry.attach(),
            Err(_) => Attachment::default(),
        }
    }

    /// Lets some threads go if the node is full and another one is not, or takes some back if it is
    /// no more. To be called often; it looks at the load five times a second at most.
    pub fn balance(&self) {
        if let Ok(placement) = &self.0 {
            placement.balance();
        }
    }

    /// Fault because of which threads stay where they are, though they might be placed.
    pub fn fault(&self) -> Option<&str> {
        self.0.as_ref().err().filter(|off| off.is_fault).map(|off| &*off.reason)
    }

    /// Its present state.
    pub fn status(&self) -> LocalityStatus {
        let (node, reason) = match &self.0 {
            Ok(placement) => (Some(placement.node), placement.describe()),
            Err(off) => (None, off.reason.to_string()),
        };
        let census = self.0.as_ref().map(|placement| placement.registry.census()).unwrap_or_default();
        LocalityStatus { node, reason, pinned: census.pinned, let_go: census.let_go, elsewhere: census.elsewhere }
    }
}

impl Placement {
    fn new(machine: &Machine, node: impl FnOnce() -> Option<u32>) -> Result<Placement, Off> {
        let off = |reason: &str| Off { reason: reason.into(), is_fault: false };
        let fault = |reason: String| Off { reason: reason.into(), is_fault: true };
        let topology =
            Topology::read(machine).map_err(|error| fault(format!("the NUMA nodes are unknown: {error}")))?;
        let nodes = topology.numbers().count();
        if nodes < 2 {
            return Err(off("the machine has one node"));
        }
        let node = node().ok_or_else(|| off("the node of the pool's memory is unknown"))?;
        let allowed = machine.affinity(machine.thread());
        let allowed =
            allowed.map_err(|error| fault(format!("the affinity of the thread that opens the pool: {error}")))?;
        if topology.cpus_of(node).is_none() {
            return Err(fault(format!("the pool's memory is on node {node}, which is not online")));
        }
        let near = topology.nearest(node, &allowed);
        let near =
            near.ok_or_else(|| fault(format!("none of the processors {allowed} of the process is in a node")))?;
        let usable = |node: u32| topology.cpus_of(node).map(|cpus| cpus.and(&allowed)).unwrap_or_default();
        let others = topology.numbers().filter(|other| *other != near).map(usable);
        let others: Vec<Cpus> = others.filter(|cpus| !cpus.is_empty()).collect();
        if others.is_empty() {
            return Err(off("the process may use the processors of one node alone"));
        }
        // A thread may be allowed more than this one: that is seen when it is attached.
        let home = *topology.cpus_of(near).unwrap_or(&allowed);
        Ok(Placement {
            machine: machine.clone(),
            node: near,
            nodes,
            home,
            usable: home.and(&allowed),
            others,
            registry: Arc::new(Registry::new(machine.clone(), home)),
            watch: Mutex::new(Watch { next: Duration::ZERO, last: None, balance: Balance::new() }),
        })
    }

    fn balance(&self) {
        // Whoever holds it looks already.
        let Some(mut watch) = self.watch.try_lock() else { return };
        let now = self.machine.now();
        if now < watch.next {
            return;
        }
        watch.next = now + PERIOD;
        // Without a look there is nothing to decide by, and all stays as it is.
        let Ok(text) = self.machine.read(STAT) else { return };
        let sample = Sample::parse(&text);
        let Some(last) = watch.last.replace(sample.clone()) else { return };
        let other = self.others.iter().filter_map(|cpus| sample.load_since(&last, cpus)).min();
        let home = sample.load_since(&last, &self.usable);
        if home.is_none() && other.is_none() {
            return;
        }
        self.registry.retry();
        match watch.balance.decide(home, other, self.registry.has_let_go()) {
            Step::Stay => {}
            Step::LetGo => self.registry.let_go(),
            Step::TakeBack => self.registry.take_back(),
        }
    }

    fn describe(&self) -> String {
        format!("processors {} of node {}, one of {} nodes", self.home, self.node, self.nodes)
    }
}

/// State of a pool's locality.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalityStatus {
    /// Node on which threads work; `None` if they stay where they are.
    pub node: Option<u32>,
    /// The node's processors, or the reason for which threads stay where they are.
    pub reason: String,
    /// Threads that are attached and pinned.
    pub pinned: u64,
    /// Threads that are attached and were let go, as the node is full and another one is not.
    pub let_go: u64,
    /// Threads that are attached and may not run on the node.
    pub elsewhere: u64,
}

impl fmt::Display for LocalityStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.node.is_none() {
            return write!(f, "threads stay where they are: {}", self.reason);
        }
        write!(f, "{}: {} threads pinned, {} let go", self.reason, self.pinned, self.let_go)?;
        match self.elsewhere {
            0 => Ok(()),
            elsewhere => write!(f, ", {elsewhere} may not run there"),
        }
    }
}
