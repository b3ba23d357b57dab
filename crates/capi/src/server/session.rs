//! Sessions: a server connection's side of its transactions.
//!
//! Thread-safety: one thread at a time uses a session, with two exceptions.
//! [`perdura_session_kill`] may come from any thread at any time;
//! [`super::xa::perdura_commit_ordered`] comes from the binary log's group leader while the
//! session's own thread waits.

use super::call::{call, call_or, call_reading};
use super::code::{Outcome, PerduraCode};
use super::engine::{PerduraEngine, SessionCounters};
use super::hooks::PerduraWaitHooks;
use super::session_client::SessionClient;
use perdura_engine::{Engine, Isolation, Killer, Savepoint};
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A connection's session. It runs one transaction after the other.
pub struct PerduraSession {
    killer: Killer,
    engine: Engine,
    state: UnsafeCell<Session>,
}

/// State that only the thread using the session touches.
pub(super) struct Session {
    pub(super) txn: perdura_engine::Session,
    client: Arc<SessionClient>,
    hooks: PerduraWaitHooks,
    pub(super) counters: Arc<SessionCounters>,
    /// By name, which is the number of writes before the savepoint: those set with no write between
    /// them share one.
    pub(super) savepoints: BTreeMap<u64, Savepoint>,
    pub(super) in_transaction: bool,
    pub(super) in_statement: bool,
    /// Index entries of the statement whose rows need not be read.
    pub(super) rows_not_read: u64,
    identity: Identity,
}

/// Connection and user that a session was named by last.
#[derive(Default)]
struct Identity {
    connection: u64,
    user: Vec<u8>,
    host: Vec<u8>,
}

impl Session {
    /// Runs `wait`, which waits for a row lock, and calls the hooks before and after. The thread is
    /// let off meanwhile: the server may start another one, which would inherit the pin.
    #[cold]
    pub(super) fn waiting<T>(&mut self, wait: impl FnOnce(&mut perdura_engine::Session) -> T) -> T {
        let has_thread = self.txn.leave_thread();
        let outcome = self.between_hooks(wait);
        if has_thread {
            self.txn.enter_thread();
        }
        outcome
    }

    /// Runs `write`, which seldom waits for a row lock, and calls the hooks before and after.
    #[cold]
    pub(super) fn between_hooks<T>(&mut self, write: impl FnOnce(&mut perdura_engine::Session) -> T) -> T {
        let PerduraWaitHooks { begin, end, context, .. } = self.hooks;
        if let Some(begin) = begin {
            // SAFETY: whoever made the session vouched for its hooks.
            unsafe { begin(context) };
        }
        let outcome = write(&mut self.txn);
        if let Some(end) = end {
            // SAFETY: as above.
            unsafe { end(context) };
        }
        outcome
    }

    /// Names the session in reports. Nearly always it has that name already.
    fn identify(&mut self, connection: u64, user: &[u8], host: &[u8]) {
        let known = &mut self.identity;
        if known.connection == connection && known.user == user && known.host == host {
            return;
        }
        self.client.identify(connection, user, host);
        *known = Identity { connection, user: user.to_vec(), host: host.to_vec() };
    }

    /// Adds what the statement counted to the pool's counters.
    pub(super) fn count_statement(&mut self) {
        if self.rows_not_read > 0 {
            self.counters.rows_not_read.fetch_add(std::mem::take(&mut self.rows_not_read), Ordering::Relaxed);
        }
    }

    /// Forgets the transaction that has ended.
    pub(super) fn ended(&mut self) {
        self.count_statement();
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
    /// No other thread may use the session meanwhile, and no other reference to the state may be
    /// alive.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn state(&self) -> &mut Session {
        // SAFETY: as the caller vouches for.
        unsafe { &mut *self.state.get() }
    }
}

/// Runs a call on a session.
///
/// # Safety
/// `session` must be live and used by this thread alone.
pub(super) unsafe fn with(session: *const PerduraSession, body: impl FnOnce(&mut Session) -> Outcome) -> PerduraCode {
    // SAFETY: as the caller vouches for; the one reference to the state ends with the body.
    unsafe {
        let session = &*session;
        call(Some(&session.engine), || body(session.state()))
    }
}

/// As [`with`], for a body that reads rows.
///
/// # Safety
/// As for [`with`].
#[inline(always)]
pub(super) unsafe fn reading(
    session: *const PerduraSession,
    body: impl FnOnce(&mut Session) -> Outcome,
) -> PerduraCode {
    // SAFETY: as the caller vouches for; the one reference to the state ends with the body.
    unsafe {
        let session = &*session;
        call_reading(|| &session.engine, || body(session.state()))
    }
}

/// Begins a session. Null only after a defect. The calling thread is pinned to the NUMA node of the
/// pool's memory, if the pool was opened so, until [`perdura_session_leave`] or the session's end.
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
    call_or(Some(engine), std::ptr::null_mut(), || {
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
            rows_not_read: 0,
            identity: Identity::default(),
        };
        Box::into_raw(Box::new(PerduraSession { killer, engine: engine.clone(), state: UnsafeCell::new(state) }))
    })
}

/// Ends a session. Rolls back its transaction, unless that is prepared: then it stays prepared.
///
/// # Safety
/// `session` must be live, and nobody may use it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_session_end(session: *mut PerduraSession) {
    // SAFETY: as the caller vouches for.
    let session = unsafe { Box::from_raw(session) };
    let engine = session.engine.clone();
    call_or(Some(&engine), (), move || drop(session));
}

/// Pins the calling thread to the NUMA node of the pool's memory, as
/// [`perdura_session_begin`] did with the thread that began the session, which is let off. For
/// servers whose threads serve one connection after another.
///
/// # Safety
/// `session` must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_session_enter(session: *const PerduraSession) {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            session.txn.enter_thread();
            Ok(PerduraCode::Ok)
        });
    }
}

/// Lets the thread off that is pinned for the session: it has the processors back that it had
/// before.
///
/// # Safety
/// `session` must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_session_leave(session: *const PerduraSession) {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            session.txn.leave_thread();
            Ok(PerduraCode::Ok)
        });
    }
}

/// Interrupts the session's wait for a row lock, if it waits. From any thread.
///
/// # Safety
/// `session` must be live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_session_kill(session: *const PerduraSession) {
    // SAFETY: as the caller vouches for; the session's state is not touched.
    let session = unsafe { &*session };
    call_or(Some(&session.engine), (), || session.killer.kill());
}

/// Names the session in reports: `connection` is the server's number of it, `user` and `host` are
/// texts that end with a NUL; null is an empty one. To be called again when one of them changes,
/// with no transaction active.
///
/// # Safety
/// `session` must be live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_session_identify(
    session: *const PerduraSession,
    connection: u64,
    user: *const c_char,
    host: *const c_char,
) {
    // SAFETY: as the caller vouches for.
    unsafe {
        with(session, |session| {
            session.identify(connection, text(user), text(host));
            Ok(PerduraCode::Ok)
        });
    }
}

/// The bytes of a text from C.
///
/// # Safety
/// `text` must be null or end with a NUL, and stay as it is while the slice lives.
unsafe fn text<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: as the caller vouches for.
    if text.is_null() { &[] } else { unsafe { CStr::from_ptr(text) }.to_bytes() }
}
