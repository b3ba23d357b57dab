//! The words that a change keeps for rows of one page: sorted by position, 10 bytes a row in DRAM,
//! or spilled to the medium when a transaction's write set outgrows its memory.

use super::row_set::RowSet;
use crate::format::{SpilledPage, Word};
use perdura_pmem::Region;
use perdura_pmem::trace;
use std::slice;

/// Words that were written to the medium, as a version of no row (`format/spilled.rs`). Behind it
/// the cell has room for as many words again: those before the change, once it is stored. Nobody
/// needs these after a crash.
#[derive(Clone)]
pub(crate) struct Spilled {
    /// Names the cell.
    pub place: Word,
    region: Region,
    /// Offset of the words that count now.
    at: u64,
    rows: RowSet,
    count: usize,
}

impl Spilled {
    /// The words in the cell at `place`, whose content begins at offset `at` of `region`, for the
    /// rows `rows`.
    pub(crate) fn new(place: Word, region: Region, at: u64, rows: RowSet) -> Spilled {
        let (count, last) = (rows.len(), rows.iter().last().unwrap_or_default());
        Spilled { place, region, at: at + SpilledPage::words_at(last) as u64, rows, count }
    }

    fn words(&self) -> impl Iterator<Item = Word> + '_ {
        (self.at..).step_by(8).take(self.count).map(|at| Word(self.region.load(at)))
    }

    fn exchange(&mut self, mut other: impl FnMut(u16, Word) -> Word) {
        // Redo needs the words as they are; those before the change only this run.
        let _unflushed = trace::span(trace::TRANSIENT);
        let behind = self.at + self.count as u64 * 8;
        for (index, (position, word)) in self.rows.iter().zip(self.words()).enumerate() {
            self.region.store(behind + index as u64 * 8, other(position, word).0);
        }
        self.at = behind;
    }
}

/// Words in DRAM.
#[derive(Default)]
pub(crate) struct Held {
    /// In ascending order.
    positions: Vec<u16>,
    /// In the order of positions.
    words: Vec<Word>,
}

/// Words by position in their page.
#[derive(Default)]
pub(crate) enum Words {
    /// Of no row.
    #[default]
    None,
    /// Of one row, as most commits have them.
    One(u16, Word),
    /// Of several rows.
    Held(Box<Held>),
    /// On the medium.
    Spilled(Box<Spilled>),
}

const _: () = assert!(size_of::<Words>() == 16);

impl Words {
    /// Positions and words of the rows that are in DRAM.
    #[inline]
    fn held(&self) -> (&[u16], &[Word]) {
        match self {
            Words::One(position, word) => (slice::from_ref(position), slice::from_ref(word)),
            Words::Held(held) => (&held.positions, &held.words),
            Words::None | Words::Spilled(_) => (&[], &[]),
        }
    }

    /// Number of rows.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Words::Spilled(spilled) => spilled.count,
            _ => self.held().0.len(),
        }
    }

    /// Whether there is no row.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cell that holds the words on the medium; `None` while they are in DRAM.
    #[inline]
    pub(crate) fn spilled(&self) -> Option<Word> {
        match self {
            Words::Spilled(spilled) => Some(spilled.place),
            _ => None,
        }
    }

    /// Brings spilled words back to DRAM. Returns the cell that held them.
    #[inline]
    pub(crate) fn hold(&mut self) -> Option<Word> {
        let Words::Spilled(spilled) = self else { return None };
        let place = spilled.place;
        let held = Held { positions: spilled.rows.iter().collect(), words: spilled.words().collect() };
        *self = Words::Held(Box::new(held));
        Some(place)
    }

    /// The word of the row at `position`.
    #[inline]
    pub(crate) fn get(&self, position: u16) -> Option<Word> {
        if let Words::Spilled(spilled) = self {
            let index = spilled.rows.rank(position)?;
            return Some(Word(spilled.region.load(spilled.at + index as u64 * 8)));
        }
        let (positions, words) = self.held();
        find(positions, position).ok().map(|index| words[index])
    }

    /// Whether there is a word for the row at `position`.
    #[inline]
    pub(crate) fn contains(&self, position: u16) -> bool {
        match self {
            Words::Spilled(spilled) => spilled.rows.contains(position),
            _ => find(self.held().0, position).is_ok(),
        }
    }

    /// Sets the word of a row, in DRAM. Returns the word that it had.
    #[inline]
    pub(crate) fn set(&mut self, position: u16, word: Word) -> Option<Word> {
        match self {
            Words::None => {
                *self = Words::One(position, word);
                None
            }
            Words::One(known, before) if *known == position => Some(std::mem::replace(before, word)),
            Words::One(known, before) => {
                let mut held = Box::new(Held::default());
                held.set(*known, *before);
                held.set(position, word);
                *self = Words::Held(held);
                None
            }
            Words::Held(held) => held.set(position, word),
            Words::Spilled(_) => panic!("spilled words are brought back first"),
        }
    }

    /// Removes a row, in DRAM. Returns the word that it had.
    pub(crate) fn remove(&mut self, position: u16) -> Option<Word> {
        match self {
            Words::One(known, word) if *known == position => {
                let word = *word;
                *self = Words::None;
                Some(word)
            }
            Words::None | Words::One(..) => None,
            Words::Held(held) => {
                let index = find(&held.positions, position).ok()?;
                held.positions.remove(index);
                Some(held.words.remove(index))
            }
            Words::Spilled(_) => panic!("spilled words are brought back first"),
        }
    }

    /// Positions and words, in the order of positions.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, Word)> + '_ {
        let (positions, words) = self.held();
        let spilled = match self {
            Words::Spilled(spilled) => Some(spilled),
            _ => None,
        };
        let spilled = spilled.into_iter().flat_map(|spilled| spilled.rows.iter().zip(spilled.words()));
        positions.iter().copied().zip(words.iter().copied()).chain(spilled)
    }

    /// Calls `body` with each position and word, in the order of positions.
    #[inline]
    pub(crate) fn for_each(&self, mut body: impl FnMut(u16, Word)) {
        match self {
            Words::One(position, word) => body(*position, *word),
            _ => self.iter().for_each(|(position, word)| body(position, word)),
        }
    }

    /// Hands each row's word to `other`, and keeps the word that it returns instead.
    #[inline]
    pub(crate) fn exchange(&mut self, mut other: impl FnMut(u16, Word) -> Word) {
        match self {
            Words::None => {}
            Words::One(position, word) => *word = other(*position, *word),
            Words::Held(held) => {
                for (position, word) in held.positions.iter().zip(&mut held.words) {
                    *word = other(*position, *word);
                }
            }
            Words::Spilled(spilled) => spilled.exchange(other),
        }
    }
}

impl Held {
    #[inline]
    fn set(&mut self, position: u16, word: Word) -> Option<Word> {
        let index = match find(&self.positions, position) {
            Ok(index) => return Some(std::mem::replace(&mut self.words[index], word)),
            Err(index) => index,
        };
        let length = self.positions.len();
        if length == self.words.capacity() {
            // Grows by half, so that little of a large transaction's memory is spare.
            let more = (length / 2).max(4);
            self.positions.reserve_exact(more);
            self.words.reserve_exact(more);
        }
        self.positions.insert(index, position);
        self.words.insert(index, word);
        None
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
