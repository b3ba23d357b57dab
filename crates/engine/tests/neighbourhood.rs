//! Hazard: the rows of a range lie in more and more segments the longer a table is written to, so
//! that a range read misses the cache at each of them; or the room kept for that grows.

use crate::common::keyed::{Fields, Keyed, Kind, config, fill};
use perdura_engine::{Config, Direction, Engine, Isolation, LogConfig, ReadView, Rid, Session};
use perdura_pmem::SimMedium;
use perdura_pmem::sim::Random;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

const ROWS: u32 = 12_000;
const SEGMENT_BYTES: u64 = 64 << 10;
/// Rows of a range. A segment has three times as many.
const RANGE: u32 = 100;

fn settings() -> Config {
    let log = LogConfig { lanes: 2, lane_bytes: 1 << 20, generations: 2, generations_max: 4, ..LogConfig::default() };
    Config { segment_bytes: SEGMENT_BYTES, first_file_bytes: 16 << 20, data_file_bytes: 16 << 20, log, ..config() }
}

fn row(number: u32) -> Fields {
    Fields { padding: 160, ..Fields::of(number) }
}

/// Blocks of the size of a segment that the rows of a range lie in, on the average over the table.
fn blocks_of_range(engine: &Engine, keyed: &Keyed) -> f64 {
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.start_statement();
    let ranges = ROWS / RANGE;
    let blocks = (0..ranges).map(|range| {
        let mut scan = txn.index(&keyed.table, 0).scan(ReadView::Snapshot);
        let from = Kind::Number.key(&row(range * RANGE));
        scan.seek(&txn, Bound::Included(&from), Direction::Forward).expect("the index is sound");
        let mut blocks = BTreeSet::new();
        for _ in 0..RANGE {
            let rid = scan.next(&txn).expect("the index is sound").expect("a row of each number");
            blocks.insert(address(&mut txn, keyed, rid) / SEGMENT_BYTES as usize);
        }
        blocks.len()
    });
    let blocks: usize = blocks.sum();
    blocks as f64 / f64::from(ranges)
}

fn address(txn: &mut Session, keyed: &Keyed, rid: Rid) -> usize {
    let row = txn.read(&keyed.table, rid, ReadView::Snapshot).expect("it is sound").expect("a row of the snapshot");
    // SAFETY: the statement goes on, and nothing is rolled back.
    unsafe { row.bytes() }.as_ptr().addr()
}

/// Bytes that are not free.
fn used(keyed: &Keyed) -> u64 {
    keyed.table.data_bytes() - keyed.table.free_bytes()
}

/// Replaces rows drawn at random, or deletes them and inserts others with their keys, in commits of
/// their own. There is a checkpoint now and then, and a purge: some replaced versions wait in each
/// segment.
fn write(engine: &Engine, keyed: &Keyed, rids: &mut [Rid], random: &mut Random) {
    let mut txn = engine.session(Isolation::ReadCommitted);
    for commit in 0..2 * ROWS {
        let number = random.below(ROWS.into()) as u32;
        let (rid, new) = (&mut rids[number as usize], row(number).row());
        if random.one_in(4) {
            keyed.delete(&mut txn, *rid).expect("the row is there");
            *rid = keyed.insert(&mut txn, &new).expect("the key is free");
        } else {
            keyed.update(&mut txn, *rid, &new).expect("the row is there");
        }
        txn.commit().expect("nothing is in the way");
        if commit % 50 == 0 {
            engine.checkpoint().expect("the pool is sound");
            engine.purge();
        }
    }
}

/// Hazard: rows are put wherever a session has a free cell.
#[test]
fn rows_stay_near_those_of_near_keys() {
    for seed in 1..=2 {
        let engine = Engine::open(Arc::new(SimMedium::new()), settings()).unwrap_or_else(|error| panic!("{error}"));
        let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Group]);
        let mut rids = fill(&engine, &keyed, (0..ROWS).map(row));
        let (blocks, bytes) = (blocks_of_range(&engine, &keyed), used(&keyed));
        write(&engine, &keyed, &mut rids, &mut Random::new(seed));
        let (aged, now) = (blocks_of_range(&engine, &keyed), used(&keyed));
        println!("seed {seed}: {blocks:.1} blocks of a range, then {aged:.1}; {bytes} bytes, then {now}");
        assert!(blocks < 2.0, "seed {seed}: {blocks} blocks of a range in a table that was just filled");
        // Wherever a cell is free, it would be 35.
        assert!(aged < 8.0, "seed {seed}: {blocks} blocks of a range have become {aged}");
        assert!(now < bytes + bytes / 10, "seed {seed}: {bytes} bytes in use have become {now}");
        keyed.check(&engine);
    }
}
