//! The interface of both structures: an ordered map of byte strings with versions, keyed by (user
//! key, timestamp).
//!
//! The caller chooses the timestamps. They never fall, except by [`OrderedMap::rollback`]; several
//! changes may share one. A read names the timestamp it wants to see, and versions are kept until
//! forgotten. Changes up to [`Timestamps::applied`] cannot be rolled back; changes above it cannot
//! be forgotten. A change is visible once its call returns, and durable once persisted: after
//! `changes_max` changes, after `interval`, or by [`OrderedMap::persist`]. A crash leaves all
//! changes up to some persist and none after it. Changes that belong together at one timestamp
//! are made by [`OrderedMap::batch`]; made one by one, a persist may come between them.
//!
//! Thread-safety: changes wait for each other at a lock. Reads neither wait nor make others wait; a
//! read that meets a change of the same node of a list's index looks again.

use crate::changes::{Compared, KeyChange, Mutation};
use crate::config::Kind;
use crate::error::Result;
use crate::scan::{Scan, Value, View};
use crate::space::{Demand, Space};
use crate::timestamps::{Timestamps, Ts};
use crate::transfer::load::Loader;
use crate::transfer::snapshot::Snapshot;
use std::ops::Bound;

/// An ordered map with versions in persistent memory.
///
/// Any call that reads the map may return [`crate::ErrorKind::Damaged`]. Changes may also return
/// `Full` (nothing is changed), `ReadOnly`, `Partial`, `TooLarge`, and `Timestamp` when `ts` is
/// below [`Timestamps::last`], not above [`Timestamps::applied`], or [`Ts::MAX`].
pub trait OrderedMap: Send + Sync {
    /// Which of the two structures this is.
    fn kind(&self) -> Kind;

    /// The value of `key` at `at`: that of its newest version not above `at`, or none if that
    /// version is a deletion. Takes logarithmic time and copies nothing. Error: `Forgotten` when
    /// `at` is below [`Timestamps::forgotten`].
    fn get(&self, key: &[u8], at: Ts) -> Result<Option<Value<'_>>>;

    /// The keys within the bounds that have a value at `at`, in ascending order. Error:
    /// `Forgotten`.
    fn scan(&self, range: (Bound<&[u8]>, Bound<&[u8]>), at: Ts) -> Result<Scan<'_>>;

    /// The keys that begin with `prefix` and have a value at `at`, in ascending order. Error:
    /// `Forgotten`.
    fn prefix(&self, prefix: &[u8], at: Ts) -> Result<Scan<'_>>;

    /// Gives `key` a value at `ts`. A second change of a key at one timestamp replaces the first.
    fn set(&self, ts: Ts, key: &[u8], value: &[u8]) -> Result<()>;

    /// Deletes `key` at `ts`. Returns whether it had a value; if not, nothing changes.
    fn delete(&self, ts: Ts, key: &[u8]) -> Result<bool>;

