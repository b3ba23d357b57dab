//! The running log.

use crate::Csn;
use crate::config::LaneChoice;
use crate::control::{Control, take_txid};
use crate::error::Result;
use crate::path::{NOTIFIERS_END, Threads, bodies};
use crate::prepared::Prepared;
use crate::shared::Shared;
use crate::shrink::shrink;
use crate::stages::{LogStage, StageClock, StageTimes};
use crate::status::LogStatus;
use crate::superblock::SUPERBLOCK_NAME;
use crate::txn::{Home, LogTxn};
use perdura_pmem::numa::{Machine, current_cpu};
use perdura_pmem::{Medium, Mutant, Region};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

/// The log of an open pool. Shared by all threads.
pub struct Log {
    shared: Arc<Shared>,
    homes: Box<[Arc<Home>]>,
    choice: LaneChoice,
    /// Of the path. Ended when the log is dropped.
    _threads: Option<Threads>,
}

impl Log {
    pub(crate) fn new(shared: Arc<Shared>, choice: LaneChoice) -> Log {
        let homes = (0..shared.lanes).map(|lane| Arc::new(Home { log: shared.clone(), lane })).collect();
        if let Some(stream) = &shared.stream {
            let weak = Arc::downgrade(&shared);
            stream.announce_by(Box::new(move |commits| {
                if let Some(log) = weak.upgrade() {
                    log.announce(commits);
                }
            }));
        }
        let threads = shared.stream.as_ref().and_then(|stream| Threads::start(stream, || node_of(&*shared.medium)));
        Log { shared, homes, choice, _threads: threads }
    }

    /// Begins a transaction of `session`. Its home lane is that of [`LaneChoice`].
    #[inline]
    pub fn begin(&self, session: u64) -> LogTxn {
        let mut watch = self.shared.stages.watch();
        let txid = take_txid(&self.shared);
        watch.end(LogStage::Id);
        let home = match self.choice {
            // One stream fills one lane after the other.
            _ if self.shared.stream.is_some() => &self.homes[0],
            LaneChoice::Session => self.home_of(session),
            LaneChoice::Transaction => self.home_of(txid),
            LaneChoice::Core => &self.homes[current_cpu() % self.homes.len()],
        };
        LogTxn::new(home.clone(), txid)
    }

    /// The home lane of a number.
    #[inline]
    fn home_of(&self, number: u64) -> &Arc<Home> {
        // Fibonacci hashing; the high half scaled to the count of lanes.
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.homes[((hash * self.homes.len() as u64) >> 32) as usize]
    }

    pub(crate) fn resurrect(&self, prepared: Arc<Prepared>) -> LogTxn {
        self.shared.prepared.add(prepared.clone());
        LogTxn::resurrected(self.home_of(prepared.txid).clone(), prepared)
    }

    /// The last CSN taken.
    pub fn last_csn(&self) -> Csn {
        self.shared.last_csn()
    }

    /// Every commit up to it is durable.
    #[inline]
    pub fn durable_csn(&self) -> Csn {
        self.shared.durable.load()
    }

    /// Every commit up to it is published.
    #[inline]
    pub fn visible_csn(&self) -> Csn {
        self.shared.visible.load()
    }

    /// Every commit up to it is published, and all its words are stored, though perhaps not
    /// durably.
    #[inline]
    pub fn stored_csn(&self) -> Csn {
        self.shared.stored.load()
    }

    /// Every commit up to it is stored durably, and the superblock says so.
    pub fn checkpoint_csn(&self) -> Csn {
        self.shared.checkpoint_csn.load(Acquire)
    }

    /// Lanes of a generation.
    pub fn lanes(&self) -> u32 {
        self.shared.lanes
    }

    /// Longest body a commit record can have, in bytes.
    pub fn body_bytes_max(&self) -> u64 {
        let buffer = self.shared.stream.as_ref().map_or(u64::MAX, |stream| stream.part_bytes_max());
        crate::config::body_bytes_max(self.shared.lane_room().min(buffer))
    }

