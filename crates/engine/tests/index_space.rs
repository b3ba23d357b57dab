//! Hazard: leaves take room and never give it back, or a leaf that needs room on a full device
//! takes its table down.

use crate::common;

use crate::common::keyed::{Fields, KINDS, Keyed, Kind, Rows, config, fill};
use crate::common::{pool, settle};
use perdura_engine::{Engine, ErrorKind, Isolation};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

fn open(medium: &Arc<SimMedium>) -> Engine {
    let shared: Arc<dyn Medium> = medium.clone();
    Engine::open(shared, config()).unwrap_or_else(|error| panic!("{error}"))
}

fn delete_all(engine: &Engine, keyed: &Keyed) {
    let rows: Vec<_> = keyed.check(engine).into_keys().collect();
    let mut txn = engine.session(Isolation::ReadCommitted);
    for some in rows.chunks(50) {
        some.iter().for_each(|rid| keyed.delete(&mut txn, *rid).unwrap_or_else(|error| panic!("{error}")));
        txn.commit().unwrap();
        settle(engine);
    }
    (0..4).for_each(|_| settle(engine));
}

/// Bytes in use of a table without indexes when all of its rows are deleted.
fn used_by_rows(count: u32) -> u64 {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium);
    let keyed = Keyed::create(&engine, "t", &[]);
    for some in (1..=count).collect::<Vec<_>>().chunks(90) {
        fill(&engine, &keyed, some.iter().copied().map(Fields::of));
        settle(&engine);
    }
    delete_all(&engine, &keyed);
    keyed.table.data_bytes() - keyed.table.free_bytes()
}

/// A table that is filled, emptied and filled again takes the same room each time.
#[test]
fn a_reload_takes_the_same_room() {
    for kinds in [&[Kind::Number, Kind::Group][..], &[Kind::Name], &KINDS] {
        let medium = Arc::new(SimMedium::new());
        let mut engine = open(&medium);
        let mut keyed = Keyed::create(&engine, "t", kinds);
        let count = if kinds.contains(&Kind::Long) { 100 } else { 900 };
        let (mut bytes, mut used) = (0, 0);
        for round in 0..5u32 {
            // Each second time in the other order.
            let mut numbers: Vec<u32> = (1..=count).collect();
            if round % 2 == 1 {
                numbers.reverse();
            }
            for some in numbers.chunks(90) {
                fill(&engine, &keyed, some.iter().copied().map(Fields::of));
                settle(&engine);
            }
            assert_eq!(keyed.check(&engine).len(), count as usize);
            keyed.table.audit().unwrap();
            // The first time in each order shows what it takes.
            if round < 3 {
                bytes = bytes.max(keyed.table.data_bytes());
            } else {
                assert!(keyed.table.data_bytes() <= bytes, "{kinds:?}, round {round}: {}", keyed.table.data_bytes());
            }
            delete_all(&engine, &keyed);
            keyed.table.audit().unwrap();
            let left = keyed.table.data_bytes() - keyed.table.free_bytes();
            if round < 3 {
                used = used.max(left);
            } else {
                assert!(left <= used + 8192, "{kinds:?}, round {round}: {left}");
            }
            if round == 2 {
                drop((keyed, engine));
                engine = open(&medium);
                keyed = Keyed::open(&engine, "t", kinds);
                engine.sweep().unwrap();
            }
        }
        // The rest is the rows' own, and a segment for each size of leaves.
        let used = keyed.table.data_bytes() - keyed.table.free_bytes();
        let of_rows = used_by_rows(count);
        assert!(
            used <= of_rows + ((16 << 10) * kinds.len() as u64),
            "{kinds:?}: {used} bytes of an empty table, {of_rows} without indexes"
        );
    }
}

