//! Hazard: a transaction writes a row over a version that is newer than its snapshot, so its
//! consistent reads see the own version, and an index still leads to it by the key that it had at
//! the snapshot, or not at all.

use crate::common::keyed::{Fields, KINDS, Keyed, Rows, config, fill, is_conflict, roomy};
use crate::common::seeds;
use perdura_engine::{Direction, Engine, ErrorKind, Isolation, OwnWrites, ReadView, Rid, Session};
use perdura_pmem::SimMedium;
use perdura_pmem::sim::Random;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

fn open() -> (Engine, Keyed, Vec<Rid>) {
    let engine = Engine::open(Arc::new(SimMedium::new()), config()).unwrap();
    let keyed = Keyed::create(&engine, "t", &KINDS);
    let rids = fill(&engine, &keyed, (1..40).map(Fields::of));
    (engine, keyed, rids)
}

/// Rows that a new statement sees; the table, all indexes both ways, and look-ups agree on them.
fn seen(keyed: &Keyed, txn: &mut Session, hint: &str) -> Rows {
    txn.start_statement();
    let rows = keyed.check_seen(txn, hint);
    keyed.find_all(txn, &rows, ReadView::Snapshot, hint);
    rows
}

#[test]
fn consistent_reads_find_a_row_by_the_keys_that_it_was_written_with() {
    let (engine, keyed, rids) = open();
    let mut txn = engine.session(Isolation::ConsistentReads);
    let mut expected = seen(&keyed, &mut txn, "before");

    let mut other = engine.session(Isolation::ReadCommitted);
    let new = keyed.insert(&mut other, &Fields::of(50).row()).unwrap();
    let (moved, gone, kept) = (rids[4], rids[7], rids[9]);
    for (rid, to) in [(moved, 60), (gone, 61), (kept, 62)] {
        keyed.update(&mut other, rid, &Fields::of(to).row()).unwrap();
    }
    other.commit().unwrap();
    assert_eq!(seen(&keyed, &mut txn, "the snapshot does not move"), expected);

    // A scan that has begun goes on as it was.
    txn.start_statement();
    let mut scan = txn.index(&keyed.table, 0).scan(ReadView::Snapshot);
    scan.seek(&txn, Bound::Unbounded, Direction::Forward).unwrap();
    // No key changes; then one does.
    for (rid, fields) in [(new, Fields::of(50)), (moved, Fields::of(60))] {
        let row = Fields { padding: 41, ..fields }.row();
        keyed.update(&mut txn, rid, &row).unwrap();
        let before = expected.insert(rid, row);
        assert_eq!(before.is_none(), rid == new);
        assert_eq!(seen(&keyed, &mut txn, "written"), expected);
    }
    let savepoint = txn.savepoint();
    let before = expected.clone();
    keyed.delete(&mut txn, gone).unwrap();
    expected.remove(&gone);
    assert_eq!(seen(&keyed, &mut txn, "deleted"), expected);
    let row = Fields { number: 70, ..Fields::of(62) }.row();
    keyed.update(&mut txn, kept, &row).unwrap();
    expected.insert(kept, row);
    assert_eq!(seen(&keyed, &mut txn, "moved on"), expected);
    // There and back again.
    for number in [71, 60] {
        let row = Fields { number, ..Fields::of(60) }.row();
        keyed.update(&mut txn, moved, &row).unwrap();
        expected.insert(moved, row);
        assert_eq!(seen(&keyed, &mut txn, "there and back"), expected);
    }
    txn.rollback_to(&savepoint).unwrap();
    assert_eq!(seen(&keyed, &mut txn, "undone"), before);
    txn.commit().unwrap();
    let now = seen(&keyed, &mut txn, "committed");
    assert!(now[&moved] == before[&moved] && now.contains_key(&new) && now.len() == 40);
    txn.commit().unwrap();
    keyed.check(&engine);
}

/// A scan leaves a row out whose key an own row has, also if the transaction writes that row while
/// the scan goes on.
#[test]
fn a_row_that_is_hidden_where_a_scan_stands_stays_hidden_there() {
    let (engine, keyed, rids) = open();
    let mut txn = engine.session(Isolation::ConsistentReads);
    seen(&keyed, &mut txn, "before");
    let mut other = engine.session(Isolation::ReadCommitted);
    keyed.update(&mut other, rids[4], &Fields::of(60).row()).unwrap();
    other.commit().unwrap();
    // The row that has moved had the same key, and others that these rows do not have.
    keyed.insert(&mut txn, &Fields { number: 5, ..Fields::of(45) }.row()).unwrap();
    let rows = seen(&keyed, &mut txn, "hidden");
    assert!(!rows.contains_key(&rids[4]) && rows.len() == 39);
    for index in 0..KINDS.len() {
        let savepoint = txn.savepoint();
        txn.start_statement();
        let mut scan = txn.index(&keyed.table, index).scan(ReadView::Snapshot);
        scan.seek(&txn, Bound::Unbounded, Direction::Forward).unwrap();
        keyed.update(&mut txn, rids[4], &Fields { padding: 41, ..Fields::of(60) }.row()).unwrap();
        let mut table = txn.scan(&keyed.table);
        for (_, rid) in keyed.expected(index, &rows) {
            assert_eq!(scan.next(&txn).unwrap(), Some(rid), "index {index}");
        }
        assert_eq!(scan.next(&txn).unwrap(), None, "index {index}");
        let mut count = 0;
        while table.next(&txn).unwrap().is_some() {
            count += 1;
        }
        assert_eq!((count, seen(&keyed, &mut txn, "written").len()), (40, 40));
        txn.rollback_to(&savepoint).unwrap();
    }
}

