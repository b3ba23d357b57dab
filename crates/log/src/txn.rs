//! A transaction as the log sees it: chunks, then one ending.

use crate::copy_forward::store_again;
use crate::error::{Error, Result};
use crate::format::{
    CHUNKS_MAX, GRANULE_BYTES, HEADER_BYTES, Header, Kind, XID_BYTES_MAX, group_bytes, prepare_body, xid_area_bytes,
};
use crate::generation::{Pins, Placed};
use crate::group::{Place, Sink, Staged};
use crate::path::{Lsn, Seat, Stream};
use crate::prepared::{Prepared, State};
use crate::publication::{Commit, Publication};
use crate::shared::{Shared, Unfinished};
use crate::stages::LogStage;
use crate::{Csn, TxnId};
use perdura_pmem::checksum::crc32c_append;
use perdura_pmem::sync::Mutex;
use perdura_pmem::trace::span;
use perdura_pmem::{Mutant, Region};
use std::ops::Range;
use std::sync::Arc;
use std::thread::ThreadId;

/// A lane's reference to the log, so that transactions of different lanes do not share a reference
/// count.
pub(crate) struct Home {
    pub(crate) log: Arc<Shared>,
    pub(crate) lane: u32,
}

/// Space for the commit record of a transaction. [`LogTxn::commit`] uses it up; if it is dropped,
/// the space stays empty.
#[must_use = "reserved space is wasted unless the transaction commits with it"]
#[derive(Debug)]
pub struct Reservation {
    txid: TxnId,
    placed: Placed,
    body_bytes: usize,
}

/// A chunk's place, and who stored it last: its stores are fenced with that thread's next fence.
#[derive(Clone, Copy)]
struct Chunk {
    placed: Placed,
    writer: ThreadId,
}

/// A transaction's part of the log. Used by one thread at a time.
///
/// A transaction dropped without an ending is rolled back: its chunks are void. One dropped while
/// prepared stays prepared.
///
/// Invariants: every lane with a record of the transaction, or space reserved for one, is pinned
/// until it has ended (I9). The CSN is taken when space, body and checksum of the body are ready;
/// from there to the fence nothing allocates, blocks or fails (I5). The thread that writes an
/// ending has fenced, or fences with it, every chunk it counts: chunks another thread left unfenced
/// are stored again first (I3).
pub struct LogTxn {
    home: Arc<Home>,
    id: TxnId,
    chunks: u32,
    chained: u32,
    /// CSN once committed, 0 before.
    csn: Csn,
    pins: Pins,
    /// Chunks in order.
    records: Vec<Chunk>,
    /// Lowest activation it has a chunk in, as noted in the log's holders.
    held_since: Option<u64>,
    prepared: Option<Arc<Prepared>>,
    publication: Option<Arc<dyn Publication>>,
    /// End in the stream of its last chunk.
    staged: Lsn,
}

impl LogTxn {
    pub(crate) fn new(home: Arc<Home>, id: TxnId) -> LogTxn {
        LogTxn {
            home,
            id,
            chunks: 0,
            chained: 0,
            csn: 0,
            pins: Pins::new(),
            records: Vec::new(),
            held_since: None,
            prepared: None,
            publication: None,
            staged: 0,
        }
    }

    /// A transaction that recovery found prepared.
    pub(crate) fn resurrected(home: Arc<Home>, prepared: Arc<Prepared>) -> LogTxn {
        let mut txn = LogTxn::new(home, prepared.txid);
        txn.prepared = Some(prepared);
        txn
    }

    /// Transaction id, never issued twice in a pool.
    pub fn id(&self) -> TxnId {
        self.id
    }

    /// Whether other threads may make the write of its commit record.
    #[inline]
    pub fn shares_writes(&self) -> bool {
        self.home.log.shares_writes()
    }

    /// Has whoever makes the write of its commit record publish it. Without it the caller does.
    pub fn set_publication(&mut self, publication: Arc<dyn Publication>) {
        self.publication = Some(publication);
    }

