//! Hazard: CHECK TABLE says OK to a table that is damaged, takes what others do meanwhile for
//! damage, cannot be stopped, or keeps purge waiting.

use crate::common::damage::{Subject, content, subject};
use crate::common::{pool, row_bytes, settle, small};
use perdura_engine::check::check;
use perdura_engine::format::{SegmentKind, segments_for_bytes};
use perdura_engine::{CheckClient, CheckDepth, CheckSummary, Engine, Error, ErrorKind, Isolation, Table};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SEGMENT_BYTES: u64 = 4096;
const SEGMENTS_AT: u64 = 4096;
const DESCRIPTORS_AT: u64 = 128;

/// Notes faults, takes every row, and does something whenever it is asked whether to go on.
struct Notes<F> {
    faults: Vec<Error>,
    goes_on: F,
}

impl<F: FnMut(u64, u64) -> bool> CheckClient for Notes<F> {
    fn goes_on(&mut self, done: u64, all: u64) -> bool {
        (self.goes_on)(done, all)
    }

    fn is_row(&mut self, row: &[u8]) -> bool {
        row != b"of another definition"
    }

    fn found(&mut self, fault: Error) {
        self.faults.push(fault);
    }
}

fn check_with(
    engine: &Engine,
    table: &Arc<Table>,
    depth: CheckDepth,
    goes_on: impl FnMut(u64, u64) -> bool,
) -> (CheckSummary, Vec<Error>) {
    let mut notes = Notes { faults: Vec::new(), goes_on };
    let mut session = engine.session(Isolation::RepeatableRead);
    session.start_statement();
    let summary = session.check_table(table, depth, &mut notes).expect("it is a table of the pool");
    session.end_statement();
    assert_eq!(summary.faults, notes.faults.len() as u64);
    (summary, notes.faults)
}

fn check_table(engine: &Engine, table: &Arc<Table>) -> (CheckSummary, Vec<Error>) {
    check_with(engine, table, CheckDepth::Full, |_, _| true)
}

/// Changes the bytes at `at` of a file.
fn damage(medium: &SimMedium, file: &str, at: u64, with: impl Fn(u8) -> u8) {
    let region = medium.open(file).expect("it exists");
    let mut byte = [0];
    region.read(at, &mut byte);
    region.write(at, &[with(byte[0])]);
}

#[test]
fn a_sound_table_has_no_faults() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    assert_eq!(check_table(&engine, &table).0, CheckSummary::default());
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rids: Vec<_> = (0..200).map(|number| txn.insert(&table, &row_bytes(number)).unwrap()).collect();
    txn.insert(&table, &vec![7; 9000]).unwrap();
    assert_eq!(check_table(&engine, &table).0.rows, 0, "nothing is committed");
    txn.commit().unwrap();
    (0..10).for_each(|number| txn.delete(&table, rids[number]).unwrap());
    (10..20).for_each(|number| txn.update(&table, rids[number], b"new").unwrap());
    txn.commit().unwrap();
    txn.update(&table, rids[20], b"not committed").unwrap();
    for _ in 0..2 {
        assert_eq!(check_table(&engine, &table).0, CheckSummary { rows: 191, faults: 0, is_partial: false });
        settle(&engine);
    }
}

/// A row whose checksum is right and that is none of the table's all the same.
#[test]
fn a_row_of_another_definition_is_a_fault() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.insert(&table, b"sound").unwrap();
    let rid = txn.insert(&table, b"of another definition").unwrap();
    txn.commit().unwrap();
    let (summary, faults) = check_table(&engine, &table);
    assert_eq!((summary.rows, summary.faults), (2, 1));
    let text = faults[0].to_string();
    assert!(text.starts_with(&format!("row {:#x}: t.", rid.row())) && text.contains("definition"), "{text}");
    assert_eq!(check_with(&engine, &table, CheckDepth::Quick, |_, _| true).0.faults, 0);
}

/// Faults that the online check finds in the pool on `medium`; `None` if the pool or a table cannot
/// even be opened.
fn online(medium: &Arc<dyn Medium>) -> Option<(Engine, Vec<Error>)> {
    let engine = Engine::open(medium.clone(), small()).ok()?;
    let tables = engine.tables().ok()?;
    let faults = tables.iter().flat_map(|table| check_table(&engine, table).1).collect();
    Some((engine, faults))
}

/// Places of the directory words and versions of the pool's own tables: file, offset.
fn places(subject: &Subject) -> Vec<(String, u64)> {
    let medium = SimMedium::from_image(subject.image.clone());
    let mut places = Vec::new();
    for (name, len) in subject.image.list() {
        let Some((table, file)) = name.strip_prefix("t.").and_then(|numbers| numbers.split_once('.')) else { continue };
        let number = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
        let region = medium.open(&name).expect("it exists");
        for index in 0..segments_for_bytes(len, SEGMENT_BYTES) {
            let salt = number(table) << 32 ^ number(file) << 16 ^ index;
            let kind = SegmentKind::decode(region.load(DESCRIPTORS_AT + index * 8), salt).expect("sound");
            if kind != SegmentKind::Free {
                let start = SEGMENTS_AT + index * SEGMENT_BYTES;
                places.extend((start..start + SEGMENT_BYTES).map(|at| (name.clone(), at)));
            }
        }
    }
    places
}

