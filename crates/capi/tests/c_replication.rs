//! Hazard: a replica's worker that searches for an event's row and misses it, because an earlier
//! transaction that brings the row has its place in the order of commits but is not visible yet, or
//! commits while the worker searches.

use crate::support::*;
use perdura_capi::server::code::PerduraCode;
use perdura_capi::server::cursor::PerduraLock;
use perdura_capi::server::replication::*;
use perdura_capi::server::xa::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A pool with one table of rows 1 to 3, open twice, and two sessions.
struct Pair {
    _pool: Pool,
    table: Cursor,
    other_table: Cursor,
    worker: Session,
    other: Session,
}

fn pair() -> Pair {
    let pool = Pool::new();
    let (table, other_table) = (pool.table("./d/t"), pool.open("./d/t", b"v1").unwrap());
    let (worker, other) = (pool.session(), pool.session());
    worker.begin(true);
    for id in 1..=3 {
        ok(table.insert(&worker, &row(id, "old")));
    }
    worker.commit();
    Pair { _pool: pool, table, other_table, worker, other }
}

fn search(table: &Cursor, session: &Session) {
    table.prepare(PerduraLock::Write);
    // SAFETY: both are live and used by this thread.
    ok(unsafe { perdura_search_begin(table.0, session.0) });
}

fn search_again(table: &Cursor, session: &Session) -> PerduraCode {
    // SAFETY: as above.
    unsafe { perdura_search_again(table.0, session.0) }
}

/// Reads on to row `id`.
fn find(table: &Cursor, session: &Session, id: u32) -> Option<Row> {
    while let Some(found) = table.next(session).unwrap() {
        if found.id == id {
            return Some(found);
        }
    }
    None
}

/// Changes row `id` in a transaction, short of its commit.
fn change(table: &Cursor, session: &Session, id: u32, name: &str) {
    session.begin(true);
    search(table, session);
    find(table, session, id).expect("the row");
    ok(table.update(session, &row(id, name)));
}

#[test]
fn each_search_of_a_statement_sees_what_was_committed_before_it() {
    let Pair { table, other_table, worker, other, .. } = pair();
    worker.begin(true);
    search(&table, &worker);
    assert_eq!(find(&table, &worker, 2), Some(row(2, "old")));
    assert_eq!(search_again(&table, &worker), PerduraCode::End, "nothing has been committed since");
    change(&other_table, &other, 2, "new");
    assert_eq!(search_again(&table, &worker), PerduraCode::End, "nor has this");
    other.commit();
    assert_eq!(search_again(&table, &worker), PerduraCode::Ok);
    assert_eq!(find(&table, &worker, 2), Some(row(2, "new")));
    ok(table.update(&worker, &row(2, "newer")));
    worker.commit();
    other.begin(true);
    other_table.prepare(PerduraLock::None);
    assert_eq!(other_table.rows(&other), [row(1, "old"), row(2, "newer"), row(3, "old")]);
}

#[test]
fn a_search_waits_for_what_is_ordered_and_not_yet_visible() {
    let Pair { table, other_table, worker, other, .. } = pair();
    change(&other_table, &other, 2, "new");
    // SAFETY: the session is live and used by this thread; the name is readable.
    ok(unsafe { perdura_prepare(other.0, b"x".as_ptr(), 1) });
    // SAFETY: as above.
    unsafe { perdura_commit_ordered(other.0) };
    let published = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let published = &published;
        let searched = scope.spawn(move || {
            worker.begin(true);
            search(&table, &worker);
            assert!(published.load(Ordering::SeqCst), "it did not wait");
            let found = find(&table, &worker, 2);
            ok(table.update(&worker, &row(2, "newer")));
            worker.commit();
            found
        });
        std::thread::sleep(Duration::from_millis(50));
        published.store(true, Ordering::SeqCst);
        other.commit();
        assert_eq!(searched.join().unwrap(), Some(row(2, "new")));
    });
}

/// Among rows that are equal in all columns, two transactions find the same one; the first to
/// change it has it.
#[test]
fn a_row_that_changed_after_it_was_found_is_a_conflict() {
    let Pair { table, other_table, worker, other, .. } = pair();
    for deletes in [false, true] {
        worker.begin(true);
        search(&table, &worker);
        assert!(find(&table, &worker, 2).is_some());
        change(&other_table, &other, 2, "taken");
        other.commit();
        let outcome = if deletes { table.delete(&worker) } else { table.update(&worker, &row(2, "mine")) };
        assert_eq!(outcome, PerduraCode::RecordChanged);
        worker.rollback();
    }
    worker.begin(true);
    search(&table, &worker);
    assert_eq!(find(&table, &worker, 2), Some(row(2, "taken")), "nothing was overwritten");
    ok(table.delete(&worker));
    worker.commit();
}

/// If a search locked the rows that it passes, workers would wait for each other at each of them.
#[test]
fn a_search_locks_only_the_row_it_changes() {
    let Pair { table, other_table, worker, other, .. } = pair();
    change(&other_table, &other, 1, "other");
    worker.begin(true);
    search(&table, &worker);
    assert_eq!(find(&table, &worker, 3), Some(row(3, "old")), "past a row that somebody else has locked");
    ok(table.update(&worker, &row(3, "mine")));
    other.commit();
    worker.commit();
}
