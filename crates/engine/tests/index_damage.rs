//! Hazard: a byte of a leaf that changes at rest costs an entry in silence, or brings a panic.
//! After every change CHECK or the opening must say so, or each index must have exactly the keys of
//! the rows, and keep them (I6).

use crate::common;

use crate::common::damage::is_told;
use crate::common::keyed::{Fields, Keyed, Kind, Rows, config, fill};
use crate::common::try_rows;
use perdura_engine::check::check;
use perdura_engine::format::{SegmentKind, segments_for_bytes};
use perdura_engine::{CheckClient, CheckDepth, Direction, Engine, Error, Isolation, ReadView, Session};
use perdura_pmem::sim::{Image, Random};
use perdura_pmem::{Medium, SimMedium};
use std::ops::Bound;
use std::sync::Arc;

const SEGMENT_BYTES: u64 = 4096;
const SEGMENTS_AT: u64 = 4096;
const DESCRIPTORS_AT: u64 = 128;
const KINDS: [Kind; 3] = [Kind::Number, Kind::Group, Kind::Name];

/// A pool at rest.
struct Subject {
    image: Image,
    rows: Rows,
    /// Where leaves lie: file, offset, bytes.
    leaves: Vec<(String, u64, u64)>,
}

/// Where the leaves in use lie: file, offset, bytes.
fn leaves(medium: &SimMedium, image: &Image) -> Vec<(String, u64, u64)> {
    let mut leaves = Vec::new();
    for (name, len) in image.list() {
        let Some((table, file)) = name.strip_prefix("t.").and_then(|numbers| numbers.split_once('.')) else { continue };
        let number = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
        let region = medium.open(&name).expect("it exists");
        for index in 0..segments_for_bytes(len, SEGMENT_BYTES) {
            let salt = number(table) << 32 ^ number(file) << 16 ^ index;
            let kind = SegmentKind::decode(region.load(DESCRIPTORS_AT + index * 8), salt).expect("sound");
            if let SegmentKind::Leaves(units) = kind {
                let (start, bytes) = (SEGMENTS_AT + index * SEGMENT_BYTES, u64::from(units) * 256);
                let places = (0..SEGMENT_BYTES / bytes).map(|leaf| start + leaf * bytes);
                // Those in use.
                leaves.extend(places.filter(|at| region.load(*at) & 3 == 1).map(|at| (name.clone(), at, bytes)));
            }
        }
    }
    leaves
}

/// A pool with three indexes of some leaves each. A `closed` one has everything in its leaves, the
/// other leaves most of it to redo.
fn subject(closed: bool) -> Subject {
    let medium = Arc::new(SimMedium::new());
    let shared: Arc<dyn Medium> = medium.clone();
    let engine = Engine::open(shared, config()).unwrap();
    let keyed = Keyed::create(&engine, "t", &KINDS);
    let rids = fill(&engine, &keyed, (1..90).map(|number| Fields { padding: 0, ..Fields::of(number) }));
    let mut txn = engine.session(Isolation::ReadCommitted);
    for (place, rid) in rids.iter().enumerate() {
        match place % 9 {
            0 => keyed.delete(&mut txn, *rid).unwrap(),
            1 => keyed.update(&mut txn, *rid, &Fields::of(1000 + place as u32).row()).unwrap(),
            _ => {}
        }
    }
    txn.commit().unwrap();
    drop(txn);
    let rows = keyed.check(&engine);
    drop(keyed);
    if closed {
        engine.close();
    }
    drop(engine);
    let image = medium.image();
    let leaves = leaves(&medium, &image);
    assert!(leaves.len() >= 3, "each index has a leaf");
    Subject { image, rows, leaves }
}

struct Faults(Vec<Error>);

impl CheckClient for Faults {
    fn goes_on(&mut self, _done: u64, _all: u64) -> bool {
        true
    }

    fn is_row(&mut self, _row: &[u8]) -> bool {
        true
    }

    fn found(&mut self, fault: Error) {
        self.0.push(fault);
    }
}

