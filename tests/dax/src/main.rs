//! The guest's part of `cargo xtask dax`: loads flights into a pool that must be on DAX, one line
//! of output for each acknowledged transaction, and compares the pool with them after the virtual
//! machine was killed.

#![forbid(unsafe_code)]

mod flights;

use flights::Flights;
use perdura_engine::{Config, Engine, FileMedium, Medium, MediumOptions};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

const USAGE: &str = "\
usage: perdura-dax load POOL CSV        load the lines of CSV behind those that are there
       perdura-dax compare POOL CSV N   the first N lines, or one transaction more, are there; no other
       perdura-dax attach POOL          only open the pool";

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
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["load", pool, csv] => {
            let engine = open(pool.as_ref())?;
            let mut flights = Flights::open(&engine, csv.as_ref())?;
            flights.load()?;
            engine.close();
        }
        ["compare", pool, csv, acknowledged] => {
            let engine = open(pool.as_ref())?;
            let rows = Flights::open(&engine, csv.as_ref())?.compare(acknowledged.parse()?)?;
            println!("compared {rows}");
            engine.close();
        }
        ["attach", pool] => open(pool.as_ref())?.close(),
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

/// Opens or creates the pool, and says what lies below it. Never emulates.
fn open(directory: &Path) -> Result<Engine, Box<dyn Error>> {
    let medium = FileMedium::open(directory, MediumOptions { emulate: false, create_dir: true })?;
    let info = medium.info();
    println!("medium: {info}, MAP_SYNC {}, DAX attribute {}", info.map_sync, info.dax_attribute);
    Ok(Engine::open(Arc::new(medium), Config::default())?)
}
