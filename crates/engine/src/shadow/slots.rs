//! The shadows of a table's directory pages, by page number.

use super::page::PageShadow;
use super::slot::{Locked, Shadow, Slot as AnySlot};
use perdura_log::Csn;
use perdura_pmem::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of slots in the first bucket; each further one has as many as all before it.
const FIRST: u64 = 16;
const BUCKETS: usize = 45;

/// The place of a page's shadow.
pub(crate) type Slot = AnySlot<PageShadow>;
/// A page's shadow, locked.
pub(crate) type LockedPage<'a> = Locked<'a, PageShadow>;

impl Shadow for PageShadow {
    fn is_empty(&self) -> bool {
        PageShadow::is_empty(self)
    }

    fn settled_at(&self) -> Option<Csn> {
        PageShadow::settled_at(self)
    }
}

/// The shadows of a table's directory pages.
///
/// Most pages have none. A reader looks at the *mark* of the page's slot before and after it loads
/// words, and most find there that the words in the directory are what their snapshots see
/// (`slot.rs`). Everything else happens under the slot's lock. Lock order: the lists of free rows
/// and pages; a slot; a shard of the lock table; the keys of a writer.
///
/// Here is also the place where writers and those who lock the table as a whole meet
/// (`txn/table_lock.rs`). A reader of the whole table announces itself, then locks each slot in
/// turn. A writer enters its first change of the table under a slot's lock, and looks for readers
/// there. Whichever of the two has the slot first is seen by the other. A bucket that is made after
/// the reader has looked is made under the lock of the announcement, so whoever finds it sees the
/// announcement.
pub(crate) struct Shadows {
    buckets: [OnceLock<Box<[Slot]>>; BUCKETS],
    /// Number of transactions that have locked the table as a whole, or are about to.
    readers: AtomicU32,
    /// Locked while a bucket is made or a reader announced.
    making: Mutex<()>,
}

impl Default for Shadows {
    fn default() -> Shadows {
        Shadows { buckets: [const { OnceLock::new() }; BUCKETS], readers: AtomicU32::new(0), making: Mutex::new(()) }
    }
}

impl Shadows {
    /// The slot of page `page`.
    #[inline]
    pub(crate) fn slot(&self, page: u64) -> &Slot {
        let (bucket, index, length) = place(page);
        let slots = self.buckets[bucket].get().map_or_else(|| self.make(bucket, length), |slots| slots.as_ref());
        &slots[index as usize]
    }

    #[cold]
    fn make(&self, bucket: usize, length: u64) -> &[Slot] {
        let _one = self.making.lock();
        self.buckets[bucket].get_or_init(|| (0..length).map(|_| Slot::default()).collect())
    }

    /// Whether anybody reads the table as a whole, or is about to. The caller has a slot locked.
    #[inline]
    pub(crate) fn has_readers(&self) -> bool {
        self.readers.load(Ordering::Acquire) > 0
    }

    /// Announces a reader of the whole table, which then looks at [`Shadows::each`].
    pub(crate) fn announce_reader(&self) {
        let _one = self.making.lock();
        self.readers.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes an announcement back.
    pub(crate) fn withdraw_reader(&self) {
        self.readers.fetch_sub(1, Ordering::AcqRel);
    }

    /// The slot of page `page`, if the page was ever asked for with its neighbours: otherwise it
    /// has no shadow.
    #[inline]
    pub(crate) fn existing(&self, page: u64) -> Option<&Slot> {
        let (bucket, index, _) = place(page);
        self.buckets.get(bucket)?.get().map(|slots| &slots[index as usize])
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.buckets.iter().filter_map(OnceLock::get).flat_map(|slots| slots.iter())
    }

    /// The shadows there are, one after the other, each locked.
    pub(crate) fn each(&self, mut body: impl FnMut(&PageShadow)) {
        for slot in self.slots() {
            if let Some(shadow) = slot.lock_existing() {
                body(&shadow);
            }
        }
    }
}

/// Bucket of a page, index in the bucket, and length of the bucket.
#[inline]
fn place(page: u64) -> (usize, u64, u64) {
    let bucket = (page / FIRST + 1).ilog2() as usize;
    let first = ((1 << bucket) - 1) * FIRST;
    (bucket, page - first, FIRST << bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_has_a_slot_of_its_own() {
        let mut expected = (0, 0);
        for page in 0..10_000 {
            let (bucket, index, length) = place(page);
            assert_eq!((bucket, index), expected, "page {page}");
            expected = if index + 1 == length { (bucket + 1, 0) } else { (bucket, index + 1) };
        }
        assert!(place((1 << 48) - 1).0 < BUCKETS);
    }
}
