//! Timing: phases of many operations, and rounds of systems in rotating order.

use crate::keys::Key;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Keys between two looks at the clock, which a phase may exceed its budget by. A multiple of every
/// batch.
const STRETCH: usize = 20_000;

/// Nanoseconds an operation if `count` of them took `took`.
pub fn ns_each(took: Duration, count: usize) -> f64 {
    took.as_secs_f64() * 1e9 / count as f64
}

/// Processor time that the calling thread has taken so far.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Nanoseconds a key, and the number of keys that `run` has processed within `budget`. The caller
/// can process the rest untimed.
pub fn phase(keys: &[Key], budget: Duration, mut run: impl FnMut(&[Key])) -> (f64, usize) {
    let (mut took, mut done) = (Duration::ZERO, 0);
    for keys in keys.chunks(STRETCH) {
        if took > budget {
            break;
        }
        let begun = Instant::now();
        run(keys);
        took += begun.elapsed();
        done += keys.len();
    }
    (ns_each(took, done), done)
}

/// `items` in the order of this round. Each round begins with another item.
pub fn turned<T: Copy>(items: &[T], round: usize) -> impl Iterator<Item = T> + '_ {
    (0..items.len()).map(move |turn| items[(turn + round) % items.len()])
}

/// The value below which a `share` of all values lies. Sorts them.
pub fn percentile(values: &mut [u32], share: f64) -> f64 {
    values.sort_unstable();
    let index = ((values.len() - 1) as f64 * share).round() as usize;
    f64::from(values[index])
}

#[cfg(test)]
mod tests {
    use super::{percentile, phase, turned};
    use std::time::Duration;

    #[test]
    fn a_phase_stops_when_its_time_is_over() {
        let keys = [[b'0'; 10]; 50_000];
        let (_, done) = phase(&keys, Duration::MAX, |_| ());
        assert_eq!(done, 50_000);
        let (_, done) = phase(&keys, Duration::ZERO, |_| std::thread::sleep(Duration::from_millis(1)));
        assert_eq!(done, 20_000);
    }

    #[test]
    fn every_round_begins_with_another_one() {
        assert_eq!(turned(&[1, 2, 3], 0).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(turned(&[1, 2, 3], 4).collect::<Vec<_>>(), [2, 3, 1]);
    }

    #[test]
    fn a_percentile_is_a_value_that_was_there() {
        let mut values: Vec<u32> = (0..=100).rev().collect();
        assert_eq!(percentile(&mut values, 0.99), 99.0);
        assert_eq!(percentile(&mut values, 1.0), 100.0);
    }
}
