//! The life of generations: the switch to the next one, re-arming, growth, removal, and the
//! checkpoint that frees them. Transaction ids are set aside here too, as that is a superblock
//! write.

use crate::error::{Error, Result};
use crate::format::{TXID_MAX, lane_name};
use crate::generation::{Active, Generation, Placed, create_lanes};
use crate::ledger::{ENDS_NONE, Ledger};
use crate::shared::Shared;
use crate::superblock::{GenerationEntry, Superblock, TXID_BLOCK};
use crate::{Csn, TxnId};
use perdura_pmem::sync::MutexGuard;
use perdura_pmem::trace::span;
use perdura_pmem::{Mutant, Region};
use smallvec::SmallVec;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Numbers of generations.
type Numbers = SmallVec<[u32; 8]>;

/// The control lock, held.
///
/// [`Control`] is the control lock, held: whoever writes the superblock of a running log, or arms a
/// generation, has one.
///
/// A generation is *reusable* iff it is inactive, nothing pins it, the CSNs of all its records are
/// stored, and no generation armed earlier holds a PREPARE record whose ending lies in this one:
/// without its ending that transaction would come back to life. When a transaction releases its
/// pins does not matter: until stored_csn covers it, the CSN that it left there keeps the
/// generation.
///
/// Re-arming is one superblock write. It gives the generation a new activation and a new salt, so
/// that no older record in it is ever valid again, and makes the checkpoint durable that covers
/// those records (I9). It is fenced before the first reservation. The same write voids the records
/// of every other reusable generation, so that one which is not armed again for long keeps nothing
/// else from being reused. Of several the one with the lowest number is armed, and those of high
/// numbers come to be unneeded (`need.rs`).
pub(crate) struct Control<'a> {
    pub(crate) log: &'a Shared,
    pub(crate) ledger: MutexGuard<'a, Ledger>,
}

impl<'a> Control<'a> {
    /// Waits for the lock.
    pub(crate) fn lock(log: &'a Shared) -> Control<'a> {
        Control { log, ledger: log.ledger.lock() }
    }

    /// Applies `change` to the superblock and makes it durable, setting more transaction ids aside
    /// if few are left. A failure stops the pool.
    pub(crate) fn write(&mut self, change: impl FnOnce(&mut Superblock)) -> Result<()> {
        let log = self.log;
        // The medium too: what was fenced before may be what this write says is durable.
        log.check_running()?;
        let mut next = self.ledger.superblock().clone();
        change(&mut next);
        while next.txid_limit < log.txid_next.load(Relaxed) + TXID_BLOCK / 2 {
            next.txid_limit += TXID_BLOCK;
        }
        let written = if next.txid_limit > TXID_MAX {
            Err(Error::too_large(next.txid_limit, TXID_MAX))
        } else {
            self.ledger.superfile.write(next)
        };
        if let Err(error) = written {
            // Planted: goes on after a failed persist.
            if perdura_pmem::planted(Mutant::LogGoesOnAfterFailedSuperblock) {
                return Err(error);
            }
            log.fail_stop(&format!("the superblock could not be written: {error}"));
            return Err(error);
        }
        log.txid_limit.store(self.ledger.superblock().txid_limit, Release);
        log.checkpoint_csn.store(self.ledger.superblock().checkpoint_csn, Release);
        Ok(())
    }

    /// A CSN up to which all words are durable: stored_csn, or where it takes long to make it so
    /// the last checkpoint.
    fn covered(&self) -> Csn {
        if self.log.settles { self.log.checkpoint_csn.load(Acquire) } else { self.log.flush_stored() }
    }

    /// Makes stored_csn the durable checkpoint, unless it already is, or `settled` if that was made
    /// durable before the lock was taken.
    pub(crate) fn checkpoint(&mut self, settled: Option<Csn>) -> Result<Csn> {
        let log = self.log;
        log.check_running()?;
        let csn = match settled {
            // Another checkpoint may have been faster.
            Some(csn) => csn.max(self.ledger.superblock().checkpoint_csn),
            // Planted: what is durable is said to be stored.
            None if perdura_pmem::planted(Mutant::CheckpointAtDurable) => log.visible.load(),
            None => log.flush_stored(),
        };
        if csn != self.ledger.superblock().checkpoint_csn {
            let _span = span("checkpoint");
            self.write(|superblock| superblock.checkpoint_csn = csn)?;
        }
        Ok(csn)
    }

    /// Whether the generation can be armed by a superblock write that makes `csn` the checkpoint.
    pub(crate) fn is_reusable(&self, generation: &Generation, csn: Csn) -> bool {
        let log = self.log;
        let active = log.active();
        if active != Active::NONE && generation.number == active.number() {
            return false;
        }
        let since = self.ledger.ends_since[generation.number as usize];
        let own = generation.activation();
        let holds_endings = || log.generations.iter().any(|other| (since..own).contains(&other.activation()));
        // Planted: records above the checkpoint go; an ending goes before its PREPARE record.
        let is_stored = |csn_max| csn_max <= csn || perdura_pmem::planted(Mutant::ArmBeforeStored);
        generation.csn_max_if_unpinned().is_some_and(is_stored)
            && (!holds_endings() || perdura_pmem::planted(Mutant::ArmOverPreparedEnding))
    }

    /// The reusable generation with the lowest number.
    fn reusable(&self, csn: Csn) -> Option<&'a Generation> {
        let log = self.log;
        log.generations.iter().find(|generation| self.is_reusable(generation, csn))
    }

