//! Whether a map has room for an entry: an estimate that is rather too high. Room is kept for
//! deletions and for Raft's own entries above the map's own reserve, so that a full map can be
//! emptied, and a leader elected.

use perdura_map::{Kind, OrderedMap, Space};

use super::super::Share;
use super::super::error::Result;
use crate::entry::Change;

/// The share of the map that puts leave free, and its bounds in bytes.
const PART_KEPT: u64 = 64;
const KEPT_BYTES: (u64, u64) = (64 << 10, 64 << 20);
/// Bytes of a record besides key and value, and of the index nodes that a change makes anew in a
/// B+-tree, at most.
const RECORD_BYTES: u64 = 64;
const NODES_BYTES: u64 = 2048;

/// Finding of a round that could clear nothing away: the garbage that stays.
#[derive(Debug, Default)]
pub(super) struct Room {
    garbage_left: u64,
    /// Garbage that there was when the map was asked to collect, if nothing has had room since.
    asked_at: Option<u64>,
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

impl Room {
    pub(super) fn has(&mut self, map: &dyn OrderedMap, changes: &[Change], share: Share) -> Result<bool> {
        let record = |change: &Change| {
            RECORD_BYTES + (change.key.len() + change.value.as_ref().map_or(0, bytes::Bytes::len)) as u64
        };
        let nodes = if map.kind() == Kind::BTree { NODES_BYTES } else { 0 };
        let bytes = changes.iter().map(|change| record(change) + nodes).sum::<u64>();
        let longest = changes.iter().map(record).max().unwrap_or_default();
        let fits = || {
            let usage = map.usage();
            let kept = kept(usage.total);
            let kept = match share {
                Share::Usual => kept,
                Share::System => kept / 2,
                Share::Deletions => kept / 4,
            };
            let has_bytes = usage.free >= usage.reserved + kept + bytes;
            (has_bytes && map.has_run(longest), usage)
        };
        let (mut has_room, usage) = fits();
        self.waits = false;
        // Garbage that no collection could free does not start another.
        if !has_room && !usage.held && usage.garbage >= self.garbage_left + bytes {
            // A round takes long: nobody waits for it here.
            self.waits = map.is_asked();
            if self.waits {
                return Ok(false);
            }
            match self.asked_at.take() {
                // The round has ended, and what it has left stays.
                Some(garbage) if usage.garbage >= garbage => self.garbage_left = usage.garbage,
                _ if map.ask_collection() => {
                    (self.asked_at, self.waits) = (Some(usage.garbage), true);
                    return Ok(false);
                }
                _ => _ = map.collect()?,
            }
            let (has_room_now, usage) = fits();
            (has_room, self.garbage_left) = (has_room_now, usage.garbage);
        }
        if has_room {
            (self.garbage_left, self.asked_at) = (0, None);
        }
        let usage = map.usage();
        // That a large value has no room says little of others.
        if share == Share::Usual && (has_room || bytes <= usage.total / PART_KEPT) {
            self.refused_at = if has_room { None } else { Some(free(&usage)) };
        }
        Ok(has_room)
    }
}
