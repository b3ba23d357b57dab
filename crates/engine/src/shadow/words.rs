//! The words that a change keeps for rows of one page: sorted by position, 10 bytes a row.

use crate::format::Word;
use smallvec::SmallVec;

/// Words by position in their page.
#[derive(Clone, Debug, Default)]
pub struct Words {
    positions: SmallVec<[u16; 4]>,
    words: SmallVec<[Word; 1]>,
}

impl Words {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    #[inline]
    fn find(&self, position: u16) -> Result<usize, usize> {
        // Rows mostly come in the order of the page.
        match self.positions.last() {
            Some(last) if *last >= position => self.positions.binary_search(&position),
            _ => Err(self.positions.len()),
        }
    }

    /// The word of the row at `position`.
    #[inline]
    pub fn get(&self, position: u16) -> Option<Word> {
        self.find(position).ok().map(|index| self.words[index])
    }

    /// Sets the word of a row. Returns the word that it had.
    #[inline]
    pub fn set(&mut self, position: u16, word: Word) -> Option<Word> {
        match self.find(position) {
            Ok(index) => Some(std::mem::replace(&mut self.words[index], word)),
            Err(index) => {
                self.grow();
                self.positions.insert(index, position);
                self.words.insert(index, word);
                None
            }
        }
    }

    /// Grows by half, so that little of a large transaction's memory is spare.
    #[inline]
    fn grow(&mut self) {
        let length = self.positions.len();
        if length == self.words.capacity() {
            let more = (length / 2).max(3);
            self.positions.reserve_exact(more);
            self.words.reserve_exact(more);
        }
    }

    /// Removes a row. Returns the word that it had.
    pub fn remove(&mut self, position: u16) -> Option<Word> {
        let index = self.find(position).ok()?;
        self.positions.remove(index);
        Some(self.words.remove(index))
    }

    /// Positions and words, in the order of positions.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Word)> + '_ {
        self.positions.iter().copied().zip(self.words.iter().copied())
    }

    /// Positions and words, in the order of positions, the words to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u16, &mut Word)> + '_ {
        self.positions.iter().copied().zip(self.words.iter_mut())
    }

    /// Heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let positions = if self.positions.spilled() { self.positions.capacity() * 2 } else { 0 };
        positions + if self.words.spilled() { self.words.capacity() * 8 } else { 0 }
    }
}
