//! Hazard: a restart brings back entries that were rolled back or deleted, or loses those of
//! commits that redo has to repeat, in leaves that have split or gone since; or it lets go of the
//! keys of prepared transactions.

use crate::common;

use crate::common::keyed::{Fields, KINDS, Keyed, Kind, Rows, config, fill};
use crate::common::settle;
use perdura_engine::{Engine, ErrorKind, Isolation, ReadView};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;
use std::time::Duration;

fn open(medium: &Arc<SimMedium>) -> Engine {
    let shared: Arc<dyn Medium> = medium.clone();
    Engine::open(shared, config()).unwrap_or_else(|error| panic!("{error}"))
}

fn new() -> (Arc<SimMedium>, Engine) {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium);
    (medium, engine)
}

/// Opens the pool after a restart of either kind, and checks the table.
fn restarted(medium: &Arc<SimMedium>, engine: Engine, orderly: bool, kinds: &[Kind], rows: &Rows) -> (Engine, Keyed) {
    if orderly {
        engine.close();
    }
    drop(engine);
    let engine = open(medium);
    let keyed = Keyed::open(&engine, "t", kinds);
    assert_eq!(keyed.check(&engine), *rows);
    (engine, keyed)
}

/// Commits of every size, some checkpointed, some left to redo, then losers; restarted after each,
/// twice at times.
#[test]
fn commits_and_losers_of_every_size() {
    for seed in common::seeds(10) {
        let kinds = [&[Kind::Number, Kind::Group][..], &[Kind::Name], &KINDS][seed as usize % 3];
        let (medium, mut engine) = new();
        let mut keyed = Keyed::create(&engine, "t", kinds);
        let mut random = Random::new(seed);
        for round in 0..12 {
            let mut txn = engine.session(Isolation::ReadCommitted);
            for _ in 0..1 + random.below(5) {
                let rows: Vec<_> = keyed.check(&engine).into_keys().collect();
                let most = if random.one_in(3) { 60 } else { 6 };
                for _ in 0..random.below(most) {
                    let rid = rows.get(random.below(rows.len() as u64 + 8) as usize).copied();
                    let row = (rid.is_none() || random.one_in(2)).then(|| Fields::random(&mut random, 600).row());
                    match keyed.put(&mut txn, rid, row.as_deref()) {
                        Ok(_) => {}
                        Err(error) => {
                            let known = [ErrorKind::DuplicateKey, ErrorKind::NotFound].contains(&error.kind());
                            assert!(known, "seed {seed} round {round}: {error}");
                        }
                    }
                }
                match random.below(8) {
                    0 => txn.rollback().unwrap(),
                    _ => drop(txn.commit().unwrap()),
                }
                if random.one_in(3) {
                    settle(&engine);
                }
            }
            let before = keyed.check(&engine);
            // A loser.
            for rid in before.keys().take(5) {
                keyed.delete(&mut txn, *rid).unwrap();
            }
            for number in 0..random.below(80) {
                let fields = Fields::of(10_000 + number as u32);
                keyed.insert(&mut txn, &fields.row()).unwrap();
            }
            drop((txn, keyed));
            (engine, keyed) = restarted(&medium, engine, random.one_in(2), kinds, &before);
            if random.one_in(3) {
                drop(keyed);
                (engine, keyed) = restarted(&medium, engine, false, kinds, &before);
            }
            if random.one_in(2) {
                engine.sweep().unwrap();
                settle(&engine);
                keyed.table.audit().unwrap_or_else(|error| panic!("seed {seed} round {round}: {error}"));
            }
        }
    }
}

/// Everything is left to redo, while the leaves split and empty again and again.
#[test]
fn redo_meets_leaves_that_have_changed_since() {
    let kinds = [Kind::Number, Kind::Name];
    let (medium, engine) = new();
    let keyed = Keyed::create(&engine, "t", &kinds);
    let mut rids = fill(&engine, &keyed, (1..30).map(|number| Fields::of(number * 100)));
    let mut txn = engine.session(Isolation::ReadCommitted);
    for round in 0..8u32 {
        for number in 1..30 {
            let fields = Fields::of(number * 100 + round + 1);
            rids.push(keyed.insert(&mut txn, &fields.row()).unwrap());
        }
        txn.commit().unwrap();
        for rid in rids.drain(..25) {
            keyed.delete(&mut txn, rid).unwrap();
        }
        txn.commit().unwrap();
        engine.purge();
    }
    let rows = keyed.check(&engine);
    drop((txn, keyed));
    let (engine, keyed) = restarted(&medium, engine, false, &kinds, &rows);
    engine.sweep().unwrap();
    settle(&engine);
    settle(&engine);
    keyed.table.audit().unwrap();
    drop(keyed);
    restarted(&medium, engine, false, &kinds, &rows);
}

