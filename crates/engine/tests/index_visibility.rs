//! Hazard: an old snapshot loses entries, or gains some, when leaves split, empty, join and are
//! purged, or when one key changes so often that its leaf has no slot left. By value a leaf is then
//! replaced by a copy without what nobody sees; by reference a checkpoint makes room.

use crate::common::keyed::{Fields, Keyed, Kind, Rows, config, fill};
use crate::common::settle;
use perdura_engine::{Config, Engine, ErrorKind, Isolation, ReadView, Session};
use perdura_pmem::SimMedium;
use perdura_pmem::sim::Random;
use std::sync::{Arc, mpsc};
use std::time::Duration;

fn open(by_value: bool) -> Engine {
    Engine::open(Arc::new(SimMedium::new()), Config { by_value: Some(by_value), ..config() }).unwrap()
}

/// Runs a test on a pool of each form of the log.
fn on_each(test: impl Fn(Engine)) {
    [false, true].into_iter().for_each(|by_value| test(open(by_value)));
}

/// A snapshot, and what it saw first.
struct Old(Session, Rows);

impl Old {
    fn take(engine: &Engine, keyed: &Keyed) -> Old {
        let mut txn = engine.session(Isolation::RepeatableRead);
        txn.start_statement();
        let rows = keyed.check_seen(&mut txn, "new snapshot");
        txn.end_statement();
        Old(txn, rows)
    }

    fn look(&mut self, keyed: &Keyed, hint: &str) {
        self.0.start_statement();
        keyed.check_against(&mut self.0, &self.1, ReadView::Snapshot, hint);
        keyed.find_all(&mut self.0, &self.1, ReadView::Snapshot, hint);
        self.0.end_statement();
    }
}

/// Snapshots from every stage of a table that grows and shrinks.
#[test]
fn snapshots_of_every_stage() {
    let kinds = [&[Kind::Number][..], &[Kind::Name, Kind::Group], &[Kind::Long]];
    for (kinds, by_value) in kinds.into_iter().flat_map(|kinds| [(kinds, false), (kinds, true)]) {
        let engine = open(by_value);
        let keyed = Keyed::create(&engine, "t", kinds);
        let mut random = Random::new(kinds.len() as u64);
        let mut old = vec![Old::take(&engine, &keyed)];
        let mut rids = Vec::new();
        let batch = if kinds.contains(&Kind::Long) { 8 } else { 60 };
        let mut numbers: Vec<u32> = (0..batch * 8).collect();
        for place in (1..numbers.len()).rev() {
            numbers.swap(place, random.below(place as u64 + 1) as usize);
        }
        for some in numbers.chunks(batch as usize) {
            rids.extend(fill(&engine, &keyed, some.iter().copied().map(Fields::of)));
            old.push(Old::take(&engine, &keyed));
            settle(&engine);
        }
        for stage in 0..10 {
            let mut txn = engine.session(Isolation::ReadCommitted);
            for _ in 0..rids.len().div_ceil(10 - stage) {
                let rid = rids.swap_remove(random.below(rids.len() as u64) as usize);
                keyed.delete(&mut txn, rid).unwrap();
            }
            txn.commit().unwrap();
            old.push(Old::take(&engine, &keyed));
            settle(&engine);
            if stage % 3 == 0 {
                old.iter_mut().for_each(|old| old.look(&keyed, &format!("{kinds:?}, stage {stage}")));
            }
        }
        // They go in no order, and purge takes what nobody needs any more.
        while !old.is_empty() {
            old.iter_mut().for_each(|old| old.look(&keyed, &format!("{kinds:?}, purged")));
            old.swap_remove(random.below(old.len() as u64) as usize);
            settle(&engine);
        }
        settle(&engine);
        assert!(keyed.check(&engine).is_empty());
        keyed.table.audit().unwrap();
    }
}

/// A key that comes and goes thousands of times beside a long snapshot, so that its leaf has
/// entries of this key alone.
#[test]
fn thousands_of_changes_of_one_key_beside_a_snapshot() {
    on_each(change_one_key_beside_a_snapshot);
}

fn change_one_key_beside_a_snapshot(engine: Engine) {
    let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Group]);
    let rids = fill(&engine, &keyed, (0..10).map(Fields::of));
    let mut old = Old::take(&engine, &keyed);
    let mut later = Vec::new();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut rid = rids[5];
    for round in 0..2500u32 {
        if round % 3 == 0 {
            keyed.delete(&mut txn, rid).unwrap();
            rid = keyed.insert(&mut txn, &Fields::of(5).row()).unwrap();
        } else {
            let fields = Fields { number: u64::from(4 + round % 3 * 100), group: round % 2, ..Fields::of(5) };
            keyed.update(&mut txn, rid, &fields.row()).unwrap();
        }
        txn.commit().unwrap_or_else(|error| panic!("round {round}: {error}"));
        if round % 10 == 0 {
            settle(&engine);
        }
        if round % 400 == 0 {
            later.push(Old::take(&engine, &keyed));
        }
        if round % 200 == 0 {
            old.look(&keyed, &format!("round {round}"));
            later.iter_mut().for_each(|old| old.look(&keyed, &format!("later, round {round}")));
            keyed.check(&engine);
        }
    }
    drop((old, later));
    settle(&engine);
    settle(&engine);
    assert_eq!(keyed.check(&engine).len(), 10);
    keyed.table.audit().unwrap();
}

