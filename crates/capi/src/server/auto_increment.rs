//! AUTO_INCREMENT: a cursor's table counts, for the server, the values of a column.

use super::code::{Outcome, PerduraCode};
use super::counter::{Counter, Counters};
use super::cursor::PerduraCursor;
use super::engine::PerduraEngine;
use super::handler::alone;
use super::name;
use super::session::PerduraSession;
use std::ptr::null;
use std::sync::Arc;

/// The counters of the pool, and that of the cursor's table.
///
/// # Safety
/// `engine` must be the pool of the cursor, and open.
unsafe fn counter<'e>(
    engine: *const PerduraEngine,
    cursor: &mut PerduraCursor,
) -> Outcome<(&'e PerduraEngine, Arc<Counter>)> {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine };
    let found = match cursor.counter() {
        Some(known) => known,
        None => {
            let table = cursor.table();
            let found = engine.counters().of(engine.engine(), table, !name::is_temporary(&table.name()))?;
            cursor.set_counter(found.clone());
            found
        }
    };
    Ok((engine, found))
}

/// Whether a call stores the counter's limit, and for whom.
#[derive(Clone, Copy)]
enum Storing {
    /// It only reads.
    No,
    /// For a statement that writes, in its change.
    ForStatement,
    /// For DDL: in a change of the call, unless the session is within one.
    ForDefinition,
}

/// Has `body` use the counter of the cursor's table.
///
/// # Safety
/// `engine` must be the pool of the cursor, and open; the cursor must be open and used by this thread alone; `session` must be null,
/// or live and used by this thread alone.
unsafe fn with_counter(
    (engine, session, cursor): (*const PerduraEngine, *const PerduraSession, *mut PerduraCursor),
    storing: Storing,
    body: impl FnOnce(&PerduraEngine, &Counters, &Counter) -> Outcome<()>,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        alone(cursor, |cursor| {
            let (engine, counter) = counter(engine, cursor)?;
            let use_it = || body(engine, engine.counters(), &counter);
            let session = session.as_ref().map(|session| session.state());
            match (storing, session) {
                (Storing::No, _) => use_it()?,
                (Storing::ForStatement, Some(session)) => {
                    session.txn.enter_change()?;
                    use_it()?;
                }
                (Storing::ForDefinition, Some(session)) if session.txn.is_in_change() => use_it()?,
                _ => {
                    engine.counters().prepare(engine.engine())?;
                    engine.engine().within_change(use_it)?;
                }
            }
            Ok(PerduraCode::Ok)
        })
    }
}

/// Sets the next value that the table's counter gives out. `session` is that of the statement; null where there is none.
///
/// # Safety
/// `engine` must be the pool of the cursor, and open; the cursor must be open and used by this thread alone; `session` must be null,
/// or live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counter_set(
    engine: *const PerduraEngine,
    session: *const PerduraSession,
    cursor: *mut PerduraCursor,
    next: u64,
) -> PerduraCode {
    let set =
        |engine: &PerduraEngine, counters: &Counters, counter: &Counter| counters.set(engine.engine(), counter, next);
    // SAFETY: as the caller vouches for.
    unsafe { with_counter((engine, session, cursor), Storing::ForDefinition, set) }
}

/// The next value of the table's counter.
///
/// # Safety
/// As for [`perdura_counter_set`]; `next` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counter_next(
    engine: *const PerduraEngine,
    cursor: *mut PerduraCursor,
    next: *mut u64,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with_counter((engine, null(), cursor), Storing::No, |_, counters, counter| {
            next.write(counters.next(counter));
            Ok(())
        })
    }
}

/// Reserves values of the table's counter, durably: nobody gets them again, not even after a crash. Of the values that are `offset` and
/// a multiple of `increment`, and not above `max`, it takes the next `wanted` or as many as there are. `count` is 0 if there are none.
/// `session` is that of the statement, which waits while the pool is held, as for a write.
///
/// # Errors
/// KILLED if the statement is killed while the pool is held; otherwise as for `perdura_insert`.
///
/// # Safety
/// As for [`perdura_counter_set`]; `first` and `count` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counter_reserve(
    engine: *const PerduraEngine,
    session: *const PerduraSession,
    cursor: *mut PerduraCursor,
    offset: u64,
    increment: u64,
    wanted: u64,
    max: u64,
    first: *mut u64,
    count: *mut u64,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with_counter((engine, session, cursor), Storing::ForStatement, |engine, counters, counter| {
            let reserved = counters.reserve(engine.engine(), counter, (offset, increment), wanted, max)?;
            first.write(reserved.first);
            count.write(reserved.count);
            Ok(())
        })
    }
}

/// Notes that a row has `value`, which the table's counter does not give out any more, if it has not already. `session` is as for
/// `perdura_counter_reserve`.
///
/// # Safety
/// As for [`perdura_counter_set`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counter_pass(
    engine: *const PerduraEngine,
    session: *const PerduraSession,
    cursor: *mut PerduraCursor,
    value: u64,
) -> PerduraCode {
    let pass =
        |engine: &PerduraEngine, counters: &Counters, counter: &Counter| counters.pass(engine.engine(), counter, value);
    // SAFETY: as the caller vouches for.
    unsafe { with_counter((engine, session, cursor), Storing::ForStatement, pass) }
}
