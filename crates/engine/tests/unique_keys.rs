//! Hazard: two rows get one unique key, or a key that is free is refused. Whether a key is taken
//! may depend on a transaction that has not ended; then the insert waits for it.

use crate::common::keyed::{Fields, Keyed, Kind, config, fill};
use crate::common::settle;
use perdura_engine::{Engine, ErrorKind, Isolation, Rid, Session};
use perdura_pmem::SimMedium;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

fn open() -> (Engine, Keyed) {
    let engine = Engine::open(Arc::new(SimMedium::new()), config()).unwrap();
    let keyed = Keyed::create(&engine, "t", &[Kind::Group, Kind::Number, Kind::Name]);
    (engine, keyed)
}

fn session(engine: &Engine) -> Session {
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.set_lock_wait_timeout(Duration::ZERO);
    txn
}

/// Fields with a number of their own and another name.
fn fields(number: u64, name: u32) -> Fields {
    Fields { number, group: 1, name, long: 0, padding: 3 }
}

fn is_duplicate(txn: &mut Session, keyed: &Keyed, rid: Option<Rid>, row: Fields, of: (usize, Rid)) {
    let error = keyed.put(txn, rid, Some(&row.row())).expect_err("the key is taken");
    assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
    assert_eq!(txn.duplicate(), Some(of));
}

fn waits(txn: &mut Session, keyed: &Keyed, rid: Option<Rid>, row: Fields) {
    let error = keyed.put(txn, rid, Some(&row.row())).expect_err("somebody may give the key back, or keep it");
    assert_eq!(error.kind(), ErrorKind::LockWaitTimeout, "{error}");
}

#[test]
fn against_committed_and_own_rows() {
    let (engine, keyed) = open();
    let committed = fill(&engine, &keyed, [fields(1, 1), fields(2, 2)]);
    let mut txn = session(&engine);
    is_duplicate(&mut txn, &keyed, None, fields(1, 9), (1, committed[0]));
    is_duplicate(&mut txn, &keyed, None, fields(9, 2), (2, committed[1]));
    is_duplicate(&mut txn, &keyed, Some(committed[0]), fields(2, 1), (1, committed[1]));
    let own = keyed.insert(&mut txn, &fields(3, 3).row()).unwrap();
    is_duplicate(&mut txn, &keyed, None, fields(3, 8), (1, own));
    is_duplicate(&mut txn, &keyed, None, fields(8, 3), (2, own));
    is_duplicate(&mut txn, &keyed, Some(committed[1]), fields(3, 2), (1, own));
    // The refused rows left nothing, in no index.
    txn.commit().unwrap();
    assert_eq!(keyed.check(&engine).len(), 3);
    settle(&engine);
    settle(&engine);
    keyed.table.audit().unwrap();
    fill(&engine, &keyed, [fields(9, 9), fields(8, 8)]);
    assert_eq!(keyed.check(&engine).len(), 5);
}

#[test]
fn keys_that_may_repeat() {
    let (engine, keyed) = open();
    fill(&engine, &keyed, (0..200).map(|number| fields(number, 0)));
    let rids = fill(&engine, &keyed, (200..230).map(|number| fields(number, number as u32)));
    let mut txn = session(&engine);
    keyed.update(&mut txn, rids[0], &fields(200, 0).row()).unwrap();
    keyed.update(&mut txn, rids[1], &fields(201, 200).row()).unwrap();
    is_duplicate(&mut txn, &keyed, Some(rids[0]), fields(200, 200), (2, rids[1]));
    txn.commit().unwrap();
    assert_eq!(keyed.check(&engine).len(), 230);
}

/// A key moves from row to row, and rows swap keys, in one transaction.
#[test]
fn keys_that_change_hands_in_one_transaction() {
    let (engine, keyed) = open();
    let rids = fill(&engine, &keyed, [fields(1, 1), fields(2, 2)]);
    let mut txn = session(&engine);
    for round in 0..5 {
        keyed.update(&mut txn, rids[0], &fields(99, 99).row()).unwrap();
        let (low, high) = if round % 2 == 0 { (1, 2) } else { (2, 1) };
        keyed.update(&mut txn, rids[1], &fields(low, low as u32).row()).unwrap();
        keyed.update(&mut txn, rids[0], &fields(high, high as u32).row()).unwrap();
        assert_eq!(keyed.find(&mut txn, Kind::Number, &fields(low, 0)), Some(rids[1]));
        if round == 2 {
            txn.commit().unwrap();
            keyed.check(&engine);
        }
    }
    txn.commit().unwrap();
    keyed.check(&engine);
}

