//! The device below a file system, as sysfs describes it: its NUMA node, its persistence domain and
//! its modules.
//!
//! Sysfs knows nothing of memory that is not a device of its own (tmpfs).

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
