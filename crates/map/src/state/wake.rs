//! A signal that wakes the background thread or stops it.

use perdura_pmem::sync::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Wake {
    signal: Mutex<Signal>,
    condvar: Condvar,
    /// Whether the background thread sleeps until a change wakes it.
    asleep: AtomicBool,
}

#[derive(Default)]
struct Signal {
    stop: bool,
    stirred: bool,
}

impl Wake {
    /// Wakes the background thread if it sleeps.
    #[inline]
    pub(crate) fn stir(&self) {
        if self.asleep.load(Ordering::Relaxed) {
            self.notify();
        }
    }

    /// Notes whether the background thread sleeps until it is stirred.
    pub(crate) fn set_asleep(&self, asleep: bool) {
        self.asleep.store(asleep, Ordering::SeqCst);
    }

    pub(crate) fn notify(&self) {
        self.signal.lock().stirred = true;
        self.condvar.notify_one();
    }

    pub(crate) fn stop(&self) {
        self.signal.lock().stop = true;
        self.condvar.notify_one();
    }

    /// Waits for a wake-up, a stop or the timeout. Returns whether to go on.
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
