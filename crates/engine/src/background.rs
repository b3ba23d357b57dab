//! The background thread of a pool: continuous checkpoint, purge, sweep after a restart, files ahead of need.

use crate::engine::Inner;
use crate::error::ErrorKind;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long it sleeps when nobody asks for it.
const PERIOD: Duration = Duration::from_millis(50);
/// Segments swept in one period.
const SWEPT_AT_ONCE: usize = 256;

/// The thread.
pub struct Background {
    inner: Arc<Inner>,
    thread: JoinHandle<()>,
}

impl Background {
    /// Starts it.
    pub(crate) fn start(inner: Arc<Inner>) -> Background {
        let worker = inner.clone();
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
        Background { inner, thread }
    }

    /// Ends it and waits for it.
    pub fn stop(self) {
        self.inner.services.stop();
        if self.thread.join().is_err() {
            self.inner.log.fail_stop("the background thread panicked");
        }
    }
}

fn run(inner: &Inner) {
    while let Some(asked) = inner.services.wait(PERIOD) {
        let _changing = inner.hold.change();
        for id in asked {
            grow_ahead(inner, id);
        }
        if !inner.log.is_failed() && inner.checkpoint().is_ok() {
            inner.purge();
        }
        inner.services.remove_leftovers(&*inner.context.medium);
        // The statement that needs the medium reports what is wrong with it.
        let _ = inner.context.provide_spare();
        for table in inner.table_list() {
            let swept = table.sweep_directory(1).and_then(|_| table.sweep_some(SWEPT_AT_ONCE));
            if let Err(error) = swept {
                inner.log.fail_stop(&error.to_string());
            }
        }
    }
}

/// Creates a table's next file. A full device is the inserting statement's business, not this thread's.
fn grow_ahead(inner: &Inner, id: u32) {
    let Some(table) = inner.table_list().into_iter().find(|table| table.id() == id && !table.is_dropped()) else {
        return;
    };
    let files = table.files.count();
    if table.is_low()
        && let Err(error) = table.grow_ahead(files)
        && error.kind() == ErrorKind::Damaged
    {
        inner.log.fail_stop(&error.to_string());
    }
}
