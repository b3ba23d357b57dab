//! SEQUENCE objects: tables of one row that is read and replaced in transactions of their own.
//!
//! The row says how far the values of the sequence are reserved. The server stores the end of a new
//! range and then gives out values of it, whatever becomes of the statement that wants them. So a
//! change is durable when the call returns, and whoever reads sees the newest row.

use super::code::{Outcome, PerduraCode};
use super::cursor::PerduraCursor;
use super::handler::alone;
use perdura_engine::{Isolation, Rid, Session};

/// Begins a transaction that sees the newest rows, apart from that of the connection.
fn begin(cursor: &PerduraCursor) -> Session {
    let mut session = cursor.engine().session(Isolation::ReadCommitted);
    session.start_statement();
    session
}

/// The number of the table's one row.
fn only_row(cursor: &PerduraCursor, session: &mut Session) -> Outcome<Option<Rid>> {
    let mut scan = session.scan(cursor.table());
    Ok(scan.next(session)?.map(|(rid, _)| rid))
}

/// Reads the table's one row into `record`, as it was committed last. END if there is none.
///
/// # Safety
/// `cursor` must be open and used by this thread alone; `record` must be a record of the table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_sequence_read(cursor: *mut PerduraCursor, record: *mut u8) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        alone(cursor, |cursor| {
            cursor.refresh()?;
            let mut session = begin(cursor);
            let mut scan = session.scan(cursor.table());
            match scan.next(&session)? {
                Some((rid, row)) => cursor.unpack(rid, row, record),
                None => Ok(PerduraCode::End),
            }
        })
    }
}

/// Replaces the table's one row by `record`, or inserts it if there is none, in a transaction of
/// its own: durable and visible on return. No other call may change the table meanwhile.
///
/// # Errors
/// LOG_FULL, DEVICE_FULL, TABLE_FULL, READ_ONLY_POOL; LOCK_WAIT_TIMEOUT while maintenance moves the
/// row. The row is as it was.
///
/// # Safety
/// `cursor` must be open and used by this thread alone; `record` must be a record of the table,
/// which has no index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_sequence_write(cursor: *mut PerduraCursor, record: *const u8) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        alone(cursor, |cursor| {
            cursor.refresh()?;
            let mut session = begin(cursor);
            let present = only_row(cursor, &mut session)?;
            let (table, row) = cursor.packed(record)?;
            match present {
                Some(rid) => session.update(table, rid, row)?,
                None => {
                    session.insert(table, row)?;
                }
            }
            session.commit()?;
            Ok(PerduraCode::Ok)
        })
    }
}
