//! Reserving space for a group: all that can block or fail on the way to a commit happens here.
//!
//! The fast path pins a lane of the active generation, checks again that the generation is still
//! active, and moves the lane's tail. If the lane is full it tries the next; if all are full it
//! switches generations. Keeps (I5).

use crate::control::Control;
use crate::copy_forward::copy_oldest_forward;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{GRANULE_BYTES, HEADER_BYTES};
use crate::generation::{Active, Pin, Pins, Placed};
use crate::shared::{Shared, Waiting};
use crate::{Csn, TxnId};
use std::time::Duration;

/// Rounds without progress before a reservation gives up.
const ROUNDS_IDLE: u32 = 200;
/// The same, if a commit is being stored.
const ROUNDS_STORING: u32 = 5000;
/// The same, for the longest holder of a generation, which may make room for others.
const ROUNDS_PATIENT: u32 = 3;
/// Length of a round.
const ROUND: Duration = Duration::from_millis(1);

/// Outcome of an attempt to switch generations.
enum Switched {
    /// Space in the new generation.
    Here(Placed),
    /// Another thread has switched meanwhile.
    Elsewhere,
    /// No generation is free now.
    NoRoom,
}

/// A reservation that waits.
///
/// If no generation is free it waits in rounds of a millisecond, and goes on waiting for as long as
/// anybody makes progress: commits are stored, transactions end, the log switches. So a commit of
/// any size that is being stored costs the others time and no error. It gives up, with LogFull,
/// after so many rounds in which nothing of this happened:
///
/// - [`ROUNDS_STORING`] if a commit is on its way from its CSN to its last word, which cannot fail
///   and so will end (I5): a large one stores its words for long without a sign;
/// - otherwise [`ROUNDS_IDLE`], or for a transaction that holds a generation itself
///   [`ROUNDS_PATIENT`] and one for each holder before it: the longest holder first, which may make
///   room for the others.
///
/// That bounds the wait: nobody who waits has room, so only those can go on who had it before. What
/// is still free in the active generation, and then the commits in flight, come to an end. Whatever
/// they free, a switch gives to one of those that wait before it is open to all.
struct Wait<'a> {
    waiting: Waiting<'a>,
    /// The progress seen last.
    seen: (Csn, Active, u64),
    /// Rounds since then.
    idle: u32,
}

impl Wait<'_> {
    /// Waits one round. Error: LogFull when nobody has made progress for long enough.
    fn round(&mut self, log: &Shared, txid: TxnId) -> Result<()> {
        let seen = log.progress();
        // A checkpoint that is under way ends, with room or with the pool's failure.
        if seen != self.seen || log.is_settling() {
            (self.seen, self.idle) = (seen, 0);
        }
        if self.idle >= log.patience(txid) {
            return Err(log.held());
        }
        // A thread that wakes this one says with it that somebody gets on.
        self.idle += u32::from(!self.waiting.wait(ROUND));
        Ok(())
    }
}

impl Shared {
    /// Reserves `bytes` (whole granules) for transaction `txid`, preferably in lane `home`: in
    /// sectors that no other group has. What it pins is added to `pins`.
    ///
    /// # Errors
    /// TooLarge, LogFull, FailStop, Medium (of the growth).
    #[inline]
    pub(crate) fn reserve(&self, txid: TxnId, pins: &mut Pins, home: u32, bytes: u64) -> Result<Placed> {
        debug_assert!(bytes.is_multiple_of(GRANULE_BYTES));
        self.check_running()?;
        let (group, bytes) = (bytes, self.padded(bytes));
        if bytes > self.lane_room() {
            return Err(Error::too_large(bytes, self.lane_room() - HEADER_BYTES as u64));
        }
        self.check_buffer(group)?;
        match self.try_reserve(pins, home, bytes) {
            Ok(placed) => Ok(placed),
            Err(full) => self.reserve_slow(txid, pins, home, bytes, full),
        }
    }

    /// Refuses a group for which the log buffer has no room.
    #[inline]
    fn check_buffer(&self, bytes: u64) -> Result<()> {
        match &self.stream {
            Some(stream) if bytes > stream.part_bytes_max() => {
                let seen = format!(
                    "a log group of {bytes} bytes is longer than the log buffer of {}; enlarge the log buffer, or commit in \
                     smaller transactions",
                    stream.part_bytes_max()
                );
                Err(Error::new(ErrorKind::TooLarge, seen))
            }
            _ => Ok(()),
        }
    }

