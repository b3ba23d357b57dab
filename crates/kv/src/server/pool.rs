//! The replica's data in its directory: made once, opened by one process at a time.

use std::fs::{DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use perdura_map::{Kind, Layout};
use perdura_pmem::{FileMedium, Medium, Options};
use rustix::fs::{FlockOperation, flock};

use crate::config::{self, Config, StoreKind};
use crate::store::{Error, ErrorKind, Files, MapConfig, MapStore, PersistentState, Store, WalConfig, WalStore};

/// The file of a map.
const MAP: &str = "kv.map";
const LOCK: &str = ".lock";

/// A store, and what keeps other processes from it.
pub struct Pool {
    /// The store.
    pub store: Box<dyn Store>,
    /// To be dropped after the store.
    pub lock: Lock,
}

/// Lock that keeps other processes from a directory while it lives.
pub enum Lock {
    /// The medium of a map, which has locked its directory.
    Medium(Arc<dyn Medium>),
    /// The locked file of a directory of files.
    File(File),
}

/// Reason for which there is no pool. The text names the directory, the fault and the remedy.
#[derive(Debug)]
pub enum StartError {
    /// It can be used, but not so, or not now.
    Refused(String),
    /// Its bytes are not what was written.
    Damaged(String),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (StartError::Refused(text) | StartError::Damaged(text)) = self;
        f.write_str(text)
    }
}

type Result<T> = std::result::Result<T, StartError>;

fn refused<T>(text: impl Into<String>) -> Result<T> {
    Err(StartError::Refused(text.into()))
}

/// How a store over a map is run, by a configuration.
fn map_config(config: &config::Store) -> MapConfig {
    MapConfig {
        ring_bytes: config.ring_size.0,
        snapshot_garbage_bytes: config.snapshot_garbage_size.0,
        ..MapConfig::default()
    }
}

fn wal_config(config: &config::Store) -> WalConfig {
    let state_bytes_max = if config.state_size.0 == 0 { memory_bytes() / 2 } else { config.state_size.0 };
    WalConfig {
        ring_bytes: config.ring_size.0,
        log_bytes: config.log_size.0,
        state_bytes_max,
        snapshot_garbage_bytes: config.snapshot_garbage_size.0,
        ..WalConfig::default()
    }
}

/// Bytes of DRAM that the machine has, or no bound if it does not say.
fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib * 1024)
}

fn medium(config: &Config, create_dir: bool) -> Result<Arc<dyn Medium>> {
    let options = Options { emulate: config.store.emulate, create_dir };
    let model = config.store.model().map_err(StartError::Refused)?;
    match FileMedium::open(&config.directory, options).and_then(|medium| medium.with_model(model)) {
        Ok(medium) => Ok(Arc::new(medium)),
        Err(error) => refused(match error.kind() {
            perdura_pmem::ErrorKind::NotDax => {
                format!(
                    "{error}: use store.kind = \"wal\", or store.emulate = true to bear the loss of data with the power"
                )
            }
            perdura_pmem::ErrorKind::InUse => format!("{error}: another process runs this replica"),
            perdura_pmem::ErrorKind::NotFound => {
                format!("{error}: make the replica first, by `perdura-kv init` or `join`")
            }
            _ => error.to_string(),
        }),
    }
}

/// The files of a store with a log.
fn files(config: &Config) -> Result<Arc<Files>> {
    let model = config.store.model().map_err(StartError::Refused)?;
    Ok(Arc::new(Files::new(&config.directory, model)))
}

/// Whether a directory has the files of a store with a log.
fn has_log(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("state."))
}

/// Makes the directory of a replica's data, unless it is there. Its owner alone may look into it:
/// there are all values, and the hashes of passwords.
fn make_directory(directory: &Path) -> Result<()> {
    let made = DirBuilder::new().mode(0o700).create(directory);
    match made.and_then(|()| std::fs::set_permissions(directory, Permissions::from_mode(0o700))) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            refused(format!("{}: {error}", directory.display()))
        }
        _ => Ok(()),
    }
}

/// Locks a directory of files.
fn lock(directory: &Path) -> Result<File> {
    let named = |error: std::io::Error| StartError::Refused(format!("{}: {error}", directory.display()));
    let file = File::options().create(true).truncate(false).write(true).open(directory.join(LOCK)).map_err(named)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(_) => refused(format!("{}: in use: another process runs this replica", directory.display())),
    }
}

