//! Counters of a pool, for the server's status variables.

use super::call::call_or;
use super::engine::PerduraEngine;
use perdura_engine::Counters;
use std::ffi::{CStr, c_char};
use std::sync::atomic::Ordering;

/// A status variable: a counter since the pool was opened, or a gauge of what is now.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraCounter {
    /// Its name, without the `Perdura_` in front.
    pub name: *const c_char,
    /// Its value.
    pub value: u64,
}

/// Those of sessions: open (a gauge), begun, transactions begun, those that only read included, and
/// rows that reads through an index did without, since the entry had all that they needed.
const OF_SESSIONS: [&CStr; 4] = [c"sessions_open", c"sessions_begun", c"transactions", c"rows_not_read"];

/// Reads all counters, as many as there is room for, always in the same order. Returns how many
/// there are. Without a pool their values are 0.
///
/// # Safety
/// `engine` must be open or null, `target` writable for `room` counters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counters(
    engine: *const PerduraEngine,
    target: *mut PerduraCounter,
    room: usize,
) -> usize {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { engine.as_ref() };
    let read = call_or(engine.map(PerduraEngine::engine), Vec::new(), || counters(engine));
    for (place, (name, value)) in read.iter().take(room).enumerate() {
        // SAFETY: there is room for it, as the caller vouches for.
        unsafe { target.add(place).write(PerduraCounter { name: name.as_ptr(), value: *value }) };
    }
    OF_SESSIONS.len() + Counters::NAMES.len()
}

fn counters(engine: Option<&PerduraEngine>) -> Vec<(&'static CStr, u64)> {
    let sessions = engine.map_or([0; OF_SESSIONS.len()], |engine| {
        let sessions = &engine.sessions;
        let counters = [&sessions.open, &sessions.begun, &sessions.transactions, &sessions.rows_not_read];
        counters.map(|counter| counter.load(Ordering::Relaxed))
    });
    let values = engine.map(|engine| engine.engine().counters()).unwrap_or_default().values();
    OF_SESSIONS.into_iter().zip(sessions).chain(Counters::NAMES.iter().copied().zip(values)).collect()
}
