//! Hazard: a pool of very many tables meets the limit of mappings or of open files, or a table that
//! was closed meanwhile has forgotten something: rows, how many there are, which snapshots may read
//! it, what waits for purge (I4, I8).

use crate::common;

use crate::common::{committed, reopen, row_bytes, rows, seeds, small};
use perdura_engine::check::check;
use perdura_engine::{Config, Engine, ErrorKind, Isolation, Session, Table};
use perdura_pmem::sim::{Body, Image, Random, Scheduler};
use perdura_pmem::trace::{Access, Site, Tap};
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Small files, and as many of them open as `open_files`.
fn with_limit(open_files: u32) -> Config {
    Config { first_file_bytes: 16 << 10, open_files, ..small() }
}

fn open(medium: &Arc<SimMedium>, open_files: u32) -> Engine {
    let shared: Arc<dyn Medium> = medium.clone();
    Engine::open(shared, with_limit(open_files)).unwrap()
}

fn name(number: u32) -> String {
    format!("t{number:04}")
}

fn insert(txn: &mut Session, table: &Arc<Table>, numbers: std::ops::Range<u32>) {
    for number in numbers {
        txn.insert(table, &row_bytes(number)).unwrap();
    }
    txn.commit().unwrap();
}

/// Closes everything that nobody uses.
fn close_all(engine: &Engine) {
    engine.checkpoint().unwrap();
    engine.purge();
    engine.close_idle_tables();
    // The longest idle are closed a little below the limit, which is 1 here.
    assert!(engine.counters().open_files <= 8, "{} files are open", engine.counters().open_files);
}

/// Names of the open tables, without the catalog.
fn open_tables(engine: &Engine) -> Vec<String> {
    engine.status().tables.into_iter().skip(1).map(|table| table.name).collect()
}

/// Mappings of this process, and its open files, in `directory`.
fn mapped_and_open(directory: &Path) -> (usize, usize) {
    let within = |text: &str| text.contains(directory.to_str().unwrap());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap().lines().filter(|line| within(line)).count();
    let files = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|file| file.unwrap().path().read_link().ok());
    (maps, files.filter(|file| within(&file.to_string_lossy())).count())
}

#[test]
fn two_thousand_tables_and_fifty_open_files() {
    const TABLES: u32 = 2000;
    let directory = common::directory();
    let medium = || -> Arc<dyn Medium> { common::files(&directory) };
    let bounded = |engine: &Engine, when: &str| {
        let (mapped, files) = mapped_and_open(directory.path());
        // An eighth more than the limit, the catalog's files and the lanes.
        assert!(mapped < 80 && files < 5, "{when}: {mapped} mappings, {files} open files");
        assert!(engine.counters().open_files < 70, "{when}: {}", engine.counters().open_files);
    };
    let engine = Engine::open(medium(), with_limit(50)).unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    for number in 0..TABLES {
        let table = engine.create_table(&name(number), &number.to_le_bytes()).unwrap();
        insert(&mut txn, &table, number..number + 10);
        if number.is_multiple_of(8) {
            // As the background thread does every 50 ms: before that a table that was written stays
            // open.
            engine.checkpoint().unwrap();
            engine.purge();
        }
        if number.is_multiple_of(100) {
            bounded(&engine, "creating");
        }
    }
    drop(txn);
    let all_there = |engine: &Engine| {
        for number in 0..TABLES {
            // Neither in order nor at random.
            let number = number * 7 % TABLES;
            let table = engine.table(&name(number)).unwrap();
            let expected: Vec<_> = (number..number + 10).map(row_bytes).collect();
            assert_eq!(rows(&mut engine.session(Isolation::ReadCommitted), &table).len(), 10);
            assert_eq!(committed(engine, &table), expected, "table {number}");
            assert_eq!((table.row_count_estimate(), &*table.definition()), (10, &number.to_le_bytes()[..]));
            if number.is_multiple_of(100) {
                bounded(engine, "reading");
            }
        }
    };
    all_there(&engine);
    let bytes = engine.counters().data_bytes;
    engine.close();
    drop(engine);
    let engine = Engine::open(medium(), with_limit(50)).unwrap();
    assert_eq!(open_tables(&engine), [""; 0], "only the catalog is open");
    assert_eq!((engine.counters().data_bytes, engine.table_names().len()), (bytes, TABLES as usize));
    assert_eq!(&*engine.definition(&name(3)).unwrap(), &3u32.to_le_bytes());
    assert_eq!(open_tables(&engine), [""; 0], "none of this opens a table");
    assert!(engine.status().to_string().contains("and 2000 closed tables"), "{}", engine.status());
    all_there(&engine);
    // Tables in use stay open beyond the limit.
    let used: Vec<_> = (0..200).map(|number| engine.table(&name(number)).unwrap()).collect();
    assert!(engine.counters().open_files > 200);
    assert!(used.iter().all(|table| committed(&engine, table).len() == 10));
    drop(used);
    engine.close_idle_tables();
    bounded(&engine, "at the end");
}