    /// Reserves whole sectors in the active generation, or tells which one has no room.
    #[inline]
    pub(crate) fn try_reserve(&self, pins: &mut Pins, home: u32, bytes: u64) -> std::result::Result<Placed, Active> {
        loop {
            let active = self.active();
            if active == Active::NONE {
                return Err(active);
            }
            match self.try_reserve_in(active, pins, home, bytes) {
                Some(placed) => return Ok(placed),
                None if self.active() == active => return Err(active),
                None => {}
            }
        }
    }

    #[inline]
    fn try_reserve_in(&self, active: Active, pins: &mut Pins, home: u32, bytes: u64) -> Option<Placed> {
        let generation = self.generations.get(active.number());
        let mut lane = home;
        for _ in 0..self.lanes {
            let file = &generation.lanes[lane as usize];
            if file.has_room(bytes) {
                let pin = Pin { generation: generation.number, lane };
                let pinned = pins.contains(&pin);
                if !pinned {
                    file.pins.pin();
                    // Until this check the generation may have been freed and re-armed, or be about
                    // to be.
                    if self.active() != active {
                        file.pins.unpin(0);
                        return None;
                    }
                }
                if let Some(offset) = file.take(bytes) {
                    if !pinned {
                        pins.push(pin);
                    }
                    return Some(Placed { generation: generation.number, lane, offset });
                }
                if !pinned {
                    file.pins.unpin(0);
                }
            }
            lane = if lane + 1 == self.lanes { 0 } else { lane + 1 };
        }
        None
    }

    #[cold]
    fn reserve_slow(&self, txid: TxnId, pins: &mut Pins, home: u32, bytes: u64, full: Active) -> Result<Placed> {
        let mut full = full;
        let mut wait = Wait { waiting: self.waiting(), seen: self.progress(), idle: 0 };
        loop {
            match self.switch_from(full, home, bytes)? {
                Switched::Here(placed) => {
                    pins.push(Pin { generation: placed.generation, lane: placed.lane });
                    return Ok(placed);
                }
                Switched::Elsewhere => {}
                Switched::NoRoom => wait.round(self, txid)?,
            }
            self.check_running()?;
            match self.try_reserve(pins, home, bytes) {
                Ok(placed) => return Ok(placed),
                Err(active) => full = active,
            }
        }
    }

    fn switch_from(&self, full: Active, home: u32, bytes: u64) -> Result<Switched> {
        let mut control = Control::lock(self);
        if self.active() != full {
            return Ok(Switched::Elsewhere);
        }
        let mut switched = control.switch(home, bytes, self.generations_max)?;
        if switched.is_none() && copy_oldest_forward(&mut control) {
            switched = control.switch(home, bytes, self.generations_max)?;
        }
        let Some(placed) = switched else { return Ok(Switched::NoRoom) };
        // Prepared transactions may hold the next generation indefinitely: copy them forward while
        // there is room.
        if !control.has_next() {
            copy_oldest_forward(&mut control);
        }
        Ok(Switched::Here(placed))
    }

    /// Rounds without progress that transaction `txid` waits for.
    fn patience(&self, txid: TxnId) -> u32 {
        if self.stored.load() < self.last_csn() {
            return ROUNDS_STORING;
        }
        let older = self.holders.lock().iter().position(|(_, holder)| *holder == txid);
        older.map_or(ROUNDS_IDLE, |older| ROUNDS_IDLE.min(ROUNDS_PATIENT + older as u32))
    }

    fn held(&self) -> Error {
        let holders = self.holders.lock();
        let seen = match holders.first() {
            Some((_, txid)) => format!("{} unfinished transactions hold them, the oldest is {txid}", holders.len()),
            None => "prepared transactions or commits that are not stored hold them".to_owned(),
        };
        self.full(seen)
    }

    /// The LogFull error: all generations are in use, for the reason `seen`.
    pub(crate) fn full(&self, seen: String) -> Error {
        let generations = self.generations.count() as u32;
        let bytes = u64::from(generations) * u64::from(self.lanes) * self.lane_bytes;
        let message = format!(
            "the log is full: {generations} generations of {bytes} bytes in all are in use ({seen}); end long transactions, \
             commit in smaller ones, or raise the limit of generations"
        );
        Error::new(ErrorKind::LogFull, message)
    }
}
