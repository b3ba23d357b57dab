//! Hazard: a row, a lock or a transaction that is not what SQL means by it, after the calls that
//! the plugin makes for a statement, in their order and from their threads.

use crate::support::*;
use perdura_capi::server::auto_increment::*;
use perdura_capi::server::backup::*;
use perdura_capi::server::code::PerduraCode;
use perdura_capi::server::cursor::PerduraLock;
use perdura_capi::server::hooks::PerduraWaitHooks;
use perdura_capi::server::rows::*;
use perdura_capi::server::savepoint::*;
use perdura_capi::server::session::*;
use perdura_capi::server::statement::*;
use perdura_capi::server::xa::*;
use std::ffi::c_void;
use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A pool of threads serves the statements of a connection, each on another thread.
#[test]
fn threads_enter_a_session_for_a_statement_and_leave_it() {
    let pool = Pool::new();
    let table = pool.table("./d/t");
    let session = pool.session();
    // SAFETY: the session is live and used by this thread alone.
    unsafe { perdura_session_leave(session.0) };
    for number in 1..=3 {
        let (table, session) = (&table, &session);
        let statement = move || {
            let allowed = std::thread::available_parallelism().unwrap();
            // SAFETY: as above.
            unsafe { perdura_session_enter(session.0) };
            session.begin(true);
            ok(table.insert(session, &row(number, "x")));
            session.commit();
            // SAFETY: as above.
            unsafe { perdura_session_leave(session.0) };
            assert_eq!(std::thread::available_parallelism().unwrap(), allowed, "the thread is let off");
        };
        std::thread::scope(|scope| scope.spawn(statement).join().unwrap());
    }
    session.begin(true);
    assert_eq!(table.rows(&session).len(), 3);
    session.commit();
}

#[test]
fn rows_come_back_with_their_blobs() {
    let pool = Pool::new();
    let table = pool.table("./d/t");
    let session = pool.session();
    let rows = vec![
        row(1, "one"),
        Row { id: 2, name: None, blob: Some(vec![7; 300_000]) },
        Row { id: 3, name: Some(String::new()), blob: Some(Vec::new()) },
    ];
    session.begin(false);
    for row in &rows {
        ok(table.insert(&session, row));
    }
    assert_eq!(table.rows(&session), rows, "own rows");
    session.commit();
    session.begin(false);
    assert_eq!(table.rows(&session), rows, "committed rows");
    session.commit();
}

#[test]
fn changes_are_of_the_row_read_last() {
    let pool = Pool::new();
    let table = pool.table("./d/t");
    let session = pool.session();
    session.begin(false);
    for id in 1..=4 {
        ok(table.insert(&session, &row(id, "old")));
    }
    session.commit();

    session.begin(false);
    table.start_scan(&session);
    let mut second = 0;
    while let Some(found) = table.next(&session).unwrap() {
        match found.id {
            1 => ok(table.delete(&session)),
            2 => second = table.position(),
            3 => ok(table.update(&session, &row(30, "a longer one"))),
            _ => {}
        }
    }
    assert_eq!(table.read(&session, second), Ok(Some(row(2, "old"))));
    ok(table.update(&session, &row(20, "")));
    session.commit();
    session.begin(false);
    assert_eq!(table.rows(&session), [row(20, ""), row(30, "a longer one"), row(4, "old")]);
    session.commit();
}

#[test]
fn an_update_never_meets_its_own_rows() {
    let pool = Pool::new();
    let table = pool.table("./d/t");
    let session = pool.session();
    session.begin(false);
    for id in 0..100 {
        ok(table.insert(&session, &row(id, "x")));
    }
    table.start_scan(&session);
    let mut seen = 0;
    while let Some(found) = table.next(&session).unwrap() {
        seen += 1;
        ok(table.update(&session, &row(found.id + 1000, "y")));
        ok(table.insert(&session, &row(found.id + 2000, "z")));
        assert!(seen <= 100, "the scan met rows of its own statement");
    }
    assert_eq!(seen, 100);
    assert_eq!(table.rows(&session).len(), 200);
    session.rollback();
}

