//! A limit to the memory of a process, the page cache that it fills included: a control group.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const UNIFIED: &str = "/sys/fs/cgroup";
const FORMER: &str = "/sys/fs/cgroup/memory";

/// A control group with a limit. It is removed when dropped, if its processes have ended.
pub struct MemoryLimit {
    group: PathBuf,
}

impl MemoryLimit {
    /// A group of this process' name and `name`, of `bytes`.
    pub fn new(name: &str, bytes: u64) -> Result<MemoryLimit> {
        let is_unified = Path::new(UNIFIED).join("cgroup.controllers").exists();
        let (root, file) = match is_unified {
            true => (UNIFIED, "memory.max"),
            false if Path::new(FORMER).is_dir() => (FORMER, "memory.limit_in_bytes"),
            false => bail!("no control groups for memory below {UNIFIED}"),
        };
        let group = Path::new(root).join(format!("perdura-{}-{name}", std::process::id()));
        std::fs::create_dir(&group).with_context(|| format!("{}: needs root", group.display()))?;
        let limit = MemoryLimit { group };
        limit.write(file, &bytes.to_string())?;
        Ok(limit)
    }

    /// Puts a process into the group: what it takes from now on counts.
    pub fn add(&self, pid: u32) -> Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.group.join(file);
        std::fs::write(&path, text).with_context(|| format!("{}: {text}", path.display()))
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // One that cannot be removed yet has no processes of anybody else.
        let _ = std::fs::remove_dir(&self.group);
    }
}
