//! The device below a file system, as sysfs describes it: its NUMA node, its persistence domain and
//! its modules; and pinning of threads to a node.
//!
//! Sysfs knows nothing of memory that is not a device of its own (tmpfs).

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The memory modules below a file system, and the data they may have lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modules {
    /// Ids of the modules, sorted, with commas between them. They stay with the modules.
    pub ids: String,
    /// Times that a module lost power and may have lost what it had accepted (*dirty shutdowns*),
    /// of all modules together. Ascends, and wraps.
    pub unsafe_shutdowns: u64,
}

/// Most modules that a region is taken to have.
const MODULES_MAX: usize = 64;

/// Properties from sysfs of the persistent memory below a file system.
#[derive(Clone, Debug, Default)]
pub(crate) struct Device {
    pub(crate) numa_node: Option<u32>,
    pub(crate) persistence_domain: Option<String>,
    pub(crate) modules: Option<Modules>,
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
            modules: modules_of(region),
        }
    }
}

/// The modules of which a region is made, if each has an id and counts its dirty shutdowns. A file
/// `mappingN` of the region begins with the name of a module, whose directory is beside the
/// region's; ACPI's NVDIMMs have their properties in `nfit`, CXL's in `cxl`.
fn modules_of(region: &Path) -> Option<Modules> {
    let count = read_trimmed(region.join("mappings"))?.parse::<usize>().ok()?;
    let bus = region.parent()?;
    let mut ids = Vec::new();
    let mut unsafe_shutdowns = 0u64;
    for number in 0..count.min(MODULES_MAX) {
        let mapping = read_trimmed(region.join(format!("mapping{number}")))?;
        let module = bus.join(mapping.split(',').next()?);
        let property = |name: &str| ["nfit", "cxl"].iter().find_map(|kind| read_trimmed(module.join(kind).join(name)));
        ids.push(property("id")?);
        unsafe_shutdowns = unsafe_shutdowns.wrapping_add(property("dirty_shutdown")?.parse().ok()?);
    }
    ids.sort();
    (!ids.is_empty()).then(|| Modules { ids: ids.join(","), unsafe_shutdowns })
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

/// Number of the processor on which the calling thread runs, or did a moment ago.
#[inline]
pub fn current_cpu() -> usize {
    sched_getcpu()
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

    /// Makes files of a faked sysfs.
    fn sysfs(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (name, content) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().expect("below the root")).expect("made");
            std::fs::write(path, format!("{content}\n")).expect("written");
        }
        root
    }

    #[test]
    fn a_region_has_the_modules_of_its_mappings() {
        let root = sysfs(&[
            ("ndbus0/region0/persistence_domain", "memory_controller"),
            ("ndbus0/region0/numa_node", "1"),
            ("ndbus0/region0/mappings", "2"),
            ("ndbus0/region0/mapping0", "nmem1,0,134217728,0"),
            ("ndbus0/region0/mapping1", "nmem0,0,134217728,1"),
            ("ndbus0/nmem0/nfit/id", "8680-57341200-a"),
            ("ndbus0/nmem0/nfit/dirty_shutdown", "3"),
            ("ndbus0/nmem1/cxl/id", "4"),
            ("ndbus0/nmem1/cxl/dirty_shutdown", "5"),
        ]);
        let block = root.path().join("ndbus0/region0/namespace0.0/block/pmem0");
        let device = Device::at(&block);
        assert_eq!((device.numa_node, device.persistence_domain.as_deref()), (Some(1), Some("memory_controller")));
        assert_eq!(device.modules, Some(Modules { ids: "4,8680-57341200-a".to_owned(), unsafe_shutdowns: 8 }));
        std::fs::remove_file(root.path().join("ndbus0/nmem1/cxl/dirty_shutdown")).expect("removed");
        assert_eq!(Device::at(&block).modules, None, "a module that does not count is unknown");
        std::fs::write(root.path().join("ndbus0/nmem1/cxl/dirty_shutdown"), "many").expect("written");
        assert_eq!(Device::at(&block).modules, None);
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