/// A key is deleted and inserted again, by the same transaction, again and again, then rolled back
/// or kept.
#[test]
fn a_key_deleted_and_inserted_again() {
    for kept in [true, false] {
        let (engine, keyed) = open();
        let first = fill(&engine, &keyed, [fields(7, 7)])[0];
        let mut txn = session(&engine);
        let mut rid = first;
        for _ in 0..100 {
            keyed.delete(&mut txn, rid).unwrap();
            assert_eq!(keyed.find(&mut txn, Kind::Number, &fields(7, 7)), None);
            rid = keyed.insert(&mut txn, &fields(7, 7).row()).unwrap();
            assert_eq!(keyed.find(&mut txn, Kind::Name, &fields(7, 7)), Some(rid));
        }
        let mut other = session(&engine);
        waits(&mut other, &keyed, None, fields(7, 8));
        other.rollback().unwrap();
        if kept {
            {
                txn.commit().unwrap();
            }
        } else {
            txn.rollback().unwrap()
        }
        let rows = keyed.check(&engine);
        assert_eq!(rows.keys().copied().collect::<Vec<_>>(), [if kept { rid } else { first }]);
        settle(&engine);
        settle(&engine);
        keyed.check(&engine);
        keyed.table.audit().unwrap();
    }
}

/// A key that another transaction has inserted or is deleting is neither free nor taken.
#[test]
fn keys_of_transactions_under_way() {
    let (engine, keyed) = open();
    let rids = fill(&engine, &keyed, [fields(1, 1), fields(2, 2), fields(3, 3)]);
    let (mut one, mut two) = (session(&engine), session(&engine));
    keyed.insert(&mut one, &fields(10, 10).row()).unwrap();
    keyed.delete(&mut one, rids[0]).unwrap();
    keyed.update(&mut one, rids[1], &fields(20, 2).row()).unwrap();
    for row in [fields(10, 99), fields(99, 10), fields(1, 99), fields(99, 1), fields(2, 99), fields(20, 99)] {
        two.start_statement();
        waits(&mut two, &keyed, None, row);
        two.rollback_statement();
        waits(&mut two, &keyed, Some(rids[2]), row);
        two.rollback_statement();
        two.end_statement();
    }
    // Its name is not under way, though the row is locked.
    is_duplicate(&mut two, &keyed, None, fields(98, 2), (2, rids[1]));
    two.rollback().unwrap();
    one.rollback().unwrap();
    // Everything is as before, so what was pending is free.
    fill(&engine, &keyed, [fields(10, 10), fields(20, 20)]);
    let mut txn = session(&engine);
    is_duplicate(&mut txn, &keyed, None, fields(1, 99), (1, rids[0]));
    txn.rollback().unwrap();
    assert_eq!(keyed.check(&engine).len(), 5);
}

/// Runs `first` in one transaction; while it is open, a second thread writes `row`; then the first
/// ends. Returns what the second got.
fn meanwhile(
    engine: &Engine,
    keyed: &Keyed,
    first: impl FnOnce(&mut Session),
    commits: bool,
    row: Fields,
) -> Result<Option<Rid>, perdura_engine::Error> {
    let mut one = session(engine);
    first(&mut one);
    let (begun, begins) = mpsc::channel();
    std::thread::scope(|scope| {
        let second = scope.spawn(move || {
            let mut two = engine.session(Isolation::ReadCommitted);
            two.set_lock_wait_timeout(Duration::from_secs(20));
            begun.send(()).unwrap();
            let written = keyed.put(&mut two, None, Some(&row.row()))?;
            two.commit().unwrap();
            Ok(written)
        });
        begins.recv().unwrap();
        // Long enough that the second usually waits; right in any case.
        std::thread::sleep(Duration::from_millis(30));
        if commits {
            {
                one.commit().unwrap();
            }
        } else {
            one.rollback().unwrap()
        }
        second.join().unwrap()
    })
}

