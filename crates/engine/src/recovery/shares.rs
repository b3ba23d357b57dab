//! Redo by several threads: what records change in one place is redone by one thread, in the order
//! of their commits.
//!
//! Places are the pages of a directory, with the versions of their rows, and indexes. Each thread
//! goes over all records and takes those of its share, so nothing waits between threads.

use crate::error::Result;
use crate::format::Record;
use crate::table::Table;
use perdura_log::Recovery;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// A redo of less than this is made by one thread.
const BYTES_ALONE: u64 = 16 << 20;
const THREADS_MAX: usize = 8;

/// A thread's part of a redo.
#[derive(Clone, Copy)]
pub(super) struct Share {
    number: u64,
    of: u64,
}

/// A place that one thread redoes.
#[derive(Hash)]
enum Place {
    Page(u64),
    Index(Option<u16>),
}

impl Share {
    const ALL: Share = Share { number: 0, of: 1 };

    /// Whether the thread redoes a record of `table`.
    pub(super) fn has(self, table: &Table, record: &Record) -> bool {
        self.of == 1 || Share::of(table, record, self.of) == self.number
    }

    fn of(table: &Table, record: &Record, shares: u64) -> u64 {
        let place = match *record {
            Record::Row { rid, .. } => Place::Page(table.directory().page_of(rid.row())),
            Record::Page { page, .. }
            | Record::Delta { page, .. }
            | Record::Deleted { page, .. }
            | Record::Spilled { page, .. } => Place::Page(page),
            Record::Leaf { place, .. } => Place::Index(table.index_list().number_at(table.chain(), place)),
        };
        let mut hasher = FxHasher::default();
        (table.id(), place).hash(&mut hasher);
        // The upper bits depend on all of what was hashed.
        (hasher.finish() >> 32) % shares
    }
}

/// Has `work` done for all shares of the redo of what `recovery` has found: each in a thread of its
/// own if that is worth it. Each thread fences, by `fence`, what it has flushed.
pub(super) fn each(
    recovery: &Recovery,
    fence: &(dyn Fn() + Sync),
    work: &(dyn Fn(Share) -> Result<()> + Sync),
) -> Result<()> {
    let fenced = |share| work(share).map(|()| fence());
    let threads = threads(recovery.redo_bytes());
    if threads == 1 {
        return fenced(Share::ALL);
    }
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let run = |number| {
            let share = Share { number, of: threads };
            std::thread::Builder::new().name("perdura-redo".to_owned()).spawn_scoped(scope, move || fenced(share))
        };
        let begun: Vec<_> = (0..threads).map(|number| (number, run(number))).collect();
        begun
            .into_iter()
            .map(|(number, thread)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // No thread is to be had.
                Err(_) => fenced(Share { number, of: threads }),
            })
            .collect()
    });
    results.into_iter().collect()
}

fn threads(bytes: u64) -> u64 {
    if bytes < BYTES_ALONE {
        return 1;
    }
    std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX) as u64
}
