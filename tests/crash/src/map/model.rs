//! The model of a map, and the comparison of a real map with it.
//!
//! A [`State`] is what a map holds after one call. The model forgets nothing: it keeps the versions
//! that a map may have dropped, and the comparison skips them.

use perdura_map::{Entry, ErrorKind, Mutation, OrderedMap, Timestamps, Ts};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// A key or a value.
pub type Bytes = Arc<[u8]>;

/// Result of a scan: keys, timestamps of their versions, values.
pub type Entries = Vec<(Bytes, Ts, Bytes)>;

/// A change of a key: its new value, or `None` if it is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Timestamp.
    pub ts: Ts,
    /// Key.
    pub key: Bytes,
    /// Value.
    pub value: Option<Bytes>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {} at {}", brief(&self.key), self.ts)?;
        match &self.value {
            Some(value) => write!(f, " to {} ({} bytes)", brief(value), value.len()),
            None => f.write_str(" to nothing"),
        }
    }
}

/// The first bytes of a key or a value.
fn brief(bytes: &[u8]) -> String {
    const BYTES_MAX: usize = 24;
    let rest = if bytes.len() > BYTES_MAX { ".." } else { "" };
    format!("\"{}\"{rest}", bytes[..bytes.len().min(BYTES_MAX)].escape_ascii())
}

/// The timestamps of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// Of the newest change.
    pub last: Ts,
    /// Of the newest change that can no longer be rolled back.
    pub applied: Ts,
    /// Superseded versions up to this one may be gone.
    pub forgotten: Ts,
}

impl From<Timestamps> for Stamps {
    fn from(timestamps: Timestamps) -> Stamps {
        let Timestamps { last, applied, forgotten, .. } = timestamps;
        Stamps { last, applied, forgotten }
    }
}

/// How a map and the model differ.
#[derive(Clone, Debug)]
pub enum Difference {
    /// In their timestamps: the map is in another state.
    Stamps(String),
    /// In their content, at equal timestamps.
    Content(String),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Difference::Stamps(what) | Difference::Content(what)) = self;
        f.write_str(what)
    }
}

/// Content of a map.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Its timestamps.
    pub stamps: Stamps,
    /// Timestamp up to which callers have asked to forget. A scan holds it off for a while.
    pub asked: Ts,
    /// Timestamp up to which all is forgotten for certain.
    pub held: Ts,
    /// The tags of timestamps.
    pub(super) tags: BTreeMap<Ts, Bytes>,
    /// The meta blob.
    pub meta: Vec<u8>,
    /// The map was emptied for a load that has not ended.
    pub is_partial: bool,
    /// All changes, oldest first; of several changes of a key at one timestamp only the last.
    pub(super) changes: Vec<Change>,
    /// Timestamps and values of each key, oldest first.
    pub(super) versions: BTreeMap<Bytes, Vec<(Ts, Option<Bytes>)>>,
}

impl State {
    /// Applies a change.
    pub fn change(&mut self, ts: Ts, key: &Bytes, value: Option<Bytes>) {
        self.changes.retain(|change| (change.ts, &change.key) != (ts, key));
        self.changes.push(Change { ts, key: key.clone(), value: value.clone() });
        let versions = self.versions.entry(key.clone()).or_default();
        versions.retain(|(at, _)| *at != ts);
        versions.push((ts, value));
        self.stamps.last = ts;
    }

    /// Applies a change that cannot be rolled back and forgets the versions it supersedes.
    pub fn put(&mut self, ts: Ts, key: &Bytes, value: Option<Bytes>) {
        self.change(ts, key, value);
        self.apply(ts);
        self.forget(ts);
    }

    /// From now on nothing up to `ts` can be rolled back.
    pub fn apply(&mut self, ts: Ts) {
        self.stamps.applied = self.stamps.applied.max(ts);
    }

    /// Versions that no read at `up_to` or later sees may now be gone.
    pub fn forget(&mut self, up_to: Ts) {
        self.stamps.forgotten = self.stamps.forgotten.max(up_to);
        self.asked = self.asked.max(up_to);
    }

    /// Gives a timestamp a tag.
    pub fn tag(&mut self, ts: Ts, tag: Bytes) {
        self.tags.insert(ts, tag);
        self.stamps.last = ts;
    }

