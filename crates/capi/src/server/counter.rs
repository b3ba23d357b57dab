//! Counters of AUTO_INCREMENT columns: durable, and ahead of every value that was given out.

use super::code::{Failure, Outcome, PerduraCode};
use perdura_engine::{Engine, ErrorKind, Isolation, ReadView, Rid, Session, Table};
use perdura_pmem::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Name of the table of limits. No user's database begins with this character.
pub(super) const LIMITS: &str = "#perdura/auto_increment";

const ROW_BYTES: usize = 16;
/// Of the values given so far, a block is an eighth, within these bounds.
const BLOCK_MIN: u64 = 8;
const BLOCK_MAX: u64 = 4096;

/// The counter of one table.
///
/// A counter lives in DRAM. The pool keeps a *limit* for it, below which values may have been given
/// out; the counter goes on from there after a restart. So no value comes twice, not even that of a
/// row that was deleted, or rolled back, before a crash. A limit is moved ahead by a block of
/// values, by a transaction of its own, before the first of them is given out; an ordered end
/// stores the counters themselves, so that no values are left out then.
///
/// The limits are the rows of a table of the pool that no server sees, made with the first counter:
/// the id of the table (u64, little endian), then the limit (u64, little endian). The tables of one
/// session have counters without a limit. The limit of a table is deleted after the commit that
/// drops the table, or when the limits are next opened: never before.
///
/// Every row that gets a value passes the counter, after the row is written and before its
/// transaction commits. Most values are passed already, which takes no lock to see. The arithmetic
/// is the server's and InnoDB's, so that both engines give the same values.
///
/// Within a statement the server names the value from which it goes on, above all that it has used:
/// a row with a value of its own may have passed the others. InnoDB goes on there though another
/// session may have those values. Here a statement does so only in its *block*, the values over
/// which the counter has gone for this statement's rows and nobody else's since.
///
/// Earlier builds have left limits below values that rows have. So when a table is first opened,
/// the counter is *checked*: it goes on above the greatest value in the column's index. Nothing is
/// stored then, for whoever opens a table may do no more than read, and after a crash the table is
/// checked again. The first statement that writes the table stores the limit, before it can delete
/// the row by which the value was found.
///
/// Thread-safety: any thread. A counter's lock is taken before that of the limits. Whoever takes
/// one of them in order to store is within a change of the pool already (its own statement's, or
/// one for this call). So nobody waits for a hold of the pool under these locks, on which a
/// statement may wait that the hold waits for.
pub(super) struct Counter {
    table: u64,
    /// A counter of a table that belongs to one session has no limit in the pool.
    is_durable: bool,
    /// As in `state`, stored once the limit is: what is below needs no lock.
    passed: AtomicU64,
    /// It was compared with the rows since the pool was opened.
    is_checked: AtomicBool,
    /// It has gone on above rows, and the limit is not stored.
    is_owed: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// The next value that may be given out.
    next: u64,
    /// Values below may be given out without a store to the pool.
    limit: u64,
}

/// The values that a session counts by.
#[derive(Clone, Copy)]
pub(super) struct Counting {
    offset: u64,
    increment: u64,
}

impl Counting {
    pub(super) fn new(offset: u64, increment: u64) -> Self {
        Self { offset, increment: increment.max(1) }
    }

    /// The first value not below `next`. The server reckons modulo 2^64, so that an offset above
    /// the increment mostly only shifts the values.
    fn first_from(self, next: u64) -> u64 {
        if self.increment == 1 {
            return next;
        }
        let last = next.wrapping_sub(1).wrapping_add(self.increment).wrapping_sub(self.offset);
        (last / self.increment).wrapping_mul(self.increment).wrapping_add(self.offset)
    }

    /// Where InnoDB's counter goes on after `count` values from `first` on: above all of them.
    fn beyond(self, first: u64, count: u64) -> u64 {
        if self.increment == 1 && first > 0 {
            return first.saturating_add(count);
        }
        let offset = if self.offset > self.increment { 0 } else { self.offset };
        let apart = first.abs_diff(offset);
        let whole = apart - apart % self.increment;
        count
            .checked_mul(self.increment)
            .and_then(|block| block.checked_add(offset)?.checked_add(whole))
            .unwrap_or(u64::MAX)
    }
}

impl Counter {
    /// Whether it was compared with the rows since the pool was opened.
    pub(super) fn is_checked(&self) -> bool {
        self.is_checked.load(Ordering::Acquire)
    }

    /// Whether it has gone on above rows, and the limit is not stored.
    pub(super) fn is_owed(&self) -> bool {
        self.is_owed.load(Ordering::Acquire)
    }

    /// Whether it is compared with the rows, and the limit is stored: that stays so as long as the
    /// pool is open.
    pub(super) fn is_settled(&self) -> bool {
        self.is_checked() && !self.is_owed()
    }
}

