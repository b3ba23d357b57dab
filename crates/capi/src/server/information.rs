//! The rows of the server's information_schema tables PERDURA_TRX, PERDURA_LOCKS,
//! PERDURA_LOCK_WAITS, PERDURA_SPACE and PERDURA_INDEXES. The plugin declares their columns in the
//! order in which they come here.

use super::call::call;
use super::code::PerduraCode;
use super::engine::PerduraEngine;
use super::value::{PerduraValue, Taker};
use perdura_engine::{
    Engine, IndexSpace, Isolation, LockKey, LockMode, LockStatus, LockWait, SessionStatus, Stage, TableSpace,
    TransactionStatus,
};
use std::ffi::c_void;

/// Lists of [`perdura_list`], and the values of a row. An unknown value is NULL. A session has the
/// number that the status report gives it, a row that of its RID in hexadecimal.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerduraList {
    /// The transactions that have begun, oldest first: session, connection, user at host, state,
    /// time since it began, isolation level, changes, locks held, bytes of DRAM of its write set,
    /// CSN of its oldest snapshot, time since that was taken, statement.
    Transactions = 0,
    /// The locks of rows and whole tables in the lock table, those first that somebody waits for:
    /// session, connection, table, row, mode, whether it is held or waited for.
    Locks,
    /// The waits for locks, each with each session that it waits for: session, connection and
    /// statement of the waiter; those of the other session; number of such sessions, unlisted ones
    /// included; table, row, mode, time waited.
    LockWaits,
    /// The tables, none of which is opened for this: id, name, whether it is open, data files,
    /// their bytes, bytes in use, free bytes, rows, row changes that wait for purge, free RIDs,
    /// parts not swept since the start.
    Space,
    /// The indexes, for which no table is opened either: id and name of the table, number of the
    /// index, whether it is unique, length of its keys if they have one, state, leaves, entries,
    /// bytes, entries in a hundred slots.
    Indexes,
}

/// Lists what happens in a pool: hands `row` the `count` values of each row, with texts in UTF-8
/// that are valid until it returns, until it returns false. END if there was more than is listed.
/// Nothing is locked while `row` runs.
///
/// # Safety
/// `engine` must be open, `row` callable with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_list(
    engine: *const PerduraEngine,
    list: PerduraList,
    row: unsafe extern "C" fn(context: *mut c_void, values: *const PerduraValue, count: usize) -> bool,
    context: *mut c_void,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine }.engine();
    let taker = Taker { take: row, context };
    call(Some(engine), || Ok(if hand_over(engine, list, &taker) { PerduraCode::Ok } else { PerduraCode::End }))
}

/// Hands over all rows of a list. Returns false if there was more than is listed.
fn hand_over(engine: &Engine, list: PerduraList, taker: &Taker) -> bool {
    match list {
        PerduraList::Transactions => engine.each_transaction(|transaction| of_transaction(taker, &transaction)),
        PerduraList::Locks => return engine.each_lock(|lock| of_lock(taker, &lock)),
        PerduraList::LockWaits => engine.each_wait(|wait| of_wait(taker, &wait)),
        PerduraList::Space => engine.each_table(|table| of_table(taker, &table)),
        PerduraList::Indexes => engine.each_index(|index| of_index(taker, &index)),
    }
    true
}

fn of_transaction(taker: &Taker, transaction: &TransactionStatus) -> bool {
    let state = match (&transaction.wait, transaction.stage) {
        (Some(_), _) => "LOCK WAIT",
        (None, Stage::Running) => "RUNNING",
        (None, Stage::Prepared) => "PREPARED",
        (None, Stage::Committing) => "COMMITTING",
        (None, Stage::RollingBack) => "ROLLING BACK",
    };
    let isolation = match transaction.isolation {
        Isolation::ReadCommitted => "READ COMMITTED",
        Isolation::ConsistentReads | Isolation::RepeatableRead => "REPEATABLE READ",
        Isolation::Serializable => "SERIALIZABLE",
    };
    let (client, snapshot) = (transaction.client.as_ref(), transaction.snapshot);
    taker.row(&[
        PerduraValue::number(transaction.session),
        PerduraValue::of(client, |client| PerduraValue::number(client.connection)),
        PerduraValue::of(client, |client| PerduraValue::text(&client.user)),
        PerduraValue::text(state),
        PerduraValue::time(transaction.age),
        PerduraValue::text(isolation),
        PerduraValue::number(transaction.changes),
        PerduraValue::number(transaction.locks),
        PerduraValue::number(transaction.memory),
        PerduraValue::of(snapshot, |snapshot| PerduraValue::number(snapshot.csn)),
        PerduraValue::of(snapshot, |snapshot| PerduraValue::time(snapshot.age)),
        PerduraValue::of(client.map(|client| client.statement.as_str()), statement),
    ])
}

