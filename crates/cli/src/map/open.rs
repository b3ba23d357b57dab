//! How the commands run the maps they open and make.

use super::failure::Outcome;
use perdura_map::{BTree, Config, Kind, Layout, List, OrderedMap};
use perdura_pmem::Medium;
use std::sync::Arc;

/// The command is the only user; it confirms when it is done, or after many changes.
pub fn config() -> Config {
    Config { changes_max: 1000, background: false, ..Config::default() }
}

/// Makes an empty map.
pub fn create(medium: &Arc<dyn Medium>, name: &str, kind: Kind, layout: &Layout) -> Outcome<Box<dyn OrderedMap>> {
    Ok(match kind {
        Kind::List => Box::new(List::create(medium, name, layout, &config())?),
        Kind::BTree => Box::new(BTree::create(medium, name, layout, &config())?),
    })
}

/// Bytes of the map's file.
pub fn file_bytes(medium: &dyn Medium, name: &str) -> Outcome<u64> {
    let files = medium.list().map_err(perdura_map::Error::from)?;
    Ok(files.into_iter().find(|(found, _)| found == name).map_or(0, |(_, bytes)| bytes))
}
