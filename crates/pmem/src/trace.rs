//! Content of a recording: events, labels and marks.
//!
//! A [`Tap`] receives every event of a simulated medium with its call site, in the order in which
//! the effects happen. Code above labels spans ([`span`]) and tests mark what an oracle must
//! know ([`mark`], [`ack`]); both cost one load and a branch unless the calling thread is attached
//! to a tap.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The place in the source that a call came from.
pub type Site = &'static Location<'static>;

/// One event of a simulated medium or of the code above it.
#[derive(Clone, Copy, Debug)]
pub enum Access<'a> {
    /// Words stored at a multiple of 8; `nt` if past the cache.
    Store {
        /// Number the medium has given to the file.
        region: u32,
        /// Where it begins in the file, in bytes.
        offset: u64,
        /// The words' values after the store.
        words: &'a [u64],
        /// Whether past the cache: a fence alone makes it durable.
        nt: bool,
    },
    /// Flush of the lines that a range touches: durable with the thread's next fence.
    Flush {
        /// The file's number.
        region: u32,
        /// Where it begins in the file, in bytes.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
    /// The content of a range as read is made durable, whichever thread stored it.
    Reclaim {
        /// The file's number.
        region: u32,
        /// Where it begins in the file, in bytes.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Fence of what its thread has flushed or stored past the cache.
    Fence,
    /// Sync of a file's size and blocks.
    Sync {
        /// The file's number.
        region: u32,
    },
    /// Creation of a file.
    Create {
        /// The number given to the file.
        region: u32,
        /// Name it gets in the medium's directory.
        name: &'a str,
        /// Its length in bytes.
        len: u64,
    },
    /// A file is written by sectors, as the log of a page medium: one whose write is cut off may
    /// hold anything.
    Sectors {
        /// The file's number.
        region: u32,
    },
    /// Removal of a name.
    Remove {
        /// The name; the file it led to lives on while it is mapped.
        name: &'a str,
    },
    /// Change of a name.
    Rename {
        /// Name before.
        from: &'a str,
        /// Name after.
        to: &'a str,
    },
    /// Sync of the directory: names created, removed and changed before are durable.
    SyncDir,
    /// The process ended: its processors have drained what it stored past the cache.
    Ended,
    /// Start of a labelled span.
    Enter(&'static str),
    /// End of a labelled span.
    Leave(&'static str),
    /// Something the oracle must know.
    Mark(u64),
    /// An acknowledgement: like a mark, and the lint looks for lines the thread has left unfenced.
    Ack(u64),
}

/// Receiver of events. Called with the medium's order held: it must not touch the medium.
pub trait Tap: Send + Sync + 'static {
    /// Takes one event that just took effect (a flush or fence: that is just about to).
    fn record(&self, access: Access<'_>, site: Site);
}

/// Attached threads, so that detached ones pay one load.
static ATTACHED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Tap>>> = const { RefCell::new(None) };
}

/// While it lives, labels and marks of this thread go to the tap. Not Send: it ends on the thread
/// it began on.
pub struct Attached {
    before: Option<Arc<dyn Tap>>,
    here: std::marker::PhantomData<*const ()>,
}

/// Sends this thread's labels and marks to `tap` until the guard is dropped.
pub fn attach(tap: Arc<dyn Tap>) -> Attached {
    ATTACHED.fetch_add(1, Ordering::Relaxed);
    let before = CURRENT.with_borrow_mut(|current| current.replace(tap));
    Attached { before, here: std::marker::PhantomData }
}

/// The tap this thread is attached to.
pub(crate) fn current() -> Option<Arc<dyn Tap>> {
    if ATTACHED.load(Ordering::Relaxed) == 0 {
        return None;
    }
    CURRENT.with_borrow(Clone::clone)
}

impl Drop for Attached {
    fn drop(&mut self) {
        let before = self.before.take();
        CURRENT.with_borrow_mut(|current| *current = before);
        ATTACHED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Label of spans whose stores need not be durable when a thread acknowledges, and which may
/// flush lines that others have flushed meanwhile for other words in them: the lint asks for no
/// flush of such stores, and finds none of such flushes redundant.
pub const TRANSIENT: &str = "transient";

/// A labelled span of a thread's work, until dropped.
#[must_use = "the span ends when this is dropped"]
pub struct Span {
    label: &'static str,
    tap: Option<Arc<dyn Tap>>,
}

/// Labels what this thread does until the result is dropped, e.g. `"generation_switch"`.
#[inline]
#[track_caller]
pub fn span(label: &'static str) -> Span {
    if ATTACHED.load(Ordering::Relaxed) == 0 {
        return Span { label, tap: None };
    }
    let tap = current();
    if let Some(tap) = &tap {
        tap.record(Access::Enter(label), Location::caller());
    }
    Span { label, tap }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(tap) = &self.tap {
            tap.record(Access::Leave(self.label), Location::caller());
        }
    }
}

/// Says that the process that ran until now is dead, though its successor runs in the same
/// recording. What it stored past the cache is on the medium; what it left in the cache is not.
#[track_caller]
pub fn ended() {
    if let Some(tap) = current() {
        tap.record(Access::Ended, Location::caller());
    }
}

/// Tells the oracle something, e.g. that a transaction begins.
#[inline]
#[track_caller]
pub fn mark(payload: u64) {
    if let Some(tap) = current() {
        tap.record(Access::Mark(payload), Location::caller());
    }
}

/// Tells the oracle that something was acknowledged, and the lint that this thread should have left
/// nothing unfenced.
#[inline]
#[track_caller]
pub fn ack(payload: u64) {
    if let Some(tap) = current() {
        tap.record(Access::Ack(payload), Location::caller());
    }
}
