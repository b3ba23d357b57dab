//! Draft of an entry while a command runs: the versions below, the command's own changes over them,
//! one moment of time.
//!
//! A command that changes keys is evaluated on the newest versions, a command that only reads on
//! the applied ones; both as a draft. Commands of one transaction share one.

use perdura_pmem::Mutant;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;

use super::head::{Front, HEAD_BYTES_MAX, Head, Stored};
use super::key;
use super::memory::Memory;
use crate::codec::Malformed;
use crate::entry::encode;

/// Most places that a command looks at, which is done whole: keys, and what takes as long as one.
pub const PLACES_MAX: usize = 32_768;
/// Places for which a key counts that is put or deleted, beside the look at it: it goes into the
/// entry, and with that into the store.
const CHANGE_PLACES: usize = 1;
/// Bytes of keys or values that take as long as a place.
pub(crate) const BYTES_A_PLACE: usize = 4096;

/// A read that the store could not do, in its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable(pub String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Takes a key of the map and its value; returns whether to go on.
pub(crate) type Each<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;

/// Where the places with a prefix begin that lie from `from` on: at the later of both.
pub(crate) fn begin<'a>(prefix: &'a [u8], from: Bound<&'a [u8]>) -> Bound<&'a [u8]> {
    match from {
        Bound::Included(place) | Bound::Excluded(place) if place >= prefix => from,
        _ => Bound::Included(prefix),
    }
}

/// A part of a value, and the length of the whole.
pub(crate) type Part = (Bytes, usize);

/// The part of a value that lies in a range.
pub(crate) fn part_of(value: &[u8], range: Range<usize>) -> &[u8] {
    &value[range.start.min(value.len())..range.end.min(value.len())]
}

/// The versions that a draft lies on.
pub trait Source {
    /// The value at a place of the map.
    fn get(&self, place: &[u8]) -> Result<Option<Bytes>, Unreadable>;

    /// The bytes of a range of the value at a place, as far as it has them, and the length of all
    /// of it. Only these are copied.
    fn part(&self, place: &[u8], range: Range<usize>) -> Result<Option<Part>, Unreadable>;

    /// Calls `each` with the places that begin with `prefix`, from `from` on, in order.
    fn scan(&self, prefix: &[u8], from: Bound<&[u8]>, each: Each<'_>) -> Result<(), Unreadable>;
}

/// A place that was changed, and its change before, if there was one.
type Undo = (Vec<u8>, Option<Option<Stored>>);

/// A draft.
pub struct Draft<'a> {
    source: &'a dyn Source,
    now_ms: u64,
    /// The index that the entry will have.
    version: u64,
    /// The present generation of keys, once it has been asked for.
    generation: Cell<Option<u32>>,
    changes: BTreeMap<Vec<u8>, Option<Stored>>,
    /// Last read of the source: a command looks at a key's head before it changes it.
    read_last: RefCell<Option<(Vec<u8>, Option<Bytes>)>>,
    /// The front that was read last.
    front_last: RefCell<Option<(Vec<u8>, Option<Part>)>>,
    /// Within an attempt: places that were changed, and their changes before, in order.
    undo: Option<Vec<Undo>>,
    /// Bytes of values that were read and put.
    work: Cell<usize>,
    /// Places of the source that were looked at.
    places: Cell<usize>,
    /// Whether what was read depends on the moment.
    relies_on_time: Cell<bool>,
    memory: Option<(Arc<Memory>, Bytes)>,
    /// By how much the time is ahead of the calendar, if that was set.
    set_back: Option<u64>,
}

impl<'a> Draft<'a> {
    /// A draft of the entry at `version`, without changes.
    pub fn new(source: &'a dyn Source, now_ms: u64, version: u64) -> Self {
        Self {
            source,
            now_ms,
            version,
            generation: Cell::new(None),
            changes: BTreeMap::new(),
            read_last: RefCell::new(None),
            front_last: RefCell::new(None),
            undo: None,
            work: Cell::new(0),
            places: Cell::new(0),
            relies_on_time: Cell::new(false),
            memory: None,
            set_back: None,
        }
    }

