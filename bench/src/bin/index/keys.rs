//! The keys, and the orders in which every system gets them.

use perdura_bench::peers::ordered::Key;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// Seed of the orders, fixed so that runs compare.
const SEED: u64 = 20_260_601;
/// Odd, so multiplication by it is one to one.
const SPREADER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The keys of one case.
pub struct Orders<const BYTES: usize> {
    /// All keys, each once, in the order of insertion.
    pub insert: Vec<Key<BYTES>>,
    /// Keys to look up, in another order.
    pub find: Vec<Key<BYTES>>,
    /// Keys at which ranges begin.
    pub starts: Vec<Key<BYTES>>,
}

impl<const BYTES: usize> Orders<BYTES> {
    /// `count` keys, at most `finds` of them to be looked up, and as many ranges as asked for.
    pub fn new(count: usize, finds: usize, ranges: usize) -> Orders<BYTES> {
        let mut insert: Vec<Key<BYTES>> = (0..count as u64).map(key).collect();
        let mut random = StdRng::seed_from_u64(SEED);
        insert.shuffle(&mut random);
        let mut find = insert.clone();
        find.shuffle(&mut random);
        let starts = find.iter().rev().copied().take(ranges).collect();
        find.truncate(finds);
        find.shrink_to_fit();
        Orders { insert, find, starts }
    }
}

/// Key of `number`: eight bytes that spread over all numbers, then text that follows from them.
fn key<const BYTES: usize>(number: u64) -> Key<BYTES> {
    let spread = number.wrapping_mul(SPREADER);
    let mut key = [0; BYTES];
    for (part, bytes) in key.chunks_mut(8).enumerate() {
        let word = spread.rotate_left(part as u32 * 7).to_be_bytes();
        bytes.copy_from_slice(&word[..bytes.len()]);
    }
    key
}
