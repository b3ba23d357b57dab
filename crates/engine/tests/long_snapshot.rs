//! Hazard: beside one long snapshot, a dump say, a row that is updated again and again costs
//! memory, space and reading time that grow with the number of commits.
//!
//! The test counts every allocation of its process, so it is alone in its file.

mod common;

use common::counting::{Counting, live};
use common::{rows, small};
use perdura_engine::{Config, Engine, Isolation, ReadView, Rid, Session, Table};
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Space of the pool after a round of purge.
#[derive(Clone, Copy, Debug)]
struct Use {
    memory: u64,
    space: u64,
    waiting: u64,
}

fn purged(engine: &Engine) -> Use {
    engine.checkpoint().unwrap();
    engine.purge();
    let counters = engine.counters();
    Use { memory: live(), space: counters.data_bytes - counters.free_bytes, waiting: counters.purge_lag }
}

fn value(txn: &mut Session, table: &Arc<Table>, rid: Rid) -> u64 {
    let row = txn.read(table, rid, ReadView::Snapshot).unwrap().unwrap();
    // SAFETY: the statement has not ended.
    u64::from_le_bytes(unsafe { row.bytes() }.try_into().unwrap())
}

#[test]
fn a_hot_row_beside_a_long_snapshot_costs_no_more_than_a_few_commits() {
    const UPDATES: u64 = 100_000;
    const ROUND: u64 = 500;
    let directory = common::directory();
    let engine = Engine::open(common::files(&directory), Config { page_words: 512, ..small() }).unwrap();
    let table = engine.create_table("t", b"").unwrap();
    let mut writer = engine.session(Isolation::ReadCommitted);
    let cold = writer.insert(&table, &7u64.to_le_bytes()).unwrap();
    let hot = writer.insert(&table, &0u64.to_le_bytes()).unwrap();
    writer.commit().unwrap();
    let mut snapshots: Vec<(u64, Session)> = Vec::new();
    let (mut before, mut most) = (None, Use { memory: 0, space: 0, waiting: 0 });
    for number in 1..=UPDATES {
        // The oldest snapshot is from the beginning, two more from later.
        if [1, UPDATES / 3, UPDATES / 2].contains(&number) {
            let mut reader = engine.session(Isolation::RepeatableRead);
            assert_eq!(value(&mut reader, &table, hot), number - 1);
            snapshots.push((number - 1, reader));
        }
        writer.update(&table, hot, &number.to_le_bytes()).unwrap();
        writer.commit().unwrap();
        // A queue beside it: a row that no snapshot ever sees.
        let queued = writer.insert(&table, &number.to_le_bytes()).unwrap();
        writer.commit().unwrap();
        writer.delete(&table, queued).unwrap();
        writer.commit().unwrap();
        if number.is_multiple_of(ROUND) {
            let now = purged(&engine);
            let first = *before.get_or_insert(now);
            most.memory = most.memory.max(now.memory.saturating_sub(first.memory));
            most.space = most.space.max(now.space.saturating_sub(first.space));
            most.waiting = most.waiting.max(now.waiting);
        }
    }
    assert!(most.memory < 16 << 10, "{most:?}");
    assert!(most.space <= 4 * small().segment_bytes, "{most:?}");
    assert!(most.waiting < 20, "{most:?}");
    for (seen, reader) in &mut snapshots {
        let mut numbers: Vec<_> = rows(reader, &table).into_iter().map(|(rid, _)| rid).collect();
        numbers.sort();
        assert_eq!(numbers, [cold, hot], "the rows of the queue are no snapshot's");
        assert_eq!(value(reader, &table, hot), *seen);
        assert_eq!(value(reader, &table, cold), 7);
    }
    table.audit().unwrap();
    drop(snapshots);
    assert_eq!(purged(&engine).waiting, 0);
    table.audit().unwrap();
}
