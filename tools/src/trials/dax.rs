//! `cargo xtask dax`: pools on DAX file systems of a virtual NVDIMM, whose machine is killed while
//! it loads flights and is started again.
//!
//! This tests what only a DAX file system has: that the medium is found to be one, MAP_SYNC,
//! allocation and metadata across a reset. The machine has no cache that loses lines, so it says
//! nothing of flushes, which are the explorer's (tests/crash).

mod disk;
mod guest;
mod machine;
mod power_cut;

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::shared::args::Args;
use guest::Guest;
use machine::{FileSystem, Machine, Memory};

/// Lines of the flights that are loaded.
const LINES: usize = 20_000;
/// The same for a disk that loses its cache: a cut waits for some seconds until that holds enough.
const LINES_CUT: usize = 100_000;
/// Lines that are acknowledged before the machine is killed: a number in this range.
const KILLED_AFTER: std::ops::Range<usize> = 1_000..15_000;

/// `dax [--short] [--seed N]`. Short: one file system, one kill.
pub fn run(mut args: Args) -> Result<()> {
    let short = args.flag("--short");
    let seed = args.option("--seed")?.unwrap_or_else(rand::random::<u64>);
    args.finish()?;
    println!("dax: seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let guest = Guest::build(LINES)?;
    // A NVDIMM that the platform flushes at a loss of power (ADR), then one whose platform flushes
    // the processors' caches as well (eADR).
    let trials: &[(FileSystem, Memory)] = match short {
        true => &[(FileSystem::Ext4, Memory::Adr)],
        false => &[(FileSystem::Ext4, Memory::Adr), (FileSystem::Xfs, Memory::Adr), (FileSystem::Ext4, Memory::Eadr)],
    };
    for (file_system, memory) in trials {
        kill_and_recover(&guest, *file_system, *memory, &mut random).with_context(|| format!("seed {seed}"))?;
    }
    refuses_what_is_no_dax(&guest)?;
    println!("dax: {} machines killed, every acknowledged row found", trials.len());
    Ok(())
}

/// `power-cut [--cuts N] [--seed N]`
pub fn power_cut(mut args: Args) -> Result<()> {
    let cuts = args.option("--cuts")?.unwrap_or(4);
    let seed = args.option("--seed")?.unwrap_or_else(rand::random::<u64>);
    args.finish()?;
    println!("power-cut: seed {seed}");
    let guest = Guest::build(LINES_CUT)?;
    power_cut::run(&guest, LINES_CUT, cuts, &mut StdRng::seed_from_u64(seed)).with_context(|| format!("seed {seed}"))
}

/// Loads until a number of rows is acknowledged, kills the machine, and compares in a second one,
/// which loads the rest and is compared by a third pass.
fn kill_and_recover(guest: &Guest, file_system: FileSystem, memory: Memory, random: &mut StdRng) -> Result<()> {
    let title = format!("{file_system:?}, {memory:?}");
    let kill_after = random.random_range(KILLED_AFTER);
    let machine = Machine::new(guest, file_system, memory)?;
    let mut loading = machine.start(true, &["perdura-dax:load:/mnt/pool:/flights.csv"])?;
    let medium = loading.wait_for(|line| line.starts_with("medium: "))?;
    println!("dax: {title}: {medium}");
    let granularity = if memory == Memory::Eadr { "granularity byte" } else { "granularity cache line" };
    for property in ["mode dax", granularity, "MAP_SYNC true", "DAX attribute true"] {
        ensure!(medium.contains(property), "{title}: not {property}: {medium}");
    }
    let acknowledged = |line: &str| line.strip_prefix("acknowledged ").and_then(|number| number.parse::<usize>().ok());
    loading.wait_for(|line| acknowledged(line).is_some_and(|rows| rows >= kill_after))?;
    let last = loading.kill()?;
    let rows = last.iter().rev().find_map(|line| acknowledged(line)).unwrap_or_default();
    ensure!(rows < LINES, "{title}: the load ended before the machine was killed");

    let compare = |rows: usize| format!("perdura-dax:compare:/mnt/pool:/flights.csv:{rows}");
    let (first, second) = (compare(rows), compare(LINES));
    let check = "perdura:check:/mnt/pool";
    let load = "perdura-dax:load:/mnt/pool:/flights.csv";
    let lines = machine.start(false, &[check, &first, load, &second, check])?.wait()?;
    let compared: Vec<&String> = lines.iter().filter(|line| line.starts_with("compared ")).collect();
    ensure!(compared.len() == 2, "{title}: {lines:?}");
    ensure!(lines.iter().filter(|line| *line == "the pool is sound").count() == 2, "{title}: {lines:?}");
    println!("dax: {title}: killed after {rows} rows were acknowledged; {}, then {}", compared[0], compared[1]);
    Ok(())
}

/// A file system without DAX, and memory that the host writes back when it likes: both are refused
/// with the reason.
fn refuses_what_is_no_dax(guest: &Guest) -> Result<()> {
    for (options, memory, reason) in
        [("defaults", Memory::Adr, "statx DAX attribute no"), ("dax", Memory::Virtio, "MAP_SYNC no")]
    {
        let machine = Machine::new(guest, FileSystem::Ext4, memory)?.mounted(options);
        let lines = machine.start(true, &["perdura-dax:attach:/mnt/pool"])?.wait_refused()?;
        let refusal = lines.iter().find(|line| line.starts_with("failed: ")).context("the pool was attached")?;
        ensure!(refusal.contains(reason), "{memory:?}, -o {options}: {refusal}");
        println!("dax: {memory:?}, -o {options}: {refusal}");
    }
    Ok(())
}
