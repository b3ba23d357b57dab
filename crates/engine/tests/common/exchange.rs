//! Sessions that exchange the keys of rows, so that what every snapshot must see of the indexes is
//! known beforehand.

use super::keyed::{Fields, Keyed, Kind, is_conflict, step};
use perdura_engine::{Direction, Engine, Error, ErrorKind, Isolation, LockMode, ReadView, Rid, Session};
use perdura_pmem::sim::Random;
use perdura_pmem::sync::yield_now;
use std::ops::Bound;

/// Numbers of a place and of the gap behind it.
const WIDTH: u64 = 32;
/// Numbers of a place.
const OWN: u64 = 4;
/// One place in so many is left alone.
const STILL: u64 = 4;
/// Groups of the rows in places; those in gaps have another.
const GROUPS: u64 = 4;
const GROUP_OF_GAPS: u32 = 9;

/// A table of places.
///
/// Each *place* is a range of numbers, and has one row at every moment between two commits: rows
/// exchange their numbers, move within their place and back, or are deleted and inserted anew with
/// their number, each in one transaction. The numbers between the places come and go in bursts, so
/// that leaves split, empty and are packed. Some places nobody touches: whoever reads the newest
/// entries, step by step, meets each of those once, whatever happens around them.
pub struct Exchange {
    /// The table.
    pub keyed: Keyed,
    places: u64,
}

fn place_of(number: u64) -> Option<u64> {
    (number % WIDTH < OWN).then_some(number / WIDTH)
}

fn number_of(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().expect("eight bytes"))
}

/// A row of a place or a gap.
fn fields(number: u64, group: u32) -> Fields {
    Fields { number, group, name: 1 + number as u32, ..Fields::default() }
}

impl Exchange {
    /// A table with a row in each of `places`.
    pub fn create(engine: &Engine, name: &str, places: u64, kinds: &[Kind]) -> Exchange {
        let keyed = Keyed::create(engine, name, kinds);
        let rows = (0..places).map(|place| fields(place * WIDTH, (place % GROUPS) as u32));
        super::keyed::fill(engine, &keyed, rows);
        Exchange { keyed, places }
    }

    /// A place that is not left alone.
    fn some_place(&self, random: &mut Random) -> u64 {
        loop {
            let place = random.below(self.places);
            if !place.is_multiple_of(STILL) {
                return place;
            }
        }
    }

    /// Finds the row of a place in the newest entries or the snapshot, and locks it. `None` if it
    /// has moved or gone by then.
    fn lock_place(&self, txn: &mut Session, place: u64, view: ReadView) -> Result<Option<(Rid, Fields)>, Error> {
        let index = self.keyed.index_of(Kind::Number);
        let mut scan = txn.index(&self.keyed.table, index).scan(view);
        scan.seek(txn, Bound::Included(&(place * WIDTH).to_be_bytes()), Direction::Forward)?;
        let Some(rid) = scan.next(txn)? else { return Ok(None) };
        let number = number_of(scan.key());
        txn.locks().lock_row(&self.keyed.table, rid, LockMode::Exclusive)?;
        let Some(row) = txn.read(&self.keyed.table, rid, ReadView::Newest)? else { return Ok(None) };
        // SAFETY: the row is locked, and copied before anything else happens.
        let found = Fields::of_row(unsafe { row.bytes() });
        Ok((found.number == number && place_of(number) == Some(place)).then_some((rid, found)))
    }

    /// Runs transactions, each of which leaves one row in each place. Returns how many have
    /// committed.
    pub fn take_part(&self, txn: &mut Session, transactions: u32, isolation: Isolation, random: &mut Random) -> u32 {
        let view = if isolation == Isolation::ReadCommitted { ReadView::Newest } else { ReadView::Snapshot };
        let mut committed = 0;
        for _ in 0..transactions {
            txn.start_statement();
            let outcome =
                (0..1 + random.below(2)).try_fold(true, |going, _| Ok(going && self.change(txn, view, random)?));
            txn.end_statement();
            let is_whole = outcome.unwrap_or_else(|error: Error| {
                let may_be = is_conflict(&error) || matches!(error.kind(), ErrorKind::TableFull | ErrorKind::NotFound);
                assert!(may_be, "{error}");
                false
            });
            if !is_whole || txn.is_read_only() || random.one_in(6) {
                txn.rollback().unwrap();
                continue;
            }
            txn.commit().unwrap_or_else(|error| panic!("{error}"));
            committed += 1;
        }
        committed
    }

