//! Runs other programs, and reads from /proc about processes and this machine.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal};

/// Runs a command whose output goes to ours. Fails unless it exits with 0.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command.status().with_context(|| format!("cannot run {shown}"))?;
    ensure!(status.success(), "{shown}: {status}");
    Ok(())
}

/// Runs a command and returns its standard output. Fails, showing all that it has printed, unless
/// it exits with 0.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command.output().with_context(|| format!("cannot run {shown}"))?;
    let printed = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    ensure!(output.status.success(), "{shown}: {}\n{}", output.status, printed.concat());
    String::from_utf8(output.stdout).with_context(|| format!("{shown}: output is not UTF-8"))
}

/// Waits for a program to end. One that takes longer than `most` is ended by a signal, with all
/// that it has started; it has no status. What their threads were at is shown before.
pub fn wait_at_most(child: &mut Child, most: Duration) -> Result<Option<ExitStatus>> {
    const LOOK: Duration = Duration::from_millis(100);
    let begun = Instant::now();
    while begun.elapsed() < most {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(LOOK);
    }
    let started = descendants(child.id())?;
    show_stacks(child.id());
    started.iter().for_each(|pid| show_stacks(pid.as_raw_nonzero().get() as u32));
    for pid in started {
        // One that has ended meanwhile needs no signal.
        _ = rustix::process::kill_process(pid, Signal::KILL);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// Prints the threads of a process: the call of the kernel that each is in, and its innermost
/// functions, in a line that counts as a complaint; then all their stacks. Those that it cannot
/// learn of it leaves out.
fn show_stacks(pid: u32) {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let words = read(format!("/proc/{pid}/cmdline")).replace('\0', " ");
    println!("process {pid}: {words}");
    // Of elfutils. It stops the process while it looks; one that cannot stop it would wait for.
    let looked = Command::new("timeout").args(["60", "eu-stack", "--pid", &pid.to_string()]).output();
    let stacks = looked.map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stdout).into());
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let (id, place) = (thread.file_name().to_string_lossy().into_owned(), thread.path().display().to_string());
        let [name, waits_in] = ["comm", "wchan"].map(|file| read(format!("{place}/{file}")));
        let within = innermost(&stacks, &id).join(" < ");
        println!("error: thread {id}, {}, is in {waits_in}: {within}", name.trim_end());
    }
    println!("{stacks}");
}

/// The innermost functions of a thread, by the output of `eu-stack`.
fn innermost<'s>(stacks: &'s str, thread: &str) -> Vec<&'s str> {
    const FRAMES: usize = 8;
    let begin = format!("TID {thread}:");
    let own = stacks.lines().skip_while(|line| *line != begin).skip(1).take_while(|line| line.starts_with('#'));
    own.filter_map(|line| line.split_whitespace().nth(2)).take(FRAMES).collect()
}

/// The processes that a process has started, theirs, and so on, as long as their parents live.
fn descendants(pid: u32) -> Result<Vec<Pid>> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        parents.extend(parent.map(|parent| (parent, pid)));
    }
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|(of, _)| *of == parent).map(|(_, pid)| *pid));
        next += 1;
    }
    Ok(found[1..].iter().filter_map(|pid| Pid::from_raw(*pid as i32)).collect())
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The cargo that runs us, at the root of the checkout.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(super::paths::top());
    command
}

/// Builds a package's programs in release mode.
pub fn cargo_build_release(package: &str) -> Result<()> {
    run(cargo().args(["build", "--quiet", "--release", "--package", package]))
}

/// Whether this process runs as root, which mariadbd accepts only with `--user`.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// A field of /proc/PID/status in bytes, such as `RssAnon`: private memory without mapped files.
pub fn status_bytes(pid: u32, field: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let kib = text
        .lines()
        .find_map(|line| {
            line.strip_prefix(field)?.strip_prefix(':')?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        })
        .with_context(|| format!("{path} has no {field}"))?;
    Ok(kib * 1024)
}

