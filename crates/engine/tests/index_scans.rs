//! Hazard: a scan of an index begins at the wrong entry, turns at the wrong one, or misses entries
//! where a leaf ends, splits or goes under it.

use crate::common;

use crate::common::keyed::{Fields, Keyed, Kind, Rows, config, fill, roomy, same, step};
use crate::common::settle;
use crate::common::walk::Walk;
use perdura_engine::{
    Direction, Engine, ErrorKind, IndexDefinition, Isolation, Key, OwnWrites, ReadView, Rid, Session,
};
use perdura_pmem::SimMedium;
use perdura_pmem::sim::Random;
use std::ops::Bound;
use std::sync::Arc;

fn open() -> Engine {
    Engine::open(Arc::new(SimMedium::new()), config()).unwrap()
}

fn begin(engine: &Engine) -> Session {
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.start_statement();
    txn
}

/// The rows that a new statement of a table scan sees.
fn rows(keyed: &Keyed, engine: &Engine) -> Rows {
    keyed.check(engine)
}

/// Hazard: an index without entries, or with one, has no first leaf to begin in.
#[test]
fn empty_and_almost_empty_indexes() {
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Name]);
    let look = |expected: &Rows| {
        let mut txn = begin(&engine);
        for (index, kind) in keyed.kinds.iter().enumerate() {
            let scan = txn.index(&keyed.table, index).scan(ReadView::Snapshot);
            let mut walk = Walk::new(scan, keyed.expected(index, expected), format!("index {index}"));
            let key = kind.key(&Fields::of(5));
            for bound in
                [Bound::Unbounded, Bound::Included(key.as_slice()), Bound::Excluded(&key[..]), Bound::Included(&[])]
            {
                for direction in [Direction::Forward, Direction::Backward] {
                    walk.seek(&txn, bound, direction);
                    walk.finish(&txn);
                }
            }
            let found = txn.index(&keyed.table, index).find(&key, ReadView::Newest).unwrap();
            assert_eq!(found, expected.keys().next().copied());
        }
    };
    look(&Rows::new());
    let rid = fill(&engine, &keyed, [Fields::of(5)])[0];
    look(&Rows::from([(rid, Fields::of(5).row())]));
    let mut txn = engine.session(Isolation::ReadCommitted);
    keyed.delete(&mut txn, rid).unwrap();
    txn.commit().unwrap();
    look(&Rows::new());
    settle(&engine);
    settle(&engine);
    look(&Rows::new());
}

/// Every bound of every kind, in both directions, over several leaves: whole keys that are there or
/// not, and prefixes.
#[test]
fn every_bound_in_both_directions() {
    let engine = open();
    for kind in [Kind::Number, Kind::Group, Kind::Name, Kind::Long] {
        let keyed = Keyed::create(&engine, &format!("{kind:?}"), &[kind]);
        let count = if kind == Kind::Long { 60 } else { 300 };
        fill(&engine, &keyed, (0..count).map(|number| Fields::of(number * 2)));
        let rows = rows(&keyed, &engine);
        let mut txn = begin(&engine);
        let scan = txn.index(&keyed.table, 0).scan(ReadView::Snapshot);
        let mut walk = Walk::new(scan, keyed.expected(0, &rows), format!("{kind:?}"));
        let mut random = Random::new(7);
        for number in 0..count * 2 + 2 {
            let key = kind.key(&Fields::of(number));
            for length in [key.len(), random.below(key.len() as u64) as usize] {
                for direction in [Direction::Forward, Direction::Backward] {
                    for bound in [Bound::Included(&key[..length]), Bound::Excluded(&key[..length])] {
                        walk.seek(&txn, bound, direction);
                        walk.stroll(&txn, &mut random, 5);
                    }
                }
                for end in [number, number + 1, number + 50] {
                    let end = kind.key(&Fields::of(end));
                    let (key, end) = (&key[..length], &end[..end.len() - random.below(2) as usize]);
                    for to in [Bound::Included(end), Bound::Excluded(end)] {
                        if key <= end {
                            walk.seek_range(&txn, Bound::Excluded(key), to);
                            walk.stroll(&txn, &mut random, 5);
                            walk.seek_range(&txn, Bound::Included(key), to);
                            walk.finish(&txn);
                            walk.back(&txn);
                        }
                    }
                }
            }
        }
        walk.seek(&txn, Bound::Unbounded, Direction::Forward);
        walk.finish(&txn);
        walk.seek(&txn, Bound::Unbounded, Direction::Backward);
        walk.finish(&txn);
    }
}

