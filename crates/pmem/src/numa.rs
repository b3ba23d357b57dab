//! NUMA: which node memory belongs to, and pinning of threads to a node.
//!
//! The answers come from sysfs. It knows nothing of memory that is not a device of its own (tmpfs):
//! the node is unknown then.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Properties from sysfs of the persistent memory below a file system.
#[derive(Clone, Debug, Default)]
pub(crate) struct Device {
    pub(crate) numa_node: Option<u32>,
    pub(crate) persistence_domain: Option<String>,
}

impl Device {
    /// The device below the file system of a file.
    pub(crate) fn of(metadata: &Metadata) -> Device {
        let device = metadata.dev();
        let link = format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        std::fs::canonicalize(link).map(|path| Device::at(&path)).unwrap_or_default()
    }

    /// The innermost directory at or above `path` that has a persistence domain is the NVDIMM
    /// region.
    fn at(path: &Path) -> Device {
        let region = path.ancestors().find(|directory| directory.join("persistence_domain").is_file());
        let Some(region) = region else { return Device::default() };
        Device {
            numa_node: read_trimmed(region.join("numa_node")).and_then(|node| node.parse().ok()),
            persistence_domain: read_trimmed(region.join("persistence_domain")),
        }
    }
}

fn read_trimmed(path: PathBuf) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Processors of a node, by number; empty if there is no such node.
fn cpus_of_node(node: u32) -> Vec<usize> {
    let list = read_trimmed(PathBuf::from(format!("/sys/devices/system/node/node{node}/cpulist")));
    list.map(|list| parse_cpu_list(&list)).unwrap_or_default()
}

/// Node of each processor, by its number; empty where the system does not tell.
pub(crate) fn node_of_each_cpu() -> Box<[u32]> {
    let mut found = Vec::new();
    for node in nodes() {
        for cpu in cpus_of_node(node) {
            found.resize(found.len().max(cpu + 1), 0);
            found[cpu] = node;
        }
    }
    found.into()
}

/// NUMA nodes of the machine that have processors, by number.
pub fn nodes() -> Vec<u32> {
    let online = read_trimmed(PathBuf::from("/sys/devices/system/node/online")).unwrap_or_default();
    let nodes = parse_cpu_list(&online).into_iter().map(|node| node as u32);
    nodes.filter(|node| !cpus_of_node(*node).is_empty()).collect()
}

/// Parses the kernel's form of a set: `0-3,8,10-11`. Parts that do not parse are left out.
fn parse_cpu_list(list: &str) -> Vec<usize> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?;
        (range.end() < &CpuSet::MAX_CPU).then_some(range)
    };
    list.split(',').filter_map(part).flatten().collect()
}

/// Pins the calling thread to those of `node`'s processors that it may use. False if the node is
/// unknown or none of its processors is allowed.
pub fn pin_to_node(node: u32) -> bool {
    let Ok(allowed) = sched_getaffinity(None) else { return false };
    let mut wanted = CpuSet::new();
    for cpu in cpus_of_node(node).into_iter().filter(|cpu| allowed.is_set(*cpu)) {
        wanted.set(cpu);
    }
    wanted.count() > 0 && sched_setaffinity(None, &wanted).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_cpu_lists_are_parsed() {
        assert_eq!(parse_cpu_list("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_cpu_list(""), Vec::<usize>::new());
        assert_eq!(parse_cpu_list("2,x,4-"), [2]);
        assert_eq!(parse_cpu_list("0-99999999999"), Vec::<usize>::new());
    }

    #[test]
    fn a_thread_stays_runnable_when_pinned_or_not() {
        std::thread::spawn(|| {
            assert!(!pin_to_node(u32::MAX), "a node that does not exist");
            if !cpus_of_node(0).is_empty() {
                assert!(pin_to_node(0));
            }
        })
        .join()
        .expect("pinning does not panic");
    }
}