/// One transaction that changes a key thousands of times takes no more room than its last state, or
/// fails as a whole.
#[test]
fn thousands_of_changes_of_one_key_in_one_transaction() {
    on_each(change_one_key_in_one_transaction);
}

fn change_one_key_in_one_transaction(engine: Engine) {
    let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Name]);
    let rids = fill(&engine, &keyed, (0..3).map(|number| Fields::of(number + 1)));
    let before = keyed.check(&engine);
    let mut txn = engine.session(Isolation::ReadCommitted);
    for kept in [false, true] {
        for round in 0..1500u32 {
            txn.start_statement();
            let fields = Fields::of(1000 + round % 7 * 3);
            keyed.update(&mut txn, rids[1], &fields.row()).unwrap_or_else(|error| panic!("round {round}: {error}"));
            if round % 250 == 0 {
                let seen = keyed.check_seen(&mut txn, "own");
                assert_eq!(seen[&rids[1]], fields.row());
            }
            txn.end_statement();
        }
        if kept {
            txn.commit().unwrap();
            assert_eq!(keyed.check(&engine)[&rids[1]], Fields::of(1003).row());
        } else {
            txn.rollback().unwrap();
            assert_eq!(keyed.check(&engine), before);
        }
        settle(&engine);
        settle(&engine);
        keyed.table.audit().unwrap();
    }
}

/// Refusals that are waited for: each comes after some 100 ms in which purge might have made room.
const REFUSALS: u32 = 4;

/// Beside a savepoint every one of the changes may come back. When a leaf has no room for more of
/// them the statement fails, and nothing else: the transaction goes on, back to the savepoint or
/// without it.
#[test]
fn too_many_changes_of_one_key_beside_a_savepoint() {
    for (goes_back, by_value) in [(true, false), (false, false), (true, true), (false, true)] {
        let engine = open(by_value);
        let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Name]);
        let rids = fill(&engine, &keyed, (0..9).map(|number| Fields::of(number + 1)));
        let before = keyed.check(&engine);
        let mut txn = engine.session(Isolation::ReadCommitted);
        keyed.update(&mut txn, rids[2], &Fields::of(100).row()).unwrap();
        let marked = keyed.check_seen(&mut txn, "own");
        let savepoint = txn.savepoint();
        let mut last = marked.clone();
        let mut refused = 0;
        for round in 0..300u32 {
            txn.start_statement();
            let row = Fields::of(200 + round % 2 * 5).row();
            match keyed.update(&mut txn, rids[1], &row) {
                Ok(()) => drop(last.insert(rids[1], row)),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::TableFull, "round {round}: {error}");
                    refused += 1;
                    txn.rollback_statement();
                }
            }
            if round % 30 == 0 || refused > 0 {
                keyed.check_against(&mut txn, &last, ReadView::Newest, &format!("round {round}"));
            }
            txn.end_statement();
            if refused == REFUSALS {
                break;
            }
        }
        assert!(refused == REFUSALS, "all of them found room");
        if goes_back {
            txn.rollback_to(&savepoint).unwrap();
            keyed.check_against(&mut txn, &marked, ReadView::Newest, "the savepoint");
            last = marked;
        }
        keyed.update(&mut txn, rids[1], &Fields::of(500).row()).unwrap_or_else(|error| {
            assert!(!goes_back && error.kind() == ErrorKind::TableFull, "{error}");
            txn.rollback_statement();
        });
        txn.rollback().unwrap();
        drop(last);
        assert_eq!(keyed.check(&engine), before);
        settle(&engine);
        settle(&engine);
        keyed.table.audit().unwrap();
    }
}

/// Hazard: a statement that waits for room in a leaf cannot be killed. While a commit that is
/// visible has not stored its words, that wait lasts ten seconds.
#[test]
fn a_wait_for_room_in_a_leaf_ends_with_a_kill() {
    on_each(wait_for_room_until_killed);
}

fn wait_for_room_until_killed(engine: Engine) {
    let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Name]);
    let rids = fill(&engine, &keyed, (0..9).map(|number| Fields::of(number + 1)));
    let before = keyed.check(&engine);
    let mut late = engine.session(Isolation::ReadCommitted);
    keyed.update(&mut late, rids[8], &Fields::of(700).row()).unwrap();
    late.end_statement();
    late.prepare(b"late").unwrap();
    late.commit_ordered();
    late.show_ordered();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let savepoint = txn.savepoint();
    std::thread::scope(|scope| {
        let killer = txn.killer();
        let (keyed, txn, rid) = (&keyed, &mut txn, rids[1]);
        let (begins, begun) = mpsc::channel();
        let changing = scope.spawn(move || {
            for round in 0..300u32 {
                txn.start_statement();
                begins.send(round).unwrap();
                if let Err(error) = keyed.update(txn, rid, &Fields::of(200 + round % 2 * 5).row()) {
                    txn.rollback_statement();
                    return Some(error.kind());
                }
                txn.end_statement();
            }
            None
        });
        // The last statement that begins is the one that waits.
        while begun.recv_timeout(Duration::from_millis(300)).is_ok() {}
        killer.kill();
        assert_eq!(changing.join().unwrap(), Some(ErrorKind::Killed));
    });
    txn.rollback_to(&savepoint).unwrap();
    txn.rollback().unwrap();
    late.commit().unwrap();
    let mut after = before;
    after.insert(rids[8], Fields::of(700).row());
    assert_eq!(keyed.check(&engine), after);
}