/// Hazard: a step back over the border of a leaf returns an entry twice, or skips one.
#[test]
fn back_and_forth_over_every_border() {
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Group]);
    fill(&engine, &keyed, (0..500).map(|number| Fields { group: 1, ..Fields::of(number) }));
    let rows = rows(&keyed, &engine);
    let mut txn = begin(&engine);
    for index in 0..2 {
        for direction in [Direction::Forward, Direction::Backward] {
            let scan = txn.index(&keyed.table, index).scan(ReadView::Snapshot);
            let mut walk = Walk::new(scan, keyed.expected(index, &rows), format!("index {index} {direction:?}"));
            walk.seek(&txn, Bound::Unbounded, direction);
            // Two steps on and one back, all the way.
            while walk.on(&txn) && walk.on(&txn) {
                walk.back(&txn);
            }
        }
    }
}

/// Hazard: a statement finds the rows that it inserts, and never ends; or loses those it has moved.
#[test]
fn a_statement_does_not_meet_its_own_writes() {
    for view in [ReadView::Snapshot, ReadView::Newest] {
        let engine = open();
        let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
        fill(&engine, &keyed, (0..120).map(|number| Fields::of(number * 10)));
        let rows = rows(&keyed, &engine);
        let mut txn = begin(&engine);
        keyed.insert(&mut txn, &Fields::of(5).row()).unwrap();
        let own = keyed.insert(&mut txn, &Fields::of(601).row()).unwrap();
        keyed.delete(&mut txn, own).unwrap();
        let mut seen = rows.clone();
        txn.end_statement();
        txn.start_statement();
        let before: Rows = common::rows(&mut txn, &keyed.table).into_iter().collect();
        assert_eq!(before.len(), seen.len() + 1, "what it wrote before is there");
        seen = before;
        let mut scan = txn.index(&keyed.table, 0).scan(view);
        scan.seek(&txn, Bound::Unbounded, Direction::Forward).unwrap();
        let mut met = Vec::new();
        while let Some(rid) = scan.next(&txn).unwrap() {
            met.push((scan.key().to_vec(), rid));
            // Every row gets a key just behind the present place: it must not be met again.
            let mut fields = Fields::of_row(&seen[&rid]);
            fields.number += 15;
            match keyed.update(&mut txn, rid, &fields.row()) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::DuplicateKey => {}
                Err(error) => panic!("{error}"),
            }
            fields.number += 100_000;
            keyed.insert(&mut txn, &fields.row()).unwrap();
        }
        same(&keyed.expected(0, &seen), &met, &format!("{view:?}"));
        txn.end_statement();
        txn.commit().unwrap();
        keyed.check(&engine);
    }
}

