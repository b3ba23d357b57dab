//! A virtual machine with a NVDIMM in a file, emulated without KVM: it runs one guest at a time,
//! which prints lines to its second serial port, and can be killed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::guest::{Guest, directory};

/// A guest that prints nothing for so long hangs. The first line comes when it has booted.
const SILENT_MAX: Duration = Duration::from_secs(240);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    Ext4,
    Xfs,
}

/// Persistent memory of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// A NVDIMM; the memory controller's buffers survive a loss of power.
    Adr,
    /// A NVDIMM; the processors' caches survive it as well.
    Eadr,
    /// A device of virtio: the host's page cache, without MAP_SYNC.
    Virtio,
}

/// The machine and its memory, which outlives its guests.
pub struct Machine<'a> {
    guest: &'a Guest,
    file_system: FileSystem,
    memory: Memory,
    options: &'static str,
    image: PathBuf,
}

/// A machine that has a disk besides.
pub struct WithDisk<'m, 'a> {
    machine: &'m Machine<'a>,
    /// Socket of the disk's server, and bytes of a physical block.
    disk: (&'m Path, u32),
}

impl WithDisk<'_, '_> {
    /// As [`Machine::start`]; the disk has a file system of its own, at `/disk`.
    pub fn start(&self, format: bool, steps: &[&str]) -> Result<Running> {
        self.machine.start_with(format, steps, Some(self.disk))
    }
}

impl<'a> Machine<'a> {
    /// Makes a machine with empty memory.
    pub fn new(guest: &'a Guest, file_system: FileSystem, memory: Memory) -> Result<Machine<'a>> {
        let image = directory().join(format!("nvdimm-{}", std::process::id()));
        // XFS takes no less than 300 MiB; the files are sparse.
        let bytes = if file_system == FileSystem::Xfs { 1 << 30 } else { 256 << 20 };
        let file = File::create(&image).with_context(|| image.display().to_string())?;
        file.set_len(bytes)?;
        Ok(Machine { guest, file_system, memory, options: "dax", image })
    }

    /// The same machine, whose file system is mounted with `options`.
    pub fn mounted(mut self, options: &'static str) -> Machine<'a> {
        self.options = options;
        self
    }

    /// Starts the guest, which makes a file system if `format`, mounts it, and carries out the
    /// steps.
    pub fn start(&self, format: bool, steps: &[&str]) -> Result<Running> {
        self.start_with(format, steps, None)
    }

    /// The same machine with a disk that is served at a socket, whose physical blocks have so many
    /// bytes.
    pub fn with_disk<'m>(&'m self, socket: &'m Path, block: u32) -> WithDisk<'m, 'a> {
        WithDisk { machine: self, disk: (socket, block) }
    }

    fn start_with(&self, format: bool, steps: &[&str], disk: Option<(&Path, u32)>) -> Result<Running> {
        let number = |is: bool| if is { "1" } else { "0" };
        let file_system = format!("{:?}", self.file_system).to_lowercase();
        let namespace = number(self.memory != Memory::Virtio);
        let line = format!(
            "console=ttyS0 panic=-1 quiet filesystem={file_system} options={} format={} namespace={namespace} disk={} steps={}",
            self.options,
            number(format),
            number(disk.is_some()),
            steps.join(",")
        );
        let domain = if self.memory == Memory::Eadr { "cpu" } else { "mem-ctrl" };
        let backend = format!(
            "memory-backend-file,id=memory,share=on,mem-path={},size={}",
            self.image.display(),
            fs::metadata(&self.image)?.len()
        );
        let device = match self.memory {
            Memory::Adr | Memory::Eadr => "nvdimm,id=module,memdev=memory",
            Memory::Virtio => "virtio-pmem-pci,id=module,memdev=memory",
        };
        let console = directory().join("console.log");
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args(["-machine", &format!("pc,accel=tcg,nvdimm=on,nvdimm-persistence={domain}"), "-cpu", "max"])
            .args(["-m", "512M,slots=2,maxmem=4G", "-object", &backend, "-device", device])
            .args(["-display", "none", "-no-reboot", "-monitor", "none", "-nic", "none"])
            .args(["-serial", &format!("file:{}", console.display()), "-serial", "stdio", "-append", &line])
            .arg("-kernel")
            .arg(&self.guest.kernel)
            .arg("-initrd")
            .arg(&self.guest.disk)
            .args(disk.map(|(socket, block)| disk_words(socket, block)).into_iter().flatten())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot run qemu-system-x86_64")?;
        let output = child.stdout.take().context("the machine has no output")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line.trim_end().to_owned()).is_err() {
                    break;
                }
            }
        });
        Ok(Running { child, lines, seen: Vec::new(), console })
    }
}

/// Words by which the machine has a disk with a cache that it may have to flush.
fn disk_words(socket: &Path, block: u32) -> [String; 6] {
    [
        "-blockdev".to_owned(),
        format!("driver=nbd,node-name=net,server.type=unix,server.path={}", socket.display()),
        "-blockdev".to_owned(),
        "driver=raw,node-name=disk,file=net".to_owned(),
        "-device".to_owned(),
        format!("virtio-blk-pci,drive=disk,write-cache=on,physical_block_size={block}"),
    ]
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.image);
    }
}

/// A guest that runs. Ends with its machine when dropped.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    console: PathBuf,
}

impl Running {
    /// The next line that suits. Fails when the guest ends or hangs before.
    pub fn wait_for(&mut self, suits: impl Fn(&str) -> bool) -> Result<String> {
        while let Some(line) = self.next()? {
            if suits(&line) {
                return Ok(line);
            }
        }
        bail!("the guest ended: {:?}; {}", self.tail(), self.console.display())
    }

    /// Kills the machine, as a reset does: its memory stays as it is. Returns all lines.
    pub fn kill(mut self) -> Result<Vec<String>> {
        self.child.kill()?;
        while self.next()?.is_some() {}
        Ok(std::mem::take(&mut self.seen))
    }

    /// Waits for the guest to end well. Returns its lines.
    pub fn wait(self) -> Result<Vec<String>> {
        let (lines, status) = self.end()?;
        ensure!(status == "end 0", "the guest failed: {lines:?}");
        Ok(lines)
    }

    /// Waits for the guest to end with a failure of its last step. Returns its lines.
    pub fn wait_refused(self) -> Result<Vec<String>> {
        let (lines, status) = self.end()?;
        ensure!(status == "end 1", "the guest did not fail: {lines:?}");
        Ok(lines)
    }

    fn end(mut self) -> Result<(Vec<String>, String)> {
        let status = self.wait_for(|line| line.starts_with("end "))?;
        while self.next()?.is_some() {}
        Ok((std::mem::take(&mut self.seen), status))
    }

    /// The next line; `None` when the machine has ended.
    fn next(&mut self) -> Result<Option<String>> {
        let begun = Instant::now();
        match self.lines.recv_timeout(SILENT_MAX) {
            Ok(line) => {
                self.seen.push(line.clone());
                Ok(Some(line))
            }
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                bail!("no line for {:?}: {:?}; {}", begun.elapsed(), self.tail(), self.console.display())
            }
        }
    }

    fn tail(&self) -> &[String] {
        &self.seen[self.seen.len().saturating_sub(10)..]
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
