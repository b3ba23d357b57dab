//! Statements of a session.

use super::code::PerduraCode;
use super::session::{PerduraSession, with};
use perdura_engine::Isolation;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Isolation levels: the changes of others that the statements of a transaction see.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerduraIsolation {
    /// Each statement sees what was committed when it began.
    ReadCommitted = 0,
    /// Reads that lock nothing see what was committed at the transaction's first; other statements
    /// work on the newest rows.
    ConsistentReads,
    /// All statements see what was committed at the transaction's first consistent read. To change
    /// or lock a row that somebody has changed since is RECORD_CHANGED.
    RepeatableRead,
    /// As if the transactions ran one after the other: cursors lock the tables that they read.
    Serializable,
}

impl From<PerduraIsolation> for Isolation {
    fn from(isolation: PerduraIsolation) -> Isolation {
        match isolation {
            PerduraIsolation::ReadCommitted => Isolation::ReadCommitted,
            PerduraIsolation::ConsistentReads => Isolation::ConsistentReads,
            PerduraIsolation::RepeatableRead => Isolation::RepeatableRead,
            PerduraIsolation::Serializable => Isolation::Serializable,
        }
    }
}

/// Begins a statement, and a transaction of this isolation if none is active. The statement waits
/// up to `lock_wait_ms` milliseconds for a lock. Does nothing within a statement.
///
/// # Safety
/// `session` must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_statement_begin(
    session: *const PerduraSession,
    isolation: PerduraIsolation,
    lock_wait_ms: u64,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            if session.in_statement {
                return Ok(PerduraCode::Ok);
            }
            if !session.in_transaction {
                session.txn.set_isolation(isolation.into());
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

/// Ends a statement of a transaction that goes on. Blobs read by it are no longer valid. Does
/// nothing outside a statement.
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
                session.count_statement();
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
                session.count_statement();
                session.txn.rollback_statement();
                session.txn.end_statement();
            }
            Ok(PerduraCode::Ok)
        })
    }
}
