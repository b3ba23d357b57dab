//! A running process under `perf`: shares of its processor time by binary, and counters of the
//! processor where it has them.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::shared::{paths, process};

const MISSING: &str = "perf is missing: Debian's package linux-perf has it";
/// Samples of each thread in a second of its processor time.
const FREQUENCY: &str = "4000";
/// Samples of which shares are made.
const SAMPLES_LEAST: u64 = 500;
/// Binaries told apart from all others.
const SERVER: &str = "mariadbd";
const ENGINE: &str = "ha_perdura.so";
/// Names in brackets that are no part of the kernel, unlike those of the kernel and its modules.
const NOT_KERNEL: [&str; 6] = ["[vdso]", "[vsyscall]", "[unknown]", "[heap]", "[stack]", "[anon]"];

/// Parts of the processor time, together 1.
#[derive(Debug, PartialEq)]
pub struct Shares {
    /// How many samples they are of.
    pub samples: u64,
    pub kernel: f64,
    pub server: f64,
    pub engine: f64,
    /// Libraries, such as libc.
    pub other: f64,
}

/// Events in a microsecond of processor time.
#[derive(Debug, PartialEq)]
pub struct Counted {
    pub instructions: f64,
    pub cache_misses: f64,
}

/// Results of [`watch`].
pub struct Seen {
    pub shares: Shares,
    /// None where they were not asked for.
    pub counted: Option<Counted>,
}

/// Whether the processor's counters can be read, which a virtual machine mostly has not. Fails
/// without `perf`.
pub fn has_counters() -> Result<bool> {
    Command::new("perf").arg("--version").output().context(MISSING)?;
    let printed = stat(&["true"])?;
    Ok(["instructions", "cache-misses"].iter().all(|event| count(&printed, event).is_some()))
}

/// Watches a process and its threads for a while. None if that gave too few samples, as where a
/// busy machine let `perf` begin when the process had nothing to do any more.
pub fn watch(pid: u32, lasting: Duration, counters: bool) -> Result<Option<Seen>> {
    let (pid, seconds) = (pid.to_string(), lasting.as_secs_f64().to_string());
    std::thread::scope(|scope| {
        let counted = counters.then(|| scope.spawn(|| stat(&["-p", &pid, "--", "sleep", &seconds])));
        let shares = record(&pid, &seconds);
        let printed = counted.map(|counted| counted.join().expect("the counter does not panic")).transpose()?;
        let counted = printed.map(|printed| counted_in(&printed).with_context(|| format!("perf stat: {printed}")));
        let seen = (shares?, counted.transpose()?);
        Ok(seen.0.map(|shares| Seen { shares, counted: seen.1 }))
    })
}

fn record(pid: &str, seconds: &str) -> Result<Option<Shares>> {
    std::fs::create_dir_all(paths::build())?;
    let file = paths::build().join(format!("layers-{}.data", std::process::id()));
    let shares = record_into(&file, pid, seconds);
    // A record that failed may have left none.
    _ = std::fs::remove_file(&file);
    shares
}

fn record_into(file: &Path, pid: &str, seconds: &str) -> Result<Option<Shares>> {
    // perf would look for programs of BPF for a second at the end.
    let words = ["record", "--quiet", "--no-bpf-event", "-e", "cpu-clock", "-F", FREQUENCY, "-p", pid, "-o"];
    ended_well(Command::new("perf").args(words).arg(file).args(["--", "sleep", seconds]))?;
    let words = ["report", "--stdio", "--no-children", "--show-nr-samples", "--sort", "dso", "--input"];
    let text = process::output(Command::new("perf").args(words).arg(file))?;
    let shares = shares(&text).filter(|shares| shares.samples >= SAMPLES_LEAST);
    let sees_kernel = shares.as_ref().is_none_or(|shares| shares.kernel > 0.0);
    ensure!(sees_kernel, "perf sees nothing of the kernel: kernel.perf_event_paranoid has to be 1 at most");
    Ok(shares)
}

