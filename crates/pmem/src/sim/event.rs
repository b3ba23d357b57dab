//! Recorded events, marks, and the call sites they come from.

use crate::trace::Site;
use std::fmt;

/// An event of a trace, by numbers that the trace resolves.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Thread, numbered in the order in which threads appear in the trace.
    pub thread: u16,
    /// Call site, to be looked up by [`super::Trace::site`].
    pub site: u32,
    /// Action of the thread there.
    pub kind: EventKind,
}

/// Actions of a thread. Files have the medium's numbers; names and labels the trace's.
#[derive(Clone, Copy, Debug)]
pub enum EventKind {
    /// `count` words from `word` on (offset / 8), their values at `values` of the trace.
    Store {
        /// The file's number.
        file: u32,
        /// First word, counted from the start of the file.
        word: u32,
        /// Words stored.
        count: u32,
        /// Where their values begin, see [`super::Trace::values`].
        values: u32,
        /// Whether past the cache.
        nt: bool,
    },
    /// Flush of `count` lines.
    Flush {
        /// The file's number.
        file: u32,
        /// First line, counted from the start of the file.
        line: u32,
        /// Lines from there on.
        count: u32,
    },
    /// The content of `count` lines as read is made durable, whichever thread stored it.
    Reclaim {
        /// The file's number.
        file: u32,
        /// First line, counted from the start of the file.
        line: u32,
        /// Lines from there on.
        count: u32,
    },
    /// Fence of what its thread has flushed or stored past the cache.
    Fence,
    /// Sync of a file.
    Sync {
        /// The file's number.
        file: u32,
    },
    /// Creation of a file.
    Create {
        /// The file's number.
        file: u32,
        /// Number of the name.
        name: u32,
        /// Length in bytes.
        len: u64,
    },
    /// A file is written by sectors, and one whose write is cut off may hold anything.
    Sectors {
        /// The file's number.
        file: u32,
    },
    /// Removal of a name.
    Remove {
        /// Number of the name.
        name: u32,
    },
    /// Change of a name.
    Rename {
        /// Number of the name before.
        from: u32,
        /// Number of the name after.
        to: u32,
    },
    /// Sync of the directory.
    SyncDir,
    /// The process ended, and what it stored past the cache is on the medium.
    Ended,
    /// Start of a labelled span.
    Enter(u32),
    /// End of a labelled span.
    Leave(u32),
    /// Something the oracle must know.
    Mark(u64),
    /// An acknowledgement: its thread should have left nothing unfenced.
    Ack(u64),
}

/// A mark or acknowledgement, in the order of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Place of the event in the trace.
    pub index: usize,
    /// Thread that made it, numbered as in [`Event`].
    pub thread: u16,
    /// Whether it is an acknowledgement.
    pub is_ack: bool,
    /// Message of the caller of [`super::mark`] or [`super::ack`] to the oracle.
    pub payload: u64,
}

/// Kinds of call sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SiteKind {
    /// Flush (or the flush of a persist).
    Flush,
    /// Fence (or the fence of a persist).
    Fence,
    /// Store of any kind.
    Store,
    /// Sync of a file.
    Sync,
    /// Reclaim of what a killed process left.
    Reclaim,
}

/// A place from which something was called. One place of a persist is two: its flush and its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallSite {
    /// Source file, as the compiler names it.
    pub file: &'static str,
    /// Line in that file, from 1.
    pub line: u32,
    /// Column in that line, from 1.
    pub column: u32,
    /// Which kind of call was made there.
    pub kind: SiteKind,
}

impl CallSite {
    pub(crate) fn new(site: Site, kind: SiteKind) -> CallSite {
        CallSite { file: site.file(), line: site.line(), column: site.column(), kind }
    }
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            SiteKind::Flush => "flush",
            SiteKind::Fence => "fence",
            SiteKind::Store => "store",
            SiteKind::Sync => "sync",
            SiteKind::Reclaim => "reclaim",
        };
        write!(f, "{}:{}:{} ({kind})", self.file, self.line, self.column)
    }
}