    /// Writes a part of the redo ahead of the commit. The transaction holds the generation until it
    /// ends. Not fenced.
    ///
    /// # Errors
    /// TooLarge (the body, or the count of chunks), LogFull, FailStop, Medium. The transaction is
    /// as before.
    pub fn append_chunk(&mut self, body: &[u8]) -> Result<()> {
        assert!(self.prepared.is_none() && self.csn == 0, "a chunk of transaction {} after its end", self.id);
        if self.chunks == CHUNKS_MAX {
            return Err(Error::too_large(u64::from(self.chunks) + 1, CHUNKS_MAX.into()));
        }
        let home = self.home.clone();
        let log = &*home.log;
        // A large transaction uses all lanes, unless one stream fills one after the other.
        let lane = if log.stream.is_some() { home.lane } else { (home.lane + self.chunks) % log.lanes };
        let placed = log.reserve(self.id, &mut self.pins, lane, group_bytes(body.len()))?;
        let chained = crc32c_append(self.chained, body);
        let header = Header {
            length: (HEADER_BYTES + body.len()) as u32,
            csn: 0,
            txid: self.id,
            lag: 0,
            kind: Kind::Chunk,
            chunks: self.chunks,
            chained,
        };
        let placed = match &log.stream {
            None => {
                log.count_padding(group_bytes(body.len()));
                Staged::new(log.place(placed), body).seal(&header);
                placed
            }
            Some(stream) => {
                let (placed, seat) = join(log, stream, placed, body.len()).ok_or_else(|| log.failure())?;
                Staged::new(Place { sink: Sink::Staged(&seat), ..log.place(placed) }, body).seal(&header);
                self.staged = seat.fill();
                placed
            }
        };
        self.hold(log, placed);
        self.records.push(Chunk { placed, writer: std::thread::current().id() });
        self.chunks += 1;
        self.chained = chained;
        Ok(())
    }

    /// Registers the transaction as one that may hold a generation for long.
    fn hold(&mut self, log: &Shared, first: Placed) {
        if self.held_since.is_none() {
            let since = log.generations.get(first.generation).activation();
            log.holders.lock().insert((since, self.id));
            self.held_since = Some(since);
        }
    }

    fn unhold(&mut self) {
        if let Some(since) = self.held_since.take() {
            self.home.log.holders.lock().remove(&(since, self.id));
        }
    }

    /// Stores again the chunks that other threads wrote: the ending waits for this thread's fence
    /// only.
    fn adopt_chunks(&mut self) {
        // The stream is durable in its order, whoever has stored what is in it.
        if self.home.log.stream.is_some() {
            return;
        }
        let here = std::thread::current().id();
        for chunk in self.records.iter_mut().filter(|chunk| chunk.writer != here) {
            store_again(&self.home.log, chunk.placed);
            chunk.writer = here;
        }
    }

    /// Reserves the commit record's space, for a body of `body_bytes`. All that can fail or block
    /// happens here.
    ///
    /// # Errors
    /// TooLarge: write chunks instead. LogFull, FailStop, Medium: roll back.
    #[inline]
    pub fn reserve(&mut self, body_bytes: usize) -> Result<Reservation> {
        let mut watch = self.home.log.stages.watch();
        let placed = self.home.log.reserve(self.id, &mut self.pins, self.home.lane, group_bytes(body_bytes))?;
        watch.end(LogStage::Reserve);
        Ok(Reservation { txid: self.id, placed, body_bytes })
    }

    /// Commits: takes the CSN, writes the record, fences once. Cannot fail. Then durable_csn covers
    /// the CSN as soon as it covers those before; if the medium has failed it never does. On a disk
    /// or by a log writer another thread makes the write: durable_csn tells.
    ///
    /// Panics if the body is longer than was reserved, or the transaction has ended.
    #[inline]
    pub fn commit(&mut self, reservation: Reservation, body: &[u8]) -> Csn {
        assert!(reservation.txid == self.id, "transaction {} reserved for {}", reservation.txid, self.id);
        assert!(body.len() <= reservation.body_bytes, "a commit body longer than was reserved");
        assert!(self.prepared.is_none() && self.csn == 0, "transaction {} has ended", self.id);
        if self.chunks > 0 {
            self.adopt_chunks();
        }
        let log = &*self.home.log;
        let (of, publication) = ((self.id, self.chunks, self.chained), self.publication.take());
        self.csn = write_commit(log, reservation.placed, body, Kind::Commit, of, publication);
        self.csn
    }

    /// Prepares the transaction under the name `xid`, with `body` as the last part of its redo:
    /// from now on it can commit at any time, even after a crash. Reserves the space of its ending.
    ///
    /// # Errors
    /// TooLarge, LogFull, FailStop, Medium. The transaction is as before; if the medium has failed,
    /// the next recovery may find it prepared.
    pub fn prepare(&mut self, xid: &[u8], body: &[u8]) -> Result<()> {
        assert!(self.prepared.is_none() && self.csn == 0, "transaction {} has ended or is prepared", self.id);
        let _span = span("prepare");
        if xid.len() > XID_BYTES_MAX {
            return Err(Error::too_large(xid.len() as u64, XID_BYTES_MAX as u64));
        }
        let home = self.home.clone();
        let log = &*home.log;
        let own = log.padded(group_bytes(xid_area_bytes(xid.len()) + body.len()));
        let placed = log.reserve(self.id, &mut self.pins, home.lane, own + GRANULE_BYTES)?;
        self.adopt_chunks();
        let body = prepare_body(xid, body);
        let ending = Placed { offset: placed.offset + own, ..placed };
        let placed = write_ending(log, placed, &body, Kind::Prepare, (self.id, self.chunks, self.chained));
        log.check_fenced()?;
        self.unhold();
        let records = self.records.drain(..).map(|chunk| chunk.placed).chain([placed]).collect();
        // The pinned generation cannot be armed anew, so its activation is that of the record.
        let since = log.generations.get(placed.generation).activation();
        let state = State {
            pins: std::mem::take(&mut self.pins),
            records,
            ending: Some(ending),
            since,
            chunks: self.chunks,
            chained: self.chained,
            ended: false,
        };
        let prepared = Arc::new(Prepared { txid: self.id, state: Mutex::new(state) });
        log.prepared.add(prepared.clone());
        self.prepared = Some(prepared);
        Ok(())
    }

