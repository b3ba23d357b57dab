//! A walk over the entries of an index beside a model of it: from any bound, in both directions,
//! back and forth.

use super::keyed::{Entry, Kind, brief, step};
use perdura_engine::{Direction, IndexScan, Session};
use perdura_pmem::sim::Random;
use std::ops::Bound;

/// Where a walk stands: the entries before and behind it in the order of keys. On an entry these
/// are its neighbours.
#[derive(Clone, Copy)]
struct Place {
    below: isize,
    above: isize,
}

/// A scan and the entries that it must find.
pub struct Walk {
    scan: IndexScan,
    entries: Vec<Entry>,
    place: Place,
    /// Entries of the range that is walked, and those below it.
    end: usize,
    direction: Direction,
    hint: String,
}

impl Walk {
    /// A walk over the entries that a scan must find.
    pub fn new(scan: IndexScan, entries: Vec<Entry>, hint: String) -> Walk {
        let end = entries.len();
        Walk { scan, entries, place: Place { below: -1, above: 0 }, end, direction: Direction::Forward, hint }
    }

    /// Seeks a random bound, or the beginning of a random range.
    pub fn seek_any(&mut self, session: &Session, kind: Kind, random: &mut Random, bound: u64) {
        let mut key = self.any_key(kind, random, bound);
        if random.one_in(3) {
            let mut end = self.any_key(kind, random, bound);
            if end < key {
                std::mem::swap(&mut key, &mut end);
            }
            return self.seek_range(session, any_bound(&key, random), any_bound(&end, random));
        }
        let direction = if random.one_in(2) { Direction::Forward } else { Direction::Backward };
        self.seek(session, any_bound(&key, random), direction);
    }

    /// The key of an entry, its beginning, or any key.
    fn any_key(&self, kind: Kind, random: &mut Random, bound: u64) -> Vec<u8> {
        match random.below(3) {
            0 if !self.entries.is_empty() => {
                let mut key = self.entries[random.below(self.entries.len() as u64) as usize].0.clone();
                if random.one_in(4) {
                    key.truncate(random.below(key.len() as u64) as usize);
                }
                key
            }
            _ => kind.bound(random, bound),
        }
    }

    /// Seeks the beginning of a range, which does not end before it begins.
    pub fn seek_range(&mut self, session: &Session, from: Bound<&[u8]>, to: Bound<&[u8]>) {
        self.scan.seek_range(session, from, to).unwrap_or_else(|error| panic!("{}: {error}", self.hint));
        let begin = match from {
            Bound::Unbounded => 0,
            Bound::Included(bound) => self.count_below(bound, false),
            Bound::Excluded(bound) => self.count_below(bound, true),
        };
        let end = match to {
            Bound::Unbounded => self.entries.len(),
            Bound::Included(bound) => self.count_below(bound, true),
            Bound::Excluded(bound) => self.count_below(bound, false),
        };
        self.put_at(begin, end.max(begin), Direction::Forward);
    }

    fn put_at(&mut self, gap: usize, end: usize, direction: Direction) {
        self.place = Place { below: gap as isize - 1, above: gap as isize };
        (self.end, self.direction) = (end, direction);
    }

    /// Entries below a bound; with `or_at`, or beginning with it.
    fn count_below(&self, bound: &[u8], or_at: bool) -> usize {
        let is_below = |key: &[u8]| key < bound || (or_at && key.starts_with(bound));
        self.entries.iter().filter(|(key, _)| is_below(key)).count()
    }

    /// Seeks.
    pub fn seek(&mut self, session: &Session, from: Bound<&[u8]>, direction: Direction) {
        self.scan.seek(session, from, direction).unwrap_or_else(|error| panic!("{}: {error}", self.hint));
        let gap = match (from, direction) {
            (Bound::Unbounded, Direction::Forward) => 0,
            (Bound::Unbounded, Direction::Backward) => self.entries.len(),
            (Bound::Included(bound), Direction::Forward) | (Bound::Excluded(bound), Direction::Backward) => {
                self.count_below(bound, false)
            }
            (Bound::Excluded(bound), Direction::Forward) | (Bound::Included(bound), Direction::Backward) => {
                self.count_below(bound, true)
            }
        };
        self.put_at(gap, self.entries.len(), direction);
    }

    /// One step on, in the direction of the seek.
    pub fn on(&mut self, session: &Session) -> bool {
        self.step(session, self.direction)
    }

    /// One step back. There must have been a step on that found an entry.
    pub fn back(&mut self, session: &Session) -> bool {
        let other = if self.direction == Direction::Forward { Direction::Backward } else { Direction::Forward };
        self.step(session, other)
    }

    fn step(&mut self, session: &Session, direction: Direction) -> bool {
        let forward = direction == Direction::Forward;
        let found = step(&mut self.scan, session, direction).unwrap_or_else(|error| panic!("{}: {error}", self.hint));
        let at = if forward { self.place.above } else { self.place.below };
        let at = at.clamp(-1, self.end as isize);
        let expected = usize::try_from(at).ok().filter(|at| *at < self.end).and_then(|at| self.entries.get(at));
        let found = found.map(|rid| (self.scan.key().to_vec(), rid));
        let text = |entry: Option<&Entry>| {
            entry.map_or("nothing".into(), |(key, rid)| format!("{} of row {:#x}", brief(key), rid.to_u64()))
        };
        assert!(
            expected == found.as_ref(),
            "{}, {} at {at} of {}: must be {}, is {}",
            self.hint,
            if forward { "forward" } else { "backward" },
            self.entries.len(),
            text(expected),
            text(found.as_ref())
        );
        self.place = Place { below: at - 1, above: at + 1 };
        expected.is_some()
    }

    /// Goes on to the end.
    pub fn finish(&mut self, session: &Session) {
        while self.on(session) {}
    }

    /// Some steps here and there, the first one on. Ends early at either end.
    pub fn stroll(&mut self, session: &Session, random: &mut Random, steps: u64) {
        let mut going = self.on(session);
        for _ in 0..random.below(steps) {
            if !going {
                break;
            }
            going = if random.one_in(3) { self.back(session) } else { self.on(session) };
        }
    }
}

fn any_bound<'k>(key: &'k [u8], random: &mut Random) -> Bound<&'k [u8]> {
    match random.below(7) {
        0 => Bound::Unbounded,
        1..=3 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}
