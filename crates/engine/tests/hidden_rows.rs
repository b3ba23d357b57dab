//! Hazard: a consistent read shows two rows with one primary key. Another transaction deletes a row
//! that the snapshot sees, and the own one inserts another with its key.

use crate::common::keyed::{Fields, Keyed, Kind, Rows, config, fill};
use perdura_engine::{Direction, Engine, ErrorKind, Isolation, ReadView, Rid, Session};
use perdura_pmem::SimMedium;
use std::sync::Arc;

const KINDS: [Kind; 3] = [Kind::Number, Kind::Group, Kind::Name];

fn fields(number: u64, name: u32) -> Fields {
    Fields { number, group: 1, name, long: 0, padding: 3 }
}

fn open() -> (Engine, Keyed, Vec<Rid>) {
    let engine = Engine::open(Arc::new(SimMedium::new()), config()).unwrap();
    let keyed = Keyed::create(&engine, "t", &KINDS);
    let rids = fill(&engine, &keyed, (0..40).map(|number| fields(number, number as u32 + 1)));
    (engine, keyed, rids)
}

/// Names of the rows that a new statement sees, by number; all indexes and look-ups agree on them.
fn names(keyed: &Keyed, txn: &mut Session, hint: &str) -> Vec<(u64, u32)> {
    txn.start_statement();
    let rows: Rows = keyed.check_seen(txn, hint);
    keyed.find_all(txn, &rows, ReadView::Snapshot, hint);
    for rid in rows.keys() {
        assert!(txn.read(&keyed.table, *rid, ReadView::Snapshot).unwrap().is_some(), "{hint}: {rid:?}");
    }
    let mut found: Vec<_> = rows.values().map(|row| Fields::of_row(row)).map(|row| (row.number, row.name)).collect();
    found.sort_unstable();
    found
}

fn expected(changes: &[(u64, Option<u32>)]) -> Vec<(u64, u32)> {
    let name = |number: u64| match changes.iter().find(|(changed, _)| *changed == number) {
        Some((_, name)) => *name,
        None => Some(number as u32 + 1),
    };
    (0..50)
        .filter(|number| *number < 40 || changes.iter().any(|(changed, _)| changed == number))
        .filter_map(|number| Some((number, name(number)?)))
        .collect()
}

#[test]
fn an_own_row_hides_the_one_of_the_snapshot_whose_key_it_has() {
    for isolation in [Isolation::ConsistentReads, Isolation::RepeatableRead] {
        let (engine, keyed, rids) = open();
        let mut txn = engine.session(isolation);
        assert_eq!(names(&keyed, &mut txn, "before"), expected(&[]));
        let mut other = engine.session(Isolation::ReadCommitted);
        keyed.delete(&mut other, rids[2]).unwrap();
        keyed.delete(&mut other, rids[3]).unwrap();
        // A row that is not deleted but has another key now.
        keyed.update(&mut other, rids[4], &fields(44, 5).row()).unwrap();
        other.commit().unwrap();
        assert_eq!(names(&keyed, &mut txn, "the snapshot does not move"), expected(&[]));

        let savepoint = txn.savepoint();
        let own = keyed.insert(&mut txn, &fields(2, 102).row()).unwrap();
        keyed.insert(&mut txn, &fields(4, 104).row()).unwrap();
        let both = expected(&[(2, Some(102)), (4, Some(104))]);
        assert_eq!(names(&keyed, &mut txn, "inserted"), both);
        // The key moves on within the transaction: what it has hidden stays hidden.
        keyed.update(&mut txn, own, &fields(3, 102).row()).unwrap();
        assert_eq!(names(&keyed, &mut txn, "moved"), expected(&[(2, None), (3, Some(102)), (4, Some(104))]));
        txn.rollback_to(&savepoint).unwrap();
        assert_eq!(names(&keyed, &mut txn, "undone"), expected(&[]));

        keyed.insert(&mut txn, &fields(2, 112).row()).unwrap();
        assert_eq!(names(&keyed, &mut txn, "again"), expected(&[(2, Some(112))]));
        txn.commit().unwrap();
        let now = expected(&[(2, Some(112)), (3, None), (4, None), (44, Some(5))]);
        assert_eq!(names(&keyed, &mut txn, "committed"), now);
        txn.commit().unwrap();
        keyed.check(&engine);
    }
}

/// An insert that fails for another key hides nothing.
#[test]
fn a_refused_row_hides_nothing() {
    let (engine, keyed, rids) = open();
    let mut txn = engine.session(Isolation::ConsistentReads);
    assert_eq!(names(&keyed, &mut txn, "before"), expected(&[]));
    let mut other = engine.session(Isolation::ReadCommitted);
    keyed.delete(&mut other, rids[2]).unwrap();
    other.commit().unwrap();
    let error = keyed.insert(&mut txn, &fields(2, 8).row()).expect_err("another row has the name");
    assert_eq!(error.kind(), ErrorKind::DuplicateKey);
    assert_eq!(names(&keyed, &mut txn, "refused"), expected(&[]));
}

/// The own row that gave its key away is no row of the snapshot that another hides.
#[test]
fn an_own_row_is_never_hidden() {
    let (engine, keyed, rids) = open();
    let mut txn = engine.session(Isolation::ConsistentReads);
    assert_eq!(names(&keyed, &mut txn, "before"), expected(&[]));
    keyed.update(&mut txn, rids[2], &fields(42, 3).row()).unwrap();
    keyed.insert(&mut txn, &fields(2, 102).row()).unwrap();
    assert_eq!(names(&keyed, &mut txn, "moved"), expected(&[(2, Some(102)), (42, Some(3))]));
    keyed.delete(&mut txn, rids[5]).unwrap();
    keyed.insert(&mut txn, &fields(5, 105).row()).unwrap();
    let all = expected(&[(2, Some(102)), (5, Some(105)), (42, Some(3))]);
    assert_eq!(names(&keyed, &mut txn, "deleted"), all);
    txn.commit().unwrap();
    assert_eq!(names(&keyed, &mut txn, "committed"), all);
    let entries = keyed.entries(&mut txn, 0, ReadView::Newest, Direction::Forward).unwrap();
    assert_eq!(entries.len(), all.len());
}