/// Bytes that were written to the disk that a directory lies on, by whomever. Its file system's own
/// are among them.
pub fn disk_bytes(directory: &Path) -> Result<u64> {
    const SECTOR_BYTES: u64 = 512;
    let device = std::fs::metadata(directory).with_context(|| directory.display().to_string())?.dev();
    let path = format!("/sys/dev/block/{}:{}/stat", rustix::fs::major(device), rustix::fs::minor(device));
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let sectors: Option<u64> = text.split_whitespace().nth(6).and_then(|word| word.parse().ok());
    Ok(sectors.with_context(|| format!("{path} does not say what was written"))? * SECTOR_BYTES)
}

/// CPU time of a process and its threads so far, user's and kernel's together.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let (user, system) = cpu_times(pid)?;
    Ok(user + system)
}

/// CPU time of a process and its threads so far, user's and kernel's, in steps of the kernel's
/// clock (10 ms).
pub fn cpu_times(pid: u32) -> Result<(Duration, Duration)> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // The second field, the name in parentheses, may hold spaces. The times are fields 14 and 15.
    let ticks = text.rsplit_once(')').and_then(|(_, rest)| {
        let mut fields = rest.split_whitespace().skip(11);
        Some((fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?))
    });
    let (user, system) = ticks.with_context(|| format!("{path} has no times"))?;
    let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64);
    Ok((time(user), time(system)))
}

/// One line about this machine, for the head of a report.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':'))
            .map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory_kib = field(&read("/proc/meminfo"), "MemTotal").trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
    let kernel = read("/proc/sys/kernel/osrelease");
    let model = field(&read("/proc/cpuinfo"), "model name");
    format!("{model}, {cpus} CPUs, {} GiB, Linux {}", memory_kib.div_ceil(1 << 20), kernel.trim())
}

/// Type and options of the file system that holds `path`, from /proc/mounts. The longest matching
/// mount point counts.
pub fn mount(path: &Path) -> Option<(String, String)> {
    let path = path.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let found = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (point, kind, options) = (words.nth(1)?, words.next()?, words.next()?);
        path.starts_with(point).then(|| (point.len(), kind.to_owned(), options.to_owned()))
    });
    found.max_by_key(|(length, ..)| *length).map(|(_, kind, options)| (kind, options))
}

/// Whether `path` lies on a file system mounted with DAX. Decides only whether to ask for
/// emulation.
pub fn is_dax(path: &Path) -> bool {
    mount(path).is_some_and(|(_, options)| options.split(',').any(|option| option == "dax" || option == "dax=always"))
}

/// Whether `path` lies on a file system in DRAM, where a pool has to be emulated.
pub fn is_in_dram(path: &Path) -> bool {
    mount(path).is_some_and(|(kind, _)| kind == "tmpfs" || kind == "ramfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_told_from_the_others() {
        let stacks = "PID 7 - process\nTID 7:\n#0  0x01 wait\n#1  0x02 main - 1\nTID 71:\n#0  0x03 read\n";
        assert_eq!(
            ["7", "71", "1"].map(|thread| innermost(stacks, thread)),
            [vec!["wait", "main"], vec!["read"], vec![]]
        );
    }

    #[test]
    fn what_hangs_is_ended_with_what_it_started() -> Result<()> {
        let mut quick = Command::new("true").spawn()?;
        assert!(wait_at_most(&mut quick, Duration::from_secs(60))?.is_some_and(|status| status.success()));
        let mut hangs = Command::new("sh").args(["-c", "sleep 600 & wait"]).spawn()?;
        while descendants(hangs.id())?.is_empty() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let started = descendants(hangs.id())?;
        assert!(wait_at_most(&mut hangs, Duration::ZERO)?.is_none());
        let is_over = |pid: &Pid| {
            let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
            std::fs::read_to_string(path).map_or(true, |stat| stat.contains(") Z "))
        };
        while !started.iter().all(is_over) {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}
