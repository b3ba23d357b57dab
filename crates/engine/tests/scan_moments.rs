//! Hazard: what a scan of an index reads is of another moment, of another range, or of another
//! entry than the one where it stands.

use crate::common::keyed::{Fields, Keyed, Kind, config, fill};
use crate::common::walk::Walk;
use perdura_engine::{Direction, Engine, IndexScan, Isolation, OwnWrites, ReadView, Rid, RowRef, ScanBuffers, Session};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn open() -> Engine {
    Engine::open(Arc::new(SimMedium::new()), config()).unwrap()
}

/// A row of a number, told apart from others of that number by its length.
fn row(number: u64, version: usize) -> Vec<u8> {
    Fields { number, padding: version, ..Fields::default() }.row()
}

fn version(row: Option<RowRef>) -> Option<usize> {
    // SAFETY: the statement is not over, and nothing is undone.
    row.map(|row| Fields::of_row(unsafe { row.bytes() }).padding)
}

fn read(scan: &mut IndexScan, txn: &mut Session, own: OwnWrites) -> Option<usize> {
    version(scan.read_row(txn, own).unwrap().map(|(_, row)| row))
}

fn change(engine: &Engine, keyed: &Keyed, rids: &[Rid], version: usize) {
    let mut other = engine.session(Isolation::ReadCommitted);
    rids.iter().zip(0..).for_each(|(rid, number)| keyed.update(&mut other, *rid, &row(number, version)).unwrap());
    other.commit().unwrap();
}

/// Writes rows in several steps, before a scan and while it is open.
fn rows_are_read_as_when_the_scan_began(rows: u64) {
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.start_statement();
    let rids: Vec<Rid> = (0..rows).map(|number| keyed.insert(&mut txn, &row(number, 1)).unwrap()).collect();
    txn.end_statement();
    txn.start_statement();
    rids.iter().skip(5).zip(5..).for_each(|(rid, number)| keyed.update(&mut txn, *rid, &row(number, 2)).unwrap());
    txn.end_statement();
    txn.start_statement();
    rids.iter().skip(10).zip(10..).for_each(|(rid, number)| keyed.update(&mut txn, *rid, &row(number, 4)).unwrap());
    let mut scan = txn.index(&keyed.table, 0).scan(ReadView::Snapshot);
    scan.seek(&txn, Bound::Unbounded, Direction::Forward).unwrap();
    let mut table = txn.scan(&keyed.table);
    for (rid, number) in rids.iter().zip(0..) {
        match number % 3 {
            0 => keyed.update(&mut txn, *rid, &row(number, 3)).unwrap(),
            1 => keyed.delete(&mut txn, *rid).unwrap(),
            _ => {}
        }
    }
    for number in 0..rows {
        assert!(scan.next(&txn).unwrap().is_some(), "{rows} rows: entry {number}");
        let before = match number {
            0..5 => 1,
            5..10 => 2,
            _ => 4,
        };
        let now = [Some(3), None, Some(before)][number as usize % 3];
        assert_eq!(read(&mut scan, &mut txn, OwnWrites::All), now, "{rows} rows: {number}, now");
        let found = read(&mut scan, &mut txn, OwnWrites::BeforeScan);
        assert_eq!(found, Some(before), "{rows} rows: {number}, before the scan");
        let found = version(table.next(&txn).unwrap().map(|(_, row)| row));
        assert_eq!(found, Some(before), "{rows} rows: {number}, by the table");
    }
    txn.end_statement();
}

/// Hazard: a scan that only reads does not see what its transaction wrote before it, once the
/// statement has written the row again.
#[test]
fn rows_written_before_a_scan_are_read_as_they_were_when_it_began() {
    rows_are_read_as_when_the_scan_began(20);
    // Most of these are of a bulk insert.
    rows_are_read_as_when_the_scan_began(200);
}

/// Hazard: the newest words, by which a scan asks ahead for rows that its caller locks, are read as
/// those of the snapshot.
#[test]
fn rows_that_were_named_are_read_at_the_snapshot() {
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
    let rids = fill(&engine, &keyed, (0..60).map(|number| Fields { number, padding: 1, ..Fields::default() }));
    for named in 1..40 {
        change(&engine, &keyed, &rids, 1);
        let mut txn = engine.session(Isolation::RepeatableRead);
        txn.start_statement();
        let mut scan = txn.index(&keyed.table, 0).scan(ReadView::Snapshot);
        scan.seek(&txn, Bound::Unbounded, Direction::Forward).unwrap();
        change(&engine, &keyed, &rids, 2);
        for (rid, place) in rids.iter().zip(0..) {
            assert!(scan.forward(&txn).unwrap());
            if place % 40 < named {
                assert_eq!(scan.rid_to_read(), Some(*rid));
            } else {
                assert_eq!(read(&mut scan, &mut txn, OwnWrites::BeforeScan), Some(1), "{named} named, at {place}");
            }
        }
        txn.end_statement();
    }
}

