//! Prefetches of a scan of an index ahead of its reads: the words of the next rows, and the
//! versions that those name. Each row is a miss of the cache for either, and they overlap.

use crate::format::{VERSION_HEADER, Word};
use perdura_pmem::LINE_BYTES;
use std::ops::Range;

/// How many entries ahead a forward scan asks for the words of their rows, and for the versions
/// that those name.
const WORDS_AHEAD: usize = 8;
const ROWS_AHEAD: usize = 4;

/// The row that is read now, and the entries whose turn it is to be asked for.
pub(super) struct Turn {
    /// The word of the row that is read now, if it was looked up ahead.
    pub word: Option<Word>,
    /// Entries whose words are to be asked for.
    pub words: Range<usize>,
    /// Entries whose words are to be looked up, and the versions asked for that they name.
    pub rows: Range<usize>,
}

/// Prefetches of a scan ahead of its reads, by the positions of entries in the scan's page. It asks
/// for more with each row, so that a scan of a few rows brings none for nothing. A word that was
/// looked up ahead is the one that the scan's snapshot sees, and stays that as long as the snapshot
/// is held and the transaction itself writes nothing.
pub(super) struct RowsAhead {
    /// The entry whose row is read next, if the scan goes on forward.
    next: usize,
    /// Rows read since it began to.
    read: usize,
    /// Entries of the page for whose words it has asked.
    words: usize,
    /// Entries of the page whose words it has looked up.
    rows: usize,
    /// The words of the last of these, each at its entry's position modulo their number.
    found: [Word; WORDS_AHEAD],
    /// Bytes that were read of the version before: of the next ones mostly as many are.
    version_bytes: u64,
}

impl RowsAhead {
    /// Nothing is read so far.
    pub(super) fn new() -> RowsAhead {
        let found = [Word::EMPTY; WORDS_AHEAD];
        RowsAhead { next: 0, read: 0, words: 0, rows: 0, found, version_bytes: LINE_BYTES }
    }

    /// The scan goes elsewhere.
    pub(super) fn stop(&mut self) {
        (self.next, self.read, self.words, self.rows) = (0, 0, 0, 0);
    }

    /// The page goes: nothing is known of the entries of another.
    pub(super) fn leave_page(&mut self) {
        (self.next, self.words, self.rows) = (usize::MAX, 0, 0);
    }

    /// Goes on in another page, at `next`.
    pub(super) fn start_page(&mut self, next: usize) {
        self.leave_page();
        self.next = next;
    }

    /// The row of entry `at` is read now, of a page of so many `entries`.
    #[inline]
    pub(super) fn pass(&mut self, at: usize, entries: usize) -> Turn {
        if at != self.next {
            self.stop();
        }
        let word = (at < self.rows).then(|| self.found[at % WORDS_AHEAD]);
        (self.next, self.read) = (at + 1, self.read + 1);
        let end = |most: usize| (at + 1 + most).min(entries);
        let words = self.words.max(at + 1)..end(WORDS_AHEAD.min(self.read - 1));
        let rows = self.rows.max(at + 1)..end(ROWS_AHEAD.min((self.read - 1) / 2));
        (self.words, self.rows) = (self.words.max(words.end), self.rows.max(rows.end));
        Turn { word, words, rows }
    }

    /// Keeps the word of the row of an entry in [`Turn::rows`].
    #[inline]
    pub(super) fn found(&mut self, entry: usize, word: Word) {
        self.found[entry % WORDS_AHEAD] = word;
    }

    /// Bytes to be asked for of each version.
    #[inline]
    pub(super) fn version_bytes(&self) -> u64 {
        self.version_bytes
    }

    /// Notes how many bytes of a row were read.
    #[inline]
    pub(super) fn note_bytes(&mut self, bytes: usize) {
        self.version_bytes = VERSION_HEADER + bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries for whose words, and for whose versions, a scan of `entries` from `from` on has
    /// asked when it came to each. Those that were looked up are known when their turn comes.
    fn asked(ahead: &mut RowsAhead, from: usize, to: usize, entries: usize) -> [Vec<usize>; 2] {
        let (mut words, mut rows) = (Vec::new(), Vec::new());
        for at in from..to {
            let turn = ahead.pass(at, entries);
            assert_eq!(turn.word, rows.contains(&at).then_some(Word(at as u64)), "entry {at}");
            turn.rows.clone().for_each(|entry| ahead.found(entry, Word(entry as u64)));
            words.extend(turn.words);
            rows.extend(turn.rows);
        }
        [words, rows]
    }

    #[test]
    fn a_scan_asks_once_for_each_entry_and_a_short_one_for_few() {
        let mut ahead = RowsAhead::new();
        assert_eq!(asked(&mut ahead, 0, 1, 50), [vec![], vec![]], "one row");
        assert_eq!(asked(&mut ahead, 1, 2, 50), [vec![2], vec![]]);
        let [words, rows] = asked(&mut ahead, 2, 50, 50);
        assert_eq!(words, (3..50).collect::<Vec<_>>());
        assert!(rows.is_sorted() && rows.iter().all(|row| words.contains(row)), "{rows:?}");
        assert_eq!(*rows.last().expect("rows"), 49);
        ahead.start_page(0);
        let [words, _] = asked(&mut ahead, 0, 50, 50);
        assert_eq!(words, (1..50).collect::<Vec<_>>(), "the next page");
        assert_eq!(asked(&mut ahead, 7, 8, 50), [vec![], vec![]], "elsewhere it begins anew");
    }

    /// Hazard: a word that was looked up for another page, or before a jump, is taken for that of
    /// the entry at its position.
    #[test]
    fn words_of_another_page_are_not_used() {
        let mut ahead = RowsAhead::new();
        asked(&mut ahead, 0, 20, 50);
        ahead.start_page(20);
        asked(&mut ahead, 20, 30, 50);
        ahead.leave_page();
        asked(&mut ahead, 30, 40, 50);
        asked(&mut ahead, 39, 45, 50);
        ahead.stop();
        asked(&mut ahead, 0, 10, 50);
    }
}
