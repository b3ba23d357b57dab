//! A transaction of one session: begins with its first read or write, ends with commit or rollback, and is then ready for the next.
//!
//! Snapshot isolation. READ COMMITTED takes a snapshot per statement. REPEATABLE READ takes one per transaction, at its first
//! consistent read; from then on the first updater wins. Before it, a statement locks rows and works on their newest versions, so
//! it conflicts with nobody. One thread uses a transaction at a time. Reading is in `read.rs`, ending in `commit.rs`.

use crate::bulk::{BULK_AFTER, BulkInsert, BulkMark};
use crate::engine::Inner;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{ROW_BYTES_MAX, Rid, VERSION_HEADER, VersionHeader, Word};
use crate::locks::{LockMode, LockOutcome, LockRefused, RowKey};
use crate::owner::{Client, Owner};
use crate::read::OpenSnapshots;
use crate::table::{SHARDS, Table};
use crate::writes::WriteSet;
use perdura_log::{Csn, LogTxn};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How far a transaction is kept from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed when it began.
    ReadCommitted,
    /// All statements see what was committed at the first consistent read.
    RepeatableRead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Reading and writing.
    Active,
    /// Prepared: it can be committed at any time.
    Prepared,
    /// Its commit record has this CSN; publication is to follow.
    Ordered(Csn),
}

/// A position in a transaction to roll back to.
#[derive(Clone, Debug, Default)]
pub struct Savepoint {
    /// Which of the session's transactions.
    transaction: u64,
    /// Sequence number of the next write.
    sequence: u64,
    writes: usize,
    bulk: Vec<BulkMark>,
}

/// Interrupts lock waits of a transaction, from any thread.
pub struct Killer(Arc<Owner>);

impl Killer {
    /// Interrupts the lock wait the transaction is in, and any that would begin before its next statement: the call fails with
    /// [`ErrorKind::Killed`].
    pub fn kill(&self) {
        self.0.kill();
    }
}

/// A transaction. Dropped while active it is rolled back; dropped while prepared it stays prepared in the pool.
pub struct Txn {
    pub(crate) engine: Arc<Inner>,
    pub(crate) owner: Arc<Owner>,
    pub(crate) id: u64,
    isolation: Isolation,
    lock_wait_timeout: Option<Duration>,
    pub(crate) snapshots: OpenSnapshots,
    pub(crate) log: Option<LogTxn>,
    pub(crate) writes: WriteSet,
    pub(crate) bulk: Vec<BulkInsert>,
    /// Number of the next write: later ones are not seen by scans begun before.
    pub(crate) sequence: u64,
    pub(crate) locks: Vec<RowKey>,
    statement: Savepoint,
    /// Transactions that the session has ended.
    pub(crate) ended: u64,
    /// Sequence numbers of what was rolled back to savepoints, in order: savepoints of these are gone. No more ranges than writes.
    pub(crate) taken_back: Vec<RangeInclusive<u64>>,
    /// Versions were flushed by this thread and not fenced yet.
    pub(crate) unfenced: bool,
    /// Within a change (`hold.rs`), which keeps the pool from being held.
    changing: bool,
    pub(crate) state: State,
    pub(crate) xid: Vec<u8>,
    pub(crate) records: Vec<u8>,
}

impl Txn {
    pub(crate) fn new(engine: Arc<Inner>, isolation: Isolation) -> Txn {
        let id = engine.next_session.fetch_add(1, Ordering::Relaxed);
        let owner = Arc::new(Owner::new(id));
        engine.locks.enter(&owner);
        Txn {
            owner,
            id,
            isolation,
            lock_wait_timeout: None,
            snapshots: OpenSnapshots::new(&engine.snapshots),
            log: None,
            writes: WriteSet::default(),
            bulk: Vec::new(),
            sequence: 0,
            locks: Vec::new(),
            statement: Savepoint::default(),
            ended: 0,
            taken_back: Vec::new(),
            unfenced: false,
            changing: false,
            state: State::Active,
            xid: Vec::new(),
            records: Vec::new(),
            engine,
        }
    }

    /// Number of the session, as the status report shows it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Sets the isolation of this transaction. Effective for snapshots not yet taken.
    pub fn set_isolation(&mut self, isolation: Isolation) {
        self.isolation = isolation;
    }

    /// The isolation in force.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Sets how long this session waits for a row lock, instead of the pool's setting.
    pub fn set_lock_wait_timeout(&mut self, timeout: Duration) {
        self.lock_wait_timeout = Some(timeout);
    }

    /// Sets whose session it is. Nobody calls a client any more once this has set another, or the transaction was
    /// dropped.
    pub fn set_client(&mut self, client: Option<Arc<dyn Client>>) {
        self.owner.set_client(client);
    }

