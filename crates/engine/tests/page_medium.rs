//! Hazard: on a disk a sync fails, and the pool acknowledges what is lost, or what waited for that
//! sync is written and spoils what was acknowledged before. Each sync may be the one that fails.
//! Tests (I1), (I3), (I11).

use crate::common::keyed::{Fields, Keyed, Kind, Rows, config, fill};
use perdura_engine::{Config, Engine, Error, ErrorKind, IndexDefinition, Isolation, Key, ReadView, Result, Session};
use perdura_pmem::sim::{Image, PointKind, Random, Recorder, ReplayOptions, Seen, Trace};
use perdura_pmem::{FileMedium, Medium, Mode, SimMedium};
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// The second has room for two entries in a leaf, so leaves split and join all the time.
const KINDS: [Kind; 2] = [Kind::Number, Kind::Long];
const TRANSACTIONS: u64 = 40;

/// Outcome of a run: what was acknowledged, and what a commit that was refused would have made of
/// it.
#[derive(Default)]
struct Outcome {
    has_table: bool,
    acknowledged: Rows,
    undecided: Option<Rows>,
    refusal: Option<Error>,
}

/// A moment of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    BeforeCheckpoint,
    AfterCheckpoint,
    AfterTransaction,
}

/// Creates a table and changes it until the pool refuses.
fn run(engine: &Engine, seed: u64) -> Outcome {
    run_observed(engine, seed, &mut |_, _| ())
}

/// The same, with somebody who looks at the outcome so far.
fn run_observed(engine: &Engine, seed: u64, observe: &mut dyn FnMut(&Outcome, Moment)) -> Outcome {
    let mut outcome = Outcome::default();
    let keyed = match Keyed::try_create(engine, "t", &KINDS) {
        Ok(keyed) => keyed,
        Err(error) => {
            outcome.refusal = Some(error);
            return outcome;
        }
    };
    outcome.has_table = true;
    let mut random = Random::new(seed);
    let mut number = 0;
    for round in 0..TRANSACTIONS {
        let mut txn = engine.session(Isolation::ReadCommitted);
        let mut rows = outcome.acknowledged.clone();
        let mut is_decided = true;
        let written = change(&keyed, &mut txn, &mut rows, &mut number, &mut random).and_then(|()| {
            is_decided = false;
            txn.commit()
        });
        match written {
            Ok(_) => outcome.acknowledged = rows,
            Err(error) => {
                let _ = txn.rollback();
                outcome.undecided = (!is_decided).then_some(rows);
                outcome.refusal = Some(error);
                return outcome;
            }
        }
        observe(&outcome, Moment::AfterTransaction);
        if round % 8 == 5 {
            observe(&outcome, Moment::BeforeCheckpoint);
            let _ = engine.checkpoint();
            observe(&outcome, Moment::AfterCheckpoint);
            engine.purge();
        }
    }
    outcome
}

/// Makes one to three changes.
fn change(keyed: &Keyed, txn: &mut Session, rows: &mut Rows, number: &mut u32, random: &mut Random) -> Result<()> {
    for _ in 0..1 + random.below(3) {
        *number += 1;
        let row = Fields::of(*number).row();
        let place = random.below(rows.len().max(1) as u64) as usize;
        let rid = rows.keys().nth(place).copied().filter(|_| random.one_in(2));
        match rid {
            None => {
                rows.insert(keyed.insert(txn, &row)?, row);
            }
            Some(rid) if random.one_in(3) => {
                keyed.delete(txn, rid)?;
                rows.remove(&rid);
            }
            Some(rid) => {
                keyed.update(txn, rid, &row)?;
                rows.insert(rid, row);
            }
        }
    }
    Ok(())
}

