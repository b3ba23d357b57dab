//! Hazard: a file that comes from a dropped table shows what that table held, is used while
//! somebody reads it, takes the room that others need, or is lost for ever. Tests (I3), (I8).

use crate::common::keyed::{self, Fields, KINDS, Keyed};
use crate::common::{committed, directory, files, row_bytes, rows, seeds, simulated, small};
use perdura_engine::check::check;
use perdura_engine::{Config, Engine, ErrorKind, Isolation, Table};
use perdura_pmem::sim::image::Image;
use perdura_pmem::sim::{Random, Recorder, ReplayOptions, Seen};
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

const ROWS: u32 = 12_000;
/// Files that the tests' pools keep at most, as docs/operations.md says.
const FILES_MAX: usize = 64;

fn open(medium: &Arc<SimMedium>, kept_file_bytes: u64) -> Engine {
    let shared: Arc<dyn Medium> = medium.clone();
    Engine::open(shared, Config { kept_file_bytes, ..small() }).expect("the pool opens")
}

fn load(engine: &Engine, table: &Arc<Table>, numbers: std::ops::Range<u32>) {
    let mut txn = engine.session(Isolation::ReadCommitted);
    for number in numbers {
        txn.insert(table, &row_bytes(number)).unwrap();
        if number % 1000 == 999 {
            txn.commit().unwrap();
            engine.checkpoint().unwrap();
        }
    }
    txn.commit().unwrap();
    engine.checkpoint().unwrap();
}

fn expected(numbers: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    let mut rows: Vec<_> = numbers.map(row_bytes).collect();
    rows.sort();
    rows
}

/// Names and lengths of the files whose names begin with `prefix`.
fn named(medium: &dyn Medium, prefix: &str) -> Vec<(String, u64)> {
    medium.list().unwrap().into_iter().filter(|(name, _)| name.starts_with(prefix)).collect()
}

fn bytes(files: &[(String, u64)]) -> u64 {
    files.iter().map(|(_, bytes)| bytes).sum()
}

/// Checks that the status says what the medium has.
fn check_status(engine: &Engine, medium: &dyn Medium) {
    let kept = named(medium, "kept.");
    let status = engine.status();
    assert_eq!((status.kept_files, status.kept_bytes), (kept.len(), bytes(&kept)));
    assert_eq!(engine.counters().kept_file_bytes, bytes(&kept));
    let line = format!("{} kept files of dropped tables", kept.len());
    assert_eq!(status.to_string().contains(&line), !kept.is_empty(), "{status}");
}

#[test]
fn a_new_table_is_made_of_the_files_of_a_dropped_one() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, 64 << 20);
    let table = engine.create_table("old", b"").unwrap();
    load(&engine, &table, 0..ROWS);
    let old = named(&*medium, "t.00000002.");
    assert!(old.len() > 4, "{old:?}");
    drop(table);
    engine.drop_table("old").unwrap();
    let lengths = |files: &[(String, u64)]| {
        let mut lengths: Vec<_> = files.iter().map(|(_, bytes)| *bytes).collect();
        lengths.sort_unstable();
        lengths
    };
    assert_eq!(lengths(&named(&*medium, "kept.")), lengths(&old), "all of them are kept");
    assert!(named(&*medium, "t.00000002.").is_empty());
    check_status(&engine, &*medium);

    let table = engine.create_table("new", b"").unwrap();
    assert!(committed(&engine, &table).is_empty());
    assert_eq!(table.free_bytes() + 4096, table.data_bytes(), "all of its segments are free");
    load(&engine, &table, 0..ROWS / 2);
    load(&engine, &table, ROWS..ROWS + ROWS / 2);
    let all = named(&*medium, "t.00000003.");
    assert_eq!(bytes(&all) + bytes(&named(&*medium, "kept.")), bytes(&old), "no file is new");
    let mut rows = [expected(0..ROWS / 2), expected(ROWS..ROWS + ROWS / 2)].concat();
    rows.sort();
    assert_eq!(committed(&engine, &table), rows);
    simulated::audit(&engine);
    check_status(&engine, &*medium);
    drop((table, engine));

    let engine = open(&medium, 64 << 20);
    assert!(named(&*medium, "kept.").is_empty(), "a start keeps nothing");
    assert_eq!(committed(&engine, &engine.table("new").unwrap()), rows);
    simulated::audit(&engine);
    drop(engine);
    assert_eq!(check(medium, &mut |_, _| ()).unwrap().problems, Vec::<String>::new());
}