/// Hazard: a scan takes what it has looked up ahead for the row of another entry: where it turns,
/// where a leaf ends, or where a shorter one follows; or it does not see what its transaction has
/// written since, or where it only reads, sees that.
#[test]
fn rows_are_read_where_a_scan_stands() {
    for seed in 0..60 {
        let engine = open();
        let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
        let mut random = Random::new(seed);
        let rids = fill(&engine, &keyed, (0..400).map(Fields::of));
        let mut txn = engine.session(Isolation::ReadCommitted);
        // Leaves of different lengths, some of them short.
        for gap in rids.chunks(40) {
            let kept = random.below(40) as usize;
            gap[kept..].iter().for_each(|rid| keyed.delete(&mut txn, *rid).unwrap());
        }
        txn.commit().unwrap();
        settle(&engine);
        txn.start_statement();
        let before = keyed.check_seen(&mut txn, "before");
        txn.start_statement();
        let mut scan = txn.index(&keyed.table, 0).scan(ReadView::Snapshot);
        scan.seek(&txn, Bound::Unbounded, Direction::Forward).unwrap();
        let (mut direction, mut left, mut read) = (Direction::Forward, 0, 0);
        for _ in 0..4000 {
            if left == 0 {
                (direction, left) = match direction {
                    Direction::Forward if random.one_in(2) => (Direction::Backward, 1 + random.below(80)),
                    _ => (Direction::Forward, 1 + random.below(80)),
                };
            }
            left -= 1;
            let Some(rid) = step(&mut scan, &txn, direction).unwrap() else {
                left = 0;
                continue;
            };
            if seed % 2 == 0 && random.one_in(300) {
                let number = u64::from_be_bytes(scan.key().try_into().expect("eight bytes"));
                let row = Fields { padding: 1 + random.below(9) as usize, ..Fields::of(number as u32) }.row();
                keyed.update(&mut txn, rid, &row).unwrap();
            }
            if direction == Direction::Backward && !random.one_in(20) {
                continue;
            }
            let newest = txn.read(&keyed.table, rid, ReadView::Snapshot).unwrap().expect("a row");
            // SAFETY: the statement is not over.
            let newest = unsafe { newest.bytes() };
            let (own, expected) = match random.one_in(2) {
                true => (OwnWrites::All, newest),
                false => (OwnWrites::BeforeScan, &before[&rid][..]),
            };
            let (found, row) = scan.read_row(&mut txn, own).unwrap().expect("a row");
            // SAFETY: the statement is not over.
            let row = unsafe { row.bytes() };
            assert!((found, row) == (rid, expected), "seed {seed}, {own:?}: {rid:?}, read as {found:?}");
            read += 1;
        }
        assert!(read > 500, "seed {seed}: {read} rows");
        txn.end_statement();
    }
}

/// Hazard: words that are looked up together, of rows in several pages, come to the wrong rows, or
/// are not those of the snapshot where a page has changed since or changes meanwhile.
#[test]
fn rows_in_the_order_of_an_index_are_those_of_the_snapshot() {
    for seed in 0..40 {
        let engine = open();
        let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
        let mut random = Random::new(seed);
        let rids = fill(&engine, &keyed, (0..600).map(|place: u32| Fields::of(place / 5 * 211 % 120 * 5 + place % 5)));
        let change = |count: u64, random: &mut Random| {
            let mut txn = engine.session(Isolation::ReadCommitted);
            for _ in 0..random.below(count) {
                let rid = rids[random.below(600) as usize];
                let Some(row) = txn.read(&keyed.table, rid, ReadView::Snapshot).unwrap() else { continue };
                // SAFETY: the transaction has not written the row since.
                let number = Fields::of_row(unsafe { row.bytes() }).number as u32;
                let row = Fields { padding: 1 + random.below(60) as usize, ..Fields::of(number) }.row();
                match random.one_in(4) {
                    true => keyed.delete(&mut txn, rid).unwrap(),
                    false => keyed.update(&mut txn, rid, &row).unwrap(),
                }
            }
            match random.one_in(5) {
                true => txn.rollback().unwrap(),
                false => drop(txn.commit().unwrap()),
            }
        };
        change(200, &mut random);
        if random.one_in(2) {
            settle(&engine);
        }
        let mut txn = engine.session(Isolation::RepeatableRead);
        txn.start_statement();
        let seen = keyed.check_seen(&mut txn, "before");
        txn.start_statement();
        change(100, &mut random);
        let mut scan = txn.index(&keyed.table, 0).scan(ReadView::Snapshot);
        scan.seek(&txn, Bound::Unbounded, Direction::Forward).unwrap();
        for (_, rid) in keyed.expected(0, &seen) {
            assert_eq!(scan.next(&txn).unwrap(), Some(rid), "seed {seed}");
            let (found, row) = scan.read_row(&mut txn, OwnWrites::BeforeScan).unwrap().expect("a row");
            // SAFETY: the statement is not over.
            let row = unsafe { row.bytes() };
            assert!(found == rid && row == seen[&rid], "seed {seed}: {rid:?}, read as {found:?}");
            if random.one_in(40) {
                change(10, &mut random);
            }
        }
        assert_eq!(scan.next(&txn).unwrap(), None, "seed {seed}");
        txn.end_statement();
    }
}