    /// Lets a user's listings go on where they were.
    pub(crate) fn remember(&mut self, memory: &Arc<Memory>, user: &Bytes) {
        self.memory = Some((Arc::clone(memory), user.clone()));
    }

    /// Where listings were, and whose go on.
    pub(crate) fn memory(&self) -> Option<(Arc<Memory>, Bytes)> {
        self.memory.clone()
    }

    /// The moment of the draft, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// By how much the moment is ahead of the calendar, in milliseconds.
    pub(crate) fn ahead_ms(&self) -> Result<u64, Unreadable> {
        let damaged = || Unreadable("the distance of the calendar is damaged".to_owned());
        let stored = self.value(key::AHEAD)?;
        stored.map_or(Ok(0), |bytes| bytes[..].try_into().map(u64::from_be_bytes).map_err(|_| damaged()))
    }

    /// Sets the calendar. If it goes forward, that time passes at once; if it goes back, the moment
    /// stays, and with it the time that keys have left.
    pub(crate) fn set_calendar(&mut self, calendar_ms: u64) -> Result<(), Unreadable> {
        let ahead_ms = self.ahead_ms()?;
        let moment_ms = calendar_ms.saturating_add(ahead_ms);
        if moment_ms >= self.now_ms {
            self.now_ms = moment_ms;
            self.note_time();
        } else {
            let ahead_ms = self.now_ms.saturating_sub(calendar_ms);
            self.change(key::AHEAD.to_vec(), Some(Bytes::copy_from_slice(&ahead_ms.to_be_bytes())));
            self.set_back = Some(ahead_ms);
        }
        Ok(())
    }

    /// By how much the moment is ahead of the calendar, if the draft has set it back.
    pub(crate) fn set_back(&self) -> Option<u64> {
        self.set_back
    }

    /// The data of the draft's entry. It may change nothing.
    pub(crate) fn to_data(&self) -> Bytes {
        let changes = self.changes.iter();
        encode(self.now_ms, changes.map(|(place, value)| (&place[..], value.as_ref().map(Stored::pieces))))
    }

    /// Whether nothing is changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The version that what is put gets: the index of the entry.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Bytes of values that were read and put so far.
    pub(crate) fn work(&self) -> usize {
        self.work.get()
    }

    /// Places of the source that were looked at so far, and what else takes as long as that.
    pub(crate) fn places(&self) -> usize {
        self.places.get()
    }

    /// Whether more places were looked at than may be.
    pub(crate) fn has_looked_at_all(&self) -> bool {
        self.places.get() > PLACES_MAX
    }

    /// Counts work that takes as long as a look at this number of places.
    pub(crate) fn look_at(&self, places: usize) {
        self.places.set(self.places.get().saturating_add(places));
    }

    /// Counts at least one place for something that may have been looked at before.
    pub(crate) fn at_least_a_place<T>(&self, look: impl FnOnce() -> T) -> T {
        let before = self.places.get();
        let found = look();
        if self.places.get() == before {
            self.look_at(1);
        }
        found
    }