    /// The reusable generations that still hold valid records.
    fn spent(&self, csn: Csn) -> Numbers {
        let armed = self.log.generations.iter().filter(|generation| generation.activation() != 0);
        armed.filter(|generation| self.is_reusable(generation, csn)).map(|generation| generation.number).collect()
    }

    /// Begins no activation in `spent`, whose records the superblock has just voided.
    fn forget(&mut self, spent: &Numbers) {
        for number in spent {
            self.ledger.ends_since[*number as usize] = ENDS_NONE;
            self.log.generations.get(*number).reset(GenerationEntry::FREE);
        }
    }

    /// Voids the records of all reusable generations, with `csn` as the durable checkpoint, if
    /// there are any.
    pub(crate) fn void_spent(&mut self, csn: Csn) -> Result<()> {
        let spent = self.spent(csn);
        if !spent.is_empty() {
            self.write(|superblock| superblock.void(&spent))?;
            self.forget(&spent);
        }
        Ok(())
    }

    /// Arms another generation, reserves and pins `bytes` in its lane `lane` for the caller, so
    /// that nobody else can fill the lane first, and makes it active. `None` if all generations are
    /// in use and no more can be added.
    pub(crate) fn switch(&mut self, lane: u32, bytes: u64, most: u32) -> Result<Option<Placed>> {
        let _span = span("generation_switch");
        let csn = self.covered();
        let target = match self.reusable(csn) {
            Some(target) => target,
            None => match self.grow(most)? {
                Some(target) => target,
                None => return Ok(None),
            },
        };
        self.arm(target, csn)?;
        // Before it is active, so that nobody takes the caller's room.
        let home = &target.lanes[lane as usize];
        home.pins.pin();
        let offset = home.take(bytes).expect("an empty lane has room for any group");
        self.activate(target);
        Ok(Some(Placed { generation: target.number, lane, offset }))
    }

    fn activate(&mut self, target: &Generation) {
        self.log.set_active(Active::new(target.activation(), target.number));
        self.ledger.switches += 1;
    }

    /// Makes the lowest reusable generation the active one, if there is any. `csn` is the durable
    /// checkpoint.
    pub(crate) fn move_down(&mut self, csn: Csn) -> Result<()> {
        let _span = span("generation_switch");
        if let Some(target) = self.reusable(csn) {
            self.arm(target, csn)?;
            self.activate(target);
        }
        Ok(())
    }

    /// Removes the last generation from the superblock and from the log; its files remain. The
    /// caller has found it reusable under the durable checkpoint `csn`. Returns its mappings.
    pub(crate) fn drop_last(&mut self, csn: Csn) -> Result<Vec<Region>> {
        let log = self.log;
        let last = log.generations.count() - 1;
        let spent = self.spent(csn);
        self.write(|superblock| {
            superblock.void(&spent);
            superblock.generations.truncate(last);
        })?;
        self.forget(&spent);
        self.ledger.need.note_shrunk();
        // SAFETY: this is the control lock, and a reusable generation is inactive and unpinned.
        Ok(unsafe { log.generations.pop() })
    }

    /// Removes the files of a generation that no superblock names.
    pub(crate) fn remove_files(&self, number: u32) {
        for lane in 0..self.log.lanes {
            // A file that cannot be removed is left to the growth that needs the name, or to the
            // next recovery.
            let _ = self.log.medium.remove(&lane_name(number, lane));
        }
    }

    /// All lanes' files.
    pub(crate) fn regions(&self) -> Vec<Region> {
        let lanes = self.log.generations.iter().flat_map(|generation| generation.lanes.iter());
        // SAFETY: this is the control lock.
        lanes.map(|lane| unsafe { lane.region() }.clone()).collect()
    }

