//! Looks for what lies between two stars at 64 places of the pattern at once: which beginnings of
//! it end at a byte of the text is a row of bits, which moves by one with each byte (Baeza-Yates
//! and Gonnet, "shift-and"). So a match takes a 64th of the product of both lengths.

use super::element::element;

const BITS: usize = u64::BITS as usize;

/// The part of a pattern between two stars, ready to be looked for.
struct Segment {
    /// Words of a row.
    words: usize,
    /// Number of its elements.
    length: usize,
    /// For each byte, a row of the elements that it may be.
    rows: Vec<u64>,
}

impl Segment {
    /// The elements from the front of a pattern up to a star or the end, and the pattern behind
    /// them.
    fn take(pattern: &[u8]) -> (Self, &[u8]) {
        let (mut at, mut elements) = (0, Vec::new());
        while let Some((length, element)) = element(&pattern[at..]) {
            elements.push(element);
            at += length;
        }
        let words = elements.len().div_ceil(BITS);
        let mut rows = vec![0; words << u8::BITS];
        for (number, element) in elements.iter().enumerate() {
            for byte in 0..=u8::MAX {
                if element.has(byte) {
                    rows[usize::from(byte) * words + number / BITS] |= 1 << (number % BITS);
                }
            }
        }
        (Self { words, length: elements.len(), rows }, &pattern[at..])
    }

    /// Steps that [`Segment::take`] has taken.
    fn steps(&self) -> usize {
        self.length << u8::BITS
    }

    fn row(&self, byte: u8) -> &[u64] {
        &self.rows[usize::from(byte) * self.words..][..self.words]
    }

    /// Whether the segment is all of a text of its length.
    fn is(&self, text: &[u8]) -> bool {
        let has = |(number, byte): (usize, &u8)| self.row(*byte)[number / BITS] >> (number % BITS) & 1 == 1;
        text.len() == self.length && text.iter().enumerate().all(has)
    }

    /// The end of the first place in a text at which the segment is found.
    fn find(&self, text: &[u8], steps: &mut usize) -> Option<usize> {
        if self.length == 0 {
            return Some(0);
        }
        let mut ends = vec![0_u64; self.words];
        let (word, bit) = ((self.length - 1) / BITS, (self.length - 1) % BITS);
        for (at, byte) in text.iter().enumerate() {
            *steps += self.words;
            let mut carried = 1;
            for (end, row) in ends.iter_mut().zip(self.row(*byte)) {
                let next = *end >> (BITS - 1);
                *end = (*end << 1 | carried) & row;
                carried = next;
            }
            if ends[word] >> bit & 1 == 1 {
                return Some(at + 1);
            }
        }
        None
    }
}

/// Whether a text matches a pattern, and the steps that it took.
pub(super) fn matched(pattern: &[u8], text: &[u8]) -> (bool, usize) {
    let (first, mut pattern) = Segment::take(pattern);
    let mut steps = first.steps() + first.length;
    if pattern.is_empty() {
        return (first.is(text), steps);
    }
    let Some((front, mut text)) = text.split_at_checked(first.length) else { return (false, steps) };
    if !first.is(front) {
        return (false, steps);
    }
    // A star is at the front of the pattern.
    loop {
        let (segment, rest) = Segment::take(&pattern[1..]);
        steps += 1 + segment.steps();
        if rest.is_empty() {
            let end = text.len().checked_sub(segment.length).map(|at| &text[at..]);
            return (end.is_some_and(|end| segment.is(end)), steps);
        }
        let Some(at) = segment.find(text, &mut steps) else { return (false, steps) };
        (text, pattern) = (&text[at..], rest);
    }
}
