//! Hazard: the log carries what small transactions write, nothing of that was flushed, and redo
//! does not bring it back, or brings it to a place that is another's by now. Tests (I3), (I6),
//! (I8).

use crate::common::damage::is_told;
use crate::common::keyed::{Fields, Keyed, Kind, config, fill};
use crate::common::values::{KINDS, by_value, carries, change, crashed, fill_by, open, pool, records};
use crate::common::{committed, reopen, row_bytes, seeds, small};
use perdura_engine::check::check;
use perdura_engine::format::{FORMAT_VERSION, Record, VALUES_VERSION, Word};
use perdura_engine::{Config, Engine, Isolation, Session};
use perdura_log::Recovery;
use perdura_pmem::sim::{Image, PointKind, Random, Recorder, ReplayOptions, Seen};
use perdura_pmem::trace::{Access, Site, Tap};
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The data files of `before` with the log of `after`: nothing that was stored in the tables
/// meanwhile has reached the medium.
fn log_alone(before: &Image, after: &Image) -> Arc<SimMedium> {
    let (old, new) = (SimMedium::from_image(before.clone()), SimMedium::from_image(after.clone()));
    for (name, bytes) in new.list().unwrap() {
        if name.starts_with("log.") || name == "super" {
            let mut content = vec![0; bytes as usize];
            new.open(&name).unwrap().read(0, &mut content);
            let region = old.open(&name).or_else(|_| old.create(&name, bytes)).unwrap();
            region.write(0, &content);
        }
    }
    Arc::new(old)
}

/// Asserts that the check finds nothing wrong in a pool.
fn is_sound(medium: &Arc<SimMedium>, hint: &str) {
    let image = medium.image();
    let report = check(Arc::new(SimMedium::from_image(image)), &mut |_, _| ()).unwrap();
    assert!(report.problems.is_empty(), "{hint}: {:?}", report.problems);
}

fn prepared_row() -> Vec<u8> {
    Fields { padding: 8, ..Fields::of(104) }.row()
}

/// Hazard: redo needs something of a small transaction beside the log; of a prepared one; or the
/// check, which writes nothing, calls what is to be written damage. Whatever the setting at the
/// restart.
#[test]
fn the_log_alone_brings_small_transactions_back() {
    for restarts_by_value in [true, false] {
        let (medium, engine) = pool();
        let keyed = Keyed::create(&engine, "t", &KINDS);
        let mut txn = engine.session(Isolation::ReadCommitted);
        let rids = fill_by(&keyed, &mut txn);
        engine.checkpoint().unwrap();
        let before = medium.image();
        change(&keyed, &mut txn, &rids);
        let rows = keyed.check(&engine);
        let added = keyed.insert(&mut txn, &prepared_row()).unwrap();
        keyed.update(&mut txn, rids[4], &Fields { padding: 8, ..Fields::of(105) }.row()).unwrap();
        txn.prepare(b"branch").unwrap();
        let after = medium.image();
        let written: Vec<_> = records(&after).into_iter().filter(carries).collect();
        assert!(written.len() > 10, "records carry what they name");

        let medium = log_alone(&before, &after);
        is_sound(&medium, "a log to redo");
        // Twice: the prepared transaction keeps what its records carry.
        for _ in 0..2 {
            let engine = open(&medium, restarts_by_value);
            let keyed = Keyed::open(&engine, "t", &KINDS);
            assert_eq!(keyed.check(&engine), rows);
        }
        let engine = open(&medium, restarts_by_value);
        assert_eq!(engine.prepared(), [b"branch".to_vec()]);
        engine.commit_prepared(b"branch").unwrap();
        let keyed = Keyed::open(&engine, "t", &KINDS);
        let now = keyed.check(&engine);
        assert_eq!(now.get(&added), Some(&prepared_row()));
        assert_eq!(now.len(), rows.len() + 1);
        engine.close();
        is_sound(&medium, "closed");
    }
}