/// Compares a pool, opened after the run, with its outcome, and uses it.
fn check(engine: &Engine, outcome: &Outcome, hint: &str) {
    let table = match engine.table("t") {
        Ok(table) => table,
        Err(error) => {
            assert!(!outcome.has_table, "{hint}: {error}");
            return;
        }
    };
    engine.sweep().and_then(|()| table.audit()).unwrap_or_else(|error| panic!("{hint}: {error}"));
    let keyed = Keyed::open(engine, "t", &KINDS);
    let mut txn = engine.session(Isolation::ReadCommitted);
    let found: Rows = crate::common::rows(&mut txn, &table).into_iter().collect();
    let is_expected = found == outcome.acknowledged || outcome.undecided.as_ref() == Some(&found);
    assert!(
        is_expected,
        "{hint}: {} rows found, {} were acknowledged, {:?} would be there after the commit that was refused",
        found.len(),
        outcome.acknowledged.len(),
        outcome.undecided.as_ref().map(Rows::len)
    );
    keyed.check_against(&mut txn, &found, ReadView::Newest, hint);
    keyed.insert(&mut txn, &Fields::of(1_000_000).row()).unwrap_or_else(|error| panic!("{hint}: {error}"));
    txn.commit().unwrap_or_else(|error| panic!("{hint}: {error}"));
}

/// A refusal names the file, the system's answer and the remedy.
fn check_refusal(outcome: &Outcome, file: &str, hint: &str) {
    let error = outcome.refusal.as_ref().unwrap_or_else(|| panic!("{hint}: nothing was refused"));
    assert!([ErrorKind::ReadOnlyPool, ErrorKind::Medium].contains(&error.kind()), "{hint}: {error}");
    let text = error.to_string();
    assert!(text.contains(file) && text.contains("os error 5") && text.contains("restart"), "{hint}: {text}");
}

/// A pool in simulated memory of pages, whose sync fails after so many: outcome, recording, and
/// whether it has failed.
fn simulated(after: u64) -> (Option<Outcome>, Trace, bool) {
    let (medium, recorder) = Recorder::attach(SimMedium::new().paged());
    medium.fail_sync_after(after);
    let medium = Arc::new(medium);
    let shared: Arc<dyn Medium> = medium.clone();
    let outcome = Engine::open(shared, config()).ok().map(|engine| run(&engine, after));
    (outcome, recorder.finish(), medium.health().check().is_err())
}

/// The images that a loss of power after the run may leave.
fn images(trace: &Trace, seed: u64) -> Vec<Image> {
    let mut images = Vec::new();
    trace.replay(&ReplayOptions::default(), |point| {
        if point.kind == PointKind::End {
            images = point.images(&mut Random::new(seed), &mut Seen::default(), 6);
        }
        ControlFlow::Continue(())
    });
    images
}

#[test]
fn whichever_sync_fails_nothing_that_was_acknowledged_is_lost() {
    let mut after = 0;
    loop {
        let (outcome, trace, has_failed) = simulated(after);
        let hint = format!("sync {} fails", after + 1);
        if let (Some(outcome), true) = (&outcome, has_failed)
            && outcome.refusal.is_some()
        {
            check_refusal(outcome, "", &hint);
        }
        for (number, image) in images(&trace, after).into_iter().enumerate() {
            let hint = format!("{hint}, image {number}");
            let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image));
            let engine = Engine::open(medium, config()).unwrap_or_else(|error| panic!("{hint}: {error}"));
            check(&engine, outcome.as_ref().unwrap_or(&Outcome::default()), &hint);
        }
        if !has_failed {
            break;
        }
        // Each of those that create the pool and begin, then one in seven.
        after += if after < 70 { 1 } else { 7 };
    }
    assert!(after > 150, "only {after} syncs");
}

/// A directory on a disk.
fn directory() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory")
}

/// How the fences of a disk become durable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Syncs,
    Journal,
}

fn open(directory: &TempDir, by: By) -> (Arc<FileMedium>, Engine) {
    let medium = match by {
        By::Syncs => FileMedium::open_paged(directory.path(), false),
        By::Journal => FileMedium::open_journaled(directory.path(), false, 64 << 20),
    };
    let medium = Arc::new(medium.expect("the directory opens"));
    assert_eq!(medium.info().mode, Mode::Page, "the tests' directory is not on persistent memory");
    let shared: Arc<dyn Medium> = medium.clone();
    let engine = Engine::open(shared, config()).expect("the pool opens");
    (medium, engine)
}