    /// The state that is left when the map is emptied for a load.
    pub fn emptied(&self) -> State {
        State { meta: self.meta.clone(), is_partial: true, ..State::default() }
    }

    /// The timestamps at a mark of what is forgotten that holds or views may have let through
    /// later.
    fn stamps_at_mark(&self, forgotten: Ts) -> Stamps {
        match (self.held..=self.asked).contains(&forgotten) {
            true => Stamps { forgotten, ..self.stamps },
            false => self.stamps,
        }
    }

    /// Rolls back the changes at `from` or later.
    pub fn roll_back(&mut self, from: Ts) {
        let kept = self.changes.partition_point(|change| change.ts < from);
        let stamps = Stamps { last: self.stamps.last.min(from - 1), ..self.stamps };
        let State { asked, held, ref meta, .. } = *self;
        let mut before = State { asked, held, meta: meta.clone(), tags: self.tags.clone(), ..State::default() };
        before.tags.retain(|ts, _| *ts < from);
        for change in self.changes.drain(..kept) {
            before.change(change.ts, &change.key, change.value);
        }
        *self = State { stamps, ..before };
    }

    /// Whether another state has other changes than this one.
    pub fn is_changed_to(&self, other: &State) -> bool {
        (self.stamps.last, &self.changes, &self.tags) != (other.stamps.last, &other.changes, &other.tags)
    }

    /// The newest value of a key.
    pub fn newest(&self, key: &[u8]) -> Option<&Bytes> {
        self.versions.get(key)?.last()?.1.as_ref()
    }

    /// Keys with a value at a timestamp: key, timestamp of the version, value.
    pub fn view(&self, at: Ts) -> impl Iterator<Item = (&Bytes, Ts, &Bytes)> {
        self.versions.iter().filter_map(move |(key, versions)| {
            let (ts, value) = versions.iter().rfind(|(ts, _)| *ts <= at)?;
            Some((key, *ts, value.as_ref()?))
        })
    }

    /// The result of a scan at a timestamp.
    pub fn entries(&self, at: Ts) -> Entries {
        self.view(at).map(|(key, ts, value)| (key.clone(), ts, value.clone())).collect()
    }

    /// The changes after what is forgotten, oldest first.
    fn changes_after(&self, mark: Ts) -> &[Change] {
        &self.changes[self.changes.partition_point(|change| change.ts <= mark)..]
    }

    /// Whether no read at `forgotten` or later and no look at the mutations can tell another model
    /// from this one.
    pub fn is_same(&self, other: &State) -> bool {
        let stamps = self.stamps_at_mark(other.stamps.forgotten);
        let Stamps { last, forgotten, .. } = stamps;
        let unforgotten = |state: &State| {
            let mut changes = state.changes_after(forgotten).to_vec();
            changes.sort_by(|one, other| (one.ts, &one.key).cmp(&(other.ts, &other.key)));
            changes
        };
        stamps == other.stamps
            && unforgotten(self) == unforgotten(other)
            && (forgotten..=last).all(|at| self.view(at).eq(other.view(at)))
    }

    /// Compares a map with the model: its timestamps, its mutations, and its content at `views`
    /// timestamps.
    pub fn compare(&self, map: &dyn OrderedMap, views: u64) -> Result<(), Difference> {
        let found = Stamps::from(map.timestamps());
        if found != self.stamps_at_mark(found.forgotten) || map.meta() != self.meta {
            return Err(Difference::Stamps(format!("{found:?} instead of {:?}, or another meta blob", self.stamps)));
        }
        let is_partial = map.get(b"", Ts::MAX).is_err_and(|error| error.kind() == ErrorKind::Partial);
        if is_partial || self.is_partial {
            let what = "a map that was emptied for a load is not distinguished from others";
            return if is_partial == self.is_partial { Ok(()) } else { Err(Difference::Stamps(what.into())) };
        }
        self.compare_content(map, found, views).map_err(Difference::Content)
    }

    /// Compares the tags that are not forgotten, and the newest one that is.
    fn compare_tags(&self, found: &[(Ts, Bytes)], forgotten: Option<(Ts, Vec<u8>)>, mark: Ts) -> Result<(), String> {
        let wanted: Vec<(Ts, Bytes)> = self.tags.range(mark + 1..).map(|(ts, tag)| (*ts, tag.clone())).collect();
        let newest = self.tags.range(..=mark).next_back().map(|(ts, tag)| (*ts, tag.to_vec()));
        if found == wanted && forgotten == newest {
            return Ok(());
        }
        Err(format!("tags {found:?} after {forgotten:?} instead of {wanted:?} after {newest:?}"))
    }

