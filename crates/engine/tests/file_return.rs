//! Hazard: a table never shrinks. After DELETE of everything its files stayed for ever, though
//! nothing was in them, and no other table could have their room. Purge gives back what is empty at
//! the chain's end, and no more: neither a row nor an old RID may come to harm (I8).

use crate::common::{committed, row_bytes, rows, small};
use perdura_engine::{Config, Engine, ErrorKind, Isolation, ReadView, Rid, Table};
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

const ROWS: u32 = 12_000;

fn open(medium: &Arc<SimMedium>) -> Engine {
    let shared: Arc<dyn Medium> = medium.clone();
    Engine::open(shared, Config { file_return_after: 0, ..small() }).expect("the pool opens")
}

/// Inserts `count` rows in transactions of at most `at_once`.
fn load(engine: &Engine, table: &Arc<Table>, count: u32, at_once: u32) -> Vec<Rid> {
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut rids = Vec::new();
    for number in 0..count {
        rids.push(txn.insert(table, &row_bytes(number)).unwrap());
        if number % at_once == at_once - 1 {
            txn.commit().unwrap();
            engine.checkpoint().unwrap();
        }
    }
    txn.commit().unwrap();
    rids
}

/// Deletes all rows but those of `kept`.
fn wipe(engine: &Engine, table: &Arc<Table>, kept: &[Rid]) {
    let mut txn = engine.session(Isolation::ReadCommitted);
    for (number, (rid, _)) in rows(&mut txn, table).into_iter().filter(|(rid, _)| !kept.contains(rid)).enumerate() {
        txn.delete(table, rid).unwrap();
        if number % 500 == 499 {
            txn.commit().unwrap();
            engine.checkpoint().unwrap();
        }
    }
    txn.commit().unwrap();
}

/// Rounds of checkpoint and purge, as the background thread makes them.
fn purge(engine: &Engine) {
    for _ in 0..80 {
        engine.checkpoint().unwrap();
        engine.purge();
    }
}

/// Number and bytes of the data files of a table on the medium.
fn files(medium: &SimMedium, table: &Table) -> (usize, u64) {
    let prefix = format!("t.{:08x}.", table.id());
    let files = medium.list().unwrap().into_iter().filter(|(name, _)| name.starts_with(&prefix));
    files.fold((0, 0), |(count, bytes), (_, len)| (count + 1, bytes + len))
}

/// Number and bytes of the data files of a table, as the status has them.
fn reported(engine: &Engine, table: &Table) -> (usize, u64) {
    let status = engine.status();
    let found = status.tables.iter().find(|status| status.name == table.name()).expect("it is open");
    (found.files, found.data_bytes)
}

fn audit(engine: &Engine, table: &Table, what: &str) {
    engine.sweep().unwrap();
    table.audit().unwrap_or_else(|error| panic!("{what}: {error}"));
}

#[test]
fn a_table_without_rows_gives_its_files_back() {
    for at_once in [5, 1000] {
        let medium = Arc::new(SimMedium::new());
        let engine = open(&medium);
        let table = engine.create_table("t", b"").unwrap();
        load(&engine, &table, ROWS, at_once);
        purge(&engine);
        let full = files(&medium, &table);
        assert!(full.0 > 4, "{full:?}");
        for round in 0..5 {
            let what = format!("transactions of {at_once}, round {round}");
            wipe(&engine, &table, &[]);
            purge(&engine);
            let left = files(&medium, &table);
            assert!(left.0 <= 2, "{what}: {left:?} files are left");
            assert_eq!(left, reported(&engine, &table), "{what}");
            audit(&engine, &table, &what);

            load(&engine, &table, ROWS, at_once);
            assert_eq!(files(&medium, &table), full, "{what}: as large as a new table");
            assert_eq!(full, reported(&engine, &table), "{what}");
            assert_eq!(committed(&engine, &table).len(), ROWS as usize);
            audit(&engine, &table, &what);
        }
    }
}

/// Hazard: what is left of a chain that shrank cannot be opened, or grows into what it gave back.
#[test]
fn a_shrunk_table_can_be_reopened() {
    let medium = Arc::new(SimMedium::new());
    let mut engine = open(&medium);
    engine.create_table("t", b"").unwrap();
    let mut old: Vec<Rid> = Vec::new();
    for round in 0..4 {
        let table = engine.table("t").unwrap();
        let rids = load(&engine, &table, ROWS, 700);
        assert!(old.iter().all(|rid| !rids.contains(rid)), "round {round}: a RID of a deleted row was given again");
        old.extend(&rids);
        wipe(&engine, &table, &[]);
        purge(&engine);
        let left = files(&medium, &table);
        assert!(left.0 <= 2, "round {round}: {left:?}");
        drop((table, engine));
        engine = open(&medium);
        let table = engine.table("t").unwrap();
        assert_eq!(files(&medium, &table), left, "round {round}");
        let mut txn = engine.session(Isolation::ReadCommitted);
        for rid in old.iter().step_by(997) {
            assert!(txn.read(&table, *rid, ReadView::Newest).unwrap().is_none(), "an old RID finds a row");
            let changed = txn.update(&table, *rid, b"nothing");
            assert_eq!(changed.err().map(|error| error.kind()), Some(ErrorKind::NotFound));
        }
        drop(txn);
        audit(&engine, &table, "reopened");
    }
}