    /// Marks the transaction as begun: reports count its age from here, or else from its first lock or write.
    pub fn mark_begun(&mut self) {
        self.owner.begin(self.engine.locks.clock());
    }

    /// A handle to interrupt its lock waits.
    pub fn killer(&self) -> Killer {
        Killer(self.owner.clone())
    }

    /// Whether it wrote nothing so far.
    pub fn is_read_only(&self) -> bool {
        self.writes.is_empty() && self.bulk.is_empty() && self.state == State::Active
    }

    /// Begins a statement: a place to roll back to, and under READ COMMITTED a new snapshot when something is read.
    pub fn start_statement(&mut self) {
        self.statement = self.savepoint();
        self.owner.revive();
        self.close_statement_snapshot();
    }

    /// Ends a statement: rows read by it are no longer valid. Its writes are handed over fenced (I3).
    pub fn end_statement(&mut self) {
        self.fence_writes();
        self.end_change();
        self.close_statement_snapshot();
    }

    /// Takes back what was written since [`Txn::start_statement`].
    pub fn rollback_statement(&mut self) {
        let statement = std::mem::take(&mut self.statement);
        self.take_back_to(&statement);
        self.statement = statement;
    }

    /// Writes of this transaction so far, those taken back included: names a position in it.
    pub fn writes_so_far(&self) -> u64 {
        self.sequence
    }