/// Hazard: a statement reads by the words that a scan of the one before has looked up.
#[test]
fn a_scan_of_an_earlier_statement_shows_nothing_older() {
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
    let rids = fill(&engine, &keyed, (0..60).map(|number| Fields { number, padding: 1, ..Fields::default() }));
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.start_statement();
    let mut scan = txn.index(&keyed.table, 0).scan(ReadView::Snapshot);
    scan.seek(&txn, Bound::Unbounded, Direction::Forward).unwrap();
    for _ in 0..20 {
        scan.forward(&txn).unwrap();
        assert_eq!(read(&mut scan, &mut txn, OwnWrites::BeforeScan), Some(1));
    }
    txn.end_statement();
    change(&engine, &keyed, &rids, 2);
    assert!(scan.seek(&txn, Bound::Unbounded, Direction::Forward).is_err(), "no snapshot keeps purge off");
    txn.start_statement();
    assert_eq!(version(txn.read(&keyed.table, rids[0], ReadView::Snapshot).unwrap()), Some(2));
    let mut scan = {
        let mut old = txn.index(&keyed.table, 0).scan(ReadView::Snapshot);
        old.seek(&txn, Bound::Unbounded, Direction::Forward).unwrap();
        (0..20).for_each(|_| {
            old.forward(&txn).unwrap();
            assert_eq!(read(&mut old, &mut txn, OwnWrites::BeforeScan), Some(2));
        });
        old
    };
    txn.end_statement();
    change(&engine, &keyed, &rids, 3);
    txn.start_statement();
    assert_eq!(version(txn.read(&keyed.table, rids[0], ReadView::Snapshot).unwrap()), Some(3));
    for place in 20..30 {
        scan.forward(&txn).unwrap();
        assert_eq!(read(&mut scan, &mut txn, OwnWrites::BeforeScan), Some(3), "at {place}");
    }
    txn.end_statement();
}

/// Hazard: a range ends too early, or too late, at keys whose last bytes are the greatest.
#[test]
fn ranges_end_behind_the_greatest_keys() {
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
    let numbers = (0..40).flat_map(|step| [u64::MAX - step, (7 << 32) - 1 - step, (7 << 32) + step, 0xff00 + step]);
    let numbers: Vec<u64> = numbers.chain((0..40).map(|step| 0x10_0000 - 1 - step)).collect();
    fill(&engine, &keyed, numbers.iter().map(|number| Fields { number: *number, ..Fields::default() }));
    let rows = keyed.check(&engine);
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.start_statement();
    let scan = txn.index(&keyed.table, 0).scan(ReadView::Snapshot);
    let mut walk = Walk::new(scan, keyed.expected(0, &rows), "greatest".into());
    let mut random = Random::new(1);
    for number in numbers {
        let key = number.to_be_bytes();
        for length in 0..=8 {
            for to in [Bound::Included(&key[..length]), Bound::Excluded(&key[..length])] {
                walk.seek_range(&txn, Bound::Unbounded, to);
                walk.finish(&txn);
                walk.back(&txn);
                walk.seek_range(&txn, Bound::Included(&key[..length]), Bound::Included(&key[..length]));
                walk.finish(&txn);
                walk.seek(&txn, to, Direction::Backward);
                walk.stroll(&txn, &mut random, 5);
            }
        }
    }
    txn.end_statement();
}