#[test]
fn statements_and_savepoints_are_taken_back_alone() {
    let pool = Pool::new();
    let table = pool.table("./d/t");
    let session = pool.session();
    session.begin(false);
    ok(table.insert(&session, &row(1, "kept")));
    session.end_statement();
    let mut savepoint = 0;
    // SAFETY: the session is live and used by this thread.
    ok(unsafe { perdura_savepoint(session.0, &mut savepoint) });
    session.begin(false);
    ok(table.insert(&session, &row(2, "after the savepoint")));
    session.end_statement();
    session.begin(false);
    ok(table.insert(&session, &row(3, "fails")));
    // SAFETY: as above.
    ok(unsafe { perdura_statement_rollback(session.0) });
    session.begin(false);
    assert_eq!(table.rows(&session), [row(1, "kept"), row(2, "after the savepoint")]);
    session.end_statement();
    // SAFETY: as above.
    ok(unsafe { perdura_rollback_to_savepoint(session.0, savepoint) });
    session.begin(false);
    assert_eq!(table.rows(&session), [row(1, "kept")]);
    session.commit();
}

#[test]
fn a_savepoint_set_again_leaves_the_later_ones() {
    // For a second SAVEPOINT a the server releases the first and keeps b, to which the transaction
    // may still roll back.
    let pool = Pool::new();
    let table = pool.table("./d/t");
    let session = pool.session();
    let savepoint = || {
        let mut id = 0;
        // SAFETY: the session is live and used by this thread.
        ok(unsafe { perdura_savepoint(session.0, &mut id) });
        id
    };
    let insert = |id| {
        session.begin(false);
        ok(table.insert(&session, &row(id, "x")));
        session.end_statement();
    };
    insert(1);
    let a = savepoint();
    insert(2);
    let b = savepoint();
    insert(3);
    // SAFETY: the session is live and used by this thread.
    ok(unsafe { perdura_release_savepoint(session.0, a) });
    let a_again = savepoint();
    // SAFETY: as above.
    ok(unsafe { perdura_rollback_to_savepoint(session.0, b) });
    session.begin(false);
    assert_eq!(table.rows(&session), [row(1, "x"), row(2, "x")]);
    session.end_statement();
    // The savepoints after b are gone, and a rollback to one of them rolls nothing back.
    // SAFETY: as above.
    assert_eq!(unsafe { perdura_rollback_to_savepoint(session.0, a_again) }, PerduraCode::NotFound);
    session.begin(false);
    assert_eq!(table.rows(&session).len(), 2);
    session.commit();
    // SAFETY: as above.
    assert_eq!(unsafe { perdura_rollback_to_savepoint(session.0, b) }, PerduraCode::NotFound, "of another transaction");
    // SAFETY: as above.
    assert_eq!(unsafe { perdura_release_savepoint(session.0, b) }, PerduraCode::NotFound);
}

#[test]
fn locks_of_rows_that_do_not_match_are_given_back() {
    let pool = Pool::new();
    let (table, other_table) = (pool.table("./d/t"), pool.open("./d/t", b"v1").unwrap());
    let (session, other) = (pool.session(), pool.session());
    session.begin(true);
    ok(table.insert(&session, &row(1, "x")));
    ok(table.insert(&session, &row(2, "x")));
    session.commit();

    session.begin(true);
    table.prepare(PerduraLock::Exclusive);
    table.start_scan(&session);
    table.next(&session).unwrap();
    // SAFETY: both are live.
    unsafe { perdura_unlock(table.0, session.0) };
    table.next(&session).unwrap();

    // SAFETY: the session is live and used by this thread.
    ok(unsafe { perdura_statement_begin(other.0, PerduraIsolation::ReadCommitted, 0) });
    other_table.prepare(PerduraLock::Exclusive);
    other_table.start_scan(&other);
    assert_eq!(other_table.next(&other), Ok(Some(row(1, "x"))));
    assert_eq!(other_table.next(&other), Err(PerduraCode::LockWaitTimeout));
    other.rollback();
    session.commit();
}

