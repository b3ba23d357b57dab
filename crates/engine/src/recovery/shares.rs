//! Redo by several threads: what records change in one place is redone by one thread, in the order
//! of their commits.
//!
//! Places are the pages of a directory, with the versions of their rows, and indexes: an entry is
//! redone by its key, in whatever leaf has that now. What a record carries by value goes to the
//! leaf that the record names, so there leaves are places. Each thread goes over all records and
//! takes those of its share, so nothing waits between threads.

use crate::error::Result;
use crate::format::{Record, Word};
use crate::table::Table;
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

impl Share {
    const ALL: Share = Share { number: 0, of: 1 };

    /// Whether the thread redoes a record of `table`.
    pub(super) fn has(self, table: &Table, record: &Record<'_>) -> bool {
        // The numbers of a table's indexes follow one another: none of the threads has many more
        // than the others.
        let index = |place| table.index_list().number_at(table.chain(), place).map_or(0, u64::from);
        self.has_place(table, record, |place| u64::from(table.id()) + index(place))
    }

    /// Whether the thread writes what a record of `table` carries.
    pub(super) fn has_value(self, table: &Table, record: &Record<'_>) -> bool {
        self.has_place(table, record, |place| spread(table, place.0))
    }

    fn has_place(self, table: &Table, record: &Record<'_>, of_leaf: impl Fn(Word) -> u64) -> bool {
        if self.of == 1 {
            return true;
        }
        let place = match *record {
            Record::Row { rid, .. } => spread(table, table.directory().page_of(rid.row())),
            Record::Page { page, .. }
            | Record::Delta { page, .. }
            | Record::Deleted { page, .. }
            | Record::Spilled { page, .. } => spread(table, page),
            Record::Leaf { place, .. } => of_leaf(place),
        };
        place % self.of == self.number
    }
}

/// A number for a place of a table, whose bits all depend on all of the place's.
fn spread(table: &Table, place: u64) -> u64 {
    let mut hasher = FxHasher::default();
    (table.id(), place).hash(&mut hasher);
    let hash = hasher.finish();
    hash ^ hash >> 32
}

/// Has `work` done for all shares of a redo of `bytes` bytes: each in a thread of its own if that
/// is worth it. Each thread fences, by `fence`, what it has flushed.
pub(super) fn each(bytes: u64, fence: &(dyn Fn() + Sync), work: &(dyn Fn(Share) -> Result<()> + Sync)) -> Result<()> {
    let fenced = |share| work(share).map(|()| fence());
    let threads = threads(bytes);
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