    /// Voids all records of a reusable generation and gives it a new activation, with `csn` as the
    /// checkpoint. Voids the records of all others that are reusable.
    fn arm(&mut self, target: &Generation, csn: Csn) -> Result<()> {
        let log = self.log;
        let _span = (target.activation() != 0).then(|| span("wrap_around"));
        let number = target.number as usize;
        let entry = self.ledger.next_entry();
        let spent = self.spent(csn);
        self.write(|superblock| {
            // Planted: records go that no checkpoint covers.
            if !perdura_pmem::planted(Mutant::ArmWithoutCheckpoint) {
                superblock.checkpoint_csn = csn;
            }
            superblock.void(&spent);
            superblock.activation_next = entry.activation + 1;
            superblock.generations.resize(log.generations.count(), GenerationEntry::FREE);
            superblock.generations[number] = entry;
        })?;
        self.forget(&spent);
        self.ledger.ends_since[number] = ENDS_NONE;
        self.ledger.need.note_armed(target.number);
        target.reset(entry);
        Ok(())
    }

    /// Adds a generation unless there are `most` already. `None` at the limit, or when the device
    /// has no room.
    fn grow(&mut self, most: u32) -> Result<Option<&'a Generation>> {
        let log = self.log;
        let number = log.generations.count() as u32;
        if number >= most {
            return Ok(None);
        }
        let _span = span("log_growth");
        let create = || create_lanes(&*log.medium, number, log.lanes, log.lane_bytes);
        let created = match create() {
            // Files that could not be removed when the log shrank.
            Err(error) if error.kind() == perdura_pmem::ErrorKind::Exists => {
                self.remove_files(number);
                create()
            }
            created => created,
        };
        let regions = match created {
            Ok(regions) => regions,
            Err(error) if error.kind() == perdura_pmem::ErrorKind::Full => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if let Err(error) = log.medium.sync_dir() {
            log.fail_stop(&format!("new log files could not be made durable: {error}"));
            return Err(error.into());
        }
        if let Some(prefault) = &*log.prefault.read() {
            regions.iter().for_each(|region| prefault(region));
        }
        log.generations.push(regions);
        self.ledger.need.note_grown(number + 1);
        Ok(Some(log.generations.get(number)))
    }

    /// Whether a switch now would find a reusable generation or could add one.
    pub(crate) fn has_next(&self) -> bool {
        let log = self.log;
        let csn = if log.settles { log.checkpoint_csn.load(Acquire) } else { log.stored.load() };
        log.generations.count() < log.generations_max as usize || self.reusable(csn).is_some()
    }

    /// Ends a recovery: one superblock write that makes `horizon` final, leaves only the records of
    /// generations in `keep` valid, and arms one if there are none.
    pub(crate) fn finish(&mut self, horizon: Csn, keep: &[u32]) -> Result<()> {
        let log = self.log;
        // Planted: prepared transactions are voided with the rest.
        let kept = |number: u32| keep.contains(&number) && !perdura_pmem::planted(Mutant::RecoveryVoidsPreparedCopies);
        let fresh = self.ledger.next_entry();
        self.write(|superblock| {
            // Planted: the next redo begins where this one did.
            if !perdura_pmem::planted(Mutant::RecoveryKeepsCheckpoint) {
                superblock.checkpoint_csn = horizon;
            }
            superblock.horizon = horizon;
            superblock.epoch += 1;
            for (number, entry) in superblock.generations.iter_mut().enumerate() {
                // Planted: what is above the horizon stays valid.
                if !kept(number as u32) && !perdura_pmem::planted(Mutant::RecoveryKeepsRecordsAboveHorizon) {
                    *entry = GenerationEntry::FREE;
                }
            }
            if keep.is_empty() {
                superblock.activation_next += 1;
                superblock.generations[0] = fresh;
            }
        })?;
        self.ledger.ends_since.fill(ENDS_NONE);
        for generation in log.generations.iter().filter(|generation| !kept(generation.number)) {
            generation.reset(self.ledger.superblock().generations[generation.number as usize]);
        }
        if keep.is_empty() {
            log.set_active(Active::new(fresh.activation, 0));
        }
        Ok(())
    }
}

/// The next transaction id, persisted ahead in blocks so that none is ever given twice (I7).
#[inline]
pub(crate) fn take_txid(log: &Shared) -> TxnId {
    let txid = log.txid_next.fetch_add(1, Relaxed);
    if txid >= log.txid_limit.load(Acquire) {
        extend_txids(log, txid);
    }
    txid
}

#[cold]
fn extend_txids(log: &Shared, txid: TxnId) {
    let mut control = Control::lock(log);
    while txid >= log.txid_limit.load(Acquire) {
        // A failure has stopped the pool: the transaction cannot reserve anything.
        if control.write(|_| ()).is_err() {
            return;
        }
    }
}
