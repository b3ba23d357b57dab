//! State that all users of a running log share.
//!
//! Lock order: the ledger (control), then a prepared transaction's state, then the rest, which are
//! leaves. Keeps (I1), (I11).

use crate::error::{Error, Result};
use crate::format::{GRANULE_BYTES, LAG_UNKNOWN};
use crate::generation::{Active, Generations, Pins, Placed};
use crate::group::{Place, Sink};
use crate::ledger::Ledger;
use crate::path::{PathConfig, Stream, Target, block_bytes};
use crate::prepared::Registry;
use crate::publication::Commit;
use crate::stages::{LogStage, Stages};
use crate::watermark::{SLOTS, SLOTS_STORED, Watermark, slots_for};
use crate::{Csn, TxnId};
use crossbeam_utils::CachePadded;
use perdura_pmem::sync::{Condvar, Mutex, RwLock};
use perdura_pmem::{Health, Medium, Mutant, Region};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;

/// Maps a region's pages ahead of use.
pub(crate) type PrefaultHook = dyn Fn(&Region) + Send + Sync;
pub(crate) type FlushHook = dyn Fn() + Send + Sync;

/// State of a running log.
pub(crate) struct Shared {
    pub(crate) medium: Arc<dyn Medium>,
    /// The medium's.
    health: Health,
    /// A checkpoint takes long: it is made outside the control lock, and no switch waits for one.
    pub(crate) settles: bool,
    pub(crate) lanes: u32,
    pub(crate) lane_bytes: u64,
    /// Bytes that a write of a lane may tear, or that are written at least: space is reserved in
    /// multiples of it.
    pub(crate) sector: u64,
    /// Way of the records that do not go to their place directly.
    pub(crate) stream: Option<Arc<Stream>>,
    /// Bytes between groups that no other can have, and were, or will be, written with them.
    pub(crate) padding: AtomicU64,
    /// Generations the log shrinks back to.
    pub(crate) generations_least: u32,
    pub(crate) generations_max: u32,
    pub(crate) generations: Generations,
    active: CachePadded<AtomicU64>,
    /// Last CSN taken.
    csn: CachePadded<AtomicU64>,
    /// Next transaction id.
    pub(crate) txid_next: CachePadded<AtomicU64>,
    pub(crate) txid_limit: AtomicU64,
    pub(crate) durable: Watermark,
    pub(crate) visible: Watermark,
    /// Never ahead of `visible`: a commit is published before it is stored.
    pub(crate) stored: Watermark,
    pub(crate) stages: Stages,
    pub(crate) checkpoint_csn: AtomicU64,
    pub(crate) ledger: Mutex<Ledger>,
    /// Transactions with chunks and no ending yet: lowest activation they have one in, and id.
    pub(crate) holders: Mutex<BTreeSet<(u64, TxnId)>>,
    pub(crate) prepared: Registry,
    failed: AtomicBool,
    reason: Mutex<Option<String>>,
    pub(crate) prefault: RwLock<Option<Arc<PrefaultHook>>>,
    pub(crate) flush_stored: RwLock<Option<Arc<FlushHook>>>,
    /// Threads that make a checkpoint's words durable, where that takes long.
    settling: AtomicU32,
    waiting: AtomicU32,
    /// Transactions that ended while somebody waited.
    ended: AtomicU64,
    freed_lock: Mutex<()>,
    freed: Condvar,
}

/// Initial state of a running log.
pub(crate) struct Start {
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) lanes: u32,
    pub(crate) lane_bytes: u64,
    pub(crate) generations_least: u32,
    pub(crate) generations_max: u32,
    pub(crate) generations: Generations,
    pub(crate) horizon: Csn,
    pub(crate) checkpoint_csn: Csn,
    pub(crate) txid_limit: u64,
    pub(crate) ledger: Ledger,
    pub(crate) path: PathConfig,
}