    /// One change that leaves a row in each place. False if a row was not found as it was sought.
    fn change(&self, txn: &mut Session, view: ReadView, random: &mut Random) -> Result<bool, Error> {
        let place = self.some_place(random);
        let Some((rid, row)) = self.lock_place(txn, place, view)? else { return Ok(false) };
        match random.below(8) {
            0..3 => {
                let other = self.some_place(random);
                let Some((other_rid, other_row)) = self.lock_place(txn, other, view)? else { return Ok(false) };
                if other == place {
                    return Ok(true);
                }
                // The numbers of the two, by way of one that is nobody's.
                let aside = fields(u64::MAX - txn.id(), row.group);
                let mark = random.one_in(3).then(|| txn.savepoint());
                self.keyed.update(txn, rid, &aside.row())?;
                if let Some(mark) = mark {
                    txn.rollback_to(&mark)?;
                    self.keyed.update(txn, rid, &aside.row())?;
                }
                self.keyed.update(txn, other_rid, &fields(row.number, other_row.group).row())?;
                self.keyed.update(txn, rid, &fields(other_row.number, row.group).row())?;
            }
            3 | 4 => {
                self.keyed.delete(txn, rid)?;
                self.keyed.insert(txn, &row.row())?;
            }
            5 => {
                // There and back again, perhaps farther next time.
                let far = fields(place * WIDTH + random.below(OWN), row.group);
                self.keyed.update(txn, rid, &far.row())?;
                if random.one_in(2) {
                    self.keyed.update(txn, rid, &row.row())?;
                }
            }
            6 => {
                let mark = txn.savepoint();
                self.keyed.delete(txn, rid)?;
                let again = self.keyed.insert(txn, &fields(place * WIDTH + random.below(OWN), row.group).row())?;
                self.keyed.delete(txn, again)?;
                txn.rollback_to(&mark)?;
            }
            _ => self.keyed.update(txn, rid, &fields(place * WIDTH + random.below(OWN), row.group).row())?,
        }
        Ok(true)
    }

    /// Fills gaps and empties them again.
    pub fn come_and_go(&self, txn: &mut Session, rounds: u32, random: &mut Random) {
        for _ in 0..rounds {
            let first = random.below(self.places);
            let mut came = Vec::new();
            let mut insert = |txn: &mut Session| -> Result<(), Error> {
                for place in first..(first + 6).min(self.places) {
                    for number in place * WIDTH + OWN..place * WIDTH + OWN + 6 + random.below(8) {
                        came.push(self.keyed.insert(txn, &fields(number, GROUP_OF_GAPS).row())?);
                    }
                }
                Ok(())
            };
            if insert(txn).is_err() {
                txn.rollback().unwrap();
                continue;
            }
            txn.commit().unwrap_or_else(|error| panic!("{error}"));
            for some in came.chunks(20) {
                if some.iter().try_for_each(|rid| self.keyed.delete(txn, *rid)).is_err() {
                    txn.rollback().unwrap();
                } else {
                    txn.commit().unwrap_or_else(|error| panic!("{error}"));
                }
            }
        }
    }

    /// Walks over both indexes at one snapshot, slowly, in one direction or the other.
    pub fn look(&self, engine: &Engine, random: &mut Random) {
        let repeatable = random.one_in(2);
        let mut txn = engine.session(if repeatable { Isolation::RepeatableRead } else { Isolation::ReadCommitted });
        txn.start_statement();
        let first = self.places_seen(&mut txn, random);
        let again = self.places_seen(&mut txn, random);
        assert_eq!(first, again, "the two directions");
        if repeatable {
            txn.end_statement();
            (0..random.below(20)).for_each(|_| yield_now());
            txn.start_statement();
            assert_eq!(first, self.places_seen(&mut txn, random), "a snapshot has moved");
        }
        for (number, rid) in &first {
            let found = txn
                .index(&self.keyed.table, self.keyed.index_of(Kind::Number))
                .find(&number.to_be_bytes(), ReadView::Snapshot);
            assert_eq!(found.unwrap(), Some(*rid), "number {number}");
        }
        txn.end_statement();
    }

