//! The trait that all variants have.

use std::ops::{Bound, Range};

use bytes::Bytes;
use raft::eraftpb::{ConfState, Entry, SnapshotMetadata};

use super::error::{Result, Shortages};
use super::format::SnapshotFormat;
use super::persistent_state::PersistentState;
use crate::entry::KeyChange;
use crate::machine::draft::{Each, Part};

/// Which versions are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLevel {
    /// Those of the newest entry, committed or not.
    Newest,
    /// Those of the newest entry that is applied.
    Applied,
}

/// How much of the room that is left an entry may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Room that nothing else needs.
    Usual,
    /// That, and a part of what is kept for deletions: for what the system writes.
    System,
    /// All but what is kept for Raft's own entries: for deletions.
    Deletions,
}

/// Use of the medium by a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes that were written to it since the store was opened. Of a map: lines that were flushed
    /// and bytes that were copied past the cache, of all maps of the process.
    pub written_bytes: u64,
    /// Bytes that are in use: of a map its pages, of a log its files.
    pub used_bytes: u64,
}

/// How much room a store has, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// All that it has.
    pub total: u64,
    /// Free bytes, garbage that can be cleared away included.
    pub free: u64,
    /// Bytes of the free ones that are kept for others than those who put keys.
    pub kept: u64,
    /// Whether keys were refused last, and little has become free since.
    pub refuses: bool,
}

impl Room {
    /// Whether little or nothing is put any more: a 64th is left, or a MiB where that is less.
    pub fn is_full(&self) -> bool {
        self.refuses || self.total > 0 && self.free.saturating_sub(self.kept) < self.little()
    }

    /// Bytes that are little for it.
    pub(crate) fn little(&self) -> u64 {
        (self.total / 64).min(1 << 20)
    }
}

/// A snapshot that is given away. It stays what it was, whatever the store does meanwhile.
pub trait Outgoing: Send {
    /// Index, term and members of the snapshot.
    fn metadata(&self) -> &SnapshotMetadata;

    /// A chunk by its number, and whether it is the last. The numbers are asked for in order; the
    /// latest few may be asked for again, and the first always. Error: `Expired`.
    fn chunk(&mut self, number: u32) -> Result<(Bytes, bool)>;
}

/// The log and the state of a replica.
pub trait Store: Send {
    /// Its use of the medium.
    fn footprint(&self) -> Footprint;

    /// Identity of the replica, its term and vote, and the members.
    fn persistent_state(&self) -> &PersistentState;

    /// Notes term and vote. Comes before entries of the term.
    fn set_vote(&mut self, term: u64, vote: u64) -> Result<()>;

    /// Notes the members that the entry at `index` has made. Comes before that entry is committed
    /// here.
    fn set_members(&mut self, index: u64, members: &ConfState) -> Result<()>;

