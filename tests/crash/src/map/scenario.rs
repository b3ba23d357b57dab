//! The scenarios: small maps of both structures, shaped so that one hazard after another comes up.

use perdura_map::{BTree, Config, Kind, Layout, List, OrderedMap};
use perdura_pmem::Medium;
use std::sync::Arc;

/// Name of the map.
pub const NAME: &str = "map";

/// A kind of run.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Name, as `--scenario` takes it.
    pub name: &'static str,
    /// The structure.
    pub kind: Kind,
    /// Calls of the writer, and how often each is chosen; if empty, rivals run instead.
    pub mix: &'static [(Action, u32)],
    /// Calls in each round. The map is reopened between rounds.
    pub calls: u32,
    /// Number of rounds.
    pub rounds: u64,
    /// Number of different keys.
    pub keys: u64,
    /// One value in this many spans several pages.
    pub long_value_one_in: u64,
    /// Bytes of the map's file.
    pub bytes: u64,
    /// Changes after which a batch is persisted.
    pub changes_max: u32,
    /// Work of other threads.
    pub bystanders: &'static [Bystander],
}

/// Calls of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Gives a key a value.
    Set,
    /// Deletes a key.
    Delete,
    /// Compare-and-set or compare-and-delete, with the right value or a wrong one.
    CompareAndSet,
    /// Sets, applied at once.
    Put,
    /// Deletes, applied at once.
    Remove,
    /// Sets and deletes several keys at one timestamp with a tag, or only gives it the tag.
    Batch,
    /// Replaces the meta blob.
    SetMeta,
    /// Applies up to some timestamp.
    Apply,
    /// Forgets up to some applied timestamp.
    Forget,
    /// Rolls back changes that are not applied, all or some.
    Rollback,
    /// Persists.
    Persist,
    /// Keeps a snapshot's stream.
    Snapshot,
    /// Loads the kept stream, or only a part of it.
    Load,
}

/// Work of a thread beside the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bystander {
    /// Runs the collector again and again.
    Collector,
    /// Persists what the writer wrote.
    Persister,
    /// Takes a snapshot, streams it, releases it.
    SnapshotHolder,
    /// Reads a value and checks it again later.
    Reader,
}

use Action::{
    Apply, Batch, CompareAndSet, Delete, Forget, Load, Persist, Put, Remove, Rollback, Set, SetMeta, Snapshot,
};
use Bystander::{Collector, Persister, Reader, SnapshotHolder};

const MIXED: Scenario = Scenario {
    name: "mixed",
    kind: Kind::List,
    mix: &[
        (Set, 12),
        (Delete, 5),
        (CompareAndSet, 4),
        (Batch, 3),
        (SetMeta, 1),
        (Put, 2),
        (Remove, 1),
        (Apply, 3),
        (Forget, 3),
        (Rollback, 2),
        (Persist, 3),
    ],
    calls: 90,
    rounds: 1,
    keys: 24,
    long_value_one_in: 10,
    bytes: 72 << 10,
    changes_max: 4,
    bystanders: &[Collector, SnapshotHolder],
};

const EACH: Scenario = Scenario {
    name: "each persisted",
    mix: &[
        (Set, 8),
        (Delete, 4),
        (CompareAndSet, 2),
        (Batch, 2),
        (Put, 6),
        (Remove, 3),
        (Apply, 2),
        (Forget, 2),
        (Rollback, 1),
    ],
    calls: 70,
    keys: 16,
    changes_max: 1,
    bystanders: &[Collector, Reader],
    ..MIXED
};

const CROWDED: Scenario = Scenario {
    name: "crowded",
    mix: &[
        (Set, 10),
        (Delete, 3),
        (Batch, 2),
        (Put, 8),
        (Remove, 3),
        (Apply, 2),
        (Forget, 2),
        (Rollback, 1),
        (Persist, 2),
    ],
    calls: 120,
    keys: 12,
    long_value_one_in: 4,
    bytes: 38 << 10,
    bystanders: &[Collector, Reader, SnapshotHolder],
    ..MIXED
};

const OTHERS: Scenario = Scenario {
    name: "persisted by others",
    mix: &[(Set, 10), (Delete, 4), (CompareAndSet, 3), (Batch, 4), (Apply, 3), (Forget, 3), (Rollback, 3)],
    changes_max: 1000,
    bystanders: &[Collector, Persister, SnapshotHolder],
    ..MIXED
};