    /// The numbers of the places and their rows, in order, as a slow walk at the snapshot meets
    /// them.
    fn places_seen(&self, txn: &mut Session, random: &mut Random) -> Vec<(u64, Rid)> {
        let direction = if random.one_in(2) { Direction::Forward } else { Direction::Backward };
        let mut groups = vec![0; GROUPS as usize];
        let mut scan = txn.index(&self.keyed.table, self.keyed.index_of(Kind::Group)).scan(ReadView::Snapshot);
        scan.seek(txn, Bound::Unbounded, direction).unwrap();
        while step(&mut scan, txn, direction).unwrap().is_some() {
            let group = u32::from_be_bytes(scan.key().try_into().expect("four bytes"));
            if group != GROUP_OF_GAPS {
                groups[group as usize] += 1;
            }
            yield_sometimes(random);
        }
        let even = self.places / GROUPS;
        assert!(groups.iter().all(|count| *count == even), "{direction:?}: {groups:?} rows in groups of {even}");
        let mut scan = txn.index(&self.keyed.table, self.keyed.index_of(Kind::Number)).scan(ReadView::Snapshot);
        scan.seek(txn, Bound::Unbounded, direction).unwrap();
        let mut seen = Vec::new();
        while let Some(rid) = step(&mut scan, txn, direction).unwrap() {
            let number = number_of(scan.key());
            seen.extend(place_of(number).map(|_| (number, rid)));
            yield_sometimes(random);
        }
        if direction == Direction::Backward {
            seen.reverse();
        }
        let places: Vec<u64> = seen.iter().filter_map(|(number, _)| place_of(*number)).collect();
        assert_eq!(places, (0..self.places).collect::<Vec<_>>(), "{direction:?}: the places");
        seen
    }

    /// Walks the newest entries. Mostly each step is a statement of its own that seeks beyond the
    /// last entry, as HANDLER does. Places left alone are met exactly once, and all entries in
    /// order.
    pub fn walk_newest(&self, engine: &Engine, random: &mut Random) {
        let direction = if random.one_in(2) { Direction::Forward } else { Direction::Backward };
        let mut txn = engine.session(Isolation::ReadCommitted);
        let (mut last, mut still): (Vec<u8>, Vec<u64>) = (Vec::new(), Vec::new());
        let in_one = random.one_in(3);
        txn.start_statement();
        let mut scan = txn.index(&self.keyed.table, self.keyed.index_of(Kind::Number)).scan(ReadView::Newest);
        scan.seek(&txn, Bound::Unbounded, direction).unwrap();
        while step(&mut scan, &txn, direction).unwrap().is_some() {
            let entry = scan.entry().to_vec();
            let goes_on = last.is_empty() || (entry > last) == (direction == Direction::Forward) && entry != last;
            assert!(goes_on, "{direction:?}: {entry:?} behind {last:?}");
            let number = number_of(scan.key());
            still.extend(place_of(number).filter(|place| place.is_multiple_of(STILL)));
            last = entry;
            if in_one && random.one_in(4) {
                scan.refresh(&txn).unwrap();
            } else if !in_one {
                txn.end_statement();
                yield_sometimes(random);
                txn.start_statement();
                scan = txn.index(&self.keyed.table, self.keyed.index_of(Kind::Number)).scan(ReadView::Newest);
                scan.seek(&txn, Bound::Excluded(&last), direction).unwrap();
            }
            yield_sometimes(random);
        }
        txn.end_statement();
        if direction == Direction::Backward {
            still.reverse();
        }
        let all: Vec<u64> = (0..self.places).filter(|place| place.is_multiple_of(STILL)).collect();
        assert_eq!(still, all, "{direction:?}, in one statement: {in_one}: what is left alone");
    }

    /// Compares indexes and rows, once nobody writes any more, and looks for the row of each place.
    pub fn check(&self, engine: &Engine) {
        let rows = self.keyed.check(engine);
        let mut places: Vec<u64> = rows.values().filter_map(|row| place_of(Fields::of_row(row).number)).collect();
        places.sort_unstable();
        assert_eq!(places, (0..self.places).collect::<Vec<_>>(), "the places at the end");
    }
}

fn yield_sometimes(random: &mut Random) {
    if random.one_in(8) {
        yield_now();
    }
}
