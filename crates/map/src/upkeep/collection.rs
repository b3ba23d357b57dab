//! A collection round from its beginning to its end: what has ended is freed, the sparsest pages
//! are emptied, what that leaves behind is persisted (I8), and where that is not the room that
//! requests have not found, the map is compacted.

use super::compaction;
use super::round::{Aim, Round, sweep};
use super::structure::Structure;
use crate::error::{ErrorKind, Result};

/// Runs the round. Returns the bytes freed by it and by what had ended before.
pub(crate) fn run<I: Structure>(mut round: Round<'_, I>, aim: Aim) -> Result<u64> {
    let Round { shared, state, collector, .. } = round;
    if collector.leaves_one_out() {
        return Ok(0);
    }
    while state.lock_behind().free_ended(shared) && !collector.leaves_rounds_out() {}
    sweep(shared, state, collector)?;
    if round.gives_way(&state.lock_behind()) {
        return Ok(0);
    }
    round.traverse()?;
    let before = state.lock_behind().pages.free_pages();
    let victims = round.choose(aim);
    let emptied = I::empty_pages(&mut round, &victims);
    state.lock_behind().persist(shared);
    while state.lock_behind().make_room(shared) {}
    let victims: Vec<usize> = victims.into_iter().collect();
    round.list_again(&victims);
    let frees_some = round.is_any_free(&victims);
    round.renew_spare();
    let emptied = match emptied {
        // Objects that found no room elsewhere stay where they are.
        Err(error) if error.kind() != ErrorKind::Full => Err(error),
        _ => compaction::run(&mut round),
    };
    let state = state.lock_behind();
    let freed = state.pages.free_pages().saturating_sub(before) as u64 * state.pages.geometry.page_bytes;
    // Garbage that a round has not come to does not count as garbage that cannot be freed, nor does
    // that of a round beside which writers have taken more pages than it has freed.
    let is_stuck = freed == 0 && !frees_some && !collector.leaves_rounds_out();
    collector.set_garbage_left(if is_stuck { state.space().garbage } else { 0 });
    emptied.map(|()| freed)
}
