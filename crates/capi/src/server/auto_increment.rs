//! AUTO_INCREMENT: a cursor's table counts, for the server, the values of a column.

use super::code::{Outcome, PerduraCode};
use super::counter::{Block, Counter, Counters, Counting, Wanted};
use super::cursor::PerduraCursor;
use super::definition::items;
use super::engine::PerduraEngine;
use super::handler::alone;
use super::name;
use super::session::PerduraSession;
use perdura_engine::{Direction, Isolation};
use std::ptr::null;

/// The values that a session counts by: those that are `offset` and a multiple of `increment`, as
/// the server reckons.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraCounting {
    /// Where counting begins. Of no effect if it is above the increment.
    pub offset: u64,
    /// From a value to the next one; at least 1.
    pub increment: u64,
}

impl PerduraCounting {
    fn checked(self) -> Counting {
        Counting::new(self.offset, self.increment)
    }
}

/// The counters of the pool, that of the cursor's table, and the values over which it has gone for
/// the statement.
///
/// # Safety
/// `engine` must be the pool of the cursor, and open.
unsafe fn counter<'e>(
    engine: *const PerduraEngine,
    cursor: &mut PerduraCursor,
) -> Outcome<(&'e PerduraEngine, (&Counter, &mut Block))> {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine };
    if !cursor.has_counter() {
        let table = cursor.table();
        let found = engine.counters().of(engine.engine(), table, !name::is_temporary(&table.name()))?;
        cursor.set_counter(found);
    }
    Ok((engine, cursor.counter().expect("just found")))
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
/// `engine` must be the pool of the cursor, and open; the cursor must be open and used by this
/// thread alone; `session` must be null, or live and used by this thread alone.
unsafe fn with_counter(
    (engine, session, cursor): (*const PerduraEngine, *const PerduraSession, *mut PerduraCursor),
    storing: Storing,
    body: impl FnOnce(&PerduraEngine, &Counters, (&Counter, &mut Block)) -> Outcome<()>,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        alone(cursor, |cursor| {
            let (engine, counter) = counter(engine, cursor)?;
            let use_it = || body(engine, engine.counters(), counter);
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

/// Sets the next value that the table's counter gives out. `session` is that of the statement; null
/// where there is none.
///
/// # Safety
/// `engine` must be the pool of the cursor, and open; the cursor must be open and used by this
/// thread alone; `session` must be null, or live and used by this thread alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counter_set(
    engine: *const PerduraEngine,
    session: *const PerduraSession,
    cursor: *mut PerduraCursor,
    next: u64,
) -> PerduraCode {
    let set = |engine: &PerduraEngine, counters: &Counters, (counter, _): (&Counter, &mut Block)| {
        counters.set(engine.engine(), counter, next)
    };
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
        with_counter((engine, null(), cursor), Storing::No, |_, counters, (counter, _)| {
            next.write(counters.next(counter));
            Ok(())
        })
    }
}

/// Reserves values of the table's counter, durably: nobody gets them again, not even after a crash.
/// They are the next `wanted` ones by `counting`, of which those above `max` are of no use. `count`
/// is 0 if the first one is. A statement in the midst of its rows goes on at `from`, unless others
/// have got values meanwhile; 0 if it is not. `session` is that of the statement, which waits while
/// the pool is held, as for a write.
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
    counting: PerduraCounting,
    wanted: u64,
    from: u64,
    max: u64,
    first: *mut u64,
    count: *mut u64,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with_counter((engine, session, cursor), Storing::ForStatement, |engine, counters, counter| {
            let wanted = Wanted { count: wanted, from: (from > 0).then_some(from), max };
            let reserved = counters.reserve(engine.engine(), counter, counting.checked(), wanted)?;
            first.write(reserved.first);
            count.write(reserved.count);
            Ok(())
        })
    }
}