#[test]
fn a_wait_is_told_about_and_can_be_killed() {
    static WAITS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn begins(_: *mut c_void) {
        WAITS.fetch_add(1, Ordering::SeqCst);
    }
    unsafe extern "C" fn ends(_: *mut c_void) {
        WAITS.fetch_add(100, Ordering::SeqCst);
    }
    let pool = Pool::new();
    let (table, other_table) = (pool.table("./d/t"), pool.open("./d/t", b"v1").unwrap());
    let session = pool.session();
    session.begin(true);
    ok(table.insert(&session, &row(1, "x")));
    session.commit();
    session.begin(true);
    table.prepare(PerduraLock::Exclusive);
    table.start_scan(&session);
    table.next(&session).unwrap();

    let hooks = PerduraWaitHooks {
        begin: Some(begins),
        end: Some(ends),
        conflict: None,
        statement: None,
        context: std::ptr::null_mut(),
    };
    // SAFETY: the engine is open, the hooks are functions.
    let waiter = Session(unsafe { perdura_session_begin(pool.engine, hooks) });
    std::thread::scope(|scope| {
        let waiter = &waiter;
        let waiting = scope.spawn(move || {
            waiter.begin(true);
            other_table.prepare(PerduraLock::Exclusive);
            other_table.start_scan(waiter);
            let read = other_table.next(waiter);
            waiter.rollback();
            read
        });
        while !waiting.is_finished() {
            // SAFETY: the session is live.
            unsafe { perdura_session_kill(waiter.0) };
            std::thread::yield_now();
        }
        assert_eq!(waiting.join().unwrap(), Err(PerduraCode::Killed));
    });
    assert_eq!(WAITS.load(Ordering::SeqCst), 101);
    session.commit();
}

unsafe extern "C" fn collect(context: *mut c_void, xid: *const u8, bytes: usize) {
    // SAFETY: the test gives a vector, the pool a name of as many bytes.
    unsafe { (*context.cast::<Vec<Vec<u8>>>()).push(std::slice::from_raw_parts(xid, bytes).to_vec()) };
}

fn prepared(pool: &Pool) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    // SAFETY: the engine is open; the context is what `collect` expects.
    ok(unsafe { perdura_prepared_list(pool.engine, collect, (&raw mut names).cast()) });
    names.sort();
    names
}

fn decide(pool: &Pool, xid: &[u8], commit: bool) -> PerduraCode {
    // SAFETY: the engine is open.
    unsafe { perdura_prepared_decide(pool.engine, xid.as_ptr(), xid.len(), commit) }
}

#[test]
fn prepared_transactions_outlive_their_session_and_the_server() {
    let pool = Pool::new();
    let table = pool.table("./d/t");
    for (id, xid) in [(1, b"commit"), (2, b"forget")] {
        let session = pool.session();
        session.begin(false);
        ok(table.insert(&session, &row(id, "prepared")));
        // SAFETY: the session is live and used by this thread.
        ok(unsafe { perdura_prepare(session.0, xid.as_ptr(), xid.len()) });
    }
    assert_eq!(prepared(&pool), [b"commit", b"forget"]);
    drop(table);
    let pool = pool.reopen();
    assert_eq!(prepared(&pool), [b"commit", b"forget"]);
    ok(decide(&pool, b"commit", true));
    ok(decide(&pool, b"forget", false));
    assert_eq!(decide(&pool, b"commit", true), PerduraCode::NotFound);
    assert!(prepared(&pool).is_empty());
    let (table, session) = (pool.open("./d/t", b"v1").unwrap(), pool.session());
    session.begin(false);
    assert_eq!(table.rows(&session), [row(1, "prepared")]);
    session.commit();
}

#[test]
fn the_order_of_commits_is_given_by_another_thread() {
    let pool = Pool::new();
    let table = pool.table("./d/t");
    let session = pool.session();
    session.begin(false);
    ok(table.insert(&session, &row(1, "ordered")));
    // SAFETY: the session is live and used by this thread.
    ok(unsafe { perdura_prepare(session.0, b"xid".as_ptr(), 3) });
    std::thread::scope(|scope| {
        let session = &session;
        // SAFETY: the session's own thread waits meanwhile.
        scope.spawn(move || unsafe {
            perdura_commit_ordered(session.0);
            perdura_show_ordered(session.0);
        });
    });
    let other = pool.session();
    other.begin(false);
    assert_eq!(table.rows(&other), [row(1, "ordered")], "its own thread has not run");
    other.commit();
    session.commit();
    session.begin(false);
    assert_eq!(table.rows(&session), [row(1, "ordered")]);
    session.commit();
}

