//! Hazard: keys that move leave leaves behind that are half empty for good, or packing them loses
//! entries or room.

use crate::common::keyed::{Fields, Keyed, Kind, config, fill};
use crate::common::{seeds, settle};
use perdura_engine::{Engine, Isolation, Rid, Session};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

/// Rows of a table.
const ROWS: u32 = 3000;
/// Rows that a transaction changes.
const AT_ONCE: usize = 150;

fn open(medium: &Arc<SimMedium>) -> Engine {
    let shared: Arc<dyn Medium> = medium.clone();
    Engine::open(shared, config()).unwrap_or_else(|error| panic!("{error}"))
}

/// A row with a random key, which no other has.
fn random_row(random: &mut Random) -> Fields {
    Fields { number: random.below(u64::MAX), padding: 10, ..Fields::default() }
}

/// A table of rows with random keys, and the RIDs of these in random order.
fn table(engine: &Engine, random: &mut Random) -> (Keyed, Vec<Rid>) {
    let keyed = Keyed::create(engine, "t", &[Kind::Number]);
    let mut rids = Vec::new();
    for _ in 0..ROWS as usize / AT_ONCE {
        rids.extend(fill(engine, &keyed, (0..AT_ONCE).map(|_| random_row(random))));
        settle(engine);
    }
    for at in (1..rids.len()).rev() {
        rids.swap(at, random.below(at as u64 + 1) as usize);
    }
    (keyed, rids)
}

/// Of the places in the leaves of the table's index, how many in a hundred have an entry.
fn fill_of(engine: &Engine, keyed: &Keyed) -> u64 {
    let mut found = None;
    engine.each_index(|index| {
        if index.table == keyed.table.id() {
            found = index.measured.and_then(|measured| measured.fill);
        }
        true
    });
    found.expect("an index with entries")
}

fn check(engine: &Engine, keyed: &Keyed, rows: usize, hint: &str) {
    (0..4).for_each(|_| settle(engine));
    assert_eq!(keyed.check(engine).len(), rows, "{hint}");
    keyed.table.audit().unwrap_or_else(|error| panic!("{hint}: {error}"));
}

/// Changes rows, some in each transaction, with purge after each.
fn in_steps(engine: &Engine, rids: &[Rid], mut change: impl FnMut(&mut Session, Rid)) {
    for some in rids.chunks(AT_ONCE) {
        let mut txn = engine.session(Isolation::ReadCommitted);
        some.iter().for_each(|rid| change(&mut txn, *rid));
        txn.commit().unwrap();
        settle(engine);
    }
}

/// Every key moves once, to a random place. Without packing, leaves end up little more than half
/// full.
#[test]
fn leaves_are_well_filled_after_every_key_has_moved() {
    for seed in seeds(3) {
        let hint = format!("seed {seed}");
        let mut random = Random::new(seed);
        let medium = Arc::new(SimMedium::new());
        let engine = open(&medium);
        let (keyed, rids) = table(&engine, &mut random);
        in_steps(&engine, &rids, |txn, rid| keyed.update(txn, rid, &random_row(&mut random).row()).unwrap());
        check(&engine, &keyed, rids.len(), &hint);
        let fill = fill_of(&engine, &keyed);
        assert!(fill >= 70, "{hint}: {fill} in a hundred places");
        drop((keyed, engine));
        let engine = open(&medium);
        let keyed = Keyed::open(&engine, "t", &[Kind::Number]);
        engine.sweep().unwrap();
        check(&engine, &keyed, rids.len(), &hint);
    }
}

/// Half of the rows go, which leaves few leaves sparse. What is left is packed, and its segments
/// are given back.
#[test]
fn thinned_leaves_are_packed() {
    for seed in seeds(3) {
        let hint = format!("seed {seed}");
        let mut random = Random::new(seed);
        let medium = Arc::new(SimMedium::new());
        let engine = open(&medium);
        let (keyed, rids) = table(&engine, &mut random);
        let used = keyed.table.data_bytes() - keyed.table.free_bytes();
        let (gone, left) = rids.split_at(rids.len() / 2);
        in_steps(&engine, gone, |txn, rid| keyed.delete(txn, rid).unwrap());
        check(&engine, &keyed, left.len(), &hint);
        let fill = fill_of(&engine, &keyed);
        assert!(fill >= 70, "{hint}: {fill} in a hundred places");
        let bytes = keyed.table.data_bytes() - keyed.table.free_bytes();
        assert!(bytes + 4 * u64::from(ROWS) <= used, "{hint}: {bytes} bytes of {used}");
    }
}

/// Leaves are packed while others change and read them, under snapshots that see what was there
/// before.
#[test]
fn snapshots_see_what_was_there_before() {
    for seed in seeds(3) {
        let hint = format!("seed {seed}");
        let mut random = Random::new(seed);
        let medium = Arc::new(SimMedium::new());
        let engine = open(&medium);
        let (keyed, rids) = table(&engine, &mut random);
        let mut reader = engine.session(Isolation::RepeatableRead);
        let before = keyed.check_seen(&mut reader, &hint);
        in_steps(&engine, &rids, |txn, rid| keyed.update(txn, rid, &random_row(&mut random).row()).unwrap());
        assert_eq!(keyed.check_seen(&mut reader, &hint), before, "{hint}");
        reader.commit().unwrap();
        check(&engine, &keyed, rids.len(), &hint);
    }
}