/// Hazard: a bit that flips at rest, in a version or in the row directory, passes the check
/// although rows are lost or changed (I6).
#[test]
fn whatever_changes_a_row_is_found_online() {
    let subject = subject(true);
    let mut random = Random::new(5);
    let (mut found, mut harmless) = (0, 0);
    for (file, at) in places(&subject) {
        if !random.one_in(150) {
            continue;
        }
        let bit = random.below(8);
        let damaged = SimMedium::from_image(subject.image.clone());
        damage(&damaged, &file, at, |byte| byte ^ 1 << bit);
        let medium: Arc<dyn Medium> = Arc::new(damaged);
        let hint = format!("bit {bit} of {file} at offset {at:#x}");
        let offline = check(medium.clone(), &mut |_, _| ()).map_or(true, |report| !report.problems.is_empty());
        let Some((engine, faults)) = online(&medium) else {
            assert!(offline, "{hint}: it does not open");
            continue;
        };
        if faults.is_empty() {
            assert_eq!(content(&engine).expect("it reads"), subject.content, "{hint}: rows differ");
            harmless += 1;
        } else {
            assert!(offline, "{hint}: only the online check finds {}", faults[0]);
            found += 1;
        }
        for fault in faults {
            let text = fault.to_string();
            assert_eq!(fault.kind(), ErrorKind::Damaged);
            assert!(text.contains(" at offset ") && text.contains("restore"), "{hint}: {text}");
        }
    }
    assert!(found > 10 && harmless > 10, "{found} found, {harmless} harmless");
}

#[test]
fn a_damaged_descriptor_is_found_while_the_table_is_open() {
    let (medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.insert(&table, b"row").unwrap();
    txn.commit().unwrap();
    let file = "t.00000002.00000";
    damage(&medium, file, DESCRIPTORS_AT + 8 * 5, |byte| byte ^ 4);
    let (summary, faults) = check_table(&engine, &table);
    assert_eq!(summary.faults, 1, "{faults:?}");
    assert!(faults[0].to_string().contains(&format!("{file} at offset {}", DESCRIPTORS_AT + 8 * 5)), "{}", faults[0]);
    damage(&medium, file, DESCRIPTORS_AT + 8 * 5, |byte| byte ^ 4);
    assert_eq!(check_table(&engine, &table).0.faults, 0);
}

/// Hazard: a table damaged all over makes a result of millions of rows.
#[test]
fn a_check_ends_after_a_hundred_faults() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    for _ in 0..300 {
        txn.insert(&table, b"of another definition").unwrap();
    }
    txn.commit().unwrap();
    let (summary, _) = check_table(&engine, &table);
    assert_eq!((summary.faults, summary.is_partial), (100, true));
}

/// Hazard: KILL waits for the end of a long check; and a check of hours keeps every old version.
#[test]
fn a_check_can_be_stopped_and_keeps_purge_waiting_for_a_page_only() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rids: Vec<_> = (0..200).map(|number| txn.insert(&table, &row_bytes(number)).unwrap()).collect();
    txn.commit().unwrap();
    let (summary, _) = check_with(&engine, &table, CheckDepth::Full, |done, _| done < 3);
    assert!(summary.is_partial && summary.rows < 100, "{summary:?}");
    let (mut asked, mut purged) = (0, 0);
    let (summary, faults) = check_with(&engine, &table, CheckDepth::Full, |done, all| {
        asked += 1;
        assert!(done <= all);
        txn.update(&table, rids[asked], b"changed meanwhile").unwrap();
        txn.commit().unwrap();
        engine.checkpoint().unwrap();
        purged += engine.purge();
        true
    });
    assert!(faults.is_empty() && summary.rows == 200, "{summary:?} {faults:?}");
    assert!(asked >= 5 && purged == asked, "asked {asked} times, {purged} purged");
}

/// Hazard: what others change, delete, insert and purge under a check looks like damage to it, or
/// is read after it was freed (I8).
#[test]
fn nothing_that_others_do_meanwhile_is_a_fault() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (engine, table, stop) = (engine.clone(), table.clone(), &stop);
            scope.spawn(move || work(&engine, &table, number, stop));
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                engine.checkpoint().unwrap();
                engine.purge();
                engine.compact();
            }
        });
        for _ in 0..60 {
            let (summary, faults) = check_table(&engine, &table);
            assert!(faults.is_empty() && !summary.is_partial, "{faults:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(check_table(&engine, &table).0.faults, 0);
}

/// Inserts, changes and deletes rows of its own, in bulk as well, until it is told to stop.
fn work(engine: &Engine, table: &Arc<Table>, seed: u64, stop: &AtomicBool) {
    let mut random = Random::new(seed);
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut rids = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let inserted = if random.one_in(10) { 150 } else { random.below(5) };
        rids.extend((0..inserted).map(|number| txn.insert(table, &row_bytes(number as u32)).unwrap()));
        for _ in 0..random.below(20) {
            if !rids.is_empty() {
                let rid = rids[random.below(rids.len() as u64) as usize];
                txn.update(table, rid, &row_bytes(random.below(1000) as u32)).unwrap();
            }
        }
        let kept = if rids.len() > 400 { 50 } else { rids.len() - rids.len() / 8 };
        rids.drain(kept..).for_each(|rid| txn.delete(table, rid).unwrap());
        txn.commit().unwrap();
    }
}
