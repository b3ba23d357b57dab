//! Undo records: stored changes of commits in a page, for older snapshots and for purge.
//!
//! An undo record is of one commit, or of several that no snapshot tells apart. Then it has for
//! each row the word before the first of them: nobody reads the words in between. They are free
//! once a durable checkpoint covers all of them (I8), so nothing later is merged.

use super::row_set::RowSet;
use super::words::Words;
use crate::format::Word;
use perdura_log::Csn;
use perdura_pmem::Mutant;

/// Words before stored commits in a page. They stay until no snapshot is older and a checkpoint
/// covers the commits (I8).
pub(crate) struct UndoRecord {
    /// CSN of the commit; of several, the last.
    pub csn: Csn,
    /// The rows that were only moved to another place.
    pub moved: RowSet,
    /// Words before the change, of the rows inserted or updated.
    pub before: Words,
    /// The rows deleted; their words still name the last version. A row that was updated first is
    /// in `before` too.
    pub deleted: RowSet,
}

/// Versions that nobody needs any more once undo records are merged.
#[derive(Default)]
pub(crate) struct Superseded {
    /// Versions, and cells of spilled words.
    pub versions: Vec<Word>,
    /// Positions of rows that were inserted and deleted again: no snapshot sees them.
    pub gone: Vec<u16>,
    /// By how many changes there are fewer now.
    pub changes: u64,
}

impl UndoRecord {
    /// The word that the row had before the commit; `None` if the commit did not change the row.
    /// `now` is the word that the commit left.
    #[inline]
    pub(crate) fn before(&self, position: u16, now: Word) -> Option<Word> {
        let before = self.before.get(position);
        before.or_else(|| self.deleted.contains(position).then(|| now.alive()))
    }

    /// Whether the commit changed the row. To move it is no change.
    pub(crate) fn changed(&self, position: u16) -> bool {
        self.deleted.contains(position) || self.before.contains(position) && !self.moved.contains(position)
    }

    /// Number of changes: a row that was both updated and deleted counts twice.
    pub(crate) fn changes(&self) -> usize {
        self.before.len() + self.deleted.len()
    }

    /// Takes in the next undo record of the page, `newer`, which no snapshot tells apart from this
    /// one.
    pub(crate) fn absorb(&mut self, newer: UndoRecord, superseded: &mut Superseded) {
        self.csn = newer.csn;
        let changes = self.changes() + newer.changes();
        for (position, word) in newer.before.iter() {
            if !newer.moved.contains(position) {
                self.moved.remove(position);
            } else if !self.before.contains(position) {
                self.moved.insert(position);
            }
            // Planted: of two merged commits the word before the newer one counts.
            let replaced =
                match self.before.contains(position) && !perdura_pmem::planted(Mutant::MergedHistoryKeepsOlderWord) {
                    true => Some(word),
                    false => {
                        superseded.versions.extend(self.before.hold());
                        self.before.set(position, word)
                    }
                };
            superseded.versions.extend(replaced.filter(|word| !word.is_empty()));
        }
        superseded.versions.extend(newer.before.spilled());
        for position in newer.deleted.iter() {
            if self.before.get(position).is_some_and(Word::is_empty) {
                superseded.versions.extend(self.before.hold());
                self.before.remove(position);
                self.moved.remove(position);
                superseded.gone.push(position);
            } else {
                self.deleted.insert(position);
            }
        }
        superseded.changes += (changes - self.changes()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [Word; 4] = [Word(0), Word(8), Word(16), Word(24)];

    fn undo(csn: Csn, before: &[(u16, Word)], deleted: &[u16]) -> UndoRecord {
        let mut words = Words::default();
        for (position, word) in before {
            words.set(*position, *word);
        }
        let mut rows = RowSet::default();
        for position in deleted {
            rows.insert(*position);
        }
        UndoRecord { csn, moved: RowSet::default(), before: words, deleted: rows }
    }

    #[test]
    fn the_oldest_word_of_each_row_counts() {
        let mut merged = undo(5, &[(1, WORDS[1])], &[7]);
        let mut superseded = Superseded::default();
        merged.absorb(undo(6, &[(0, WORDS[3]), (1, WORDS[2])], &[9]), &mut superseded);
        merged.absorb(undo(8, &[(1, WORDS[3])], &[0]), &mut superseded);
        assert_eq!(merged.csn, 8);
        assert!(merged.before.iter().eq([(0, WORDS[3]), (1, WORDS[1])]));
        assert!(merged.deleted.iter().eq([0, 7, 9]));
        assert_eq!(superseded.versions, [WORDS[2], WORDS[3]]);
        assert!(superseded.gone.is_empty());
        let now = Word::new(0, 512, 0);
        assert_eq!(merged.before(0, now.tombstone()), Some(WORDS[3]), "updated, then deleted");
        assert_eq!(merged.before(7, now.tombstone()), Some(now));
        assert_eq!(merged.before(2, now), None);
        assert!(merged.changed(0) && merged.changed(1) && merged.changed(9) && !merged.changed(2));
    }

    /// Row 1 is moved, row 2 changed and then moved, row 3 moved and then changed.
    #[test]
    fn a_merged_past_tells_moves_from_changes() {
        let moves = |csn, before: &[(u16, Word)]| {
            let mut undo = undo(csn, before, &[]);
            for (position, _) in before {
                undo.moved.insert(*position);
            }
            undo
        };
        let mut merged = moves(5, &[(1, WORDS[1]), (3, WORDS[2])]);
        let mut superseded = Superseded::default();
        merged.absorb(undo(6, &[(2, WORDS[1]), (3, WORDS[1])], &[]), &mut superseded);
        merged.absorb(moves(7, &[(2, WORDS[3]), (4, WORDS[1])]), &mut superseded);
        assert_eq!([1, 2, 3, 4].map(|position| merged.changed(position)), [false, true, true, false]);
    }

    #[test]
    fn a_row_of_no_snapshot_is_gone() {
        let mut merged = undo(5, &[(3, Word::EMPTY)], &[]);
        let mut superseded = Superseded::default();
        merged.absorb(undo(6, &[(3, WORDS[1])], &[]), &mut superseded);
        merged.absorb(undo(7, &[], &[3]), &mut superseded);
        assert_eq!(merged.changes(), 0);
        assert_eq!((superseded.versions, superseded.gone), (vec![WORDS[1]], vec![3]));
    }
}