    /// Whether an entry with these changes can be appended and leaves room for those that may take
    /// more. Clears garbage away if that helps, or begins to.
    fn has_room(&mut self, changes: &[KeyChange<'_>], share: Share) -> Result<bool>;

    /// How much room there is.
    fn room(&self) -> Room;

    /// Whether the last entry that was asked for had no room because garbage is still being cleared
    /// away. It may have some when [`Store::collects`] does not say so any more. Never so of a
    /// store that clears nothing away beside its calls.
    fn makes_room(&self) -> bool {
        false
    }

    /// Whether garbage is being cleared away for what had no room.
    fn collects(&self) -> bool {
        false
    }

    /// Writes for which the medium had no room since the store was opened.
    fn shortages(&self) -> &Shortages;

    /// Appends entries, whose indexes follow one another, and first takes back those that are in
    /// their place, with all after. Errors: `Full`, after which some may have been appended and the
    /// call can be made again; `Order` if they do not follow what is there, or are in the place of
    /// applied ones.
    fn append(&mut self, entries: &[Entry]) -> Result<()>;

    /// Makes all so far durable. Error: `Full`, after which nothing is durable that was not, and
    /// the call can be made again.
    fn persist(&mut self) -> Result<()>;

    /// Lets a thread of the store's own make durable what takes long, from now on, and call `wake`
    /// after it. A store that is fast has none.
    fn write_beside(&mut self, _wake: Box<dyn Fn() + Send>) -> Result<()> {
        Ok(())
    }

    /// Begins to make all so far durable. Returns whether it is; if not, [`Store::end_persist`]
    /// says when, and what comes meanwhile is left to the next call. Error: as
    /// [`Store::persist`]'s.
    fn begin_persist(&mut self) -> Result<bool> {
        self.persist().map(|()| true)
    }

    /// Whether what [`Store::begin_persist`] has begun is durable. Error: as [`Store::persist`]'s.
    fn end_persist(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// Applies the entries up to `index`. Does nothing if they are.
    fn commit(&mut self, index: u64) -> Result<()>;

    /// Gives up applied entries up to `index`. The latest of them stay readable as long as they fit
    /// into DRAM's share.
    fn compact(&mut self, index: u64) -> Result<()>;

    /// Index of the first entry that can be read. The term of the one before it is known.
    fn first(&self) -> u64;

    /// Index of the last entry.
    fn last(&self) -> u64;

    /// Index of the last applied entry.
    fn applied(&self) -> u64;

    /// The term of an entry. Errors: `Compacted`, `Beyond`.
    fn term(&self, index: u64) -> Result<u64>;

    /// The clock of the newest entry up to a level.
    fn clock_ms(&self, level: ReadLevel) -> u64;

    /// The entries from `from` to before `to`: as many as have `bytes_max` bytes together, and at
    /// least one. Errors: `Compacted`, `Beyond`.
    fn entries(&self, from: u64, to: u64, bytes_max: u64) -> Result<Vec<Entry>>;

    /// The value at a place.
    fn get(&self, level: ReadLevel, place: &[u8]) -> Result<Option<Bytes>>;

    /// The bytes of a range of the value at a place, as far as it has them, and the length of all
    /// of it. No others are copied.
    fn part(&self, level: ReadLevel, place: &[u8], range: Range<usize>) -> Result<Option<Part>>;

    /// Calls `each` with the places that begin with `prefix`, from `from` on, in order, until it
    /// returns false.
    fn scan(&self, level: ReadLevel, prefix: &[u8], from: Bound<&[u8]>, each: Each<'_>) -> Result<()>;

    /// Format of its snapshots, and of those that it takes.
    fn snapshot_format(&self) -> SnapshotFormat;

    /// Bytes of the content as a snapshot offers them, 0 if it fits everywhere.
    fn content_bytes(&self) -> u64;

    /// Whether a snapshot of this length finds room once the store is emptied.
    fn takes(&self, content_bytes: u64) -> bool;

    /// A snapshot of what is applied, in chunks of about `chunk_bytes`. Error: `Unready` if members
    /// are noted of an entry that is not applied here yet.
    fn snapshot(&self, chunk_bytes: usize) -> Result<Box<dyn Outgoing>>;

    /// Waits for the chunks of a snapshot, which take the place of log and state. No snapshot of
    /// this store may be held. Log and state stay until [`Store::finish`], and an append or a
    /// commit ends the wait; that needs room for both. With `empties` both are given up now,
    /// durably; the persistent state stays. Until [`Store::finish`] returns, also after a failure,
    /// [`Store::is_partial`] then, and nothing can be read or appended. Waits for garbage that is
    /// being cleared away. Errors: `Full` and `Unready`, after which nothing has changed.
    fn receive(&mut self, empties: bool) -> Result<()>;

    /// [`Store::receive`], unless garbage is being cleared away, for which it would wait. Returns
    /// whether it waits for chunks. If not, that soon ends, and the call can be made again; nothing
    /// has changed.
    fn try_receive(&mut self, empties: bool) -> Result<bool> {
        self.receive(empties).map(|()| true)
    }

    /// Whether [`Store::receive`] with `empties` makes room for what is received.
    fn gains_by_emptying(&self) -> bool;

    /// Takes the next chunk. Errors, after which [`Store::receive`] begins again: `Refused` if it
    /// is not whole or not the next, or nothing is waited for; `Full`.
    fn push(&mut self, number: u32, chunk: &[u8]) -> Result<()>;

    /// Installs a part of what was received, and notes its members with the last. Returns whether
    /// all is installed, durably. Until it is, log and state are as they were, and go on; what ends
    /// the wait for chunks ends this. Errors: `Refused` if it is not whole or not of this index and
    /// term, or was ended; `Full`, after which log and state are as they were.
    fn finish_some(&mut self, metadata: &SnapshotMetadata) -> Result<bool>;

    /// Whether what [`Store::finish_some`] has begun goes on by itself, and it need not be called
    /// again before that has ended. Meanwhile an append is `Full`, and a commit waits.
    fn finishes(&self) -> bool {
        false
    }

    /// [`Store::finish_some`] until all is installed.
    fn finish(&mut self, metadata: &SnapshotMetadata) -> Result<()> {
        while !self.finish_some(metadata)? {}
        Ok(())
    }

    /// Whether the store was emptied for a snapshot that has not come wholly.
    fn is_partial(&self) -> bool;

    /// Does a part of what can wait: collects garbage, writes out state. Returns whether there may
    /// be more to do.
    fn upkeep(&mut self) -> Result<bool>;
}