/// Inserts, changes or deletes a random row; often the keys stay. What fails changes nothing.
fn write(keyed: &Keyed, txn: &mut Session, random: &mut Random, hint: &str) {
    let entries = keyed.entries(txn, 0, ReadView::Newest, Direction::Forward).unwrap();
    let rid = entries.get(random.below(1 + entries.len() as u64) as usize).map(|(_, rid)| *rid);
    let newest = rid.and_then(|rid| txn.read(&keyed.table, rid, ReadView::Newest).unwrap());
    // SAFETY: the statement is not over.
    let newest = newest.map(|row| Fields::of_row(unsafe { row.bytes() }));
    let row = match (random.below(6), newest) {
        (0, _) => None,
        (1..4, Some(fields)) => Some(Fields { padding: fields.padding % 60 + 1, ..fields }.row()),
        _ => Some(Fields::random(random, 60).row()),
    };
    if let Err(error) = keyed.put(txn, rid, row.as_deref()) {
        let is_expected = is_conflict(&error) || matches!(error.kind(), ErrorKind::DuplicateKey | ErrorKind::NotFound);
        assert!(is_expected, "{hint}: {error}");
    }
}

/// A transaction reads, others commit, it writes, undoes and reads again: whatever it sees, its
/// indexes show the same as the table.
#[test]
fn indexes_show_what_the_table_shows_whoever_wrote_meanwhile() {
    for seed in seeds(12) {
        let mut random = Random::new(seed);
        let engine = Engine::open(Arc::new(SimMedium::new()), roomy()).unwrap_or_else(|error| panic!("{error}"));
        let keyed = Keyed::create(&engine, "t", &KINDS);
        fill(&engine, &keyed, (1..40).map(Fields::of));
        for round in 0..40 {
            let isolation = if random.one_in(4) { Isolation::ReadCommitted } else { Isolation::ConsistentReads };
            let (mut txn, mut other) = (engine.session(isolation), engine.session(Isolation::ReadCommitted));
            // Rows that the transaction holds are no affair of the others.
            other.set_lock_wait_timeout(Duration::ZERO);
            let mut savepoint = None;
            for step in 0..6 {
                let hint = format!("seed {seed}, round {round}, step {step}");
                for _ in 0..1 + random.below(3) {
                    other.start_statement();
                    write(&keyed, &mut other, &mut random, &hint);
                }
                let _ = if random.one_in(6) { other.rollback().map(|()| 0) } else { other.commit() }.unwrap();
                if random.one_in(5) {
                    engine.checkpoint().unwrap();
                    engine.purge();
                }
                let rows = seen(&keyed, &mut txn, &hint);
                // One scan sees nothing of what comes after its beginning.
                let index = random.below(KINDS.len() as u64) as usize;
                let mut scan = txn.index(&keyed.table, index).scan(ReadView::Snapshot);
                scan.seek(&txn, Bound::Unbounded, Direction::Forward).unwrap();
                match random.below(6) {
                    0 => savepoint = Some(txn.savepoint()),
                    1 if savepoint.is_some() => {
                        drop(scan);
                        txn.rollback_to(savepoint.as_ref().expect("just seen")).unwrap();
                        continue;
                    }
                    _ => {}
                }
                if !random.one_in(3) {
                    write(&keyed, &mut txn, &mut random, &hint);
                }
                for (key, rid) in keyed.expected(index, &rows) {
                    assert_eq!(scan.next(&txn).unwrap(), Some(rid), "{hint}: the scan goes on");
                    assert_eq!(scan.key(), key, "{hint}");
                    let (found, row) = scan.read_row(&mut txn, OwnWrites::BeforeScan).unwrap().expect("a row");
                    // SAFETY: the statement is not over.
                    assert_eq!((found, unsafe { row.bytes() }), (rid, &rows[&rid][..]), "{hint}");
                }
                assert_eq!(scan.next(&txn).unwrap(), None, "{hint}: the scan ends");
            }
            let _ = if random.one_in(2) { txn.rollback().map(|()| 0) } else { txn.commit() }.unwrap();
        }
        keyed.check(&engine);
    }
}
