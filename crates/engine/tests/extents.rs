//! Hazard: large versions share segments, so an extent is lost, found where none is, or given to
//! two rows when it comes and goes beside others, before and after restarts (I4). A restart finds
//! extents from one live version to the next, across segments, and what a prepared transaction
//! wrote lies in granules that look free.

use crate::common::{committed, pool, reopen, seeds};
use perdura_engine::{Isolation, Rid, Table};
use perdura_pmem::sim::Random;
use std::sync::Arc;

fn row(random: &mut Random) -> Vec<u8> {
    // Segments have 4 KiB and granules 64 bytes: from a few granules to several segments.
    let most = [600, 4000, 30_000][random.below(3) as usize];
    vec![random.next_u64() as u8; 500 + random.below(most) as usize]
}

#[test]
fn extents_share_segments_through_restarts() {
    for seed in seeds(25) {
        let mut random = Random::new(seed);
        let (medium, mut engine) = pool();
        engine.create_table("t", b"").unwrap();
        let mut model: Vec<(Rid, Vec<u8>)> = Vec::new();
        for round in 0..6u8 {
            let table: Arc<Table> = engine.table("t").unwrap();
            let mut txn = engine.session(Isolation::ReadCommitted);
            for _ in 0..25 {
                let new = row(&mut random);
                let known = (!model.is_empty()).then(|| random.below(model.len() as u64) as usize);
                match (random.below(3), known) {
                    (0, Some(index)) => {
                        txn.delete(&table, model.swap_remove(index).0).unwrap();
                    }
                    (1, Some(index)) => {
                        txn.update(&table, model[index].0, &new).unwrap();
                        model[index].1 = new;
                    }
                    _ => model.push((txn.insert(&table, &new).unwrap(), new)),
                }
                if random.one_in(3) {
                    txn.commit().unwrap();
                }
                if random.one_in(6) {
                    engine.checkpoint().unwrap();
                    engine.purge();
                }
            }
            txn.commit().unwrap();
            // Through the restart the rows of a prepared transaction lie where nothing names them.
            let mut prepared = engine.session(Isolation::ReadCommitted);
            let written: Vec<_> = (0..4).map(|_| row(&mut random)).collect();
            let rids: Vec<_> = written.iter().map(|row| prepared.insert(&table, row).unwrap()).collect();
            prepared.prepare(&[round]).unwrap();
            drop((prepared, txn, table, engine));
            engine = reopen(&medium);
            let table = engine.table("t").unwrap();
            if random.one_in(2) {
                engine.sweep().unwrap();
            }
            // Others take room while it is undecided.
            let mut txn = engine.session(Isolation::ReadCommitted);
            for _ in 0..10 {
                let new = row(&mut random);
                model.push((txn.insert(&table, &new).unwrap(), new));
            }
            txn.commit().unwrap();
            if random.one_in(2) {
                assert!(engine.commit_prepared(&[round]).unwrap());
                model.extend(rids.into_iter().zip(written));
            } else {
                assert!(engine.rollback_prepared(&[round]).unwrap());
            }
            let mut expected: Vec<_> = model.iter().map(|(_, row)| row.clone()).collect();
            expected.sort();
            assert!(committed(&engine, &table) == expected, "seed {seed}, round {round}");
            engine.sweep().unwrap();
            for _ in 0..2 {
                engine.checkpoint().unwrap();
                engine.purge();
            }
            table.audit().unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
            assert!(committed(&engine, &table) == expected, "seed {seed}, round {round}");
        }
    }
}
