//! A map in a file: create, open, close, and the [`OrderedMap`] that callers use.
//!
//! A new file is written under another name and renamed once its content is durable, so that no half-made map has its
//! name.

use crate::background::Background;
use crate::config::{Config, Kind, Layout};
use crate::dram_nodes::ListIndex;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    Geometry, IDENTITY_BYTES, Identity, NUMBER_MAX, PAGES_MIN, RECORD_HEADER_BYTES, ROOT_RECORD_BYTES,
    ROOT_RECORD_WORDS, ROOT_WORD_AT, RootRecord, TABLE_AT, VERSION, Wrong, bytes_of, free_page_words, node_bytes,
    root_number, root_word,
};
use crate::index::{Index, Store};
use crate::load::Loader;
use crate::ordered_map::{Mutation, OrderedMap};
use crate::page_nodes::TreeIndex;
use crate::pages::{Pages, Urgency};
use crate::pending::Pending;
use crate::rebuild::{Rebuilt, rebuild};
use crate::record::Records;
use crate::scan::{Scan, Value};
use crate::snapshot::Snapshot;
use crate::space::Space;
use crate::state::{Core, State};
use crate::timestamps::{Timestamps, Ts};
use crate::tree::{self, Edit, ReadNodes};
use perdura_pmem::{Medium, Region, planted, trace};
use rustc_hash::FxHashSet;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Suffix of a file that is not yet a map.
const UNFINISHED: &str = ".new";

/// A map in a file of a medium. Dropping it confirms every change.
pub struct Map<I: Index> {
    core: Arc<Core<I>>,
    background: Option<Background>,
}

/// The persistent append-only list, with its ordered index in DRAM.
pub type List = Map<ListIndex>;
/// The persistent copy-on-write B+-tree.
pub type BTree = Map<TreeIndex>;

/// Opens the map in file `name`, whichever kind it is. Errors: as [`Map::open`].
pub fn open(medium: &Arc<dyn Medium>, name: &str, config: &Config) -> Result<Box<dyn OrderedMap>> {
    let region = medium.open(name)?;
    Ok(match identify(&region)?.kind {
        Kind::List => Box::new(List::open_region(region, config)?),
        Kind::BTree => Box::new(BTree::open_region(region, config)?),
    })
}

impl<I: Index> Map<I> {
    /// Creates an empty map in a new file `name` (`name.new` until it is whole).
    ///
    /// Errors: `Exists`, `Configuration` (a region too small for 64 pages included), `Full`, `Medium`.
    pub fn create(medium: &Arc<dyn Medium>, name: &str, layout: &Layout, config: &Config) -> Result<Self> {
        layout.check()?;
        config.check()?;
        if name.ends_with(UNFINISHED) {
            let what = format!("{name}: names that end in {UNFINISHED} are those of unfinished maps; choose another");
            return Err(Error::new(ErrorKind::Configuration, what).in_file(name));
        }
        let geometry = Geometry::new(layout.bytes, layout.page_bytes);
        if geometry.pages < PAGES_MIN {
            let least = TABLE_AT + PAGES_MIN * (u64::from(layout.page_bytes) + 8) + 8192;
            let what = format!(
                "{name}: {} bytes hold {} pages of {} bytes; use at least {least} bytes for {PAGES_MIN} pages",
                layout.bytes, geometry.pages, layout.page_bytes
            );
            return Err(Error::new(ErrorKind::Configuration, what).in_file(name));
        }
        let _span = trace::span("map_create");
        let files = medium.list()?;
        if files.iter().any(|(file, _)| file == name) {
            let what = format!("{name} exists already; remove it or choose another name");
            return Err(Error::new(ErrorKind::Exists, what).in_file(name));
        }
        // Planted: a map has its name before it is whole.
        let unfinished = format!("{name}{}", if planted(145) { "" } else { UNFINISHED });
        if files.iter().any(|(file, _)| *file == unfinished) {
            medium.remove(&unfinished)?;
        }
        let region = medium.create(&unfinished, layout.bytes)?;
        let salt = new_salt(config.seed, name);
        let identity = Identity { kind: I::KIND, layout: *layout, salt };
        region.write(0, &identity.encode());
        let record = RootRecord { number: 1, ..RootRecord::default() };
        region.write(RootRecord::slot_at(1), bytes_of(&record.encode(salt)));
        region.store(ROOT_WORD_AT, root_word(1, salt));
        region.flush(0, ROOT_WORD_AT + 8);
        region.flush(RootRecord::slot_at(1), ROOT_RECORD_BYTES);
        region.write(TABLE_AT, bytes_of(&free_page_words(geometry.pages, salt)));
        region.flush(TABLE_AT, 8 * geometry.pages);
        region.fence();
        region.sync()?;
        medium.rename(&unfinished, name)?;
        medium.sync_dir()?;
        Map::open(medium, name, config)
    }