/// Hazard: leaves split, empty and join under a scan that stands in one of them.
#[test]
fn leaves_split_and_join_under_a_scan() {
    for direction in [Direction::Forward, Direction::Backward] {
        for kind in [Kind::Number, Kind::Name] {
            let engine = open();
            let keyed = Keyed::create(&engine, "t", &[kind]);
            let rids = fill(&engine, &keyed, (0..200).map(|number| Fields::of(number * 100 + 1)));
            let rows = rows(&keyed, &engine);
            let mut reader = begin(&engine);
            let scan = reader.index(&keyed.table, 0).scan(ReadView::Snapshot);
            let mut walk = Walk::new(scan, keyed.expected(0, &rows), format!("{kind:?} {direction:?}"));
            walk.seek(&reader, Bound::Unbounded, direction);
            let mut random = Random::new(3);
            let mut txn = engine.session(Isolation::ReadCommitted);
            for step in 0..200u32 {
                walk.on(&reader);
                // Entries before, at and behind the scan: first they come, then all go.
                for _ in 0..8 {
                    let number = random.below(20_000) as u32 / 100 * 100 + 2 + random.below(98) as u32;
                    match keyed.insert(&mut txn, &Fields::of(number).row()) {
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}"),
                    }
                }
                if step > 120 {
                    for _ in 0..60 {
                        let rid = rids[random.below(200) as usize];
                        match keyed.delete(&mut txn, rid) {
                            Ok(()) => {}
                            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
                        }
                    }
                }
                txn.commit().unwrap();
                settle(&engine);
                if random.one_in(5) && step > 1 {
                    walk.back(&reader);
                    walk.on(&reader);
                }
            }
            walk.finish(&reader);
            drop((walk, reader, txn));
            settle(&engine);
            keyed.check(&engine);
            keyed.table.audit().unwrap();
        }
    }
}

/// Hazard: emptied leaves in the middle end a scan.
#[test]
fn scans_pass_emptied_leaves() {
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
    let rids = fill(&engine, &keyed, (0..600).map(Fields::of));
    let old = {
        let mut old = engine.session(Isolation::RepeatableRead);
        old.start_statement();
        let rows = keyed.check_seen(&mut old, "before");
        (old, rows)
    };
    let mut txn = engine.session(Isolation::ReadCommitted);
    for rid in &rids[100..500] {
        keyed.delete(&mut txn, *rid).unwrap();
    }
    assert_eq!(keyed.check_seen(&mut txn, "own").len(), 200);
    txn.commit().unwrap();
    assert_eq!(keyed.check(&engine).len(), 200);
    settle(&engine);
    assert_eq!(keyed.check(&engine).len(), 200);
    let (mut session, rows) = old;
    keyed.check_against(&mut session, &rows, ReadView::Snapshot, "old");
    drop(session);
    for _ in 0..3 {
        settle(&engine);
        assert_eq!(keyed.check(&engine).len(), 200);
    }
    keyed.table.audit().unwrap();
}

