//! Errors of reasoning that can be planted in the engine and the log: a list for each room in which
//! they are planted.

mod changes;
mod index;
mod log;
mod pool;
mod recovery;
mod shadow;
mod space;
mod txn;

use crate::subject::Planted;
use std::sync::LazyLock;

/// All planted errors: those of the log, the engine and its indexes. A rule that is not one of the
/// invariants is named by its subject or by the source file that states it.
pub static PLANTED: LazyLock<Vec<Planted>> = LazyLock::new(|| {
    [
        log::PLANTED,
        recovery::PLANTED,
        txn::PLANTED,
        pool::PLANTED,
        changes::PLANTED,
        shadow::PLANTED,
        index::PLANTED,
        space::PLANTED,
    ]
    .concat()
});
