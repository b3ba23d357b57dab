//! One mapped file, and the only door through which persistent memory is stored to (I10).

use crate::ahead::prefetch;
use crate::counters::{self, Content};
use crate::error::Result;
pub(crate) use crate::functions::{Functions, PLAIN, Publish};
use crate::model::Device;
use crate::sim::hook::Hook;
use crate::units::{LINE_BYTES, WORD_BYTES, lines};
use std::ffi::{c_uint, c_void};
use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Non-temporal, and no drain: durable after the thread's next fence.
const NT_NODRAIN: c_uint = (1 << 0) | (1 << 1);

/// Backing of a mapping; dropping it unmaps.
pub(crate) trait Backing: Send + Sync {
    /// Flushes beyond the persistence domain's buffers where the platform can.
    fn deep_flush(&self, offset: u64, len: u64) -> Result<()>;
    /// Makes the file's size and blocks durable.
    fn sync(&self) -> Result<()>;
    /// Maps the pages of a range for writing.
    fn populate(&self, offset: u64, len: u64) -> Result<()>;
    /// Gives back the file's blocks. Its bytes are zero from then on, or stay as they are.
    fn release(&self);
    /// Notes a new name of the file, for errors.
    fn rename(&mut self, name: &str);
    /// Bytes that a write may tear.
    fn write_granule(&self) -> u64 {
        LINE_BYTES
    }
    /// Gives back what the content takes in DRAM, which nobody needs any more.
    fn forget(&self) {}
    /// Has a range read ahead of its use.
    fn will_need(&self, _offset: u64, _len: u64) {}
    /// Writes bytes to the file by a call of the system: whether there is one.
    fn write_file(&self, _offset: u64, _source: &[u8]) -> Result<bool> {
        Ok(false)
    }
    /// Makes durable what was so written: whether there is a call for it.
    fn sync_file(&self) -> Result<bool> {
        Ok(false)
    }
}

pub(crate) struct Mapping {
    pub(crate) name: String,
    pub(crate) functions: Functions,
    pub(crate) hook: Option<Hook>,
    pub(crate) model: Option<Arc<Device>>,
    pub(crate) backing: Box<dyn Backing>,
}

/// One mapped file. Clones share the mapping. All offsets and lengths are in bytes.
///
/// Invariants: `base..base + len` stays mapped while the mapping lives; all offsets are checked
/// against `len` (out of bounds panics: offsets read from the medium are checked by the caller
/// first). The functions that flush, drain and copy are chosen when the file is mapped. A simulated
/// region whose events are recorded, and one whose medium is modelled, take a cold path behind one
/// branch that is never taken otherwise.
///
/// Thread-safety: words are atomic. Bytes written by [`Region::write`] and [`Region::write_nt`] are
/// not: threads that share them order their accesses, or verify what they have read (by checksum),
/// as readers of a damaged medium must anyway.
#[derive(Clone)]
pub struct Region {
    base: *mut u8,
    len: u64,
    door: Door,
    content: Content,
    mapping: Arc<Mapping>,
}

/// Those who have to know of accesses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Door {
    /// Nobody.
    Plain,
    /// The hook, of every store, flush and fence. It makes the store itself.
    Hooked,
    /// The model, of every read, flush, fence and non-temporal copy.
    Modelled,
}

// SAFETY: the pointer names memory owned by `mapping`, which is Send and Sync; shared access is by
// atomics or, for plain bytes, ordered by the callers as the type's documentation says.
unsafe impl Send for Region {}
// SAFETY: as for Send.
unsafe impl Sync for Region {}

impl Region {
    /// A region over `len` bytes at `base`.
    ///
    /// # Safety
    /// `base` is aligned to 64 bytes, and `len` bytes there stay mapped, readable and writable
    /// while `mapping` lives.
    pub(crate) unsafe fn new(base: *mut u8, len: u64, mapping: Mapping) -> Region {
        let door = match (&mapping.hook, &mapping.model) {
            (Some(_), _) => Door::Hooked,
            (None, Some(_)) => Door::Modelled,
            (None, None) => Door::Plain,
        };
        Region { base, len, door, content: Content::Other, mapping: Arc::new(mapping) }
    }

    /// Name the file had when it was created or opened, or last given by [`Region::rename`].
    pub fn name(&self) -> &str {
        &self.mapping.name
    }

