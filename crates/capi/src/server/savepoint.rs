//! Savepoints of a transaction.

use super::code::{Failure, PerduraCode};
use super::session::{PerduraSession, with};

/// Sets a savepoint; `id` gets its name. Savepoints end with the transaction.
///
/// # Safety
/// `session` must be live and used by this thread alone, `id` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_savepoint(session: *const PerduraSession, id: *mut u64) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            let writes = session.txn.writes_so_far();
            let savepoint = session.txn.savepoint();
            session.savepoints.insert(writes, savepoint);
            id.write(writes);
            Ok(PerduraCode::Ok)
        })
    }
}

/// Rolls back what was written since a savepoint. The savepoint stays, later ones go.
///
/// # Errors
/// NOT_FOUND if the transaction has no such savepoint; nothing is rolled back.
///
/// # Safety
/// `session` must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_rollback_to_savepoint(session: *const PerduraSession, id: u64) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            let Some(savepoint) = session.savepoints.get(&id).cloned() else { return Err(no_savepoint(id)) };
            session.savepoints.split_off(&(id + 1));
            session.txn.rollback_to(&savepoint)?;
            Ok(PerduraCode::Ok)
        })
    }
}

/// Releases one savepoint; later ones stay, since a server that sets a name again releases only the
/// old savepoint. Memory kept for it goes with the transaction.
///
/// # Errors
/// NOT_FOUND if the transaction has no such savepoint.
///
/// # Safety
/// `session` must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_release_savepoint(session: *const PerduraSession, id: u64) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| match session.savepoints.contains_key(&id) {
            true => Ok(PerduraCode::Ok),
            false => Err(no_savepoint(id)),
        })
    }
}

#[cold]
fn no_savepoint(id: u64) -> Failure {
    Failure::new(PerduraCode::NotFound, format!("savepoint {id} was not set in this transaction"))
}
