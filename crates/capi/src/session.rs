//! A server connection's side of its transactions.
//!
//! One thread uses a session at a time, with two exceptions: [`perdura_session_kill`] may come from any thread at any
//! time, and [`perdura_commit_ordered`] comes from the binary log's group leader while the session's own thread waits.

use crate::barrier;
use crate::code::{Failure, Outcome, PerduraCode};
use crate::engine::{PerduraEngine, SessionCounters};
use crate::session_client::SessionClient;
use perdura_engine::{Engine, Isolation, Killer, Savepoint};
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a session tells and asks the server about row lock waits. Any may be null.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PerduraWaitHooks {
    /// Called before a wait, so that a thread pool can use the time.
    pub begin: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Called after it.
    pub end: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Called before a wait, for each session that holds the row or comes first: the contexts of the waiter and of that session,
    /// whose transaction cannot end meanwhile. Returns whether that one will be killed, and so is no cause of a deadlock.
    /// Called under internal locks: it may call nothing of this library.
    pub conflict: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> bool>,
    /// Copies what the session executes to the target, cut to its number of bytes; returns how many were copied. From any thread,
    /// under internal locks as above.
    pub statement: Option<unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> usize>,
    /// Given to all.
    pub context: *mut c_void,
}

/// A session.
pub struct PerduraSession {
    killer: Killer,
    engine: Engine,
    state: UnsafeCell<Session>,
}

/// What only the session's own thread touches.
pub(crate) struct Session {
    pub(crate) txn: perdura_engine::Session,
    client: Arc<SessionClient>,
    hooks: PerduraWaitHooks,
    counters: Arc<SessionCounters>,
    /// By name: the number of writes before it. Those set with no write between them are one, so there are no more than writes.
    savepoints: BTreeMap<u64, Savepoint>,
    in_transaction: bool,
    in_statement: bool,
}

impl Session {
    /// Runs `wait`, which may wait for a row lock, between the hooks.
    #[cold]
    pub(crate) fn waiting<T>(&mut self, wait: impl FnOnce(&mut perdura_engine::Session) -> T) -> T {
        let PerduraWaitHooks { begin, end, context, .. } = self.hooks;
        if let Some(begin) = begin {
            // SAFETY: whoever made the session vouched for its hooks.
            unsafe { begin(context) };
        }
        let outcome = wait(&mut self.txn);
        if let Some(end) = end {
            // SAFETY: as above.
            unsafe { end(context) };
        }
        outcome
    }

    fn ended(&mut self) {
        self.in_transaction = false;
        self.in_statement = false;
        self.savepoints.clear();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.counters.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PerduraSession {
    /// The session's state, for the thread that uses the session now.
    ///
    /// # Safety
    /// No other thread may use the session meanwhile, and no other reference to the state may be alive.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn state(&self) -> &mut Session {
        // SAFETY: as the caller vouches for.
        unsafe { &mut *self.state.get() }
    }
}

/// Runs a call on a session.
///
/// # Safety
/// `session` must be live and used by this thread alone.
pub(crate) unsafe fn with(session: *const PerduraSession, body: impl FnOnce(&mut Session) -> Outcome) -> PerduraCode {
    // SAFETY: as the caller vouches for; the one reference to the state ends with the body.
    unsafe {
        let session = &*session;
        barrier::call(Some(&session.engine), || body(session.state()))
    }
}

/// Begins a session. Null only after a defect.
///
/// # Safety
/// `engine` must be open; the hooks must stay callable until the session ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_session_begin(
    engine: *const PerduraEngine,
    hooks: PerduraWaitHooks,
) -> *mut PerduraSession {
    // SAFETY: as the caller vouches for.
    let (engine, counters) = unsafe { ((*engine).engine(), (*engine).sessions.clone()) };
    barrier::call_or(Some(engine), std::ptr::null_mut(), || {
        let mut txn = engine.session(Isolation::RepeatableRead);
        let client = Arc::new(SessionClient::new(hooks));
        txn.set_client(Some(client.clone()));
        let killer = txn.killer();
        counters.open.fetch_add(1, Ordering::Relaxed);
        counters.begun.fetch_add(1, Ordering::Relaxed);
        let state = Session {
            txn,
            client,
            hooks,
            counters,
            savepoints: BTreeMap::new(),
            in_transaction: false,
            in_statement: false,
        };
        Box::into_raw(Box::new(PerduraSession { killer, engine: engine.clone(), state: UnsafeCell::new(state) }))
    })
}