/// Files that held leaves of indexes, directory pages, cells and extents come back in other places
/// of tables with indexes, on real files too.
#[test]
fn nothing_of_an_old_table_is_found_in_a_new_one() {
    for seed in seeds(4) {
        let directory = directory();
        let medium = files(&directory);
        let mut random = Random::new(seed);
        let config = Config { kept_file_bytes: 8 << 20, ..keyed::config() };
        let engine = Engine::open(medium.clone(), config).unwrap();
        let (mut reused, mut first) = (0, 0);
        for round in 0..6 {
            let (hint, name) = (format!("seed {seed}, round {round}"), format!("t{round}"));
            let before = engine.counters().kept_file_bytes;
            let table = Keyed::create(&engine, &name, &KINDS);
            assert!(table.check(&engine).is_empty(), "{hint}");
            let mut txn = engine.session(Isolation::ReadCommitted);
            let count = 200 + random.below(400) as u32;
            for number in first..first + count {
                let padding = if random.one_in(40) { random.below(20_000) } else { random.below(60) };
                let row = Fields { padding: padding as usize, ..Fields::of(number) }.row();
                table.insert(&mut txn, &row).unwrap_or_else(|error| panic!("{hint}: {error}"));
                if number % 50 == 0 {
                    txn.commit().unwrap();
                }
            }
            txn.commit().unwrap();
            first += count;
            reused += u32::from(engine.counters().kept_file_bytes < before);
            assert_eq!(table.check(&engine).len(), count as usize, "{hint}");
            drop((table, txn));
            simulated::audit(&engine);
            if random.one_in(3) {
                let empty = engine.truncate_table(&name).unwrap();
                assert!(committed(&engine, &empty).is_empty(), "{hint}");
            } else {
                engine.drop_table(&name).unwrap();
            }
            check_status(&engine, &*medium);
        }
        assert!(reused > 3, "seed {seed}: {reused} tables were made of kept files");
        engine.close();
        assert!(named(&*medium, "kept.").is_empty(), "a closed pool keeps nothing");
    }
}

/// Hazard: a file is wiped, or filled with other rows, under a reader that has found its table
/// before it was dropped.
#[test]
fn a_file_that_somebody_reads_is_not_used() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, 64 << 20);
    let old = engine.create_table("old", b"").unwrap();
    load(&engine, &old, 0..ROWS);
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.start_statement();
    let mut scan = txn.scan(&old);
    let mut seen = BTreeSet::new();
    // SAFETY: the statement has not ended.
    let bytes_of = |row: perdura_engine::RowRef| unsafe { row.bytes() }.to_vec();
    seen.extend(scan.next(&txn).unwrap().map(|(_, row)| bytes_of(row)));
    engine.drop_table("old").unwrap();
    let kept = named(&*medium, "kept.");
    assert!(kept.len() > 4, "{kept:?}");

    let new = engine.create_table("new", b"").unwrap();
    load(&engine, &new, ROWS..2 * ROWS);
    assert_eq!(named(&*medium, "kept."), kept, "none of them is used");
    while let Some((_, row)) = scan.next(&txn).unwrap() {
        seen.insert(bytes_of(row));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected(0..ROWS));
    drop((scan, txn, old));

    let newer = engine.create_table("newer", b"").unwrap();
    load(&engine, &newer, 0..ROWS);
    assert!(named(&*medium, "kept.").len() < kept.len(), "nobody reads them any more");
    assert_eq!(committed(&engine, &new), expected(ROWS..2 * ROWS));
    assert_eq!(committed(&engine, &newer), expected(0..ROWS));
}

