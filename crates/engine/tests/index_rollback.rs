//! Hazard: a rollback leaves entries behind, takes too many back, or forgets those of a leaf that
//! has split since.

use crate::common;

use crate::common::keyed::{Fields, KINDS, Keyed, Kind, Rows, config, fill};
use crate::common::settle;
use perdura_engine::{Engine, ErrorKind, Isolation, ReadView};
use perdura_pmem::SimMedium;
use perdura_pmem::sim::Random;
use std::sync::Arc;

fn open() -> Engine {
    Engine::open(Arc::new(SimMedium::new()), config()).unwrap()
}

/// Whether everything is as `before`, now and when what was freed is used again.
fn is_as_before(engine: &Engine, keyed: &Keyed, before: &Rows) {
    assert_eq!(keyed.check(engine), *before);
    settle(engine);
    settle(engine);
    keyed.table.audit().unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    for number in 0..100 {
        keyed.insert(&mut txn, &Fields::of(500_000 + number).row()).unwrap();
    }
    txn.rollback().unwrap();
    assert_eq!(keyed.check(engine), *before);
}

/// A transaction that splits leaves full of others' entries, and of its own.
#[test]
fn inserts_that_split_leaves_are_rolled_back() {
    for kinds in [&KINDS[..], &[Kind::Number]] {
        let engine = open();
        let keyed = Keyed::create(&engine, "t", kinds);
        let few = if kinds.contains(&Kind::Long) { 40 } else { 300 };
        fill(&engine, &keyed, (0..few).map(|number| Fields::of(number * 10)));
        let before = keyed.check(&engine);
        let mut txn = engine.session(Isolation::ReadCommitted);
        for number in 0..few {
            keyed.insert(&mut txn, &Fields::of(number * 10 + 3).row()).unwrap();
        }
        assert_eq!(keyed.check_seen(&mut txn, "own").len(), 2 * few as usize);
        txn.rollback().unwrap();
        is_as_before(&engine, &keyed, &before);
    }
}

/// Deletions come back, also in leaves that others have split meanwhile.
#[test]
fn deletions_are_rolled_back_after_others_split_the_leaf() {
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Name]);
    let rids = fill(&engine, &keyed, (1..200).map(|number| Fields::of(number * 10)));
    let mut txn = engine.session(Isolation::ReadCommitted);
    for rid in rids.iter().step_by(2) {
        keyed.delete(&mut txn, *rid).unwrap();
    }
    for rid in rids.iter().skip(1).step_by(4) {
        let fields = Fields::of(100_000 + rid.row() as u32);
        keyed.update(&mut txn, *rid, &fields.row()).unwrap();
    }
    let own = keyed.check_seen(&mut txn, "own");
    let others = fill(&engine, &keyed, (1..200).map(|number| Fields::of(number * 10 + 5)));
    assert_eq!(keyed.check(&engine).len(), rids.len() + others.len());
    txn.start_statement();
    assert_eq!(keyed.check_seen(&mut txn, "own").len(), own.len() + others.len());
    txn.rollback().unwrap();
    let before = keyed.check(&engine);
    assert_eq!(before.len(), rids.len() + others.len());
    is_as_before(&engine, &keyed, &before);
}

/// The second of two transactions in one leaf goes on when the first is rolled back, and the other
/// way round.
#[test]
fn neighbours_in_a_leaf_end_independently() {
    for order in 0..4 {
        let engine = open();
        let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Group]);
        let rids = fill(&engine, &keyed, (0..40).map(|number| Fields::of(number * 10)));
        let mut one = engine.session(Isolation::ReadCommitted);
        let mut two = engine.session(Isolation::ReadCommitted);
        for step in 0..60 {
            keyed.insert(&mut one, &Fields::of(step * 10 + 1).row()).unwrap();
            keyed.insert(&mut two, &Fields::of(step * 10 + 2).row()).unwrap();
        }
        for step in 0..10 {
            keyed.delete(&mut one, rids[step * 2]).unwrap();
            keyed.delete(&mut two, rids[step * 2 + 1]).unwrap();
        }
        let mut expected = 40;
        for (turn, txn) in [&mut one, &mut two].into_iter().enumerate() {
            if order >> turn & 1 == 0 {
                txn.commit().unwrap();
                expected += 50;
            } else {
                txn.rollback().unwrap();
            }
            assert_eq!(keyed.check(&engine).len(), expected, "order {order}, turn {turn}");
        }
        let before = keyed.check(&engine);
        is_as_before(&engine, &keyed, &before);
    }
}

