//! Process-wide counters of what goes to the medium, told apart by what it is of.
//!
//! Each thread adds to a slot of its own (relaxed load and store, no locked instruction); slots are
//! never freed, only handed from an ended thread to a new one, so a sum over all slots is the total
//! since the process began.

use crate::units::LINE_BYTES;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Content of a region, by which the bytes sent to the medium are counted. Each clone of a region
/// has its own ([`crate::Region::holding`]), so a file that holds several things has a clone for
/// each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Content {
    /// None of the others.
    Other,
    /// The log, with its superblock.
    Log,
    /// Versions of rows, with the heads of their files.
    Versions,
    /// The row directory.
    Directory,
    /// Leaves of indexes.
    Index,
}

impl Content {
    /// All of them, each at its own number.
    pub const ALL: [Content; 5] = [Content::Other, Content::Log, Content::Versions, Content::Directory, Content::Index];
    const COUNT: usize = Content::ALL.len();
}

/// Totals since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Fences issued.
    pub fences: u64,
    /// Cache lines flushed.
    pub flushed_lines: u64,
    /// Bytes written by non-temporal copies and zeroing.
    pub nt_bytes: u64,
    /// Bytes written by cached stores and copies.
    pub written_bytes: u64,
    /// Time that models of media have charged to threads, in picoseconds.
    pub modelled_ps: u64,
    /// Time that modelled devices were given work for, in picoseconds.
    pub modelled_device_ps: u64,
    medium_bytes: [u64; Content::COUNT],
}

impl Counters {
    /// Bytes flushed: lines of 64 bytes.
    pub fn flushed_bytes(&self) -> u64 {
        self.flushed_lines * LINE_BYTES
    }

    /// Bytes sent to the medium from regions that hold `content`: lines flushed, each whole, and
    /// bytes past the cache. All contents together are [`Counters::flushed_bytes`] and `nt_bytes`.
    pub fn medium_bytes(&self, content: Content) -> u64 {
        self.medium_bytes[content as usize]
    }

    /// Difference from `earlier`.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            fences: self.fences.wrapping_sub(earlier.fences),
            flushed_lines: self.flushed_lines.wrapping_sub(earlier.flushed_lines),
            nt_bytes: self.nt_bytes.wrapping_sub(earlier.nt_bytes),
            written_bytes: self.written_bytes.wrapping_sub(earlier.written_bytes),
            modelled_ps: self.modelled_ps.wrapping_sub(earlier.modelled_ps),
            modelled_device_ps: self.modelled_device_ps.wrapping_sub(earlier.modelled_device_ps),
            medium_bytes: Content::ALL
                .map(|content| self.medium_bytes(content).wrapping_sub(earlier.medium_bytes(content))),
        }
    }
}

#[derive(Default)]
struct Slot {
    fences: AtomicU64,
    flushed_lines: [AtomicU64; Content::COUNT],
    nt_bytes: [AtomicU64; Content::COUNT],
    written_bytes: AtomicU64,
    modelled_ps: AtomicU64,
    modelled_device_ps: AtomicU64,
}

impl Slot {
    fn add_to(&self, sum: &mut Counters) {
        sum.fences = sum.fences.wrapping_add(self.fences.load(Ordering::Relaxed));
        for content in Content::ALL {
            let number = content as usize;
            let lines = self.flushed_lines[number].load(Ordering::Relaxed);
            let bytes = self.nt_bytes[number].load(Ordering::Relaxed);
            sum.flushed_lines = sum.flushed_lines.wrapping_add(lines);
            sum.nt_bytes = sum.nt_bytes.wrapping_add(bytes);
            let both = lines.wrapping_mul(LINE_BYTES).wrapping_add(bytes);
            sum.medium_bytes[number] = sum.medium_bytes[number].wrapping_add(both);
        }
        sum.written_bytes = sum.written_bytes.wrapping_add(self.written_bytes.load(Ordering::Relaxed));
        sum.modelled_ps = sum.modelled_ps.wrapping_add(self.modelled_ps.load(Ordering::Relaxed));
        sum.modelled_device_ps = sum.modelled_device_ps.wrapping_add(self.modelled_device_ps.load(Ordering::Relaxed));
    }
}