/// Hazard: the estimate sends the optimizer the wrong way.
#[test]
fn estimates_are_of_the_right_order() {
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Group]);
    let mut txn = begin(&engine);
    let mut estimate =
        |index: usize, from: Bound<&[u8]>, to: Bound<&[u8]>| txn.index(&keyed.table, index).estimate(from, to).unwrap();
    assert!(estimate(0, Bound::Unbounded, Bound::Unbounded) <= 64);
    fill(&engine, &keyed, (0..4000).map(|number| Fields { group: number / 1000, ..Fields::of(number) }));
    let key = |number: u64| number.to_be_bytes();
    for (from, to) in [(0, 4000), (0, 2000), (1000, 3000), (3000, 4000), (100, 600), (50, 60), (7, 7), (5000, 9000)] {
        let found = estimate(0, Bound::Included(&key(from)), Bound::Excluded(&key(to)));
        let true_count = 4000u64.min(to).saturating_sub(from);
        assert!(found <= true_count * 3 + 130, "{from}..{to}: {found} of {true_count}");
        assert!(found >= true_count.saturating_sub(130) / 3, "{from}..{to}: {found} of {true_count}");
    }
    let (one, two) = (1u32.to_be_bytes(), 2u32.to_be_bytes());
    let of_groups = estimate(1, Bound::Included(&one), Bound::Included(&two));
    assert!((600..=6500).contains(&of_groups), "{of_groups} of 2000");
    let all = estimate(1, Bound::Unbounded, Bound::Unbounded);
    assert!((1300..=12_500).contains(&all), "{all} of 4000");
    // Bounds that cross each other.
    assert!(estimate(0, Bound::Included(&key(3000)), Bound::Included(&key(10))) <= 130);
}

/// Hazard: of a range beyond what an estimate walks, it tells only that much.
#[test]
fn estimates_of_long_ranges_are_of_the_right_order() {
    const ROWS: u32 = 60_000;
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
    // In two orders, so that leaves are full in one half and half full in the other.
    fill(&engine, &keyed, (0..ROWS / 2).map(Fields::of));
    fill(&engine, &keyed, (ROWS / 2..ROWS).rev().map(Fields::of));
    let mut txn = begin(&engine);
    let key = |number: u32| u64::from(number).to_be_bytes();
    for (from, to) in [(0, ROWS), (ROWS / 4, ROWS), (0, ROWS / 2), (ROWS / 2, ROWS), (100, 20_000), (30_000, 50_000)] {
        let (low, high) = (key(from), key(to));
        for end in [Bound::Excluded(&high[..]), Bound::Unbounded] {
            let found = txn.index(&keyed.table, 0).estimate(Bound::Included(&low), end).unwrap();
            let true_count = u64::from(if end == Bound::Unbounded { ROWS - from } else { to - from });
            let range = true_count / 3..=true_count * 3;
            assert!(range.contains(&found), "{from}..{to}, {end:?}: {found} of {true_count}");
        }
    }
}

/// Hazard: what a table with indexes cannot do is done halfway.
#[test]
fn writes_without_keys_are_refused() {
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Group]);
    let rid = fill(&engine, &keyed, [Fields::of(1)])[0];
    let mut txn = begin(&engine);
    assert_eq!(txn.insert(&keyed.table, b"row").unwrap_err().kind(), ErrorKind::NotSupported);
    assert_eq!(txn.delete(&keyed.table, rid).unwrap_err().kind(), ErrorKind::NotSupported);
    let fields = Fields { padding: 33, ..Fields::of(1) };
    txn.update(&keyed.table, rid, &fields.row()).unwrap();
    txn.end_statement();
    txn.commit().unwrap();
    assert_eq!(keyed.check(&engine).into_values().collect::<Vec<_>>(), [fields.row()]);
    let plain = engine.create_table("plain", b"").unwrap();
    assert_eq!(plain.indexes(), 0);
}

/// Hazard: an old key that no entry has, a mistake of the caller, passes and leaves an entry of no
/// row.
#[test]
fn a_wrong_old_key_is_damage_and_changes_nothing() {
    let engine = open();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Group]);
    let rids = fill(&engine, &keyed, (0..5).map(Fields::of));
    let mut txn = begin(&engine);
    let (number, group) = (4u64.to_be_bytes(), 1u32.to_be_bytes());
    let error = txn.delete_with(&keyed.table, rids[1], &[&number, &group]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    txn.rollback().unwrap();
    assert_eq!(keyed.check(&engine).len(), 5);
    keyed.table.audit().unwrap();
}