impl Shared {
    pub(crate) fn new(start: Start) -> Shared {
        let lane_granules = start.lane_bytes / GRANULE_BYTES;
        let generations = (start.generations_max as usize).max(start.generations.count()) as u64;
        let granules = lane_granules.saturating_mul(u64::from(start.lanes) * generations);
        let mark = |slots: u64| Watermark::new(start.horizon, slots_for(granules, slots));
        let (durable, visible, stored) = (mark(SLOTS), mark(SLOTS), mark(SLOTS_STORED));
        let (sector, health) = (start.generations.sector(), start.medium.health());
        Shared {
            sector: block_bytes(&start.path, sector),
            stream: Stream::new(&start.path, sector, health.clone()).map(Arc::new),
            padding: AtomicU64::new(0),
            health,
            settles: start.medium.settles(),
            medium: start.medium,
            lanes: start.lanes,
            lane_bytes: start.lane_bytes,
            generations_least: start.generations_least,
            generations_max: start.generations_max,
            generations: start.generations,
            active: CachePadded::new(AtomicU64::new(Active::NONE.to_word())),
            csn: CachePadded::new(AtomicU64::new(start.horizon)),
            txid_next: CachePadded::new(AtomicU64::new(start.txid_limit)),
            txid_limit: AtomicU64::new(start.txid_limit),
            durable,
            visible,
            stored,
            stages: Stages::default(),
            checkpoint_csn: AtomicU64::new(start.checkpoint_csn),
            ledger: Mutex::new(start.ledger),
            holders: Mutex::new(BTreeSet::new()),
            prepared: Registry::new(start.lanes),
            failed: AtomicBool::new(false),
            reason: Mutex::new(None),
            prefault: RwLock::new(None),
            flush_stored: RwLock::new(None),
            settling: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            ended: AtomicU64::new(0),
            freed_lock: Mutex::new(()),
            freed: Condvar::new(),
        }
    }

    #[inline]
    pub(crate) fn active(&self) -> Active {
        Active::from_word(self.active.load(SeqCst))
    }

    pub(crate) fn set_active(&self, active: Active) {
        self.active.store(active.to_word(), SeqCst);
    }

    /// Takes the next CSN. Returns with it how far durable_csn is known to be behind it. From here
    /// to the fence nothing may fail (I5).
    #[inline]
    pub(crate) fn take_csn(&self) -> (Csn, u16) {
        let csn = self.csn.fetch_add(1, SeqCst) + 1;
        // Planted: the lag says that all before are durable.
        let lag = if perdura_pmem::planted(Mutant::LagClaimsAllDurable) { 1 } else { csn - self.durable.load() };
        // Planted: it counts as filled when it is taken.
        if perdura_pmem::planted(Mutant::CsnFilledWhenTaken) {
            self.durable.mark(csn);
        }
        (csn, u16::try_from(lag).unwrap_or(LAG_UNKNOWN))
    }

    pub(crate) fn last_csn(&self) -> Csn {
        self.csn.load(SeqCst)
    }