/// Notes that a row has `value`, after which the table's counter goes on by `counting`, if it is
/// not beyond already. Durably. `inserts` says that the statement inserts the row; otherwise it has
/// changed one. `session` is as for `perdura_counter_reserve`.
///
/// # Safety
/// As for [`perdura_counter_set`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counter_pass(
    engine: *const PerduraEngine,
    session: *const PerduraSession,
    cursor: *mut PerduraCursor,
    counting: PerduraCounting,
    value: u64,
    inserts: bool,
) -> PerduraCode {
    let pass = |engine: &PerduraEngine, counters: &Counters, (counter, block): (&Counter, &mut Block)| {
        counters.pass(engine.engine(), (counter, inserts.then_some(block)), counting.checked(), value)
    };
    // SAFETY: as the caller vouches for.
    unsafe { with_counter((engine, session, cursor), Storing::ForStatement, pass) }
}

/// Finds the value with which a counter is to be compared, when its table is first opened since the
/// pool was. Copies to `key` the key in the index of this number that is nearest to the keys that
/// begin with `bound`, or one of these: with `descends` the least that is not below them, else the
/// greatest that is not above. Whoever has inserted it, decided or not. END if the counter was
/// compared already. Of no such key, `length` is 0. The caller then calls
/// [`perdura_counter_catch_up`].
///
/// # Errors
/// DAMAGED.
///
/// # Safety
/// As for [`perdura_counter_set`]; `bound` must be readable for `bound_length` bytes, `key`
/// writable for PERDURA_KEY_BYTES_MAX bytes, and `length` too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counter_check(
    engine: *const PerduraEngine,
    cursor: *mut PerduraCursor,
    index: u32,
    bound: *const u8,
    bound_length: usize,
    descends: bool,
    key: *mut u8,
    length: *mut usize,
) -> PerduraCode {
    // SAFETY: as the caller vouches for; no key is longer.
    unsafe {
        alone(cursor, |cursor| {
            let table = cursor.table().clone();
            let (engine, (counter, _)) = counter(engine, cursor)?;
            if counter.is_checked() {
                return Ok(PerduraCode::End);
            }
            let direction = if descends { Direction::Forward } else { Direction::Backward };
            let mut session = engine.engine().session(Isolation::ReadCommitted);
            let found = session.index(&table, index as usize).outermost_key(items(bound, bound_length), direction)?;
            let found = found.unwrap_or_default();
            key.copy_from_nonoverlapping(found.as_ptr(), found.len());
            length.write(found.len());
            Ok(PerduraCode::Ok)
        })
    }
}

/// Has the table's counter go on above `value`, the greatest that rows have, 0 for none;
/// [`perdura_counter_check`] finds it no more. `from` is set to what the counter was at, `to` to
/// what it is at. Stores nothing: that is for [`perdura_counter_keep`].
///
/// # Safety
/// As for [`perdura_counter_set`]; `from` and `to` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counter_catch_up(
    engine: *const PerduraEngine,
    cursor: *mut PerduraCursor,
    value: u64,
    from: *mut u64,
    to: *mut u64,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        with_counter((engine, null(), cursor), Storing::No, |_, counters, (counter, _)| {
            let (was, is) = counters.catch_up(counter, value);
            from.write(was);
            to.write(is);
            Ok(())
        })
    }
}

/// Stores the limit of a counter that [`perdura_counter_catch_up`] has moved, for a statement that
/// is about to write the table: it may delete the row by which the value was found. Once OK, it is
/// so for all statements as long as the pool is open; END if the next one has to call again, as the
/// pool has no room for the limit, or the counter is not compared with the rows.
///
/// # Errors
/// KILLED if the statement is killed while the pool is held.
///
/// # Safety
/// As for [`perdura_counter_set`]; `session` must not be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counter_keep(
    engine: *const PerduraEngine,
    session: *const PerduraSession,
    cursor: *mut PerduraCursor,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        alone(cursor, |cursor| {
            let (engine, (counter, _)) = counter(engine, cursor)?;
            if counter.is_owed() {
                (*session).state().txn.enter_change()?;
                // Deleting rows needs no room, and does not fail for want of some.
                let _ = engine.counters().store_owed(engine.engine(), counter);
            }
            Ok(if counter.is_settled() { PerduraCode::Ok } else { PerduraCode::End })
        })
    }
}