/// Hazard: each file is a mapping, and a table of some terabytes in files of one size has too many
/// of them.
#[test]
fn the_files_of_a_long_chain_grow() {
    let medium = Arc::new(SimMedium::new());
    let shared: Arc<dyn Medium> = medium.clone();
    let config = Config { data_file_bytes: 16 << 10, ..with_limit(100) };
    let engine = Engine::open(shared, config).unwrap();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    for number in 0..700 {
        txn.insert(&table, &[number as u8; 4000]).unwrap();
        if number % 10 == 0 {
            txn.commit().unwrap();
        }
    }
    txn.commit().unwrap();
    let bytes = |sequence: u32| {
        let name = format!("t.00000002.{sequence:05x}");
        medium.list().unwrap().into_iter().find_map(|(file, bytes)| (file == name).then_some(bytes)).unwrap()
    };
    assert!(bytes(63) <= 16 << 10 && (bytes(63) * 3 / 2..=32 << 10).contains(&bytes(64)));
    assert!((bytes(64) * 3 / 2..=64 << 10).contains(&bytes(128)), "{}", bytes(128));
    assert_eq!(committed(&engine, &table).len(), 700);
}

#[test]
fn idle_tables_are_closed_after_long() {
    let (medium, engine) = common::pool();
    let held = engine.create_table("held", b"").unwrap();
    let idle = engine.create_table("idle", b"").unwrap();
    insert(&mut engine.session(Isolation::ReadCommitted), &idle, 0..10);
    drop(idle);
    engine.checkpoint().unwrap();
    engine.purge();
    let closed: usize = (0..12_001).map(|_| engine.close_idle_tables()).sum();
    assert_eq!((closed, open_tables(&engine)), (1, vec!["held".to_owned()]));
    assert_eq!(committed(&engine, &engine.table("idle").unwrap()).len(), 10);
    assert!(committed(&engine, &held).is_empty());
    drop((held, engine));
    common::simulated::audit(&reopen(&medium));
}

/// State of a table that is in DRAM alone survives its being closed.
#[test]
fn a_closed_table_forgets_nothing() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, 1);
    let table = engine.create_table("t", b"definition").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    insert(&mut txn, &table, 0..50);
    let mut old = engine.session(Isolation::RepeatableRead);
    let seen = rows(&mut old, &table);
    old.end_statement();
    for (rid, _) in &seen[..20] {
        txn.delete(&table, *rid).unwrap();
    }
    for (rid, _) in &seen[20..30] {
        txn.update(&table, *rid, b"changed").unwrap();
    }
    txn.commit().unwrap();
    let (estimate, id) = (table.row_count_estimate(), table.id());
    assert_eq!(estimate, 30);
    drop(table);
    // The old snapshot needs versions that wait for purge: the table stays open.
    let other = engine.create_table("other", b"").unwrap();
    close_all(&engine);
    assert_eq!(open_tables(&engine), ["t", "other"]);
    assert_eq!(rows(&mut old, &engine.table("t").unwrap()), seen, "the old snapshot does not move");
    old.commit().unwrap();
    close_all(&engine);
    close_all(&engine);
    drop(other);
    assert!(!open_tables(&engine).contains(&"t".to_owned()));
    let mut seen_open = engine.session(Isolation::RepeatableRead);
    let again = engine.table("t").unwrap();
    assert_eq!((again.row_count_estimate(), again.id()), (estimate, id));
    assert_eq!(rows(&mut seen_open, &again).len(), 30);
    seen_open.commit().unwrap();
    // A snapshot from before a table was made does not read it, though it was closed meanwhile.
    let mut before = engine.session(Isolation::RepeatableRead);
    rows(&mut before, &again);
    before.end_statement();
    drop(again);
    engine.truncate_table("t").unwrap();
    close_all(&engine);
    let new = engine.table("t").unwrap();
    let error = common::try_rows(&mut before, &new).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DefinitionChanged, "{error}");
    drop((before, new, old, seen_open, txn));
    common::simulated::audit(&engine);
}

