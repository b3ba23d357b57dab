//! Statements of a session.

use super::code::PerduraCode;
use super::session::{PerduraSession, with};
use perdura_engine::Isolation;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Begins a statement, and a transaction if none is active: at READ COMMITTED with `read_committed`, else at REPEATABLE READ.
/// The statement waits up to `lock_wait_ms` milliseconds for a row lock. Does nothing within a statement.
///
/// # Safety
/// `session` must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_statement_begin(
    session: *const PerduraSession,
    read_committed: bool,
    lock_wait_ms: u64,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            if session.in_statement {
                return Ok(PerduraCode::Ok);
            }
            if !session.in_transaction {
                let isolation = if read_committed { Isolation::ReadCommitted } else { Isolation::RepeatableRead };
                session.txn.set_isolation(isolation);
                session.txn.mark_begun();
                session.in_transaction = true;
                session.counters.transactions.fetch_add(1, Ordering::Relaxed);
            }
            session.txn.set_lock_wait_timeout(Duration::from_millis(lock_wait_ms));
            session.txn.start_statement();
            session.in_statement = true;
            Ok(PerduraCode::Ok)
        })
    }
}

/// Whether the session is within a statement.
///
/// # Safety
/// As for [`perdura_statement_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_statement_is_open(session: *const PerduraSession) -> bool {
    // SAFETY: as the caller vouches for.
    unsafe { (*session).state().in_statement }
}

/// Ends a statement of a transaction that goes on. Blobs read by it are no longer valid. Does nothing outside a statement.
///
/// # Safety
/// As for [`perdura_statement_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_statement_end(session: *const PerduraSession) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            if session.in_statement {
                session.in_statement = false;
                session.txn.end_statement();
            }
            Ok(PerduraCode::Ok)
        })
    }
}

/// Rolls back what the statement wrote, and ends it. Does nothing outside a statement.
///
/// # Safety
/// As for [`perdura_statement_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_statement_rollback(session: *const PerduraSession) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            if session.in_statement {
                session.in_statement = false;
                session.txn.rollback_statement();
                session.txn.end_statement();
            }
            Ok(PerduraCode::Ok)
        })
    }
}
