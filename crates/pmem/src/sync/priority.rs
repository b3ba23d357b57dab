//! Mutual exclusion between those in a hurry and one who works through a long task in short turns.

use super::agent::agent;
use super::mutex::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU32, Ordering};

/// Looks at the lock of one in a hurry, some 20 microseconds, before it queues.
const HURRIED_LOOKS: u32 = 512;
/// Times that [`PriorityMutex::lock_behind`] gives the processor away before it queues.
const BEHIND_ROUNDS: u32 = 64;
/// Looks at the lock between two of them.
const BEHIND_LOOKS: u32 = 64;

/// A lock that one thread at a time holds, for short turns.
///
/// Whoever is in a hurry stays awake for some microseconds, since a turn is that short, and a
/// wake-up takes longer than that. Whoever is not steps behind all of them, awake or asleep, so
/// that nobody is overtaken for turn after turn.
///
/// Thread-safety: all of it is shared. Neither side waits forever: after many looks both queue in
/// the lock.
#[derive(Debug, Default)]
pub struct PriorityMutex<T> {
    /// Threads in a hurry that wait.
    ahead: AtomicU32,
    mutex: Mutex<T>,
}

impl<T> PriorityMutex<T> {
    /// An unlocked lock around `value`.
    pub const fn new(value: T) -> PriorityMutex<T> {
        PriorityMutex { ahead: AtomicU32::new(0), mutex: Mutex::new(value) }
    }

    /// Waits for the lock as one in a hurry. A simulated thread may be switched first.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if agent().is_some() {
            return self.mutex.lock();
        }
        self.mutex.try_lock().unwrap_or_else(|| self.lock_hurried())
    }

    #[cold]
    fn lock_hurried(&self) -> MutexGuard<'_, T> {
        // Only the first of several stays awake.
        let looks = if self.ahead.fetch_add(1, Ordering::Relaxed) == 0 { HURRIED_LOOKS } else { 0 };
        let guard = (0..looks).find_map(|_| {
            std::hint::spin_loop();
            self.mutex.try_lock()
        });
        let guard = guard.unwrap_or_else(|| self.mutex.lock());
        self.ahead.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Waits for the lock as one who is in no hurry: behind those who are. The thread looks for it
    /// again and again and queues only after many looks, so that those who unlock it need not wake
    /// it by a system call.
    pub fn lock_behind(&self) -> MutexGuard<'_, T> {
        if agent().is_some() {
            return self.mutex.lock();
        }
        for look in 1..=BEHIND_ROUNDS * BEHIND_LOOKS {
            if self.ahead.load(Ordering::Relaxed) == 0
                && let Some(guard) = self.mutex.try_lock()
            {
                return guard;
            }
            match look % BEHIND_LOOKS {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        self.mutex.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::PriorityMutex;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    /// Hazards: two hold the lock at once; a waiter is not counted off, so that whoever is behind
    /// waits forever.
    #[test]
    fn all_get_their_turns() {
        const TURNS: u64 = 20_000;
        let (lock, is_over) = (PriorityMutex::new(0u64), AtomicBool::new(false));
        thread::scope(|scope| {
            let behind = scope.spawn(|| {
                let mut turns = 0;
                while !is_over.load(Ordering::Relaxed) {
                    *lock.lock_behind() += 1;
                    turns += 1;
                }
                turns
            });
            let hurried: Vec<_> = (0..2).map(|_| scope.spawn(|| (0..TURNS).for_each(|_| *lock.lock() += 1))).collect();
            hurried.into_iter().for_each(|thread| thread.join().expect("no panic"));
            is_over.store(true, Ordering::Relaxed);
            let turns: u64 = behind.join().expect("no panic");
            assert_eq!(*lock.lock_behind(), 2 * TURNS + turns);
        });
        assert_eq!(lock.ahead.load(Ordering::Relaxed), 0);
    }
}