#[test]
fn a_pool_on_a_disk_keeps_what_it_has_acknowledged() {
    [By::Syncs, By::Journal].into_iter().for_each(keeps_what_it_has_acknowledged);
}

fn keeps_what_it_has_acknowledged(by: By) {
    let directory = directory();
    let (medium, engine) = open(&directory, by);
    let before = medium.sync_count();
    let outcome = run(&engine, 1);
    assert!(outcome.refusal.is_none(), "{:?}", outcome.refusal);
    assert!(medium.sync_count() - before > TRANSACTIONS, "each commit waits for a sync at least");
    assert!(engine.status().to_string().contains("mode page"), "{}", engine.status());
    drop((engine, medium));
    let (medium, engine) = open(&directory, by);
    check(&engine, &outcome, "after a restart");
    drop((engine, medium));
    let (_, engine) = open(&directory, by);
    let table = engine.table("t").expect("it is there");
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut found: Rows = crate::common::rows(&mut txn, &table).into_iter().collect();
    let count = found.len();
    found.retain(|_, row| *row != Fields::of(1_000_000).row());
    assert_eq!((found.len() + 1, found), (count, outcome.acknowledged), "the row of the check, and all others");
}

#[test]
fn a_pool_on_a_disk_stops_with_the_reason_and_restarts() {
    for (after, by) in [0, 1, 2, 5, 17, 60].into_iter().flat_map(|after| [(after, By::Syncs), (after, By::Journal)]) {
        let hint = format!("sync {} after the start fails", after + 1);
        let directory = directory();
        let (medium, engine) = open(&directory, by);
        medium.fail_sync_after(after);
        let outcome = run(&engine, after);
        check_refusal(&outcome, &directory.path().display().to_string(), &hint);
        let again = engine.create_table("other", b"").map(|_| ()).expect_err("it has stopped");
        assert_eq!(again.kind(), ErrorKind::ReadOnlyPool, "{hint}: {again}");
        engine.checkpoint().expect_err("it has stopped");
        drop((engine, medium));
        let (_, engine) = open(&directory, by);
        check(&engine, &outcome, &hint);
    }
}

/// Files of a directory, by name.
type Files = BTreeMap<String, Vec<u8>>;

fn files(directory: &Path) -> Files {
    let entries = fs::read_dir(directory).expect("it lists").map(|entry| entry.expect("an entry"));
    let named = entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
    named
        .filter(|(name, _)| !name.starts_with('.'))
        .map(|(name, path)| (name, fs::read(path).expect("it is read")))
        .collect()
}

/// A directory as a loss of power may leave it: journal and log, which are written past the cache,
/// and of all other files each word as it is or as it was at the last checkpoint.
fn power_lost(now: &Files, settled: &Files, random: &mut Random) -> TempDir {
    let image = directory();
    for (name, bytes) in now {
        let mut bytes = bytes.clone();
        if !["journal.", "log.", "super"].iter().any(|written| name.starts_with(written)) {
            let empty = vec![0; bytes.len()];
            let old = settled.get(name).filter(|old| old.len() == bytes.len()).unwrap_or(&empty);
            // Some pages as a whole, some word by word.
            for (now, old) in bytes.chunks_mut(4096).zip(old.chunks(4096)) {
                let odds = [0, 1, 50, 99, 100][random.below(5) as usize];
                for (now, old) in now.chunks_mut(8).zip(old.chunks(8)).filter(|(now, old)| now != old) {
                    if random.below(100) < odds {
                        now.copy_from_slice(old);
                    }
                }
            }
        }
        fs::write(image.path().join(name), bytes).expect("it is written");
    }
    image
}

/// Hazard: the kernel has written some words of a file back and not others; all there is besides is
/// the journal, and records by value.
#[test]
fn a_pool_with_a_journal_survives_a_loss_of_power() {
    for seed in 0..4 {
        let directory = directory();
        let (_medium, engine) = open(&directory, By::Journal);
        let mut settled = files(directory.path());
        let mut before = Files::new();
        let mut random = Random::new(seed);
        let mut images = 0;
        run_observed(&engine, seed, &mut |outcome, moment| match moment {
            Moment::BeforeCheckpoint => before = files(directory.path()),
            Moment::AfterCheckpoint => settled = std::mem::take(&mut before),
            Moment::AfterTransaction => {
                let hint = format!("seed {seed} image {images}");
                let image = power_lost(&files(directory.path()), &settled, &mut random);
                let (medium, engine) = open(&image, By::Journal);
                check(&engine, outcome, &hint);
                medium.health().check().expect("nothing has failed");
                images += 1;
            }
        });
        assert_eq!(images, TRANSACTIONS);
    }
}

