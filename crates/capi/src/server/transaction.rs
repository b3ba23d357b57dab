//! Transactions of a session.

use super::code::PerduraCode;
use super::session::{PerduraSession, with};

/// Takes the transaction's snapshot now, so that it agrees with the binary log's position. Does
/// nothing at READ COMMITTED and SERIALIZABLE.
///
/// # Safety
/// `session` must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_take_snapshot(session: *const PerduraSession) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            session.txn.take_snapshot();
            Ok(PerduraCode::Ok)
        })
    }
}

/// Whether the transaction has written nothing so far, and locked no table.
///
/// # Safety
/// `session` must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_keeps_no_table(session: *const PerduraSession) -> bool {
    // SAFETY: as the caller vouches for.
    unsafe { (*session).state().txn.keeps_no_table() }
}

/// Commits the transaction: durable and visible on return. On failure it is rolled back.
///
/// # Errors
/// LOG_FULL, DEVICE_FULL, READ_ONLY_POOL.
///
/// # Safety
/// `session` must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_commit(session: *const PerduraSession) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            session.ended();
            session.txn.commit()?;
            Ok(PerduraCode::Ok)
        })
    }
}

/// Rolls the transaction back.
///
/// # Errors
/// NOT_SUPPORTED after [`super::xa::perdura_commit_ordered`]: the commit is durable.
///
/// # Safety
/// `session` must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_rollback(session: *const PerduraSession) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            session.txn.rollback()?;
            session.ended();
            Ok(PerduraCode::Ok)
        })
    }
}