/// Whether everything is there, as scans and searches find it.
fn compare(txn: &mut Session, keyed: &Keyed, rows: &Rows) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let found: Rows = try_rows(txn, &keyed.table).map_err(failed)?.into_iter().collect();
    if found != *rows {
        return Err("rows differ".into());
    }
    for index in 0..keyed.kinds.len() {
        let expected = keyed.expected(index, rows);
        for direction in [Direction::Forward, Direction::Backward] {
            let mut entries = keyed.entries(txn, index, ReadView::Snapshot, direction).map_err(failed)?;
            if direction == Direction::Backward {
                entries.reverse();
            }
            if entries != expected {
                return Err(format!("index {index} {direction:?}: {} entries of {}", entries.len(), expected.len()));
            }
        }
        for (place, (key, rid)) in expected.iter().enumerate() {
            let is_first = place == 0 || expected[place - 1].0 != *key;
            if is_first && txn.index(&keyed.table, index).find(key, ReadView::Snapshot).map_err(failed)? != Some(*rid) {
                return Err(format!("index {index}: an entry is not found"));
            }
        }
    }
    Ok(())
}

/// Deletes all rows with their keys and inserts them again.
fn rewrite(txn: &mut Session, keyed: &Keyed, rows: &Rows) -> Result<(), Error> {
    for rid in rows.keys() {
        keyed.delete(txn, *rid)?;
    }
    for row in rows.values() {
        keyed.insert(txn, row)?;
    }
    Ok(())
}

/// Opens damaged files and uses them. Returns whether anybody noticed; panics with `hint` if nobody
/// did and something is wrong.
fn judge(subject: &Subject, medium: SimMedium, hint: &str) -> bool {
    let medium: Arc<dyn Medium> = Arc::new(medium);
    let mut noticed = match check(medium.clone(), &mut |_, _| ()) {
        Ok(report) => !report.problems.is_empty(),
        Err(error) => is_told(&error, hint),
    };
    let engine = match Engine::open(medium.clone(), config()) {
        Ok(engine) => engine,
        Err(error) => {
            assert!(noticed, "{hint}: only the opening finds {error}");
            return is_told(&error, hint);
        }
    };
    let table = match engine.table("t") {
        Ok(table) => table,
        Err(error) => {
            assert!(noticed, "{hint}: only the table's opening finds {error}");
            return is_told(&error, hint);
        }
    };
    let keyed = Keyed { table, kinds: KINDS.to_vec() };
    let mut txn = engine.session(Isolation::RepeatableRead);
    txn.start_statement();
    let mut faults = Faults(Vec::new());
    txn.check_table(&keyed.table, CheckDepth::Full, &mut faults).expect("it is a table of the pool");
    noticed |= !faults.0.is_empty();
    let compared = compare(&mut txn, &keyed, &subject.rows);
    assert!(noticed || compared.is_ok(), "{hint}: nobody noticed that {}", compared.unwrap_err());
    txn.end_statement();
    let rewritten = rewrite(&mut txn, &keyed, &subject.rows);
    txn.rollback().unwrap();
    if !noticed {
        rewritten.unwrap_or_else(|error| panic!("{hint}: nobody noticed, but {error}"));
        txn.start_statement();
        compare(&mut txn, &keyed, &subject.rows).unwrap_or_else(|what| panic!("{hint}: after a rollback: {what}"));
        txn.end_statement();
        drop(txn);
        engine.sweep().unwrap();
        (0..2).for_each(|_| common::settle(&engine));
        keyed.table.audit().unwrap_or_else(|error| panic!("{hint}: nobody noticed, but {error}"));
    }
    noticed
}

/// Changes each byte of the leaves that `chosen` takes, one at a time.
fn change_each(subject: &Subject, mut change: impl FnMut(u8) -> u8, mut chosen: impl FnMut() -> bool) -> (u32, u32) {
    let (mut noticed, mut harmless) = (0, 0);
    for (file, at, bytes) in &subject.leaves {
        for place in *at..at + bytes {
            if !chosen() {
                continue;
            }
            let medium = SimMedium::from_image(subject.image.clone());
            let region = medium.open(file).expect("it exists");
            let mut byte = [0];
            region.read(place, &mut byte);
            let changed = change(byte[0]);
            region.write(place, &[changed]);
            drop(region);
            let hint = format!("{file} at {place:#x} ({} in the leaf), {:#x} is {changed:#x}", place - at, byte[0]);
            match judge(subject, medium, &hint) {
                true => noticed += 1,
                false => harmless += 1,
            }
        }
    }
    (noticed, harmless)
}

#[test]
fn a_bit_of_any_byte_flips() {
    for closed in [true, false] {
        let mut random = Random::new(u64::from(closed));
        let mut chosen = Random::new(7);
        let (noticed, harmless) = change_each(
            &subject(closed),
            |byte| byte ^ 1 << random.below(8),
            || chosen.one_in(if closed { 4 } else { 12 }),
        );
        assert!(noticed > 100, "{noticed} noticed, {harmless} harmless");
    }
}