/// Values that were reserved: `count` of them from `first` on.
pub(super) struct Reserved {
    pub first: u64,
    pub count: u64,
}

/// Values over which a counter has gone for the rows that one statement inserts: those from `first`
/// on, below `end`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    first: u64,
    end: u64,
}

impl Block {
    /// The counter has gone from `from` to `to`. What was before belongs to the block if nobody
    /// else has moved it in between.
    fn extend(&mut self, from: u64, to: u64) {
        if from != self.end {
            self.first = from;
        }
        self.end = to;
    }

    /// Whether all values from `from` up to the counter, which is at `next`, are the statement's
    /// own.
    fn owns(self, from: u64, next: u64) -> bool {
        self.end == next && (self.first..next).contains(&from)
    }
}

/// Values that a statement wants.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub count: u64,
    /// Where it goes on, if it is in the midst of its rows.
    pub from: Option<u64>,
    /// The column's last value.
    pub max: u64,
}

/// The counters of a pool.
#[derive(Default)]
pub(super) struct Counters {
    /// By the id of the table.
    counters: Mutex<BTreeMap<u64, Arc<Counter>>>,
    limits: Mutex<Option<Limits>>,
}

/// The table of limits.
struct Limits {
    session: Session,
    table: Arc<Table>,
    rows: BTreeMap<u64, (Rid, u64)>,
    /// Tables that were dropped, whose limits the next store deletes.
    gone: Vec<u64>,
}