#[test]
fn so_much_is_kept_and_no_more() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, 1 << 19);
    for round in 0..4 {
        for name in ["a", "b"] {
            let table = engine.create_table(name, b"").unwrap();
            load(&engine, &table, 0..ROWS);
            assert!(table.data_bytes() > 1 << 19);
            drop(table);
            engine.drop_table(name).unwrap();
            let kept = named(&*medium, "kept.");
            assert!((1 << 18..=1 << 19).contains(&bytes(&kept)), "round {round}: {kept:?}");
            assert_eq!(named(&*medium, "t.").len(), named(&*medium, "t.00000001.").len(), "the rest is removed");
            check_status(&engine, &*medium);
        }
    }
    // The oldest go.
    let before = named(&*medium, "kept.");
    let small = engine.create_table("small", b"").unwrap();
    let left = named(&*medium, "kept.");
    assert_eq!(left.len() + 1, before.len());
    engine.set_kept_file_bytes(bytes(&left));
    drop(small);
    engine.drop_table("small").unwrap();
    let after = named(&*medium, "kept.");
    assert!(bytes(&after) <= bytes(&left) && after.last() > left.last(), "{left:?}, then {after:?}");
    engine.set_kept_file_bytes(0);
    engine.create_table("small", b"").map(drop).unwrap();
    engine.drop_table("small").unwrap();
    assert!(named(&*medium, "kept.").is_empty());
    check_status(&engine, &*medium);
}

#[test]
fn so_many_are_kept_and_no_more() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, 1 << 30);
    for number in 0..FILES_MAX + 9 {
        engine.create_table(&format!("t{number}"), b"").unwrap();
    }
    for number in 0..FILES_MAX + 9 {
        engine.drop_table(&format!("t{number}")).unwrap();
        assert_eq!(named(&*medium, "kept.").len(), (number + 1).min(FILES_MAX));
    }
    assert_eq!(named(&*medium, "t.").len(), named(&*medium, "t.00000001.").len());
}

/// The setting counts at once, whoever drops nothing.
#[test]
fn the_background_removes_what_is_too_much() {
    let medium = Arc::new(SimMedium::new());
    let shared: Arc<dyn Medium> = medium.clone();
    let engine = Engine::open(shared, Config { background: true, ..small() }).unwrap();
    engine.create_table("t", b"").map(drop).unwrap();
    engine.drop_table("t").unwrap();
    engine.set_kept_file_bytes(0);
    for _ in 0..1000 {
        if named(&*medium, "kept.").is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{:?} stay", named(&*medium, "kept."));
}

/// Hazard: a table finds no room on a device on which files lie that nobody needs.
#[test]
fn on_a_full_device_kept_files_go_first() {
    let used = |medium: &SimMedium| bytes(&named(medium, ""));
    let filled = |medium: &Arc<SimMedium>| {
        let engine = open(medium, 64 << 20);
        let other = engine.create_table("other", b"").unwrap();
        let old = engine.create_table("old", b"").unwrap();
        load(&engine, &old, 0..ROWS);
        drop(old);
        engine.drop_table("old").unwrap();
        (engine, other)
    };
    let unlimited = Arc::new(SimMedium::new());
    let (engine, _) = filled(&unlimited);
    let kept = engine.counters().kept_file_bytes;
    assert!(kept > 1 << 19);
    // Room in files of another size than those that are kept; there is none beside them.
    let medium = Arc::new(SimMedium::with_capacity(used(&unlimited)));
    let (engine, other) = filled(&medium);
    assert_eq!((engine.counters().kept_file_bytes, medium.free_bytes()), (kept, Some(0)));
    let mut txn = engine.session(Isolation::ReadCommitted);
    let large = vec![7; 300_000];
    txn.insert(&other, &large).unwrap_or_else(|error| panic!("kept files take the room: {error}"));
    txn.commit().unwrap();
    let mut count = 1;
    let error = loop {
        match txn.insert(&other, &[1; 2000]) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::DeviceFull, "{error}");
    txn.commit().unwrap();
    assert!(count * 2000 + 300_000 > kept / 10 * 8, "{count} rows in the room of {kept} bytes");
    assert_eq!(engine.counters().kept_file_bytes, 0);
    assert_eq!(committed(&engine, &other).len() as u64, count);
    check_status(&engine, &*medium);
}

/// A pool with the table `old`, and its rows.
fn with_old_table() -> (Image, Vec<Vec<u8>>) {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, 0);
    let old = engine.create_table("old", b"").unwrap();
    load(&engine, &old, 0..2500);
    engine.close();
    (medium.image(), expected(0..2500))
}

