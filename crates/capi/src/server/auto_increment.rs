//! AUTO_INCREMENT: a cursor's table counts, for the server, the values of a column.

use super::code::{Outcome, PerduraCode};
use super::counter::{Counter, Counters};
use super::cursor::PerduraCursor;
use super::engine::PerduraEngine;
use super::handler::alone;
use super::name;
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

/// Has `body` use the counter of the cursor's table.
///
/// # Safety
/// `engine` must be the pool of the cursor, and open; the cursor must be open and used by this thread alone.
unsafe fn with_counter(
    engine: *const PerduraEngine,
    cursor: *mut PerduraCursor,
    body: impl FnOnce(&PerduraEngine, &Counters, &Counter) -> Outcome<()>,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        alone(cursor, |cursor| {
            let (engine, counter) = counter(engine, cursor)?;
            body(engine, engine.counters(), &counter)?;
            Ok(PerduraCode::Ok)
        })
    }
}

/// Sets the next value that the table's counter gives out.
///
/// # Safety
/// `engine` must be the pool of the cursor, and open; the cursor must be open and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counter_set(
    engine: *const PerduraEngine,
    cursor: *mut PerduraCursor,
    next: u64,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { with_counter(engine, cursor, |engine, counters, counter| counters.set(engine.engine(), counter, next)) }
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
        with_counter(engine, cursor, |_, counters, counter| {
            next.write(counters.next(counter));
            Ok(())
        })
    }
}

/// Reserves values of the table's counter, durably: nobody gets them again, not even after a crash. Of the values that are `offset` and
/// a multiple of `increment`, and not above `max`, it takes the next `wanted` or as many as there are. `count` is 0 if there are none.
///
/// # Safety
/// As for [`perdura_counter_set`]; `first` and `count` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counter_reserve(
    engine: *const PerduraEngine,
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
        with_counter(engine, cursor, |engine, counters, counter| {
            let reserved = counters.reserve(engine.engine(), counter, (offset, increment), wanted, max)?;
            first.write(reserved.first);
            count.write(reserved.count);
            Ok(())
        })
    }
}

/// Notes that a row has `value`, which the table's counter does not give out any more, if it has not already.
///
/// # Safety
/// As for [`perdura_counter_set`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counter_pass(
    engine: *const PerduraEngine,
    cursor: *mut PerduraCursor,
    value: u64,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe { with_counter(engine, cursor, |engine, counters, counter| counters.pass(engine.engine(), counter, value)) }
}