impl Counters {
    /// Makes the table of limits, unless it is there. The caller is within no change: DDL may wait
    /// for a hold.
    pub(super) fn prepare(&self, engine: &Engine) -> Outcome<()> {
        if self.limits.lock().is_some() || engine.definition(LIMITS).is_ok() {
            return Ok(());
        }
        match engine.create_table(LIMITS, b"") {
            Err(error) if error.kind() != ErrorKind::Exists => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The counter of a table.
    pub(super) fn of(&self, engine: &Engine, table: &Table, is_durable: bool) -> Outcome<Arc<Counter>> {
        let id = u64::from(table.id());
        if let Some(known) = self.counters.lock().get(&id) {
            return Ok(known.clone());
        }
        let limit = if is_durable { self.stored(engine, id)?.unwrap_or(1) } else { 1 };
        let state = Mutex::new(State { next: limit, limit: if is_durable { limit } else { u64::MAX } });
        let (is_checked, is_owed) = (AtomicBool::new(false), AtomicBool::new(false));
        let counter =
            Arc::new(Counter { table: id, is_durable, passed: AtomicU64::new(limit), is_checked, is_owed, state });
        Ok(self.counters.lock().entry(id).or_insert(counter).clone())
    }

    /// Has a counter go on above `value`, the greatest that rows have, unless it was compared with
    /// them already: whatever is written since passes it. Stores nothing. Returns what it was at
    /// and what it is at.
    pub(super) fn catch_up(&self, counter: &Counter, value: u64) -> (u64, u64) {
        let mut state = counter.state.lock();
        let (from, next) = (state.next, Counting::new(0, 1).beyond(value, 1));
        if counter.is_checked() {
            return (from, from);
        }
        if next > from {
            state.next = next;
            counter.is_owed.store(next > state.limit, Ordering::Release);
            counter.passed.store(next, Ordering::Release);
        }
        counter.is_checked.store(true, Ordering::Release);
        (from, state.next)
    }

    /// Stores the limit of a counter that has gone on above rows, unless that was done.
    pub(super) fn store_owed(&self, engine: &Engine, counter: &Counter) -> Outcome<()> {
        let mut state = counter.state.lock();
        let next = state.next;
        self.reach(engine, counter, &mut state, next)?;
        counter.is_owed.store(false, Ordering::Release);
        Ok(())
    }

    /// Sets what a table's counter goes on from. For a new table, whatever an earlier one of the
    /// same id had.
    pub(super) fn set(&self, engine: &Engine, counter: &Counter, next: u64) -> Outcome<()> {
        let mut state = counter.state.lock();
        if counter.is_durable {
            self.store(engine, counter.table, next)?;
            state.limit = next;
        }
        state.next = next;
        counter.passed.store(next, Ordering::Release);
        Ok(())
    }

    /// The next value of a counter.
    pub(super) fn next(&self, counter: &Counter) -> u64 {
        counter.state.lock().next
    }

    /// Reserves values by `counting`. None are left if the first one is above the column's last.
    pub(super) fn reserve(
        &self,
        engine: &Engine,
        (counter, block): (&Counter, &mut Block),
        counting: Counting,
        wanted: Wanted,
    ) -> Outcome<Reserved> {
        let (mut state, max) = (counter.state.lock(), wanted.max);
        let from = wanted.from.filter(|from| block.owns(*from, state.next)).unwrap_or(state.next);
        let in_step = counting.first_from(from);
        // The server finds out by itself that there is no value in step any more.
        let first = if from < max && (from..max).contains(&in_step) { in_step } else { from };
        if first > max {
            return Ok(Reserved { first, count: 0 });
        }
        let count = wanted.count.max(1);
        let (from, next) = (state.next, counting.beyond(first, count));
        if next > from {
            self.reach(engine, counter, &mut state, next)?;
            block.extend(from, next);
        }
        Ok(Reserved { first, count })
    }

    /// Notes that a row has `value`, which the counter must not give out any more. `block` is that
    /// of the statement if it inserts the row.
    pub(super) fn pass(
        &self,
        engine: &Engine,
        (counter, block): (&Counter, Option<&mut Block>),
        counting: Counting,
        value: u64,
    ) -> Outcome<()> {
        let next = counting.beyond(value, 1);
        if next <= counter.passed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = counter.state.lock();
        let from = state.next;
        if next > from {
            self.reach(engine, counter, &mut state, next)?;
            block.into_iter().for_each(|block| block.extend(from, next));
        }
        Ok(())
    }

    /// Moves a counter on, and its limit ahead of it.
    fn reach(&self, engine: &Engine, counter: &Counter, state: &mut State, next: u64) -> Outcome<()> {
        if next > state.limit {
            let limit = next.saturating_add((next / 8).clamp(BLOCK_MIN, BLOCK_MAX));
            self.store(engine, counter.table, limit)?;
            state.limit = limit;
        }
        state.next = next;
        counter.passed.store(next, Ordering::Release);
        Ok(())
    }

    /// Forgets the counter of a table that was dropped. If its limit cannot be deleted now, the
    /// next start does that.
    pub(super) fn forget(&self, engine: &Engine, table: u32) {
        let id = u64::from(table);
        self.counters.lock().remove(&id);
        // Nobody has counted yet if there are no limits.
        if engine.has_table(table) || engine.definition(LIMITS).is_err() {
            return;
        }
        let _ = engine.within_change(|| self.with(engine, |limits| limits.remove(&[id])));
    }

    /// Stores the counters themselves, at an ordered end.
    pub(super) fn settle(&self, engine: &Engine) -> Outcome<()> {
        engine.within_change(|| {
            for counter in self.counters.lock().values() {
                let state = counter.state.lock();
                if counter.is_durable && state.next != state.limit {
                    self.store(engine, counter.table, state.next)?;
                }
            }
            Outcome::Ok(())
        })?;
        *self.limits.lock() = None;
        Ok(())
    }

    /// Has `body` use the table of limits, which it opens if need be.
    fn with<T>(&self, engine: &Engine, body: impl FnOnce(&mut Limits) -> Outcome<T>) -> Outcome<T> {
        let mut limits = self.limits.lock();
        if limits.is_none() {
            *limits = Some(Limits::open(engine)?);
        }
        body(limits.as_mut().expect("just opened"))
    }

    fn stored(&self, engine: &Engine, table: u64) -> Outcome<Option<u64>> {
        // Nobody has counted yet if there are no limits.
        if self.limits.lock().is_none() && engine.definition(LIMITS).is_err() {
            return Ok(None);
        }
        self.with(engine, |limits| Ok(limits.rows.get(&table).map(|(_, limit)| *limit)))
    }

    fn store(&self, engine: &Engine, table: u64, limit: u64) -> Outcome<()> {
        self.with(engine, |limits| limits.store(table, limit))
    }
}

impl Limits {
    fn open(engine: &Engine) -> Outcome<Limits> {
        let table = match engine.table(LIMITS) {
            Err(error) if error.kind() == ErrorKind::NotFound => engine.create_table(LIMITS, b"")?,
            found => found?,
        };
        let mut session = engine.session(Isolation::ReadCommitted);
        session.set_within();
        // It stays, whoever has opened it.
        session.leave_thread();
        let mut rows = BTreeMap::new();
        session.start_statement();
        let mut scan = session.scan(&table);
        while let Some((rid, row)) = scan.next(&session)? {
            // SAFETY: the statement has not ended.
            let (id, limit) = decode(unsafe { row.bytes() }).ok_or_else(damaged)?;
            rows.insert(id, (rid, limit));
        }
        session.end_statement();
        // A row of a table that is there was written after the table was made: what is not found
        // here was dropped.
        let is_gone = |id: &u64| u32::try_from(*id).map_or(true, |id| !engine.has_table(id));
        let gone: Vec<_> = rows.keys().copied().filter(is_gone).collect();
        Ok(Limits { session, table, rows, gone })
    }

    /// Deletes the limits of tables that were dropped.
    fn remove(&mut self, tables: &[u64]) -> Outcome<()> {
        let rids: Vec<_> = tables.iter().filter_map(|table| self.rows.get(table)).map(|(rid, _)| *rid).collect();
        if rids.is_empty() {
            return Ok(());
        }
        self.session.start_statement();
        let deleted = rids.iter().try_for_each(|rid| self.session.delete(&self.table, *rid));
        self.session.end_statement();
        if let Err(error) = deleted {
            self.session.rollback()?;
            return Err(error.into());
        }
        self.session.commit()?;
        tables.iter().for_each(|table| {
            self.rows.remove(table);
        });
        Ok(())
    }

    fn store(&mut self, table: u64, limit: u64) -> Outcome<()> {
        let gone = std::mem::take(&mut self.gone);
        // Rows that cannot be deleted now are there at the next start.
        let _ = self.remove(&gone);
        self.session.start_statement();
        let stored = self.write(table, limit);
        self.session.end_statement();
        match stored {
            Ok(rid) => {
                self.session.commit()?;
                self.rows.insert(table, (rid, limit));
                Ok(())
            }
            Err(failure) => {
                self.session.rollback()?;
                Err(failure)
            }
        }
    }

    fn write(&mut self, table: u64, limit: u64) -> Outcome<Rid> {
        let row = encode(table, limit);
        if let Some((rid, _)) = self.rows.get(&table)
            && self.session.read(&self.table, *rid, ReadView::Snapshot)?.is_some()
        {
            self.session.update(&self.table, *rid, &row)?;
            return Ok(*rid);
        }
        Ok(self.session.insert(&self.table, &row)?)
    }
}

fn encode(table: u64, limit: u64) -> [u8; ROW_BYTES] {
    let mut row = [0; ROW_BYTES];
    row[..8].copy_from_slice(&table.to_le_bytes());
    row[8..].copy_from_slice(&limit.to_le_bytes());
    row
}

fn decode(row: &[u8]) -> Option<(u64, u64)> {
    let (table, limit) = row.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*table), u64::from_le_bytes(limit.try_into().ok()?)))
}

