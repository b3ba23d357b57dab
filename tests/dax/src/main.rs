//! The guest's part of `cargo xtask dax` and `power-cut`: loads flights into a pool that must be on
//! DAX, or on a disk, one line of output for each acknowledged transaction, and compares the pool
//! with them after the virtual machine was killed.

#![forbid(unsafe_code)]

mod flights;

use flights::Flights;
use perdura_engine::{Config, Engine, FileMedium, LogConfig, Medium, MediumOptions};
use perdura_pmem::SplitMedium;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

const USAGE: &str = "\
usage: perdura-dax load POOL CSV        load the lines of CSV behind those that are there
       perdura-dax compare POOL CSV N   the first N lines, or one transaction more, are there; no other
       perdura-dax attach POOL          only open the pool
  --disk      the pool is on a disk, not on DAX
  --log=DIR   its log is on DAX in DIR, and its data are on a disk";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (options, words): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| word.starts_with("--"));
    let place = match options[..] {
        [] => Place::Dax,
        ["--disk"] => Place::Disk,
        [word] => Place::Split(word.strip_prefix("--log=").ok_or(USAGE)?.as_ref()),
        _ => return Err(USAGE.into()),
    };
    let open = |pool: &str| open(place, pool.as_ref());
    match words[..] {
        ["load", pool, csv] => {
            let engine = open(pool)?;
            let mut flights = Flights::open(&engine, csv.as_ref())?;
            flights.load()?;
            engine.close();
        }
        ["compare", pool, csv, acknowledged] => {
            let engine = open(pool)?;
            let rows = Flights::open(&engine, csv.as_ref())?.compare(acknowledged.parse()?)?;
            println!("compared {rows}");
            engine.close();
        }
        ["attach", pool] => open(pool)?.close(),
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

/// Media of a pool.
#[derive(Clone, Copy)]
enum Place<'a> {
    Dax,
    Disk,
    /// The log in this directory, on DAX, the data on a disk.
    Split(&'a Path),
}

/// Bytes of the journal of a pool on a disk: as few as may be, so that it is often full.
const JOURNAL_BYTES: u64 = 32 << 20;

/// Opens or creates the pool, and says what lies below it. Never emulates.
fn open(place: Place<'_>, directory: &Path) -> Result<Engine, Box<dyn Error>> {
    let on_dax = |directory| FileMedium::open(directory, MediumOptions { emulate: false, create_dir: true });
    let medium: Arc<dyn Medium> = match place {
        Place::Dax => Arc::new(on_dax(directory)?),
        Place::Disk => Arc::new(FileMedium::open_journaled(directory, true, JOURNAL_BYTES)?),
        Place::Split(log) => {
            let log = Arc::new(on_dax(log)?);
            let open = || FileMedium::open_journaled_on(&log, directory, true, JOURNAL_BYTES);
            Arc::new(SplitMedium::join(log.clone(), directory, open)?)
        }
    };
    let info = medium.info();
    println!("medium: {info}, MAP_SYNC {}, DAX attribute {}", info.map_sync, info.dax_attribute);
    let config = match place {
        Place::Dax => Config::default(),
        // Checkpoints all the time.
        Place::Disk | Place::Split(_) => Config {
            checkpoint_interval: Duration::from_millis(200),
            checkpoint_log_bytes: 256 << 10,
            data_file_bytes: 4 << 20,
            log: LogConfig { lane_bytes: 4 << 20, ..LogConfig::default() },
            ..Config::default()
        },
    };
    Ok(Engine::open(medium, config)?)
}