    /// Commits a prepared transaction; one fence. Cannot fail.
    ///
    /// Panics if the transaction is not prepared.
    pub fn commit_prepared(&mut self) -> Csn {
        let prepared = self.prepared.take().expect("only a prepared transaction commits so");
        let log = &*self.home.log;
        {
            let mut state = prepared.state.lock();
            let ending = state.ending.expect("reserved by prepare or recovery");
            let (of, publication) = ((self.id, state.chunks, state.chained), self.publication.take());
            self.csn = write_commit(log, ending, &[], Kind::CommitPrepared, of, publication);
            state.ended = true;
            log.release(&mut state.pins, self.csn);
        }
        log.prepared.remove(self.id);
        self.csn
    }

    /// Rolls back. The rollback of a prepared transaction is made durable with one fence; any other
    /// writes nothing.
    ///
    /// # Errors
    /// FailStop, Medium: a prepared transaction stays prepared in the pool.
    pub fn rollback(mut self) -> Result<()> {
        let Some(prepared) = self.prepared.take() else { return Ok(()) };
        let log = &*self.home.log;
        log.check_running()?;
        // Planted: the rollback of a prepared transaction is not logged.
        if perdura_pmem::planted(Mutant::PreparedRollbackNotLogged) {
            return Ok(());
        }
        {
            let mut state = prepared.state.lock();
            let ending = state.ending.expect("reserved by prepare or recovery");
            write_ending(log, ending, &[], Kind::Rollback, (self.id, state.chunks, state.chained));
            log.check_fenced()?;
            state.ended = true;
            log.release(&mut state.pins, 0);
        }
        log.prepared.remove(self.id);
        Ok(())
    }
}

/// Transaction id, count of chunks, and their chained checksum.
type Of = (TxnId, u32, u32);

/// Takes a CSN, writes the commit record, fences it and reports it as durable: here, or by the
/// thread that makes the write, which then also publishes it.
#[inline]
fn write_commit(
    log: &Shared,
    placed: Placed,
    body: &[u8],
    kind: Kind,
    of: Of,
    publication: Option<Arc<dyn Publication>>,
) -> Csn {
    if log.shares_writes() {
        return write_blocks(log, placed, body, kind, of, publication).1;
    }
    let place = log.place(placed);
    let mut watch = log.stages.watch();
    let staged = Staged::new(place, body);
    watch.end(LogStage::Copy);
    let unfinished = Unfinished(log);
    let (csn, lag) = log.take_csn();
    watch.end(LogStage::Csn);
    seal(staged, kind, (csn, lag), of);
    watch.end(LogStage::Copy);
    fence(place.region);
    watch.end(LogStage::Fence);
    std::mem::forget(unfinished);
    log.mark_durable(csn);
    csn
}

/// Writes a record without a CSN and fences it. Returns where it lies.
fn write_ending(log: &Shared, placed: Placed, body: &[u8], kind: Kind, of: Of) -> Placed {
    if log.shares_writes() {
        return write_blocks(log, placed, body, kind, of, None).0;
    }
    let place = log.place(placed);
    seal(Staged::new(place, body), kind, (0, 0), of);
    fence(place.region);
    placed
}

/// Where space is reserved in sectors or blocks: writes a record together with others. Returns
/// where it lies, in the lane of `placed`, and its CSN.
#[inline(never)]
fn write_blocks(
    log: &Shared,
    placed: Placed,
    body: &[u8],
    kind: Kind,
    of: Of,
    publication: Option<Arc<dyn Publication>>,
) -> (Placed, Csn) {
    match &log.stream {
        Some(stream) => write_staged((log, stream), placed, body, kind, of, publication),
        None => write_shared(log, placed, body, kind, of, publication),
    }
}

