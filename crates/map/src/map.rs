//! A map in a file: create, open, close, and the [`OrderedMap`] that callers use.
//!
//! A new file is written under another name and renamed once its content is durable, so that no
//! half-made map has its name.

use crate::changes::{Compared, KeyChange, Mutation};
use crate::config::{Config, Kind, Layout};
use crate::error::{Error, ErrorKind, Result};
use crate::index::Opened;
use crate::index::list::ListIndex;
use crate::index::tree::TreeIndex;
use crate::memory::aside::Aside;
use crate::memory::batch::Batch;
use crate::memory::format::{
    Geometry, IDENTITY_BYTES, Identity, PAGES_MIN, SUMMARY_AT, VERSION, Wrong, bytes_of, summary_word,
};
use crate::memory::pages::Pages;
use crate::memory::record::Records;
use crate::memory::root::{self, RING_AT, RING_BYTES, RootRecord};
use crate::ordered_map::OrderedMap;
use crate::scan::{Scan, Value, View};
use crate::space::{Demand, Space};
use crate::state::State;
use crate::state::core::Core;
use crate::state::ended::Ended;
use crate::state::history::{History, Tagged};
use crate::state::known::Known;
use crate::state::shared::Shared;
use crate::timestamps::{Timestamps, Ts};
use crate::transfer::load::Loader;
use crate::transfer::snapshot::Snapshot;
use crate::upkeep::audit;
use crate::upkeep::background::Background;
use crate::upkeep::structure::Structure;
use perdura_pmem::{Medium, Mutant, Region, planted, trace};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;

/// Suffix of a file that is not yet a map.
const UNFINISHED: &str = ".new";

/// A map in a file of a medium. Dropping it persists every change.
pub struct Map<I: Structure> {
    pub(crate) core: Arc<Core<I>>,
    background: Option<Background>,
}

/// The persistent append-only list, with its ordered index in DRAM.
pub type List = Map<ListIndex>;
/// The persistent copy-on-write B+-tree.
pub type BTree = Map<TreeIndex>;

/// Creates an empty map of a kind in a new file `name`. Errors: as [`Map::create`].
pub fn create(
    medium: &Arc<dyn Medium>,
    name: &str,
    kind: Kind,
    layout: &Layout,
    config: &Config,
) -> Result<Box<dyn OrderedMap>> {
    Ok(match kind {
        Kind::List => Box::new(List::create(medium, name, layout, config)?),
        Kind::BTree => Box::new(BTree::create(medium, name, layout, config)?),
    })
}

/// Opens the map in file `name`, which is of this kind. Errors: as [`Map::open`].
pub fn open_as(medium: &Arc<dyn Medium>, name: &str, kind: Kind, config: &Config) -> Result<Box<dyn OrderedMap>> {
    Ok(match kind {
        Kind::List => Box::new(List::open(medium, name, config)?),
        Kind::BTree => Box::new(BTree::open(medium, name, config)?),
    })
}

/// Opens the map in file `name`, whichever kind it is. Errors: as [`Map::open`].
pub fn open(medium: &Arc<dyn Medium>, name: &str, config: &Config) -> Result<Box<dyn OrderedMap>> {
    let region = medium.open(name)?;
    Ok(match identify(&region)?.kind {
        Kind::List => Box::new(List::open_region(region, config)?),
        Kind::BTree => Box::new(BTree::open_region(region, config)?),
    })
}

