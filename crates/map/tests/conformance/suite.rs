//! The checks, each in an empty place.

use crate::support::Place;

#[path = "changes.rs"]
mod changes;
#[path = "durability.rs"]
mod durability;
#[path = "forgetting.rs"]
mod forgetting;
#[path = "reads.rs"]
mod reads;
#[path = "replication.rs"]
mod replication;
#[path = "rollback.rs"]
mod rollback;
#[path = "scans.rs"]
mod scans;
#[path = "sizes.rs"]
mod sizes;
#[path = "snapshots.rs"]
mod snapshots;
#[path = "streams.rs"]
mod streams;
#[path = "upkeep.rs"]
mod upkeep;

/// A check of the suite.
pub type Check = fn(&Place);

/// All checks by name.
pub fn checks() -> impl Iterator<Item = (&'static str, Check)> {
    let parts = [
        reads::CHECKS,
        scans::CHECKS,
        changes::CHECKS,
        rollback::CHECKS,
        forgetting::CHECKS,
        sizes::CHECKS,
        snapshots::CHECKS,
        streams::CHECKS,
        durability::CHECKS,
        upkeep::CHECKS,
        replication::CHECKS,
    ];
    parts.into_iter().flatten().copied()
}
