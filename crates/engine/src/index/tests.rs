//! Hazards between two looks of a reader that takes no lock: few instructions lie between them, so
//! hardly any thread ever comes there. These tests come there on purpose.

use super::leaf_shadow::View;
use crate::{Config, Csn, Engine, IndexDefinition, Isolation, Key, LogConfig, Table};
use perdura_pmem::{Content, SimMedium};
use std::sync::Arc;

fn open() -> (Engine, Arc<Table>) {
    let log = LogConfig { lanes: 2, lane_bytes: 16 << 10, generations: 2, generations_max: 4, ..LogConfig::default() };
    let config = Config { log, background: false, prefault: false, seed: Some(1), ..Config::default() };
    let engine = Engine::open(Arc::new(SimMedium::new()), config).unwrap();
    let table = engine.create_table_with("t", b"", &[IndexDefinition { unique: true, key_bytes: 8 }]).unwrap();
    (engine, table)
}

fn insert(engine: &Engine, table: &Arc<Table>, number: u64) -> Csn {
    let mut txn = engine.session(Isolation::ReadCommitted);
    let bytes = &number.to_be_bytes();
    txn.insert_with(table, b"row", &[Key { bytes, may_repeat: false }]).unwrap();
    txn.commit().unwrap()
}

/// A commit stores the valid word after a reader has found the leaf quiet: what the reader has seen
/// of it by then is not what its snapshot sees.
#[test]
fn a_leaf_that_changes_while_it_is_read_is_read_again() {
    let (engine, table) = open();
    let snapshot = insert(&engine, &table, 1);
    engine.checkpoint().unwrap();
    engine.purge();
    let mut old = engine.session(Isolation::RepeatableRead);
    old.take_snapshot();
    let index = table.index_list().index(0).unwrap();
    let mut reads = 0;
    let seen = index.read(&1u64.to_be_bytes(), &View::at(snapshot), |_, slots, _| {
        reads += 1;
        if reads == 1 {
            insert(&engine, &table, 2);
        }
        Ok(slots.count_ones())
    });
    assert_eq!((reads, seen.unwrap()), (2, Some(1)));
}

/// A leaf becomes vacant, and is no longer among the populated ones, after a reader has found that
/// its snapshot may pass by all that are vacant.
#[test]
fn a_leaf_that_becomes_vacant_while_a_walk_looks_is_not_passed_by() {
    let (engine, table) = open();
    let snapshot = insert(&engine, &table, 1);
    let index = table.index_list().index(0).unwrap();
    let populated = index.order().populated();
    let view = View::at(snapshot);
    assert_eq!(populated.among(&view, |_| 1), Some(1));
    let found = populated.among(&view, |_| populated.raise_vacated(snapshot + 1));
    assert_eq!(found, None, "the snapshot sees something in a vacant leaf");
    assert_eq!(populated.among(&View::at(snapshot + 1), |_| 2), Some(2));
}

/// One data file holds versions, directory and leaves. What the counters tell of each would be of
/// another if a part were flushed through the file's own region.
#[test]
fn each_part_of_a_data_file_counts_as_what_it_holds() {
    let (engine, table) = open();
    insert(&engine, &table, 1);
    let chain = table.chain();
    let file = chain.file(0).unwrap().region();
    let (directory, leaf) = (chain.directory().page_bytes(0).unwrap().0, table.index_list().leaves().bytes(0).region());
    assert!([directory, leaf].iter().all(|region| region.as_ptr() == file.as_ptr()), "a small table has one file");
    let found = [file, directory, leaf].map(|region| region.content());
    assert_eq!(found, [Content::Versions, Content::Directory, Content::Index]);
}