#[cold]
fn damaged() -> Failure {
    Failure::new(PerduraCode::Damaged, format!("a row of table {LIMITS} is none; run `perdura check` on the pool"))
}

#[cfg(test)]
mod tests {
    use super::{Block, Counting};

    #[test]
    fn values_are_counted_from_the_offset() {
        let first = |next, offset, increment| Counting::new(offset, increment).first_from(next);
        assert_eq!([first(1, 1, 1), first(7, 1, 1), first(7, 5, 1)], [1, 7, 7]);
        assert_eq!([first(1, 3, 10), first(3, 3, 10), first(4, 3, 10), first(13, 3, 10)], [3, 3, 13, 13]);
        assert_eq!([first(1, 10, 4), first(3, 10, 4), first(7, 10, 4)], [2, 6, 10], "an offset above the increment");
    }

    /// Hazard: values come twice, for a statement takes those that another one has got in between
    /// for its own.
    #[test]
    fn a_block_has_no_values_of_others() {
        let mut block = Block::default();
        assert!(!block.owns(1, 1) && !block.owns(0, 0), "nothing is reserved yet");
        block.extend(10, 14);
        assert!((10..14).all(|from| block.owns(from, 14)) && !block.owns(9, 14) && !block.owns(14, 14));
        assert!((10..20).all(|from| !block.owns(from, 15)), "another has moved the counter on");
        block.extend(14, 17);
        assert!((10..17).all(|from| block.owns(from, 17)), "nobody else in between");
        block.extend(18, 20);
        assert!((10..18).all(|from| !block.owns(from, 20)) && block.owns(18, 20), "17 is another's");
    }

    #[test]
    fn the_counter_goes_on_above_all_values_that_were_given() {
        let beyond = |first, count, offset, increment| Counting::new(offset, increment).beyond(first, count);
        assert_eq!([beyond(7, 1, 0, 1), beyond(7, 3, 1, 1), beyond(7, 3, 5, 1)], [8, 10, 10]);
        assert_eq!([beyond(3, 2, 3, 10), beyond(155, 1, 3, 10)], [23, 163]);
        assert_eq!([beyond(u64::MAX, 1, 1, 1), beyond(5, u64::MAX, 1, 2)], [u64::MAX; 2]);
        for (offset, increment) in (1..12).flat_map(|offset| (1..12).map(move |increment| (offset, increment))) {
            let counting = Counting::new(offset, increment);
            for next in 1..100 {
                let first = counting.first_from(next);
                // The server's own next value, five times.
                let last = (0..4).fold(first, |value, _| counting.first_from(value + 1));
                assert!(first >= next && counting.beyond(first, 5) > last, "{offset} {increment} {next}");
            }
        }
    }
}