/// The space of a rolled-back load is free again.
#[test]
fn a_load_that_is_rolled_back_costs_no_room() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium);
    let keyed = Keyed::create(&engine, "t", &[Kind::Number, Kind::Name]);
    let mut bytes = 0;
    for round in 0..12 {
        let mut txn = engine.session(Isolation::ReadCommitted);
        for number in 1..600 {
            keyed.insert(&mut txn, &Fields::of(number).row()).unwrap();
        }
        txn.rollback().unwrap();
        settle(&engine);
        settle(&engine);
        keyed.table.audit().unwrap();
        // The first rounds find out what leaves on their way to be joined take.
        if round == 5 {
            bytes = keyed.table.data_bytes();
        }
    }
    assert_eq!(keyed.table.data_bytes(), bytes);
    assert!(keyed.check(&engine).is_empty());
}

/// Half of the entries of every leaf go: what is left joins.
#[test]
fn thinned_leaves_join() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium);
    let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
    let rids = fill(&engine, &keyed, (0..2000).map(Fields::of));
    settle(&engine);
    let mut txn = engine.session(Isolation::ReadCommitted);
    for (place, rid) in rids.iter().enumerate() {
        if place % 20 != 0 {
            keyed.delete(&mut txn, *rid).unwrap();
        }
    }
    txn.commit().unwrap();
    drop(txn);
    (0..4).for_each(|_| settle(&engine));
    assert_eq!(keyed.check(&engine).len(), 100);
    keyed.table.audit().unwrap();
    let bytes = keyed.table.data_bytes();
    // 1,900 new ones find the room of the old.
    for number in 0..1900 {
        fill(&engine, &keyed, [Fields::of(10_000 + number)]);
        if number % 100 == 0 {
            settle(&engine);
        }
    }
    assert_eq!(keyed.check(&engine).len(), 2000);
    assert!(keyed.table.data_bytes() <= bytes, "{} instead of {bytes}", keyed.table.data_bytes());
    keyed.table.audit().unwrap();
}

#[test]
fn truncated_dropped_and_renamed_tables() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium);
    for round in 0..4 {
        let keyed = Keyed::create(&engine, "t", &KINDS);
        let rids = fill(&engine, &keyed, (1..60).map(Fields::of));
        engine.rename_table("t", "renamed").unwrap();
        assert_eq!(keyed.check(&engine).len(), 59);
        let mut txn = engine.session(Isolation::ReadCommitted);
        keyed.delete(&mut txn, rids[0]).unwrap();
        txn.commit().unwrap();
        drop((txn, keyed));
        engine.truncate_table("renamed").unwrap();
        let keyed = Keyed::open(&engine, "renamed", &KINDS);
        assert!(keyed.check(&engine).is_empty());
        fill(&engine, &keyed, (1..40).map(Fields::of));
        assert_eq!(keyed.check(&engine).len(), 39);
        keyed.table.audit().unwrap();
        drop(keyed);
        if round % 2 == 0 {
            engine.drop_table("renamed").unwrap();
        } else {
            engine.rename_table("renamed", &format!("kept {round}")).unwrap();
        }
    }
    drop(engine);
    let engine = open(&medium);
    for name in ["kept 1", "kept 3"] {
        let keyed = Keyed::open(&engine, name, &KINDS);
        assert_eq!(keyed.check(&engine).len(), 39);
        engine.truncate_table(name).map(drop).unwrap();
        assert!(Keyed::open(&engine, name, &KINDS).check(&engine).is_empty());
    }
}

/// Size of a new pool, in bytes, in whole pages.
fn empty_pool_bytes() -> u64 {
    let medium = Arc::new(SimMedium::new());
    let _engine = open(&medium);
    medium.list().unwrap().iter().map(|(_, len)| len.next_multiple_of(4096)).sum()
}

