//! The background thread of a pool: continuous checkpoint, purge, sweep after a restart, files ahead of need.

use crate::error::ErrorKind;
use crate::pool::Pool;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long it sleeps when nobody asks for it.
const PERIOD: Duration = Duration::from_millis(50);
/// Segments swept in one period.
const SWEPT_AT_ONCE: usize = 256;

/// The thread.
pub struct Background {
    pool: Arc<Pool>,
    thread: JoinHandle<()>,
}

impl Background {
    /// Starts it.
    pub(crate) fn start(pool: Arc<Pool>) -> Background {
        let worker = pool.clone();
        let thread = std::thread::Builder::new()
            .name("perdura-background".into())
            .spawn(move || {
                if let Some(node) = worker.context.medium.info().numa_node {
                    // Where it cannot be pinned it runs all the same, only farther from the memory.
                    perdura_pmem::numa::pin_to_node(node);
                }
                run(&worker)
            })
            .expect("a thread can be started");
        Background { pool, thread }
    }

    /// Ends it and waits for it.
    pub fn stop(self) {
        self.pool.services().stop();
        if self.thread.join().is_err() {
            self.pool.log.fail_stop("the background thread panicked");
        }
    }
}

fn run(pool: &Pool) {
    while let Some(asked) = pool.services().wait(PERIOD) {
        let _changing = pool.hold.change();
        for id in asked {
            grow_ahead(pool, id);
        }
        if !pool.log.is_failed() && pool.checkpoint().is_ok() {
            pool.purge();
        }
        pool.services().remove_leftovers(&*pool.context.medium);
        // The statement that needs the medium reports what is wrong with it.
        let _ = pool.context.spare.provide(&*pool.context.medium);
        for table in pool.table_list() {
            let swept = table.space().sweep(SWEPT_AT_ONCE, 1);
            if let Err(error) = swept {
                pool.log.fail_stop(&error.to_string());
            }
        }
    }
}

/// Creates a table's next file. A full device is the inserting statement's business, not this thread's.
fn grow_ahead(pool: &Pool, id: u32) {
    let Some(table) = pool.table_list().into_iter().find(|table| table.id() == id && !table.is_dropped()) else {
        return;
    };
    let segments = table.space().segments();
    if segments.is_low()
        && let Err(error) = segments.grow_ahead()
        && error.kind() == ErrorKind::Damaged
    {
        pool.log.fail_stop(&error.to_string());
    }
}
