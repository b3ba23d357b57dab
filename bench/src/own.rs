//! The project's own maps as a store, used as a replicated server uses them: each change has its
//! own timestamp, one above the last, and after every batch all changes so far are applied and
//! forgotten.
//!
//! Thread-safety: one user; the map's own background thread runs unless switched off.

use crate::keys::{KEY_BYTES, Key};
use crate::store::{Store, looked_at};
use perdura_map::{BTree, Config, ErrorKind, Kind, Layout, List, OrderedMap, Result, Ts};
use perdura_pmem::{FileMedium, Medium, Model, Options, Preset};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Name of the map's file.
const FILE: &str = "map";
/// Attempts to make room before a change fails.
const TRIES: usize = 1000;
/// Free bytes of a region besides the data, at least.
const ROOM_BYTES: u64 = 32 << 20;
/// Upper bound of a record's bytes besides key and value.
const RECORD_BYTES: u64 = 64;
/// Upper bound of a B+-tree's leaf bytes for one key.
const LEAF_BYTES: u64 = 256;
/// Dead nodes that one change may leave until the collector frees them.
const PATH_BYTES: u64 = 1200;
/// Changes that the collector may lag behind.
const LAG: u64 = 250_000;

/// How a map is created and opened.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The structure.
    pub kind: Kind,
    /// How it is created.
    pub layout: Layout,
    /// How it is opened.
    pub config: Config,
}

impl Settings {
    /// The defaults, with a region large enough for `keys` values of `value_bytes`, persisted every
    /// `batch` changes.
    pub fn new(kind: Kind, keys: usize, value_bytes: usize, batch: usize) -> Settings {
        let keys = keys as u64;
        let record = KEY_BYTES as u64 + value_bytes as u64 + RECORD_BYTES;
        // Twice the data: as much may be garbage or, in the list, deletions.
        let records = 2 * keys * record + ROOM_BYTES;
        let layout = match kind {
            Kind::List => Layout::list(records),
            Kind::BTree => Layout::btree(records + keys * LEAF_BYTES + keys.min(LAG) * PATH_BYTES),
        };
        let config = Config { changes_max: batch as u32, ..Config::default() };
        Settings { kind, layout, config }
    }

    /// The same without the background thread.
    pub fn without_background(mut self) -> Settings {
        self.config.background = false;
        self
    }
}

/// Names the medium whose time emulated memory takes in all programs, as `perdura_emulate_model`
/// does in the server.
const MODEL_VARIABLE: &str = "PERDURA_EMULATE_MODEL";

/// A directory as a medium; emulated unless it lies on persistent memory, and then with the model
/// of the environment variable `PERDURA_EMULATE_MODEL`, if there is one.
pub fn medium(directory: &Path) -> Arc<dyn Medium> {
    let model = std::env::var(MODEL_VARIABLE).unwrap_or_default();
    Arc::new(modelled(directory, Model::parse(&model).expect("the variable names a model")))
}

/// A directory as a medium with this model, or with none.
pub fn modelled(directory: &Path, model: Option<Model>) -> FileMedium {
    let options = Options { emulate: true, create_dir: true };
    let medium = FileMedium::open(directory, options).and_then(|medium| medium.with_model(model));
    medium.expect("the directory can be used")
}

/// [`medium`], or where one is named, emulated memory that takes its time.
pub fn medium_like(directory: &Path, model: Option<Preset>) -> Arc<dyn Medium> {
    match model {
        Some(preset) => Arc::new(modelled(directory, Some(Model::new(preset)))),
        None => medium(directory),
    }
}

/// A map and the timestamp of its newest change.
pub struct Own {
    map: Box<dyn OrderedMap>,
    ts: Ts,
}

impl Own {
    /// Creates an empty map in `directory`.
    pub fn create(directory: &Path, settings: &Settings) -> Own {
        let medium = medium(directory);
        let (layout, config) = (&settings.layout, &settings.config);
        let map: Result<Box<dyn OrderedMap>> = match settings.kind {
            Kind::List => List::create(&medium, FILE, layout, config).map(|map| Box::new(map) as _),
            Kind::BTree => BTree::create(&medium, FILE, layout, config).map(|map| Box::new(map) as _),
        };
        Own { map: map.expect("the map can be made"), ts: 0 }
    }

    /// Opens the map in a directory.
    pub fn open(medium: &Arc<dyn Medium>, config: &Config) -> Own {
        let map = perdura_map::open(medium, FILE, config).expect("the map can be opened");
        let ts = map.timestamps().last;
        Own { map, ts }
    }

    /// The map.
    pub fn map(&self) -> &dyn OrderedMap {
        &*self.map
    }

    /// Changes one key, and applies and forgets all if that closes a batch. For measurements of
    /// single changes.
    pub fn set(&mut self, key: &Key, value: &[u8], closes: bool) {
        self.ts += 1;
        let ts = self.ts;
        self.change(|map| map.set(ts, key, value));
        if closes {
            self.settle();
        }
    }

    /// Applies all changes and forgets all superseded versions.
    pub fn settle(&self) {
        // After a crash, or without changes, nothing may be left to apply.
        let last = self.map.timestamps().last;
        self.map.apply(last).expect("what was changed can be applied");
        self.map.forget(last).expect("what was applied can be forgotten");
    }

    /// Makes a change. Without room it forgets superseded versions and collects them, as any user
    /// must. That time counts.
    fn change<T>(&self, mut change: impl FnMut(&dyn OrderedMap) -> Result<T>) -> T {
        for _ in 0..TRIES {
            match change(self.map()) {
                Ok(value) => return value,
                Err(error) if error.kind() == ErrorKind::Full => self.make_room(),
                Err(error) => panic!("{}: {error}", self.map.kind()),
            }
        }
        panic!("{}: still full after {TRIES} collections: {:?}", self.map.kind(), self.map.space())
    }

    #[cold]
    fn make_room(&self) {
        self.settle();
        self.map.persist().expect("changes can be persisted");
        if self.map.collect().expect("garbage can be collected") == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Store for Own {
    fn insert(&mut self, keys: &[Key], value: &[u8], batch: usize) {
        for keys in keys.chunks(batch) {
            for key in keys {
                self.set(key, value, false);
            }
            self.settle();
        }
        self.map.persist().expect("changes can be persisted");
    }

    fn read(&self, keys: &[Key]) -> u64 {
        let at = self.map.timestamps().applied;
        let read = |key: &Key| {
            let value = self.map.get(key, at).expect("the map can be read").expect("the key is there");
            looked_at(&value)
        };
        keys.iter().map(read).sum()
    }

    fn delete(&mut self, keys: &[Key], batch: usize) {
        for keys in keys.chunks(batch) {
            for key in keys {
                self.ts += 1;
                let ts = self.ts;
                assert!(self.change(|map| map.delete(ts, key)), "the key is there");
            }
            self.settle();
        }
        self.map.persist().expect("changes can be persisted");
    }
}
