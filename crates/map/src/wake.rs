//! Wakes the background thread, and tells it to stop.

use perdura_pmem::sync::{Condvar, Mutex};
use std::time::Duration;

/// Wakes the thread.
#[derive(Default)]
pub(crate) struct Wake {
    signal: Mutex<Signal>,
    condvar: Condvar,
}

#[derive(Default)]
struct Signal {
    stop: bool,
    stirred: bool,
}

impl Wake {
    pub(crate) fn notify(&self) {
        self.signal.lock().stirred = true;
        self.condvar.notify_one();
    }

    pub(crate) fn stop(&self) {
        self.signal.lock().stop = true;
        self.condvar.notify_one();
    }

    /// Waits; whether to go on.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> bool {
        let mut signal = self.signal.lock();
        match timeout {
            Some(timeout) if !signal.stop => _ = self.condvar.wait_for(&mut signal, timeout),
            Some(_) => {}
            None => {
                while !signal.stop && !signal.stirred {
                    self.condvar.wait(&mut signal);
                }
            }
        }
        signal.stirred = false;
        !signal.stop
    }
}
