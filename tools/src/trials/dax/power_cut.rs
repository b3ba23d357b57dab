//! `cargo xtask power-cut`: pools on a disk of a virtual machine, which loses in each cut what its
//! cache holds, while flights are loaded: whole pools, and pools with their log in a NVDIMM.
//!
//! The hazard: something was called durable of which the disk was not told. Also that of a torn
//! sector's neighbours: each 512 bytes are lost by themselves.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::Rng;
use rand::rngs::StdRng;

use super::disk::Disk;
use super::guest::{Guest, directory};
use super::machine::{FileSystem, Machine, Memory};

const DISK_BYTES: u64 = 1 << 30;
/// Lines that are acknowledged between two cuts: a number in this range.
const CUT_AFTER: std::ops::Range<usize> = 300..4_000;
/// Sectors that the cache holds at the cut: a number up to this, if there will be so many soon.
const CACHED_MAX: usize = 3_000;
const PATIENCE: Duration = Duration::from_secs(3);

/// Where a pool is in the guest.
#[derive(Clone, Copy)]
struct Placement {
    title: &'static str,
    /// How the programs are told.
    opened: &'static str,
    checked: &'static str,
    medium: &'static str,
}

const PLACEMENTS: [Placement; 2] = [
    Placement {
        title: "disk",
        opened: "--disk",
        checked: "perdura:check:/disk/pool",
        medium: "mode page, granularity page",
    },
    Placement {
        title: "log in a NVDIMM, data on a disk",
        opened: "--log=/mnt/log",
        checked: "perdura:check:/disk/pool:--log-dir:/mnt/log",
        medium: "log: mode dax",
    },
];

/// Cuts each pool's power `cuts` times.
pub fn run(guest: &Guest, lines: usize, cuts: usize, random: &mut StdRng) -> Result<()> {
    for placement in PLACEMENTS {
        // Half of the disks write 4096 bytes at a time, or say so.
        let block = if random.random_bool(0.5) { 512 } else { 4096 };
        cut_often(guest, placement, block, (lines, cuts), random).context(placement.title)?;
    }
    println!("power-cut: {} cuts, every acknowledged row found", PLACEMENTS.len() * cuts);
    Ok(())
}

fn cut_often(
    guest: &Guest,
    placement: Placement,
    block: u32,
    (lines, cuts): (usize, usize),
    random: &mut StdRng,
) -> Result<()> {
    let Placement { title, opened, checked, medium } = placement;
    let disk = Disk::new(directory().join(format!("disk-{}", std::process::id())), DISK_BYTES)?;
    let machine = Machine::new(guest, FileSystem::Ext4, Memory::Adr)?;
    let load = format!("perdura-dax:{opened}:load:/disk/pool:/flights.csv");
    let acknowledged = |line: &str| line.strip_prefix("acknowledged ").and_then(|number| number.parse::<usize>().ok());
    let compare = |rows: usize| format!("perdura-dax:{opened}:compare:/disk/pool:/flights.csv:{rows}");
    let mut rows = 0;
    for cut in 0..=cuts {
        let serving = disk.serve(random.random())?;
        let compared = compare(rows);
        let steps: &[&str] = if cut == 0 { &[&load] } else { &[checked, &compared, checked, &load] };
        let mut running = machine.with_disk(serving.socket(), block).start(cut == 0, steps)?;
        let found = running.wait_for(|line| line.starts_with("medium: "))?;
        ensure!(found.contains(medium), "not {medium}: {found}");
        if cut == cuts {
            running.wait_for(|line| acknowledged(line) == Some(lines))?;
            running.wait()?;
            serving.end(0)?;
            break;
        }
        let until = rows + random.random_range(CUT_AFTER);
        running.wait_for(|line| acknowledged(line).is_some_and(|rows| rows >= until))?;
        serving.cut(random.random_range(1..CACHED_MAX), PATIENCE);
        let said = running.kill()?;
        let lost = serving.end(random.random_range(0..4))?;
        rows = said.iter().rev().find_map(|line| acknowledged(line)).unwrap_or_default();
        ensure!(rows < lines, "the load ended before the cut");
        println!(
            "power-cut: {title}, blocks of {block}: cut {} after {rows} rows, {} of {} cached sectors lost",
            cut + 1,
            lost.lost,
            lost.cached
        );
    }
    // The last guest has flushed all of it.
    let serving = disk.serve(random.random())?;
    let steps = [checked, &compare(lines)];
    let said = machine.with_disk(serving.socket(), block).start(false, &steps)?.wait()?;
    ensure!(said.iter().any(|line| *line == format!("compared {lines}")), "{said:?}");
    Ok(())
}