/// A call of a counter: values reserved for the session's statement, or 0 with its code.
fn reserve(pool: &Pool, session: &Session, table: &Cursor, wanted: u64) -> (PerduraCode, u64) {
    let (mut first, mut count) = (0, 0);
    let counting = PerduraCounting { offset: 1, increment: 1 };
    // SAFETY: the pool is open, session and cursor are live and used by this thread.
    let code = unsafe {
        perdura_counter_reserve(pool.engine, session.0, table.0, counting, wanted, 0, u64::MAX, &mut first, &mut count)
    };
    (code, count)
}

/// Asks for a hold of the pool; its number.
fn begin_hold(pool: &Pool) -> u64 {
    let mut hold = 0;
    // SAFETY: the pool is open.
    ok(unsafe { perdura_hold_begin(pool.engine, &mut hold) });
    hold
}

/// Hazard: a backup waits for a statement that waits, with the values of its AUTO_INCREMENT column,
/// for the end of the backup.
#[test]
fn a_hold_does_not_wait_for_a_counter_that_waits_for_it() {
    let pool = Pool::new();
    let table = pool.table("./d/t");
    let session = pool.session();
    // SAFETY: the pool is open and the cursor is used by this thread.
    ok(unsafe { perdura_counter_set(pool.engine, null(), table.0, 1) });
    session.begin(false);
    ok(table.insert(&session, &row(1, "begins a change")));
    let hold = begin_hold(&pool);
    std::thread::scope(|scope| {
        let pool = &pool;
        // SAFETY: the pool is open.
        let holding = scope.spawn(|| unsafe { perdura_hold_wait(pool.engine, hold, WAIT_MS) });
        std::thread::sleep(Duration::from_millis(100));
        assert!(!holding.is_finished(), "a statement that has written is running");
        for _ in 0..3 {
            assert_eq!(reserve(pool, &session, &table, 10_000), (PerduraCode::Ok, 10_000));
        }
        assert!(!holding.is_finished(), "the statement is still running");
        session.end_statement();
        ok(holding.join().unwrap());
    });
    // SAFETY: the pool is open.
    unsafe {
        assert_eq!(perdura_present_hold(pool.engine), hold);
        assert!(!perdura_release(pool.engine, hold + 1), "another's");
        assert!(perdura_release(pool.engine, hold) && perdura_present_hold(pool.engine) == 0);
    }
    session.commit();
}

/// Hazard: while the pool is held, a statement that waits for values of a counter cannot be killed,
/// and keeps others from them; or the pool cannot be closed.
#[test]
fn a_wait_of_a_counter_for_a_held_pool_ends_with_a_kill() {
    let pool = Pool::new();
    let table = pool.table("./d/t");
    let other = pool.open("./d/t", b"v1").expect("an open table");
    let (session, late) = (pool.session(), pool.session());
    // SAFETY: the pool is open and the cursor is used by this thread.
    ok(unsafe { perdura_counter_set(pool.engine, null(), table.0, 1) });
    late.begin(false);
    ok(other.insert(&late, &row(1, "begins a change")));
    session.begin(false);
    let hold = begin_hold(&pool);
    std::thread::scope(|scope| {
        let (pool, session) = (&pool, &session);
        // SAFETY: the pool is open.
        let holding = scope.spawn(|| unsafe { perdura_hold_wait(pool.engine, hold, WAIT_MS) });
        std::thread::sleep(Duration::from_millis(100));
        let waiting = scope.spawn(move || reserve(pool, session, &table, 10_000).0);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished(), "a store while the pool is held");
        // It does not keep the one that the hold waits for.
        assert_eq!(reserve(pool, &late, &other, 20_000), (PerduraCode::Ok, 20_000));
        late.end_statement();
        ok(holding.join().unwrap());
        // SAFETY: the session is live; any thread may kill.
        unsafe { perdura_session_kill(session.0) };
        assert_eq!(waiting.join().unwrap(), PerduraCode::Killed);
    });
    session.end_statement();
    drop(session);
    // SAFETY: the pool is open.
    assert!(unsafe { perdura_release(pool.engine, hold) });
    late.commit();
    drop((late, other));
    let hold = begin_hold(&pool);
    // SAFETY: as above.
    ok(unsafe { perdura_hold_wait(pool.engine, hold, WAIT_MS) });
    // Its counter is ahead of the limit that is stored, and closing stores it.
    drop(pool.reopen());
}