/// The device fills up at every step in turn, in a split as in a row. Only the statement fails.
#[test]
fn every_step_meets_a_full_device() {
    let empty = empty_pool_bytes();
    let mut full = 0;
    for (seed, room) in (64..900u64).step_by(24).enumerate() {
        let kinds = [&[Kind::Number, Kind::Group][..], &[Kind::Name], &KINDS][seed % 3];
        let medium = Arc::new(SimMedium::with_capacity(empty + (room << 10)));
        let engine = open(&medium);
        let Ok(keyed) = Keyed::try_create(&engine, "t", kinds) else { continue };
        let hint = format!("room {room} KiB, {kinds:?}");
        let mut rows = Rows::new();
        let mut random = Random::new(seed as u64);
        let mut txn = engine.session(Isolation::ReadCommitted);
        for round in 0..40 {
            let mut after = rows.clone();
            txn.start_statement();
            let outcome = (0..random.below(40)).try_for_each(|_| {
                let known: Vec<_> = after.keys().copied().collect();
                let rid =
                    (!known.is_empty() && random.one_in(3)).then(|| known[random.below(known.len() as u64) as usize]);
                let row = (rid.is_none() || random.one_in(2)).then(|| Fields::random(&mut random, 3000).row());
                match keyed.put(&mut txn, rid, row.as_deref()) {
                    Ok(Some(rid)) => {
                        match row {
                            Some(row) => after.insert(rid, row),
                            None => after.remove(&rid),
                        };
                        Ok(())
                    }
                    Ok(None) => unreachable!("it was a row"),
                    Err(error) if error.kind() == ErrorKind::DuplicateKey => Ok(()),
                    Err(error) => Err(error),
                }
            });
            if let Err(error) = outcome {
                assert_eq!(error.kind(), ErrorKind::DeviceFull, "{hint}: {error}");
                full += 1;
                txn.rollback_statement();
                after = rows.clone();
            }
            txn.end_statement();
            match txn.commit() {
                Ok(_) => rows = after,
                Err(error) => {
                    assert!([ErrorKind::DeviceFull, ErrorKind::LogFull].contains(&error.kind()), "{hint}: {error}")
                }
            }
            if round % 5 == 0 {
                assert_eq!(keyed.check(&engine), rows, "{hint}");
                settle(&engine);
            }
        }
        assert_eq!(keyed.check(&engine), rows, "{hint}");
        // Deletions need no room, and what they free is used again.
        for rid in rows.keys() {
            keyed.delete(&mut txn, *rid).unwrap_or_else(|error| panic!("{hint}: {error}"));
        }
        txn.commit().unwrap_or_else(|error| panic!("{hint}: {error}"));
        (0..4).for_each(|_| settle(&engine));
        assert!(keyed.check(&engine).is_empty(), "{hint}");
        keyed.table.audit().unwrap_or_else(|error| panic!("{hint}: {error}"));
        for number in 0..rows.len() as u32 / 3 {
            keyed.insert(&mut txn, &Fields::of(number + 1).row()).unwrap_or_else(|error| panic!("{hint}: {error}"));
            // A leaf that others replace keeps its room until purge.
            txn.commit().unwrap_or_else(|error| panic!("{hint}: {error}"));
            settle(&engine);
        }
        txn.commit().unwrap_or_else(|error| panic!("{hint}: {error}"));
        drop((txn, keyed, engine));
        let engine = open(&medium);
        let keyed = Keyed::open(&engine, "t", kinds);
        assert_eq!(keyed.check(&engine).len(), rows.len() / 3, "{hint}");
        engine.sweep().unwrap();
        keyed.table.audit().unwrap_or_else(|error| panic!("{hint}: {error}"));
    }
    assert!(full > 30, "{full} statements met a full device");
}

/// A table without indexes takes no more room than before there were any.
#[test]
fn plain_tables_have_no_leaves() {
    let (_medium, engine) = pool();
    let plain = engine.create_table("plain", b"").unwrap();
    let keyed = engine.create_table_with("none", b"", &[]).unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    for number in 0..300 {
        txn.insert(&plain, &common::row_bytes(number)).unwrap();
        txn.insert_with(&keyed, &common::row_bytes(number), &[]).unwrap();
    }
    txn.commit().unwrap();
    assert_eq!((plain.data_bytes(), plain.free_bytes()), (keyed.data_bytes(), keyed.free_bytes()));
}