/// Hazard: an older build reads a log whose records it does not know. The superblock says so as
/// long as there may be any, and no longer.
#[test]
fn the_superblock_names_the_format() {
    let (medium, engine) = pool();
    let version = || {
        let image: Arc<dyn Medium> = Arc::new(SimMedium::from_image(medium.image()));
        Recovery::open(image, &config().log).unwrap().superblock.geometry[0]
    };
    assert_eq!(version(), VALUES_VERSION);
    let keyed = Keyed::create(&engine, "t", &KINDS);
    let mut txn = engine.session(Isolation::ReadCommitted);
    keyed.insert(&mut txn, &prepared_row()).unwrap();
    txn.prepare(b"branch").unwrap();
    drop((txn, keyed, engine));
    // Its records stay in the log.
    let engine = open(&medium, false);
    assert_eq!(version(), VALUES_VERSION);
    engine.commit_prepared(b"branch").unwrap();
    drop(engine);
    drop(open(&medium, false));
    assert_eq!(version(), FORMAT_VERSION);
    drop(open(&medium, true));
    assert_eq!(version(), VALUES_VERSION);
}

/// Bytes of a row that a transaction of the small pool takes by value at most: of a chunk of 2,040
/// bytes what the heads of records leave.
const LONGEST: usize = 2040 - 40 - 28;

/// Hazard: a transaction that is too large for its record, or has pages or segments of its own, is
/// taken to be by value, or its record outgrows a log group.
#[test]
fn large_transactions_are_by_reference() {
    let medium = Arc::new(SimMedium::new());
    let engine = Engine::open(medium.clone() as Arc<dyn Medium>, by_value(small())).unwrap();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut logged = |write: &mut dyn FnMut(&mut Session)| {
        engine.checkpoint().unwrap();
        write(&mut txn);
        txn.commit().unwrap();
        let image = medium.image();
        let shared: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image.clone()));
        let reopened = Engine::open(shared, small()).unwrap();
        assert_eq!(committed(&reopened, &reopened.table("t").unwrap()), committed(&engine, &table));
        records(&image)
    };
    let longest = logged(&mut |txn| assert!(txn.insert(&table, &[7; LONGEST]).is_ok()));
    assert!(longest.len() == 1 && carries(&longest[0]), "{} records", longest.len());
    let longer = logged(&mut |txn| assert!(txn.insert(&table, &[7; LONGEST + 1]).is_ok()));
    assert!(longer.len() == 1 && !carries(&longer[0]), "{} records", longer.len());
    let several = logged(&mut |txn| (0..20).for_each(|_| assert!(txn.insert(&table, &[7; 20]).is_ok())));
    assert!(several.len() == 20 && several.iter().all(carries));
    let bulk = logged(&mut |txn| (0..100).for_each(|_| assert!(txn.insert(&table, &[]).is_ok())));
    assert!(bulk.iter().any(|record| matches!(record, Record::Page { .. })) && !bulk.iter().any(carries));
    // The leaves of a new index rely on the fence before the catalog row.
    let ddl = logged(&mut |_| assert!(engine.create_table("u", b"").is_ok()));
    assert!(ddl.iter().any(|record| record.table() == 1) && !ddl.iter().any(carries));
}

/// Counts fences.
#[derive(Default)]
struct Fences(AtomicU64);

