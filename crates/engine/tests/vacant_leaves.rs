//! Hazard: beside a long snapshot, walks over an index go through all that was deleted since, leaf
//! by leaf; or they pass by a leaf in which they should see something (I8).

use crate::common::keyed::{Fields, Keyed, Kind, Rows, config, fill, step};
use crate::common::{seeds, settle};
use perdura_engine::{Direction, Engine, Isolation, ReadView, Rid, Session};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::ops::Bound;
use std::sync::Arc;

fn open(medium: &Arc<SimMedium>) -> Engine {
    let shared: Arc<dyn Medium> = medium.clone();
    Engine::open(shared, config()).unwrap_or_else(|error| panic!("{error}"))
}

/// Leaves of an index, and how many of them are vacant.
fn leaves(engine: &Engine, keyed: &Keyed, kind: Kind) -> (u64, u64) {
    let (position, mut found) = (keyed.index_of(kind), None);
    engine.each_index(|index| {
        found = index.measured.filter(|_| index.position == position);
        found.is_none()
    });
    let measured = found.expect("the index of an open table");
    (measured.leaves, measured.vacant)
}

fn delete(engine: &Engine, keyed: &Keyed, rids: &[Rid]) {
    let mut txn = engine.session(Isolation::ReadCommitted);
    for some in rids.chunks(20) {
        some.iter().for_each(|rid| keyed.delete(&mut txn, *rid).unwrap_or_else(|error| panic!("{error}")));
        txn.commit().unwrap();
    }
}

/// The first number that a walk meets from `number` on.
fn from(txn: &mut Session, keyed: &Keyed, number: u64, direction: Direction, view: ReadView) -> Option<u64> {
    txn.start_statement();
    let mut scan = txn.index(&keyed.table, keyed.index_of(Kind::Number)).scan(view);
    scan.seek(txn, Bound::Included(&number.to_be_bytes()), direction).unwrap();
    let found = step(&mut scan, txn, direction).unwrap();
    let found = found.map(|_| u64::from_be_bytes(scan.key().try_into().expect("eight bytes")));
    txn.end_statement();
    found
}

fn check_reader(reader: &mut Session, keyed: &Keyed, rows: &Rows, hint: &str) {
    reader.start_statement();
    assert!(keyed.check_seen(reader, hint) == *rows, "{hint}: the snapshot has moved");
    keyed.find_all(reader, rows, ReadView::Snapshot, hint);
    reader.end_statement();
}