/// Explains an error of a store to the operator of a directory.
pub fn start_error(directory: &Path, error: &Error) -> StartError {
    let place = directory.display();
    match error.kind() {
        ErrorKind::Damaged => StartError::Damaged(format!(
            "{place}: the data of this replica are damaged: {error}. The other replicas have what it had. Move the directory \
             away, and let the machine join as a new replica: perdura-kv join --config FILE --to HOST:PORT of a member. The new one \
             takes the old one's place."
        )),
        ErrorKind::NotFound => {
            StartError::Refused(format!("{place}: {error}: make the replica first, by `perdura-kv init` or `join`"))
        }
        ErrorKind::Exists => StartError::Refused(format!("{place}: there is a replica already: {error}")),
        _ => StartError::Refused(format!("{place}: {error}")),
    }
}

/// Whether another process runs the replica in a directory. Nothing is made there.
pub fn is_in_use(directory: &Path) -> bool {
    let Ok(file) = File::open(directory.join(LOCK)) else { return false };
    flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
}

/// Which store a directory has.
pub fn kind_of(directory: &Path) -> Result<StoreKind> {
    if has_log(directory) {
        return Ok(StoreKind::Wal);
    }
    if !directory.join(MAP).exists() {
        return refused(format!("{}: there is no replica", directory.display()));
    }
    let options = Options { emulate: true, create_dir: false };
    let medium = FileMedium::open(directory, options).map_err(|error| StartError::Refused(error.to_string()))?;
    let medium: Arc<dyn Medium> = Arc::new(medium);
    let map = MapStore::open(&medium, MAP, &MapConfig { background: false, ..MapConfig::default() });
    let map = map.map_err(|error| start_error(directory, &error))?;
    Ok(if map.map().kind() == Kind::List { StoreKind::List } else { StoreKind::Btree })
}

/// Makes the data of a new replica. `clock_ms` is the clock of the founding entry, if it founds a
/// cluster.
pub fn create(config: &Config, persistent_state: &PersistentState, clock_ms: u64) -> Result<Pool> {
    let directory = &config.directory;
    let named = |error: Error| start_error(directory, &error);
    if directory.join(MAP).exists() || has_log(directory) {
        return refused(format!(
            "{}: there is a replica already; use another directory, or remove it",
            directory.display()
        ));
    }
    let layout = |kind| match kind {
        Kind::List => Layout::list(config.store.size.0),
        Kind::BTree => Layout::btree(config.store.size.0),
    };
    let make = |kind| -> Result<Pool> {
        make_directory(directory)?;
        let (medium, settings) = (medium(config, true)?, map_config(&config.store));
        let store = MapStore::create(&medium, MAP, (kind, &layout(kind)), persistent_state, clock_ms, &settings)
            .map_err(named)?;
        Ok(Pool { store: Box::new(store), lock: Lock::Medium(medium) })
    };
    if let Some(parent) = directory.parent() {
        let named = |error: std::io::Error| StartError::Refused(format!("{}: {error}", parent.display()));
        std::fs::create_dir_all(parent).map_err(named)?;
    }
    match config.store.kind {
        StoreKind::List => make(Kind::List),
        StoreKind::Btree => make(Kind::BTree),
        StoreKind::Wal => {
            make_directory(directory)?;
            let lock = lock(directory)?;
            let store = WalStore::create(files(config)?, persistent_state, clock_ms, &wal_config(&config.store))
                .map_err(named)?;
            Ok(Pool { store: Box::new(store), lock: Lock::File(lock) })
        }
    }
}

/// Opens the replica's data.
pub fn open(config: &Config) -> Result<Pool> {
    let directory = &config.directory;
    let named = |error: Error| start_error(directory, &error);
    let (has_map, has_log) = (directory.join(MAP).exists(), has_log(directory));
    let other =
        |kind: &str| refused(format!("{}: the replica there is a {kind}: set store.kind to it", directory.display()));
    match config.store.kind {
        StoreKind::Wal if has_map => other("map (list or btree)"),
        StoreKind::List | StoreKind::Btree if has_log => other("wal"),
        StoreKind::Wal if !directory.exists() => {
            refused(format!("{}: make the replica first, by `perdura-kv init` or `join`", directory.display()))
        }
        StoreKind::Wal => {
            let lock = lock(directory)?;
            let store = WalStore::open(files(config)?, &wal_config(&config.store)).map_err(named)?;
            Ok(Pool { store: Box::new(store), lock: Lock::File(lock) })
        }
        kind => {
            let medium = medium(config, false)?;
            let store = MapStore::open(&medium, MAP, &map_config(&config.store)).map_err(named)?;
            let found = if store.map().kind() == Kind::List { StoreKind::List } else { StoreKind::Btree };
            if found != kind {
                return other(if found == StoreKind::List { "list" } else { "btree" });
            }
            Ok(Pool { store: Box::new(store), lock: Lock::Medium(medium) })
        }
    }
}
