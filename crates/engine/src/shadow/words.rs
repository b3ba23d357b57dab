//! The words that a change keeps for rows of one page: sorted by position, 10 bytes a row in DRAM, or spilled to the
//! medium when a transaction's write set outgrows its memory.

use super::row_set::RowSet;
use crate::format::{SpilledPage, Word};
use perdura_pmem::Region;
use perdura_pmem::trace;
use smallvec::SmallVec;

/// Words that were written to the medium, as a version of no row (`format/spilled.rs`). Behind it the cell has room for as
/// many words again: those before the change, once it is stored. Nobody needs these after a crash.
#[derive(Clone)]
pub struct Spilled {
    /// Names the cell.
    pub place: Word,
    region: Region,
    /// Offset of the words that count now.
    at: u64,
    rows: RowSet,
    count: usize,
}

impl Spilled {
    /// The words in the cell at `place`, whose content begins at offset `at` of `region`, for the rows `rows`.
    pub fn new(place: Word, region: Region, at: u64, rows: RowSet) -> Spilled {
        let (count, last) = (rows.len(), rows.iter().last().unwrap_or_default());
        Spilled { place, region, at: at + SpilledPage::words_at(last) as u64, rows, count }
    }

    fn words(&self) -> impl Iterator<Item = Word> + '_ {
        (self.at..).step_by(8).take(self.count).map(|at| Word(self.region.load(at)))
    }
}

/// Words by position in their page.
pub enum Words {
    /// In DRAM.
    Held {
        /// In ascending order.
        positions: SmallVec<[u16; 4]>,
        /// In the order of positions.
        words: SmallVec<[Word; 1]>,
    },
    /// On the medium.
    Spilled(Box<Spilled>),
}

impl Default for Words {
    fn default() -> Words {
        Words::Held { positions: SmallVec::new(), words: SmallVec::new() }
    }
}

impl Words {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Words::Held { positions, .. } => positions.len(),
            Words::Spilled(spilled) => spilled.count,
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cell that holds the words on the medium; `None` while they are in DRAM.
    pub fn spilled(&self) -> Option<Word> {
        match self {
            Words::Held { .. } => None,
            Words::Spilled(spilled) => Some(spilled.place),
        }
    }

    /// Brings spilled words back to DRAM. Returns the cell that held them.
    pub fn hold(&mut self) -> Option<Word> {
        let Words::Spilled(spilled) = self else { return None };
        let place = spilled.place;
        *self = Words::Held { positions: spilled.rows.iter().collect(), words: spilled.words().collect() };
        Some(place)
    }

    /// The word of the row at `position`.
    #[inline]
    pub fn get(&self, position: u16) -> Option<Word> {
        match self {
            Words::Held { positions, words } => find(positions, position).ok().map(|index| words[index]),
            Words::Spilled(spilled) => {
                let index = spilled.rows.rank(position)?;
                Some(Word(spilled.region.load(spilled.at + index as u64 * 8)))
            }
        }
    }

    /// Whether there is a word for the row at `position`.
    pub fn contains(&self, position: u16) -> bool {
        match self {
            Words::Held { positions, .. } => find(positions, position).is_ok(),
            Words::Spilled(spilled) => spilled.rows.contains(position),
        }
    }

    /// Sets the word of a row, in DRAM. Returns the word that it had.
    #[inline]
    pub fn set(&mut self, position: u16, word: Word) -> Option<Word> {
        let Words::Held { positions, words } = self else { panic!("spilled words are brought back first") };
        match find(positions, position) {
            Ok(index) => Some(std::mem::replace(&mut words[index], word)),
            Err(index) => {
                let length = positions.len();
                if length == words.capacity() {
                    // Grows by half, so that little of a large transaction's memory is spare.
                    let more = (length / 2).max(3);
                    positions.reserve_exact(more);
                    words.reserve_exact(more);
                }
                positions.insert(index, position);
                words.insert(index, word);
                None
            }
        }
    }

    /// Removes a row, in DRAM. Returns the word that it had.
    pub fn remove(&mut self, position: u16) -> Option<Word> {
        let Words::Held { positions, words } = self else { panic!("spilled words are brought back first") };
        let index = find(positions, position).ok()?;
        positions.remove(index);
        Some(words.remove(index))
    }

    /// Positions and words, in the order of positions.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Word)> + '_ {
        let (held, spilled) = match self {
            Words::Held { positions, words } => (Some((positions, words)), None),
            Words::Spilled(spilled) => (None, Some(spilled)),
        };
        let held = held.into_iter().flat_map(|(positions, words)| positions.iter().copied().zip(words.iter().copied()));
        held.chain(spilled.into_iter().flat_map(|spilled| spilled.rows.iter().zip(spilled.words())))
    }

    /// Hands each row's word to `other`, and keeps the word that it returns instead.
    pub fn exchange(&mut self, mut other: impl FnMut(u16, Word) -> Word) {
        match self {
            Words::Held { positions, words } => {
                for (position, word) in positions.iter().zip(words) {
                    *word = other(*position, *word);
                }
            }
            Words::Spilled(spilled) => {
                // Redo needs the words as they are; those before the change only this run.
                let _unflushed = trace::span(trace::TRANSIENT);
                let behind = spilled.at + spilled.count as u64 * 8;
                for (index, (position, word)) in spilled.rows.iter().zip(spilled.words()).enumerate() {
                    spilled.region.store(behind + index as u64 * 8, other(position, word).0);
                }
                spilled.at = behind;
            }
        }
    }
}

#[inline]
fn find(positions: &[u16], position: u16) -> Result<usize, usize> {
    // Rows mostly come in the order of the page.
    match positions.last() {
        Some(last) if *last >= position => positions.binary_search(&position),
        _ => Err(positions.len()),
    }
}
