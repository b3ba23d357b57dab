//! A set of rows of one directory page, by their positions in the page: a short sorted list, or a bitmap.

use smallvec::SmallVec;
use std::ops::Range;

/// Most positions that the list form holds.
const FEW: usize = 16;

/// A set of rows of one directory page.
#[derive(Clone, Debug)]
pub enum RowSet {
    /// Positions in ascending order.
    Few(SmallVec<[u16; 4]>),
    /// A bit for each position; it ends with the last word that has one set, or later.
    Many(Vec<u64>),
}

impl Default for RowSet {
    fn default() -> RowSet {
        RowSet::Few(SmallVec::new())
    }
}

impl RowSet {
    /// Whether the set has no row.
    pub fn is_empty(&self) -> bool {
        match self {
            RowSet::Few(list) => list.is_empty(),
            RowSet::Many(words) => words.iter().all(|word| *word == 0),
        }
    }

    /// Number of rows in the set.
    pub fn len(&self) -> usize {
        match self {
            RowSet::Few(list) => list.len(),
            RowSet::Many(words) => words.iter().map(|word| word.count_ones() as usize).sum(),
        }
    }

    /// Whether the row at `position` is in the set.
    #[inline]
    pub fn contains(&self, position: u16) -> bool {
        match self {
            RowSet::Few(list) => list.contains(&position),
            RowSet::Many(words) => {
                words.get(usize::from(position / 64)).is_some_and(|word| word >> (position % 64) & 1 != 0)
            }
        }
    }

    /// Number of rows in the set before the one at `position`; `None` if that is not in the set.
    pub fn rank(&self, position: u16) -> Option<usize> {
        match self {
            RowSet::Few(list) => list.binary_search(&position).ok(),
            RowSet::Many(words) => {
                let (index, bit) = (usize::from(position / 64), position % 64);
                let below: u32 = words.iter().take(index).map(|word| word.count_ones()).sum();
                let word = words.get(index).filter(|word| **word >> bit & 1 != 0)?;
                Some((below + (word & ((1 << bit) - 1)).count_ones()) as usize)
            }
        }
    }

    /// Adds a row. Returns whether it was missing.
    #[inline]
    pub fn insert(&mut self, position: u16) -> bool {
        match self {
            RowSet::Few(list) => {
                let Err(place) = list.binary_search(&position) else { return false };
                if list.len() < FEW {
                    list.insert(place, position);
                } else {
                    let mut words = Vec::new();
                    list.iter().for_each(|other| set(&mut words, *other));
                    set(&mut words, position);
                    *self = RowSet::Many(words);
                }
                true
            }
            RowSet::Many(words) => {
                let missing = words.get(usize::from(position / 64)).is_none_or(|word| word >> (position % 64) & 1 == 0);
                set(words, position);
                missing
            }
        }
    }

    /// Adds the rows at `positions`.
    pub fn insert_all(&mut self, positions: Range<u16>) {
        if positions.len() <= FEW && matches!(self, RowSet::Few(_)) {
            positions.for_each(|position| {
                self.insert(position);
            });
            return;
        }
        if let RowSet::Few(list) = self {
            let mut words = Vec::new();
            list.iter().for_each(|position| set(&mut words, *position));
            *self = RowSet::Many(words);
        }
        let RowSet::Many(words) = self else { return };
        let mut position = positions.start;
        while position < positions.end {
            let (index, bit) = (position / 64, position % 64);
            let count = (64 - bit).min(positions.end - position);
            set(words, position);
            words[usize::from(index)] |= u64::MAX >> (64 - count) << bit;
            position += count;
        }
    }

    /// Removes a row. Returns whether it was there.
    pub fn remove(&mut self, position: u16) -> bool {
        match self {
            RowSet::Few(list) => match list.binary_search(&position) {
                Ok(place) => {
                    list.remove(place);
                    true
                }
                Err(_) => false,
            },
            RowSet::Many(words) => {
                let Some(word) = words.get_mut(usize::from(position / 64)) else { return false };
                let bit = 1 << (position % 64);
                let was_there = *word & bit != 0;
                *word &= !bit;
                was_there
            }
        }
    }

    /// The positions, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        let (list, words) = match self {
            RowSet::Few(list) => (&list[..], &[][..]),
            RowSet::Many(words) => (&[][..], &words[..]),
        };
        let bits = (0u16..).zip(words).flat_map(|(index, word)| Bits { rest: *word, base: index * 64 });
        list.iter().copied().chain(bits)
    }

    /// Adds all rows of `other`.
    pub fn extend(&mut self, other: &RowSet) {
        for position in other.iter() {
            self.insert(position);
        }
    }
}

fn set(words: &mut Vec<u64>, position: u16) {
    let index = usize::from(position / 64);
    if index >= words.len() {
        // A page of the usual size has 8 words: no set grows twice.
        words.reserve_exact(index.max(7) + 1 - words.len());
        words.resize(index + 1, 0);
    }
    words[index] |= 1 << (position % 64);
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
