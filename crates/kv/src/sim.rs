//! Simulated media of single replicas, of all variants of stores, whose power can fail: for the
//! tests of this crate, the simulator of clusters (tests/sim) and the fuzz targets.

use std::ops::ControlFlow;
use std::sync::Arc;

use perdura_map::{Kind, Layout};
use perdura_pmem::sim::{Image, PointKind, Random, Recorder, ReplayOptions, Seen};
use perdura_pmem::{Medium, SimMedium};

use crate::store::{MapConfig, MapStore, PersistentState, Result, SimDisk, Store, WalConfig, WalStore};

const NAME: &str = "replica";
/// DRAM for the ring: a few entries, so that replicas that lag need snapshots.
const RING_BYTES: u64 = 2000;
/// The founding entry's clock.
const FOUNDED_MS: u64 = 1000;
/// Choices of what survives, of which one is taken.
const CHOICES: usize = 3;

/// Most writes that a call is let make before the power fails in it.
const WRITES_OF_CALL: u64 = 3;

/// A variant of stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Over a list.
    List,
    /// Over a B+-tree.
    BTree,
    /// With a write-ahead log.
    Wal,
}

/// All variants.
pub const VARIANTS: [Variant; 3] = [Variant::List, Variant::BTree, Variant::Wal];

impl Variant {
    fn kind(self) -> Option<Kind> {
        match self {
            Variant::List => Some(Kind::List),
            Variant::BTree => Some(Kind::BTree),
            Variant::Wal => None,
        }
    }

    /// Whether one takes the snapshots of the other.
    pub fn takes(self, other: Variant) -> bool {
        self.kind().is_some() == other.kind().is_some()
    }
}

fn map_config() -> MapConfig {
    MapConfig { ring_bytes: RING_BYTES, snapshot_garbage_bytes: u64::MAX, background: false, seed: Some(1) }
}

fn wal_config() -> WalConfig {
    WalConfig { ring_bytes: RING_BYTES, log_bytes: 8000, step_bytes: 500, extent_bytes: 2000, ..WalConfig::default() }
}

/// A call in the midst of which the power is to fail.
pub struct Failing {
    begun: usize,
}

/// Where a store lies.
pub struct Place {
    variant: Variant,
    medium: Arc<SimMedium>,
    recorder: Arc<Recorder>,
    disk: SimDisk,
}

impl Place {
    /// A new store, of `bytes` if it lies in a map.
    pub fn create(variant: Variant, bytes: u64, persistent_state: &PersistentState) -> Result<(Place, Box<dyn Store>)> {
        let (plain, disk) = (Arc::new(SimMedium::new()), SimDisk::default());
        match variant.kind() {
            Some(kind) => {
                let layout = match kind {
                    Kind::List => Layout::list(bytes),
                    Kind::BTree => Layout::btree(bytes),
                };
                let medium: Arc<dyn Medium> = plain.clone();
                drop(MapStore::create(&medium, NAME, (kind, &layout), persistent_state, FOUNDED_MS, &map_config())?);
            }
            None => drop(WalStore::create(Arc::new(disk.clone()), persistent_state, FOUNDED_MS, &wal_config())?),
        }
        let place = Place::at(variant, plain.image(), disk);
        let store = place.open()?;
        Ok((place, store))
    }

    fn at(variant: Variant, image: Image, disk: SimDisk) -> Place {
        let (medium, recorder) = Recorder::attach(SimMedium::from_image(image));
        Place { variant, medium: Arc::new(medium), recorder, disk }
    }

    /// Which variant it is.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// The files of a store with a log.
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// Opens the store.
    pub fn open(&self) -> Result<Box<dyn Store>> {
        Ok(match self.variant {
            Variant::Wal => Box::new(WalStore::open(Arc::new(self.disk.clone()), &wal_config())?),
            _ => {
                let medium: Arc<dyn Medium> = self.medium.clone();
                Box::new(MapStore::open(&medium, NAME, &map_config())?)
            }
        })
    }

    /// Opens the store, of which a persist may take its time, as a seed says, if it can.
    pub fn open_late(&self, seed: u64) -> Result<Box<dyn Store>> {
        match self.variant {
            Variant::Wal => Ok(Box::new(WalStore::open_late(self.disk.clone(), &wal_config(), seed)?)),
            _ => self.open(),
        }
    }

    /// The place once a store that lies here was closed.
    pub fn closed(&self) -> Place {
        Place::at(self.variant, self.medium.image(), self.disk.clone())
    }

    /// The place after a power failure now: what is not durable is there or not, as `random`
    /// decides. A store that lies here has no effect on it any more.
    pub fn failed(&self, random: &mut Random) -> Place {
        let now = self.recorder.event_count();
        self.failed_at(now, self.disk.after_power_failure(random), random)
    }

    /// A call on the store begins, in the midst of which the power is to fail.
    pub fn begin_failing(&self, random: &mut Random) -> Failing {
        self.disk.stop_after(random.below(WRITES_OF_CALL));
        Failing { begun: self.recorder.event_count() }
    }

    /// The place after a power failure in the midst of the call that has begun, or none if the call
    /// has done nothing to the medium.
    pub fn failed_within(&self, failing: Failing, random: &mut Random) -> Option<Place> {
        let stopped = self.disk.stopped();
        let events = (self.recorder.event_count() - failing.begun) as u64;
        if self.variant == Variant::Wal {
            return stopped.map(|disk| self.failed_at(0, disk.after_power_failure(random), random));
        }
        (events > 0).then(|| self.failed_at(failing.begun + random.below(events) as usize, SimDisk::default(), random))
    }

    /// The place after a power failure at the first moment at which one makes a difference, from an
    /// event on.
    fn failed_at(&self, event: usize, disk: SimDisk, random: &mut Random) -> Place {
        let image = match self.variant {
            Variant::Wal => Image::default(),
            _ => self.image_at(event, random),
        };
        Place::at(self.variant, image, disk)
    }

    fn image_at(&self, event: usize, random: &mut Random) -> Image {
        let mut images = Vec::new();
        self.recorder.finish().replay(&ReplayOptions::default(), |point| {
            if point.kind != PointKind::End && point.index < event {
                return ControlFlow::Continue(());
            }
            images = point.images(random, &mut Seen::default(), CHOICES);
            ControlFlow::Break(())
        });
        let place = random.below(images.len().max(1) as u64) as usize;
        images.swap_remove(place)
    }
}