    /// A clone whose flushes and copies past the cache count as those of `content`.
    pub fn holding(&self, content: Content) -> Region {
        Region { content, ..self.clone() }
    }

    /// Content that its flushes and copies past the cache count as.
    pub fn content(&self) -> Content {
        self.content
    }

    /// Length of the file in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first byte. Reading through it owes what [`Region::slice`] asks for, and that
    /// a clone of the region lives; nothing may be stored through it (I10).
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.base
    }

    #[inline]
    fn at(&self, offset: u64, len: u64) -> *mut u8 {
        if offset > self.len || len > self.len - offset {
            self.out_of_bounds(offset, len);
        }
        // SAFETY: offset is at most len, and base..base + len is one mapping.
        unsafe { self.base.add(offset as usize) }
    }

    #[inline]
    fn word(&self, offset: u64) -> &AtomicU64 {
        if !offset.is_multiple_of(WORD_BYTES) {
            self.misaligned(offset);
        }
        // SAFETY: in bounds and aligned (base is aligned to 64), valid for the life of self, and
        // words that are shared are only accessed through this atomic.
        unsafe { AtomicU64::from_ptr(self.at(offset, WORD_BYTES).cast()) }
    }

    #[cold]
    #[inline(never)]
    fn out_of_bounds(&self, offset: u64, len: u64) -> ! {
        panic!("{}: {len} bytes at offset {offset} are outside its {} bytes", self.name(), self.len)
    }

    #[cold]
    #[inline(never)]
    fn misaligned(&self, offset: u64) -> ! {
        panic!("{}: offset {offset} is not a multiple of 8", self.name())
    }

    /// Loads the aligned word at `offset` (Acquire). Panics out of bounds or misaligned.
    #[inline]
    pub fn load(&self, offset: u64) -> u64 {
        let word = self.word(offset);
        self.charge_read(offset, WORD_BYTES);
        word.load(Ordering::Acquire)
    }

    /// Loads the `count` aligned words from `offset` on, each as [`Region::load`] does. Panics out
    /// of bounds or misaligned.
    #[inline]
    pub fn words(&self, offset: u64, count: usize) -> impl ExactSizeIterator<Item = u64> + '_ {
        if !offset.is_multiple_of(WORD_BYTES) {
            self.misaligned(offset);
        }
        let first = self.at(offset, count as u64 * WORD_BYTES).cast::<AtomicU64>();
        self.charge_read(offset, count as u64 * WORD_BYTES);
        // SAFETY: in bounds and aligned (base is aligned to 64), valid for the life of self, and
        // words that are shared are only accessed through these atomics.
        let words = unsafe { std::slice::from_raw_parts(first, count) };
        words.iter().map(|word| word.load(Ordering::Acquire))
    }

    /// The two aligned words from `offset` on, each loaded as [`Region::load`] does; `None` out of
    /// bounds or misaligned.
    #[inline(always)]
    pub fn load_pair(&self, offset: u64) -> Option<[u64; 2]> {
        let is_within = self.len >= 2 * WORD_BYTES && offset <= self.len - 2 * WORD_BYTES;
        if !is_within || !offset.is_multiple_of(WORD_BYTES) {
            return None;
        }
        self.charge_read(offset, 2 * WORD_BYTES);
        // SAFETY: in bounds and aligned (base is aligned to 64), valid for the life of self, and
        // words that are shared are only accessed through these atomics.
        let pair = unsafe { &*self.base.add(offset as usize).cast::<[AtomicU64; 2]>() };
        Some(pair.each_ref().map(|word| word.load(Ordering::Acquire)))
    }

    /// Asks for the line of the byte at `offset` ahead of its use. Does nothing out of bounds.
    #[inline]
    pub fn prefetch(&self, offset: u64) {
        if offset < self.len {
            if self.door == Door::Modelled {
                self.model().ask(self.base as usize + offset as usize);
            }
            prefetch(self.base as usize + offset as usize);
        }
    }

    /// Copies bytes out. If another thread stores to them meanwhile, the copy may mix old and new
    /// bytes; the caller must detect that. Panics out of bounds.
    #[inline]
    pub fn read(&self, offset: u64, target: &mut [u8]) {
        let source = self.at(offset, target.len() as u64);
        self.charge_read(offset, target.len() as u64);
        // SAFETY: the source range is in bounds; target is exclusive and not part of the mapping.
        unsafe { source.copy_to_nonoverlapping(target.as_mut_ptr(), target.len()) }
    }

    /// Borrows the bytes where they lie. Panics out of bounds.
    ///
    /// # Safety
    /// While the slice lives, no thread stores to these bytes, neither through this region or a
    /// clone of it nor through another mapping of the file. Stores to other bytes are allowed, even
    /// within the same cache line.
    #[inline]
    pub unsafe fn slice(&self, offset: u64, len: u64) -> &[u8] {
        let first = self.at(offset, len);
        self.charge_read(offset, len);
        // SAFETY: in bounds by at(); not stored to by the caller's promise.
        unsafe { std::slice::from_raw_parts(first, len as usize) }
    }

    /// Stores the aligned word at `offset` (Release, cached). Panics out of bounds or misaligned.
    #[inline]
    #[track_caller]
    pub fn store(&self, offset: u64, value: u64) {
        let word = self.word(offset);
        counters::written(WORD_BYTES);
        if self.door == Door::Hooked {
            return self.hook().store(offset, word, value, Location::caller());
        }
        word.store(value, Ordering::Release);
    }

    /// Replaces the aligned word at `offset` if it is `current` (AcqRel, cached); the word found
    /// otherwise. Panics out of bounds or misaligned.
    #[inline]
    #[track_caller]
    pub fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> std::result::Result<u64, u64> {
        let word = self.word(offset);
        counters::written(WORD_BYTES);
        if self.door == Door::Hooked {
            return self.hook().compare_exchange(offset, word, current, new, Location::caller());
        }
        word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Copies bytes in through the cache, at any alignment. Not atomic; durable once flushed and
    /// fenced.
    #[inline]
    #[track_caller]
    pub fn write(&self, offset: u64, source: &[u8]) {
        let target = self.at(offset, source.len() as u64);
        counters::written(source.len() as u64);
        if self.door == Door::Hooked {
            // SAFETY: the target range is in bounds, and hooked regions are padded to whole words
            // and hooked throughout.
            return unsafe { self.hook().write(target, offset, source, false, Location::caller()) };
        }
        // SAFETY: the target range is in bounds, and source, being a shared slice, is not part of
        // what is written.
        unsafe { target.copy_from_nonoverlapping(source.as_ptr(), source.len()) }
    }

    /// Copies bytes in past the cache, at any alignment; durable after this thread's next
    /// [`Region::fence`].
    #[inline]
    #[track_caller]
    pub fn write_nt(&self, offset: u64, source: &[u8]) {
        let target = self.at(offset, source.len() as u64);
        counters::written_nt(self.content, source.len() as u64);
        if self.door != Door::Plain {
            if self.door == Door::Hooked {
                // SAFETY: as in write().
                return unsafe { self.hook().write(target, offset, source, true, Location::caller()) };
            }
            self.model().wrote(target as usize, source.len() as u64, false);
        }
        // SAFETY: as in write().
        unsafe { (self.mapping.functions.memcpy)(target.cast(), source.as_ptr().cast(), source.len(), NT_NODRAIN) };
    }

    /// Zeroes bytes past the cache; durable after this thread's next [`Region::fence`].
    #[inline]
    #[track_caller]
    pub fn zero(&self, offset: u64, len: u64) {
        let target = self.at(offset, len);
        counters::written_nt(self.content, len);
        if self.door != Door::Plain {
            if self.door == Door::Hooked {
                // SAFETY: as in write().
                return unsafe { self.hook().zero(target, offset, len, Location::caller()) };
            }
            self.model().wrote(target as usize, len, false);
        }
        // SAFETY: the target range is in bounds.
        unsafe { (self.mapping.functions.memset)(target.cast(), 0, len as usize, NT_NODRAIN) };
    }

    /// Writes bytes through the file system, as a file that is not mapped is written: `pwrite`.
    /// Durable, whoever has written them, after [`Region::sync_file`]. Nobody stores to these bytes
    /// meanwhile.
    ///
    /// Error: `Io`.
    #[track_caller]
    pub fn write_file(&self, offset: u64, source: &[u8]) -> Result<()> {
        let target = self.at(offset, source.len() as u64);
        if self.door == Door::Hooked {
            counters::written(source.len() as u64);
            // SAFETY: as in write().
            unsafe { self.hook().write(target, offset, source, false, Location::caller()) };
            return Ok(());
        }
        if self.mapping.backing.write_file(offset, source)? {
            counters::written_nt(self.content, source.len() as u64);
        } else {
            counters::written(source.len() as u64);
            // SAFETY: as in write().
            unsafe { target.copy_from_nonoverlapping(source.as_ptr(), source.len()) };
        }
        if self.door == Door::Modelled {
            // A file system on such memory copies past the cache.
            self.model().wrote(target as usize, source.len() as u64, false);
        }
        Ok(())
    }

    /// Makes durable what was written by [`Region::write_file`] to these ranges, or to any part of
    /// the file: `fdatasync`.
    ///
    /// Error: `Io`, for good on a page medium.
    #[track_caller]
    pub fn sync_file(&self, ranges: &[Range<u64>]) -> Result<()> {
        if self.door == Door::Hooked || !self.mapping.backing.sync_file()? {
            for range in ranges {
                self.flush_from(range.start, range.end - range.start, Location::caller());
            }
        }
        self.fence_from(Location::caller());
        Ok(())
    }

    /// Flushes every line touched by the range; durable after this thread's next [`Region::fence`].
    #[inline]
    #[track_caller]
    pub fn flush(&self, offset: u64, len: u64) {
        self.flush_from(offset, len, Location::caller());
    }

    /// Flushes every line touched by a range that is to be durable when [`crate::Medium::settle`]
    /// returns, and the thread has fenced: where that syncs all that is stored, this does nothing.
    #[inline]
    #[track_caller]
    pub fn flush_settled(&self, offset: u64, len: u64) {
        if self.door != Door::Plain {
            return self.flush_from(offset, len, Location::caller());
        }
        let target = self.at(offset, len);
        counters::flushed(self.content, lines(offset, len));
        // SAFETY: the range is in bounds.
        unsafe { (self.mapping.functions.flush_settled)(target.cast(), len as usize) }
    }

    /// Waits until all this thread has flushed and copied non-temporally, on any region of the
    /// medium, is durable.
    #[inline]
    #[track_caller]
    pub fn fence(&self) {
        self.fence_from(Location::caller());
    }

    /// Flush, then fence.
    #[inline]
    #[track_caller]
    pub fn persist(&self, offset: u64, len: u64) {
        self.flush_from(offset, len, Location::caller());
        self.fence_from(Location::caller());
    }

    /// How words are stored in order, if that is one write; and the address of the one at `offset`.
    pub(crate) fn publisher(&self, offset: u64) -> Option<(&'static Publish, usize)> {
        let publish = self.mapping.functions.publish?;
        Some((publish, self.word(offset).as_ptr().addr()))
    }

    /// Makes durable what an earlier process may have stored here and not flushed before it died.
    /// This process reads it as if it were on the medium, but it may be in the cache only.
    #[track_caller]
    pub fn reclaim(&self, offset: u64, len: u64) {
        self.reclaim_all([(offset, len)]);
    }

    /// [`Region::reclaim`] of many ranges, each an offset and a length, at once.
    #[track_caller]
    pub fn reclaim_all(&self, ranges: impl IntoIterator<Item = (u64, u64)>) {
        self.reclaim_by(self.mapping.functions.flush, ranges);
    }

    /// The same for ranges that are to be durable when [`crate::Medium::settle`] returns: where
    /// that syncs all that is stored, it does nothing.
    #[track_caller]
    pub fn reclaim_settled(&self, ranges: impl IntoIterator<Item = (u64, u64)>) {
        self.reclaim_by(self.mapping.functions.flush_settled, ranges);
    }

    #[track_caller]
    fn reclaim_by(
        &self,
        flush: unsafe extern "C" fn(*const c_void, usize),
        ranges: impl IntoIterator<Item = (u64, u64)>,
    ) {
        for (offset, len) in ranges {
            let target = self.at(offset, len);
            if self.door == Door::Hooked {
                self.hook().reclaim(offset, len, Location::caller());
            } else {
                // SAFETY: the range is in bounds.
                unsafe { flush(target.cast(), len as usize) };
            }
        }
        if self.door != Door::Hooked {
            // SAFETY: draining has no precondition.
            unsafe { (self.mapping.functions.drain)() };
        }
    }

    #[inline]
    fn flush_from(&self, offset: u64, len: u64, site: &'static Location<'static>) {
        let target = self.at(offset, len);
        counters::flushed(self.content, lines(offset, len));
        if self.door != Door::Plain {
            if self.door == Door::Hooked {
                return self.hook().flush(offset, len, site);
            }
            self.model().wrote(target as usize, len, true);
        }
        // SAFETY: the range is in bounds.
        unsafe { (self.mapping.functions.flush)(target.cast(), len as usize) }
    }

    #[inline]
    fn fence_from(&self, site: &'static Location<'static>) {
        counters::fence();
        if self.door == Door::Hooked {
            return self.hook().fence(site);
        }
        // SAFETY: draining has no precondition.
        unsafe { (self.mapping.functions.drain)() }
        if self.door == Door::Modelled {
            // Last: the time of the memory below is over by then.
            self.model().fence();
        }
    }

    /// After [`Region::persist`]: flushes a range beyond the persistence domain's buffers where the
    /// platform can, for the few bytes (superblocks) that should survive even a failure to save
    /// those. Error: `Io`.
    pub fn deep_flush(&self, offset: u64, len: u64) -> Result<()> {
        self.at(offset, len);
        self.mapping.backing.deep_flush(offset, len)
    }

    /// Makes the file's size and blocks durable (its name: [`crate::Medium::sync_dir`]). Error:
    /// `Io`.
    #[track_caller]
    pub fn sync(&self) -> Result<()> {
        self.mapping.backing.sync()?;
        if let Some(hook) = &self.mapping.hook {
            hook.sync(Location::caller());
        }
        Ok(())
    }

    /// Maps the pages of a range for writing, so that first stores do not fault.
    /// Errors: `Poisoned` naming the range, `Unsupported` where the kernel lacks it.
    pub fn advise_populate(&self, offset: u64, len: u64) -> Result<()> {
        self.at(offset, len);
        self.mapping.backing.populate(offset, len)
    }

    /// Asks for a range that is about to be read: on a page medium it is brought into memory while
    /// the caller goes on, and elsewhere nothing is done. Who reads a few pages here and there does
    /// not ask.
    pub fn will_need(&self, offset: u64, len: u64) {
        self.at(offset, len);
        self.mapping.backing.will_need(offset, len);
    }

    /// Gives back the blocks of a file that was removed, while it is still mapped. From then on its
    /// bytes read as zero, or as before where the file system cannot do it; nobody may store to it
    /// any more.
    pub fn release(&self) {
        self.mapping.backing.release();
    }

    /// Bytes that reach the medium together, a power of two: a line, or in a file of the log on a
    /// disk a sector. A write that is cut off may leave anything in those that it touches, so what
    /// must stay does not lie in one that is written again.
    #[inline]
    pub fn write_granule(&self) -> u64 {
        self.mapping.backing.write_granule()
    }

    /// Says that nobody needs what the file holds, though others will be written there. What is
    /// flushed and not fenced, by whatever thread, need not be written. A file of the log on a disk
    /// gives its DRAM back, and reads as zero from then on; others stay as they are.
    pub fn forget(&self) {
        self.mapping.backing.forget();
    }

    /// Notes the name that the file has now, if the caller alone has the mapping: no clone of the
    /// region lives. Returns whether that is so. The file itself is renamed by
    /// [`crate::Medium::rename`].
    pub fn rename(&mut self, name: &str) -> bool {
        let Some(mapping) = Arc::get_mut(&mut self.mapping) else { return false };
        name.clone_into(&mut mapping.name);
        mapping.backing.rename(name);
        true
    }

    /// Charges a range that is read, within bounds.
    #[inline(always)]
    fn charge_read(&self, offset: u64, len: u64) {
        if self.door == Door::Modelled {
            self.model().read(self.base as usize + offset as usize, len);
        }
    }

    #[cold]
    fn model(&self) -> &Device {
        self.mapping.model.as_ref().expect("only a region with a model is modelled")
    }

    #[cold]
    fn hook(&self) -> &Hook {
        self.mapping.hook.as_ref().expect("only a region with a hook is hooked")
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("name", &self.name()).field("len", &self.len).finish_non_exhaustive()
    }
}
