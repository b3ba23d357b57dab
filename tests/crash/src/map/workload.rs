//! Workload of the writer of a scenario: seeded calls of every kind. It records the resulting state
//! before each call.
//!
//! After each call the map's timestamps are those of the model.

use super::model::{Bytes, Stamps, State};
use super::oracle::History;
use super::scenario::{Action, Bystander, Scenario};
use super::stream;
use super::verdict;
use perdura_map::{Compared, ErrorKind, KeyChange, OrderedMap, Result, Ts};
use perdura_pmem::sim::Random;
use perdura_pmem::sync::yield_now;
use std::collections::VecDeque;

/// Rounds of forgetting, deleting and collecting after which a full map must take a change.
const ROUNDS_TO_MAKE_ROOM: u32 = 40;

/// The thread that changes the map.
pub struct Writer<'a> {
    map: &'a dyn OrderedMap,
    history: &'a History,
    scenario: &'a Scenario,
    random: Random,
    state: State,
    /// The states after the last changes, one batch of them.
    batch: VecDeque<usize>,
    /// The stream of a snapshot, and the state it holds.
    stream: Option<(Vec<Vec<u8>>, State)>,
    /// The state after the newest change, if nothing was taken back since.
    changed: Option<usize>,
    /// A call has failed since the last change. Nobody needs what it stored; the next batch flushes
    /// it.
    leaves_dirt: bool,
}

