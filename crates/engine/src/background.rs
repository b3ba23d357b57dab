//! The background thread of a pool. It checkpoints and purges continuously, creates data files
//! ahead of need, retries file removals that failed, replaces a used spare file, sweeps what the
//! opening of a table left unswept, moves rows out of sparse segments, closes tables that nobody
//! uses, and lets threads go from a NUMA node that is full.

use crate::error::ErrorKind;
use crate::format::CATALOG_ID;
use crate::pool::Pool;
use crate::txn::compact;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest sleep between two rounds. A request for a data file ends the sleep early.
const PERIOD: Duration = Duration::from_millis(50);
/// Segments of each table swept in one round.
const SWEPT_AT_ONCE: usize = 256;
/// Row changes purged, after which the heap is trimmed: what the system gets back is worth the
/// time.
const PURGED_UNTIL_TRIM: usize = 100_000;
/// Directory pages of each table swept in one round.
const PAGES_SWEPT_AT_ONCE: usize = 16;

/// A running background thread.
pub(crate) struct Background {
    pool: Arc<Pool>,
    thread: JoinHandle<()>,
}

impl Background {
    /// Starts the thread, near the memory that it works on.
    pub(crate) fn start(pool: Arc<Pool>) -> Background {
        let worker = pool.clone();
        let thread = std::thread::Builder::new()
            .name("perdura-background".into())
            .spawn(move || {
                let _attachment = worker.services().locality().attach();
                run(&worker);
            })
            .expect("a thread can be started");
        Background { pool, thread }
    }

    /// Asks the thread to stop after the present round and joins it. If the thread panicked, the
    /// pool fails stop (I11).
    pub(crate) fn stop(self) {
        self.pool.services().stop();
        if self.thread.join().is_err() {
            self.pool.log.fail_stop("the background thread panicked");
        }
    }
}

fn run(pool: &Arc<Pool>) {
    let mut purged = 0;
    while let Some(asked) = pool.services().wait(PERIOD) {
        let woken = !asked.is_empty();
        purged += maintain(pool, asked);
        if purged >= PURGED_UNTIL_TRIM {
            perdura_pmem::heap::trim();
            purged = 0;
        }
        // Under load, files come first.
        if !woken {
            compact::round(pool, || pool.services().is_asked());
        }
        pool.tables.close_idle();
        pool.services().locality().balance();
    }
}

/// A round of all that stores nothing in the name of a transaction. `asked` are the tables that
/// need their next file. Returns the number of versions purged.
fn maintain(pool: &Pool, asked: Vec<u32>) -> usize {
    let _changing = pool.hold.change();
    grow_ahead(pool, asked);
    let mut purged = 0;
    if !pool.log.is_failed() && pool.checkpoint().is_ok() {
        purged = pool.purge();
    }
    pool.services().remove_leftovers(&*pool.context.medium);
    pool.context.remove_surplus();
    // The next statement that needs the medium reports the error.
    let _ = pool.context.spare.provide(&*pool.context.medium);
    for table in pool.open_tables() {
        let swept = table.space().sweep(SWEPT_AT_ONCE, PAGES_SWEPT_AT_ONCE);
        if let Err(error) = swept {
            pool.log.fail_stop(&error.to_string());
        }
    }
    purged
}

/// Creates the next data file of each table in `asked` whose free segments run low. Damage fails
/// the pool stop; every other error, a full device included, is left to the statement that needs
/// the room.
pub(crate) fn grow_ahead(pool: &Pool, asked: Vec<u32>) {
    for id in asked {
        // A table that was closed meanwhile asks again.
        let table = if id == CATALOG_ID { Some(pool.catalog.clone()) } else { pool.tables.open_by_id(id) };
        let Some(table) = table else { continue };
        let segments = table.space().segments();
        if segments.is_low()
            && let Err(error) = segments.grow_ahead()
            && error.kind() == ErrorKind::Damaged
        {
            pool.log.fail_stop(&error.to_string());
        }
    }
}