/// Hazard: a key that fits no leaf of the pool makes its table grow without end. It is refused, and
/// the transaction goes on.
#[test]
fn keys_too_long_for_the_pool_are_refused() {
    let engine = open();
    let table = engine.create_table_with("t", b"", &[IndexDefinition { unique: true, key_bytes: 0 }]).unwrap();
    let mut txn = begin(&engine);
    for length in [1, 1200, 1300, 3072, 3073] {
        let key = Key { bytes: &vec![7; length], may_repeat: false };
        let inserted = txn.insert_with(&table, b"row", &[key]).map(|_| ()).map_err(|error| error.kind());
        assert_eq!(inserted, if length <= 1200 { Ok(()) } else { Err(ErrorKind::Configuration) }, "{length}");
    }
    txn.commit().unwrap();
    assert_eq!(common::committed(&engine, &table).len(), 2);
    settle(&engine);
    table.audit().unwrap();
}

/// Hazard: the longest key, or one of no bytes, fits no leaf.
#[test]
fn keys_of_extreme_lengths() {
    let indexes = [IndexDefinition { unique: false, key_bytes: 0 }, IndexDefinition { unique: true, key_bytes: 3072 }];
    // Segments of 4 KiB have no room for two such entries.
    assert_eq!(open().create_table_with("t", b"", &indexes).map(drop).unwrap_err().kind(), ErrorKind::Configuration);
    let engine = Engine::open(Arc::new(SimMedium::new()), roomy()).unwrap();
    let table = engine.create_table_with("t", b"", &indexes).unwrap();
    let mut txn = begin(&engine);
    let mut rids: Vec<Rid> = Vec::new();
    let long = |number: u16| {
        let mut key = vec![0xee; 3070];
        key.extend(number.to_be_bytes());
        key
    };
    for number in 0..40u16 {
        let keys = [
            Key { bytes: &vec![number as u8; 1 + number as usize * 70], may_repeat: true },
            Key { bytes: &long(number), may_repeat: false },
        ];
        rids.push(txn.insert_with(&table, &number.to_le_bytes(), &keys).unwrap_or_else(|error| panic!("{error}")));
    }
    txn.end_statement();
    txn.commit().unwrap();
    txn.start_statement();
    for (number, rid) in rids.iter().enumerate() {
        let key = long(number as u16);
        assert_eq!(txn.index(&table, 1).find(&key, ReadView::Snapshot).unwrap(), Some(*rid));
        let key = vec![number as u8; 1 + number * 70];
        assert_eq!(txn.index(&table, 0).find(&key, ReadView::Snapshot).unwrap(), Some(*rid));
    }
    txn.end_statement();
    table.audit().unwrap();
    drop((txn, table));
}

/// Hazard: the optimizer reckons with one row where a transaction has loaded many, and has not
/// committed them.
#[test]
fn estimates_have_the_rows_of_the_own_transaction() {
    const ROWS: u32 = 5000;
    let engine = Engine::open(Arc::new(SimMedium::new()), config()).unwrap();
    let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
    let (mut txn, mut other) = (engine.session(Isolation::RepeatableRead), engine.session(Isolation::RepeatableRead));
    (0..ROWS).for_each(|number| _ = keyed.insert(&mut txn, &Fields::of(number).row()).unwrap());
    assert_eq!(txn.row_count_estimate(&keyed.table), u64::from(ROWS));
    assert_eq!(other.row_count_estimate(&keyed.table), 0);
    let half = u64::from(ROWS / 2).to_be_bytes();
    let found = txn.index(&keyed.table, 0).estimate(Bound::Unbounded, Bound::Excluded(&half)).unwrap();
    assert!((u64::from(ROWS) * 4 / 10..u64::from(ROWS) * 6 / 10).contains(&found), "{found} rows");
    assert!(other.index(&keyed.table, 0).estimate(Bound::Unbounded, Bound::Excluded(&half)).unwrap() <= 1);
    txn.rollback().unwrap();
    assert_eq!(txn.row_count_estimate(&keyed.table), 0);
}