    /// Opens the map in file `name`. A list reads all its records, a B+-tree only its page table.
    ///
    /// Errors: `NotFound`, `Foreign` (not a map, or of the other kind), `Version`, `Damaged`, `Medium`.
    pub fn open(medium: &Arc<dyn Medium>, name: &str, config: &Config) -> Result<Self> {
        Map::open_region(medium.open(name)?, config)
    }

    fn open_region(region: Region, config: &Config) -> Result<Self> {
        config.check()?;
        let identity = identify(&region)?;
        if identity.kind != I::KIND {
            let what = format!("{} is a {}; open it as one, not as a {}", region.name(), identity.kind, I::KIND);
            return Err(Error::new(ErrorKind::Foreign, what).in_file(region.name()));
        }
        let _span = trace::span("map_open");
        // Planted: a root word that a killed process stored is taken for durable.
        if !planted(146) {
            region.reclaim(0, TABLE_AT);
        }
        let root = root_record(&region, identity.salt)?;
        let core = Arc::new(start::<I>(region, &identity, &root, config)?);
        let background = config.background.then(|| Background::start(core.clone())).transpose()?;
        Ok(Map { core, background })
    }
}

/// The salt of a new map, which tells its records from those that recycled memory still holds of other maps.
fn new_salt(seed: Option<u64>, name: &str) -> u64 {
    match seed {
        Some(seed) => {
            name.bytes().fold(seed, |salt, byte| (salt ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        }
        #[allow(clippy::disallowed_methods, reason = "the operating system is asked only where no seed is given")]
        None => RandomState::new().hash_one(name),
    }
}

/// Reads and checks the identity of a file.
fn identify(region: &Region) -> Result<Identity> {
    let name = region.name();
    let foreign = |what: String| Error::new(ErrorKind::Foreign, what).in_file(name).at(0);
    if region.len() < TABLE_AT {
        return Err(foreign(format!("{name} is not a map: it has {} bytes; name the right file", region.len())));
    }
    let mut bytes = [0; IDENTITY_BYTES];
    region.read(0, &mut bytes);
    Identity::decode(&bytes, region.len()).map_err(|wrong| match wrong {
        Wrong::Foreign => foreign(format!("{name} is not a map: its first bytes are others; name the right file")),
        Wrong::Version(version) => {
            let what =
                format!("{name} has format version {version}, this build {VERSION}; use the version that made it");
            Error::new(ErrorKind::Version, what).in_file(name)
        }
        Wrong::Damaged(what) => Error::damaged(name, 0, what),
    })
}

/// The root record that the root word names. It was fenced before the word was stored (I3), so an invalid one is damage
/// and never a torn write.
fn root_record(region: &Region, salt: u64) -> Result<RootRecord> {
    let Some(number) = root_number(region.load(ROOT_WORD_AT), salt) else {
        return Err(Error::damaged(region.name(), ROOT_WORD_AT, "the root word fails its check"));
    };
    let slot = RootRecord::slot_at(number);
    let words: [u64; ROOT_RECORD_WORDS] = std::array::from_fn(|index| region.load(slot + 8 * index as u64));
    let valid = RootRecord::decode(&words, salt).filter(|record| record.number == number && number < NUMBER_MAX);
    let record = valid
        .ok_or_else(|| Error::damaged(region.name(), slot, "the root record is not the one the root word names"))?;
    let ordered = record.forgotten <= record.applied && record.applied <= record.last && record.last < Ts::MAX;
    if !ordered {
        return Err(Error::damaged(region.name(), slot, "a root record with impossible timestamps"));
    }
    let most = region.len() / RECORD_HEADER_BYTES;
    if record.versions > most || record.pending > most || record.live > region.len() {
        return Err(Error::damaged(region.name(), slot, "a root record that counts more than the file can hold"));
    }
    Ok(record)
}

fn start<I: Index>(region: Region, identity: &Identity, root: &RootRecord, config: &Config) -> Result<Core<I>> {
    let layout = identity.layout;
    let geometry = Geometry::new(layout.bytes, layout.page_bytes);
    let node_bytes = if I::KIND == Kind::BTree { node_bytes(1, layout.branching) } else { 0 };
    let mut pages = Pages::open(region.clone(), geometry, root.number, identity.salt, node_bytes)?;
    let records = Records { region, geometry, salt: identity.salt, live: pages.live.clone() };
    let (mut store, reader) = I::Store::new(&layout, &pages, &records);
    let mut tree_root = 0;
    let rebuilt = match I::KIND {
        Kind::List => {
            let rebuilt = rebuild(&records, &mut pages, root)?;
            {
                let mut nodes = store.writer(&reader, &mut pages, Urgency::Ordinary);
                tree_root = tree::build(&mut nodes, &records, &rebuilt.entries, &mut Edit::default())?;
            }
            rebuilt
        }
        Kind::BTree => {
            if root.root != 0 {
                reader.node(root.root, None)?;
                tree_root = root.root;
            }
            let pending = Pending::unread(root.head, root.pending);
            Rebuilt { entries: Vec::new(), pending, orphans: FxHashSet::default(), dead_deletions: Vec::new() }
        }
    };
    let versions = if I::KIND == Kind::List { rebuilt.entries.len() as u64 } else { root.versions };
    let state = State {
        pages,
        store,
        root: tree_root,
        head: root.head,
        times: Timestamps { last: root.last, applied: root.applied, forgotten: root.forgotten, confirmed: root.last },
        pending: rebuilt.pending,
        versions,
        changes: 0,
        is_dirty: false,
        dead: Vec::new(),
        cut: Vec::new(),
        orphans: rebuilt.orphans,
        dead_deletions: rebuilt.dead_deletions,
        spare: Edit::default(),
        snapshots: 0,
        is_loading: false,
        garbage_left: 0,
        damage: None,
        is_traversed: I::KIND == Kind::List,
        saved_live: root.live,
    };
    Ok(Core::new(layout, *config, records, reader, state))
}

impl<I: Index> Drop for Map<I> {
    fn drop(&mut self) {
        self.core.is_closing.store(true, Ordering::Relaxed);
        self.background = None;
        self.core.confirm(&mut self.core.state.lock());
    }
}

impl<I: Index> fmt::Debug for Map<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("kind", &I::KIND).field("file", &self.core.records.region.name()).finish()
    }
}

