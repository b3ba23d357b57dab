//! Looks of a scan of an index ahead of its reads: at the words of the next rows, and for the
//! versions that those name. Each row is a miss of the cache for either, and they overlap.

use crate::format::{VERSION_HEADER, Word};
use perdura_pmem::LINE_BYTES;
use std::ops::Range;

/// Most rows that a scan looks ahead at once.
pub(super) const CHUNK: usize = 8;

/// The words of two chunks are kept: of one that is being read, and of the next.
const KEPT: usize = 2 * CHUNK;

/// How the rows are used that a scan comes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The scan reads them as its snapshot sees them, by the words that were looked up.
    Scanned,
    /// The caller locks or reads them: the newest words only say what to ask for.
    Named,
}

/// The entries whose turn it is.
pub(super) struct Turn {
    /// Entries whose words are to be looked up, and the versions asked for that they name; at most
    /// [`CHUNK`].
    pub rows: Range<usize>,
    /// Entries whose words are to be asked for.
    pub words: Range<usize>,
}

/// How far a scan has looked ahead of its reads, by the positions of entries in its page. It looks
/// at the next rows by chunks, which grow from one row on, so that a scan of a few rows asks for
/// little in vain. A word that was looked up ahead is the one that the scan's snapshot sees, and
/// stays that as long as the snapshot is held and the transaction itself writes nothing.
pub(super) struct RowsAhead {
    /// The entry whose row is read next, if the scan goes on forward.
    next: usize,
    /// How the rows are used whose words were looked up.
    use_of_rows: Use,
    /// The entry at which it looks ahead again.
    turn: usize,
    /// Rows of the next chunk.
    chunk: usize,
    /// Entries of the page for whose words it has asked.
    words: usize,
    /// Entries of the page whose words it has looked up.
    rows: usize,
    /// The words of the last of these, each at its entry's position modulo their number.
    found: [Word; KEPT],
    /// Bytes that were read of the version before: of the next ones mostly as many are.
    version_bytes: u64,
}

impl RowsAhead {
    /// Nothing is read so far.
    pub(super) fn new() -> RowsAhead {
        let found = [Word::EMPTY; KEPT];
        RowsAhead {
            next: usize::MAX,
            use_of_rows: Use::Scanned,
            turn: 0,
            chunk: 0,
            words: 0,
            rows: 0,
            found,
            version_bytes: LINE_BYTES,
        }
    }

    /// The scan goes elsewhere.
    pub(super) fn stop(&mut self) {
        self.leave_page();
        self.chunk = 0;
    }

    /// The page goes: nothing is known of the entries of another.
    pub(super) fn leave_page(&mut self) {
        (self.next, self.turn, self.words, self.rows) = (usize::MAX, 0, 0, 0);
    }

    /// Goes on at the beginning of another page.
    pub(super) fn start_page(&mut self) {
        self.leave_page();
        self.next = 0;
    }

    /// The scan comes to the row of entry `at`. Returns whether it is to look ahead first.
    #[inline]
    pub(super) fn pass(&mut self, at: usize, use_of_rows: Use) -> bool {
        // A scan that goes backward, or ends with its first row, never looks ahead.
        let goes_on = at == self.next && use_of_rows == self.use_of_rows;
        if !goes_on {
            self.stop();
            self.use_of_rows = use_of_rows;
        }
        self.next = at + 1;
        goes_on && at >= self.turn
    }

    /// Takes the turn of entry `at`, of a page of so many `entries`.
    pub(super) fn take_turn(&mut self, at: usize, entries: usize) -> Turn {
        // Where nothing was asked for, the first words are looked up as they come.
        let known = if self.words > at { self.words } else { (at + self.chunk).min(entries) };
        let rows = self.rows.max(at)..known;
        self.chunk = (2 * self.chunk).clamp(1, CHUNK);
        let words = self.words.max(known).max(at + 1)..(known.max(at + 1) + self.chunk).min(entries);
        (self.rows, self.words) = (rows.end.max(self.rows), words.end.max(self.words));
        self.turn = (at + 1).max(self.rows.saturating_sub(self.chunk / 2));
        Turn { rows, words }
    }

