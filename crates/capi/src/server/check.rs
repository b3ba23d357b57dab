//! CHECK TABLE: the online check of a cursor's table. The engine verifies what it has stored, this
//! adds whether each row is one of the table's definition, and has the keys that its entries have.

use super::code::{Failure, Outcome, PERDURA_NO_INDEX, PerduraCode};
use super::cursor::PerduraCursor;
use super::handler::on;
use super::key::PerduraKey;
use super::session::{PerduraSession, Session};
use perdura_engine::{CheckClient, CheckDepth, Error, Key};
use std::ffi::c_void;

/// Callbacks of a check.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PerduraCheckHooks {
    /// Whether to go on, now that `done` of `all` parts of the table are checked. Asked often.
    pub goes_on: unsafe extern "C" fn(context: *mut c_void, done: u64, all: u64) -> bool,
    /// Tells of a fault: its row, file and offset, what is wrong there, and the remedy; and the
    /// index that it is in, or `PERDURA_NO_INDEX`.
    pub fault: unsafe extern "C" fn(context: *mut c_void, text: *const u8, bytes: usize, index: u32),
    /// Makes the key that the row in the record has in the index of this number. False if nobody
    /// can tell.
    pub key: unsafe extern "C" fn(context: *mut c_void, index: u32, key: *mut PerduraKey) -> bool,
    /// Passed to all functions.
    pub context: *mut c_void,
}

/// Checks the cursor's table as it is committed now, while others read and change it: descriptors,
/// directory words and rows with their checksums, or with `quick` the rows' headers instead. It
/// stores nothing, marks nothing and locks no row. After a hundred faults it ends.
///
/// # Errors
/// DAMAGED if there were faults, which were reported to the caller; KILLED if the caller did not
/// let it go on.
///
/// # Safety
/// Cursor and session must be live and used by this thread alone; `record` must be a record of the
/// table, the hooks callable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_table_check(
    cursor: *mut PerduraCursor,
    session: *const PerduraSession,
    quick: bool,
    record: *mut u8,
    hooks: PerduraCheckHooks,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        on(cursor, session, |cursor, session| {
            let depth = if quick { CheckDepth::Quick } else { CheckDepth::Full };
            check(cursor, session, depth, &mut Caller { cursor, record, hooks })
        })
    }
}

fn check(cursor: &PerduraCursor, session: &mut Session, depth: CheckDepth, caller: &mut Caller<'_>) -> Outcome {
    let table = cursor.table();
    let summary = session.txn.check_table(table, depth, caller)?;
    let failure = |code, what: String| Err(Failure::new(code, format!("table {}: {what}", table.name())));
    match (summary.faults, summary.is_partial) {
        (0, false) => Ok(PerduraCode::Ok),
        (0, true) => failure(PerduraCode::Killed, "the check was interrupted".to_owned()),
        (faults, _) => failure(PerduraCode::Damaged, format!("{faults} faults were found; the error log has them")),
    }
}

/// The plugin, which has a table checked.
struct Caller<'c> {
    cursor: &'c PerduraCursor,
    record: *mut u8,
    hooks: PerduraCheckHooks,
}

impl CheckClient for Caller<'_> {
    fn goes_on(&mut self, done: u64, all: u64) -> bool {
        // SAFETY: the caller of the check vouched for the hook.
        unsafe { (self.hooks.goes_on)(self.hooks.context, done, all) }
    }

    fn is_row(&mut self, row: &[u8]) -> bool {
        // SAFETY: the caller of the check vouched for the record.
        unsafe { self.cursor.is_row(row, self.record) }
    }

    fn key(&mut self, position: usize, row: &[u8]) -> Option<Key<'_>> {
        let mut key = PerduraKey { bytes: std::ptr::null(), length: 0, may_repeat: false };
        // SAFETY: the caller of the check vouched for record and hook.
        let is_made = unsafe {
            self.cursor.is_row(row, self.record) && (self.hooks.key)(self.hooks.context, position as u32, &mut key)
        };
        // SAFETY: the key is valid until the hook is called again.
        is_made.then(|| unsafe { key.key() })
    }

    fn found(&mut self, fault: Error) {
        let text = fault.to_string();
        let index = fault.index().unwrap_or(PERDURA_NO_INDEX);
        // SAFETY: the caller of the check vouched for the hook.
        unsafe { (self.hooks.fault)(self.hooks.context, text.as_ptr(), text.len(), index) }
    }
}
