//! The stream of records through the log buffer: what sessions do with it, and the turns of the log
//! writer and the log flusher.

use super::ahead::Ahead;
use super::config::{PathConfig, Turns, block_bytes};
use super::counts::{Counts, PathStatus};
use super::events::{Event, Progress};
use super::flusher::Unsynced;
use super::link::LinkBuffer;
use super::lsn::Lsn;
use super::order::{Order, Place, Target};
use super::ring::Ring;
use super::seat::Seat;
use super::unannounced::{Announce, Unannounced};
use super::writer::Writer;
use crate::publication::Commit;
use perdura_pmem::sync::{Mutex, yield_now};
use perdura_pmem::{Health, Mutant, Result};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

/// Steps of a shutdown: those who have come to it end when they have nothing to do.
pub(super) const WRITER_ENDS: u32 = 1;
pub(super) const FLUSHER_ENDS: u32 = 2;
pub(crate) const NOTIFIERS_END: u32 = 3;

/// The log buffer and its users.
///
/// A session joins with the blocks that it has reserved, which gives its record an LSN and a place;
/// and fills that part of the buffer. Of a commit it is told by durable_csn; for other records it
/// waits here. The log writer writes what is filled without a gap, in the order of LSNs, whole
/// blocks, each once. Where it writes through the file system the log flusher syncs, in another
/// turn.
///
/// Between joining and filling a session neither blocks nor fails (I5): it has waited for its room
/// in the buffer before it joined. So all that was placed will be filled, and the log writer waits
/// for nobody who waits for it.
///
/// `written` follows what the log writer has written, `flushed` what is durable. Both move in the
/// order of LSNs, so a record that is durable has all before it, a transaction's chunks among them,
/// whoever stored those (I3).
///
/// Locks: the log writer's state or the log flusher's, then the order's or that of what is not
/// synced. None is held while a session waits.
pub(crate) struct Stream {
    config: PathConfig,
    ring: Ring,
    link: LinkBuffer,
    order: Mutex<Order>,
    writer: Mutex<Writer>,
    unsynced: Mutex<Unsynced>,
    unannounced: Unannounced,
    flushing: Mutex<()>,
    pub(super) written: Progress,
    pub(super) flushed: Progress,
    pub(super) writer_event: Event,
    pub(super) write_notifier_event: Event,
    pub(super) flusher_event: Event,
    pub(super) flush_notifier_event: Event,
    ending: AtomicU32,
    /// Reason for which nothing is written any more.
    failure: OnceLock<String>,
    health: Health,
    counts: Counts,
    node: OnceLock<u32>,
}

impl Stream {
    /// An empty stream to a medium that tears `sector` bytes; `None` if the path has none.
    pub(crate) fn new(config: &PathConfig, sector: u64, health: Health) -> Option<Stream> {
        if !config.path.is_staged() {
            return None;
        }
        let ahead = Ahead::new(config, block_bytes(config, sector));
        Some(Stream {
            ring: Ring::new(config.buffer_bytes),
            link: LinkBuffer::new(config.buffer_bytes),
            order: Mutex::default(),
            writer: Mutex::new(Writer::new(ahead, config.path.persists())),
            unsynced: Mutex::default(),
            unannounced: Unannounced::default(),
            flushing: Mutex::default(),
            written: Progress::new(),
            flushed: Progress::new(),
            writer_event: Event::default(),
            write_notifier_event: Event::default(),
            flusher_event: Event::default(),
            flush_notifier_event: Event::default(),
            ending: AtomicU32::new(0),
            failure: OnceLock::new(),
            health,
            counts: Counts::default(),
            node: OnceLock::new(),
            config: config.clone(),
        })
    }

    /// Longest part of the stream: a group that is longer has no place in the log buffer.
    pub(crate) fn part_bytes_max(&self) -> u64 {
        self.ring.len()
    }

