//! Recorded events, marks, and the call sites they come from.

use crate::trace::Site;
use std::fmt;

/// One recorded event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Thread, numbered in the order in which threads appear in the trace.
    pub thread: u16,
    /// Call site, to be looked up by [`super::Trace::site`].
    pub site: u32,
    /// What happened.
    pub kind: EventKind,
}

/// What happened. Files, names and labels are numbers of the trace's.
#[derive(Clone, Copy, Debug)]
pub enum EventKind {
    /// `count` words from `word` on (offset / 8), their values at `values` of the trace.
    Store {
        /// File.
        file: u32,
        /// First word.
        word: u32,
        /// Number of words.
        count: u32,
        /// Place of the values.
        values: u32,
        /// Whether non-temporal.
        nt: bool,
    },
    /// Flush of `count` lines.
    Flush {
        /// File.
        file: u32,
        /// First line.
        line: u32,
        /// Number of lines.
        count: u32,
    },
    /// What was seen of `count` lines is made durable, whoever stored it.
    Reclaim {
        /// File.
        file: u32,
        /// First line.
        line: u32,
        /// Number of lines.
        count: u32,
    },
    /// Fence.
    Fence,
    /// Sync of a file.
    Sync {
        /// File.
        file: u32,
    },
    /// Creation of a file.
    Create {
        /// File.
        file: u32,
        /// Name.
        name: u32,
        /// Length in bytes.
        len: u64,
    },
    /// Removal of a name.
    Remove {
        /// Name.
        name: u32,
    },
    /// Change of a name.
    Rename {
        /// Name before.
        from: u32,
        /// Name after.
        to: u32,
    },
    /// Sync of the directory.
    SyncDir,
    /// The process ended, and what it stored past the cache is on the medium.
    Ended,
    /// Begin of a labelled stretch.
    Enter(u32),
    /// End of a labelled stretch.
    Leave(u32),
    /// Something the oracle must know.
    Mark(u64),
    /// An acknowledgement.
    Ack(u64),
}

/// A mark or acknowledgement, in the order of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Place of the event in the trace.
    pub index: usize,
    /// Thread.
    pub thread: u16,
    /// Whether an acknowledgement.
    pub is_ack: bool,
    /// What was told.
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
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
    /// What was called.
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