#[test]
fn walks_pass_by_what_only_an_old_snapshot_sees() {
    const ROWS: u32 = 3000;
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium);
    let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Name]);
    let mut rids = Vec::new();
    for some in (1..=ROWS).collect::<Vec<_>>().chunks(50) {
        rids.extend(fill(&engine, &keyed, some.iter().copied().map(Fields::of)));
        settle(&engine);
    }
    let mut reader = engine.session(Isolation::RepeatableRead);
    reader.start_statement();
    reader.take_snapshot();
    reader.end_statement();
    let all = keyed.check(&engine);
    let (before, vacant) = leaves(&engine, &keyed, Kind::Number);
    assert_eq!(vacant, 0);
    // All but the first and the last hundred.
    delete(&engine, &keyed, &rids[100..rids.len() - 100]);
    (0..4).for_each(|_| settle(&engine));
    let (now, vacant) = leaves(&engine, &keyed, Kind::Number);
    let populated = now - vacant;
    assert!(
        populated * 5 < before,
        "{populated} of {now} leaves are walked through for 200 of {ROWS} rows, {before} before"
    );
    for view in [ReadView::Snapshot, ReadView::Newest] {
        let mut txn = engine.session(Isolation::ReadCommitted);
        let last = u64::from(ROWS) - 99;
        for number in [101, 500, 1777, last - 1] {
            assert_eq!(from(&mut txn, &keyed, number, Direction::Forward, view), Some(last));
            assert_eq!(from(&mut txn, &keyed, number, Direction::Backward, view), Some(100));
        }
        assert_eq!(from(&mut txn, &keyed, u64::from(ROWS) + 1, Direction::Forward, view), None);
    }
    assert_eq!(keyed.check(&engine).len(), 200);
    check_reader(&mut reader, &keyed, &all, "beside vacant leaves");

    // An entry in the middle of them: of a transaction under way, rolled back, committed, deleted.
    let middle = Fields::of(1500).row();
    let mut writer = engine.session(Isolation::RepeatableRead);
    keyed.insert(&mut writer, &middle).unwrap();
    assert_eq!(from(&mut writer, &keyed, 700, Direction::Forward, ReadView::Snapshot), Some(1500));
    assert_eq!(from(&mut writer, &keyed, 2200, Direction::Backward, ReadView::Snapshot), Some(1500));
    assert_eq!(keyed.check(&engine).len(), 200);
    assert_eq!(leaves(&engine, &keyed, Kind::Number).1, vacant - 1);
    writer.rollback().unwrap();
    (0..3).for_each(|_| settle(&engine));
    let (now, vacant) = leaves(&engine, &keyed, Kind::Number);
    assert!(now - vacant <= populated, "the leaf is vacant again");
    assert_eq!(keyed.check(&engine).len(), 200);
    let rid = keyed.insert(&mut writer, &middle).unwrap();
    writer.commit().unwrap();
    settle(&engine);
    assert_eq!(from(&mut writer, &keyed, 700, Direction::Forward, ReadView::Snapshot), Some(1500));
    writer.commit().unwrap();
    assert_eq!(keyed.check(&engine).len(), 201);
    check_reader(&mut reader, &keyed, &all, "beside a leaf that is populated again");
    delete(&engine, &keyed, &[rid]);
    (0..2).for_each(|_| settle(&engine));
    assert_eq!(keyed.check(&engine).len(), 200);
    check_reader(&mut reader, &keyed, &all, "once the leaf is vacant again");

    reader.commit().unwrap();
    drop(reader);
    (0..200).for_each(|_| settle(&engine));
    let (now, vacant) = leaves(&engine, &keyed, Kind::Number);
    assert!(now * 5 < before && vacant <= 1, "{now} leaves are left of {before}, {vacant} vacant");
    keyed.table.audit().unwrap();
    drop((writer, engine));
    let engine = open(&medium);
    let keyed = Keyed::open(&engine, "t", &keyed.kinds);
    assert_eq!(keyed.check(&engine).len(), 200);
}

/// A queue beside a long snapshot: rows come at one end and go at the other. Leaves of rows that no
/// snapshot sees are joined, and the history of each leaf stays short.
#[test]
fn a_queue_beside_a_long_snapshot_keeps_few_leaves_populated() {
    for seed in seeds(4) {
        let medium = Arc::new(SimMedium::new());
        let engine = open(&medium);
        let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Group]);
        let mut random = Random::new(seed);
        let mut waiting: Vec<Rid> = fill(&engine, &keyed, (1..=300).map(Fields::of));
        settle(&engine);
        let mut reader = engine.session(Isolation::RepeatableRead);
        reader.start_statement();
        reader.take_snapshot();
        reader.end_statement();
        let seen = keyed.check(&engine);
        let mut most = 0;
        for round in 0..120u32 {
            let first = 301 + round * 20;
            waiting.extend(fill(&engine, &keyed, (first..first + 20).map(Fields::of)));
            let gone: Vec<Rid> =
                (0..20).map(|_| waiting.swap_remove(random.below(waiting.len() as u64) as usize)).collect();
            delete(&engine, &keyed, &gone);
            settle(&engine);
            if round >= 40 {
                let (all, vacant) = leaves(&engine, &keyed, Kind::Number);
                most = most.max(all - vacant);
            }
        }
        assert_eq!(keyed.check(&engine).len(), 300, "seed {seed}");
        check_reader(&mut reader, &keyed, &seen, &format!("seed {seed}"));
        // Three hundred rows at random places among those that were there.
        assert!(most <= 300 / 4, "seed {seed}: {most} leaves are walked through for 300 rows");
        drop(reader);
        (0..100).for_each(|_| settle(&engine));
        keyed.table.audit().unwrap();
    }
}