struct Slots {
    all: Vec<&'static CachePadded<Slot>>,
    free: Vec<&'static CachePadded<Slot>>,
}

static SLOTS: Mutex<Slots> = Mutex::new(Slots { all: Vec::new(), free: Vec::new() });

thread_local! {
    static LOCAL: Cell<*const CachePadded<Slot>> = const { Cell::new(ptr::null()) };
    static OWNER: Owner = const { Owner };
}

/// Gives the thread's slot back when the thread ends.
struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        let slot = LOCAL.replace(ptr::null());
        // SAFETY: LOCAL holds null or a pointer made from a leaked, hence 'static, slot.
        if let Some(slot) = unsafe { slot.as_ref() } {
            SLOTS.lock().free.push(slot);
        }
    }
}

#[inline]
fn local() -> &'static Slot {
    let slot = LOCAL.get();
    // SAFETY: LOCAL holds null or a pointer made from a leaked, hence 'static, slot.
    match unsafe { slot.as_ref() } {
        Some(slot) => slot,
        None => register(),
    }
}

#[cold]
fn register() -> &'static Slot {
    let mut slots = SLOTS.lock();
    let slot = slots.free.pop().unwrap_or_else(|| {
        let slot: &'static CachePadded<Slot> = Box::leak(Box::default());
        slots.all.push(slot);
        slot
    });
    drop(slots);
    LOCAL.set(slot);
    // At thread exit the owner may be gone already; the slot is then simply not handed on.
    let _ = OWNER.try_with(|_| ());
    slot
}

#[inline]
fn add(counter: &AtomicU64, amount: u64) {
    // Only the owning thread stores, so a plain load and store lose nothing.
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

#[inline]
pub(crate) fn fence() {
    add(&local().fences, 1);
}

#[inline]
pub(crate) fn flushed(content: Content, lines: u64) {
    add(&local().flushed_lines[content as usize], lines);
}

#[inline]
pub(crate) fn written_nt(content: Content, bytes: u64) {
    add(&local().nt_bytes[content as usize], bytes);
}

#[inline]
pub(crate) fn written(bytes: u64) {
    add(&local().written_bytes, bytes);
}

#[inline]
pub(crate) fn modelled(thread_ps: u64, device_ps: u64) {
    add(&local().modelled_ps, thread_ps);
    add(&local().modelled_device_ps, device_ps);
}

/// Reads the totals. Additions under way may be missing.
pub fn counters() -> Counters {
    let slots = SLOTS.lock();
    let mut sum = Counters::default();
    slots.all.iter().for_each(|slot| slot.add_to(&mut sum));
    sum
}

/// Reads the slot of the calling thread, which others have had before.
#[cfg(test)]
pub(crate) fn of_this_thread() -> Counters {
    let mut sum = Counters::default();
    local().add_to(&mut sum);
    sum
}

#[cfg(test)]
mod tests {
    use super::{Content, of_this_thread};
    use crate::{Medium, SimMedium};

    /// One file holds versions, directory and leaves: a clone for each must not add to another's
    /// count, and no byte may be missing from their sum.
    #[test]
    fn clones_of_a_region_count_apart() {
        let region = SimMedium::new().create("f", 4096).expect("there is room");
        let (versions, directory) = (region.holding(Content::Versions), region.holding(Content::Directory));
        let before = of_this_thread();
        versions.write_nt(0, &[1; 100]);
        directory.store(256, 1);
        directory.flush(256, 8);
        directory.clone().flush(60, 8);
        region.zero(1024, 64);
        region.fence();
        let since = of_this_thread().since(&before);
        let found = Content::ALL.map(|content| since.medium_bytes(content));
        assert_eq!(found, [64, 0, 100, 3 * 64, 0]);
        assert_eq!(found.iter().sum::<u64>(), since.flushed_bytes() + since.nt_bytes);
        assert_eq!((since.fences, since.flushed_lines, since.nt_bytes), (1, 3, 164));
    }

    #[test]
    fn each_content_is_at_its_number() {
        assert!(Content::ALL.iter().enumerate().all(|(number, content)| *content as usize == number));
    }
}
