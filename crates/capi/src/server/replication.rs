//! A replica's search for the row that an event of the primary changes.

use super::code::PerduraCode;
use super::cursor::PerduraCursor;
use super::handler::on;
use super::session::PerduraSession;

/// Begins a scan to find the row that the primary changed. It sees no snapshot but every commit
/// that has its place in the order of commits, and waits until those are visible. It locks no row:
/// the update or delete that follows locks the row found, and fails with RECORD_CHANGED if that is
/// no longer the one that was read. The transaction must be READ COMMITTED.
///
/// # Errors
/// READ_ONLY_POOL.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_search_begin(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { on(cursor, session, |cursor, session| cursor.start_search(session).map(|()| PerduraCode::Ok)) }
}

/// Begins the search again if there have been commits since it began; END if not.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_search_again(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        on(cursor, session, |cursor, session| match cursor.search_again(session)? {
            true => Ok(PerduraCode::Ok),
            false => Ok(PerduraCode::End),
        })
    }
}

/// Begins a search, as [`perdura_search_begin`] does, through the index that the cursor reads: the
/// reads that follow see every commit that has its place in the order of commits. With `again` it
/// does so if there have been commits since it began before; END if not.
///
/// # Errors
/// READ_ONLY_POOL.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_index_search(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    again: bool,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        on(cursor, session, |cursor, session| match cursor.search_index(session, again)? {
            true => Ok(PerduraCode::Ok),
            false => Ok(PerduraCode::End),
        })
    }
}