    /// Where a reserved group goes. The caller's transaction pins the lane.
    #[inline]
    pub(crate) fn place(&self, placed: Placed) -> Place<'_> {
        let generation = self.generations.get(placed.generation);
        Place {
            // SAFETY: whoever has a place in a lane pins the lane, or has the control lock.
            region: unsafe { generation.lanes[placed.lane as usize].region() },
            salt: generation.salt(),
            lane: placed.lane,
            offset: placed.offset,
            sink: Sink::PastCache,
        }
    }

    /// The lane of a reserved group, as the stream knows it.
    pub(crate) fn target(&self, placed: Placed) -> Target<'_> {
        let generation = self.generations.get(placed.generation);
        Target {
            // SAFETY: whoever has a place in a lane pins the lane, or has the control lock.
            region: unsafe { generation.lanes[placed.lane as usize].region() },
            activation: generation.activation(),
            lane: placed.lane,
        }
    }

    /// Whether records of several threads are made durable by one write.
    #[inline]
    pub(crate) fn shares_writes(&self) -> bool {
        self.sector > GRANULE_BYTES
    }

    /// Bytes of the whole sectors, or granules, that `bytes` take.
    #[inline]
    pub(crate) fn padded(&self, bytes: u64) -> u64 {
        (bytes + self.sector - 1) & !(self.sector - 1)
    }

    /// Bytes of a lane that can be reserved.
    #[inline]
    pub(crate) fn lane_room(&self) -> u64 {
        self.lane_bytes & !(self.sector - 1)
    }

    /// Counts the padding of a group of `bytes` that has its sectors to itself.
    #[inline]
    pub(crate) fn count_padding(&self, bytes: u64) {
        if self.sector > GRANULE_BYTES {
            self.padding.fetch_add(self.padded(bytes) - bytes, Relaxed);
        }
    }

    /// Releases the pins of a transaction that ends. `csn` is the transaction's, or 0 if it has
    /// none.
    #[inline]
    pub(crate) fn release(&self, pins: &mut Pins, csn: Csn) {
        if pins.is_empty() {
            return;
        }
        let mut watch = self.stages.watch();
        self.withdraw(pins, csn);
        watch.end(LogStage::Release);
        if self.waiting.load(Relaxed) > 0 {
            self.ended.fetch_add(1, Relaxed);
            self.freed.notify_all();
        }
    }

    /// Releases pins where no transaction ends: nobody gets on by that.
    #[inline]
    pub(crate) fn withdraw(&self, pins: &mut Pins, csn: Csn) {
        for pin in pins.drain(..) {
            self.generations.get(pin.generation).lanes[pin.lane as usize].pins.unpin(csn);
        }
    }

    /// Notes that the record of commit `csn`, which this thread has fenced, is durable: unless the
    /// medium has failed. Then the pool has stopped, and no commit from this one on is ever called
    /// durable.
    #[inline]
    pub(crate) fn mark_durable(&self, csn: Csn) {
        self.mark_durable_by(csn, |moved| self.durable.wake(moved));
    }

    /// The same; `wake` is called with each CSN that durable_csn has moved to.
    #[inline]
    pub(crate) fn mark_durable_by(&self, csn: Csn, wake: impl FnMut(Csn)) {
        // Planted: nobody asks whether the fence did what it should.
        if self.check_fenced().is_err() && !perdura_pmem::planted(Mutant::FailedFenceUnasked) {
            self.durable.refuse(csn);
            return;
        }
        let mut watch = self.stages.watch();
        self.durable.mark_by(csn, wake);
        watch.end(LogStage::Durable);
    }

    /// Reports the commits of a write, which this thread has made, as durable, publishes those that
    /// durable_csn covers, and only then wakes those who wait.
    pub(crate) fn announce(&self, mut commits: impl AsMut<[Commit]>) {
        let commits = commits.as_mut();
        // The lowest first: each then moves the marks by one.
        commits.sort_unstable_by_key(|commit| commit.csn);
        let mut moved: SmallVec<[Csn; 16]> = SmallVec::new();
        commits.iter().for_each(|commit| self.mark_durable_by(commit.csn, |csn| moved.push(csn)));
        for commit in commits.iter().filter(|commit| commit.csn <= self.durable.load()) {
            if commit.publication.as_ref().is_some_and(|publication| publication.publish(commit.csn)) {
                self.visible.mark(commit.csn);
            }
        }
        moved.into_iter().for_each(|csn| self.durable.wake(csn));
    }

    /// Notes that all words of commit `csn` are stored.
    #[inline]
    pub(crate) fn mark_stored(&self, csn: Csn) {
        let mut watch = self.stages.watch();
        self.stored.mark(csn);
        watch.end(LogStage::Stored);
        if self.waiting.load(Relaxed) > 0 {
            self.freed.notify_all();
        }
    }

    /// stored_csn, once all words up to it are durable by the hook. Where that takes long it is
    /// called without the control lock.
    pub(crate) fn flush_stored(&self) -> Csn {
        let csn = self.stored.load();
        let is_new = csn > self.checkpoint_csn.load(Acquire) || self.medium.settle_is_due();
        // Planted: a checkpoint goes past words that nobody has flushed.
        if is_new && !perdura_pmem::planted(Mutant::CheckpointPastUnflushedWords) {
            self.settling.fetch_add(u32::from(self.settles), Relaxed);
            let flush = self.flush_stored.read().clone();
            flush.inspect(|flush| flush());
            self.settling.fetch_sub(u32::from(self.settles), Relaxed);
        }
        csn
    }

    /// Whether a checkpoint is under way that takes long, and frees generations at its end.
    pub(crate) fn is_settling(&self) -> bool {
        self.settling.load(Relaxed) > 0
    }

    /// Bytes of the log that have been reserved or skipped since the pool was created.
    pub(crate) fn volume(&self) -> u64 {
        let active = self.active();
        if active == Active::NONE {
            return 0;
        }
        let lanes = &self.generations.get(active.number()).lanes;
        let filled: u64 = lanes.iter().map(|lane| lane.filled().min(self.lane_bytes)).sum();
        active.activation() * u64::from(self.lanes) * self.lane_bytes + filled
    }

    /// Values that change with any progress: the stored CSN, the active generation, and the count
    /// of ended transactions.
    pub(crate) fn progress(&self) -> (Csn, Active, u64) {
        (self.stored.load(), self.active(), self.ended.load(Relaxed))
    }

    /// Registers the caller as one who waits for room, until the result is dropped.
    pub(crate) fn waiting(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, SeqCst);
        Waiting(self)
    }

    /// Fails if the pool has stopped, or stops with its medium here.
    #[inline]
    pub(crate) fn check_running(&self) -> Result<()> {
        if self.is_failed() || self.check_fenced().is_err() { Err(self.failure()) } else { Ok(()) }
    }

    /// Whether all that this thread has fenced is durable, and what it has read is what was stored.
    /// Asked after a fence, before anybody is told of what it covers (I1): a medium that has failed
    /// stops the pool (I11).
    #[inline]
    pub(crate) fn check_fenced(&self) -> Result<()> {
        self.health.check().map_err(|error| {
            self.fail_stop(&error.to_string());
            Error::from(error)
        })?;
        match self.stream.as_ref().and_then(|stream| stream.failure()) {
            None => Ok(()),
            Some(reason) => {
                self.fail_stop(reason);
                Err(self.failure())
            }
        }
    }

    #[inline]
    pub(crate) fn is_failed(&self) -> bool {
        self.failed.load(Acquire)
    }

    #[cold]
    pub(crate) fn failure(&self) -> Error {
        Error::fail_stop(self.reason.lock().as_deref().unwrap_or_default())
    }

    /// Stops the pool for writing; the first reason is kept.
    #[cold]
    pub(crate) fn fail_stop(&self, reason: &str) {
        self.reason.lock().get_or_insert_with(|| reason.to_owned());
        self.failed.store(true, Release);
        self.durable.stop();
        self.visible.stop();
        self.stored.stop();
    }
}

/// Somebody waits for room in the log.
pub(crate) struct Waiting<'a>(&'a Shared);

impl Waiting<'_> {
    /// Waits until there may be room, for about `timeout` at most; whether it was woken.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        // A wake-up that comes before the wait costs no more than the timeout.
        self.0.freed.wait_for(&mut self.0.freed_lock.lock(), timeout)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

/// Stops the pool if it is dropped: a CSN was taken and its record was not finished (I5).
pub(crate) struct Unfinished<'a>(pub(crate) &'a Shared);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.fail_stop("a commit was cut off between its CSN and its record");
    }
}