#[test]
fn a_row_in_the_last_file_keeps_it() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium);
    let table = engine.create_table("t", b"").unwrap();
    load(&engine, &table, ROWS, 1000);
    let full = files(&medium, &table);
    let mut txn = engine.session(Isolation::ReadCommitted);
    // The last row lies in the last file once that has taken some pages' worth.
    while files(&medium, &table).0 == full.0 {
        txn.insert(&table, &row_bytes(7)).unwrap();
    }
    let last: Vec<Rid> = (0..300).map(|_| txn.insert(&table, &row_bytes(7)).unwrap()).collect();
    txn.commit().unwrap();
    let full = files(&medium, &table);
    let kept = [last[299]];
    wipe(&engine, &table, &kept);
    purge(&engine);
    assert_eq!(files(&medium, &table), full, "a row is in the last file");
    txn.delete(&table, kept[0]).unwrap();
    txn.commit().unwrap();
    purge(&engine);
    assert!(files(&medium, &table).0 <= 2);
}

/// Deletes a row and inserts others until one has its place again, until it has been used `times`.
/// Returns its RID.
fn use_again(engine: &Engine, table: &Arc<Table>, mut rid: Rid, times: u16) -> Rid {
    let mut txn = engine.session(Isolation::ReadCommitted);
    while rid.incarnation() < times {
        txn.delete(table, rid).unwrap();
        txn.commit().unwrap();
        for _ in 0..2 {
            engine.checkpoint().unwrap();
            engine.purge();
        }
        let row = rid.row();
        while {
            rid = txn.insert(table, &row_bytes(7)).unwrap();
            rid.row() != row
        } {}
        txn.commit().unwrap();
    }
    rid
}

/// Hazard: the places of a file were used so unequally often that no incarnation is later than all
/// of theirs. The RIDs of some, if not of the last row deleted, are given again at once.
#[test]
fn a_file_stays_while_its_incarnations_go_all_round() {
    for (times, goes) in [([1400, 1400], true), ([2750, 2750], true), ([1400, 2750], false)] {
        let medium = Arc::new(SimMedium::new());
        let engine = open(&medium);
        let table = engine.create_table("t", b"").unwrap();
        let rids = load(&engine, &table, ROWS / 3, 5);
        let hot = [rids.len() - 100, rids.len() - 1].map(|number| rids[number]);
        let hot = std::array::from_fn::<_, 2, _>(|number| use_again(&engine, &table, hot[number], times[number]));
        let full = files(&medium, &table);
        let mut txn = engine.session(Isolation::ReadCommitted);
        let last: Vec<Rid> = rows(&mut txn, &table).into_iter().map(|(rid, _)| rid).collect();
        drop(txn);
        assert!(hot.iter().all(|rid| last.contains(rid)));
        wipe(&engine, &table, &[]);
        purge(&engine);
        assert_eq!(files(&medium, &table).0 < full.0, goes, "{times:?}");
        let new = load(&engine, &table, ROWS / 3, 5);
        let again: Vec<_> = last.iter().filter(|rid| new.contains(rid)).collect();
        assert!(again.is_empty(), "{times:?}: RIDs of deleted rows were given again: {again:?}");
        audit(&engine, &table, "filled again");
    }
}

/// Hazard: the file that a large row needs is removed and made again with each update of the row.
#[test]
fn a_file_goes_only_after_some_rounds() {
    let medium = Arc::new(SimMedium::new());
    let shared: Arc<dyn Medium> = medium.clone();
    let engine = Engine::open(shared, Config { file_return_after: 5, ..small() }).unwrap();
    let table = engine.create_table("t", b"").unwrap();
    let rids = load(&engine, &table, 4000, 1000);
    let mut txn = engine.session(Isolation::ReadCommitted);
    let large = txn.insert(&table, &[1; 100 << 10]).unwrap();
    txn.commit().unwrap();
    for rid in rids {
        txn.delete(&table, rid).unwrap();
    }
    txn.commit().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for version in 0..12u8 {
        txn.update(&table, large, &vec![version; 100 << 10]).unwrap();
        txn.commit().unwrap();
        for _ in 0..4 {
            engine.checkpoint().unwrap();
            engine.purge();
        }
        seen.insert(files(&medium, &table));
    }
    assert!(seen.len() <= 3, "files come and go: {seen:?}");
}

/// Hazard: a crash between the two steps leaves a file behind the chain, in the way of the next one
/// of its name.
#[test]
fn a_file_left_behind_the_chain_is_removed_or_replaced() {
    for opened_first in [true, false] {
        let medium = Arc::new(SimMedium::new());
        let engine = open(&medium);
        let table = engine.create_table("t", b"").unwrap();
        load(&engine, &table, ROWS, 1000);
        let full = medium.image();
        let id = table.id();
        wipe(&engine, &table, &[]);
        purge(&engine);
        let left = files(&medium, &table);
        drop((table, engine));
        // The files come back as a removal that was not durable leaves them.
        let old = SimMedium::from_image(full);
        for (name, bytes) in old.list().unwrap() {
            if medium.open(&name).is_err() && name.starts_with(&format!("t.{id:08x}.")) {
                let mut content = vec![0; bytes as usize];
                old.open(&name).unwrap().read(0, &mut content);
                medium.create(&name, bytes).unwrap().write(0, &content);
            }
        }
        let engine = open(&medium);
        let table = engine.table("t").unwrap();
        assert_eq!(committed(&engine, &table).len(), 0);
        if opened_first {
            load(&engine, &table, ROWS, 1000);
            assert_eq!(committed(&engine, &table).len(), ROWS as usize);
        } else {
            drop((table, engine));
            let engine = open(&medium);
            let table = engine.table("t").unwrap();
            assert_eq!(reported(&engine, &table), left);
        }
    }
}