    pub(super) fn config(&self) -> &PathConfig {
        &self.config
    }

    /// Places a part of `bytes`, for which the whole blocks `own` of a lane are reserved, once the
    /// log buffer has room. `None` if the stream has failed.
    pub(crate) fn join(&self, target: Target<'_>, own: Range<u64>, bytes: u64) -> Option<Seat<'_>> {
        assert!(bytes <= self.ring.len(), "a reservation is no longer than the log buffer");
        loop {
            let mut order = self.order.lock();
            if self.failure().is_some() {
                return None;
            }
            let needed = (order.tail() + bytes).saturating_sub(self.ring.len());
            if self.written.load() >= needed {
                let Place { begin, offset, is_in_own } = order.place(target, own, bytes);
                drop(order);
                // Planted: the writer takes what has a place for what is there.
                if perdura_pmem::planted(Mutant::WriterLeapsOverGap) {
                    self.link.mark(begin, begin + bytes);
                    yield_now();
                }
                let (ring, link, writer) = (&self.ring, &self.link, &self.writer_event);
                let end = begin + bytes;
                return Some(Seat { ring, link, writer, begin, end, offset, is_in_own, is_filled: false });
            }
            drop(order);
            Counts::add(&self.counts.waits_for_room, 1);
            self.wait(&self.written, needed);
        }
    }

    /// Has commits announced by `announce`.
    pub(crate) fn announce_by(&self, announce: Announce) {
        self.unannounced.set(announce);
    }

    /// Hands a record over to the log writer, and waits until it is durable or the stream has
    /// failed; a commit is announced instead, whoever does it.
    pub(crate) fn end_record(&self, seat: Seat<'_>, commit: Option<Commit>) {
        let is_commit = commit.is_some();
        commit.into_iter().for_each(|commit| self.unannounced.add(seat.end(), commit));
        let end = seat.fill();
        if self.config.turns == Turns::Waiters || !is_commit {
            self.wait_durable(end);
        }
        // The failure may have been announced before the commit came in.
        if is_commit && self.failure().is_some() {
            self.unannounced.announce(Lsn::MAX);
        }
    }

    /// Waits until all up to `lsn` is durable. False if the stream has failed.
    pub(crate) fn wait_durable(&self, lsn: Lsn) -> bool {
        let is_durable = self.wait(self.durable(), lsn);
        if self.config.turns == Turns::Waiters {
            self.unannounced.announce(self.durable().load());
        }
        is_durable
    }

    pub(super) fn durable(&self) -> &Progress {
        if self.config.path.persists() { &self.written } else { &self.flushed }
    }

    fn wait(&self, progress: &Progress, lsn: Lsn) -> bool {
        if self.config.turns == Turns::Waiters { self.drive(progress, lsn) } else { progress.wait(lsn) }
    }

    /// Takes turns until `lsn` is reached.
    fn drive(&self, progress: &Progress, lsn: Lsn) -> bool {
        loop {
            if progress.load() >= lsn {
                return true;
            }
            if self.failure().is_some() {
                return false;
            }
            match self.take_turns() {
                Ok(true) => {}
                Ok(false) => yield_now(),
                Err(error) => self.fail(&error.to_string()),
            }
        }
    }

    fn take_turns(&self) -> Result<bool> {
        let wrote = self.write_turn()?;
        Ok(!self.config.path.persists() && self.flush_turn()? || wrote)
    }

    /// The log writer's turn: writes what is filled without a gap. False if that is nothing.
    pub(super) fn write_turn(&self) -> Result<bool> {
        let mut writer = self.writer.lock();
        let filled = self.link.advance();
        writer.batch.clear();
        self.order.lock().take(filled, &mut writer.batch);
        let Some(last) = writer.batch.last() else { return Ok(false) };
        let (upto, region) = (last.end(), last.region.clone());
        let mut unsynced = self.unsynced.lock();
        writer.write(&self.ring, &self.counts, |region, range| {
            if !self.config.path.persists() {
                unsynced.add(region, range);
            }
        })?;
        unsynced.upto = upto;
        drop(unsynced);
        if self.config.path.persists() {
            region.fence();
            self.health.check()?;
            Counts::add(&self.counts.syncs, 1);
        }
        self.move_on(&self.written, upto, &self.write_notifier_event);
        drop(writer);
        if !self.config.path.persists() {
            self.flusher_event.wake();
        }
        Ok(true)
    }

    /// The log flusher's turn: syncs what was written. False if that is nothing.
    pub(super) fn flush_turn(&self) -> Result<bool> {
        let _turn = self.flushing.lock();
        let unsynced = self.unsynced.lock().take();
        let mut upto = unsynced.upto;
        if upto == self.flushed.load() {
            return Ok(false);
        }
        Counts::add(&self.counts.syncs, unsynced.sync_files()?);
        self.health.check()?;
        // Planted: the flusher counts what was written during its sync.
        if perdura_pmem::planted(Mutant::FlusherCountsLaterWrites) {
            upto = self.written.load();
        }
        self.move_on(&self.flushed, upto, &self.flush_notifier_event);
        Ok(true)
    }

    /// Moves to `to`, and has those told who wait for that: by this thread if they are at one slot,
    /// or else by the notifier.
    fn move_on(&self, progress: &Progress, to: Lsn, notifier: &Event) {
        let from = progress.load();
        progress.advance(to);
        if self.config.turns == Turns::Waiters {
            return;
        }
        if Progress::is_one_slot(from, to) {
            self.tell(progress, from, to);
        } else if self.is_durable(progress) || progress.is_awaited() {
            notifier.wake();
        }
    }

    fn is_durable(&self, progress: &Progress) -> bool {
        std::ptr::eq(self.durable(), progress)
    }

    /// Announces the commits that have become durable by the move, and wakes who waits for it.
    pub(super) fn tell(&self, progress: &Progress, from: Lsn, to: Lsn) {
        if self.is_durable(progress) {
            self.unannounced.announce(to);
        }
        progress.wake(from, to);
    }

    /// Whether the log writer may have something to do: a part beyond those it knows of is filled.
    pub(super) fn is_filled_further(&self, known: Lsn) -> bool {
        self.link.is_filled(known)
    }

    /// Up to where the log writer knows the buffer to be filled.
    pub(super) fn filled(&self) -> Lsn {
        self.link.advance()
    }

    /// Keeps the writing ahead off what others write to a lane, up to `end`: from now on.
    pub(crate) fn keep_off(&self, target: Target<'_>, end: u64) {
        self.writer.lock().keep_off(target.key(), end);
    }

    /// Begins a step of the shutdown.
    pub(crate) fn end(&self, step: u32) {
        self.ending.store(step, SeqCst);
        let events = [&self.writer_event, &self.write_notifier_event, &self.flusher_event, &self.flush_notifier_event];
        events.iter().for_each(|event| event.wake());
    }

    /// Whether the shutdown has come to `step`, or the stream has failed.
    pub(super) fn is_ending(&self, step: u32) -> bool {
        self.ending.load(SeqCst) >= step || self.failure().is_some()
    }

    /// Reason for which nothing is written any more, if there is one.
    #[inline]
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Ends the stream for good: what is not durable by now never will be, and all waits end.
    #[cold]
    pub(super) fn fail(&self, reason: &str) {
        let _ = self.failure.set(reason.to_owned());
        self.written.stop();
        self.flushed.stop();
        self.end(NOTIFIERS_END);
        self.unannounced.announce(Lsn::MAX);
    }

    pub(super) fn note_node(&self, node: u32) {
        let _ = self.node.set(node);
    }

    pub(crate) fn status(&self) -> PathStatus {
        self.counts.status(&self.config, self.node.get().copied())
    }
}