#[test]
fn ddl_on_closed_tables_opens_none() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, 1);
    for number in 0..8 {
        let table = engine.create_table(&name(number), &[number as u8]).unwrap();
        insert(&mut engine.session(Isolation::ReadCommitted), &table, 0..300);
    }
    drop(engine);
    let engine = open(&medium, 1);
    engine.checkpoint().unwrap();
    drop(engine);
    let engine = open(&medium, 1);
    let files = |table: u32| {
        let prefix = format!("t.{table:08x}.");
        medium.list().unwrap().iter().filter(|(name, _)| name.starts_with(&prefix)).count()
    };
    assert!(files(2) > 1 && open_tables(&engine).is_empty());
    engine.rename_table("t0001", "renamed").unwrap();
    engine.drop_table("t0000").unwrap();
    assert!(files(2) == 0 && open_tables(&engine).is_empty());
    let empty = engine.truncate_table("t0002").unwrap();
    assert!(files(4) == 0 && committed(&engine, &empty).is_empty() && *empty.definition() == [2]);
    drop(empty);
    for error in [
        engine.table("t0000").map(|_| ()).unwrap_err(),
        engine.table("t0001").map(|_| ()).unwrap_err(),
        engine.drop_table("t0000").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
    assert_eq!(engine.rename_table("t0003", "renamed").unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(committed(&engine, &engine.table("renamed").unwrap()).len(), 300);
    let names = engine.table_names();
    drop(engine);
    assert_eq!(open(&medium, 1).table_names(), names);
    let engine = open(&medium, 1);
    assert_eq!(committed(&engine, &engine.table("renamed").unwrap()).len(), 300);
    common::simulated::audit(&engine);
}

/// Redo and prepared transactions open the tables that they name, and no others.
#[test]
fn recovery_opens_what_it_changes() {
    for seed in seeds(40) {
        let mut random = Random::new(seed);
        let medium = Arc::new(SimMedium::new());
        let engine = open(&medium, 2);
        let mut model: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for number in 0..30 {
            let table = engine.create_table(&name(number), b"").unwrap();
            insert(&mut engine.session(Isolation::ReadCommitted), &table, 0..10);
            model.insert(name(number), (0..10).map(row_bytes).collect());
        }
        close_all(&engine);
        let mut change = |txn: &mut Session, model: &mut BTreeMap<String, Vec<Vec<u8>>>| {
            let name = name(random.below(30) as u32);
            let table = engine.table(&name).unwrap();
            txn.start_statement();
            let rows = rows(txn, &table);
            let (rid, row) = &rows[random.below(rows.len() as u64) as usize];
            let changed = [&b"changed "[..], row].concat();
            txn.update(&table, *rid, &changed).unwrap();
            let rows = model.get_mut(&name).unwrap();
            let at = rows.iter().position(|old| old == row).unwrap();
            rows[at] = changed;
        };
        let mut prepared = engine.session(Isolation::ReadCommitted);
        let before = model.clone();
        for _ in 0..3 {
            change(&mut prepared, &mut model);
        }
        prepared.prepare(b"prepared").unwrap();
        drop(prepared);
        let commits = seed.is_multiple_of(2);
        if !commits {
            model = before;
        }
        close_all(&engine);
        assert!(!open_tables(&engine).is_empty(), "prepared writes keep their tables open");
        let image = medium.image();
        drop(engine);
        let medium = Arc::new(SimMedium::from_image(image));
        let engine = open(&medium, 2);
        let opened = open_tables(&engine);
        assert!((1..=3).contains(&opened.len()), "seed {seed}: {opened:?} are open");
        let decided = if commits { engine.commit_prepared(b"prepared") } else { engine.rollback_prepared(b"prepared") };
        assert!(decided.unwrap());
        close_all(&engine);
        for (name, rows) in &model {
            let mut rows = rows.clone();
            rows.sort();
            assert_eq!(committed(&engine, &engine.table(name).unwrap()), rows, "seed {seed}, table {name}");
        }
        common::simulated::audit(&engine);
    }
}

/// A crash leaves commits for redo in tables that were closed and opened again meanwhile.
#[test]
fn redo_in_tables_that_were_closed() {
    for seed in seeds(40) {
        let mut random = Random::new(seed);
        let medium = Arc::new(SimMedium::new());
        let engine = open(&medium, 2);
        let mut model: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for number in 0..12 {
            engine.create_table(&name(number), b"").unwrap();
            model.insert(name(number), Vec::new());
        }
        engine.checkpoint().unwrap();
        for step in 0..60 {
            let name = name(random.below(12) as u32);
            let table = engine.table(&name).unwrap();
            let mut txn = engine.session(Isolation::ReadCommitted);
            let of_table = model.get_mut(&name).unwrap();
            let there = rows(&mut txn, &table);
            match there.first().filter(|_| random.one_in(3)) {
                Some((rid, row)) => {
                    txn.delete(&table, *rid).unwrap();
                    of_table.retain(|kept| kept != row);
                }
                None => {
                    txn.insert(&table, &row_bytes(step)).unwrap();
                    of_table.push(row_bytes(step));
                }
            }
            txn.commit().unwrap();
            if random.one_in(12) {
                engine.checkpoint().unwrap();
                engine.purge();
            }
            if random.one_in(4) {
                engine.close_idle_tables();
            }
        }
        let image = medium.image();
        drop(engine);
        let engine = open(&Arc::new(SimMedium::from_image(image)), 2);
        for (name, rows) in model {
            let mut rows = rows;
            rows.sort();
            assert_eq!(committed(&engine, &engine.table(&name).unwrap()), rows, "seed {seed}, table {name}");
        }
        common::simulated::audit(&engine);
    }
}

/// Damage of a closed table is the error of its use. It costs nothing else, and the check finds all
/// of it.
#[test]
fn a_damaged_closed_table() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, 4);
    for number in 0..6 {
        let table = engine.create_table(&name(number), b"").unwrap();
        insert(&mut engine.session(Isolation::ReadCommitted), &table, 0..10);
    }
    engine.close();
    drop(engine);
    let image = medium.image();
    let files = image.list().into_iter().filter_map(|(name, _)| {
        let mut bytes = image.bytes_of(&name).unwrap();
        match &name[..] {
            "t.00000003.00000" => return None,
            "t.00000005.00000" => bytes[100..200].fill(0xee),
            "t.00000006.00000" => bytes.truncate(5000),
            _ => {}
        }
        Some((name, bytes))
    });
    let files: Vec<_> = files.collect();
    let damaged = Image::from_files(files.iter().map(|(name, bytes)| (&**name, &**bytes)));
    let medium = Arc::new(SimMedium::from_image(damaged));
    let report = check(medium.clone(), &mut |_, _| ()).unwrap();
    assert!(report.problems.len() >= 3, "{:?}", report.problems);
    let engine = open(&medium, 4);
    for _ in 0..2 {
        for (number, file) in [(1, "t.00000003.00000"), (3, "t.00000005.00000"), (4, "t.00000006.00000")] {
            let error = engine.table(&name(number)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
            let text = error.to_string();
            assert!(text.contains(file) && text.contains("restore") && text.contains(&name(number)), "{text}");
        }
        assert!(engine.tables().is_err());
        for number in [0, 2, 5] {
            let table = engine.table(&name(number)).unwrap();
            assert_eq!(committed(&engine, &table).len(), 10);
            insert(&mut engine.session(Isolation::ReadCommitted), &table, 10..11);
            engine.truncate_table(&name(number)).unwrap();
            insert(&mut engine.session(Isolation::ReadCommitted), &engine.table(&name(number)).unwrap(), 0..10);
        }
    }
    engine.status().to_string();
    engine.rename_table(&name(3), "renamed").unwrap();
    for damaged in [&name(1)[..], "renamed", &name(4)] {
        engine.drop_table(damaged).unwrap();
    }
    common::simulated::audit(&engine);
    drop(engine);
    assert!(check(medium, &mut |_, _| ()).unwrap().problems.is_empty());
}