/// Hazard: words that are looked up together are of different moments, beside commits that change
/// all the rows at once.
#[test]
fn rows_that_are_looked_up_together_are_of_one_snapshot() {
    const ROWS: u64 = 48;
    const TURNS: usize = 4000;
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
    let rids = fill(&engine, &keyed, (0..ROWS).map(|number| Fields { number, padding: 1, ..Fields::default() }));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut txn = engine.session(Isolation::ReadCommitted);
            for turn in 0..TURNS {
                let rows = rids.iter().zip(0..);
                rows.for_each(|(rid, number)| keyed.update(&mut txn, *rid, &row(number, turn % 40)).unwrap());
                txn.commit().unwrap();
                if turn % 50 == 0 {
                    engine.checkpoint().unwrap();
                    engine.purge();
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut txn = engine.session(Isolation::RepeatableRead);
                let mut buffers = ScanBuffers::default();
                while !is_over.load(Ordering::Relaxed) {
                    txn.start_statement();
                    let mut scan = txn.index(&keyed.table, 0).scan_with(ReadView::Snapshot, buffers);
                    scan.seek(&txn, Bound::Unbounded, Direction::Forward).unwrap();
                    let mut versions = Vec::new();
                    while scan.forward(&txn).unwrap() {
                        versions.extend(read(&mut scan, &mut txn, OwnWrites::BeforeScan));
                    }
                    assert!(versions.len() as u64 == ROWS, "{} rows", versions.len());
                    assert!(versions.iter().all(|version| *version == versions[0]), "{versions:?}");
                    buffers = scan.into_buffers();
                    txn.end_statement();
                    txn.commit().unwrap();
                }
            });
        }
    });
}

/// Hazard: an own row that comes while a scan goes on takes a row of the snapshot out of it.
#[test]
fn a_row_that_is_hidden_later_stays_in_a_scan() {
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Group]);
    let rids = fill(&engine, &keyed, (0..40).map(Fields::of));
    for index in 0..2 {
        let mut txn = engine.session(Isolation::RepeatableRead);
        txn.start_statement();
        let before = keyed.check_seen(&mut txn, "before");
        let mut scan = txn.index(&keyed.table, index).scan(ReadView::Snapshot);
        let mut other = engine.session(Isolation::ReadCommitted);
        let gone = rids[20 + index];
        keyed.delete(&mut other, gone).unwrap();
        other.commit().unwrap();
        keyed.insert(&mut txn, &Fields { padding: 9, ..Fields::of(20 + index as u32) }.row()).unwrap();
        scan.seek(&txn, Bound::Unbounded, Direction::Forward).unwrap();
        for (key, rid) in keyed.expected(index, &before) {
            assert_eq!(scan.next(&txn).unwrap(), Some(rid), "index {index}, {key:?}");
            assert!(scan.read_row(&mut txn, OwnWrites::BeforeScan).unwrap().is_some());
        }
        assert_eq!(scan.next(&txn).unwrap(), None);
        txn.end_statement();
        assert!(!keyed.check_seen(&mut txn, "a later statement").contains_key(&gone));
        txn.rollback().unwrap();
        keyed.insert(&mut txn, &Fields::of(20 + index as u32).row()).unwrap();
        txn.commit().unwrap();
    }
}

/// Hazard: a damaged entry that seems to lie outside of a range is missing there in silence (I6).
#[test]
fn a_damaged_entry_is_told_wherever_it_seems_to_lie() {
    const BASE: u64 = 0x1122_3344_5500_0000;
    let key = |number: u64| (BASE + number).to_be_bytes();
    let medium = Arc::new(SimMedium::new());
    let shared: Arc<dyn Medium> = medium.clone();
    let engine = Engine::open(shared, config()).unwrap();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
    fill(&engine, &keyed, (0..20).map(|number| Fields { number: BASE + number, ..Fields::default() }));
    drop(keyed);
    engine.close();
    drop(engine);
    let image = medium.image();
    let mut damaged = 0;
    for (name, _) in image.list().iter().filter(|(name, _)| name.starts_with("t.")) {
        let bytes = image.bytes_of(name).unwrap();
        for at in (0..bytes.len() - 8).filter(|at| bytes[*at..*at + 8] == key(7)) {
            for bit in [0x80, 0x10] {
                let medium = Arc::new(SimMedium::from_image(image.clone()));
                let region = medium.open(name).unwrap();
                let word = at as u64 / 8 * 8;
                region.store(word, region.load(word) ^ bit << (at % 8 * 8));
                drop(region);
                let shared: Arc<dyn Medium> = medium;
                let engine = Engine::open(shared, config()).unwrap();
                let table = engine.table("t").unwrap();
                let mut txn = engine.session(Isolation::ReadCommitted);
                txn.start_statement();
                let mut scan = txn.index(&table, 0).scan(ReadView::Snapshot);
                let found = scan.seek_range(&txn, Bound::Included(&key(2)), Bound::Included(&key(12)));
                assert!(found.is_err(), "{name}, byte {at}, bit {bit:#x}: nobody says that an entry is damaged");
                damaged += 1;
                txn.end_statement();
            }
        }
    }
    assert!(damaged > 0);
}
