//! Latencies over time: how many requests took how long, in each of the last intervals.
//!
//! Bounds of the buckets are powers of the square root of two from 8 us on, so a quantile is wrong
//! by a fifth at most. Memory is fixed.

use serde::Serialize;

/// Number of buckets. The last holds what took longer than all others.
pub(super) const BUCKETS: usize = 48;
/// Seconds of an interval.
pub(super) const INTERVAL_S: u64 = 5;
/// Intervals that are kept.
const INTERVALS: usize = 120;

/// The upper bound of a bucket, in microseconds.
pub(super) fn bound_us(bucket: usize) -> u64 {
    let whole = 8_u64 << (bucket / 2);
    if bucket.is_multiple_of(2) { whole } else { whole * 181 / 128 }
}

fn bucket_of(us: u64) -> usize {
    if us <= 8 {
        return 0;
    }
    let power = (us / 8).ilog2() as usize;
    let first = (2 * power).min(BUCKETS - 1);
    (first..BUCKETS - 1).find(|bucket| us <= bound_us(*bucket)).unwrap_or(BUCKETS - 1)
}

/// An interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Interval {
    /// When it began, in seconds since the server's start.
    pub begun_s: u64,
    /// How many took how long.
    pub counts: Vec<u32>,
}

/// Latencies over time.
#[derive(Debug)]
pub(super) struct Histogram {
    total: [u64; BUCKETS],
    sum_us: u64,
    intervals: Vec<(u64, [u32; BUCKETS])>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { total: [0; BUCKETS], sum_us: 0, intervals: Vec::with_capacity(INTERVALS) }
    }
}

impl Histogram {
    /// Notes that something that has ended now took so long.
    pub(super) fn note(&mut self, now_s: u64, us: u64) {
        let bucket = bucket_of(us);
        self.total[bucket] += 1;
        self.sum_us += us;
        let begun_s = now_s - now_s % INTERVAL_S;
        if self.intervals.last().is_none_or(|(begun, _)| *begun != begun_s) {
            if self.intervals.len() == INTERVALS {
                self.intervals.remove(0);
            }
            self.intervals.push((begun_s, [0; BUCKETS]));
        }
        if let Some((_, counts)) = self.intervals.last_mut() {
            counts[bucket] = counts[bucket].saturating_add(1);
        }
    }

    /// How many took at most the bound of each bucket, and how long all took.
    pub(super) fn totals(&self) -> (&[u64; BUCKETS], u64) {
        (&self.total, self.sum_us)
    }

    /// The last intervals that had something.
    pub(super) fn intervals(&self) -> Vec<Interval> {
        let interval =
            |(begun_s, counts): &(u64, [u32; BUCKETS])| Interval { begun_s: *begun_s, counts: counts.to_vec() };
        self.intervals.iter().map(interval).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Histogram, bound_us, bucket_of};

    #[test]
    fn each_latency_is_in_the_first_bucket_that_bounds_it() {
        for us in (0..10_000).chain((1..60).map(|power| (1_u64 << power) + 1)) {
            let bucket = bucket_of(us);
            assert!(bucket == BUCKETS - 1 || us <= bound_us(bucket), "{us}");
            assert!(bucket == 0 || us > bound_us(bucket - 1), "{us}");
        }
    }

    #[test]
    fn only_the_last_intervals_are_kept() {
        let mut histogram = Histogram::default();
        (0..10_000).for_each(|second| histogram.note(second, 100));
        let intervals = histogram.intervals();
        assert_eq!((intervals.len(), intervals[0].begun_s, intervals[119].begun_s), (120, 9400, 9995));
        assert_eq!(histogram.totals().0.iter().sum::<u64>(), 10_000);
    }
}