    /// Changes `key` to `new` (none: deletes it) if its newest version is `expected` (none: no
    /// value), whether that version is persisted and applied or not. Tells whether it was, and what
    /// that rests on. A rollback of the compared version also rolls back this one, since it takes
    /// back all that is newer.
    fn compare_and_set(&self, ts: Ts, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<Compared>;

    /// Makes several changes at `ts`, and gives it a tag: all of that or, also after a crash,
    /// nothing. No persist comes in between. A tag is durable and rolled back with its
    /// timestamp; [`OrderedMap::mutations`] lists it, and when it is forgotten,
    /// [`OrderedMap::forgotten_tag`] has it until the next one is. For a replicated log: the term
    /// and kind of an entry. Error: `TooLarge` for a tag beyond [`crate::TAG_BYTES_MAX`].
    fn batch(&self, ts: Ts, tag: &[u8], changes: &[KeyChange<'_>]) -> Result<()>;

    /// Raises [`Timestamps::last`] to `ts` and gives it a tag: a batch without changes.
    fn advance(&self, ts: Ts, tag: &[u8]) -> Result<()> {
        self.batch(ts, tag, &[])
    }

    /// The newest tag at or below [`Timestamps::forgotten`], with its timestamp, if there was one.
    fn forgotten_tag(&self) -> Option<(Ts, Vec<u8>)>;

    /// Replaces a small blob of the caller's, beside all keys: for a replicated log the present
    /// term and vote. Durable with the next persist; rollbacks and loads leave it. Error:
    /// `TooLarge` beyond [`crate::META_BYTES_MAX`].
    fn set_meta(&self, meta: &[u8]) -> Result<()>;

    /// The blob. Empty in a new map.
    fn meta(&self) -> Vec<u8>;

    /// A view of timestamp `at`: gets and scans that all see the same, because it holds
    /// [`Timestamps::forgotten`] at or below `at` as long as it lasts. Error: `Forgotten`.
    fn view(&self, at: Ts) -> Result<View<'_>>;

    /// [`OrderedMap::set`] at the next timestamp, applied at once; what it replaces is forgotten.
    /// For users without replication. Returns the timestamp.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<Ts>;

    /// [`OrderedMap::delete`] at the next timestamp, applied and forgotten as by
    /// [`OrderedMap::put`].
    fn remove(&self, key: &[u8]) -> Result<bool>;

    /// Makes all changes so far durable, by two fences; by none if nothing has changed.
    fn persist(&self) -> Result<()>;

    /// Raises [`Timestamps::applied`] to `ts`: changes up to there cannot be rolled back. Durable
    /// with the next persist. Does nothing if `ts` is not above it. Error: `Timestamp` when
    /// `ts` is above [`Timestamps::last`].
    fn apply(&self, ts: Ts) -> Result<()>;

    /// Takes back every change at `from` and later, newest first, by their rollback records. Room
    /// is kept for it, so it does not meet `Full`, unless nodes of the B+-tree are longer than a
    /// page. Error: `Timestamp` when `from` is not above [`Timestamps::applied`].
    fn rollback(&self, from: Ts) -> Result<()>;

    /// Drops the versions that no read at `up_to` or later sees, and the rollback records up to
    /// there. Needs no room. Durable with the next persist, so a crash may bring old versions
    /// back. Where a view or a scan reads at a lower timestamp, it forgets up to there, and the
    /// rest when that ends, by the background thread if there is one. Error: `Timestamp` when
    /// `up_to` is above [`Timestamps::applied`].
    fn forget(&self, up_to: Ts) -> Result<()>;

    /// Calls `each` with every change from `from` on that is not forgotten, oldest first, until it
    /// returns false.
    fn mutations(&self, from: Ts, each: &mut dyn FnMut(Mutation<'_>) -> bool) -> Result<()>;

    /// The present timestamps.
    fn timestamps(&self) -> Timestamps;

    /// Persists, and takes a snapshot of the whole map. While it is held no page is collected;
    /// everything else goes on.
    fn snapshot(&self) -> Result<Snapshot> {
        self.snapshot_within(u64::MAX)
    }

    /// [`OrderedMap::snapshot`], which ends when the map has `garbage_max` bytes of garbage more
    /// than at its start. Its streams then fail with `Expired`.
    fn snapshot_within(&self, garbage_max: u64) -> Result<Snapshot>;

    /// Begins to replace the whole content by a snapshot of either structure. The map keeps its
    /// content until [`Loader::finish`]: reads see it, and changes fail with `ReadOnly`. A scan
    /// goes on in the content that it began in; a view ends. Others wait for the end of a load only
    /// while the contents change places: a time linear in the pages used.
    fn load_snapshot(&self) -> Result<Loader>;

    /// [`OrderedMap::load_snapshot`] that empties the map first, and so needs no room for both
    /// contents. From then on until a load finishes, also after a crash, reads and changes fail
    /// with `Partial`.
    fn reset_and_load(&self) -> Result<Loader>;

    /// [`OrderedMap::load_snapshot`], or with `resets` [`OrderedMap::reset_and_load`], that does
    /// not wait for a collection round: none while one runs. That ends early then, and the next
    /// ones are left out, so that a load can begin soon after.
    fn try_load(&self, resets: bool) -> Result<Option<Loader>>;

    /// Runs one collection round, as the background thread does: frees pages that nothing reachable
    /// uses, and moves live objects out of sparse ones; a list also drops superseded records. If a
    /// change has found no room since the last round, it makes room in one piece for it where it
    /// can. Returns the bytes freed: 0 while a snapshot is held.
    fn collect(&self) -> Result<u64>;

    /// Has the background thread run a round as [`OrderedMap::collect`] does, which also makes the
    /// room demanded where it can, and does not wait for it. Returns false if there is no such
    /// thread.
    fn ask_collection(&self, demand: Demand) -> bool;

    /// Whether a round that was asked for has not ended.
    fn is_asked(&self) -> bool;

    /// The use of the region. Linear in the number of used pages.
    fn space(&self) -> Space;

    /// [`OrderedMap::space`] in constant time, but for [`Space::free_run_max`], which is 0.
    fn usage(&self) -> Space;

    /// Whether this number of bytes is free in one piece. As fast as an allocation of them.
    fn has_run(&self, bytes: u64) -> bool;

    /// Audits everything reachable: checksums, order, links, and the accounts of space. Returns the
    /// number of versions.
    fn check(&self) -> Result<u64>;
}