/// A key that goes back and forth in commits of its own, hundreds of them in one round of purge:
/// its entries are all the same.
#[test]
fn a_key_that_flips_between_two_rounds_of_purge() {
    let cases = [(Kind::Number, false), (Kind::Number, true), (Kind::Name, true), (Kind::Group, false)];
    for ((kind, beside_a_snapshot), by_value) in cases.into_iter().flat_map(|case| [(case, false), (case, true)]) {
        let engine = open(by_value);
        let keyed = Keyed::create(&engine, "t", &[kind]);
        let rids = fill(&engine, &keyed, (1..60).map(Fields::of));
        let mut old = beside_a_snapshot.then(|| Old::take(&engine, &keyed));
        let mut txn = engine.session(Isolation::ReadCommitted);
        for round in 0..400u32 {
            let fields = Fields::of(if round % 2 == 0 { 1003 } else { 21 });
            keyed.update(&mut txn, rids[20], &fields.row()).unwrap_or_else(|error| panic!("round {round}: {error}"));
            txn.commit().unwrap_or_else(|error| panic!("round {round}: {error}"));
            if round % 40 == 39 {
                keyed.check(&engine);
                old.iter_mut().for_each(|old| old.look(&keyed, &format!("{kind:?}, round {round}")));
            }
            if round % 200 == 199 {
                settle(&engine);
            }
        }
        drop(old);
        settle(&engine);
        settle(&engine);
        assert_eq!(keyed.check(&engine).len(), 59);
        keyed.table.audit().unwrap();
    }
}

/// A group of a thousand rows: entries of one key over many leaves, deleted and inserted in every
/// order.
#[test]
fn one_key_over_many_leaves() {
    on_each(fill_leaves_with_one_key);
}

fn fill_leaves_with_one_key(engine: Engine) {
    let keyed = Keyed::create(&engine, "t", &[Kind::Group]);
    let of_group = |group: u32, number: u32| Fields { group, ..Fields::of(number) };
    let mut rids = fill(&engine, &keyed, (0..1000).map(|number| of_group(1, number)));
    fill(&engine, &keyed, [of_group(0, 1), of_group(2, 1)]);
    let mut old = Old::take(&engine, &keyed);
    let mut random = Random::new(1);
    let mut txn = engine.session(Isolation::ReadCommitted);
    for round in 0..12 {
        for _ in 0..150 {
            let place = random.below(rids.len() as u64) as usize;
            match random.below(3) {
                0 => keyed.delete(&mut txn, rids.swap_remove(place)).unwrap(),
                1 => keyed.update(&mut txn, rids[place], &of_group(random.below(3) as u32, 9).row()).unwrap(),
                _ => rids.push(keyed.insert(&mut txn, &of_group(1, 9).row()).unwrap()),
            }
        }
        if round % 4 == 3 {
            txn.rollback().unwrap();
            rids = keyed.check(&engine).into_keys().collect();
        } else {
            txn.commit().unwrap();
        }
        settle(&engine);
        old.look(&keyed, &format!("round {round}"));
        keyed.check(&engine);
    }
}

/// READ COMMITTED takes a new snapshot for each statement, also for an index; a session that holds
/// none sees nothing old.
#[test]
fn statements_see_what_was_committed_before_them() {
    let engine = open(false);
    let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
    let mut reader = engine.session(Isolation::ReadCommitted);
    for number in 0..50 {
        fill(&engine, &keyed, [Fields::of(number)]);
        reader.start_statement();
        let first = keyed.check_seen(&mut reader, "statement");
        assert_eq!(first.len(), number as usize + 1);
        let mut txn = engine.session(Isolation::ReadCommitted);
        let rid = keyed.insert(&mut txn, &Fields::of(1000).row()).unwrap();
        keyed.check_against(&mut reader, &first, ReadView::Snapshot, "an insert under way");
        keyed.check_against(&mut reader, &first, ReadView::Newest, "an insert under way");
        txn.commit().unwrap();
        keyed.check_against(&mut reader, &first, ReadView::Snapshot, "a commit since");
        assert_eq!(reader.index(&keyed.table, 0).find(&1000u64.to_be_bytes(), ReadView::Newest).unwrap(), Some(rid));
        reader.end_statement();
        keyed.delete(&mut txn, rid).unwrap();
        txn.commit().unwrap();
    }
}