/// A statement; NULL if there is none.
fn statement(text: &str) -> PerduraValue {
    if text.is_empty() { PerduraValue::NULL } else { PerduraValue::text(text) }
}

fn mode(mode: LockMode) -> PerduraValue {
    PerduraValue::text(match mode {
        LockMode::Intention => "INTENTION",
        LockMode::Shared => "SHARED",
        LockMode::Exclusive => "EXCLUSIVE",
    })
}

/// The RID of what is locked; none if it is a whole table.
fn row_of(key: LockKey) -> Option<String> {
    key.rid().map(|rid| format!("{:#x}", rid.to_u64()))
}

fn of_lock(taker: &Taker, lock: &LockStatus) -> bool {
    let row = row_of(lock.key);
    taker.row(&[
        PerduraValue::number(lock.session),
        PerduraValue::of(lock.connection, PerduraValue::number),
        PerduraValue::text(&lock.table),
        PerduraValue::of(row.as_deref(), PerduraValue::text),
        mode(lock.mode),
        PerduraValue::text(if lock.waits { "WAITING" } else { "HELD" }),
    ])
}

fn of_session(session: &SessionStatus) -> [PerduraValue; 3] {
    let text = session.client.as_ref().map(|client| client.statement.as_str());
    [
        PerduraValue::number(session.session),
        PerduraValue::of(session.connection(), PerduraValue::number),
        PerduraValue::of(text, statement),
    ]
}

fn of_wait(taker: &Taker, wait: &LockWait) -> bool {
    let row = row_of(wait.key);
    let rest = [
        PerduraValue::count(wait.blockers),
        PerduraValue::text(&wait.table),
        PerduraValue::of(row.as_deref(), PerduraValue::text),
        mode(wait.mode),
        PerduraValue::time(wait.waited),
    ];
    taker.row(&[&of_session(&wait.waiter)[..], &of_session(&wait.blocker), &rest].concat())
}

fn of_table(taker: &Taker, table: &TableSpace) -> bool {
    let free = table.free_bytes;
    taker.row(&[
        PerduraValue::number(table.id.into()),
        PerduraValue::text(&table.name),
        PerduraValue::text(if table.is_open { "OPEN" } else { "CLOSED" }),
        PerduraValue::count(table.files),
        PerduraValue::number(table.data_bytes),
        PerduraValue::of(free, |free| PerduraValue::number(table.data_bytes.saturating_sub(free))),
        PerduraValue::of(free, PerduraValue::number),
        PerduraValue::of(table.rows, PerduraValue::number),
        PerduraValue::count(table.purge_lag),
        PerduraValue::of(table.free_rids, PerduraValue::count),
        PerduraValue::of(table.unswept, PerduraValue::count),
    ])
}

fn of_index(taker: &Taker, index: &IndexSpace) -> bool {
    let (declared, measured) = (index.definition, index.measured);
    let state = match measured {
        None => "CLOSED",
        Some(measured) if measured.is_damaged => "DAMAGED",
        Some(_) => "OPEN",
    };
    let key_bytes = Some(declared.key_bytes).filter(|bytes| *bytes != 0);
    taker.row(&[
        PerduraValue::number(index.table.into()),
        PerduraValue::text(&index.name),
        PerduraValue::count(index.position),
        PerduraValue::text(if declared.unique { "YES" } else { "NO" }),
        PerduraValue::of(key_bytes, |bytes| PerduraValue::number(bytes.into())),
        PerduraValue::text(state),
        PerduraValue::of(measured, |measured| PerduraValue::number(measured.leaves)),
        PerduraValue::of(index.entries, PerduraValue::number),
        PerduraValue::of(measured, |measured| PerduraValue::number(measured.bytes)),
        PerduraValue::of(measured.and_then(|measured| measured.fill), PerduraValue::number),
    ])
}
