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
    direction: Direction,
    hint: String,
}

impl Walk {
    /// A walk over the entries that a scan must find.
    pub fn new(scan: IndexScan, entries: Vec<Entry>, hint: String) -> Walk {
        Walk { scan, entries, place: Place { below: -1, above: 0 }, direction: Direction::Forward, hint }
    }

    /// Seeks a random bound.
    pub fn seek_any(&mut self, session: &Session, kind: Kind, random: &mut Random, bound: u64) {
        let key = match random.below(3) {
            // The key of an entry, or its beginning.
            0 if !self.entries.is_empty() => {
                let mut key = self.entries[random.below(self.entries.len() as u64) as usize].0.clone();
                if random.one_in(4) {
                    key.truncate(random.below(key.len() as u64) as usize);
                }
                key
            }
            _ => kind.bound(random, bound),
        };
        let from = match random.below(7) {
            0 => Bound::Unbounded,
            1..=3 => Bound::Included(key.as_slice()),
            _ => Bound::Excluded(key.as_slice()),
        };
        let direction = if random.one_in(2) { Direction::Forward } else { Direction::Backward };
        self.seek(session, from, direction);
    }

    /// Seeks.
    pub fn seek(&mut self, session: &Session, from: Bound<&[u8]>, direction: Direction) {
        self.scan.seek(session, from, direction).unwrap_or_else(|error| panic!("{}: {error}", self.hint));
        let begins = |key: &[u8], bound: &[u8]| key.starts_with(bound);
        let count = |is_below: &dyn Fn(&[u8]) -> bool| self.entries.iter().filter(|(key, _)| is_below(key)).count();
        let gap = match (from, direction) {
            (Bound::Unbounded, Direction::Forward) => 0,
            (Bound::Unbounded, Direction::Backward) => self.entries.len(),
            (Bound::Included(bound), Direction::Forward) | (Bound::Excluded(bound), Direction::Backward) => {
                count(&|key| key < bound)
            }
            (Bound::Excluded(bound), Direction::Forward) | (Bound::Included(bound), Direction::Backward) => {
                count(&|key| key < bound || begins(key, bound))
            }
        };
        self.place = Place { below: gap as isize - 1, above: gap as isize };
        self.direction = direction;
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
        let at = at.clamp(-1, self.entries.len() as isize);
        let expected = usize::try_from(at).ok().and_then(|at| self.entries.get(at));
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