impl<I: Structure> Map<I> {
    /// Creates an empty map in a new file `name` (`name.new` until it is whole).
    ///
    /// Errors: `Exists`, `Configuration` (a region too small for 64 pages included), `Full`,
    /// `Medium`.
    pub fn create(medium: &Arc<dyn Medium>, name: &str, layout: &Layout, config: &Config) -> Result<Self> {
        layout.check()?;
        config.check()?;
        if name.ends_with(UNFINISHED) {
            let what = format!("{name}: names that end in {UNFINISHED} are those of unfinished maps; choose another");
            return Err(Error::new(ErrorKind::Configuration, what).in_file(name));
        }
        let geometry = Geometry::new(layout.bytes, layout.page_bytes);
        if geometry.pages < PAGES_MIN {
            let least = SUMMARY_AT + PAGES_MIN * (u64::from(layout.page_bytes) + 8) + 8192;
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
        let unfinished = format!("{name}{}", if planted(Mutant::MapNamedBeforeComplete) { "" } else { UNFINISHED });
        if files.iter().any(|(file, _)| *file == unfinished) {
            medium.remove(&unfinished)?;
        }
        let region = medium.create(&unfinished, layout.bytes)?;
        let salt = new_salt(config.seed, name);
        let identity = Identity { kind: I::KIND, layout: *layout, salt };
        region.write(0, &identity.encode());
        region.flush(0, IDENTITY_BYTES as u64);
        let (aside, mut batch) = (Aside { number: 1, ..Aside::default() }, Batch::default());
        aside.write(&region, &mut batch, salt);
        batch.flush(&region);
        root::create(&region, I::KIND, aside.short_number(), salt);
        region.flush(RING_AT, RING_BYTES);
        let summary: Vec<u64> = (0..geometry.blocks()).map(|block| summary_word(0, block, salt)).collect();
        region.write(SUMMARY_AT, bytes_of(&summary));
        region.flush(SUMMARY_AT, 8 * summary.len() as u64);
        region.fence();
        region.sync()?;
        medium.rename(&unfinished, name)?;
        medium.sync_dir()?;
        Map::open(medium, name, config)
    }

    /// Opens the map in file `name`. A list reads all its records, a B+-tree only its page table.
    ///
    /// Errors: `NotFound`, `Foreign` (not a map, or of the other kind), `Version`, `Damaged`,
    /// `Medium`.
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
        // Planted: a root record that a killed process stored is taken for durable.
        if !planted(Mutant::KilledRootCountsAsDurable) {
            region.reclaim(0, SUMMARY_AT);
        }
        let (root, next) = root::open(&region, identity.salt)?;
        let aside = Aside::read(&region, root.aside, identity.salt)?;
        let core = Arc::new(start::<I>(region, &identity, (&root, next), aside, config)?);
        let background = config.background.then(|| Background::start(core.clone())).transpose()?;
        Ok(Map { core, background })
    }
}

/// The salt of a new map, which tells its records from those that recycled memory still holds of
/// other maps.
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
    if region.len() < SUMMARY_AT {
        return Err(foreign(format!("{name} is not a map: it has {} bytes; name the right file", region.len())));
    }
    let mut bytes = [0; IDENTITY_BYTES];
    region.read(0, &mut bytes);
    Identity::decode(&bytes, region.len()).map_err(|wrong| match wrong {
        Wrong::Foreign => foreign(format!("{name} is not a map: its first bytes are others; name the right file")),
        Wrong::Version(version) => {
            let what =
                format!("{name} has format version {version}, this build {VERSION}; open it with the version that made it, and load its snapshot with this one");
            Error::new(ErrorKind::Version, what).in_file(name)
        }
        Wrong::Damaged(what) => Error::damaged(name, 0, what),
    })
}

fn start<I: Structure>(
    region: Region,
    identity: &Identity,
    (root, next): (&RootRecord, u64),
    aside: Aside,
    config: &Config,
) -> Result<Core<I>> {
    let layout = identity.layout;
    let geometry = Geometry::new(layout.bytes, layout.page_bytes);
    let mut pages = Pages::open(region.clone(), geometry, (root.number, next), identity.salt, I::node_bytes(&layout))?;
    let records = Records::new(region, geometry, identity.salt, pages.live.clone());
    let Opened { index, writer, versions, dead_deletions, is_counted } = I::open(&layout, &mut pages, &records, root)?;
    let tagged = match root.tag {
        Some((ts, tag)) => Tagged { ts, tag: tag.bytes().to_vec() },
        None => Tagged { ts: aside.tag_ts, tag: aside.tag.clone() },
    };
    if tagged.ts > root.forgotten {
        return Err(records.damaged(0, "the newest forgotten tag is above the forgotten timestamp"));
    }
    let mut history = History::open(root, tagged, versions);
    if is_counted {
        history.read(&records)?;
    }
    let state =
        State::open((pages, writer), history, Ended::open(dead_deletions), Known::open(is_counted, root.live), aside);
    Ok(Core::new(Shared::new(*config, records, index, root.forgotten, root.is_partial), state))
}

