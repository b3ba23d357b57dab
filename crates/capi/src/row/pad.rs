//! The spaces at the end of a text of fixed width.

/// Byte that fills a text up to its width.
pub(super) const PAD: u8 = b' ';

const BLOCK: usize = 16;

/// Length of `text` without its trailing spaces, which are skipped a block at a time.
#[inline(always)]
pub(super) fn trimmed(text: &[u8]) -> usize {
    let blanks = text.rchunks_exact(BLOCK).take_while(|block| **block == [PAD; BLOCK]).count();
    text[..text.len() - blanks * BLOCK].iter().rposition(|byte| *byte != PAD).map_or(0, |last| last + 1)
}