    /// A position to roll back to.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            transaction: self.ended,
            sequence: self.sequence,
            writes: self.writes.position(),
            bulk: self.bulk.iter().map(BulkInsert::mark).collect(),
        }
    }

    /// Takes back what was written since `savepoint`, which stays. Locks stay. A prepared transaction stays as it is.
    ///
    /// # Errors
    /// NotFound if the savepoint is of another transaction, or was itself taken back; nothing is taken back then.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        let gone = self.taken_back.iter().any(|range| range.contains(&savepoint.sequence));
        if savepoint.transaction != self.ended || gone {
            return Err(Error::new(ErrorKind::NotFound, "the savepoint is of another transaction or was rolled back"));
        }
        self.take_back_to(savepoint);
        Ok(())
    }

    fn take_back_to(&mut self, savepoint: &Savepoint) {
        if self.state == State::Active {
            self.taken_back.retain(|range| *range.start() <= savepoint.sequence);
            if self.sequence > savepoint.sequence {
                let last = self.next_sequence();
                self.taken_back.push(savepoint.sequence + 1..=last);
            }
            let within = self.changing;
            self.begin_ending();
            self.undo_to(savepoint);
            // The next statement may run on another thread.
            self.fence_writes();
            if !within {
                self.end_change();
            }
        }
    }

    pub(crate) fn undo_to(&mut self, savepoint: &Savepoint) {
        for (index, bulk) in self.bulk.iter_mut().enumerate() {
            bulk.rollback_to(savepoint.bulk.get(index).copied().unwrap_or(BulkInsert::START));
        }
        while let Some(undone) = self.writes.undo_one(savepoint.writes) {
            undone.table.free(undone.version);
            // Planted: the RID of an insert that was taken back is lost.
            undone.table.space.lock().put_rids(undone.rid.filter(|_| !perdura_pmem::planted(62)));
        }
    }

    pub(crate) fn fence_writes(&mut self) {
        for bulk in &mut self.bulk {
            self.unfenced |= bulk.flush_rest();
        }
        if std::mem::take(&mut self.unfenced) {
            self.engine.fence();
        }
    }

    /// Begins a change that no kill interrupts (a commit, prepare, rollback or DDL), unless the transaction is within
    /// one.
    pub(crate) fn begin_ending(&mut self) {
        if !self.changing {
            self.changing = self.engine.hold.enter(self.id, || false);
        }
    }

    /// Ends the change, if the transaction is within one.
    pub(crate) fn end_change(&mut self) {
        if std::mem::take(&mut self.changing) {
            self.engine.hold.leave(self.id);
        }
    }

    #[cold]
    fn begin_change(&mut self) -> Result<()> {
        let owner = &self.owner;
        self.changing = self.engine.hold.enter(self.id, || owner.is_killed());
        if self.changing {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Killed, "the pool was held for a backup when the statement was killed"))
    }

    fn check_writable(&mut self, table: &Table) -> Result<()> {
        if !self.changing {
            self.begin_change()?;
        }
        self.engine.check_writable()?;
        if table.is_dropped() {
            return Err(Error::new(ErrorKind::NotFound, format!("table {} was dropped", table.name())));
        }
        match self.state {
            State::Active => Ok(()),
            _ => Err(Error::new(
                ErrorKind::NotSupported,
                "a prepared transaction takes no more writes; commit it or roll it back",
            )),
        }
    }

    fn next_sequence(&mut self) -> u64 {
        self.owner.begin(self.engine.locks.clock());
        self.owner.count_change();
        self.sequence += 1;
        self.sequence - 1
    }

    fn shard(&self) -> usize {
        self.id as usize % SHARDS
    }

    /// Inserts a row.
    pub fn insert(&mut self, table: &Arc<Table>, row: &[u8]) -> Result<Rid> {
        self.check_writable(table)?;
        check_length(row)?;
        if let Some(bulk) = self.bulk.last_mut()
            && bulk.table().id() == table.id()
        {
            self.sequence += 1;
            self.owner.count_change();
            return bulk.insert(row, self.sequence - 1);
        }
        if self.writes.inserts(table.id()) >= BULK_AFTER && !table.has_many_free_rids() {
            return self.insert_bulk(table, row);
        }
        let sequence = self.next_sequence();
        let rid = table.allocate_rid(self.shard())?;
        let header = VersionHeader::new(Word::EMPTY, rid, row, false);
        match self.write_version(table, &header, row, sequence) {
            Ok(word) => {
                self.writes.add(table, rid, Word::EMPTY, word);
                Ok(rid)
            }
            Err(error) => {
                table.space.lock().put_rids([rid]);
                Err(error)
            }
        }
    }

    fn insert_bulk(&mut self, table: &Arc<Table>, row: &[u8]) -> Result<Rid> {
        let sequence = self.next_sequence();
        let position = self.bulk.iter().position(|bulk| bulk.table().id() == table.id()).unwrap_or_else(|| {
            self.bulk.push(BulkInsert::new(table.clone()));
            self.bulk.len() - 1
        });
        self.bulk[position].insert(row, sequence)
    }

    /// Allocates and writes a version, flushed; the fence comes with the statement's end or the commit.
    fn write_version(&mut self, table: &Table, header: &VersionHeader, row: &[u8], sequence: u64) -> Result<Word> {
        let bytes = VERSION_HEADER + row.len() as u64;
        let place = table.allocate(self.shard(), bytes)?;
        let word = Word::new(place.file(), place.offset(), header.rid.incarnation());
        let (region, at) = table.write_version(word, header, row, sequence);
        region.flush(at, bytes);
        self.unfenced = true;
        Ok(if header.tombstone { word.tombstone() } else { word })
    }

    /// Replaces a row. Locks it, waiting if need be.
    ///
    /// # Errors
    /// NotFound; RecordChanged if the transaction has a snapshot (REPEATABLE READ) and someone committed a newer version than it
    /// sees; lock errors; DeviceFull.
    pub fn update(&mut self, table: &Arc<Table>, rid: Rid, row: &[u8]) -> Result<()> {
        check_length(row)?;
        self.write(table, rid, Some(row))
    }

    /// Deletes a row. Locks it, waiting if need be. Errors as for [`Txn::update`].
    pub fn delete(&mut self, table: &Arc<Table>, rid: Rid) -> Result<()> {
        self.write(table, rid, None)
    }

    fn write(&mut self, table: &Arc<Table>, rid: Rid, row: Option<&[u8]>) -> Result<()> {
        self.check_writable(table)?;
        if let Some(position) =
            self.bulk.iter().position(|bulk| bulk.table().id() == table.id() && bulk.owns_row(rid.row()))
        {
            if self.bulk[position].word(rid.row()).is_tombstone() {
                return Err(gone(table, rid));
            }
            let sequence = self.next_sequence();
            return self.bulk[position].edit(rid, row, sequence);
        }
        let own = self.writes.get(table.id(), rid).map(|write| write.head);
        let before = match own {
            Some(head) if head.is_tombstone() => return Err(gone(table, rid)),
            Some(head) => head,
            None => self.lock_for_write(table, rid)?,
        };
        let sequence = self.next_sequence();
        let header = VersionHeader::new(before, rid, row.unwrap_or_default(), row.is_none());
        let word = self.write_version(table, &header, row.unwrap_or_default(), sequence)?;
        match own {
            Some(_) => self.writes.replace(table.id(), rid, word),
            None => self.writes.add(table, rid, before, word),
        }
        Ok(())
    }

    /// Locks a committed row for its first write; returns its word.
    fn lock_for_write(&mut self, table: &Arc<Table>, rid: Rid) -> Result<Word> {
        // Keeps purge off the version to be replaced while this looks at it.
        self.statement_snapshot();
        let limit = self.transaction_snapshot().unwrap_or(Csn::MAX);
        self.lock_row(table, rid, LockMode::Exclusive)?;
        let word = table.directory.word(rid.row());
        if word.is_empty() || word.incarnation() != rid.incarnation() {
            return Err(gone(table, rid));
        }
        let (region, at, header) = match table.header(word, rid) {
            // A deletion that is being purged right now.
            Err(_) if table.directory.word(rid.row()) != word => return Err(gone(table, rid)),
            found => found?,
        };
        let state = table.directory.state(table.directory.page_of(rid.row()));
        let csn = Table::version_csn(region, at, state);
        // Planted: the first updater does not win.
        if csn > limit && !perdura_pmem::planted(59) {
            return Err(Error::new(
                ErrorKind::RecordChanged,
                format!(
                    "row {:#x} of table {} was changed after this transaction's snapshot",
                    rid.to_u64(),
                    table.name()
                ),
            ));
        }
        // Planted: a deleted row is changed; a version is replaced in a segment that a sweep has yet to look at.
        if header.tombstone && !perdura_pmem::planted(60) {
            return Err(gone(table, rid));
        }
        if perdura_pmem::planted(61) {
            return Ok(word);
        }
        table.ensure_swept(word)?;
        self.snapshots.has_met(csn);
        Ok(word)
    }

    /// Locks a row, waiting up to the lock wait timeout. Own fresh inserts need no lock.
    pub fn lock_row(&mut self, table: &Arc<Table>, rid: Rid, mode: LockMode) -> Result<LockOutcome> {
        let timeout = self.lock_wait_timeout.unwrap_or_else(|| self.engine.lock_wait_timeout());
        self.lock_within(table, rid, mode, Some(timeout))
    }

    /// Locks a row if that needs no waiting; `None` if somebody else holds it.
    pub fn try_lock_row(&mut self, table: &Arc<Table>, rid: Rid, mode: LockMode) -> Result<Option<LockOutcome>> {
        match self.lock_within(table, rid, mode, None) {
            Ok(outcome) => Ok(Some(outcome)),
            Err(error) if error.kind() == ErrorKind::LockWaitTimeout => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn lock_within(
        &mut self,
        table: &Arc<Table>,
        rid: Rid,
        mode: LockMode,
        timeout: Option<Duration>,
    ) -> Result<LockOutcome> {
        if self.owns_insert(table, rid) {
            return Ok(LockOutcome::Held);
        }
        let key = RowKey { table: table.id(), rid };
        self.owner.begin(self.engine.locks.clock());
        let refused = match self.engine.locks.lock(&self.owner, key, mode, timeout) {
            Ok(LockOutcome::New) => {
                self.locks.push(key);
                self.owner.count_locks(self.locks.len());
                return Ok(LockOutcome::New);
            }
            Ok(LockOutcome::Held) => return Ok(LockOutcome::Held),
            Err(refused) => refused,
        };
        if refused == LockRefused::Deadlock {
            self.engine.locks.name_deadlock(|id| self.engine.name_of(id));
        }
        let (kind, what) = match refused {
            LockRefused::Timeout => (ErrorKind::LockWaitTimeout, "was not free within the lock wait timeout"),
            LockRefused::WouldWait => (ErrorKind::LockWaitTimeout, "is locked by another transaction"),
            LockRefused::Deadlock => (ErrorKind::Deadlock, "would have been waited for in a circle: deadlock"),
            LockRefused::Killed => (ErrorKind::Killed, "was waited for when the statement was killed"),
        };
        Err(Error::new(kind, format!("row {:#x} of table {} {what}", rid.to_u64(), table.name())))
    }

    fn owns_insert(&self, table: &Table, rid: Rid) -> bool {
        self.bulk.iter().any(|bulk| bulk.table().id() == table.id() && bulk.owns_row(rid.row()))
            || self.writes.get(table.id(), rid).is_some_and(|write| write.base.is_empty())
    }

    /// Releases a lock that [`Txn::lock_row`] newly took, if the row was not written since.
    pub fn unlock_row(&mut self, table: &Arc<Table>, rid: Rid) {
        let key = RowKey { table: table.id(), rid };
        if self.writes.get(table.id(), rid).is_some() {
            return;
        }
        if let Some(position) = self.locks.iter().rposition(|held| *held == key) {
            self.locks.swap_remove(position);
            self.owner.count_locks(self.locks.len());
            self.engine.locks.unlock(&self.owner, [key]);
        }
    }
}

fn check_length(row: &[u8]) -> Result<()> {
    if row.len() as u64 <= ROW_BYTES_MAX {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::RowTooLarge,
        format!("a row of {} bytes is longer than {ROW_BYTES_MAX} bytes", row.len()),
    ))
}

fn gone(table: &Table, rid: Rid) -> Error {
    Error::new(ErrorKind::NotFound, format!("row {:#x} of table {} does not exist", rid.to_u64(), table.name()))
}