    /// Waits until durable_csn is at `csn`. False if that will not happen because the pool failed
    /// stop: whether the commit is durable is then known only after the next recovery.
    #[inline]
    pub fn wait_durable(&self, csn: Csn) -> bool {
        let mut watch = self.shared.stages.watch();
        let is_there = self.shared.durable.wait(csn);
        watch.end(LogStage::DurableWait);
        is_there
    }

    /// Waits until visible_csn is at `csn`. False if that will not happen because the pool failed
    /// stop.
    #[inline]
    pub fn wait_visible(&self, csn: Csn) -> bool {
        let mut watch = self.shared.stages.watch();
        let is_there = self.shared.visible.wait(csn);
        watch.end(LogStage::VisibleWait);
        is_there
    }

    /// Reports that commit `csn` is visible to whoever looks; its words may not be stored yet.
    /// Called once for each CSN. A thread with several unpublished CSNs reports the lowest first,
    /// as this may wait while far more than 65,536 are outstanding.
    #[inline]
    pub fn publish(&self, csn: Csn) {
        let mut watch = self.shared.stages.watch();
        self.shared.visible.mark(csn);
        watch.end(LogStage::Visible);
    }

    /// Reports that all words of commit `csn` are stored: durably, or such that the hook of
    /// [`Log::set_flush_stored`] makes them durable. Called once for each CSN, after
    /// [`Log::publish`]; otherwise as there, with 262,144. Only then do checkpoint and reuse of the
    /// log go past it.
    #[inline]
    pub fn stored(&self, csn: Csn) {
        self.shared.mark_stored(csn);
    }

    /// Makes stored_csn the durable checkpoint and returns it. Generations that it covers can then
    /// be reused, and files of the log beyond its configured size are removed after a while. Writes
    /// nothing if the checkpoint is there already. A failed write stops the pool.
    ///
    /// # Errors
    /// Medium, FailStop.
    pub fn checkpoint(&self) -> Result<Csn> {
        // Planted: the superblock names the checkpoint before what it covers is settled.
        let is_late = perdura_pmem::planted(Mutant::SuperblockBeforeSettled);
        let settle = || if is_late { self.shared.stored.load() } else { self.shared.flush_stored() };
        // Planted: the checkpoint covers what was stored while the medium was settled, too.
        let is_beyond = perdura_pmem::planted(Mutant::CheckpointBeyondSettled);
        let newer = |csn| if is_beyond { self.shared.stored.load() } else { csn };
        let settled = self.shared.settles.then(|| newer(settle()));
        let mut control = Control::lock(&self.shared);
        let csn = control.checkpoint(settled)?;
        if is_late {
            let _ = self.shared.medium.settle();
        }
        shrink(&mut control, csn)?;
        Ok(csn)
    }

    /// Bytes of log that were used since the pool was created: the difference of two is what a
    /// redo that begins at the first has to read at the second.
    pub fn volume(&self) -> u64 {
        self.shared.volume()
    }

    /// Sets the hook that flushes and fences all words of commits that are reported as stored. The
    /// log calls it before a checkpoint goes past such commits, under its control lock unless the
    /// medium settles ([`perdura_pmem::Medium::settles`]): so the hook must not reserve, and must
    /// not wait for anybody who does.
    pub fn set_flush_stored(&self, flush: Box<dyn Fn() + Send + Sync>) {
        *self.shared.flush_stored.write() = Some(flush.into());
    }

    /// Sets the hook that faults lanes in: called with every lane now, and with each new one before
    /// its first use.
    pub fn set_prefault(&self, prefault: Box<dyn Fn(&Region) + Send + Sync>) {
        let prefault: Arc<crate::shared::PrefaultHook> = prefault.into();
        *self.shared.prefault.write() = Some(prefault.clone());
        let regions = Control::lock(&self.shared).regions();
        regions.iter().for_each(|region| prefault(region));
    }

    /// Times the stages of transactions from now on with `clock`; of several calls the first
    /// counts. For benchmarks: a transaction then reads the clock at each stage.
    pub fn time_stages(&self, clock: StageClock) {
        self.shared.stages.start(clock);
    }

