//! Lines of the log about the replica: each is written when something has changed since the last.

use slog::{Logger, error, info, warn};

use super::runtime::Runtime;
use crate::client::Notice;
use crate::node::{ClockStatus, Node};
use crate::store::Error;

/// Milliseconds between two looks at how much room there is.
const LOOK_MS: u64 = 500;
/// Milliseconds between two lines about a medium without room.
const SHORTAGE_MS: u64 = 10_000;

/// State of the lines about room. Times are in milliseconds of the server's clock.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    is_full: bool,
    looked_ms: u64,
    /// Writes without room that were logged, and when.
    shortages: u64,
    shortage_ms: u64,
}

/// State that was logged last.
#[derive(Debug, Default)]
pub(super) struct LastLogged {
    /// Leader, term and role.
    role: (u64, u64, String),
    /// The index of the entry that made the members.
    members_at: u64,
    room: Room,
    clock: ClockStatus,
    /// Whether the leader's entries cannot be read.
    is_unread: bool,
    /// Whether entries are missing that the replica has acknowledged.
    has_lost: bool,
    /// Reason for which no snapshot is taken.
    snapshot_mismatch: String,
}

impl LastLogged {
    /// Logs what has changed.
    pub(super) fn tick(&mut self, node: &Node, runtime: &Runtime) {
        let log = runtime.log();
        self.log_members(node, log);
        self.log_role(node, log);
        self.log_clock(node, log);
        self.log_unread(node, log);
        self.log_lost(node, log);
        self.log_room(node, log, runtime.now_ms());
    }

    /// Logs that a snapshot cannot be taken: the replica votes and has what it has, but cannot
    /// catch up.
    pub(super) fn log_snapshot_mismatch(&mut self, error: &Error, log: &Logger) {
        let why = error.to_string();
        if why != self.snapshot_mismatch {
            error!(log, "a snapshot cannot be taken"; "why" => &why);
            self.snapshot_mismatch = why;
        }
    }

    fn log_members(&mut self, node: &Node, log: &Logger) {
        let (members, members_at) = (node.members(), node.store().persistent_state().members_at);
        if std::mem::replace(&mut self.members_at, members_at) != members_at {
            info!(log, "members"; "voters" => format!("{:?}", members.voters), "learners" => format!("{:?}", members.learners));
        }
    }

    fn log_role(&mut self, node: &Node, log: &Logger) {
        let status = node.status();
        let role = (status.leader, status.term, format!("{:?}", status.role).to_lowercase());
        if role != self.role {
            info!(log, "roles"; "role" => &role.2, "leader" => role.0, "term" => role.1);
            self.role = role;
        }
    }

    /// Logs when the time of day is not followed, when it is again, and when time went far forward
    /// at once.
    fn log_clock(&mut self, node: &Node, log: &Logger) {
        let clock = node.clock();
        let before = std::mem::replace(&mut self.clock, clock);
        let (skew_ms, calendar_ms) = (clock.skew_ms, clock.calendar_ms);
        if clock.is_refused && !before.is_refused {
            error!(log, "the time of day of this machine is not that of the log, and is not followed: keys end by steady time. \
                 Set this clock right, or the time of the log by PERDURA.CLOCK SET"; "ahead_ms" => skew_ms, "log_ms" => calendar_ms);
        } else if before.is_refused && !clock.is_refused {
            info!(log, "the time of day is followed again"; "ahead_ms" => skew_ms);
        }
        if clock.taken_ms != before.taken_ms {
            warn!(log, "the time of the log has gone forward to the time of day of this machine: it is not known how old the newest \
                 entry was. Keys whose time was over in between have ended"; "by_ms" => clock.taken_ms);
        }
    }

    /// Logs when the leader has entries that this program cannot read, and when it can again.
    fn log_unread(&mut self, node: &Node, log: &Logger) {
        let unread = node.unread();
        match (unread, std::mem::replace(&mut self.is_unread, unread.is_some())) {
            (Some(index), false) => {
                error!(log, "the leader's entries cannot be read: its perdura-kv is newer. This replica lags until its own is as new";
                    "index" => index, "version" => env!("CARGO_PKG_VERSION"));
            }
            (None, true) => info!(log, "the leader's entries can be read again"),
            _ => {}
        }
    }

    /// Logs that a leader knows more of this replica than it has.
    fn log_lost(&mut self, node: &Node, log: &Logger) {
        let lost = node.lost_up_to();
        if let (Some(index), false) = (lost, std::mem::replace(&mut self.has_lost, lost.is_some())) {
            error!(log, "entries are missing that this replica has acknowledged: its directory is an older copy, or was damaged. It takes \
                 nothing from its leader. Stop it, move the directory away, and join a new replica at its address";
                "acknowledged" => index, "last" => node.status().last);
        }
    }

    /// Logs when the store becomes full, when it is not any more, and what the medium had no room
    /// for.
    fn log_room(&mut self, node: &Node, log: &Logger, now_ms: u64) {
        if now_ms < self.room.looked_ms + LOOK_MS {
            return;
        }
        let room = node.room();
        let was_full = std::mem::replace(&mut self.room.is_full, room.is_full());
        self.room.looked_ms = now_ms;
        match (was_full, room.is_full()) {
            (false, true) => {
                error!(log, "the store is full: what puts keys is refused; delete keys"; "free" => room.free, "kept" => room.kept, "size" => room.total)
            }
            (true, false) => info!(log, "the store has room again"; "free" => room.free, "size" => room.total),
            _ => {}
        }
        let (shortages, last) = (node.store().shortages(), self.room);
        let is_first = last.shortages == 0;
        if shortages.count > last.shortages && (is_first || now_ms >= last.shortage_ms + SHORTAGE_MS) {
            error!(log, "the medium had no room: it is tried again"; "why" => &shortages.last, "times" => shortages.count - last.shortages);
            (self.room.shortages, self.room.shortage_ms) = (shortages.count, now_ms);
        }
    }
}

/// Logs a notice of the clients' room.
pub(super) fn log_notice(notice: Notice, log: &Logger) {
    match notice {
        Notice::Http { from } => {
            warn!(log, "a client was closed: it has sent a request of HTTP, as a foreign page may have a browser do";
                "from" => from);
        }
        Notice::Unprotected { from } => {
            warn!(log, "a client of another machine was refused: the user default has no password"; "from" => from);
        }
        Notice::UserDisabled { user, why } => {
            error!(log, "a user has no rights: what is stored of it cannot be read"; "user" => user, "why" => why);
        }
        Notice::UsersUnreadable { why } => {
            error!(log, "nobody is let in: the users cannot be read"; "why" => why);
        }
        Notice::Others(count) => warn!(log, "more of the same was not logged"; "count" => count),
    }
}