impl Tap for Fences {
    fn record(&self, access: Access<'_>, _site: Site) {
        if matches!(access, Access::Fence) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Hazard: by value a statement still fences, or a commit more than its record. By reference
/// nothing changes.
#[test]
fn a_small_transaction_has_one_fence() {
    for (by_value, expected) in [(true, [0, 1]), (false, [1, 2])] {
        let fences = Arc::new(Fences::default());
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new().recording(fences.clone()));
        let engine = Engine::open(medium, Config { by_value: Some(by_value), ..config() }).unwrap();
        let keyed = Keyed::create(&engine, "t", &KINDS);
        let mut txn = engine.session(Isolation::ReadCommitted);
        let rids = fill_by(&keyed, &mut txn);
        let before = fences.0.load(Ordering::Relaxed);
        txn.start_statement();
        keyed.update(&mut txn, rids[5], &Fields { padding: 8, ..Fields::of(21) }.row()).unwrap();
        txn.end_statement();
        let statement = fences.0.load(Ordering::Relaxed);
        txn.commit().unwrap();
        let commit = fences.0.load(Ordering::Relaxed);
        assert_eq!([statement - before, commit - statement], expected, "by value: {by_value}");
    }
}

/// Pools that a power failure at the end of a recording may leave.
fn images_at_end(recorder: &Recorder, choices: usize) -> Vec<Arc<SimMedium>> {
    let mut images = Vec::new();
    recorder.finish().replay(&ReplayOptions::default(), |point| {
        if point.kind == PointKind::End {
            images = point.images(&mut Random::new(1), &mut Seen::default(), choices);
        }
        ControlFlow::Continue(())
    });
    assert!(!images.is_empty());
    images.into_iter().map(|image| Arc::new(SimMedium::from_image(image))).collect()
}

/// A pool by value on a page medium, where nothing that the log carries is flushed.
fn recorded() -> (Arc<Recorder>, Engine) {
    let (medium, recorder) = Recorder::attach(SimMedium::new().paged());
    let engine = Engine::open(Arc::new(medium), by_value(config())).unwrap();
    (recorder, engine)
}

/// Hazard: others split the leaves of a transaction between its insert and its commit, or between
/// its commit and the crash, so its record names slots of leaves that are gone, or its entries are
/// in no leaf that counts.
#[test]
fn leaves_that_split_under_a_transaction() {
    for splits_before in [true, false] {
        let (recorder, engine) = recorded();
        let keyed = Keyed::create(&engine, "t", &[Kind::Long, Kind::Name]);
        fill(&engine, &keyed, (0..6).map(|number| Fields::of(number * 10)));
        engine.checkpoint().unwrap();
        let mut txn = engine.session(Isolation::ReadCommitted);
        keyed.insert(&mut txn, &Fields::of(25).row()).unwrap();
        keyed.insert(&mut txn, &Fields::of(35).row()).unwrap();
        if splits_before {
            fill(&engine, &keyed, (0..12).map(|number| Fields::of(number * 5 + 1)));
        }
        txn.commit().unwrap();
        if !splits_before {
            fill(&engine, &keyed, (0..12).map(|number| Fields::of(number * 5 + 1)));
        }
        let rows = keyed.check(&engine);
        for medium in images_at_end(&recorder, 24) {
            is_sound(&medium, "after a power failure");
            let engine = open(&medium, false);
            assert_eq!(Keyed::open(&engine, "t", &[Kind::Long, Kind::Name]).check(&engine), rows);
        }
    }
}

/// Hazard: a checkpoint goes past commits whose versions and entries nobody has flushed.
#[test]
fn a_checkpoint_makes_values_durable() {
    let (recorder, engine) = recorded();
    let keyed = Keyed::create(&engine, "t", &KINDS);
    let rids = fill(&engine, &keyed, (0..8).map(Fields::of));
    let mut txn = engine.session(Isolation::ReadCommitted);
    keyed.delete(&mut txn, rids[1]).unwrap();
    txn.commit().unwrap();
    let rows = keyed.check(&engine);
    engine.checkpoint().unwrap();
    for medium in images_at_end(&recorder, 12) {
        assert!(records(&medium.image()).is_empty(), "the checkpoint covers all");
        let engine = open(&medium, true);
        assert_eq!(Keyed::open(&engine, "t", &KINDS).check(&engine), rows);
    }
}

/// Places of the versions that records carry.
fn places(records: &[Record<'_>]) -> Vec<Word> {
    let place = |record: &Record<'_>| match record {
        Record::Row { word, value: Some(_), .. } => Some(*word),
        _ => None,
    };
    records.iter().filter_map(place).collect()
}

/// Hazard: a rollback to a savepoint frees cells and slots, others write there and commit, and the
/// record of the transaction, which comes later, writes its own bytes over theirs.
#[test]
fn a_place_given_up_is_in_no_record() {
    let (medium, engine) = pool();
    let keyed = Keyed::create(&engine, "t", &KINDS);
    let row = |number: u32| Fields { padding: 8, ..Fields::of(number) }.row();
    let [mut txn, mut other] = [0; 2].map(|_| engine.session(Isolation::ReadCommitted));
    let rids = fill_by(&keyed, &mut txn);
    keyed.insert(&mut other, &row(50)).unwrap();
    other.commit().unwrap();
    engine.checkpoint().unwrap();
    let before = medium.image();
    let mut reused = 0;
    for (round, rid) in (0..6).zip(&rids) {
        keyed.update(&mut txn, *rid, &row(200 + round)).unwrap();
        let savepoint = txn.savepoint();
        keyed.insert(&mut txn, &row(300 + round)).unwrap();
        keyed.update(&mut txn, *rid, &row(400 + round)).unwrap();
        txn.rollback_to(&savepoint).unwrap();
        keyed.insert(&mut other, &row(500 + round)).unwrap();
        keyed.insert(&mut other, &row(600 + round)).unwrap();
        other.commit().unwrap();
        reused += 1;
    }
    txn.commit().unwrap();
    let rows = keyed.check(&engine);
    let after = medium.image();
    let places = places(&records(&after));
    let distinct: BTreeSet<_> = places.iter().map(|word| (word.file(), word.offset())).collect();
    assert_eq!((places.len(), distinct.len()), (3 * reused, 3 * reused), "each place is one row's");
    let medium = log_alone(&before, &after);
    let engine = open(&medium, true);
    assert_eq!(Keyed::open(&engine, "t", &KINDS).check(&engine), rows);
}

/// Encodes a real record and damages it: lengths, offsets, words and bytes, in their places or
/// anywhere.
fn forged(random: &mut Random, real: &[Record<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    real[random.below(real.len() as u64) as usize].encode(&mut bytes);
    for _ in 0..random.below(3) {
        // The head's fields, the slots, then lengths and offsets in front of rows and entries.
        let field = [0, 4, 8, 12, 16, 20, 24, 26, 32, 40, 42][random.below(11) as usize];
        let at = if random.one_in(3) { random.below(bytes.len() as u64) as usize } else { field };
        if let Some(byte) = bytes.get_mut(at) {
            *byte = if random.one_in(2) { random.next_u64() as u8 } else { *byte ^ 1 << random.below(8) };
        }
    }
    bytes
}

/// Hazard: a record with a right checksum carries bytes for a place outside a table, a cell or a
/// leaf, or more than fits there; recovery or the check panics or writes there. Such a record is
/// refused, or taken at its word.
#[test]
fn forged_values() {
    let (image, real, _) = crashed();
    assert!(real.iter().filter(|record| carries(record)).count() > 8);
    let (mut opened, mut refused) = (0, 0);
    // Recovering the log alone voids its records, so the engine redoes them first.
    let redone = Arc::new(SimMedium::from_image(image));
    open(&redone, true).close();
    for seed in seeds(600) {
        let mut random = Random::new(seed);
        let medium = Arc::new(SimMedium::from_image(redone.image()));
        let recovery = Recovery::open(medium.clone(), &config().log).unwrap();
        let (log, prepared) = recovery.finish(&mut || 7).unwrap();
        for number in 0..=random.below(2) {
            let body: Vec<u8> = (0..=random.below(2)).flat_map(|_| forged(&mut random, &real)).collect();
            let mut txn = log.begin(number);
            if random.one_in(3) {
                txn.prepare(b"forged", &body).unwrap();
            } else {
                let reservation = txn.reserve(body.len()).unwrap();
                let csn = txn.commit(reservation, &body);
                log.publish(csn);
                log.stored(csn);
            }
        }
        drop((log, prepared));
        let hint = format!("seed {seed}");
        if let Err(error) = check(medium.clone(), &mut |_, _| ()) {
            is_told(&error, &hint);
        }
        match Engine::open(medium.clone() as Arc<dyn Medium>, by_value(config())) {
            Err(error) => {
                is_told(&error, &hint);
                refused += 1;
            }
            Ok(engine) => {
                let mut txn = engine.session(Isolation::ReadCommitted);
                if let Ok(table) = engine.table("t") {
                    let _ = crate::common::try_rows(&mut txn, &table);
                }
                opened += 1;
            }
        }
    }
    assert!(opened > 50 && refused > 150, "{opened} opened, {refused} refused");
}

/// Hazard: the same content, by reference and by value, after a crash with all that was stored: the
/// values say nothing else than the places do.
#[test]
fn values_are_what_lies_in_the_places() {
    let (image, real, rows) = crashed();
    assert!(real.iter().any(|record| matches!(record, Record::Leaf { deleted, .. } if *deleted != 0)));
    for by_value in [true, false] {
        let medium = Arc::new(SimMedium::from_image(image.clone()));
        is_sound(&medium, "crashed");
        let engine = open(&medium, by_value);
        assert_eq!(Keyed::open(&engine, "t", &KINDS).check(&engine), rows);
    }
    // A pool of rows without keys, opened with other settings than it was made with.
    let medium = Arc::new(SimMedium::new());
    let engine = reopen(&medium);
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.insert(&table, &row_bytes(1)).unwrap();
    txn.commit().unwrap();
    drop((txn, table, engine));
    let engine = Engine::open(medium.clone() as Arc<dyn Medium>, by_value(small())).unwrap();
    let table = engine.table("t").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.insert(&table, &row_bytes(2)).unwrap();
    txn.commit().unwrap();
    drop((txn, table, engine));
    let engine = reopen(&medium);
    assert_eq!(committed(&engine, &engine.table("t").unwrap()), [row_bytes(1), row_bytes(2)]);
}
