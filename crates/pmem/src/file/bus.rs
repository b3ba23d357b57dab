//! Mapped files that can fail: the answer to SIGBUS, and how a failed medium is kept off its files.
//!
//! The handler calls what is async-signal-safe only. It finds a range without a lock, and takes the
//! register's lock to freeze; nobody who holds that lock touches a mapped file, so no fault that is
//! answered comes from its holder.

use super::mapping::PAGE;
use crate::health::Failure;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Once, OnceLock};

/// Ranges that a chunk of the register holds.
const CHUNK_SLOTS: usize = 256;
/// Codes of a fault (`asm-generic/siginfo.h`): there is no such page, or its memory is damaged.
const BUS_ADRERR: c_int = 2;
const BUS_MCEERR_AR: c_int = 4;

/// A mapped range of a file; free while `begin` is 0.
struct Slot {
    begin: AtomicUsize,
    end: AtomicUsize,
    descriptor: AtomicI32,
    /// That of the file's medium; valid while the slot is taken.
    failure: AtomicPtr<Failure>,
}

impl Slot {
    const fn free() -> Slot {
        Slot {
            begin: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            descriptor: AtomicI32::new(-1),
            failure: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Maps the range privately in place of the file's own pages: it shows what the file has, and
    /// nothing that is stored there from now on reaches the file. A process that cannot do that is
    /// ended like by a power failure.
    ///
    /// # Safety
    /// The slot is taken, and the caller holds the lock.
    unsafe fn freeze(&self) {
        let (begin, end) = (self.begin.load(SeqCst), self.end.load(SeqCst));
        let private = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: while the slot is taken the file is open and the range is a mapping of it; the
        // kernel replaces it at once for all threads, with the same bytes in it.
        let frozen = unsafe {
            let file = BorrowedFd::borrow_raw(self.descriptor.load(SeqCst));
            mmap(ptr::with_exposed_provenance_mut(begin), end - begin, access, private, file, 0)
        };
        if frozen.is_err() {
            give_up();
        }
    }
}

/// A part of the register; parts live for ever.
struct Chunk {
    slots: [Slot; CHUNK_SLOTS],
    next: AtomicPtr<Chunk>,
}

impl Chunk {
    const fn new() -> Chunk {
        Chunk { slots: [const { Slot::free() }; CHUNK_SLOTS], next: AtomicPtr::new(ptr::null_mut()) }
    }
}

static FIRST: Chunk = Chunk::new();
static BUSY: AtomicBool = AtomicBool::new(false);
static INSTALL: Once = Once::new();
/// The action for SIGBUS that was in force before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

fn chunks() -> impl Iterator<Item = &'static Chunk> {
    // SAFETY: chunks are leaked, so a pointer to one is valid for ever.
    std::iter::successors(Some(&FIRST), |chunk| unsafe { chunk.next.load(SeqCst).as_ref() })
}

fn slots() -> impl Iterator<Item = &'static Slot> {
    chunks().flat_map(|chunk| &chunk.slots)
}

/// The register's lock, held.
struct Held;

fn hold() -> Held {
    while BUSY.compare_exchange(false, true, SeqCst, SeqCst).is_err() {
        std::thread::yield_now();
    }
    Held
}

impl Drop for Held {
    fn drop(&mut self) {
        BUSY.store(false, SeqCst);
    }
}