    /// The time spent in each stage since [`Log::time_stages`]; of stages under way none.
    pub fn stage_times(&self) -> StageTimes {
        self.shared.stages.times()
    }

    /// The work of the path's threads, with [`crate::Turns::Caller`]: each to be run by a thread
    /// beside those that commit. It ends after [`Log::end_path`].
    pub fn path_bodies(&self) -> Vec<Box<dyn FnOnce() + Send>> {
        self.shared.stream.as_ref().map_or_else(Vec::new, bodies)
    }

    /// Has the path's threads end, of [`Log::path_bodies`], once nobody commits any more.
    pub fn end_path(&self) {
        self.shared.stream.iter().for_each(|stream| stream.end(NOTIFIERS_END));
    }

    /// The log's state, for monitoring.
    pub fn status(&self) -> LogStatus {
        LogStatus::of(&self.shared)
    }

    /// Makes the pool read-only; the first reason is kept. Transactions that have reserved their
    /// space still commit, and nothing new can be reserved.
    pub fn fail_stop(&self, reason: &str) {
        self.shared.fail_stop(reason);
    }

    /// Fails if the pool takes no more changes, with the reason.
    ///
    /// # Errors
    /// FailStop.
    #[inline]
    pub fn check_running(&self) -> Result<()> {
        self.shared.check_running()
    }

    /// Whether the pool takes no more changes.
    #[inline]
    pub fn is_failed(&self) -> bool {
        self.shared.is_failed()
    }
}

/// Node of the memory of the log. Memory of a file system in DRAM is where the thread was that
/// touched it first: that of the superblock stands for all.
fn node_of(medium: &dyn Medium) -> Option<u32> {
    let info = medium.info();
    let info = info.log.as_deref().unwrap_or(&info);
    if info.numa_node.is_some() || !info.mode.is_emulated() || info.directory.is_none() {
        return info.numa_node;
    }
    let region = medium.open(SUPERBLOCK_NAME).ok().filter(|region| !region.is_empty())?;
    // The page is mapped by reading it, which must not be left out though nobody wants the word.
    std::hint::black_box(region.load(0));
    Machine::real().node_of_page(region.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{LogPath, PathConfig, Turns, die_as_writer};
    use crate::{ErrorKind, LogConfig, Recovery, create};
    use perdura_pmem::SimMedium;

    /// Hazard: the writer's thread has died, and a commit waits for it for ever, is acknowledged,
    /// or others begin.
    #[test]
    fn a_log_whose_writer_dies_stops_for_good() {
        for (path, turns) in [(LogPath::Classic, Turns::Own), (LogPath::Nf, Turns::Own), (LogPath::Nf, Turns::Waiters)]
        {
            let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
            let path = PathConfig { path, turns, ..PathConfig::default() };
            let config = LogConfig { lanes: 1, lane_bytes: 64 << 10, path, ..LogConfig::default() };
            create(&medium, &config, [0; 8], &mut || 1).expect("there is room");
            medium.rename("super.new", SUPERBLOCK_NAME).expect("it was made");
            let known = &mut || 2;
            let (log, _) = Recovery::open(medium, &config).expect("it recovers").finish(known).expect("finished");
            let commit = |log: &Log| {
                let mut txn = log.begin(1);
                let reservation = txn.reserve(100)?;
                Ok::<_, crate::Error>(log.wait_durable(txn.commit(reservation, &[1; 100])))
            };
            assert!(commit(&log).expect("it runs"));
            let mut open = log.begin(2);
            let reserved = open.reserve(100).expect("it runs");
            let mut prepared = log.begin(3);
            die_as_writer(log.shared.stream.as_ref().expect("a staged path"));
            let csn = open.commit(reserved, &[2; 100]);
            assert!(!log.wait_durable(csn) && log.durable_csn() < csn, "{path:?}", path = config.path);
            let error = prepared.prepare(b"x", b"body").expect_err("stopped");
            assert_eq!(error.kind(), ErrorKind::FailStop);
            assert!(error.to_string().contains("perdura-log-wr of the log has panicked"), "{error}");
            assert!(commit(&log).is_err() && log.begin(4).append_chunk(b"later").is_err());
        }
    }
}
