//! AUTO_INCREMENT: a cursor's table counts, for the server, the values of a column.

use super::code::{Outcome, PerduraCode};
use super::counter::{Block, Counter, Counters, Counting, Wanted};
use super::cursor::PerduraCursor;
use super::engine::PerduraEngine;
use super::handler::alone;
use super::name;
use super::session::PerduraSession;
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

/// The counters of the pool, that of the cursor's table, and the values over which it has gone for the statement.
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
/// `engine` must be the pool of the cursor, and open; the cursor must be open and used by this thread alone; `session` must be null,
/// or live and used by this thread alone.
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
/// is 0 if the first one is. A statement in the midst of its rows goes on at `from`, unless others have
/// got values meanwhile; 0 if it is not. `session` is that of the statement, which waits while the pool
/// is held, as for a write.
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
