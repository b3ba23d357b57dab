//! Whether a map has room for an entry: an estimate that is rather too high. Room is kept for
//! deletions and for Raft's own entries above the map's own reserve, so that a full map can be
//! emptied, and a leader elected.

use perdura_map::{Demand, Kind, OrderedMap, Space};

use super::super::Share;
use super::super::error::Result;
use crate::entry::KeyChange;

/// The share of the map that puts leave free, and its bounds in bytes.
const PART_KEPT: u64 = 64;
const KEPT_BYTES: (u64, u64) = (64 << 10, 64 << 20);
/// Bytes of a record besides key and value, a tag included, and of the index nodes that a change
/// makes anew in a B+-tree, at most.
const RECORD_BYTES: u64 = 72;
const NODES_BYTES: u64 = 2048;

/// Rounds that are asked for in vain before an entry is refused.
const ASKS_MAX: u32 = 8;

/// Bytes that no round could make room of.
#[derive(Debug, Default)]
struct Left {
    garbage: u64,
    /// Garbage, and free bytes that are too scattered.
    free: u64,
    /// Bytes in one piece that were asked for.
    run: u64,
}

/// Findings of earlier rounds and entries.
#[derive(Debug, Default)]
pub(super) struct Room {
    left: Left,
    /// Garbage that there was when the map was asked to collect, if nothing has had room since.
    asked_at: Option<u64>,
    /// Rounds asked for since as long a piece as the last one was for has been found, and that
    /// piece's bytes.
    asks: (u32, u64),
    /// Whether the last entry had no room because that has not ended.
    pub(super) waits: bool,
    /// Bytes that were free, with garbage, when keys were refused, if they were last.
    refused_at: Option<u64>,
}

/// Free bytes, garbage that can be cleared away included.
fn free(usage: &Space) -> u64 {
    let garbage = if usage.held { 0 } else { usage.garbage };
    (usage.free + garbage).saturating_sub(usage.reserved)
}

/// Bytes that puts leave free.
fn kept(total: u64) -> u64 {
    (total / PART_KEPT).clamp(KEPT_BYTES.0, KEPT_BYTES.1).min(total / 8)
}

/// How much room a map has.
pub(super) fn of(map: &dyn OrderedMap, known: &Room) -> super::super::Room {
    let usage = map.usage();
    let found = super::super::Room { total: usage.total, free: free(&usage), kept: kept(usage.total), refuses: false };
    let refuses = known.refused_at.is_some_and(|at| found.free <= at + found.little());
    super::super::Room { refuses, ..found }
}

/// Whether there are the bytes that are demanded, in one piece or not.
fn has_bytes(usage: &Space, demand: &Demand) -> bool {
    usage.free >= usage.reserved + demand.bytes
}

impl Room {
    pub(super) fn has(&mut self, map: &dyn OrderedMap, changes: &[KeyChange<'_>], share: Share) -> Result<bool> {
        let record =
            |change: &KeyChange<'_>| RECORD_BYTES + (change.key.len() + change.value.map_or(0, <[u8]>::len)) as u64;
        let nodes = if map.kind() == Kind::BTree { NODES_BYTES } else { 0 };
        let bytes = changes.iter().map(|change| record(change) + nodes).sum::<u64>();
        let longest = changes.iter().map(record).max().unwrap_or_default();
        let usage = map.usage();
        let kept = match share {
            Share::Usual => kept(usage.total),
            Share::System => kept(usage.total) / 2,
            Share::Deletions => kept(usage.total) / 4,
        };
        let demand = Demand { bytes: kept + bytes, run: longest };
        let fits = |usage: &Space| has_bytes(usage, &demand) && map.has_run(demand.run);
        let mut has_room = fits(&usage);
        self.waits = false;
        if usage.held {
            // A round that is cut short finds nothing.
            self.asked_at = None;
        }
        if !has_room && self.pays(&usage, &demand, bytes) {
            // A round takes long: nobody waits for it here.
            self.waits = map.is_asked();
            if self.waits {
                return Ok(false);
            }
            match self.asked_at.take() {
                // The round has ended, and what it has left stays.
                Some(garbage) if usage.garbage >= garbage => {}
                // Shorter entries of others go on taking what rounds free.
                _ if self.asks.0 >= ASKS_MAX => {}
                _ if map.ask_collection(demand) => {
                    (self.asked_at, self.waits) = (Some(usage.garbage), true);
                    self.asks = (self.asks.0 + 1, demand.run);
                    return Ok(false);
                }
                _ => _ = map.collect()?,
            }
            let usage = map.usage();
            has_room = fits(&usage);
            self.left = Left { garbage: usage.garbage, free: free(&usage), run: demand.run };
            self.asks = (0, 0);
        }
        if has_room {
            self.asked_at = None;
            // That there is room for less says nothing of what was asked for.
            if demand.run >= self.left.run {
                self.left = Left::default();
            }
            if demand.run >= self.asks.1 {
                self.asks = (0, 0);
            }
        }
        let usage = map.usage();
        // That a large value has no room says little of others.
        if share == Share::Usual && (has_room || bytes <= usage.total / PART_KEPT) {
            self.refused_at = if has_room { None } else { Some(free(&usage)) };
        }
        Ok(has_room)
    }

    /// Whether a round may make room for so many bytes: those that no round could make room of do
    /// not start another.
    fn pays(&self, usage: &Space, demand: &Demand, bytes: u64) -> bool {
        let (there, left) = match has_bytes(usage, demand) {
            true => (free(usage), self.left.free),
            false => (usage.garbage, self.left.garbage),
        };
        !usage.held && (demand.run < self.left.run || there >= left + bytes.max(1))
    }
}