    /// Does something that may fail, and then leaves the draft as it was. Attempts are not made
    /// within one another.
    pub(crate) fn attempt<T, E>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let generation = self.generation.get();
        self.undo = Some(Vec::new());
        let outcome = run(self);
        let undo = self.undo.take().unwrap_or_default();
        if outcome.is_err() {
            for (place, before) in undo.into_iter().rev() {
                match before {
                    Some(change) => self.changes.insert(place, change),
                    None => self.changes.remove(&place),
                };
            }
            self.generation.set(generation);
        }
        outcome
    }

    /// Takes back all changes. What was read may depend on the moment all the same.
    pub(crate) fn give_up(&mut self) {
        self.changes.clear();
        self.generation.set(None);
    }

    /// Lets the entry carry the moment, if what was read depends on it and nothing is changed: a
    /// leader whose clock is behind must not take that back.
    pub(crate) fn keep_time(&mut self) {
        if self.changes.is_empty() && self.relies_on_time.get() {
            self.note_time();
        }
    }

    /// Lets the entry carry the moment, whatever it changes.
    pub(crate) fn note_time(&mut self) {
        self.change(key::TIME.to_vec(), Some(Bytes::copy_from_slice(&self.now_ms.to_be_bytes())));
    }

    /// Notes that the result depends on the moment.
    pub(crate) fn rely_on_time(&self) {
        self.relies_on_time.set(true);
    }

    /// Puts something at a place of the system's own, or nothing.
    ///
    /// # Panics
    /// If the place is a client's.
    pub fn put_system(&mut self, place: &[u8], value: Option<Bytes>) {
        assert_eq!(place.first(), Some(&key::SYSTEM), "a place of the system");
        self.change(place.to_vec(), value);
    }

    /// Deletes all keys at once: a new generation begins. What was of the old one is cleared away
    /// later.
    pub(crate) fn clear(&mut self) -> Result<(), Unreadable> {
        let generation = self.generation()?.wrapping_add(1);
        let of_keys = |place: &[u8]| key::of_head(place).is_some() || key::of_deadline(place).is_some();
        let mine: Vec<Vec<u8>> = self.changes.keys().filter(|place| of_keys(place)).cloned().collect();
        for place in mine {
            let before = self.changes.remove(&place);
            self.note(place, before);
        }
        self.generation.set(Some(generation));
        self.change(key::GENERATION.to_vec(), Some(Bytes::copy_from_slice(&generation.to_be_bytes())));
        self.put_count(0);
        Ok(())
    }

    /// Number of keys, those included that have ended and are not cleared away.
    pub(crate) fn count(&self) -> Result<u64, Unreadable> {
        let stored = self.value(key::COUNT)?;
        let damaged = || Unreadable("the number of keys is damaged".to_owned());
        stored.map_or(Ok(0), |bytes| bytes[..].try_into().map(u64::from_be_bytes).map_err(|_| damaged()))
    }

    fn put_count(&mut self, count: u64) {
        self.change(key::COUNT.to_vec(), Some(Bytes::copy_from_slice(&count.to_be_bytes())));
    }

    /// The value at a place of the map.
    pub(crate) fn value(&self, place: &[u8]) -> Result<Option<Bytes>, Unreadable> {
        if let Some(changed) = self.changes.get(place) {
            return Ok(changed.as_ref().map(Stored::bytes));
        }
        let mut last = self.read_last.borrow_mut();
        match &*last {
            Some((read, value)) if read == place => Ok(value.clone()),
            _ => {
                self.look_at(1);
                let value = self.source.get(place)?;
                *last = Some((place.to_vec(), value.clone()));
                Ok(value)
            }
        }
    }

    /// Changes the value at a place of the map, or deletes it.
    pub(crate) fn change(&mut self, place: Vec<u8>, value: Option<Bytes>) {
        self.store(place, value.map(Stored::from));
    }

    fn store(&mut self, place: Vec<u8>, value: Option<Stored>) {
        let before = self.changes.insert(place.clone(), value);
        self.note(place, before);
    }

    fn note(&mut self, place: Vec<u8>, before: Option<Option<Stored>>) {
        if let Some(undo) = &mut self.undo {
            undo.push((place, before));
        }
    }

    fn worked(&self, bytes: usize) {
        self.work.set(self.work.get().saturating_add(bytes));
    }

    /// The generation of the keys that there are.
    pub(crate) fn generation(&self) -> Result<u32, Unreadable> {
        if let Some(generation) = self.generation.get() {
            return Ok(generation);
        }
        let stored = self.source.get(key::GENERATION)?;
        let generation = match stored.as_deref().map(<[u8; 4]>::try_from) {
            None => 0,
            Some(Ok(bytes)) => u32::from_be_bytes(bytes),
            Some(Err(_)) => return Err(Unreadable("the generation of keys is damaged".to_owned())),
        };
        self.generation.set(Some(generation));
        Ok(generation)
    }

    /// The head of a client's key. None if there is no such key, or it has ended.
    pub fn head(&self, key: &[u8]) -> Result<Option<Head>, Unreadable> {
        let head = self.stored_head(key)?;
        if head.as_ref().is_some_and(|head| head.has_ended(self.now_ms)) {
            self.rely_on_time();
            return Ok(None);
        }
        Ok(head)
    }

    /// Version, deadline and length of a client's key; the value is not copied. None if there is no
    /// such key, or it has ended.
    pub(crate) fn front(&self, key: &[u8]) -> Result<Option<Front>, Unreadable> {
        let front = self.stored_front(key)?;
        if front.is_some_and(|front| front.has_ended(self.now_ms)) {
            self.rely_on_time();
            return Ok(None);
        }
        Ok(front)
    }

    /// A part of the value of a client's key whose front was read.
    pub(crate) fn part(&self, key: &[u8], front: &Front, range: Range<usize>) -> Result<Bytes, Unreadable> {
        let place = key::head(self.generation()?, key);
        let (start, end) = (range.start.min(front.length), range.end.min(front.length));
        let range = front.value_at + start..front.value_at + end.max(start);
        self.worked(range.len());
        if let Some(changed) = self.changes.get(&place) {
            return Ok(changed.as_ref().map_or_else(Bytes::new, |stored| stored.part(range)));
        }
        self.look_at(1);
        Ok(self.source.part(&place, range)?.map_or_else(Bytes::new, |(bytes, _)| bytes))
    }

    /// Gives a key a value and a deadline, or none, in place of what it had.
    pub fn put(&mut self, key: &[u8], value: Bytes, deadline_ms: Option<u64>) -> Result<(), Unreadable> {
        let before = self.forget_deadline(key)?;
        // Planted: a write keeps the deadline that the key had.
        let kept = before
            .as_ref()
            .and_then(|head| head.deadline_ms)
            .filter(|_| perdura_pmem::planted(Mutant::WriteKeepsDeadline));
        let deadline_ms = deadline_ms.or(kept);
        if before.is_none() {
            self.put_count(self.count()?.saturating_add(1));
        }
        let generation = self.generation()?;
        if let Some(at) = deadline_ms {
            self.change(key::deadline(at, generation, key), Some(Bytes::new()));
        }
        self.worked(value.len());
        self.look_at(CHANGE_PLACES);
        let head = Head { version: self.version, deadline_ms, value };
        self.store(key::head(generation, key), Some(head.stored()));
        Ok(())
    }

    /// Deletes a key. Returns whether there was one.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool, Unreadable> {
        let Some(front) = self.forget_deadline(key)? else { return Ok(false) };
        self.look_at(CHANGE_PLACES);
        self.change(key::head(self.generation()?, key), None);
        self.put_count(self.count()?.saturating_sub(1));
        Ok(!front.has_ended(self.now_ms))
    }

    /// Deletes a key if it has ended. Returns whether it has.
    pub(crate) fn delete_ended(&mut self, key: &[u8]) -> Result<bool, Unreadable> {
        let has_ended = self.stored_front(key)?.is_some_and(|front| front.has_ended(self.now_ms));
        if has_ended {
            self.delete(key)?;
        }
        Ok(has_ended)
    }

    /// Calls `each` with the clients' keys that begin with `prefix`, from `from` on, in order,
    /// until it returns false: also with those that have ended and are not cleared away yet, and
    /// with whether each is there.
    pub(crate) fn keys_or_ended(
        &self,
        prefix: &[u8],
        from: Bound<&[u8]>,
        each: &mut dyn FnMut(Vec<u8>, bool) -> bool,
    ) -> Result<(), Unreadable> {
        let (mut wrong, generation) = (None, self.generation()?);
        let from = from.map(|key| key::head(generation, key));
        let from = from.as_ref().map(Vec::as_slice);
        self.scan(&key::begin(generation, prefix), from, &mut |place, value| {
            self.look_at(1 + place.len() / BYTES_A_PLACE);
            let Some((_, key)) = key::of_head(place) else { return true };
            // The value stays where it is: only what is before it is looked at.
            let front = Bytes::copy_from_slice(&value[..value.len().min(HEAD_BYTES_MAX)]);
            match head_of(&key, front.into()) {
                Ok(head) if head.has_ended(self.now_ms) => {
                    self.rely_on_time();
                    each(key, false)
                }
                Ok(_) => each(key, true),
                Err(error) => {
                    wrong = Some(error);
                    false
                }
            }
        })?;
        wrong.map_or(Ok(()), Err)
    }

    /// The head that is stored, also of a key that has ended.
    fn stored_head(&self, key: &[u8]) -> Result<Option<Head>, Unreadable> {
        let place = key::head(self.generation()?, key);
        let stored = self.at_least_a_place(|| match self.changes.get(&place) {
            Some(changed) => Ok(changed.clone()),
            None => self.value(&place).map(|value| value.map(Stored::from)),
        })?;
        self.worked(stored.as_ref().map_or(0, Stored::len));
        stored.map(|stored| head_of(key, stored)).transpose()
    }

    /// The front that is stored, also of a key that has ended.
    fn stored_front(&self, key: &[u8]) -> Result<Option<Front>, Unreadable> {
        let place = key::head(self.generation()?, key);
        let part = self.at_least_a_place(|| match self.known_front(&place) {
            Some(known) => Ok(known),
            None => self.front_of(place),
        })?;
        part.map(|(bytes, length)| Front::from_bytes(bytes, length).map_err(|malformed| damaged(key, malformed)))
            .transpose()
    }

    /// The front of what the draft has put at a place, or has read there last, and the length of
    /// all of it.
    fn known_front(&self, place: &[u8]) -> Option<Option<Part>> {
        let front = |stored: &Stored| (stored.front(), stored.len());
        if let Some(changed) = self.changes.get(place) {
            return Some(changed.as_ref().map(front));
        }
        let last = self.read_last.borrow();
        let (_, value) = last.as_ref().filter(|(read, _)| read == place)?;
        Some(value.as_ref().map(|value| front(&value.clone().into())))
    }

    fn front_of(&self, place: Vec<u8>) -> Result<Option<Part>, Unreadable> {
        let mut last = self.front_last.borrow_mut();
        match &*last {
            Some((read, part)) if *read == place => Ok(part.clone()),
            _ => {
                self.look_at(1);
                let part = self.source.part(&place, 0..HEAD_BYTES_MAX)?;
                *last = Some((place, part.clone()));
                Ok(part)
            }
        }
    }

    /// Takes back the note of a key's deadline. Returns the key's front.
    fn forget_deadline(&mut self, key: &[u8]) -> Result<Option<Front>, Unreadable> {
        let front = self.stored_front(key)?;
        if let Some(at) = front.and_then(|front| front.deadline_ms) {
            self.change(key::deadline(at, self.generation()?, key), None);
        }
        Ok(front)
    }

    /// Calls `each` with the places of the map that begin with `prefix`, from `from` on, in order:
    /// the source's with the draft's changes over them.
    pub(crate) fn scan(&self, prefix: &[u8], from: Bound<&[u8]>, each: Each<'_>) -> Result<(), Unreadable> {
        let from = begin(prefix, from);
        let own = self.changes.range::<[u8], _>((from, Bound::Unbounded));
        let mut own = own.take_while(|(place, _)| place.starts_with(prefix)).peekable();
        let mut goes_on = true;
        self.source.scan(prefix, from, &mut |place, value| {
            while let Some((changed, new)) = own.next_if(|(changed, _)| changed.as_slice() <= place) {
                goes_on = new.as_ref().is_none_or(|new| each(changed, &new.bytes()));
                if changed.as_slice() == place || !goes_on {
                    return goes_on;
                }
            }
            goes_on = each(place, value);
            goes_on
        })?;
        while goes_on && let Some((changed, new)) = own.next() {
            goes_on = new.as_ref().is_none_or(|new| each(changed, &new.bytes()));
        }
        Ok(())
    }
}

