//! The universal scalability law (N. Gunther): how throughput grows with threads.
//!
//! `X(n) = n X(1) / (1 + s (n - 1) + k n (n - 1))`: `s` is the part of the work that only one
//! thread does at a time, `k` the cost to each of each other one.

/// A fit of the law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usl {
    /// The serial fraction.
    pub serial: f64,
    /// The cost of coherence; 0 if there are fewer than two points beside one thread.
    pub coherence: f64,
}

impl Usl {
    /// The law that fits these points, each a number of threads with its throughput, best by least
    /// squares of `n X(1) / X(n) - 1`. Without a point of one thread and one of several there is
    /// none. Neither constant is below 0, which would be threads that help each other.
    pub fn fit(points: &[(u32, f64)]) -> Option<Self> {
        let alone = points.iter().find(|(threads, _)| *threads == 1)?.1;
        let loss = |(threads, rate): &(u32, f64)| {
            let n = f64::from(*threads);
            (n - 1.0, n * (n - 1.0), n * alone / rate - 1.0)
        };
        let losses: Vec<(f64, f64, f64)> = points.iter().filter(|(threads, _)| *threads > 1).map(loss).collect();
        let sum = |of: fn(&(f64, f64, f64)) -> f64| losses.iter().map(of).sum::<f64>();
        let (aa, ab, bb) = (sum(|(a, ..)| a * a), sum(|(a, b, _)| a * b), sum(|(_, b, _)| b * b));
        let (ay, by) = (sum(|(a, _, y)| a * y), sum(|(_, b, y)| b * y));
        let linear = |coherence: f64| Self { serial: ((ay - coherence * ab) / aa).max(0.0), coherence };
        let determinant = aa * bb - ab * ab;
        match losses.len() {
            0 => None,
            1 => Some(linear(0.0)),
            _ => Some(match (aa * by - ab * ay) / determinant {
                coherence if coherence <= 0.0 => linear(0.0),
                coherence if ay > coherence * ab => linear(coherence),
                _ => Self { serial: 0.0, coherence: (by / bb).max(0.0) },
            }),
        }
    }

    /// Throughput of so many threads in times of one thread's.
    pub fn speedup(self, threads: u32) -> f64 {
        let n = f64::from(threads);
        n / (1.0 + self.serial * (n - 1.0) + self.coherence * n * (n - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::Usl;

    fn points(law: Usl, threads: &[u32]) -> Vec<(u32, f64)> {
        threads.iter().map(|&threads| (threads, 7.0 * law.speedup(threads))).collect()
    }

    #[test]
    fn a_fit_finds_the_law_again() {
        let law = Usl { serial: 0.05, coherence: 0.002 };
        let found = Usl::fit(&points(law, &[1, 2, 4, 8, 16])).unwrap();
        assert!((found.serial - 0.05).abs() < 1e-9 && (found.coherence - 0.002).abs() < 1e-9, "{found:?}");
        assert!((found.speedup(1) - 1.0).abs() < 1e-12);
    }

    /// Two processors give one point beside one thread, which cannot tell the two constants apart.
    #[test]
    fn one_point_gives_the_serial_fraction_alone() {
        let found = Usl::fit(&[(1, 10.0), (2, 16.0)]).unwrap();
        assert!((found.serial - 0.25).abs() < 1e-9 && found.coherence == 0.0, "{found:?}");
        assert_eq!(Usl::fit(&[(2, 16.0)]), None);
        assert_eq!(Usl::fit(&[(1, 16.0)]), None);
    }

    /// Noise may show more than twice the throughput with two threads.
    #[test]
    fn no_constant_is_below_zero() {
        let found = Usl::fit(&[(1, 10.0), (2, 21.0), (4, 45.0)]).unwrap();
        assert_eq!(found, Usl { serial: 0.0, coherence: 0.0 });
        let found = Usl::fit(&[(1, 10.0), (2, 21.0), (4, 20.0)]).unwrap();
        assert!(found.serial == 0.0 && found.coherence > 0.0, "{found:?}");
    }
}
