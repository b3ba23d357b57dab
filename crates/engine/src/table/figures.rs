//! The figures of a table that DRAM alone knows, and those of its space. The former outlive the
//! open table: its register keeps them while the table is closed.

use crate::format::IndexDefinition;
use crate::index::measure::Measured;
use perdura_log::Csn;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Estimated rows, and the times of the last changes.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    rows: AtomicI64,
    /// The rows have been counted since the pool was opened.
    counted: AtomicBool,
    /// CSN of the commit that created the table or put it in the place of another; 0 if that was
    /// before this run.
    defined: AtomicU64,
    changed_at: AtomicU64,
}

/// The space of a table, as far as it is known without opening the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpace {
    /// Table id.
    pub id: u32,
    /// Name of the table.
    pub name: String,
    /// The table is open.
    pub is_open: bool,
    /// Number of data files.
    pub files: usize,
    /// Size of the data files, in bytes.
    pub data_bytes: u64,
    /// Bytes of the data files in free segments; unknown of a table that was not open since the
    /// start.
    pub free_bytes: Option<u64>,
    /// Estimated number of rows; unknown of a table that was not open since the start.
    pub rows: Option<u64>,
    /// Rows changed by commits that wait for purge; a table is closed only without any.
    pub purge_lag: usize,
    /// Free RIDs in the directory pages that are swept; unknown of a closed table.
    pub free_rids: Option<usize>,
    /// Segments and directory pages not swept since the table was opened; unknown of a closed
    /// table.
    pub unswept: Option<usize>,
}

/// The space of an index, as far as it is known without opening its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSpace {
    /// Table id.
    pub table: u32,
    /// Name of the table.
    pub name: String,
    /// Position of the index among those of the table.
    pub position: usize,
    /// How it was declared.
    pub definition: IndexDefinition,
    /// Estimated number of entries: each row has one. Unknown of a table that was not open since
    /// the start.
    pub entries: Option<u64>,
    /// Its leaves; unknown of a closed table.
    pub measured: Option<Measured>,
}

impl Figures {
    /// The figures of a new table, which has no rows.
    pub(crate) fn of_new_table() -> Figures {
        Figures { counted: AtomicBool::new(true), ..Figures::default() }
    }

    /// Estimated number of committed rows; 0 until they are counted.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed).max(0) as u64
    }

    /// Estimated number of committed rows; `None` until they are counted.
    pub(crate) fn counted_rows(&self) -> Option<u64> {
        self.counted.load(Ordering::Relaxed).then(|| self.rows())
    }

    /// Adds to the estimated number of rows.
    pub(crate) fn add_rows(&self, delta: i64) {
        if delta != 0 {
            self.rows.fetch_add(delta, Ordering::Relaxed);
        }
    }

    /// Adds the rows that `count` finds, unless they were counted before.
    pub(crate) fn count_once(&self, count: impl FnOnce() -> i64) {
        if !self.counted.swap(true, Ordering::Relaxed) {
            self.add_rows(count());
        }
    }

    /// CSN of the commit that created the table or put it in the place of another; 0 if that was
    /// before this run.
    pub(crate) fn defined(&self) -> Csn {
        self.defined.load(Ordering::Acquire)
    }

    /// Notes that commit.
    pub(crate) fn set_defined(&self, csn: Csn) {
        self.defined.store(csn, Ordering::Release);
    }

    /// When a commit last changed the table, in seconds since 1970; 0 if none did since the pool
    /// was opened.
    pub(crate) fn changed_at(&self) -> u64 {
        self.changed_at.load(Ordering::Relaxed)
    }

    /// Notes that a commit changed the table at `now`.
    #[inline]
    pub(crate) fn set_changed(&self, now: u64) {
        // Most commits come within a second of the last, and sessions share the line: load before
        // storing.
        if self.changed_at() < now {
            self.changed_at.fetch_max(now, Ordering::Relaxed);
        }
    }
}
