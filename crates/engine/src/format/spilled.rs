//! Spilled pages: the new words of a page that a large transaction writes to the medium ahead of
//! its commit.
//!
//! A spilled page is the content of a version whose RID names no row, so nothing in the directory
//! ever names it: after a crash it is free space, unless a log record refers to it. It is valid iff
//! that version is.

use super::record::{decode_bitmap, encode_bitmap};
use super::word::Word;

/// The words of some rows of a page, as they are spilled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpilledPage {
    /// Positions in the page, ascending, with the new words.
    pub rows: Vec<(u16, Word)>,
    /// Folded checksums of the versions that the words name.
    pub folded: u64,
}

impl SpilledPage {
    /// Where the words begin in the content, if the last row is at position `last`, in bytes:
    /// behind the folded checksum and the bitmap.
    pub fn words_at(last: u16) -> usize {
        8 + (usize::from(last) / 64 + 1) * 8
    }

    /// Encodes the content: folded checksum, bitmap, words.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.folded.to_le_bytes().to_vec();
        encode_bitmap(&mut bytes, self.rows.iter().map(|(position, _)| *position));
        self.rows.iter().for_each(|(_, word)| bytes.extend_from_slice(&word.0.to_le_bytes()));
        bytes
    }

    /// Decodes the content; `None` if it is none of a spilled page. `count` is the number of rows.
    pub fn decode(bytes: &[u8], count: usize) -> Option<SpilledPage> {
        let (folded, rest) = bytes.split_first_chunk::<8>()?;
        let bitmap = rest.len().checked_sub(count.checked_mul(8)?)?;
        let (bitmap, words) = rest.split_at(bitmap);
        let positions = decode_bitmap(bitmap)?;
        let last = *positions.last()?;
        if positions.len() != count || 8 + bitmap.len() != SpilledPage::words_at(last) {
            return None;
        }
        let words = words.as_chunks::<8>().0.iter().map(|word| Word(u64::from_le_bytes(*word)));
        Some(SpilledPage { rows: positions.into_iter().zip(words).collect(), folded: u64::from_le_bytes(*folded) })
    }
}