/// Joins the stream with a group's reserved blocks: where it goes, in the lane of `placed`. `None`
/// if the stream has failed.
fn join<'a>(log: &'a Shared, stream: &'a Stream, placed: Placed, body_bytes: usize) -> Option<(Placed, Seat<'a>)> {
    let bytes = group_bytes(body_bytes);
    let own = placed.offset..placed.offset + log.padded(bytes);
    let seat = stream.join(log.target(placed), own.clone(), bytes)?;
    if !seat.is_in_own() {
        log.generations.get(placed.generation).lanes[placed.lane as usize].give_back_sectors(own);
    }
    Some((Placed { offset: seat.offset(), ..placed }, seat))
}

/// Hands a record to the log writer. A commit takes its CSN and will be announced; another record
/// is durable on return, or the stream has failed. Nothing blocks between the CSN and the end of
/// the record (I5): the room in the log buffer was waited for before.
fn write_staged(
    (log, stream): (&Shared, &Stream),
    placed: Placed,
    body: &[u8],
    kind: Kind,
    of: Of,
    publication: Option<Arc<dyn Publication>>,
) -> (Placed, Csn) {
    let mut watch = log.stages.watch();
    let take_csn = || if kind.is_commit() { log.take_csn() } else { (0, 0) };
    let Some((placed, seat)) = join(log, stream, placed, body.len()) else {
        let (csn, _) = take_csn();
        if kind.is_commit() {
            // It asks, and finds the failure.
            log.mark_durable(csn);
        }
        return (placed, csn);
    };
    watch.end(LogStage::Reserve);
    let staged = Staged::new(Place { sink: Sink::Staged(&seat), ..log.place(placed) }, body);
    watch.end(LogStage::Copy);
    let unfinished = Unfinished(log);
    let (csn, lag) = take_csn();
    watch.end(LogStage::Csn);
    seal(staged, kind, (csn, lag), of);
    watch.end(LogStage::Copy);
    stream.end_record(seat, kind.is_commit().then_some(Commit { csn, publication }));
    watch.end(LogStage::Fence);
    std::mem::forget(unfinished);
    (placed, csn)
}

/// On a disk: writes a record together with those of other threads. A commit takes its CSN. Returns
/// where the record lies, in the lane of `placed`, and its CSN.
///
/// Chunks of this thread, and whatever else it has flushed, are fenced before: others may lead the
/// write of its record, and a fence covers what its own thread has flushed (I3).
fn write_shared(
    log: &Shared,
    placed: Placed,
    body: &[u8],
    kind: Kind,
    of: Of,
    publication: Option<Arc<dyn Publication>>,
) -> (Placed, Csn) {
    let own = Place { sink: Sink::Cached, ..log.place(placed) };
    let mut watch = log.stages.watch();
    fence(own.region);
    watch.end(LogStage::Fence);
    let lane = &log.generations.get(placed.generation).lanes[placed.lane as usize];
    let bytes = group_bytes(body.len());
    let sectors = placed.offset..placed.offset + log.padded(bytes);
    // Before the CSN is taken: a place may be waited for.
    let seat = lane.group.join(sectors.clone(), bytes);
    let placed = Placed { offset: seat.offset, ..placed };
    if placed.offset != sectors.start {
        lane.give_back_sectors(sectors);
    }
    let staged = Staged::new(Place { offset: placed.offset, ..own }, body);
    watch.end(LogStage::Copy);
    let unfinished = Unfinished(log);
    let (csn, lag) = if kind.is_commit() { log.take_csn() } else { (0, 0) };
    watch.end(LogStage::Csn);
    seal(staged, kind, (csn, lag), of);
    watch.end(LogStage::Copy);
    let write = |spans: &[Range<u64>]| {
        for span in spans {
            own.region.flush(span.start, span.end - span.start);
            log.count_padding(span.end - span.start);
        }
        fence(own.region);
    };
    seat.end(kind.is_commit().then_some(Commit { csn, publication }), write, |commits| log.announce(commits));
    watch.end(LogStage::Fence);
    std::mem::forget(unfinished);
    (placed, csn)
}

/// Stores the header of a commit, or of another record with zeros for a CSN and its lag.
#[inline]
fn seal(staged: Staged<'_>, kind: Kind, (csn, lag): (Csn, u16), (txid, chunks, chained): Of) {
    let length = staged.length();
    staged.seal(&Header { length, csn, txid, lag, kind, chunks, chained });
}

/// The fence of a record.
#[inline]
fn fence(lane: &Region) {
    lane.fence();
}

impl Drop for LogTxn {
    #[inline]
    fn drop(&mut self) {
        if self.held_since.is_some() {
            self.unhold();
        }
        // Before its lane may begin anew nothing of it is left to be written there (I9): that waits
        // for its commit as well.
        if let Some(stream) = self.home.log.stream.as_ref().filter(|_| self.staged > 0 && self.csn == 0) {
            stream.wait_durable(self.staged);
        }
        self.home.log.release(&mut self.pins, self.csn);
    }
}
