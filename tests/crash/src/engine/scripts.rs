//! Scripts: short runs that come to one hazard at once, to which transactions chosen at random come
//! late or seldom.
//!
//! The threads interleave as in every other scenario, and the same oracle judges what is found. A
//! script draws only from the numbers of its own worker, so no other run depends on it. Tests (I3,
//! I8, I9).

use super::history::{Change, Key};
use super::workload::{TABLE, Worker};
use perdura_pmem::sync;

/// Work of one thread.
pub type Script = fn(&mut Worker<'_>);

/// Prepared inserts are rolled back while another thread fills what becomes free.
pub fn undone(worker: &mut Worker<'_>) {
    for _ in 0..2 {
        if worker.thread == 0 {
            worker.hold(|worker| worker.insert_some(75, 20));
            worker.undo_held();
        } else {
            worker.transaction("bulk_insert", |worker| worker.insert_some(75, 20));
        }
    }
}

/// Transactions that one thread begins and another one ends.
pub fn handed_over(worker: &mut Worker<'_>) {
    for _ in 0..3 {
        if worker.thread == 0 {
            worker.hand_over();
        } else {
            worker.take_over();
        }
    }
}

/// Many rows are committed that others wait for, who take over pages whose words are not stored
/// yet, and change nothing.
pub fn stored_for_another(worker: &mut Worker<'_>) {
    const ROWS: u64 = 70;
    if worker.thread == 0 {
        worker.transaction("bulk_insert", |worker| worker.insert_some(ROWS, 20));
        for _ in 0..3 {
            worker.transaction("large_transaction", Worker::update_all);
        }
        return;
    }
    while worker.ledger.count(0..Key::MAX) < ROWS {
        sync::yield_now();
    }
    for _ in 0..6 {
        worker.change_in_vain();
        if worker.thread == 1 {
            worker.checkpoint();
        }
    }
}

/// Leaves in which a prepared transaction has entries are left, and their places taken.
pub fn left_leaves(worker: &mut Worker<'_>) {
    worker.hold(|worker| worker.insert_some(3, 4));
    for _ in 0..2 {
        worker.transaction("insert", |worker| worker.insert_some(16, 12));
        worker.checkpoint();
        worker.purge();
    }
    worker.decide_held();
}

/// Tables are created after others were dropped, all within the reach of redo.
pub fn one_after_another(worker: &mut Worker<'_>) {
    for _ in 0..4 {
        worker.create_table();
        let name = worker.own_tables.last().cloned().expect("it was just created");
        worker.definition_change(vec![Change::Drop(name.clone())], |engine| engine.drop_table(&name));
    }
    worker.create_table();
}

/// Tables grow to some files and are dropped or truncated; the next ones are made of these files.
pub fn kept_files(worker: &mut Worker<'_>) {
    for round in 0..4 {
        worker.create_table();
        let name = worker.own_tables.last().cloned().expect("it was just created");
        worker.fill_with(&name, 40, 900 + 300 * (round % 2));
        if round % 2 == 1 {
            worker.definition_change(vec![Change::Truncate(name.clone())], |engine| {
                engine.truncate_table(&name).map(drop)
            });
            worker.fill_with(&name, 30, 1500);
        }
        if round < 3 {
            worker.definition_change(vec![Change::Drop(name.clone())], |engine| engine.drop_table(&name));
        }
    }
}

/// The directory grows into segments that held rows.
pub fn used_segments(worker: &mut Worker<'_>) {
    for _ in 0..8 {
        worker.transaction("large_row", Worker::insert_large);
    }
    worker.transaction("wipe", Worker::delete_all);
    worker.checkpoint();
    worker.purge();
    for _ in 0..3 {
        worker.transaction("bulk_insert", |worker| worker.insert_some(100, 100));
    }
}

/// The directory grows into segments that held leaves, after pages of its own went with a file.
pub fn left_for_the_directory(worker: &mut Worker<'_>) {
    for (kinds, hundreds) in [(&[][..], 12), (&[0, 1], 3), (&[1], 6)] {
        worker.alter_to(TABLE, kinds, false);
        worker.table = worker.engine.table(TABLE).expect("it is there");
        for _ in 0..hundreds {
            worker.transaction("bulk_insert", |worker| worker.insert_some(100, 10));
        }
        worker.transaction("wipe", Worker::delete_all);
        for _ in 0..6 {
            worker.checkpoint();
            worker.purge();
        }
    }
}

/// Large rows of several threads lie in one segment.
pub fn shared_segments(worker: &mut Worker<'_>) {
    for _ in 0..6 {
        worker.transaction("large_row", Worker::insert_large);
    }
}
