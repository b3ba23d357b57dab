//! The background thread of a pool. It checkpoints and purges continuously, creates data files
//! ahead of need, retries file removals that failed, replaces a used spare file, sweeps what the
//! opening of a table left unswept, moves rows out of sparse segments, closes tables that nobody
//! uses, lets threads go from a NUMA node that is full, and stops the pool once its medium has
//! failed. Where checkpoints take long, a second thread makes them.

use crate::error::ErrorKind;
use crate::format::CATALOG_ID;
use crate::pool::Pool;
use crate::pool::checkpoints::Since;
use crate::txn::compact;
use perdura_pmem::planted;
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

/// The running background threads.
pub(crate) struct Background {
    pool: Arc<Pool>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    /// Starts the threads, near the memory that they work on.
    pub(crate) fn start(pool: Arc<Pool>) -> Background {
        let mut threads = vec![spawn(&pool, "perdura-background", run)];
        if pool.checkpoints.is_apart() {
            threads.push(spawn(&pool, "perdura-checkpoint", run_checkpoints));
        }
        Background { pool, threads }
    }

    /// Asks the threads to stop after the present round and joins them. If one panicked, the pool
    /// fails stop (I11).
    pub(crate) fn stop(self) {
        self.pool.services().stop();
        self.pool.checkpoints.stop();
        for thread in self.threads {
            if thread.join().is_err() {
                self.pool.log.fail_stop("a background thread panicked");
            }
        }
    }
}

fn spawn(pool: &Arc<Pool>, name: &str, run: fn(&Arc<Pool>)) -> JoinHandle<()> {
    let worker = pool.clone();
    let body = planted::inherited(Box::new(move || {
        let _attachment = worker.services().locality().attach();
        run(&worker);
    }));
    let started = std::thread::Builder::new().name(name.into()).spawn(body);
    started.expect("a thread can be started")
}

fn run_checkpoints(pool: &Arc<Pool>) {
    let mut since = Since::default();
    let medium = &*pool.context.medium;
    while pool.checkpoints.wait(&mut since, medium, || pool.log.volume()) {
        let _changing = pool.hold.change();
        // A failure stops the pool, which the next statement reports.
        if pool.log.is_failed() || pool.checkpoint().is_err() {
            return;
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
    notice_failed_medium(pool);
    grow_ahead(pool, asked);
    let mut purged = 0;
    if !pool.log.is_failed() && (pool.checkpoints.is_apart() || pool.checkpoint().is_ok()) {
        purged = pool.purge();
    }
    pool.services().remove_leftovers(&*pool.context.medium);
    pool.context.remove_surplus();
    // The next statement that needs the medium reports the error.
    let _ = pool.context.spare.provide(&*pool.context.medium);
    // A segment of zeros would count as free.
    for table in pool.open_tables().into_iter().take_while(|_| !pool.log.is_failed()) {
        let swept = table.space().sweep(SWEPT_AT_ONCE, PAGES_SWEPT_AT_ONCE);
        if let Err(error) = swept {
            pool.log.fail_stop(&error.to_string());
        }
    }
    purged
}

/// Stops the pool, with a notice, if its medium has failed: a page that cannot be read is met by
/// reads alone, none of which stops the pool.
fn notice_failed_medium(pool: &Pool) {
    if let Err(error) = pool.context.health.check()
        && !pool.log.is_failed()
    {
        pool.log.fail_stop(&error.to_string());
        pool.services().notices.add(format!("the pool takes no more changes: {error}"));
    }
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