/// Hazard: what the journal has of a line is from before the line was synced in place, or from
/// before another thread has stored into it. A killed process leaves all that it has stored, so
/// here only the replay can spoil it.
#[test]
fn loads_side_by_side_survive_a_kill() {
    for seed in 0..4 {
        let directory = directory();
        let (_medium, engine) = open(&directory, By::Journal);
        let table = engine.create_table("loaded", b"").expect("there is room");
        let load = |thread: u64| {
            let mut random = Random::new(seed * 10 + thread);
            let mut loaded = 0;
            for _ in 0..40 {
                let mut txn = engine.session(Isolation::ReadCommitted);
                let rows = 20 + random.below(200);
                for _ in 0..rows {
                    txn.insert(&table, &vec![1; 100 + random.below(400) as usize]).expect("there is room");
                }
                txn.commit().expect("nothing fails");
                loaded += rows;
                if random.one_in(5) {
                    engine.checkpoint().expect("nothing fails");
                }
            }
            loaded
        };
        let loaded: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || load(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
        });
        let image = power_lost(&files(directory.path()), &files(directory.path()), &mut Random::new(seed));
        let (_medium, engine) = open(&image, By::Journal);
        let table = engine.table("loaded").expect("it is there");
        let mut txn = engine.session(Isolation::ReadCommitted);
        assert_eq!(crate::common::rows(&mut txn, &table).len() as u64, loaded, "seed {seed}");
    }
}

/// Hazard: a small transaction commits an entry in a leaf that a large one has made and published
/// later, and a loss of power takes the leaf. Or the large one commits, and its own leaves go.
#[test]
fn commits_in_leaves_that_were_published_later_survive_a_loss_of_power() {
    let key = |number: u64| number.to_be_bytes();
    for seed in 0..3 {
        let directory = directory();
        let (_medium, engine) = open(&directory, By::Journal);
        let definition = IndexDefinition { unique: true, key_bytes: 8 };
        let table = engine.create_table_with("t", b"", &[definition]).expect("there is room");
        engine.checkpoint().expect("nothing fails");
        let settled = files(directory.path());
        let mut random = Random::new(seed);
        let insert = |txn: &mut Session, number: u64| {
            let key = Key { bytes: &key(number), may_repeat: false };
            txn.insert_with(&table, &number.to_le_bytes(), &[key]).expect("there is room");
        };
        let verify = |numbers: &[u64], hint: &str, random: &mut Random| {
            let image = power_lost(&files(directory.path()), &settled, random);
            let (_medium, engine) = open(&image, By::Journal);
            let table = engine.table("t").expect("it is there");
            let mut txn = engine.session(Isolation::RepeatableRead);
            for number in numbers {
                let found = txn.index(&table, 0).find(&key(*number), ReadView::Snapshot).expect("no damage");
                assert!(found.is_some(), "{hint}: {number} was committed");
            }
            assert_eq!(crate::common::rows(&mut txn, &table).len(), numbers.len(), "{hint}");
            txn.end_statement();
            engine.sweep().and_then(|()| table.audit()).unwrap_or_else(|error| panic!("{hint}: {error}"));
        };
        let mut load = engine.session(Isolation::ReadCommitted);
        let mut numbers: Vec<u64> = Vec::new();
        for number in 1..=2000 {
            // Even ones all over, for leaves to split anywhere.
            insert(&mut load, number * 7919 % 4093 * 2);
            if number > 600 && random.one_in(150) {
                let mut small = engine.session(Isolation::ReadCommitted);
                let own = random.below(8192) | 1;
                if !numbers.contains(&own) {
                    insert(&mut small, own);
                    small.commit().expect("nothing fails");
                    numbers.push(own);
                    verify(&numbers, &format!("seed {seed}, {number} rows loaded"), &mut random);
                }
            }
        }
        load.commit().expect("nothing fails");
        numbers.extend((1..=2000).map(|number| number * 7919 % 4093 * 2));
        verify(&numbers, &format!("seed {seed}, loaded"), &mut random);
    }
}