#[test]
fn an_insert_waits_for_what_becomes_of_the_key() {
    for commits in [true, false] {
        let (engine, keyed) = open();
        let rid = fill(&engine, &keyed, [fields(1, 1)])[0];
        let is_taken = |result: Result<Option<Rid>, perdura_engine::Error>| match result {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
                true
            }
        };
        let inserting = |txn: &mut Session| {
            keyed.insert(txn, &fields(5, 5).row()).unwrap();
        };
        assert_eq!(is_taken(meanwhile(&engine, &keyed, inserting, commits, fields(5, 6))), commits);
        let deleting = |txn: &mut Session| keyed.delete(txn, rid).unwrap();
        assert_eq!(is_taken(meanwhile(&engine, &keyed, deleting, commits, fields(50, 1))), !commits);
        keyed.check(&engine);
    }
}

/// Hazard: the key is taken from its row and given to another one in one commit. Whoever waited for
/// the first must find the second.
#[test]
fn the_key_has_moved_when_the_wait_ends() {
    let (engine, keyed) = open();
    let rid = fill(&engine, &keyed, [fields(1, 1)])[0];
    let moving = |txn: &mut Session| {
        keyed.update(txn, rid, &fields(2, 2).row()).unwrap();
        keyed.insert(txn, &fields(1, 1).row()).unwrap();
    };
    let error = meanwhile(&engine, &keyed, moving, true, fields(1, 9)).expect_err("another row has the key now");
    assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
    assert_eq!(keyed.check(&engine).len(), 2);
}