/// A range in the register, until dropped: before it is unmapped.
pub(super) struct Watched(&'static Slot);

/// Enters `len` bytes at `address`, a mapping of `file`, which stays open and mapped while the
/// result lives. If the medium is frozen, so is the range.
pub(super) fn watch(address: *mut c_void, len: usize, file: &File, failure: &Arc<Failure>) -> Watched {
    INSTALL.call_once(install);
    loop {
        let held = hold();
        if let Some(slot) = slots().find(|slot| slot.begin.load(SeqCst) == 0) {
            let begin = address.expose_provenance();
            slot.end.store(begin + len, SeqCst);
            slot.descriptor.store(file.as_raw_fd(), SeqCst);
            slot.failure.store(Arc::as_ptr(failure).cast_mut(), SeqCst);
            slot.begin.store(begin, SeqCst);
            if failure.is_frozen() {
                // SAFETY: just taken, under the lock.
                unsafe { slot.freeze() };
            }
            return Watched(slot);
        }
        drop(held);
        // Outside the lock: the allocator is none of the register's.
        let chunk = Box::leak(Box::new(Chunk::new()));
        let _held = hold();
        let last = chunks().last().expect("there is the first");
        last.next.store(chunk, SeqCst);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _held = hold();
        self.0.begin.store(0, SeqCst);
        self.0.failure.store(ptr::null_mut(), SeqCst);
    }
}

/// Keeps all that is stored from now on off the files of a medium that has failed, so that nothing
/// is written that was to wait for what failed (I3). The failure is noted before: who stores after
/// this, and syncs in vain, finds it. Async-signal-safe.
pub(super) fn freeze(failure: &Failure) {
    let _held = hold();
    // Once: stores since then are in the private pages only. Whoever comes second has waited.
    if !failure.begin_freeze() {
        return;
    }
    let of_medium = |slot: &&Slot| slot.begin.load(SeqCst) != 0 && ptr::eq(slot.failure.load(SeqCst), failure);
    for slot in slots().filter(of_medium) {
        // SAFETY: taken, under the lock.
        unsafe { slot.freeze() };
    }
}

/// Ends the process: a mapping is gone that others use.
#[cold]
fn give_up() -> ! {
    const WHY: &[u8] = b"perdura: a failed medium cannot be mapped privately; the process ends, a restart recovers\n";
    // SAFETY: both are async-signal-safe; the bytes are static.
    unsafe {
        libc::write(2, WHY.as_ptr().cast(), WHY.len());
        libc::abort()
    }
}

/// Puts the handler in front of the one that is in force.
fn install() {
    // SAFETY: both structs are valid; the handler is one for SA_SIGINFO and async-signal-safe. It
    // does not block SIGBUS, so that the handler behind it finds the mask that it was made for.
    unsafe {
        let mut previous: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGBUS, ptr::null(), &mut previous);
        // Before the handler can run.
        let previous = PREVIOUS.get_or_init(|| previous);
        let mut own = *previous;
        own.sa_sigaction = on_signal as *const () as usize;
        own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigemptyset(&mut own.sa_mask);
        libc::sigaction(libc::SIGBUS, &own, ptr::null_mut());
    }
}

unsafe extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: errno is this thread's; the kernel has filled in `info`.
    unsafe {
        let errno = *libc::__errno_location();
        let is_fault = matches!((*info).si_code, BUS_ADRERR | BUS_MCEERR_AR);
        if !(is_fault && answer((*info).si_addr().addr())) {
            pass_on(signal, info, context);
        }
        *libc::__errno_location() = errno;
    }
}

/// Fails the medium of the file that is mapped at `address`, and puts a page of zeros there. False
/// if no file of a page medium is.
fn answer(address: usize) -> bool {
    let found = slots().find_map(|slot| {
        let begin = slot.begin.load(SeqCst);
        let (end, descriptor, failure) =
            (slot.end.load(SeqCst), slot.descriptor.load(SeqCst), slot.failure.load(SeqCst));
        // Others come and go; this one stays while its bytes are accessed.
        let is_here = begin != 0 && (begin..end).contains(&address) && slot.begin.load(SeqCst) == begin;
        is_here.then_some((begin, descriptor, failure))
    });
    let Some((begin, descriptor, failure)) = found else { return false };
    // SAFETY: whoever accesses the range keeps its file, and with it the medium's failure.
    let failure = unsafe { &*failure };
    let page = address - address % PAGE;
    failure.note_fault(descriptor, (page - begin) as u64);
    // Before the thread goes on with zeros: nothing that it makes of them may reach a file.
    freeze(failure);
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
    // SAFETY: a page of the mapping, which cannot be accessed as it is.
    unsafe { mmap_anonymous(ptr::with_exposed_provenance_mut(page), PAGE, access, flags) }.is_ok()
}

/// Does what the action before ours would have done.
///
/// # Safety
/// Called by the handler, with its own arguments.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(previous) = PREVIOUS.get() else { return };
    // SAFETY: `info` is the kernel's; the action was a valid one, so what it names is a handler of
    // the kind that its flags tell; all calls are async-signal-safe.
    unsafe {
        let is_sent = (*info).si_code <= 0;
        match previous.sa_sigaction {
            libc::SIG_IGN if is_sent => return,
            libc::SIG_DFL | libc::SIG_IGN => {
                // A fault comes again as soon as this returns.
                libc::signal(signal, libc::SIG_DFL);
                if is_sent {
                    libc::raise(signal);
                }
                return;
            }
            _ => {}
        }
        if previous.sa_flags & libc::SA_RESETHAND != 0 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let (mut blocked, mut before): (libc::sigset_t, libc::sigset_t) = (previous.sa_mask, std::mem::zeroed());
        if previous.sa_flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&mut blocked, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &blocked, &mut before);
        let handler: *const () = ptr::with_exposed_provenance(previous.sa_sigaction);
        if previous.sa_flags & libc::SA_SIGINFO != 0 {
            type Detailed = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            std::mem::transmute::<*const (), Detailed>(handler)(signal, info, context);
        } else {
            std::mem::transmute::<*const (), unsafe extern "C" fn(c_int)>(handler)(signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
    }
}
