//! Clients that write as fast as they are answered, and what they have seen.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::resp::{Client, Reply};

/// Work done by all writers.
#[derive(Default)]
pub struct Load {
    /// How long each waits between two writes.
    pause: Duration,
    /// Whether they are to end.
    pub ends: AtomicBool,
    /// Writes that were acknowledged.
    pub done: AtomicU64,
    /// When the last was, and the longest time without any, in microseconds since the begin.
    last_us: AtomicU64,
    pause_us: AtomicU64,
    /// How long each write took, in microseconds.
    pub took_us: Mutex<Vec<u32>>,
}

impl Load {
    /// Of clients that wait so long between two writes.
    pub fn with_pauses(pause: Duration) -> Self {
        Self { pause, ..Self::default() }
    }

    fn acknowledged(&self, begun: Instant) {
        let now = begun.elapsed().as_micros() as u64;
        let last = self.last_us.fetch_max(now, Ordering::Relaxed);
        self.pause_us.fetch_max(now.saturating_sub(last), Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets what was measured so far. Returns how much was done.
    pub fn afresh(&self, begun: Instant) -> u64 {
        self.last_us.store(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
        self.pause_us.store(0, Ordering::Relaxed);
        self.done.load(Ordering::Relaxed)
    }

    /// The longest time without a write since.
    pub fn pause_ms(&self) -> u64 {
        self.pause_us.load(Ordering::Relaxed) / 1000
    }
}

/// Writes rising numbers to a key. Returns the last that was acknowledged, and the last that was
/// sent.
pub fn write(load: &Load, ports: &[u16], key: &str, begun: Instant) -> (u64, u64) {
    let (mut acknowledged, mut sent, mut at) = (0, 0, 0);
    let (mut client, mut took) = (None, Vec::new());
    while !load.ends.load(Ordering::Relaxed) {
        let Some(open) = &mut client else {
            at = (at + 1) % ports.len();
            client = Client::connect(ports[at]).ok();
            continue;
        };
        let (number, asked) = (sent + 1, Instant::now());
        match open.call(&["SET", key, &number.to_string()]) {
            Ok(Reply::Text(_)) => {
                took.push(asked.elapsed().as_micros() as u32);
                load.acknowledged(begun);
                (acknowledged, sent) = (number, number);
                std::thread::sleep(load.pause);
            }
            // It was not done: another replica leads.
            Ok(_) => {
                client = None;
                std::thread::sleep(Duration::from_millis(1));
            }
            // Nobody knows whether it was done.
            Err(_) => (sent, client) = (number, None),
        }
    }
    load.took_us.lock().expect("no writer panics").extend(took);
    (acknowledged, sent)
}