#[test]
fn a_byte_becomes_another() {
    let subject = subject(true);
    let mut chosen = Random::new(8);
    let mut random = Random::new(9);
    let (noticed, harmless) = change_each(&subject, |byte| byte ^ (1 + random.below(255)) as u8, || chosen.one_in(6));
    assert!(noticed > 100, "{noticed} noticed, {harmless} harmless");
}

/// The first lines of a leaf, whose every bit says what the rest means.
#[test]
fn every_bit_of_a_header_counts() {
    let mut subject = subject(true);
    subject.leaves.truncate(2);
    subject.leaves.iter_mut().for_each(|(_, _, bytes)| *bytes = 24);
    for bit in 0..8 {
        let (_, harmless) = change_each(&subject, |byte| byte ^ 1 << bit, || true);
        assert_eq!(harmless, 0, "bit {bit}");
    }
}

/// Hazard: bytes at random, as a misdirected write leaves them, crash what reads them.
#[test]
fn garbage_in_a_leaf() {
    let subject = subject(true);
    let mut random = Random::new(11);
    for (file, at, bytes) in &subject.leaves {
        for _ in 0..40 {
            let medium = SimMedium::from_image(subject.image.clone());
            let region = medium.open(file).expect("it exists");
            let (from, length) = (random.below(*bytes), 1 + random.below(*bytes));
            let garbage: Vec<u8> = (0..length.min(bytes - from)).map(|_| random.next_u64() as u8).collect();
            region.write(at + from, &garbage);
            drop(region);
            judge(&subject, medium, &format!("{} bytes of garbage in {file} at {:#x}", garbage.len(), at + from));
        }
    }
}

/// A search for a key that is not there looks at the leaf that would have it, and not at those
/// behind, though their keys begin alike.
#[test]
fn a_missing_key_is_not_looked_for_in_other_leaves() {
    let medium = Arc::new(SimMedium::new());
    let shared: Arc<dyn Medium> = medium.clone();
    let engine = Engine::open(shared, config()).unwrap();
    let of = |long: u32| Fields { long: long * 2, ..Fields::default() };
    let keyed = Keyed::create(&engine, "t", &[Kind::Long]);
    fill(&engine, &keyed, (1..60).map(of));
    drop(keyed);
    engine.close();
    drop(engine);
    let image = medium.image();
    let leaves = leaves(&medium, &image);
    assert!(leaves.len() >= 20, "{} leaves", leaves.len());
    for (name, at, _) in leaves.iter().step_by(7) {
        let medium = Arc::new(SimMedium::from_image(image.clone()));
        let region = medium.open(name).unwrap();
        // The word with the entries that count.
        region.store(at + 8, !region.load(at + 8));
        drop(region);
        let shared: Arc<dyn Medium> = medium;
        let engine = Engine::open(shared, config()).unwrap();
        let table = engine.table("t").unwrap();
        let mut txn = engine.session(Isolation::ReadCommitted);
        let mut is_missed = |long: u32| {
            let key = Kind::Long.key(&Fields { long: long * 2 + 1, ..Fields::default() });
            txn.index(&table, 0).find(&key, ReadView::Snapshot).is_ok_and(|found| found.is_none())
        };
        let missed = (1..60).filter(|long| is_missed(*long)).count();
        assert!(missed >= 50, "{name} at {at:#x}: a damaged leaf is in the way of {} keys of 59", 59 - missed);
        // A range of a key, or of none, ends in its leaf.
        let mut read = |long: u32| {
            let [from, to] = [0, 1].map(|more| Kind::Long.key(&Fields { long: long * 2 + more, ..Fields::default() }));
            let mut scan = txn.index(&table, 0).scan(ReadView::Snapshot);
            scan.seek_range(&txn, Bound::Included(&from), Bound::Included(&to))?;
            let found = [scan.next(&txn)?, scan.next(&txn)?];
            assert!(found[0].is_some() && found[1].is_none(), "{found:?}");
            scan.seek_range(&txn, Bound::Excluded(&from), Bound::Included(&to))?;
            assert_eq!(scan.next(&txn)?, None);
            Ok::<(), Error>(())
        };
        let read = (1..60).filter(|long| read(*long).is_ok()).count();
        assert!(read >= 50, "{name} at {at:#x}: a damaged leaf is in the way of {} ranges of 59", 59 - read);
    }
}
