//! Small pools for the tests of the command.

use perdura_engine::{Config, Engine, Error, LogConfig};
use perdura_pmem::{FileMedium, Medium, Options};
use std::path::Path;
use std::sync::Arc;

/// The files in `directory`, locked as a server locks them.
pub fn medium(directory: &Path) -> Arc<dyn Medium> {
    let options = Options { emulate: true, ..Options::default() };
    Arc::new(FileMedium::open(directory, options).expect("a medium"))
}

/// Opens the pool in `directory`, or creates it with small files and without background threads.
pub fn open(directory: &Path) -> Result<Engine, Error> {
    open_on(medium(directory))
}

/// The same on any medium.
pub fn open_on(medium: Arc<dyn Medium>) -> Result<Engine, Error> {
    let config = Config {
        log: LogConfig { lanes: 2, lane_bytes: 64 << 10, generations: 2, generations_max: 4, ..LogConfig::default() },
        data_file_bytes: 1 << 20,
        first_file_bytes: 128 << 10,
        segment_bytes: 4 << 10,
        page_words: 32,
        prefault: false,
        background: false,
        ..Config::default()
    };
    Engine::open(medium, config)
}
