//! Logs of a store that is full, and of a medium that has no room for what is written.

use slog::{error, info};

use super::state::Server;

/// Milliseconds between two looks at how much room there is.
const LOOK_MS: u64 = 500;
/// Milliseconds between two lines about a medium without room.
const SHORTAGE_MS: u64 = 10_000;

impl Server {
    /// Logs when the store becomes full, when it is not any more, and what the medium had no room
    /// for.
    pub fn tell_room(&mut self, now_ms: u64) {
        if now_ms < self.room_log.looked_ms + LOOK_MS {
            return;
        }
        let room = self.room();
        let was_full = std::mem::replace(&mut self.room_log.is_full, room.is_full());
        self.room_log.looked_ms = now_ms;
        match (was_full, room.is_full()) {
            (false, true) => {
                error!(self.log, "the store is full: what puts keys is refused; delete keys"; "free" => room.free, "kept" => room.kept, "size" => room.total)
            }
            (true, false) => info!(self.log, "the store has room again"; "free" => room.free, "size" => room.total),
            _ => {}
        }
        let (shortages, told) = (self.node.store().shortages(), self.room_log);
        let is_first = told.shortages == 0;
        if shortages.count > told.shortages && (is_first || now_ms >= told.shortage_ms + SHORTAGE_MS) {
            error!(self.log, "the medium had no room: it is tried again"; "why" => &shortages.last, "times" => shortages.count - told.shortages);
            (self.room_log.shortages, self.room_log.shortage_ms) = (shortages.count, now_ms);
        }
    }
}