impl<I: Index> OrderedMap for Map<I> {
    fn kind(&self) -> Kind {
        I::KIND
    }

    #[inline]
    fn get(&self, key: &[u8], at: Ts) -> Result<Option<Value<'_>>> {
        self.core.get(key, at)
    }

    fn scan(&self, range: (Bound<&[u8]>, Bound<&[u8]>), at: Ts) -> Result<Scan<'_>> {
        self.core.scan(range, at)
    }

    fn prefix(&self, prefix: &[u8], at: Ts) -> Result<Scan<'_>> {
        self.core.prefix(prefix, at)
    }

    #[inline]
    fn set(&self, ts: Ts, key: &[u8], value: &[u8]) -> Result<()> {
        self.core.set(ts, key, value)
    }

    fn delete(&self, ts: Ts, key: &[u8]) -> Result<bool> {
        self.core.delete(ts, key)
    }

    fn compare_and_set(&self, ts: Ts, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        self.core.compare_and_set(ts, key, expected, new)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<Ts> {
        self.core.put(key, value)
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        self.core.remove(key)
    }

    fn confirm(&self) -> Result<()> {
        self.core.confirm(&mut self.core.state.lock());
        Ok(())
    }

    fn apply(&self, ts: Ts) -> Result<()> {
        self.core.apply(ts)
    }

    fn rollback(&self, from: Ts) -> Result<()> {
        self.core.rollback(from)
    }

    fn forget(&self, up_to: Ts) -> Result<()> {
        self.core.forget(up_to)
    }

    fn mutations(&self, from: Ts, each: &mut dyn FnMut(Mutation<'_>) -> bool) -> Result<()> {
        self.core.mutations(from, each)
    }

    fn timestamps(&self) -> Timestamps {
        self.core.state.lock().times
    }

    fn snapshot(&self) -> Result<Snapshot<'_>> {
        self.core.snapshot()
    }

    fn load_snapshot(&self) -> Result<Loader<'_>> {
        self.core.load_snapshot()
    }

    fn collect(&self) -> Result<u64> {
        self.core.collect()
    }

    fn space(&self) -> Space {
        self.core.space()
    }

    fn check(&self) -> Result<u64> {
        self.core.check()
    }
}