/// Hazard: a segment whose leaves have all gone holds versions, or leaves of another size, before
/// its new kind is stored. A killed process leaves them, and by the kind from before they are
/// leaves, and damaged.
#[test]
fn segments_that_held_leaves_have_another_use_when_the_process_is_killed() {
    let mut kills = 0;
    for seed in 0..2 {
        let directory = directory();
        let (_medium, engine) = open(&directory, By::Journal);
        let keyed = Keyed::create(&engine, "t", &KINDS);
        let mut random = Random::new(seed);
        let mut kept = Rows::new();
        for round in 0..3 {
            let hint = |what: &str| format!("seed {seed}, round {round}, {what}");
            let mut txn = engine.session(Isolation::ReadCommitted);
            let rids: Vec<_> = (0..200).map(|number| Fields::of(1000 + number).row()).collect();
            let rids: Vec<_> = rids.iter().map(|row| keyed.insert(&mut txn, row).expect("there is room")).collect();
            txn.commit().expect("nothing fails");
            rids.iter().for_each(|rid| keyed.delete(&mut txn, *rid).expect("it is there"));
            txn.commit().expect("nothing fails");
            for _ in 0..6 {
                engine.checkpoint().expect("nothing fails");
                crate::common::settle(&engine);
            }
            for number in 0..60 {
                let fields =
                    Fields { padding: 100 + random.below(900) as usize, ..Fields::of(10_000 + round * 200 + number) };
                let rid = keyed.insert(&mut txn, &fields.row()).expect("there is room");
                kept.insert(rid, fields.row());
                if random.one_in(4) {
                    let image = power_lost(&files(directory.path()), &files(directory.path()), &mut random);
                    let (_medium, engine) = open(&image, By::Journal);
                    let table = engine.table("t").expect("it is there");
                    engine
                        .sweep()
                        .and_then(|()| table.audit())
                        .unwrap_or_else(|error| panic!("{}: {error}", hint("killed")));
                    kills += 1;
                }
                if random.one_in(20) {
                    txn.commit().expect("nothing fails");
                }
            }
            txn.commit().expect("nothing fails");
        }
        assert_eq!(keyed.check(&engine), kept, "seed {seed}");
    }
    assert!(kills > 60, "{kills} kills");
}

/// Hazard: a page that cannot be read fails every statement, and nobody is alarmed: the pool counts
/// as sound until somebody writes.
#[test]
fn a_page_that_cannot_be_read_stops_the_pool_although_nobody_writes() {
    let directory = directory();
    let medium = FileMedium::open_paged(directory.path(), false).expect("the directory opens");
    let engine = Engine::open(Arc::new(medium), Config { background: true, ..config() }).expect("a new pool");
    let keyed = Keyed::create(&engine, "t", &KINDS);
    fill(&engine, &keyed, (0..300).map(Fields::of));
    engine.checkpoint().expect("nothing fails");
    let counters = engine.counters();
    assert_eq!((counters.failed, counters.notices), (0, 0));
    for (name, _) in files(directory.path()).iter().filter(|(name, _)| name.starts_with("t.")) {
        let file = fs::File::options().write(true).open(directory.path().join(name)).expect("a data file");
        file.set_len(0).expect("it can be cut");
    }
    // Zeros are no rows, so these reads may fail.
    let mut txn = engine.session(Isolation::ReadCommitted);
    let _ = crate::common::try_rows(&mut txn, &keyed.table);
    engine.check_medium().expect_err("the files are gone");
    for _ in 0..4000 {
        if engine.counters().failed == 1 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let counters = engine.counters();
    assert_eq!((counters.failed, counters.notices), (1, 1));
    assert!(engine.status().notices[0].contains("takes no more changes"), "{:?}", engine.status().notices);
}