impl<I: Structure> Drop for Map<I> {
    fn drop(&mut self) {
        self.core.closing.begin();
        self.background = None;
        self.core.persist();
    }
}

impl<I: Structure> fmt::Debug for Map<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("kind", &I::KIND).field("file", &self.core.shared.records.region.name()).finish()
    }
}

/// Makes methods of a map that are those of its core.
macro_rules! of_core {
    ($(fn $name:ident(&self $(, $given:ident: $type:ty)*) -> $found:ty;)*) => {
        $(
            #[inline]
            fn $name(&self $(, $given: $type)*) -> $found {
                self.core.$name($($given),*)
            }
        )*
    };
}

impl<I: Structure> OrderedMap for Map<I> {
    of_core! {
        fn scan(&self, range: (Bound<&[u8]>, Bound<&[u8]>), at: Ts) -> Result<Scan<'_>>;
        fn prefix(&self, prefix: &[u8], at: Ts) -> Result<Scan<'_>>;
        fn view(&self, at: Ts) -> Result<View<'_>>;
        fn set(&self, ts: Ts, key: &[u8], value: &[u8]) -> Result<()>;
        fn delete(&self, ts: Ts, key: &[u8]) -> Result<bool>;
        fn compare_and_set(&self, ts: Ts, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Compared>;
        fn batch(&self, ts: Ts, tag: &[u8], changes: &[KeyChange<'_>]) -> Result<()>;
        fn put(&self, key: &[u8], value: &[u8]) -> Result<Ts>;
        fn remove(&self, key: &[u8]) -> Result<bool>;
        fn set_meta(&self, meta: &[u8]) -> Result<()>;
        fn apply(&self, ts: Ts) -> Result<()>;
        fn rollback(&self, from: Ts) -> Result<()>;
        fn forget(&self, up_to: Ts) -> Result<()>;
        fn mutations(&self, from: Ts, each: &mut dyn FnMut(Mutation<'_>) -> bool) -> Result<()>;
        fn collect(&self) -> Result<u64>;
        fn ask_collection(&self, demand: Demand) -> bool;
        fn is_asked(&self) -> bool;
        fn space(&self) -> Space;
        fn usage(&self) -> Space;
        fn has_run(&self, bytes: u64) -> bool;
    }

    #[inline]
    fn get(&self, key: &[u8], at: Ts) -> Result<Option<Value<'_>>> {
        self.core.shared.get(key, at)
    }

    fn kind(&self) -> Kind {
        I::KIND
    }

    fn forgotten_tag(&self) -> Option<(Ts, Vec<u8>)> {
        let Tagged { ts, tag } = self.core.state.lock().history.forgotten_tag().clone();
        (ts > 0).then_some((ts, tag))
    }

    fn meta(&self) -> Vec<u8> {
        self.core.state.lock().meta().to_vec()
    }

    fn persist(&self) -> Result<()> {
        self.core.persist();
        Ok(())
    }

    fn timestamps(&self) -> Timestamps {
        self.core.state.lock().history.times()
    }

    fn snapshot_within(&self, garbage_max: u64) -> Result<Snapshot> {
        Snapshot::take(&self.core, garbage_max)
    }

    fn load_snapshot(&self) -> Result<Loader> {
        Loader::begin(&self.core, false)
    }

    fn reset_and_load(&self) -> Result<Loader> {
        Loader::begin(&self.core, true)
    }

    fn try_load(&self, resets: bool) -> Result<Option<Loader>> {
        Loader::try_begin(&self.core, resets)
    }

    fn check(&self) -> Result<u64> {
        audit::check(&self.core)
    }
}
