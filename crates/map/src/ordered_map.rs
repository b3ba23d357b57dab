//! What both structures are: an ordered map over byte strings whose keys are (user key, timestamp).
//!
//! Timestamps are chosen by the caller and never fall, except by [`OrderedMap::rollback`]; several changes may share one.
//! Versions are kept until forgotten: a read names the timestamp it wants to see. Up to `applied_ts` nothing is rolled
//! back, above it nothing is forgotten. A change is visible once its call returns, and durable once confirmed: every
//! `changes_max` changes, after `interval`, or by [`OrderedMap::confirm`]. A crash leaves all changes up to some
//! confirmation and none after it.
//!
//! Thread-safety: changes take turns on a lock; reads, scans and snapshots never block, nor are they blocked.

use crate::config::Kind;
use crate::error::Result;
use crate::load::Loader;
use crate::scan::{Scan, Value};
use crate::snapshot::Snapshot;
use crate::space::Space;
use crate::timestamps::{Timestamps, Ts};
use std::ops::Bound;

/// One change not yet forgotten, as its rollback record knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutation<'a> {
    /// Its timestamp.
    pub ts: Ts,
    /// The key it changed.
    pub key: &'a [u8],
    /// The value it gave the key; none if it deleted it.
    pub value: Option<&'a [u8]>,
}

/// An ordered map with versions in persistent memory.
///
/// Errors of all calls: [`crate::ErrorKind::Damaged`]. Of all changes also: `Full` (nothing is changed), `ReadOnly`,
/// `Timestamp` when `ts` is below [`Timestamps::last`], not above [`Timestamps::applied`] or [`Ts::MAX`], and `TooLarge`.
/// [`OrderedMap::rollback`] and [`OrderedMap::forget`] that end in `Full` have done a part, whole timestamps: call them again
/// when there is room.
pub trait OrderedMap: Send + Sync {
    /// Which structure this is.
    fn kind(&self) -> Kind;

    /// The value `key` has at `at`: of its versions the newest not above `at`, unless that is a deletion.
    /// Logarithmic; no copy is made. Error: `Forgotten` when `at` is below [`Timestamps::forgotten`].
    fn get(&self, key: &[u8], at: Ts) -> Result<Option<Value<'_>>>;

    /// The keys within bounds that have a value at `at`, in ascending order. Error: `Forgotten`.
    fn scan(&self, range: (Bound<&[u8]>, Bound<&[u8]>), at: Ts) -> Result<Scan<'_>>;

    /// The keys that begin with `prefix` and have a value at `at`, in ascending order. Error: `Forgotten`.
    fn prefix(&self, prefix: &[u8], at: Ts) -> Result<Scan<'_>>;

    /// Gives `key` a value at `ts`. A second change of a key at one timestamp replaces the first.
    fn set(&self, ts: Ts, key: &[u8], value: &[u8]) -> Result<()>;

    /// Deletes `key` at `ts`; whether it had a value. If it had none nothing changes.
    fn delete(&self, ts: Ts, key: &[u8]) -> Result<bool>;

    /// If the newest version of `key`, confirmed or not, applied or not, is `expected` (none: no value), changes it to
    /// `new` (none: deletes it); whether it did. A rollback of the version compared with rolls this one back too, since
    /// it takes back all that is newer.
    fn compare_and_set(&self, ts: Ts, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool>;

    /// [`OrderedMap::set`] at the next timestamp, applied, and what it replaces forgotten: for users without
    /// replication. The timestamp given.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<Ts>;

    /// [`OrderedMap::delete`] as [`OrderedMap::put`] does it.
    fn remove(&self, key: &[u8]) -> Result<bool>;

    /// Makes all changes so far durable; two fences, none when nothing changed.
    fn confirm(&self) -> Result<()>;

    /// Moves `applied_ts` up to `ts`: nothing up to it will be rolled back. Durable with the next confirmation.
    /// Error: `Timestamp` when `ts` is above [`Timestamps::last`]. Below the present one nothing happens.
    fn apply(&self, ts: Ts) -> Result<()>;

    /// Takes back every change at `from` and later, newest first, by their rollback records.
    /// Error: `Timestamp` when `from` is not above [`Timestamps::applied`].
    fn rollback(&self, from: Ts) -> Result<()>;

    /// Drops the versions that no read at `up_to` or later sees, and the rollback records up to there. It is not
    /// confirmed by itself; after a crash old versions may be back. Error: `Timestamp` when `up_to` is above
    /// [`Timestamps::applied`].
    fn forget(&self, up_to: Ts) -> Result<()>;

    /// Calls `each` with the changes from `from` on that are not forgotten, oldest first, as long as it returns true.
    fn mutations(&self, from: Ts, each: &mut dyn FnMut(Mutation<'_>) -> bool) -> Result<()>;

    /// Where the map stands.
    fn timestamps(&self) -> Timestamps;

    /// The whole map as it is now, confirmed first. While it is held, no page is collected; all else goes on.
    fn snapshot(&self) -> Result<Snapshot<'_>>;

    /// Begins to replace the whole content by a snapshot, of either structure. Nothing changes before
    /// [`Loader::finish`]; until then others' changes fail with `ReadOnly`, and reads see what was there before.
    fn load_snapshot(&self) -> Result<Loader<'_>>;

    /// Collects garbage now, as the background thread does: frees pages that nothing reachable uses, and moves what is
    /// left in sparse ones (list: also drops superseded entries). Bytes freed. While a snapshot is held: 0.
    fn collect(&self) -> Result<u64>;

    /// How the region is used.
    fn space(&self) -> Space;

    /// Reads and checks everything reachable: checksums, order, links, and that the space accounts for it.
    /// Returns the number of versions found.
    fn check(&self) -> Result<u64>;
}
