//! Compaction: rows are moved out of sparse segments (`space/sparse.rs`), which so become free for
//! every use.
//!
//! A move is a transaction of its own, through the ordinary commit: logged, durable, its words
//! stored and flushed later, the old place freed by purge (I8). It writes a row only if nobody
//! holds it, and only if the row is still where it was found; it never waits for a row, and others
//! wait for it no longer than a small commit takes. Nobody finds a row changed by a move, and no
//! figure of the table but those of its space.
//!
//! A round is bounded by [`ROUND_BYTES`] over all tables, a transaction by [`ROWS_AT_ONCE`] and
//! [`BYTES_AT_ONCE`]. The background thread has a round after each of its own in which nobody has
//! woken it, and breaks off once somebody does. A log without room to spare ends the round; nobody
//! hears of it. A move takes no segment into use: a row for which no cell is free stays.

use super::isolation::Isolation;
use super::session::Session;
use crate::error::Result;
use crate::format::{Rid, Word};
use crate::pool::Pool;
use crate::table::Table;
use perdura_pmem::Mutant;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most bytes of cells looked at in a round; a cell counts for 512 bytes at least.
const ROUND_BYTES: u64 = 2 << 20;
/// Most rows moved by a transaction.
const ROWS_AT_ONCE: usize = 64;
/// Bytes of versions after which a transaction moves no more.
const BYTES_AT_ONCE: u64 = 256 << 10;

/// Moves rows out of sparse segments of the open tables, as many as fit in a round, and breaks off
/// between two transactions when `yields`. Returns their number.
pub(crate) fn round(pool: &Arc<Pool>, yields: impl Fn() -> bool) -> usize {
    let _one = pool.moving.lock();
    let (mut moved, mut left, mut session) = (0, ROUND_BYTES, None);
    if pool.log.is_failed() {
        return moved;
    }
    for table in pool.open_tables() {
        // Half of what is left, so that one table does not hold up the others.
        let rows = table.space().rows_to_move(&mut left, pool.snapshots.purged());
        if rows.is_empty() {
            continue;
        }
        let _span = perdura_pmem::trace::span("move");
        let session = session.get_or_insert_with(|| Session::new(pool.clone(), Isolation::ReadCommitted));
        let mut rows = rows.into_iter();
        // A move must not wait for the log with rows locked.
        while rows.len() > 0 && !table.is_dropped() && !yields() && pool.log.status().can_switch() {
            match move_some(pool, session, &table, &mut rows) {
                Ok(count) => moved += count,
                // The rows stay where they are.
                Err(_) => return moved,
            }
        }
    }
    moved
}

/// Moves as many of `rows` as one transaction may, and commits. Returns their number.
fn move_some(
    pool: &Pool,
    session: &mut Session,
    table: &Arc<Table>,
    rows: &mut impl Iterator<Item = (Rid, Word)>,
) -> Result<usize> {
    session.begin_moving()?;
    let (mut left, mut bytes) = (Vec::new(), 0);
    while left.len() < ROWS_AT_ONCE
        && bytes < BYTES_AT_ONCE
        && let Some((rid, from)) = rows.next()
    {
        if let Some(moved) = session.move_row(table, rid, from) {
            left.push(from);
            bytes += moved;
        }
    }
    let csn = session.commit()?;
    if !left.is_empty() {
        table.space().note_moved(csn);
        pool.counters.moved_rows.fetch_add(left.len() as u64, Ordering::Relaxed);
    }
    // Planted: the place that a row has left is free at once.
    if perdura_pmem::planted(Mutant::MovedRowPlaceFreedAtOnce) {
        table.space().free_all(left.iter().copied());
    }
    Ok(left.len())
}
