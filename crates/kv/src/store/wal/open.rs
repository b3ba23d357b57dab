//! Making the files of a new store, and reading those of an old one: the newest state, then the
//! logs from its number on.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};

use super::super::FOUNDING;
use super::super::entries;
use super::super::error::{Error, ErrorKind, Result};
use super::super::ring::{Base, Ring};
use super::PersistentState;
use super::checkpoint::{Checkpoint, UNFINISHED, remove_before, state_name};
use super::config::WalConfig;
use super::disk::Disk;
use super::frame::Frames;
use super::item::Item;
use super::tail::{Tail, log_name};

/// Writes the files of a new replica.
pub(super) fn found(
    disk: &dyn Disk,
    persistent_state: &PersistentState,
    clock_ms: u64,
    config: &WalConfig,
) -> Result<()> {
    let (states, logs) = numbers(disk)?;
    if !states.is_empty() {
        return Err(Error::new(ErrorKind::Exists, "there is a replica in this directory already; choose another"));
    }
    for of in logs {
        disk.remove(&log_name(of)).map_err(|error| Error::io(&log_name(of), "removing it", error))?;
    }
    let founding = Base { index: FOUNDING, term: FOUNDING, clock_ms };
    let base = if persistent_state.is_founder() { founding } else { Base::default() };
    let first = [Item::PersistentState(Box::new(persistent_state.clone())), Item::Base(base)];
    Tail::begin(disk, 1, &first, config.extent_bytes)?;
    let mut checkpoint = Checkpoint::begin(disk, 1, base)?;
    checkpoint.step(&BTreeMap::new(), config.step_bytes)?;
    checkpoint.end(disk, base.index)
}

/// The numbers of the states and of the logs.
fn numbers(disk: &dyn Disk) -> Result<(BTreeSet<u64>, BTreeSet<u64>)> {
    let names = disk.list().map_err(|error| Error::io("the directory", "reading it", error))?;
    let of = |kind: &str| names.iter().filter_map(|name| name.strip_prefix(kind)?.parse().ok()).collect();
    Ok((of("state."), of("log.")))
}

/// State of a replica found in its files.
pub(super) struct Found {
    pub(super) tail: Tail,
    pub(super) persistent_state: PersistentState,
    pub(super) base: Base,
    pub(super) ring: Ring,
    /// The state at the base, or for some keys later.
    pub(super) pairs: Pairs,
    pub(super) applied: u64,
    pub(super) is_partial: bool,
}

/// Reads the files of a replica.
pub(super) fn open(disk: &dyn Disk, ring_bytes: u64) -> Result<Found> {
    let (states, logs) = numbers(disk)?;
    let Some(&newest) = states.last() else {
        return Err(Error::new(ErrorKind::NotFound, "there is no replica in this directory; make one first"));
    };
    // Remains of older files, and of a state that was not finished, after a failure.
    remove_before(disk, newest)?;
    match disk.remove(UNFINISHED) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io(UNFINISHED, "removing it", error));
        }
        _ => {}
    }
    let (base, pairs, end) = read_state(disk, newest)?;
    let mut replay = Replay::new(base, pairs, ring_bytes);
    let mut tail = None;
    let logs: Vec<u64> = logs.range(newest..).copied().collect();
    for (place, of) in logs.iter().enumerate() {
        if *of != newest + place as u64 {
            return Err(Error::damaged(&log_name(newest + place as u64), 0, "it is missing"));
        }
        tail = replay.log(disk, *of, place + 1 == logs.len())?.or(tail);
    }
    let Some(tail) = tail else { return Err(Error::damaged(&log_name(newest), 0, "it is missing, or not whole")) };
    replay.finish(tail, end)
}

pub(super) type Pairs = BTreeMap<Bytes, Bytes>;

/// Reads a state: its base, its pairs, and the index of its end. All of it was synced before it had
/// its name.
fn read_state(disk: &dyn Disk, of: u64) -> Result<(Base, Pairs, u64)> {
    let name = state_name(of);
    let file = disk.open(&name).map_err(|error| Error::io(&name, "opening", error))?;
    let mut frames = Frames::new(&*file, &name, of)?;
    let (mut base, mut pairs, mut end) = (None, Pairs::new(), None);
    loop {
        let at = frames.at;
        let Some(body) = frames.next()? else { break };
        for item in Item::all(body) {
            match item.map_err(|malformed| Error::unreadable(&name, at, malformed))? {
                Item::Base(found) => base = Some(found),
                Item::Pair(key, value) => _ = pairs.insert(key, value),
                Item::End(index) => end = Some(index),
                _ => return Err(Error::damaged(&name, at, "an item that is none of a state")),
            }
        }
    }
    match (base, end) {
        (Some(base), Some(end)) => Ok((base, pairs, end)),
        _ => Err(Error::damaged(&name, frames.at, "it ends too early")),
    }
}

/// State read from the files so far.
struct Replay {
    persistent_state: Option<PersistentState>,
    base: Base,
    ring: Ring,
    pairs: Pairs,
    /// The last commit that was noted.
    commit: u64,
    is_partial: bool,
}

