//! State that a store reads from its map when it is made, opened, or has received a snapshot.

use bytes::Bytes;
use perdura_map::{OrderedMap, Timestamps, Ts};
use raft::eraftpb::SnapshotMetadata;

use super::super::FOUNDING;
use super::super::entries;
use super::super::error::{Error, ErrorKind, Result};
use super::super::ring::{Base, Ring};
use super::PersistentState;
use crate::codec::Malformed;
use crate::entry::{Change, Kind, Tag};

/// Makes an empty map that of a new replica.
pub(super) fn found(map: &dyn OrderedMap, persistent_state: &PersistentState, clock_ms: u64) -> Result<()> {
    if persistent_state.is_founder() {
        let tag = Tag { kind: Kind::Empty, term: FOUNDING, clock_ms, context: Bytes::new() };
        map.advance(FOUNDING, &tag.to_bytes())?;
        map.apply(FOUNDING)?;
        map.forget(FOUNDING)?;
    }
    // Last: a map without it is not a store.
    map.set_meta(&persistent_state.to_bytes())?;
    Ok(map.persist()?)
}

/// State of a replica found in a map.
pub(super) struct Found {
    pub(super) persistent_state: PersistentState,
    pub(super) ring: Ring,
    pub(super) applied: u64,
    pub(super) is_partial: bool,
}

/// Reads what a map has of a replica.
pub(super) fn open(map: &dyn OrderedMap, name: &str, ring_bytes: u64) -> Result<Found> {
    let meta = map.meta();
    if meta.is_empty() {
        let what = format!("{name} is a map, but not a replica's: making it was cut off; remove it and make it again");
        return Err(Error::new(ErrorKind::NotFound, what).in_file(name));
    }
    let persistent_state = PersistentState::from_bytes(meta.into())
        .map_err(|malformed| unreadable("the persistent state".into(), malformed))?;
    let is_partial = match map.get(&[], Ts::MAX) {
        Ok(_) => false,
        Err(error) if error.kind() == perdura_map::ErrorKind::Partial => true,
        Err(error) => return Err(error.into()),
    };
    let (ring, applied) = if is_partial {
        (Ring::new(Base::default(), ring_bytes), 0)
    } else {
        (read_ring(map, ring_bytes)?, map.timestamps().applied)
    };
    Ok(Found { persistent_state, ring, applied, is_partial })
}

/// Takes back what a received map has beyond what was applied, and compares it with what it is to
/// be.
pub(super) fn received(map: &dyn OrderedMap, metadata: &SnapshotMetadata, ring_bytes: u64) -> Result<Ring> {
    let Timestamps { applied, last, .. } = map.timestamps();
    if applied != metadata.index {
        return Err(Error::refused(format!("it is of index {applied}, not of {}", metadata.index)));
    }
    if last > applied {
        map.rollback(applied + 1)?;
        map.persist()?;
    }
    let ring = read_ring(map, ring_bytes).map_err(Error::refused)?;
    match ring.term(applied) {
        Ok(term) if term == metadata.term => Ok(ring),
        _ => Err(Error::refused(format!("its last entry is not of term {}", metadata.term))),
    }
}

fn damaged(what: String) -> Error {
    let remedy = "remove this replica from the cluster, and let it join again as a new one";
    Error::new(ErrorKind::Damaged, format!("{what}; {remedy}"))
}

fn unreadable(what: String, malformed: Malformed) -> Error {
    if malformed.is_of_other_version() {
        Error::of_other_version(what)
    } else {
        damaged(format!("{what}: {malformed}"))
    }
}

/// A chunk or a whole that the map did not take.
pub(super) fn refused(error: perdura_map::Error) -> Error {
    match error.kind() {
        perdura_map::ErrorKind::Damaged => Error::refused(&error).caused_by(error),
        _ => error.into(),
    }
}

fn tag_of(ts: Ts, bytes: Bytes) -> Result<Tag> {
    Tag::from_bytes(bytes).map_err(|malformed| unreadable(format!("the tag of the entry at {ts}"), malformed))
}

/// The entries that the map has not forgotten.
fn read_ring(map: &dyn OrderedMap, bytes_max: u64) -> Result<Ring> {
    let Timestamps { last, forgotten, .. } = map.timestamps();
    let base = match map.forgotten_tag() {
        None if forgotten == 0 => Base::default(),
        Some((ts, tag)) if ts == forgotten => {
            let Tag { term, clock_ms, .. } = tag_of(ts, tag.into())?;
            Base { index: forgotten, term, clock_ms }
        }
        _ => return Err(damaged(format!("the last forgotten entry, at {forgotten}, has no tag"))),
    };
    let mut found: Vec<(Ts, Bytes, Vec<Change>)> = Vec::new();
    let mut stray = None;
    map.mutations(forgotten + 1, &mut |mutation| {
        match (mutation.tag, found.last_mut()) {
            (Some(tag), _) => found.push((mutation.ts, Bytes::copy_from_slice(tag), Vec::new())),
            (None, Some((ts, _, changes))) if *ts == mutation.ts => {
                let value = mutation.value.map(Bytes::copy_from_slice);
                changes.push(Change { key: Bytes::copy_from_slice(mutation.key), value });
            }
            _ => stray = Some(mutation.ts),
        }
        stray.is_none()
    })?;
    let mut ring = Ring::new(base, bytes_max);
    for (ts, tag, mut changes) in found {
        if ts != ring.last() + 1 {
            stray.get_or_insert(ts);
            break;
        }
        // As drafts make them, whatever the order is in which the map finds them.
        changes.sort_by(|one, other| one.key.cmp(&other.key));
        let entry = entries::entry(ts, &tag_of(ts, tag)?, changes)?;
        let clock_ms = entries::read(&entry)?.clock_ms;
        ring.push(entry, clock_ms);
    }
    if stray.is_some() || ring.last() != last {
        return Err(damaged(format!("the log: entries up to {last} are said, {} found", ring.last())));
    }
    Ok(ring)
}