/// Ends a session. An active transaction is rolled back; a prepared one stays prepared.
///
/// # Safety
/// `session` must be live, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_session_end(session: *mut PerduraSession) {
    // SAFETY: as the caller vouches for.
    let session = unsafe { Box::from_raw(session) };
    let engine = session.engine.clone();
    barrier::call_or(Some(&engine), (), move || drop(session));
}

/// Interrupts the lock wait the session is in, if it is in one. From any thread.
///
/// # Safety
/// `session` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_session_kill(session: *const PerduraSession) {
    // SAFETY: as the caller vouches for; the session's state is not touched.
    let session = unsafe { &*session };
    barrier::call_or(Some(&session.engine), (), || session.killer.kill());
}

/// Says whose session it is, for reports: the number of its connection, and its user as text. To be called again when the user
/// changes, with no transaction active.
///
/// # Safety
/// As for [`perdura_statement_begin`]; `user` must be readable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_session_identify(
    session: *const PerduraSession,
    connection: u64,
    user: *const u8,
    bytes: usize,
) {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            session.client.identify(connection, std::slice::from_raw_parts(user, bytes));
            Ok(PerduraCode::Ok)
        });
    }
}

/// Begins a statement, and a transaction if none is active. Does nothing within a statement.
/// `lock_wait_ms` is how long row locks are waited for, in milliseconds.
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

/// Ends a statement of a transaction that goes on. Rows read by it are no longer valid.
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

/// Takes back what the statement wrote, and ends it.
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

/// Takes the transaction's snapshot now, in agreement with the binary log.
///
/// # Safety
/// As for [`perdura_statement_begin`].
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

/// Whether the transaction wrote nothing so far.
///
/// # Safety
/// As for [`perdura_statement_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_is_read_only(session: *const PerduraSession) -> bool {
    // SAFETY: as the caller vouches for.
    unsafe { (*session).state().txn.is_read_only() }
}

/// Makes the transaction able to commit at any time, under the name `xid`.
///
/// # Safety
/// As for [`perdura_statement_begin`]; `xid` must be readable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_prepare(session: *const PerduraSession, xid: *const u8, bytes: usize) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            session.in_statement = false;
            session.txn.end_statement();
            session.txn.prepare(std::slice::from_raw_parts(xid, bytes))?;
            Ok(PerduraCode::Ok)
        })
    }
}

/// Gives a prepared transaction its place in the order of commits. From the binary log's group leader.
///
/// # Safety
/// `session` must be live and no other thread may use it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_commit_ordered(session: *const PerduraSession) {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            session.txn.commit_ordered();
            Ok(PerduraCode::Ok)
        });
    }
}

/// Commits: durable and visible on return. On failure the transaction is rolled back.
///
/// # Safety
/// As for [`perdura_statement_begin`].
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
/// NotSupported after [`perdura_commit_ordered`]: the commit is durable.
///
/// # Safety
/// As for [`perdura_statement_begin`].
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

/// Sets a savepoint; `id` gets its name. Savepoints end with the transaction.
///
/// # Safety
/// As for [`perdura_statement_begin`]; `id` must be writable.
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

/// Takes back what was written since a savepoint; it stays, those after it go.
///
/// # Errors
/// NotFound if this transaction has no such savepoint; nothing is taken back.
///
/// # Safety
/// As for [`perdura_statement_begin`].
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

/// Releases a savepoint, and no other: the server releases one that is set again although later ones stay. What is kept of it goes
/// with the transaction.
///
/// # Errors
/// NotFound if this transaction has no such savepoint.
///
/// # Safety
/// As for [`perdura_statement_begin`].
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
