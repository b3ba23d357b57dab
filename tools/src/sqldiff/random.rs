//! Choices of the seeded generator.

use rand::Rng;
use rand::rngs::StdRng;

/// True in `percent` of 100 cases.
pub fn chance(random: &mut StdRng, percent: u32) -> bool {
    random.random_range(0..100) < percent
}

/// One element of a list that is not empty.
pub fn pick<'a, T>(random: &mut StdRng, from: &'a [T]) -> &'a T {
    &from[random.random_range(0..from.len())]
}
