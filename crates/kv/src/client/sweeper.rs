//! Sweeper: clears away keys that have ended, if this replica leads, and notes the time if no entry
//! has for long.

use super::statistics::Statistics;
use super::tickets::Stub;
use crate::machine::draft::Draft;
use crate::machine::sweep;
use crate::node::{JUMP_MS_MAX, Node, Role};
use crate::store::{self, ReadLevel, View};

/// Age of the newest entry after which the leader makes one that only carries the time, in
/// milliseconds. Half of what is corrected: so a replica that has the newest entry late, and is
/// elected, is not so far behind that it needs an operator.
const CLOCK_NOTE_MS: u64 = JUMP_MS_MAX / 2;

/// The sweeper.
#[derive(Debug, Default)]
pub(super) struct Sweeper {
    /// Whether an entry that clears away is under way.
    is_under_way: bool,
}

impl Sweeper {
    /// A tick has passed: begins an entry if one is due. Error: that of the store.
    pub(super) fn tick(&mut self, node: &mut Node, statistics: &mut Statistics) -> store::Result<()> {
        if self.is_under_way || node.status().role != Role::Leader {
            return Ok(());
        }
        let now_ms = node.now_ms();
        let view = View::new(node.store(), ReadLevel::Newest);
        let draft = Draft::new(&view, now_ms, 0);
        let is_due = |at: Option<u64>| at.is_some_and(|at| at <= now_ms);
        let is_old = node.store().clock_ms(ReadLevel::Newest) + CLOCK_NOTE_MS <= now_ms;
        let wants =
            is_old || sweep::first_deadline(&draft).is_ok_and(is_due) || sweep::has_old_generation(&draft) == Ok(true);
        if !wants {
            return Ok(());
        }
        let swept = node.evaluate(Stub::Upkeep.ticket(), |draft| {
            let swept = sweep::sweep(draft).map_err(|_| 0_u64)?;
            if is_old {
                draft.note_time();
            }
            Ok(swept)
        })?;
        if let Ok(count) = swept {
            self.is_under_way = true;
            statistics.expired += count;
        }
        Ok(())
    }

    /// The entry is done.
    pub(super) fn done(&mut self) {
        self.is_under_way = false;
    }
}