/// A crash at each step of a file's way: from a table to the kept ones, and from there into a
/// table, as its first file and as a later one.
#[test]
fn a_crash_leaves_the_old_table_or_the_new_one() {
    let (image, old_rows) = with_old_table();
    let (medium, recorder) = Recorder::attach(SimMedium::from_image(image));
    let config = Config { kept_file_bytes: 64 << 20, ..small() };
    let engine = Engine::open(Arc::new(medium), config.clone()).unwrap();
    // Opened, so that its files are mapped.
    engine.table("old").map(drop).unwrap();
    engine.drop_table("old").unwrap();
    let kept = engine.counters().kept_file_bytes;
    let new = engine.create_table("new", b"").unwrap();
    load(&engine, &new, 5000..6000);
    load(&engine, &new, 6000..6900);
    assert!(engine.counters().kept_file_bytes < kept && new.data_bytes() > 64 << 10);
    drop((new, engine));
    let states = [vec![], expected(5000..6000), expected(5000..6900)];
    let (mut seen, mut random, mut looked) = (Seen::default(), Random::new(1), [0; 2]);
    recorder.finish().replay(&ReplayOptions::default(), |point| {
        point.for_each_image(&mut random, &mut seen, 4, |image| {
            let hint = format!("event {}, {:?}", point.index, image.list());
            let medium = Arc::new(SimMedium::from_image(image));
            let shared: Arc<dyn Medium> = medium.clone();
            let engine = Engine::open(shared, config.clone()).unwrap_or_else(|error| panic!("{hint}: {error}"));
            assert!(named(&*medium, "kept.").is_empty(), "{hint}");
            match engine.table("old") {
                Ok(old) => assert!(committed(&engine, &old) == old_rows, "{hint}: rows of the old table differ"),
                Err(_) => looked[0] += 1,
            }
            if let Ok(new) = engine.table("new") {
                assert!(engine.table("old").is_err(), "{hint}");
                let rows = committed(&engine, &new);
                assert!(states.contains(&rows), "{hint}: {} rows", rows.len());
                drop(new);
                simulated::audit(&engine);
                looked[1] += 1;
            }
        });
        ControlFlow::Continue(())
    });
    assert!(looked.iter().all(|count| *count > 20), "{looked:?}");
}

/// Kept files that a crash leaves go at the next start, and are nothing to the offline check.
#[test]
fn kept_files_of_an_earlier_run_are_removed() {
    let medium = Arc::new(SimMedium::from_image(with_old_table().0));
    medium.create("kept.00000001", 64 << 10).unwrap();
    medium.create("kept.ffffffff", 0).unwrap();
    assert_eq!(check(medium.clone(), &mut |_, _| ()).unwrap().problems, Vec::<String>::new());
    assert_eq!(named(&*medium, "kept.").len(), 2, "a check removes nothing");
    let engine = open(&medium, 64 << 20);
    assert!(named(&*medium, "kept.").is_empty());
    let mut txn = engine.session(Isolation::ReadCommitted);
    assert_eq!(rows(&mut txn, &engine.table("old").unwrap()).len(), 2500);
}