/// Two transactions that wait for each other's keys: one is refused, and nobody waits forever.
#[test]
fn a_deadlock_of_keys_is_found() {
    for _ in 0..20 {
        let (engine, keyed) = open();
        let barrier = std::sync::Barrier::new(2);
        let won: u32 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2u64)
                .map(|thread| {
                    let (engine, keyed, barrier) = (&engine, &keyed, &barrier);
                    scope.spawn(move || {
                        let mut txn = engine.session(Isolation::ReadCommitted);
                        txn.set_lock_wait_timeout(Duration::from_secs(20));
                        keyed.insert(&mut txn, &fields(thread, 10 + thread as u32).row()).unwrap();
                        barrier.wait();
                        match keyed.insert(&mut txn, &fields(1 - thread, 20 + thread as u32).row()) {
                            Ok(_) => {
                                txn.commit().unwrap();
                                1
                            }
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
                                txn.rollback().unwrap();
                                0
                            }
                        }
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(won, 1, "one of the two goes on");
        assert_eq!(keyed.check(&engine).len(), 2);
        assert_eq!((engine.counters().locks_held, engine.counters().locks_waited_for), (0, 0));
    }
}

/// Hazard: under an old snapshot a key looks free, or taken, that is not. Uniqueness is that of the
/// newest rows.
#[test]
fn a_snapshot_does_not_decide_what_is_unique() {
    let (engine, keyed) = open();
    let rid = fill(&engine, &keyed, [fields(1, 1)])[0];
    let mut old = engine.session(Isolation::RepeatableRead);
    old.start_statement();
    keyed.check_seen(&mut old, "old");
    let mut txn = session(&engine);
    keyed.delete(&mut txn, rid).unwrap();
    let new = keyed.insert(&mut txn, &fields(2, 2).row()).unwrap();
    txn.commit().unwrap();
    is_duplicate(&mut old, &keyed, None, fields(2, 3), (1, new));
    let own = keyed.insert(&mut old, &fields(1, 1).row()).unwrap();
    // It sees the old row, which is gone, and its own with the same key.
    let mut seen = Vec::new();
    let mut scan = old.index(&keyed.table, 1).scan(perdura_engine::ReadView::Snapshot);
    scan.seek(&old, std::ops::Bound::Unbounded, perdura_engine::Direction::Forward).unwrap();
    while let Some(rid) = scan.next(&old).unwrap() {
        seen.push(rid);
    }
    seen.sort();
    let mut expected = vec![rid, own];
    expected.sort();
    assert_eq!(seen, expected);
    old.end_statement();
    old.commit().unwrap();
    assert_eq!(keyed.check(&engine).len(), 2);
}

/// Hazard: INSERT IGNORE or an upsert of many rows whose keys are taken holds the room of all of
/// them until the transaction ends.
#[test]
fn refused_inserts_take_no_room() {
    const REFUSED: u32 = 3000;
    // Rows inserted before, one by one or in bulk; and bytes beside the keys: in cells, and in
    // extents.
    for (inserted, padding) in [(0, 30), (40, 30), (200, 30), (0, 900), (200, 900)] {
        let (engine, keyed) = open();
        let committed = fill(&engine, &keyed, (1..=50).map(|number| fields(number, number as u32)));
        let mut txn = session(&engine);
        txn.start_statement();
        for number in 1000..1000 + inserted {
            keyed.insert(&mut txn, &fields(number, number as u32).row()).unwrap();
        }
        let mut refuse = |number: u32| {
            // The first unique key refuses it, or the second once the first is there.
            let (taken, new) = (1 + number % 50, 5000 + number);
            let (number, name) = if number.is_multiple_of(2) { (taken, new) } else { (new, taken) };
            let row = Fields { padding, ..fields(u64::from(number), name) };
            let at = if name == new { 1 } else { 2 };
            is_duplicate(&mut txn, &keyed, None, row, (at, committed[taken as usize - 1]));
        };
        let used = || engine.counters().data_bytes - engine.counters().free_bytes;
        (0..200).for_each(&mut refuse);
        let before = used();
        (200..REFUSED).for_each(&mut refuse);
        // No more than the segment that is open: a row of each refusal would take a hundred times
        // that.
        let more = used().saturating_sub(before);
        assert!(more <= 2 * config().segment_bytes, "{inserted} rows, padding {padding}: {more} bytes more");
        txn.end_statement();
        keyed.insert(&mut txn, &fields(9000, 9000).row()).unwrap();
        txn.commit().unwrap();
        assert_eq!(keyed.check(&engine).len() as u64, 51 + inserted);
        settle(&engine);
        settle(&engine);
        keyed.table.audit().unwrap();
    }
}

/// Hazard: what a refused insert took goes to others although they wait for its row.
#[test]
fn a_refused_row_that_others_wait_for_stays_locked() {
    let (engine, keyed) = open();
    fill(&engine, &keyed, [fields(2, 2)]);
    let holder = keyed_holder(&engine, &keyed);
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.set_lock_wait_timeout(Duration::from_secs(60));
    let mut waiter = engine.session(Isolation::ReadCommitted);
    waiter.set_lock_wait_timeout(Duration::from_secs(60));
    std::thread::scope(|scope| {
        let (engine, keyed) = (&engine, &keyed);
        // Its first key is in, and it waits for the holder's row with the second.
        let inserting = scope.spawn(move || {
            let error = keyed.insert(&mut txn, &fields(7, 3).row()).expect_err("the name is taken");
            assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
            txn
        });
        await_waits(engine, 1);
        let waiting = scope.spawn(move || keyed.insert(&mut waiter, &fields(7, 4).row()).map(|_| waiter));
        await_waits(engine, 2);
        let mut holder = holder;
        holder.commit().unwrap();
        let mut txn = inserting.join().unwrap();
        assert!(!waiting.is_finished(), "it waits for the row until the transaction ends");
        // Others insert meanwhile: none of them gets the row that is waited for.
        let mut other = session(engine);
        for number in 100..140 {
            keyed.insert(&mut other, &fields(number, number as u32).row()).unwrap();
        }
        other.commit().unwrap();
        keyed.insert(&mut txn, &fields(50, 50).row()).unwrap();
        txn.commit().unwrap();
        waiting.join().unwrap().unwrap().commit().unwrap();
    });
    assert_eq!(keyed.check(&engine).len(), 44);
    settle(&engine);
    settle(&engine);
    keyed.table.audit().unwrap();
}

/// A transaction that has inserted a row with name 3, and not ended.
fn keyed_holder(engine: &Engine, keyed: &Keyed) -> Session {
    let mut holder = session(engine);
    keyed.insert(&mut holder, &fields(1, 3).row()).unwrap();
    holder.end_statement();
    holder
}

/// Waits until so many transactions wait for locks.
fn await_waits(engine: &Engine, count: u64) {
    while engine.counters().locks_waited_for != count {
        std::thread::sleep(Duration::from_millis(1));
    }
}