impl<'a> Writer<'a> {
    /// The writer of a round.
    pub fn new(map: &'a dyn OrderedMap, history: &'a History, scenario: &'a Scenario, seed: u64) -> Writer<'a> {
        let state = history.state(history.reached());
        let random = Random::new(seed ^ 0x3a70_11de);
        let (batch, stream) = (VecDeque::new(), None);
        Writer { map, history, scenario, random, state, batch, stream, changed: None, leaves_dirt: false }
    }

    /// Makes one call.
    pub fn act(&mut self) {
        match self.choose() {
            Action::Set => {
                let (ts, key, value) = (self.ts(), self.key(), self.value());
                self.set(ts, &key, value);
            }
            Action::Delete => {
                let (ts, key) = (self.ts(), self.key());
                self.delete(ts, &key);
            }
            Action::CompareAndSet => self.compare_and_set(),
            Action::Batch => self.batch(),
            Action::SetMeta => {
                let meta = self.value().iter().copied().take(perdura_map::META_BYTES_MAX).collect::<Vec<u8>>();
                let mut next = self.state.clone();
                next.meta.clone_from(&meta);
                self.call(next, |map| map.set_meta(&meta)).expect("the blob needs no room");
            }
            Action::Put => {
                let (key, value) = (self.key(), self.value());
                self.put(&key, value);
            }
            Action::Remove => {
                let key = self.key();
                self.remove(&key);
            }
            Action::Apply => {
                let Stamps { last, applied, .. } = self.state.stamps;
                let ts = applied + self.random.below(last.saturating_sub(applied) + 1);
                self.apply(ts);
            }
            Action::Forget => {
                let Stamps { applied, forgotten, .. } = self.state.stamps;
                let ts = forgotten + self.random.below(applied.saturating_sub(forgotten) + 1);
                self.forget(ts);
            }
            Action::Rollback => self.roll_back(),
            Action::Persist => self.persist(),
            Action::Snapshot => self.keep_snapshot(),
            Action::Load => self.load(),
        }
    }

    fn choose(&mut self) -> Action {
        let mix = self.scenario.mix;
        let mut pick = self.random.below(mix.iter().map(|(_, weight)| u64::from(*weight)).sum());
        for (action, weight) in mix {
            if pick < u64::from(*weight) {
                return *action;
            }
            pick -= u64::from(*weight);
        }
        unreachable!("the pick is below the sum of the weights")
    }

    /// A timestamp for the next change: often that of the last one.
    fn ts(&mut self) -> Ts {
        let Stamps { last, applied, .. } = self.state.stamps;
        let least = last.max(applied + 1);
        if self.random.one_in(3) { least + 1 } else { least }
    }

    /// A key: empty, long, or one of many that differ late.
    fn key(&mut self) -> Bytes {
        match self.random.below(self.scenario.keys) {
            0 => Bytes::from(&b""[..]),
            1 => Bytes::from([b'k'; 300]),
            number if number % 2 == 0 => Bytes::from(format!("prefix-of-many-{number}").as_bytes()),
            number => Bytes::from(number.to_be_bytes()),
        }
    }

    fn value(&mut self) -> Bytes {
        let is_long = self.random.one_in(self.scenario.long_value_one_in);
        let length = if is_long { 250 + self.random.below(1000) } else { self.random.below(48) };
        let fill = self.random.next_u64() as u8;
        (0..length).map(|place| fill.wrapping_add(place as u8)).collect()
    }

    /// Makes a call that leads to the predicted state, or changes nothing if the region is full.
    fn call<T>(&mut self, foreseen: State, run: impl FnOnce(&dyn OrderedMap) -> Result<T>) -> Option<T> {
        let (wanted, asked) = (foreseen.stamps, foreseen.asked);
        let least = wanted.forgotten.min(self.state.stamps.forgotten);
        let number = self.history.begin(foreseen);
        match run(self.map) {
            Ok(result) => {
                let timestamps = self.map.timestamps();
                let found = Stamps::from(timestamps);
                // A scan holds off forgetting until it ends.
                let has_scans = self.scenario.bystanders.contains(&Bystander::Reader);
                let is_right = (found.last, found.applied) == (wanted.last, wanted.applied)
                    && (least..=asked.max(wanted.forgotten)).contains(&found.forgotten)
                    && (found.forgotten == wanted.forgotten || has_scans);
                assert!(is_right, "the map stands at {found:?} instead of {wanted:?}");
                if found.last < self.state.stamps.last {
                    self.changed = None;
                } else if self.state.is_changed_to(&self.history.state(number)) {
                    self.changed = Some(number);
                }
                self.state = self.history.reach(number, found);
                // A caller that acknowledges changes by this mark must not lie.
                if let Some(changed) = self.changed.filter(|_| timestamps.persisted >= timestamps.last) {
                    self.history.note_durable(changed);
                }
                Some(result)
            }
            Err(error) if error.kind() == ErrorKind::Full => {
                self.leaves_dirt = true;
                self.history.withdraw(number, &self.state);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Makes a call that changes a key. Returns whether there was room.
    fn change(&mut self, foreseen: State, run: impl FnOnce(&dyn OrderedMap) -> Result<()>) -> bool {
        if self.call(foreseen, run).is_none() {
            return false;
        }
        self.leaves_dirt = false;
        self.batch.push_back(self.history.reached());
        let changes_max = self.scenario.changes_max as usize;
        if changes_max == 1 {
            self.history.acknowledge(self.history.reached());
        } else if self.batch.len() > changes_max {
            self.batch.pop_front();
            self.history.note_durable(self.batch[0]);
        }
        true
    }

    fn set(&mut self, ts: Ts, key: &Bytes, value: Bytes) {
        let mut next = self.state.clone();
        next.change(ts, key, Some(value.clone()));
        if !self.change(next, |map| map.set(ts, key, &value)) {
            self.make_room();
        }
    }

    /// Deletes a key. Returns whether there was room.
    fn delete(&mut self, ts: Ts, key: &Bytes) -> bool {
        if self.state.newest(key).is_none() {
            assert!(!self.map.delete(ts, key).expect("nothing is written"), "a key without a value was deleted");
            return true;
        }
        let mut next = self.state.clone();
        next.change(ts, key, None);
        self.change(next, |map| map.delete(ts, key).map(|had| assert!(had, "a value was not found")))
    }

    fn compare_and_set(&mut self) {
        let (ts, key, value) = (self.ts(), self.key(), self.value());
        let new = (!self.random.one_in(3)).then_some(value);
        let newest = self.state.newest(&key).cloned();
        if self.random.one_in(4) {
            let wrong = Some(&b"never a value"[..]);
            let done = self.map.compare_and_set(ts, &key, wrong, new.as_deref()).expect("nothing is written");
            assert!(!done.matched, "a wrong comparison succeeded");
        } else if newest.is_some() || new.is_some() {
            let mut next = self.state.clone();
            next.change(ts, &key, new.clone());
            let right = |done: Compared| assert!(done.matched && done.ts == ts, "a right comparison failed");
            self.change(next, |map| map.compare_and_set(ts, &key, newest.as_deref(), new.as_deref()).map(right));
        }
    }

    /// A batch of up to five changes with a tag, at a timestamp that it may share with others.
    fn batch(&mut self) {
        let (ts, mut tag) = (self.ts(), self.value());
        if tag.len() > perdura_map::TAG_BYTES_MAX {
            tag = Bytes::from(&tag[..perdura_map::TAG_BYTES_MAX]);
        }
        let changes: Vec<(Bytes, Option<Bytes>)> = (0..self.random.below(6))
            .map(|_| (self.key(), self.value()))
            .map(|(key, value)| (key, (value.len() % 3 > 0).then_some(value)))
            .collect();
        let mut next = self.state.clone();
        next.tag(ts, tag.clone());
        for (key, value) in &changes {
            if value.is_some() || next.newest(key).is_some() {
                next.change(ts, key, value.clone());
            }
        }
        let changes: Vec<KeyChange<'_>> =
            changes.iter().map(|(key, value)| KeyChange { key, value: value.as_deref() }).collect();
        if !self.change(next, |map| map.batch(ts, &tag, &changes)) {
            self.make_room();
        }
    }

    fn put(&mut self, key: &Bytes, value: Bytes) {
        let ts = self.state.stamps.last + 1;
        let mut next = self.state.clone();
        next.put(ts, key, Some(value.clone()));
        let put = |map: &dyn OrderedMap| map.put(key, &value).map(|given| assert_eq!(given, ts));
        if !self.change(next, put) {
            self.make_room();
        }
    }

    fn remove(&mut self, key: &Bytes) {
        if self.state.newest(key).is_some() {
            let mut next = self.state.clone();
            next.put(next.stamps.last + 1, key, None);
            self.change(next, |map| map.remove(key).map(|had| assert!(had, "a value was not found")));
        }
    }

    fn apply(&mut self, ts: Ts) {
        let mut next = self.state.clone();
        next.apply(ts);
        self.call(next, |map| map.apply(ts)).expect("applying needs no room");
    }

    fn forget(&mut self, up_to: Ts) {
        let mut next = self.state.clone();
        next.forget(up_to);
        self.call(next, |map| map.forget(up_to)).expect("forgetting needs no room");
    }

    fn collect(&self) {
        self.map.collect().expect("a full map is collected");
        // Whoever holds off the collector ends in time.
        (0..40).for_each(|_| yield_now());
    }

    fn roll_back(&mut self) {
        let Stamps { last, applied, .. } = self.state.stamps;
        let from = applied + 1 + self.random.below(last.saturating_sub(applied) + 1);
        let mut next = self.state.clone();
        next.roll_back(from);
        self.batch.clear();
        self.call(next, |map| map.rollback(from)).expect("rolling back needs no room");
    }

    fn persist(&mut self) {
        self.map.persist().expect("a persist needs no room");
        let timestamps = self.map.timestamps();
        assert_eq!(timestamps.persisted, timestamps.last, "persisted, but not to the last");
        self.acknowledge();
    }

    fn acknowledge(&self) {
        let reached = self.history.reached();
        if self.leaves_dirt { self.history.note_durable(reached) } else { self.history.acknowledge(reached) }
    }

    fn keep_snapshot(&mut self) {
        let snapshot = self.map.snapshot().expect("a snapshot needs no room");
        self.acknowledge();
        let bytes_max = 64 + self.random.below(400) as usize;
        let chunks = snapshot.chunks(bytes_max).collect::<Result<Vec<_>>>().expect("a snapshot streams");
        let held = stream::read(&chunks).expect("a snapshot's stream can be read");
        assert!(self.state.is_same(&held), "a snapshot at {:?} is not of the map", held.stamps);
        self.stream = Some((chunks, self.state.clone()));
    }

    fn load(&mut self) {
        let Some((chunks, state)) = self.stream.clone() else { return };
        self.batch.clear();
        if self.random.one_in(4) {
            let mut loader = self.map.load_snapshot().expect("nothing is being loaded");
            // With or without room: an unfinished load leaves the map as it was.
            let _ = chunks[..chunks.len() / 2].iter().try_for_each(|chunk| loader.push(chunk));
            return;
        }
        let mut state = state;
        state.meta.clone_from(&self.state.meta);
        if self.random.one_in(3) {
            return self.reset_and_load(&chunks, state);
        }
        let loaded = self.call(state, |map| {
            let mut loader = map.load_snapshot()?;
            chunks.iter().try_for_each(|chunk| loader.push(chunk))?;
            loader.finish()
        });
        if loaded.is_some() {
            self.history.acknowledge(self.history.reached());
        }
    }

    /// Empties the map and loads the stream, without room for both contents.
    fn reset_and_load(&mut self, chunks: &[Vec<u8>], state: State) {
        let number = self.history.begin(self.state.emptied());
        let mut loader = self.map.reset_and_load().expect("emptying needs no room");
        self.history.reach(number, Stamps::from(self.map.timestamps()));
        self.history.acknowledge(number);
        chunks.iter().try_for_each(|chunk| loader.push(chunk)).expect("an empty map has room");
        let number = self.history.begin(state);
        loader.finish().expect("an empty map has room");
        self.state = self.history.reach(number, Stamps::from(self.map.timestamps()));
        self.history.acknowledge(number);
    }

    /// After all threads are done: checks that the map accounts for its space and, if `empty`, that
    /// an emptied map has all of it.
    pub fn finish(&mut self, empty: bool) {
        self.persist();
        self.map.check().expect("a map that nobody changes is whole");
        if !empty {
            return;
        }
        let keys: Vec<Bytes> = self.state.view(Ts::MAX).map(|(key, ..)| key.clone()).collect();
        for key in keys {
            self.forget_all();
            let ts = self.ts();
            assert!(self.delete(ts, &key), "no room to delete");
        }
        // A deletion is dropped one round after the versions it hides, and a page is freed one
        // persist after its content.
        (0..4).for_each(|_| self.forget_all());
        verdict::check_emptied(self.map, self.scenario).expect("nothing is lost");
    }

    fn forget_all(&mut self) {
        self.apply(self.state.stamps.last);
        self.forget(self.state.stamps.applied);
        self.persist();
        self.collect();
    }

    /// Checks that a full map takes changes again once enough is deleted, forgotten and collected.
    fn make_room(&mut self) {
        for round in 0..ROUNDS_TO_MAKE_ROOM {
            self.forget_all();
            let largest = self.state.view(Ts::MAX).max_by_key(|(_, _, value)| value.len()).map(|(key, ..)| key.clone());
            let Some(largest) = largest else { return };
            let ts = self.ts();
            if self.delete(ts, &largest) && round > 0 && self.random.one_in(2) {
                return;
            }
        }
        panic!("a full map stays full: {:?}", self.map.space());
    }
}