impl Replay {
    fn new(base: Base, pairs: Pairs, ring_bytes: u64) -> Self {
        let ring = Ring::new(base, ring_bytes);
        Self { persistent_state: None, base, ring, pairs, commit: base.index, is_partial: false }
    }

    /// Reads a log. Cuts it off where the last frame is torn, if it is the last log. Returns none
    /// if it has no whole frame, which a failure leaves of a log that was being made.
    fn log(&mut self, disk: &dyn Disk, of: u64, is_last: bool) -> Result<Option<Tail>> {
        let name = log_name(of);
        let file = disk.open(&name).map_err(|error| Error::io(&name, "opening", error))?;
        let mut frames = Frames::new(&*file, &name, of)?;
        loop {
            let at = frames.at;
            let Some(body) = frames.next()? else { break };
            for item in Item::all(body) {
                let item = item.map_err(|malformed| Error::unreadable(&name, at, malformed))?;
                self.item(item).map_err(|error| match error.kind() {
                    ErrorKind::Version => error,
                    _ => Error::damaged(&name, at, error),
                })?;
            }
        }
        let (at, number, seal) = (frames.at, frames.number, frames.seal);
        if number == 0 {
            let removed = disk.remove(&name).and_then(|()| disk.sync());
            removed.map_err(|error| Error::io(&name, "removing it", error))?;
            return if is_last { Ok(None) } else { Err(Error::damaged(&name, 0, "it has no whole frame")) };
        }
        if is_last {
            let cut = file.cut(at).and_then(|()| file.sync());
            cut.map_err(|error| Error::io(&name, "cutting it off", error))?;
        }
        Ok(Some(Tail {
            file: file.into(),
            name,
            seal,
            at,
            number,
            written: at,
            items: BytesMut::new(),
            under_way: None,
        }))
    }

    fn item(&mut self, item: Item) -> Result<()> {
        match item {
            Item::PersistentState(persistent_state) => self.persistent_state = Some(*persistent_state),
            Item::Commit(index) => self.commit = self.commit.max(index),
            Item::Reset => self.is_partial = true,
            // That of a log is the state's, or in the midst of what was read.
            Item::Base(_) => {}
            // A log begins with what was not applied then, which the one before has too.
            Item::Entry(entry) if entry.index > self.base.index && entry.index <= self.ring.last() + 1 => {
                self.ring.truncate(entry.index);
                let clock_ms = entries::read(&entry)?.clock_ms;
                self.ring.push(entry, clock_ms);
            }
            _ => return Err(Error::order("an item that does not follow the one before".into())),
        }
        Ok(())
    }

    fn finish(self, tail: Tail, end: u64) -> Result<Found> {
        let Replay { persistent_state, base, ring, pairs, commit, is_partial } = self;
        let damaged = |what: &str| Error::damaged(&tail.name, tail.at, what);
        let persistent_state = persistent_state.ok_or_else(|| damaged("no log says who this replica is"))?;
        let applied = commit.max(end);
        if !is_partial && applied > ring.last() {
            return Err(damaged("entries that are applied are missing"));
        }
        Ok(Found { tail, persistent_state, base, ring, pairs, applied, is_partial })
    }
}

#[cfg(test)]
mod tests {
    use super::{Base, Checkpoint, ErrorKind, Item, PersistentState, Tail, WalConfig, found, open};
    use crate::store::wal::{Disk, SimDisk};
    use bytes::BufMut;
    use std::collections::BTreeMap;

    /// Hazard: an older program calls the log of a newer one damaged, and has the operator remove
    /// the replica.
    #[test]
    fn a_log_of_a_newer_program_is_not_called_damaged() {
        // Behind kind and length is the version of a persistent state. The kind itself has none.
        for (at, wanted) in [(5, ErrorKind::Version), (0, ErrorKind::Damaged)] {
            let disk = SimDisk::default();
            let (persistent_state, config) = (PersistentState::founder(7, 1, vec![1]), WalConfig::default());
            found(&disk, &persistent_state, 1000, &config).expect("a disk");
            let base = Base { index: 1, term: 1, clock_ms: 1000 };
            let mut tail = Tail::begin(&disk, 2, &[Item::Base(base)], 1000).expect("a disk");
            let mut item = bytes::BytesMut::new();
            Item::PersistentState(Box::new(persistent_state)).put(&mut item);
            item[at] = 200;
            tail.items.put_slice(&item);
            tail.persist(1000).expect("a disk");
            let mut checkpoint = Checkpoint::begin(&disk, 2, base).expect("a disk");
            assert!(checkpoint.step(&BTreeMap::new(), 1000).expect("a disk"));
            checkpoint.end(&disk, 1).expect("a disk");
            let names = disk.list().expect("a disk");
            let error = open(&disk, 1000).err().expect("it cannot be opened");
            assert_eq!(error.kind(), wanted, "{error}");
            assert_eq!(disk.list().expect("a disk"), names, "something was removed");
        }
    }
}
