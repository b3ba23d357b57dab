//! Room *shadow*: what DRAM knows of the directory pages that transactions write, or have written
//! lately.
//!
//! It owns, for each such page, the row locks taken in place, the changes of transactions under
//! way, and the words that older snapshots still see. A page that nobody has written lately has no
//! shadow. The room stands on `files`. It keeps (I4): a reader sees a change only once its
//! transaction is committed; and (I3) for words that one thread stores on behalf of another: the
//! committing thread flushes them.

pub(crate) mod change;
pub(crate) mod page;
pub(crate) mod purge_horizon;
pub(crate) mod row_set;
pub(crate) mod slot;
pub(crate) mod slots;
pub(crate) mod step_rows;
pub(crate) mod undo_record;
pub(crate) mod words;
pub(crate) mod writer;