const LOADED: Scenario = Scenario {
    name: "loaded",
    mix: &[
        (Set, 12),
        (Delete, 4),
        (Batch, 3),
        (SetMeta, 1),
        (Apply, 2),
        (Forget, 2),
        (Rollback, 1),
        (Persist, 1),
        (Snapshot, 2),
        (Load, 3),
    ],
    calls: 60,
    keys: 12,
    bystanders: &[Collector],
    ..MIXED
};

const REOPENED: Scenario = Scenario {
    name: "reopened",
    mix: &[(Set, 10), (Delete, 4), (Put, 2), (Apply, 2), (Forget, 2), (Rollback, 1), (Persist, 1)],
    calls: 18,
    rounds: 7,
    bytes: 40 << 10,
    bystanders: &[Collector],
    ..MIXED
};

const RIVALS: Scenario = Scenario { name: "rivals", mix: &[], calls: 45, keys: 10, bystanders: &[Collector], ..MIXED };

/// More records than the collector takes at once.
const LONG: Scenario = Scenario {
    name: "long",
    mix: &[(Set, 30), (Delete, 6), (CompareAndSet, 2), (Apply, 2), (Forget, 2), (Persist, 1)],
    calls: 260,
    keys: 150,
    long_value_one_in: 40,
    bytes: 104 << 10,
    changes_max: 10,
    ..MIXED
};

/// No deletions, so that the collector of a list walks only parts of the chain.
const OVERWRITTEN: Scenario = Scenario {
    name: "overwritten",
    mix: &[(Set, 20), (Put, 12), (SetMeta, 1), (Apply, 3), (Forget, 4), (Rollback, 1), (Persist, 2)],
    calls: 300,
    keys: 90,
    long_value_one_in: 30,
    bytes: 88 << 10,
    changes_max: 10,
    ..MIXED
};

const fn btree(name: &'static str, scenario: Scenario) -> Scenario {
    Scenario { name, kind: Kind::BTree, ..scenario }
}

const fn list(name: &'static str, scenario: Scenario) -> Scenario {
    Scenario { name, kind: Kind::List, ..scenario }
}

/// All scenarios.
pub const SCENARIOS: [Scenario; 16] = [
    list("list mixed", MIXED),
    btree("btree mixed", MIXED),
    list("list each persisted", EACH),
    btree("btree each persisted", EACH),
    list("list crowded", CROWDED),
    btree("btree crowded", CROWDED),
    list("list persisted by others", OTHERS),
    btree("btree persisted by others", OTHERS),
    list("list loaded", LOADED),
    btree("btree loaded", LOADED),
    list("list reopened", REOPENED),
    btree("btree reopened", REOPENED),
    list("list rivals", RIVALS),
    btree("btree rivals", RIVALS),
    list("list long", LONG),
    list("list overwritten", OVERWRITTEN),
];

impl Scenario {
    /// Group under which its hazards are counted.
    pub fn group(&self) -> &'static str {
        match self.kind {
            Kind::List => "list",
            Kind::BTree => "btree",
        }
    }

    /// How its maps are created.
    pub fn layout(&self) -> Layout {
        Layout { bytes: self.bytes, page_bytes: 256, branching: 4 }
    }

    /// How its maps are opened.
    pub fn config(&self) -> Config {
        Config { changes_max: self.changes_max, background: false, seed: Some(1), ..Config::default() }
    }

    /// Creates its map.
    pub fn create(&self, medium: &Arc<dyn Medium>) -> perdura_map::Result<Box<dyn OrderedMap>> {
        let (layout, config) = (self.layout(), self.config());
        Ok(match self.kind {
            Kind::List => Box::new(List::create(medium, NAME, &layout, &config)?),
            Kind::BTree => Box::new(BTree::create(medium, NAME, &layout, &config)?),
        })
    }

    /// Opens its map.
    pub fn open(&self, medium: &Arc<dyn Medium>) -> perdura_map::Result<Box<dyn OrderedMap>> {
        perdura_map::open(medium, NAME, &self.config())
    }

    /// Whether its maps may become full.
    pub fn is_crowded(&self) -> bool {
        self.bytes < 64 << 10
    }
}