/// Inserts and deletes of a prepared transaction stay its own until it is decided, before and after
/// restarts.
#[test]
fn keys_of_prepared_transactions() {
    for (seed, commits) in [(1, true), (2, false), (3, true), (4, false)] {
        let kinds = [Kind::Group, Kind::Number, Kind::Name];
        let (medium, engine) = new();
        let keyed = Keyed::create(&engine, "t", &kinds);
        let rids = fill(&engine, &keyed, (1..60).map(Fields::of));
        let committed = keyed.check(&engine);
        let mut after = committed.clone();
        {
            let mut txn = engine.session(Isolation::ReadCommitted);
            for rid in &rids[..10] {
                keyed.delete(&mut txn, *rid).unwrap();
                after.remove(rid);
            }
            for rid in &rids[10..20] {
                let fields = Fields::of(1000 + rid.row() as u32);
                keyed.update(&mut txn, *rid, &fields.row()).unwrap();
                after.insert(*rid, fields.row());
            }
            // A key that goes and comes back, so that it belongs to another row.
            keyed.delete(&mut txn, rids[30]).unwrap();
            let row = after.remove(&rids[30]).unwrap();
            after.insert(keyed.insert(&mut txn, &row).unwrap(), row);
            for number in 0..seed * 60 {
                let row = Fields::of(5000 + number).row();
                after.insert(keyed.insert(&mut txn, &row).unwrap(), row);
            }
            txn.prepare(b"branch").unwrap();
        }
        // Others split the leaves that it has written.
        let more = fill(&engine, &keyed, (200..350).map(Fields::of));
        let mut committed = keyed.check(&engine);
        for rid in more {
            after.insert(rid, committed[&rid].clone());
        }
        drop(keyed);
        let (mut engine, mut keyed) = restarted(&medium, engine, seed % 2 == 0, &kinds, &committed);
        for turn in 0..2 {
            let mut txn = engine.session(Isolation::ReadCommitted);
            txn.set_lock_wait_timeout(Duration::ZERO);
            let blocked = [Fields::of(1), Fields::of(11), Fields::of(1000 + rids[12].row() as u32), Fields::of(5001)];
            for fields in blocked.into_iter().chain([Fields::of(31)]) {
                txn.start_statement();
                let fields = Fields { name: 0, ..fields };
                let error = keyed.insert(&mut txn, &fields.row()).expect_err("the prepared transaction has this key");
                assert_eq!(error.kind(), ErrorKind::LockWaitTimeout, "turn {turn}, {}: {error}", fields.number);
                txn.rollback_statement();
                txn.end_statement();
            }
            // Its room is not given to others.
            for number in 0..200 {
                keyed.insert(&mut txn, &Fields::of(20_000 + number).row()).unwrap();
            }
            txn.rollback().unwrap();
            let rid = keyed.insert(&mut txn, &Fields::of(30_000 + turn).row()).unwrap();
            txn.commit().unwrap();
            committed.insert(rid, Fields::of(30_000 + turn).row());
            after.insert(rid, Fields::of(30_000 + turn).row());
            settle(&engine);
            drop((txn, keyed));
            (engine, keyed) = restarted(&medium, engine, turn == 0, &kinds, &committed);
        }
        let decided = if commits { engine.commit_prepared(b"branch") } else { engine.rollback_prepared(b"branch") };
        assert!(decided.unwrap());
        let expected = if commits { after } else { committed };
        assert_eq!(keyed.check(&engine), expected, "seed {seed}");
        engine.sweep().unwrap();
        settle(&engine);
        settle(&engine);
        keyed.table.audit().unwrap();
        drop(keyed);
        restarted(&medium, engine, false, &kinds, &expected);
    }
}

/// A transaction that comes to a leaf in several steps, fails for a key in between, and has its
/// leaves split by others logs the same entries more than once; and a row whose key went there and
/// back has bytes of its own in two slots, of which the log names one.
#[test]
fn prepared_in_steps_beside_splits_and_old_entries() {
    for commits in [true, false] {
        let kinds = [Kind::Number, Kind::Group];
        let (medium, engine) = new();
        let keyed = Keyed::create(&engine, "t", &kinds);
        let rids = fill(&engine, &keyed, (1..20).map(Fields::of));
        let there = |number| Fields { number, ..Fields::of(3) }.row();
        {
            let mut txn = engine.session(Isolation::ReadCommitted);
            keyed.update(&mut txn, rids[2], &there(3000)).unwrap();
            txn.commit().unwrap();
        }
        let mut committed = keyed.check(&engine);
        let mut after = committed.clone();
        {
            let mut txn = engine.session(Isolation::ReadCommitted);
            keyed.update(&mut txn, rids[2], &there(3)).unwrap();
            after.insert(rids[2], there(3));
            for number in [100, 101, 102] {
                txn.start_statement();
                let taken = keyed.insert(&mut txn, &Fields { group: number, ..Fields::of(5) }.row());
                assert_eq!(taken.expect_err("the key is taken").kind(), ErrorKind::DuplicateKey);
                let savepoint = txn.savepoint();
                keyed.insert(&mut txn, &Fields::of(number + 500).row()).unwrap();
                txn.rollback_to(&savepoint).unwrap();
                let row = Fields::of(number).row();
                after.insert(keyed.insert(&mut txn, &row).unwrap(), row);
                txn.end_statement();
            }
            for rid in fill(&engine, &keyed, (200..400).map(Fields::of)) {
                committed.insert(rid, Vec::new());
            }
            txn.start_statement();
            let row = Fields::of(103).row();
            after.insert(keyed.insert(&mut txn, &row).unwrap(), row);
            txn.prepare(b"branch").unwrap();
        }
        committed = keyed.check(&engine);
        committed.iter().filter(|(rid, _)| **rid != rids[2]).for_each(|(rid, row)| {
            after.insert(*rid, row.clone());
        });
        drop(keyed);
        let (mut engine, mut keyed) = restarted(&medium, engine, false, &kinds, &committed);
        for turn in 0..2 {
            for (rid, fields) in (0..120).map(|number| Fields::of(5000 + turn * 200 + number)).map(|fields| {
                let mut txn = engine.session(Isolation::ReadCommitted);
                let rid = keyed.insert(&mut txn, &fields.row()).unwrap();
                txn.commit().unwrap();
                (rid, fields)
            }) {
                committed.insert(rid, fields.row());
                after.insert(rid, fields.row());
            }
            drop(keyed);
            (engine, keyed) = restarted(&medium, engine, turn == 0, &kinds, &committed);
        }
        let decided = if commits { engine.commit_prepared(b"branch") } else { engine.rollback_prepared(b"branch") };
        assert!(decided.unwrap());
        assert_eq!(keyed.check(&engine), if commits { after } else { committed });
    }
}