fn head_of(key: &[u8], stored: Stored) -> Result<Head, Unreadable> {
    stored.head().map_err(|malformed| damaged(key, malformed))
}

fn damaged(key: &[u8], malformed: Malformed) -> Unreadable {
    let name = key[..key.len().min(64)].escape_ascii().to_string();
    Unreadable(format!("the head of key '{name}' is damaged: {malformed}"))
}

#[cfg(test)]
impl Draft<'_> {
    /// The content of the draft's entry.
    pub(crate) fn into_batch(self) -> crate::entry::WriteBatch {
        crate::entry::WriteBatch::from_bytes(self.to_data()).expect("an entry of its own")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Bound, Bytes, Draft, Each, Part, Range, Source, Unreadable, begin, part_of};
    use crate::machine::key;
    use std::collections::BTreeMap;

    /// Versions in DRAM.
    #[derive(Default)]
    pub(crate) struct MemorySource(BTreeMap<Vec<u8>, Bytes>);

    impl MemorySource {
        /// Does what a draft has become.
        pub(crate) fn apply(&mut self, batch: crate::entry::WriteBatch) {
            for change in batch.changes {
                match change.value {
                    Some(value) => self.0.insert(change.key.to_vec(), value),
                    None => self.0.remove(&change.key[..]),
                };
            }
        }

        /// The deadlines that are noted.
        pub(crate) fn deadlines(&self) -> Vec<(u64, Vec<u8>)> {
            let noted = self.0.keys().filter_map(|place| key::of_deadline(place));
            noted.map(|(at, _, key)| (at, key.to_vec())).collect()
        }
    }

    impl Source for MemorySource {
        fn get(&self, place: &[u8]) -> Result<Option<Bytes>, Unreadable> {
            Ok(self.0.get(place).cloned())
        }

        fn part(&self, place: &[u8], range: Range<usize>) -> Result<Option<Part>, Unreadable> {
            let part = |value: &Bytes| (Bytes::copy_from_slice(part_of(value, range)), value.len());
            Ok(self.0.get(place).map(part))
        }

        fn scan(&self, prefix: &[u8], from: Bound<&[u8]>, each: Each<'_>) -> Result<(), Unreadable> {
            let found = self.0.range::<[u8], _>((begin(prefix, from), Bound::Unbounded));
            for (place, value) in found.take_while(|(place, _)| place.starts_with(prefix)) {
                if !each(place, value) {
                    break;
                }
            }
            Ok(())
        }
    }

    fn keys(draft: &Draft<'_>, prefix: &[u8], from: Bound<&[u8]>, most: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut each = |key: Vec<u8>, is_there: bool| {
            found.extend(is_there.then(|| String::from_utf8(key).expect("a text")));
            found.len() < most
        };
        draft.keys_or_ended(prefix, from, &mut each).expect("keys");
        found
    }

    #[test]
    fn a_draft_lies_over_what_was_before() {
        let mut source = MemorySource::default();
        let mut before = Draft::new(&source, 100, 1);
        for key in ["a", "b", "d", "e"] {
            before.put(key.as_bytes(), Bytes::from_static(b"old"), None).expect("put");
        }
        let batch = before.into_batch();
        source.apply(batch);
        let mut draft = Draft::new(&source, 100, 2);
        draft.put(b"c", Bytes::from_static(b"new"), None).expect("put");
        draft.put(b"b", Bytes::from_static(b"new"), None).expect("put");
        draft.put(b"f", Bytes::from_static(b"new"), None).expect("put");
        assert_eq!(draft.delete(b"d"), Ok(true));
        assert_eq!(draft.delete(b"d"), Ok(false));
        assert_eq!(keys(&draft, b"", Bound::Unbounded, 9), ["a", "b", "c", "e", "f"]);
        assert_eq!(keys(&draft, b"", Bound::Excluded(b"b"), 2), ["c", "e"]);
        assert_eq!(keys(&draft, b"", Bound::Included(b"f"), 2), ["f"]);
        let version = |key| draft.head(key).expect("a head").map(|head| head.version);
        assert_eq!([version(b"a"), version(b"b"), version(b"d")], [Some(1), Some(2), None]);
    }

    #[test]
    fn a_key_ends_and_leaves_no_note() {
        let mut source = MemorySource::default();
        let mut draft = Draft::new(&source, 100, 1);
        draft.put(b"k", Bytes::from_static(b"v"), Some(200)).expect("put");
        draft.put(b"l", Bytes::from_static(b"v"), Some(300)).expect("put");
        let batch = draft.into_batch();
        source.apply(batch);
        assert_eq!(source.deadlines(), [(200, b"k".to_vec()), (300, b"l".to_vec())]);
        let mut later = Draft::new(&source, 200, 2);
        assert_eq!(later.head(b"k"), Ok(None));
        assert_eq!(keys(&later, b"", Bound::Unbounded, 9), ["l"]);
        assert_eq!(later.delete(b"k"), Ok(false), "it has ended, and is cleared away");
        later.put(b"l", Bytes::from_static(b"w"), None).expect("put");
        let batch = later.into_batch();
        source.apply(batch);
        assert_eq!(source.deadlines(), []);
        assert_eq!(source.get(&key::head(0, b"k")), Ok(None));
    }

    #[test]
    fn what_fails_leaves_the_draft_as_it_was() {
        let mut source = MemorySource::default();
        let mut draft = Draft::new(&source, 100, 1);
        draft.put(b"old", Bytes::new(), Some(200)).expect("put");
        let batch = draft.into_batch();
        source.apply(batch);
        let mut draft = Draft::new(&source, 100, 2);
        draft.put(b"mine", Bytes::from_static(b"1"), None).expect("put");
        let failed: Result<(), ()> = draft.attempt(|draft| {
            draft.put(b"mine", Bytes::from_static(b"2"), Some(300)).expect("put");
            draft.clear().expect("cleared");
            draft.put(b"more", Bytes::new(), None).expect("put");
            assert_eq!(draft.count(), Ok(1));
            Err(())
        });
        assert_eq!(failed, Err(()));
        assert_eq!(keys(&draft, b"", Bound::Unbounded, 9), ["mine", "old"]);
        assert_eq!(draft.head(b"mine").expect("a head").map(|head| head.value), Some(Bytes::from_static(b"1")));
        assert_eq!(draft.count(), Ok(2));
        assert_eq!(draft.delete(b"old"), Ok(true));
        assert_eq!(draft.count(), Ok(1));
    }

    #[test]
    fn all_keys_go_at_once_and_new_ones_come_behind() {
        let mut source = MemorySource::default();
        let mut draft = Draft::new(&source, 100, 1);
        draft.put(b"old", Bytes::new(), Some(200)).expect("put");
        let batch = draft.into_batch();
        source.apply(batch);
        let mut draft = Draft::new(&source, 100, 2);
        draft.put(b"mine", Bytes::new(), Some(200)).expect("put");
        draft.clear().expect("cleared");
        assert_eq!(keys(&draft, b"", Bound::Unbounded, 9), [""; 0]);
        draft.put(b"new", Bytes::new(), None).expect("put");
        assert_eq!(keys(&draft, b"", Bound::Unbounded, 9), ["new"]);
        let batch = draft.into_batch();
        assert_eq!(batch.changes.len(), 3, "the generation, the number of keys, the new key");
        source.apply(batch);
        let draft = Draft::new(&source, 100, 3);
        assert_eq!(keys(&draft, b"", Bound::Unbounded, 9), ["new"]);
        assert_eq!(draft.head(b"old"), Ok(None));
    }
}
