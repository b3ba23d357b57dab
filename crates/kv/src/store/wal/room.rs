//! Whether files and DRAM have room for an entry. Room is kept for deletions, and for the state,
//! which is written out beside the old one before that goes: so a disk that is nearly full can be
//! emptied.

use super::super::error::{Error, Result};
use super::super::{Room, Share};
use super::WalStore;
use super::checkpoint::Checkpoint;
use super::disk::Disk;
use super::pairs::weight;
use crate::entry::KeyChange;

/// The share of the state in DRAM that puts leave free, and its bounds in bytes.
const PART_KEPT: u64 = 64;
const KEPT_BYTES: (u64, u64) = (4 << 10, 64 << 20);
/// Extents of the log that puts, and what the system writes, leave free beside the state.
const EXTENTS_KEPT: u64 = 4;
/// Bytes of a frame and its items beside keys and values.
const FRAME_BYTES: u64 = 256;
/// The least length of a log at which the state is written out because the disk is short.
const LOG_BYTES_LEAST: u64 = 16 << 10;

impl WalStore {
    /// Bytes that the disk has left.
    fn free_bytes(&mut self, is_urgent: bool) -> Result<u64> {
        let free = self.disk.free_bytes_left(is_urgent);
        free.map_err(|error| Error::io("the directory", "asking for its room", error))
    }

    /// Bytes that must be free for the state to be written out.
    fn state_needs(&self) -> u64 {
        let (applied, pending) = self.versions.bytes();
        let written = self.checkpoint.as_ref().map_or(0, Checkpoint::written);
        (applied + pending).saturating_sub(written) + self.config.extent_bytes
    }

    fn state_most(&self, share: Share) -> u64 {
        let most = self.config.state_bytes_max;
        let kept = (most / PART_KEPT).clamp(KEPT_BYTES.0, KEPT_BYTES.1).min(most / 8);
        match share {
            Share::Usual => most - kept,
            Share::System => most - kept / 2,
            Share::Deletions => u64::MAX,
        }
    }

    pub(super) fn has(&mut self, changes: &[KeyChange<'_>], share: Share) -> Result<bool> {
        if self.is_blocked {
            return Ok(false);
        }
        let put = |change: &KeyChange<'_>| weight(change.key, change.value.unwrap_or_default());
        let bytes = FRAME_BYTES + changes.iter().map(put).sum::<u64>();
        let (applied, pending) = self.versions.bytes();
        if applied + pending + bytes > self.state_most(share) {
            return Ok(false);
        }
        let unwritten = self.tail.unwritten_bytes() + pending;
        let kept = match share {
            // A value that is put is written to the log, and again with the state.
            Share::Usual => self.state_needs() + bytes + EXTENTS_KEPT * self.config.extent_bytes,
            Share::System => self.state_needs() + bytes + EXTENTS_KEPT / 2 * self.config.extent_bytes,
            Share::Deletions => 0,
        };
        // The log of a disk that others have filled takes deletions as long as it need not become
        // longer.
        let spare = if share == Share::Deletions { self.tail.spare_bytes() } else { 0 };
        let wanted = (unwritten + bytes + kept).saturating_sub(spare);
        Ok(self.free_bytes(false)? >= wanted || self.free_bytes(true)? >= wanted)
    }

    /// Whether the state can be written out.
    pub(super) fn has_room_for_state(&mut self) -> Result<bool> {
        Ok(self.free_bytes(true)? > self.state_needs())
    }

    /// Whether the disk is short, and the state should be written out though the log is not long.
    pub(super) fn wants_state(&mut self) -> Result<bool> {
        let (applied, _) = self.versions.bytes();
        if self.tail.at < LOG_BYTES_LEAST.min(self.config.log_bytes) || self.tail.at < applied / 8 {
            return Ok(false);
        }
        let (needs, free) = (self.state_needs(), self.free_bytes(false)?);
        let usual = needs + (EXTENTS_KEPT + 1) * self.config.extent_bytes;
        Ok(free < usual && free > needs + self.config.extent_bytes)
    }

    /// The room of the scarcer: of the disk, or of the state in DRAM.
    pub(super) fn room_left(&self) -> Room {
        let (applied, pending) = self.versions.bytes();
        let (state, most) = (applied + pending, self.config.state_bytes_max);
        let of_state = Room {
            total: most,
            free: most.saturating_sub(state),
            kept: most - self.state_most(Share::Usual),
            refuses: false,
        };
        let free = self.disk.free_bytes().unwrap_or_default();
        let kept = self.state_needs() + EXTENTS_KEPT * self.config.extent_bytes;
        let total = free.saturating_add(self.disk.used_bytes());
        let of_disk = Room { total, free: if self.is_blocked { 0 } else { free }, kept, refuses: false };
        if of_disk.free.saturating_sub(of_disk.kept) < of_state.free.saturating_sub(of_state.kept) {
            of_disk
        } else {
            of_state
        }
    }
}