/// A transaction prepared and decided by its own session, in both ways.
#[test]
fn two_phases_without_a_restart() {
    let kinds = [Kind::Number, Kind::Group];
    let (medium, engine) = new();
    let keyed = Keyed::create(&engine, "t", &kinds);
    let rids = fill(&engine, &keyed, (1..40).map(Fields::of));
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut expected = keyed.check(&engine);
    for round in 0..20u32 {
        let rid = rids[round as usize];
        keyed.delete(&mut txn, rid).unwrap();
        let fields = Fields::of(100 + round);
        let new = keyed.insert(&mut txn, &fields.row()).unwrap();
        txn.prepare(&[round as u8]).unwrap();
        keyed.check(&engine);
        if round % 3 == 0 {
            txn.rollback().unwrap();
        } else {
            if round % 3 == 1 {
                txn.commit_ordered();
            }
            txn.commit().unwrap();
            expected.remove(&rid);
            expected.insert(new, fields.row());
        }
        assert_eq!(keyed.check(&engine), expected, "round {round}");
    }
    drop((txn, keyed));
    restarted(&medium, engine, false, &kinds, &expected);
}

/// Many tables, each with indexes, most of them closed and opened again.
#[test]
fn tables_that_close() {
    let (medium, engine) = new();
    drop(engine);
    let shared: Arc<dyn Medium> = medium.clone();
    let engine = Engine::open(shared, perdura_engine::Config { open_files: 1, ..config() }).unwrap();
    for number in 0..6 {
        let keyed = Keyed::create(&engine, &format!("t{number}"), &[Kind::Number, Kind::Name]);
        fill(&engine, &keyed, (0..100 + number * 10).map(Fields::of));
    }
    for round in 0..3 {
        for number in 0..6 {
            let keyed = Keyed::open(&engine, &format!("t{number}"), &[Kind::Number, Kind::Name]);
            let rows = keyed.check(&engine);
            assert_eq!(rows.len() as u32, 100 + number * 10 - round);
            let mut txn = engine.session(Isolation::ReadCommitted);
            keyed.delete(&mut txn, *rows.keys().next().unwrap()).unwrap();
            txn.commit().unwrap();
            keyed.check_against(&mut txn, &keyed.check(&engine), ReadView::Newest, "after the deletion");
        }
        settle(&engine);
        settle(&engine);
        engine.close_idle_tables();
    }
}

/// So many leaves that several threads read and sort them, in an order that says nothing of their
/// keys, some of them replaced.
#[test]
fn leaves_of_a_large_table() {
    let kinds = [Kind::Number, Kind::Group, Kind::Name];
    let (medium, engine) = new();
    let keyed = Keyed::create(&engine, "t", &kinds);
    let rids = fill(&engine, &keyed, (1..6_001).map(|number| Fields::of(number * 2_741 % 6_007)));
    let mut txn = engine.session(Isolation::ReadCommitted);
    for rid in rids.iter().filter(|rid| rid.row() % 4 != 0 && rid.row() < 3_000) {
        keyed.delete(&mut txn, *rid).unwrap();
    }
    txn.commit().unwrap();
    engine.purge();
    let rows = keyed.check(&engine);
    assert!(keyed.table.data_bytes() >= 256 * 4_096, "the indexes have hundreds of segments");
    drop((txn, keyed));
    let (engine, keyed) = restarted(&medium, engine, false, &kinds, &rows);
    fill(&engine, &keyed, (10_000..11_000).map(Fields::of));
    let rows = keyed.check(&engine);
    engine.sweep().unwrap();
    settle(&engine);
    keyed.table.audit().unwrap();
    drop(keyed);
    restarted(&medium, engine, true, &kinds, &rows);
}
