//! Room *numa*: the nodes of the machine, the device below a pool, and threads that work near it.
//!
//! `machine` is the source of all that is known, `topology` and `load` read it; `thread`,
//! `registry` and `balance` pin threads, let them go and take them back, and `locality` is the one
//! door to them.

mod balance;
mod cpus;
mod device;
#[cfg(test)]
mod faked;
mod load;
mod locality;
mod machine;
mod registry;
#[cfg(test)]
mod tests;
mod thread;
mod topology;

pub use cpus::Cpus;
pub(crate) use device::Device;
pub use device::Modules;
pub use locality::{Locality, LocalityStatus};
pub use machine::{Machine, Source, ThreadId};
pub use thread::Attachment;
pub use topology::Topology;

/// Node of each processor, by its number; empty where the system does not tell.
pub(crate) fn node_of_each_cpu() -> Box<[u32]> {
    let topology = Topology::read(&Machine::real()).unwrap_or_default();
    let mut found = Vec::new();
    for node in topology.numbers() {
        for cpu in topology.cpus_of(node).into_iter().flat_map(Cpus::iter) {
            found.resize(found.len().max(cpu + 1), 0);
            found[cpu] = node;
        }
    }
    found.into()
}

/// NUMA nodes of the machine that have processors, by number.
pub fn nodes() -> Vec<u32> {
    let topology = Topology::read(&Machine::real()).unwrap_or_default();
    topology.numbers().filter(|node| topology.cpus_of(*node).is_some_and(|cpus| !cpus.is_empty())).collect()
}

/// Number of the processor on which the calling thread runs, or did a moment ago.
#[inline]
pub fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

/// Pins the calling thread for good to those of `node`'s processors that it may use. False if the
/// node is unknown or none of its processors is allowed.
pub fn pin_to_node(node: u32) -> bool {
    let machine = Machine::real();
    let thread = machine.thread();
    let topology = Topology::read(&machine).unwrap_or_default();
    let Some(cpus) = topology.cpus_of(node) else { return false };
    let Ok(allowed) = machine.affinity(thread) else { return false };
    let wanted = cpus.and(&allowed);
    !wanted.is_empty() && machine.set_affinity(thread, &wanted).is_ok()
}
