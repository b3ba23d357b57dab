//! A transaction as others meet it in the pages that it has locked or written.
//!
//! One store makes it visible: until [`Writer::commit`] its changes count for nobody else, from
//! then on for every snapshot at or above its CSN, however many they are and whether or not their
//! words are stored yet.

use crate::format::Rid;
use perdura_log::{Csn, Publication};
use perdura_pmem::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Object of a lock: a row, or a table as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockKey {
    table: u32,
    /// RID of the row; that of no row stands for the table.
    rid: Rid,
}

impl LockKey {
    /// Row `rid` of table `table`.
    #[inline]
    pub const fn row(table: u32, rid: Rid) -> LockKey {
        LockKey { table, rid }
    }

    /// Table `table` as a whole.
    pub const fn whole(table: u32) -> LockKey {
        LockKey { table, rid: Rid::NO_ROW }
    }

    /// Table id.
    pub fn table(self) -> u32 {
        self.table
    }

    /// RID of the row; `None` if the key is a table's.
    pub fn rid(self) -> Option<Rid> {
        (self.rid != Rid::NO_ROW).then_some(self.rid)
    }
}

/// A transaction as others meet it. Each transaction has one of its own, so no name is ever given
/// twice.
pub(crate) struct Writer {
    owner: u64,
    /// It only moves rows to other places: nobody finds them changed.
    moves: bool,
    /// Its CSN once it is committed; 0 before.
    csn: AtomicU64,
    /// Somebody reports that it is visible, or has.
    is_reported: AtomicBool,
    /// Locks that others have put into the lock table in its name, because they wait for them;
    /// `None` once it has released its locks.
    tabled: Mutex<Option<Vec<LockKey>>>,
    /// Leaves of indexes, by table, that got changes of the transaction because others did without
    /// the leaves where it had made them.
    inherited: Mutex<Vec<(u32, u32)>>,
    /// It was rolled back: nothing names what it wrote.
    over: AtomicBool,
}

impl Writer {
    /// A transaction of the lock owner `owner`.
    pub(crate) fn new(owner: u64) -> Writer {
        Writer {
            owner,
            moves: false,
            csn: AtomicU64::new(0),
            is_reported: AtomicBool::new(false),
            tabled: Mutex::new(Some(Vec::new())),
            inherited: Mutex::new(Vec::new()),
            over: AtomicBool::new(false),
        }
    }

    /// A transaction that only moves rows to other places.
    pub(crate) fn mover(owner: u64) -> Writer {
        Writer { moves: true, ..Writer::new(owner) }
    }

    /// Whether it only moves rows to other places.
    #[inline]
    pub(crate) fn moves(&self) -> bool {
        self.moves
    }

    /// The owner of its locks.
    #[inline]
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    /// Its CSN; `None` until it is committed.
    #[inline]
    pub(crate) fn csn(&self) -> Option<Csn> {
        match self.csn.load(Ordering::Acquire) {
            0 => None,
            csn => Some(csn),
        }
    }

    /// Makes the transaction visible. Every commit up to `csn` is durable (I4).
    pub(crate) fn commit(&self, csn: Csn) {
        self.csn.store(csn, Ordering::Release);
    }

    /// Whether the caller is the first who has made it visible and reports it. Two may make it
    /// visible, since both store the same.
    pub(crate) fn is_reported_first(&self) -> bool {
        !self.is_reported.swap(true, Ordering::AcqRel)
    }

    /// Has the transaction release the lock on `key`, which the caller puts into the lock table,
    /// when it ends. Returns false if it has released its locks already. The caller has the page of
    /// the row locked, or of any row of the table.
    pub(crate) fn table_lock(&self, key: LockKey) -> bool {
        match self.tabled.lock().as_mut() {
            Some(keys) => {
                keys.push(key);
                true
            }
            None => false,
        }
    }

    /// Whether somebody has put the lock on `key` into the lock table in its name.
    pub(crate) fn has_tabled(&self, key: LockKey) -> bool {
        self.tabled.lock().as_ref().is_some_and(|keys| keys.contains(&key))
    }

    /// Notes that leaf `leaf` of table `table` has changes of the transaction now. The caller has
    /// the leaf locked where they were.
    pub(crate) fn inherit(&self, table: u32, leaf: u32) {
        self.inherited.lock().push((table, leaf));
    }

    /// The leaves of table `table` noted by [`Writer::inherit`] from the `seen`th on; `seen` then
    /// counts them.
    pub(crate) fn inherited(&self, table: u32, seen: &mut usize) -> Vec<u32> {
        let inherited = self.inherited.lock();
        let new =
            inherited[(*seen).min(inherited.len())..].iter().filter(|(of, _)| *of == table).map(|(_, leaf)| *leaf);
        let new = new.collect();
        *seen = inherited.len();
        new
    }

    /// Notes that the transaction was rolled back, and that no log names it.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Whether the transaction was rolled back, and no log names it.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Takes the locks that others have put into the lock table, at the transaction's end. From
    /// here on nobody takes its marks in pages for locks.
    pub(crate) fn release_tabled(&self) -> Vec<LockKey> {
        self.tabled.lock().take().unwrap_or_default()
    }
}

impl Publication for Writer {
    fn publish(&self, csn: Csn) -> bool {
        self.commit(csn);
        self.is_reported_first()
    }
}