    /// The word of the row of entry `at`, if it was looked up ahead.
    #[inline]
    pub(super) fn word(&self, at: usize) -> Option<Word> {
        (at < self.rows).then(|| self.found[at % KEPT])
    }

    /// Keeps the words of the rows of entries from `first` on, those in [`Turn::rows`].
    pub(super) fn keep(&mut self, first: usize, words: &[Word]) {
        for (entry, word) in (first..).zip(words) {
            self.found[entry % KEPT] = *word;
        }
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

    /// The entries at which a scan of `entries` from `from` on has looked ahead, and those for
    /// whose words it has asked, up to entry `to`. The word of each is its entry's position.
    fn asked(ahead: &mut RowsAhead, from: usize, to: usize, entries: usize) -> [Vec<usize>; 2] {
        let (mut words, mut rows) = (Vec::new(), Vec::new());
        for at in from..to {
            if ahead.pass(at, Use::Scanned) {
                let turn = ahead.take_turn(at, entries);
                assert!(turn.rows.len() <= CHUNK && turn.words.len() <= CHUNK, "{at}");
                let found: Vec<_> = turn.rows.clone().map(|entry| Word(entry as u64)).collect();
                ahead.keep(turn.rows.start, &found);
                words.extend(turn.words);
                rows.extend(turn.rows);
            }
            assert_eq!(ahead.word(at), rows.contains(&at).then_some(Word(at as u64)), "entry {at}");
        }
        [rows, words]
    }

    #[test]
    fn a_scan_asks_once_for_each_entry_and_a_short_one_for_few() {
        let mut ahead = RowsAhead::new();
        assert_eq!(asked(&mut ahead, 0, 1, 50), [vec![], vec![]], "one row");
        assert_eq!(asked(&mut ahead, 1, 2, 50), [vec![], vec![2]], "two");
        let [rows, words] = asked(&mut ahead, 2, 50, 50);
        assert_eq!(words, (3..50).collect::<Vec<_>>());
        assert_eq!(rows, (2..50).collect::<Vec<_>>());
        ahead.start_page();
        let [rows, words] = asked(&mut ahead, 0, 50, 50);
        assert_eq!(rows, (0..50).collect::<Vec<_>>(), "the next page");
        assert_eq!(words, (CHUNK..50).collect::<Vec<_>>());
        assert_eq!(asked(&mut ahead, 7, 8, 50), [vec![], vec![]], "elsewhere it begins anew");
        (0..7).rev().for_each(|at| assert!(!ahead.pass(at, Use::Scanned), "backward, at {at}"));
    }

    /// Hazard: a scan comes to rows whose words it has looked up only just now, or asks for those
    /// that it looks up at once.
    #[test]
    fn words_are_asked_for_well_before_they_are_looked_up() {
        let mut ahead = RowsAhead::new();
        asked(&mut ahead, 0, 16, 200);
        for at in 16..180 {
            if ahead.pass(at, Use::Scanned) {
                let turn = ahead.take_turn(at, 200);
                assert!(turn.rows.start >= at + CHUNK / 2, "{at}: {:?}", turn.rows);
                assert!(turn.words.start >= at + CHUNK, "{at}: {:?}", turn.words);
            }
        }
    }

    /// Hazard: a word that was looked up for another page, or before a jump, is taken for that of
    /// the entry at its position.
    #[test]
    fn words_of_another_page_are_not_used() {
        let mut ahead = RowsAhead::new();
        asked(&mut ahead, 0, 20, 50);
        ahead.start_page();
        asked(&mut ahead, 0, 30, 50);
        ahead.leave_page();
        asked(&mut ahead, 30, 40, 50);
        asked(&mut ahead, 39, 45, 50);
        ahead.stop();
        asked(&mut ahead, 0, 10, 50);
    }
}
