//! Hazard: what a table gave back after its rows were deleted is used again wrongly, or not at all:
//! a reload is slow and the table grows, an old RID finds a later row, or a crash brings pages back
//! with the words of their next user (I3, I8).

use crate::common::simulated::{audit, survives};
use crate::common::{committed, pool, reopen, row_bytes, rows, seeds, settle, small};
use perdura_engine::{Engine, ErrorKind, Isolation, ReadView, Rid, Session, Table};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn load(txn: &mut Session, table: &Arc<Table>, rows: u32) -> Vec<Rid> {
    txn.start_statement();
    let rids = (0..rows).map(|number| txn.insert(table, &row_bytes(number)).unwrap()).collect();
    txn.commit().unwrap();
    rids
}

fn delete_all(txn: &mut Session, table: &Arc<Table>, rids: &[Rid]) {
    txn.start_statement();
    rids.iter().for_each(|rid| txn.delete(table, *rid).unwrap());
    txn.commit().unwrap();
}

/// Asserts that nobody finds a row under `rids`.
fn are_gone(txn: &mut Session, table: &Arc<Table>, rids: &[Rid], hint: &str) {
    txn.start_statement();
    for rid in rids {
        assert!(txn.read(table, *rid, ReadView::Snapshot).unwrap().is_none(), "{hint}: {:#x}", rid.to_u64());
        assert!(txn.read(table, *rid, ReadView::Newest).unwrap().is_none(), "{hint}: {:#x}", rid.to_u64());
    }
    for rid in rids.iter().step_by(97) {
        assert_eq!(txn.delete(table, *rid).unwrap_err().kind(), ErrorKind::NotFound, "{hint}");
    }
    txn.rollback().unwrap();
}

#[test]
fn a_reload_takes_the_room_and_the_pages_of_what_was_deleted() {
    const ROWS: u32 = 20_000;
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut rids = load(&mut txn, &table, ROWS);
    let first = table.data_bytes();
    for round in 0..4 {
        delete_all(&mut txn, &table, &rids);
        settle(&engine);
        let before = rids;
        rids = load(&mut txn, &table, ROWS);
        assert!(table.data_bytes() <= first + small().data_file_bytes, "round {round}: {} bytes", table.data_bytes());
        // Row by row, the RIDs would come in the order of 64 at a time from a list; a bulk insert
        // goes through the pages.
        let adjacent = rids.windows(2).filter(|pair| pair[1].row() == pair[0].row() + 1).count();
        assert!(adjacent > ROWS as usize * 9 / 10, "round {round}: not a bulk insert");
        are_gone(&mut txn, &table, &before, "after the reload");
    }
    drop(txn);
    audit(&engine);
}

/// Rows deleted one by one, in several transactions and beside others, also leave pages that are
/// given back.
#[test]
fn pages_emptied_piece_by_piece_are_given_back() {
    for seed in seeds(20) {
        let mut random = Random::new(seed);
        let (medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let mut txn = engine.session(Isolation::ReadCommitted);
        let (mut old, mut live) = (Vec::new(), BTreeMap::new());
        for round in 0..6u32 {
            for number in 0..1 + random.below(300) as u32 {
                let row = row_bytes(round * 1000 + number);
                let rid = txn.insert(&table, &row).unwrap();
                assert!(live.insert(rid, row).is_none(), "seed {seed}");
                if random.one_in(90) {
                    txn.commit().unwrap();
                }
            }
            txn.commit().unwrap();
            let share = random.below(4);
            let gone: Vec<Rid> = live.keys().copied().filter(|_| share == 0 || !random.one_in(share + 1)).collect();
            for rid in gone {
                txn.delete(&table, rid).unwrap();
                live.remove(&rid);
                old.push(rid);
                if random.one_in(40) {
                    txn.commit().unwrap();
                }
                if random.one_in(200) {
                    settle(&engine);
                }
            }
            txn.commit().unwrap();
            settle(&engine);
            let found: BTreeMap<_, _> = rows(&mut txn, &table).into_iter().collect();
            assert_eq!(found, live, "seed {seed}");
            are_gone(&mut txn, &table, &old, "another row under an old RID");
        }
        drop(txn);
        audit(&engine);
        survives(&medium, engine);
    }
}

/// A snapshot from before the deletion sees all rows until it ends; only then the pages are given
/// back.
#[test]
fn an_old_snapshot_keeps_the_pages_from_their_next_user() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut old = engine.session(Isolation::RepeatableRead);
    let rids = load(&mut txn, &table, 2000);
    old.start_statement();
    let before = rows(&mut old, &table);
    delete_all(&mut txn, &table, &rids);
    settle(&engine);
    let others = load(&mut txn, &table, 2000);
    settle(&engine);
    assert_eq!(rows(&mut old, &table), before);
    old.rollback().unwrap();
    settle(&engine);
    let third = load(&mut txn, &table, 2000);
    are_gone(&mut txn, &table, &rids, "after the snapshot's end");
    let used: BTreeSet<u64> = rids.iter().map(|rid| rid.row()).collect();
    let again = third.iter().filter(|rid| used.contains(&rid.row())).count();
    assert!(others.iter().all(|rid| !used.contains(&rid.row())), "a page was given back too early");
    assert!(again > 1800, "only {again} rows in pages that were used before");
    drop((txn, old));
    audit(&engine);
}

