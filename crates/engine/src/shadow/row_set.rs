//! A set of rows of one directory page, by their positions in the page: up to three in place, or a
//! bitmap.
//!
//! Most commits change one row of a page, and a page may remember thousands of them: so a small set
//! takes 16 bytes and no heap.

use std::ops::Range;

/// Most positions that are held in place.
const FEW: usize = 3;

/// A set of rows of one directory page.
#[derive(Clone, Debug)]
pub(crate) struct RowSet(Form);

#[derive(Clone, Debug)]
enum Form {
    /// So many positions, in ascending order.
    Few(u16, [u16; FEW]),
    /// A bit for each position; it ends with the last word that has one set, or later.
    Many(Box<[u64]>),
}

const _: () = assert!(size_of::<RowSet>() == 16);

impl Default for RowSet {
    #[inline]
    fn default() -> RowSet {
        RowSet(Form::Few(0, [0; FEW]))
    }
}

impl RowSet {
    /// The positions held in place, and the bitmap; one of them is empty.
    #[inline]
    fn parts(&self) -> (&[u16], &[u64]) {
        match &self.0 {
            Form::Few(count, rows) => (&rows[..usize::from(*count)], &[]),
            Form::Many(words) => (&[], words),
        }
    }

    /// Whether the set has no row.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let (few, words) = self.parts();
        few.is_empty() && words.iter().all(|word| *word == 0)
    }

    /// Number of rows in the set.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        let (few, words) = self.parts();
        few.len() + words.iter().map(|word| word.count_ones() as usize).sum::<usize>()
    }

    /// Whether the row at `position` is in the set.
    #[inline]
    pub(crate) fn contains(&self, position: u16) -> bool {
        let (few, words) = self.parts();
        few.contains(&position)
            || words.get(usize::from(position / 64)).is_some_and(|word| word >> (position % 64) & 1 != 0)
    }

    /// Number of rows in the set before the one at `position`; `None` if that is not in the set.
    pub(crate) fn rank(&self, position: u16) -> Option<usize> {
        let (few, words) = self.parts();
        if let Some(place) = few.iter().position(|row| *row == position) {
            return Some(place);
        }
        let (index, bit) = (usize::from(position / 64), position % 64);
        let word = words.get(index).filter(|word| **word >> bit & 1 != 0)?;
        let below: u32 = words[..index].iter().map(|word| word.count_ones()).sum();
        Some((below + (word & ((1 << bit) - 1)).count_ones()) as usize)
    }

    /// Adds a row. Returns whether it was missing.
    #[inline]
    pub(crate) fn insert(&mut self, position: u16) -> bool {
        match &mut self.0 {
            Form::Few(count, rows) => {
                let held = usize::from(*count);
                let Err(place) = rows[..held].binary_search(&position) else { return false };
                if held == FEW {
                    self.make_bitmap(position);
                    return self.insert(position);
                }
                rows.copy_within(place..held, place + 1);
                rows[place] = position;
                *count += 1;
                true
            }
            Form::Many(words) if usize::from(position / 64) >= words.len() => {
                self.make_bitmap(position);
                self.insert(position)
            }
            Form::Many(words) => {
                let (word, bit) = (&mut words[usize::from(position / 64)], 1 << (position % 64));
                let missing = *word & bit == 0;
                *word |= bit;
                missing
            }
        }
    }

    /// Makes the set a bitmap with room for `position`.
    #[cold]
    fn make_bitmap(&mut self, position: u16) {
        let (few, held) = self.parts();
        // A page of the usual size has 8 words: no set grows twice.
        let mut words = vec![0; held.len().max(usize::from(position / 64) + 1).max(8)].into_boxed_slice();
        words[..held.len()].copy_from_slice(held);
        for row in few {
            words[usize::from(row / 64)] |= 1 << (row % 64);
        }
        self.0 = Form::Many(words);
    }

    /// Adds the rows at `positions`.
    pub(crate) fn insert_all(&mut self, positions: Range<u16>) {
        let Some(last) = positions.clone().last().filter(|_| positions.len() > FEW) else {
            return positions.for_each(|position| {
                self.insert(position);
            });
        };
        if !matches!(&self.0, Form::Many(words) if usize::from(last / 64) < words.len()) {
            self.make_bitmap(last);
        }
        let Form::Many(words) = &mut self.0 else { return };
        let mut position = positions.start;
        while position < positions.end {
            let (index, bit) = (position / 64, position % 64);
            let count = (64 - bit).min(positions.end - position);
            words[usize::from(index)] |= u64::MAX >> (64 - count) << bit;
            position += count;
        }
    }

    /// Removes a row. Returns whether it was there.
    pub(crate) fn remove(&mut self, position: u16) -> bool {
        match &mut self.0 {
            Form::Few(count, rows) => {
                let held = usize::from(*count);
                let Ok(place) = rows[..held].binary_search(&position) else { return false };
                rows.copy_within(place + 1..held, place);
                *count -= 1;
                true
            }
            Form::Many(words) => {
                let Some(word) = words.get_mut(usize::from(position / 64)) else { return false };
                let bit = 1 << (position % 64);
                let was_there = *word & bit != 0;
                *word &= !bit;
                was_there
            }
        }
    }

    /// The positions, in ascending order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        let (few, words) = self.parts();
        let bits = (0u16..).zip(words).flat_map(|(index, word)| Bits { rest: *word, base: index * 64 });
        few.iter().copied().chain(bits)
    }

    /// Calls `body` with each position, in ascending order.
    #[inline]
    pub(crate) fn for_each(&self, mut body: impl FnMut(u16)) {
        match &self.0 {
            Form::Few(count, rows) => rows[..usize::from(*count)].iter().for_each(|position| body(*position)),
            Form::Many(_) => self.iter().for_each(body),
        }
    }

    /// Adds all rows of `other`.
    pub(crate) fn extend(&mut self, other: &RowSet) {
        other.for_each(|position| {
            self.insert(position);
        });
    }
}

struct Bits {
    rest: u64,
    base: u16,
}

impl Iterator for Bits {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        if self.rest == 0 {
            return None;
        }
        let bit = self.rest.trailing_zeros() as u16;
        self.rest &= self.rest - 1;
        Some(self.base + bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn both_forms_hold_what_a_sorted_set_holds() {
        let (mut set, mut model) = (RowSet::default(), BTreeSet::new());
        let mut state = 7u64;
        for step in 0..4000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let position = (state >> 40) as u16 % if step < 500 { 24 } else { 512 };
            if state >> 33 & 3 == 0 {
                assert_eq!(set.remove(position), model.remove(&position));
            } else {
                assert_eq!(set.insert(position), model.insert(position));
            }
            if step % 97 == 0 {
                let end = position + (state >> 20) as u16 % 100;
                set.insert_all(position..end.min(512));
                model.extend(position..end.min(512));
            }
            assert_eq!(set.contains(position), model.contains(&position));
            let rank = model.contains(&position).then(|| model.range(..position).count());
            assert_eq!(set.rank(position), rank);
            assert_eq!(set.len(), model.len());
            assert_eq!(set.is_empty(), model.is_empty());
        }
        assert!(set.iter().eq(model.iter().copied()));
    }
}
