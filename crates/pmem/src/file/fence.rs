//! A fence of a page medium: it syncs the mapped files that its thread has flushed, or writes them
//! to the journal, and writes the files of the log.

use super::noted::{self, PAGED};
use super::written::WRITTEN;
use crate::region::Functions;

/// Of a mapped file.
pub(super) const MAPPED: Functions = Functions { drain, ..PAGED };
/// Of a mapped file of a medium with a journal.
pub(super) const JOURNALED: Functions = Functions { drain, ..noted::JOURNALED };
/// Of a file of the log.
pub(super) const LOGGED: Functions = Functions { drain, ..WRITTEN };

unsafe extern "C" fn drain() {
    // SAFETY: draining has no precondition.
    unsafe {
        (PAGED.drain)();
        (WRITTEN.drain)();
    }
}