/// Savepoints within and across statements, in any order, over keys that come, go and come back.
#[test]
fn savepoints_bring_every_state_back() {
    for seed in common::seeds(12) {
        let engine = open();
        let kinds = [&[Kind::Number, Kind::Group][..], &[Kind::Name], &KINDS][seed as usize % 3];
        let keyed = Keyed::create(&engine, "t", kinds);
        fill(&engine, &keyed, (1..40).map(Fields::of));
        let mut random = Random::new(seed);
        let mut txn = engine.session(Isolation::ReadCommitted);
        let mut states = vec![(txn.savepoint(), keyed.check(&engine))];
        for step in 0..120 {
            let hint = format!("seed {seed} step {step}");
            match random.below(8) {
                0 => {
                    let rows = keyed.check_seen(&mut txn, &hint);
                    states.push((txn.savepoint(), rows));
                }
                1 => {
                    let place = random.below(states.len() as u64) as usize;
                    txn.rollback_to(&states[place].0).unwrap();
                    states.truncate(place + 1);
                    keyed.check_against(&mut txn, &states[place].1, ReadView::Newest, &hint);
                }
                2 => {
                    txn.end_statement();
                    txn.start_statement();
                }
                _ => {
                    let rows: Vec<_> = common::rows(&mut txn, &keyed.table);
                    let rid = rows.get(random.below(rows.len() as u64 + 3) as usize).map(|(rid, _)| *rid);
                    let row = (rid.is_none() || !random.one_in(3)).then(|| Fields::random(&mut random, 60).row());
                    match keyed.put(&mut txn, rid, row.as_deref()) {
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{hint}: {error}"),
                    }
                }
            }
        }
        txn.start_statement();
        let last = keyed.check_seen(&mut txn, "last");
        txn.end_statement();
        if seed % 2 == 0 {
            txn.commit().unwrap();
            assert_eq!(keyed.check(&engine), last, "seed {seed}");
        } else {
            txn.rollback().unwrap();
            assert_eq!(keyed.check(&engine), states[0].1, "seed {seed}");
        }
        let before = keyed.check(&engine);
        is_as_before(&engine, &keyed, &before);
    }
}

/// Hazard: a statement of many rows meets a duplicate near its end. What it did is taken back, what
/// the transaction did before stays.
#[test]
fn a_statement_that_meets_a_duplicate_is_taken_back() {
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Group, Kind::Name, Kind::Number]);
    fill(&engine, &keyed, [Fields::of(1077)]);
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut expected = 1;
    for round in 0..4 {
        txn.start_statement();
        for number in 0..50 {
            keyed.insert(&mut txn, &Fields::of(round * 50 + number + 1).row()).unwrap();
        }
        expected += 50;
        txn.end_statement();
        txn.start_statement();
        for number in 0..77 {
            keyed.insert(&mut txn, &Fields::of(1000 + number).row()).unwrap();
        }
        let fields = Fields { name: 7_000_000, ..Fields::of(1077) };
        assert_eq!(keyed.insert(&mut txn, &fields.row()).unwrap_err().kind(), ErrorKind::DuplicateKey);
        txn.rollback_statement();
        assert_eq!(keyed.check_seen(&mut txn, "own").len(), expected);
        txn.end_statement();
    }
    txn.commit().unwrap();
    assert_eq!(keyed.check(&engine).len(), expected);
    settle(&engine);
    settle(&engine);
    keyed.table.audit().unwrap();
}

/// A session that ends in the middle of a transaction leaves nothing.
#[test]
fn sessions_that_end_early() {
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &KINDS);
    let rids = fill(&engine, &keyed, (1..30).map(Fields::of));
    let before = keyed.check(&engine);
    for _ in 0..3 {
        let mut txn = engine.session(Isolation::ReadCommitted);
        rids.iter().step_by(3).for_each(|rid| keyed.delete(&mut txn, *rid).unwrap());
        for number in 100..140 {
            keyed.insert(&mut txn, &Fields::of(number).row()).unwrap();
        }
        drop(txn);
        assert_eq!(keyed.check(&engine), before);
    }
    is_as_before(&engine, &keyed, &before);
}