/// A lock on a row that is gone may be held while a transaction, or its holder itself, fills the
/// page.
#[test]
fn a_lock_on_a_row_that_is_gone_harms_no_later_row() {
    for own in [false, true] {
        let (medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let mut txn = engine.session(Isolation::ReadCommitted);
        let mut holder = engine.session(Isolation::ReadCommitted);
        let rids = load(&mut txn, &table, 500);
        delete_all(&mut txn, &table, &rids);
        settle(&engine);
        holder.start_statement();
        for rid in &rids {
            let _ = holder.locks().lock_row(&table, *rid, perdura_engine::LockMode::Exclusive).unwrap();
        }
        if own {
            for number in 0..500 {
                holder.insert(&table, &row_bytes(number)).unwrap();
            }
            holder.commit().unwrap();
        } else {
            load(&mut txn, &table, 500);
            holder.commit().unwrap();
        }
        let expected = (0..500).map(row_bytes).collect::<Vec<_>>();
        let sorted = |mut rows: Vec<Vec<u8>>| {
            rows.sort();
            rows
        };
        assert_eq!(committed(&engine, &table), sorted(expected));
        drop((txn, holder));
        audit(&engine);
        survives(&medium, engine);
    }
}

/// Crashes anywhere around the deletion, the giving back and the reload, some of them in a reload
/// that loses.
#[test]
fn crashes_around_the_reload_lose_nothing() {
    for seed in seeds(30) {
        let mut random = Random::new(seed);
        let medium = Arc::new(SimMedium::new());
        let mut engine = reopen(&medium);
        engine.create_table("t", b"").unwrap();
        let (mut medium, mut expected) = (medium, Vec::<Vec<u8>>::new());
        for round in 0..8u32 {
            let table = engine.table("t").unwrap();
            let mut txn = engine.session(Isolation::ReadCommitted);
            txn.start_statement();
            if random.one_in(2) {
                let rids: Vec<Rid> = rows(&mut txn, &table).into_iter().map(|(rid, _)| rid).collect();
                delete_all(&mut txn, &table, &rids);
                expected.clear();
                if random.one_in(4) {
                    engine.sweep().unwrap();
                }
                settle(&engine);
            }
            let added: Vec<_> =
                (0..70 + random.below(400) as u32).map(|number| row_bytes(round * 1000 + number)).collect();
            for row in &added {
                txn.insert(&table, row).unwrap();
            }
            match random.below(4) {
                0 => {}
                1 => {
                    txn.prepare(&round.to_le_bytes()).unwrap();
                }
                _ => {
                    txn.commit().unwrap();
                    expected.extend(added.clone());
                }
            }
            let image = medium.image();
            drop((txn, table, engine));
            medium = Arc::new(SimMedium::from_image(image));
            let shared: Arc<dyn Medium> = medium.clone();
            engine = Engine::open(shared, small()).unwrap();
            for xid in engine.prepared() {
                if random.one_in(2) {
                    engine.commit_prepared(&xid).unwrap();
                    expected.extend(added.clone());
                } else {
                    engine.rollback_prepared(&xid).unwrap();
                }
            }
            expected.sort();
            let table = engine.table("t").unwrap();
            assert_eq!(committed(&engine, &table), expected, "seed {seed}, round {round}");
            if random.one_in(3) {
                audit(&engine);
            }
        }
        audit(&engine);
    }
}
