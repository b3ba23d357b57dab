//! Hazard: a statement that changes or locks rows while others change the same rows. It must not
//! overwrite what it did not see, and it must neither wait for rows that it does not use nor fail
//! because of them.

use crate::support::*;
use perdura_capi::server::code::PerduraCode;
use perdura_capi::server::cursor::PerduraLock;
use perdura_capi::server::handler::*;
use perdura_capi::server::rows::*;

/// A pool with one table of rows 1 to 3, open twice, and two sessions.
struct Pair {
    _pool: Pool,
    table: Cursor,
    other_table: Cursor,
    session: Session,
    other: Session,
}

fn pair() -> Pair {
    let pool = Pool::new();
    let (table, other_table) = (pool.table("./d/t"), pool.open("./d/t", b"v1").unwrap());
    let (session, other) = (pool.session(), pool.session());
    session.begin(true);
    for id in 1..=3 {
        ok(table.insert(&session, &row(id, "x")));
    }
    session.commit();
    Pair { _pool: pool, table, other_table, session, other }
}

fn lock_semi_consistent(table: &Cursor, session: &Session) -> PerduraCode {
    // SAFETY: both are live and used by this thread.
    unsafe { perdura_lock_semi_consistent(table.0, session.0) }
}

fn set_semi_consistent(table: &Cursor, lock: PerduraLock) {
    table.prepare(lock);
    // SAFETY: the cursor is open.
    unsafe { perdura_cursor_semi_consistent(table.0, true) };
}

/// Changes row `id` in a transaction, short of its commit.
fn change(table: &Cursor, session: &Session, id: u32, name: &str) {
    session.begin(true);
    set_semi_consistent(table, PerduraLock::Write);
    table.start_scan(session);
    while let Some(found) = table.next(session).unwrap() {
        if found.id == id {
            ok(lock_semi_consistent(table, session));
            ok(table.update(session, &row(id, name)));
        }
    }
}

#[test]
fn a_statement_that_opens_a_transaction_never_conflicts() {
    for read_committed in [true, false] {
        let Pair { table, other_table, session, other, .. } = pair();
        change(&other_table, &other, 1, "changed");

        session.begin(read_committed);
        set_semi_consistent(&table, PerduraLock::Write);
        table.start_scan(&session);
        assert_eq!(table.next(&session), Ok(Some(row(1, "x"))), "the committed row, without a wait");
        std::thread::scope(|scope| {
            // The lock waits and finds the row changed; the next read gives the row out as it is
            // now.
            let (table, session) = (&table, &session);
            let waiting = scope.spawn(move || (lock_semi_consistent(table, session), table.next(session)));
            other.commit();
            assert_eq!(waiting.join().unwrap(), (PerduraCode::End, Ok(Some(row(1, "changed")))));
        });
        ok(lock_semi_consistent(&table, &session));
        ok(table.update(&session, &row(1, "changed twice")));
        assert_eq!(table.next(&session), Ok(Some(row(2, "x"))));
        session.commit();
        session.begin(false);
        assert_eq!(table.rows(&session)[0], row(1, "changed twice"));
        session.commit();
    }
}

#[test]
fn a_row_that_is_gone_once_it_is_locked_is_left_out() {
    let Pair { table, other_table, session, other, .. } = pair();
    session.begin(false);
    set_semi_consistent(&table, PerduraLock::Write);
    table.start_scan(&session);
    assert_eq!(table.next(&session), Ok(Some(row(1, "x"))));
    other.begin(true);
    other_table.prepare(PerduraLock::Write);
    other_table.start_scan(&other);
    other_table.next(&other).unwrap();
    ok(other_table.delete(&other));
    other.commit();
    assert_eq!(lock_semi_consistent(&table, &session), PerduraCode::End);
    assert_eq!(table.next(&session), Ok(Some(row(2, "x"))));
    session.commit();
}

#[test]
fn a_row_changed_after_the_snapshot_is_a_conflict_only_for_who_uses_it() {
    let Pair { table, other_table, session, other, .. } = pair();
    session.begin(false);
    assert_eq!(table.rows(&session).len(), 3, "takes the snapshot");
    session.end_statement();
    change(&other_table, &other, 1, "changed");
    other.commit();

    // SELECT .. FOR UPDATE of row 2: row 1 is read and not locked.
    session.begin(false);
    set_semi_consistent(&table, PerduraLock::Exclusive);
    table.start_scan(&session);
    assert_eq!(table.next(&session), Ok(Some(row(1, "x"))));
    assert_eq!(table.next(&session), Ok(Some(row(2, "x"))));
    ok(lock_semi_consistent(&table, &session));
    session.end_statement();

    // The same of row 1 is a conflict.
    session.begin(false);
    set_semi_consistent(&table, PerduraLock::Exclusive);
    table.start_scan(&session);
    table.next(&session).unwrap();
    assert_eq!(lock_semi_consistent(&table, &session), PerduraCode::End);
    assert_eq!(table.next(&session), Err(PerduraCode::RecordChanged));
    session.end_statement();

    // UPDATE reads from the snapshot and meets the conflict when it changes the row.
    session.begin(false);
    set_semi_consistent(&table, PerduraLock::Write);
    table.start_scan(&session);
    assert_eq!(table.next(&session), Ok(Some(row(1, "x"))));
    assert_eq!(table.update(&session, &row(1, "lost")), PerduraCode::RecordChanged);
    session.rollback();
}

#[test]
fn a_row_that_was_not_locked_is_not_overwritten_unseen() {
    let Pair { table, other_table, session, other, .. } = pair();
    session.begin(false);
    set_semi_consistent(&table, PerduraLock::Write);
    table.start_scan(&session);
    assert_eq!(table.next(&session), Ok(Some(row(1, "x"))));
    change(&other_table, &other, 1, "changed");
    other.commit();
    assert_eq!(table.update(&session, &row(1, "made of x")), PerduraCode::RecordChanged);
    session.rollback();
}

#[test]
fn rows_that_are_not_used_are_not_locked() {
    let Pair { table, other_table, session, other, .. } = pair();
    session.begin(false);
    set_semi_consistent(&table, PerduraLock::Exclusive);
    table.start_scan(&session);
    while let Some(found) = table.next(&session).unwrap() {
        if found.id == 3 {
            ok(lock_semi_consistent(&table, &session));
        }
    }
    change(&other_table, &other, 1, "not waited for");
    other.commit();
    session.commit();
}
