//! Opening and creating maps for one command.

use super::outcome::{Failure, Outcome};
use perdura_map::{Config, Kind, Layout, OrderedMap};
use perdura_pmem::{FileMedium, Medium, Options};
use std::path::Path;
use std::sync::Arc;

/// Opens the directory that holds the map's file.
pub fn medium(directory: &Path, emulate: bool, create_dir: bool) -> Outcome<Arc<dyn Medium>> {
    match FileMedium::open(directory, Options { emulate, create_dir }) {
        Ok(medium) => Ok(Arc::new(medium)),
        Err(error) if error.kind() == perdura_pmem::ErrorKind::NotDax => {
            Err(Failure::new(format!("{error}: --emulate")))
        }
        Err(error) => Err(Failure::new(error.to_string())),
    }
}

/// The command is the map's only user. It persists when it is done, or after many changes.
pub fn config() -> Config {
    Config { changes_max: 1000, background: false, ..Config::default() }
}

/// Creates the map `name`.
pub fn create(medium: &Arc<dyn Medium>, name: &str, kind: Kind, layout: &Layout) -> Outcome<Box<dyn OrderedMap>> {
    Ok(perdura_map::create(medium, name, kind, layout, &config())?)
}