/// A growth that was cut off leaves a file behind a table's chain. It is removed once the table is
/// open; those that no table owns go at the start.
#[test]
fn files_that_nothing_names() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, 4);
    let table = engine.create_table("t", b"").unwrap();
    insert(&mut engine.session(Isolation::ReadCommitted), &table, 0..10);
    engine.close();
    drop((table, engine));
    medium.create("t.00000002.00007", 16 << 10).unwrap();
    medium.create("t.00000002.0ffff", 16 << 10).unwrap();
    medium.create("t.00000009.00000", 16 << 10).unwrap();
    let there = |name: &str| medium.list().unwrap().iter().any(|(file, _)| file == name);
    let shared: Arc<dyn Medium> = medium.clone();
    let engine = Engine::open(shared, Config { background: true, ..with_limit(4) }).unwrap();
    assert!(there("t.00000002.00007") && !there("t.00000009.00000"));
    assert_eq!(committed(&engine, &engine.table("t").unwrap()).len(), 10);
    for _ in 0..1000 {
        if !there("t.00000002.00007") && !there("t.00000002.0ffff") {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the files are still there");
}

/// Sessions use, create and drop tables while the background thread closes them.
#[test]
fn tables_that_open_and_close_under_load() {
    let directory = common::directory();
    let config = Config { background: true, ..with_limit(16) };
    let engine = Engine::open(common::files(&directory), config).unwrap();
    for number in 0..60 {
        engine.create_table(&name(number), b"").unwrap();
    }
    let work = |thread: u32| {
        let mut random = Random::new(u64::from(thread));
        let mut txn = engine.session(Isolation::ReadCommitted);
        let mut inserted = [0u32; 60];
        for step in 0..1500 {
            let number = random.below(60) as u32;
            let table = engine.table(&name(number)).unwrap();
            txn.start_statement();
            let rid = txn.insert(&table, &row_bytes(step)).unwrap();
            if random.one_in(3) {
                txn.delete(&table, rid).unwrap();
            } else {
                inserted[number as usize] += 1;
            }
            txn.commit().unwrap();
            if step.is_multiple_of(100) {
                let own = format!("own{thread}");
                engine.create_table(&own, b"").unwrap();
                engine.drop_table(&own).unwrap();
            }
        }
        inserted
    };
    let inserted: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for number in 0..60 {
        let expected: u32 = inserted.iter().map(|of_thread| of_thread[number as usize]).sum();
        let table = engine.table(&name(number)).unwrap();
        assert_eq!(committed(&engine, &table).len() as u32, expected, "table {number}");
        assert_eq!(table.row_count_estimate(), u64::from(expected), "table {number}");
    }
    engine.close();
    common::simulated::audit(&engine);
}

/// A tap that records nothing: it makes every store, flush and fence a point where the scheduler
/// may switch threads.
struct Unheard;

impl Tap for Unheard {
    fn record(&self, _access: Access<'_>, _site: Site) {}
}

/// One session of [`seeded_sessions_beside_a_closer`]: it looks its table up each time, and keeps
/// its own rows.
fn churn(engine: &Engine, thread: u32, random: &mut Random) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut own: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    let mut txn = engine.session(Isolation::ReadCommitted);
    for step in 0..8 {
        let name = name(random.below(3) as u32);
        let of_table = own.entry(name.clone()).or_default();
        let table = engine.table(&name).unwrap();
        txn.start_statement();
        let mine = |row: &[u8]| row.starts_with(&[thread as u8]);
        let there: Vec<_> = rows(&mut txn, &table).into_iter().filter(|(_, row)| mine(row)).collect();
        let mut sorted: Vec<_> = there.iter().map(|(_, row)| row.clone()).collect();
        sorted.sort();
        of_table.sort();
        assert_eq!(&sorted, of_table, "thread {thread} sees its own rows");
        let row = [&[thread as u8, step][..], &row_bytes(u32::from(step))].concat();
        match there.first() {
            Some((rid, old)) if random.one_in(2) => {
                of_table.retain(|kept| kept != old);
                match random.one_in(2) {
                    true => txn.delete(&table, *rid).unwrap(),
                    false => {
                        txn.update(&table, *rid, &row).unwrap();
                        of_table.push(row);
                    }
                }
            }
            _ => {
                txn.insert(&table, &row).unwrap();
                of_table.push(row);
            }
        }
        txn.commit().unwrap();
    }
    own
}

#[test]
fn seeded_sessions_beside_a_closer() {
    for seed in seeds(150) {
        let medium = Arc::new(SimMedium::new().recording(Arc::new(Unheard)));
        let engine = open(&medium, 1);
        for number in 0..3 {
            engine.create_table(&name(number), b"").unwrap();
        }
        let own: [std::sync::Mutex<BTreeMap<String, Vec<Vec<u8>>>>; 2] = Default::default();
        let left = AtomicU32::new(2);
        let mut bodies: Vec<Body<'_>> = Vec::new();
        for thread in 0..2u32 {
            let (engine, own, left) = (&engine, &own[thread as usize], &left);
            bodies.push(Box::new(move || {
                let mut random = Random::new(seed * 2 + u64::from(thread));
                *own.lock().unwrap() = churn(engine, thread, &mut random);
                left.fetch_sub(1, Ordering::Relaxed);
            }));
        }
        // Its snapshot outlives the table's being closed and opened.
        bodies.push(Box::new(|| {
            while left.load(Ordering::Relaxed) > 0 {
                let mut txn = engine.session(Isolation::RepeatableRead);
                let first = rows(&mut txn, &engine.table(&name(0)).unwrap());
                txn.end_statement();
                let again = rows(&mut txn, &engine.table(&name(0)).unwrap());
                assert_eq!(first, again, "seed {seed}: a snapshot moved");
            }
        }));
        bodies.push(Box::new(|| {
            while left.load(Ordering::Relaxed) > 0 {
                engine.checkpoint().unwrap();
                engine.purge();
                engine.close_idle_tables();
                engine.sweep().unwrap();
            }
        }));
        Scheduler::new(seed).run(bodies);
        for number in 0..3 {
            let mut expected: Vec<_> =
                own.iter().filter_map(|own| own.lock().unwrap().get(&name(number)).cloned()).flatten().collect();
            expected.sort();
            let table = engine.table(&name(number)).unwrap();
            assert_eq!(committed(&engine, &table), expected, "seed {seed}, table {number}");
            assert_eq!(table.row_count_estimate(), expected.len() as u64, "seed {seed}, table {number}");
        }
        common::simulated::audit(&engine);
        drop(engine);
        let engine = open(&medium, 1);
        for number in 0..3 {
            let expected: usize =
                own.iter().map(|own| own.lock().unwrap().get(&name(number)).map_or(0, Vec::len)).sum();
            assert_eq!(committed(&engine, &engine.table(&name(number)).unwrap()).len(), expected, "seed {seed}");
        }
        common::simulated::audit(&engine);
    }
}
