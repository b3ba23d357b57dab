//! Bytes in memory as a write past the page cache needs them: aligned, and of whole blocks.

use super::format::BLOCK;

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK]);

/// Bytes that grow at the end; behind them there are zeros up to a whole block.
#[derive(Default)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    len: usize,
}

impl Blocks {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Forgets all bytes, and keeps room for no more than `most`.
    pub(super) fn clear(&mut self, most: usize) {
        self.blocks.clear();
        self.blocks.shrink_to(most / BLOCK);
        self.len = 0;
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        self.blocks.resize(end.div_ceil(BLOCK), Block([0; BLOCK]));
        let begin = std::mem::replace(&mut self.len, end);
        self.all()[begin..end].copy_from_slice(bytes);
    }

    /// The bytes.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.all()[..len]
    }

    /// The bytes, and zeros up to a whole block.
    pub(super) fn padded(&mut self) -> &[u8] {
        self.all()
    }

    fn all(&mut self) -> &mut [u8] {
        let bytes = self.blocks.len() * BLOCK;
        // SAFETY: blocks are arrays of bytes and lie side by side.
        unsafe { std::slice::from_raw_parts_mut(self.blocks.as_mut_ptr().cast(), bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_aligned_and_followed_by_zeros() {
        let mut blocks = Blocks::default();
        for round in 0..3 {
            blocks.push(&[1; 100]);
            blocks.push(&[2; 5000]);
            assert_eq!((blocks.len(), blocks.padded().len()), (5100, 2 * BLOCK), "round {round}");
            assert!(blocks.padded().as_ptr().addr().is_multiple_of(BLOCK));
            assert!(blocks.bytes()[..100] == [1; 100] && blocks.bytes()[100..] == [2; 5000]);
            assert!(blocks.padded()[5100..].iter().all(|byte| *byte == 0));
            blocks.clear(1 << 20);
            assert_eq!((blocks.len(), blocks.padded().len()), (0, 0));
        }
    }
}
