//! The guest's memory disk: busybox, kernel modules, the tools that make file systems, our programs
//! with their libraries, and flights.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::shared::{paths, process};

/// Modules of the kernel, in the order of their needs.
const MODULES: &[&str] = &[
    "lib/crc16",
    "crypto/crc32c_generic",
    "lib/libcrc32c",
    "fs/mbcache",
    "fs/jbd2/jbd2",
    "fs/ext4/ext4",
    "fs/xfs/xfs",
    "drivers/nvdimm/libnvdimm",
    "drivers/nvdimm/nd_btt",
    "drivers/nvdimm/nd_pmem",
    "drivers/acpi/nfit/nfit",
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci",
    "drivers/block/virtio_blk",
    "drivers/nvdimm/nd_virtio",
    "drivers/nvdimm/virtio_pmem",
];
/// Programs of the host that the guest uses.
const PROGRAMS: [&str; 3] = ["ndctl", "mkfs.ext4", "mkfs.xfs"];
const PLACES: [&str; 4] = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];

/// The place of kernel, memory disk and images.
pub fn directory() -> PathBuf {
    paths::build().join("dax")
}

/// Kernel and memory disk.
pub struct Guest {
    pub kernel: PathBuf,
    pub disk: PathBuf,
}

impl Guest {
    /// Builds the disk with the first `lines` flights.
    pub fn build(lines: usize) -> Result<Guest> {
        process::run(&mut Command::new(paths::top().join("scripts/setup-dax.sh")))?;
        process::cargo_build_release("perdura-dax")?;
        process::cargo_build_release("perdura-cli")?;
        let tree = Tree::new(directory().join("tree"))?;
        tree.copy(&found("busybox")?, "bin/busybox")?;
        tree.copy(&paths::top().join("tests/dax/guest/init"), "init")?;
        let release = paths::top().join("target/release");
        for (name, path) in [("perdura-dax", release.join("perdura-dax")), ("perdura", release.join("perdura"))] {
            tree.program(name, &path)?;
        }
        for name in PROGRAMS {
            tree.program(name, &found(name)?)?;
        }
        tree.modules(&directory().join("kernel/modules"))?;
        let flights = fs::read_to_string(paths::data().join("flights.csv")).context("run `make setup` first")?;
        let flights: Vec<&str> = flights.lines().take(lines + 1).collect();
        fs::write(tree.root.join("flights.csv"), flights.join("\n") + "\n")?;
        let disk = directory().join("disk");
        let pack = format!("find . | cpio --quiet -o -H newc >'{}'", disk.display());
        process::run(Command::new("sh").args(["-c", &pack]).current_dir(&tree.root))?;
        fs::remove_dir_all(&tree.root)?;
        Ok(Guest { kernel: directory().join("kernel/vmlinuz"), disk })
    }
}

/// The folder that becomes the disk.
struct Tree {
    root: PathBuf,
}

impl Tree {
    fn new(root: PathBuf) -> Result<Tree> {
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        fs::create_dir_all(&root)?;
        Ok(Tree { root })
    }

    fn copy(&self, from: &Path, to: &str) -> Result<()> {
        let to = self.root.join(to);
        fs::create_dir_all(to.parent().context("a path in the tree")?)?;
        fs::copy(from, to).with_context(|| from.display().to_string())?;
        Ok(())
    }

    /// Copies a program, and the libraries that it is linked to, each to where it is here.
    fn program(&self, name: &str, path: &Path) -> Result<()> {
        self.copy(path, &format!("bin/{name}"))?;
        let linked = process::output(Command::new("ldd").arg(path))?;
        let libraries = linked.split_whitespace().filter(|word| word.starts_with('/'));
        for library in libraries.collect::<BTreeSet<_>>() {
            self.copy(Path::new(library), library.trim_start_matches('/'))?;
        }
        Ok(())
    }

    /// Copies the modules, and writes the order in which they are loaded. One that this kernel has
    /// built in is left out.
    fn modules(&self, from: &Path) -> Result<()> {
        let mut order = String::new();
        for module in MODULES {
            let name = module.rsplit('/').next().unwrap_or(module);
            let path = from.join(module).with_extension("ko");
            if path.exists() {
                self.copy(&path, &format!("modules/{name}.ko"))?;
                order.push_str(name);
                order.push('\n');
            }
        }
        ensure!(order.contains("nd_pmem\n"), "{} has no module nd_pmem", from.display());
        fs::write(self.root.join("modules/order"), order)?;
        Ok(())
    }
}

/// The path of a program of the host.
fn found(name: &str) -> Result<PathBuf> {
    let mut paths = PLACES.iter().map(|place| Path::new(place).join(name));
    paths.find(|path| path.exists()).with_context(|| format!("{name} is not installed: scripts/setup-dax.sh"))
}