    fn compare_content(&self, map: &dyn OrderedMap, stamps: Stamps, views: u64) -> Result<(), String> {
        let Stamps { last, forgotten, .. } = stamps;
        self.compare_mutations(map, forgotten)?;
        self.compare_view(map, last)?;
        // The others are spread evenly from the oldest on.
        let step = (last - forgotten).div_ceil(views.max(2) - 1).max(1);
        (forgotten..last).step_by(step as usize).try_for_each(|at| self.compare_view(map, at))
    }

    /// Compares changes of one timestamp in the order of their keys, since a snapshot does not keep
    /// their order.
    fn compare_mutations(&self, map: &dyn OrderedMap, mark: Ts) -> Result<(), String> {
        let (mut found, mut tags): (Vec<Change>, Vec<(Ts, Bytes)>) = (Vec::new(), Vec::new());
        let read = map.mutations(0, &mut |mutation: Mutation<'_>| {
            let Mutation { ts, key, value, tag } = mutation;
            match tag {
                // Of several tags of a timestamp the last counts.
                Some(tag) => {
                    tags.retain(|(at, _)| *at != ts);
                    tags.push((ts, tag.into()));
                }
                None => found.push(Change { ts, key: key.into(), value: value.map(Bytes::from) }),
            }
            true
        });
        read.map_err(|error| format!("mutations: {error}"))?;
        self.compare_tags(&tags, map.forgotten_tag(), mark)?;
        if !found.is_sorted_by_key(|change| change.ts) {
            return Err("mutations are not in the order of their timestamps".into());
        }
        let mut wanted = self.changes_after(mark).to_vec();
        for changes in [&mut found, &mut wanted] {
            changes.sort_by(|one, other| (one.ts, &one.key).cmp(&(other.ts, &other.key)));
        }
        match found.iter().zip(&wanted).find(|(found, wanted)| found != wanted) {
            Some((found, wanted)) => Err(format!("mutation {found} instead of {wanted}")),
            None if found.len() != wanted.len() => Err(format!("{} mutations of {}", found.len(), wanted.len())),
            None => Ok(()),
        }
    }

    /// Compares the content of a map at one timestamp, by a scan and by reads of single keys.
    pub fn compare_view(&self, map: &dyn OrderedMap, at: Ts) -> Result<(), String> {
        let failed = |error| format!("at {at}: {error}");
        let mut scan = map.scan((Bound::Unbounded, Bound::Unbounded), at).map_err(failed)?;
        for (key, ts, value) in self.view(at) {
            match scan.advance().map_err(failed)? {
                Some(entry) if (entry.key, entry.value, entry.ts) == (&**key, &**value, ts) => {}
                Some(Entry { key: other, ts: at, value: seen }) => {
                    let found = Change { ts: at, key: other.into(), value: Some(seen.into()) };
                    let wanted = Change { ts, key: key.clone(), value: Some(value.clone()) };
                    return Err(format!("at {at}: a scan has {found} instead of {wanted}"));
                }
                None => return Err(format!("at {at}: a scan ends before {}", brief(key))),
            }
        }
        if let Some(entry) = scan.advance().map_err(failed)? {
            return Err(format!("at {at}: a scan also has {} of {}", brief(entry.key), entry.ts));
        }
        let keys = self.versions.keys().step_by(3);
        keys.into_iter().try_for_each(|key| self.compare_key(map, key, at))
    }

    fn compare_key(&self, map: &dyn OrderedMap, key: &Bytes, at: Ts) -> Result<(), String> {
        let found = map.get(key, at).map_err(|error| format!("get {} at {at}: {error}", brief(key)))?;
        let version = self.versions[key].iter().rfind(|(ts, _)| *ts <= at);
        let wanted = version.and_then(|(_, value)| value.as_deref());
        let is_same = found.as_deref() == wanted;
        if is_same { Ok(()) } else { Err(format!("get {} at {at} differs from the scan", brief(key))) }
    }
}
