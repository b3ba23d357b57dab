//! Shared by the map's tests: places to create maps in, of both kinds, and what tests read from
//! them.
#![allow(dead_code, reason = "each test uses a part")]

pub mod compare;
pub mod damage;
pub mod model;
pub mod root_slot;
pub mod signed;

use perdura_map::{Config, Error, ErrorKind, Kind, Layout, OrderedMap, Result, Scan, Ts};
use perdura_pmem::{FileMedium, Medium, Options, SimMedium};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

pub const KINDS: [Kind; 2] = [Kind::List, Kind::BTree];

/// The timestamp at which a read sees the newest version.
pub const NEWEST: Ts = Ts::MAX;

/// A key, its value, and the timestamp of the change that gave it.
pub type Owned = (Vec<u8>, Vec<u8>, Ts);

/// No background thread, a fixed seed, ten changes a batch.
pub fn quiet() -> Config {
    Config { background: false, seed: Some(1), ..Config::default() }
}

/// No background thread, a fixed seed, `changes_max` changes a batch.
pub fn quiet_every(changes_max: u32) -> Config {
    Config { changes_max, ..quiet() }
}

/// The default layout of a kind.
pub fn layout(kind: Kind, bytes: u64) -> Layout {
    match kind {
        Kind::List => Layout::list(bytes),
        Kind::BTree => Layout::btree(bytes),
    }
}

/// The smallest pages and nodes, so that a few entries fill several of both.
pub fn tiny_layout(bytes: u64) -> Layout {
    Layout { bytes, page_bytes: 256, branching: 4 }
}

/// Creates a map of a kind.
pub fn create(medium: &Arc<dyn Medium>, name: &str, kind: Kind, layout: &Layout, config: &Config) -> Result<Map> {
    perdura_map::create(medium, name, kind, layout, config)
}

/// A map of either kind.
pub type Map = Box<dyn OrderedMap>;

/// A medium to create maps in, and the kind they have.
pub struct Place {
    pub medium: Arc<dyn Medium>,
    pub kind: Kind,
    // Declared last, so that the medium is dropped first.
    _directory: Option<TempDir>,
}

impl Place {
    /// A place in simulated memory.
    pub fn simulated(kind: Kind) -> Place {
        Place { medium: Arc::new(SimMedium::new()), kind, _directory: None }
    }

    /// A place in files of a temporary directory, in a memory file system where there is one.
    ///
    /// libpmem2 1.12 keeps a thread-local key per mapping for ever, and a process has 1024: a test
    /// program may open several hundred files, not thousands.
    pub fn in_files(kind: Kind) -> Place {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let directory = made.expect("a temporary directory");
        let options = Options { emulate: true, create_dir: false };
        let medium = FileMedium::open(directory.path(), options).expect("the directory opens");
        Place { medium: Arc::new(medium), kind, _directory: Some(directory) }
    }

    /// A new map of 4 MiB.
    pub fn create(&self, name: &str) -> Map {
        self.create_with(name, &layout(self.kind, 4 << 20), &quiet())
    }

    /// A new map.
    pub fn create_with(&self, name: &str, layout: &Layout, config: &Config) -> Map {
        create(&self.medium, name, self.kind, layout, config).unwrap_or_else(|error| panic!("creating {name}: {error}"))
    }

    /// A new map of the other kind, of 4 MiB.
    pub fn create_other(&self, name: &str) -> Map {
        let kind = other(self.kind);
        let made = create(&self.medium, name, kind, &layout(kind, 4 << 20), &quiet());
        made.unwrap_or_else(|error| panic!("creating {name}: {error}"))
    }

    /// The map in file `name`.
    pub fn open(&self, name: &str) -> Map {
        perdura_map::open(&self.medium, name, &quiet()).unwrap_or_else(|error| panic!("opening {name}: {error}"))
    }
}

pub fn other(kind: Kind) -> Kind {
    match kind {
        Kind::List => Kind::BTree,
        Kind::BTree => Kind::List,
    }
}

/// All entries of a scan.
pub fn collect(mut scan: Scan<'_>) -> Result<Vec<Owned>> {
    let mut found = Vec::new();
    while let Some(entry) = scan.advance()? {
        found.push((entry.key.to_vec(), entry.value.to_vec(), entry.ts));
    }
    Ok(found)
}

/// All entries of a map at a timestamp.
pub fn all(map: &dyn OrderedMap, at: Ts) -> Vec<Owned> {
    map.prefix(b"", at).and_then(collect).unwrap_or_else(|error| panic!("scanning at {at}: {error}"))
}

/// The value of a key at a timestamp.
pub fn value(map: &dyn OrderedMap, key: &[u8], at: Ts) -> Option<Vec<u8>> {
    let value = map.get(key, at).unwrap_or_else(|error| panic!("reading {key:?} at {at}: {error}"));
    value.map(|value| value.to_vec())
}

/// A change: its timestamp, the key, and the value, or none for a deletion.
pub type Change = (Ts, Vec<u8>, Option<Vec<u8>>);

/// The changes from `from` on.
pub fn mutations(map: &dyn OrderedMap, from: Ts) -> Vec<Change> {
    let mut found = Vec::new();
    let each = &mut |mutation: perdura_map::Mutation<'_>| {
        found.push((mutation.ts, mutation.key.to_vec(), mutation.value.map(<[u8]>::to_vec)));
        true
    };
    map.mutations(from, each).unwrap_or_else(|error| panic!("listing the changes: {error}"));
    found
}

/// The kind of a result's error.
pub fn error_kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().as_ref().map(Error::kind)
}

/// Panics unless `result` is an error of this kind with a message of some length.
#[track_caller]
pub fn refused<T>(result: Result<T>, kind: ErrorKind) {
    match result {
        Ok(_) => panic!("it must be refused as {kind:?}"),
        Err(error) => {
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().len() > 10, "a message that helps: {error}");
        }
    }
}

/// A whole snapshot, as the chunks of its stream.
pub fn stream(map: &dyn OrderedMap, bytes_max: usize) -> Vec<Vec<u8>> {
    let snapshot = map.snapshot().expect("a snapshot");
    let chunks: Result<Vec<_>> = snapshot.chunks(bytes_max).collect();
    chunks.unwrap_or_else(|error| panic!("streaming: {error}"))
}

/// Loads the chunks of a stream.
pub fn load(map: &dyn OrderedMap, chunks: &[Vec<u8>]) -> Result<()> {
    let mut loader = map.load_snapshot()?;
    for chunk in chunks {
        loader.push(chunk)?;
    }
    loader.finish()
}

/// Collects until several rounds in a row free nothing: a later round frees what an earlier one has
/// unlinked.
pub fn collect_all(map: &dyn OrderedMap) {
    let (mut least, mut idle) = (u64::MAX, 0);
    for _ in 0..1000 {
        map.collect().expect("collecting");
        map.persist().expect("persisting");
        let used = map.space().used;
        idle = if used < least { 0 } else { idle + 1 };
        least = least.min(used);
        if idle == 3 {
            return;
        }
    }
    panic!("a thousand rounds of collection still free something");
}

/// The seeds from 0 to `count`, or to `PERDURA_SOAK` times that, or only the one that
/// `PERDURA_SEED` names.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("PERDURA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..count * number("PERDURA_SOAK").unwrap_or(1),
    }
}