/// Output of `perf stat`: one line for each event, with commas between the fields.
fn stat(of: &[&str]) -> Result<String> {
    let words = ["stat", "-x,", "-e", "task-clock,instructions,cache-misses"];
    let output = ended_well(Command::new("perf").args(words).args(of))?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Runs a command to its end. Fails with what it printed as errors.
fn ended_well(command: &mut Command) -> Result<Output> {
    let output = command.output().context(MISSING)?;
    ensure!(output.status.success(), "perf: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    Ok(output)
}

/// Adds up the lines of a report, such as `12.50%  40  libc.so.6`: samples are alike, so their
/// numbers are the shares. None if there is no sample.
fn shares(report: &str) -> Option<Shares> {
    let line = |line: &str| -> Option<(u64, String)> {
        let (_, rest) = line.trim().split_once('%')?;
        let (samples, name) = rest.trim().split_once(' ')?;
        Some((samples.parse().ok()?, name.trim().to_owned()))
    };
    let lines: Vec<_> = report.lines().filter(|line| !line.starts_with('#')).filter_map(line).collect();
    let of = |wanted: &dyn Fn(&str) -> bool| -> u64 {
        lines.iter().filter(|(_, name)| wanted(name)).map(|(samples, _)| samples).sum()
    };
    let (samples, kernel) = (of(&|_| true), of(&is_kernel));
    let (server, engine) = (of(&|name| name == SERVER), of(&|name| name == ENGINE));
    let share = |part: u64| part as f64 / samples as f64;
    (samples > 0).then(|| Shares {
        samples,
        kernel: share(kernel),
        server: share(server),
        engine: share(engine),
        other: share(samples - kernel - server - engine),
    })
}

fn is_kernel(name: &str) -> bool {
    name.starts_with('[') && !NOT_KERNEL.contains(&name)
}

/// The counters in what `perf stat` printed.
fn counted_in(printed: &str) -> Option<Counted> {
    let clock_us = count(printed, "task-clock")? * 1e3;
    let each = |event| Some(count(printed, event)? / clock_us);
    Some(Counted { instructions: each("instructions")?, cache_misses: each("cache-misses")? })
}

/// The value of an event: of all lines that name it, as a machine with two kinds of cores has
/// several. None if no line has a number.
fn count(printed: &str, event: &str) -> Option<f64> {
    let value = |line: &str| -> Option<f64> {
        let mut fields = line.split(',');
        let (value, _unit, name) = (fields.next()?, fields.next()?, fields.next()?);
        name.contains(event).then(|| value.trim().parse().ok())?
    };
    printed.lines().filter_map(value).reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::{Counted, Shares, count, counted_in, shares};

    const REPORT: &str = "# To display the perf.data header info, please use --header/--header-only options.
#
# Samples: 1K of event 'cpu-clock'
# Event count (approx.): 483500000
#
# Overhead       Samples  Shared Object
# ........  ............  .................
#
    40.00%           400  [kernel.kallsyms]
    30.00%           300  mariadbd
    20.00%           200  ha_perdura.so
     7.00%            70  libc.so.6
     1.50%            15  [tmpfs]
     1.25%            12  [vdso]
     0.25%             3  libstdc++.so.6.0.30
     0.00%          torn  libcrypto.so.3


#
# (Tip: 100% of the tips are printed at the end)
#
";

    #[test]
    fn a_line_without_a_number_does_not_count() {
        let expected = Shares { samples: 1_000, kernel: 0.415, server: 0.3, engine: 0.2, other: 0.085 };
        assert_eq!(shares(REPORT), Some(expected));
        assert_eq!(shares("# Samples: 0\n 1.00% torn mariadbd\n"), None);
    }

    #[test]
    fn counters_that_are_not_there_are_no_zeros() {
        let missing = "189.23,msec,task-clock,189227487,100.00,0.939,CPUs utilized
<not supported>,,instructions,0,100.00,,
<not supported>,,cache-misses,0,100.00,,
";
        assert_eq!(count(missing, "task-clock"), Some(189.23));
        assert_eq!(count(missing, "instructions"), None);
        assert_eq!(counted_in(missing), None);
        let there = "2.00,msec,task-clock,2000000,100.00,1.000,CPUs utilized
3000,,cpu_core/instructions/,2000000,100.00,1.5,insn per cycle
1000,,cpu_atom/instructions/,2000000,100.00,1.5,insn per cycle
50,,cache-misses,2000000,100.00,,
";
        assert_eq!(counted_in(there), Some(Counted { instructions: 2.0, cache_misses: 0.025 }));
    }
}
