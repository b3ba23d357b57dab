//! Keys of ten bytes and the orders of their use, all derived from seeds, so that every system sees
//! the same.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// Seed of the orders of keys of the ordered maps, fixed so that runs compare.
pub const SEED: u64 = 20_200_601;

/// Bytes of a key.
pub const KEY_BYTES: usize = 10;

/// A key.
pub type Key = [u8; KEY_BYTES];

/// The shape of a set of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The numbers from 0 on in ten decimal digits, as programs make them. They share long
    /// prefixes, so the first bytes tell little.
    Numbers,
    /// Numbers spread over all of ten decimal digits. The first bytes tell keys apart.
    Spread,
}

/// Odd and no multiple of 5, so multiplication by it modulo 10^10 is one to one.
const SPREADER: u64 = 6_180_339_887;
const NUMBERS: u64 = 10_000_000_000;

/// The first `count` keys of a shape, all different, in an order drawn from `seed`.
pub fn shuffled(count: usize, shape: Shape, seed: u64) -> Vec<Key> {
    let mut keys: Vec<Key> = (0..count as u64).map(|number| key(number, shape)).collect();
    shuffle(&mut keys, seed);
    keys
}

/// Shuffles keys.
pub fn shuffle(keys: &mut [Key], seed: u64) {
    keys.shuffle(&mut StdRng::seed_from_u64(seed));
}

fn key(number: u64, shape: Shape) -> Key {
    let number = match shape {
        Shape::Numbers => number,
        Shape::Spread => (u128::from(number) * u128::from(SPREADER) % u128::from(NUMBERS)) as u64,
    };
    let mut rest = number;
    let mut key = [b'0'; KEY_BYTES];
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::{Shape, shuffled};
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_different_and_their_order_repeats() {
        for shape in [Shape::Numbers, Shape::Spread] {
            let keys = shuffled(10_000, shape, 7);
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
            assert_eq!(keys, shuffled(10_000, shape, 7));
            assert_ne!(keys, shuffled(10_000, shape, 8));
        }
        assert!(shuffled(1000, Shape::Numbers, 1).contains(b"0000000999"));
    }
}
