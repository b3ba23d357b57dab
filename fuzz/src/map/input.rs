//! The input as a sequence of decisions. Past its end everything is zero.

const LINE_BYTES: usize = 64;

/// The rest of an input.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        let bytes = self.bytes(4);
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from(u32::from_le_bytes(word)) % bound
    }

    /// At most `count` bytes.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Damages `target`: flips bits in at most 16 bytes, zeroes 8 bytes, or overwrites a cache line
    /// by zeros, ones or another line.
    pub fn change(&mut self, target: &mut [u8]) {
        let what = self.u8();
        let at = self.below(target.len().max(1) as u64) as usize;
        let line = at - at % LINE_BYTES..(at - at % LINE_BYTES + LINE_BYTES).min(target.len());
        match what % 8 {
            0 => target[line].fill(0),
            1 => target[line].fill(0xff),
            2 => {
                let from = self.below(target.len().max(1) as u64) as usize;
                let from = (from - from % LINE_BYTES).min(target.len() - line.len());
                target.copy_within(from..from + line.len(), line.start);
            }
            3 => target[at - at % 8..].iter_mut().take(8).for_each(|byte| *byte = 0),
            _ => {
                let count = 1 + usize::from(self.u8() % 16);
                for (byte, change) in target[at..].iter_mut().zip(self.bytes(count)) {
                    *byte ^= change;
                }
            }
        }
    }
}
