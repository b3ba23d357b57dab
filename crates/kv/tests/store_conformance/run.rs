//! A random sequence of calls on a store and on its model.
//!
//! The model is kept after each call. After a power failure the store must be as it was after one
//! of the calls since the last that made all durable.

use bytes::Bytes;
use perdura_kv::entry::{Change, WriteBatch};
use perdura_kv::sim::{Place, VARIANTS, Variant};
use perdura_kv::store::{Error, ErrorKind, Outgoing, PersistentState, ReadLevel, Store, members_entry_context};
use perdura_pmem::sim::Random;
use protobuf::Message as _;
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState, Entry, EntryType};

use super::model::Model;

const CALLS: u64 = 80;
const BYTES: u64 = 1 << 20;

struct Run {
    place: Place,
    store: Option<Box<dyn Store>>,
    model: Model,
    /// The models that a failure may lead to.
    possible: Vec<Model>,
    term: u64,
    clock_ms: u64,
    random: Random,
}

type Outcome = Result<(), String>;

fn said(error: Error) -> String {
    format!("{:?}: {error}", error.kind())
}

pub fn run(variant: Variant, seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let persistent_state = PersistentState::founder(7, 1 + random.below(9), vec![1, 2, 3]);
    let (place, store) = Place::create(variant, BYTES, &persistent_state).map_err(said)?;
    let model = Model::new(persistent_state);
    let possible = vec![model.clone()];
    let mut run = Run { place, store: Some(store), model, possible, term: 1, clock_ms: 1000, random };
    run.compare()?;
    for call in 0..CALLS {
        let number = run.random.below(100);
        let made = run.call(number).and_then(|()| run.compare());
        made.map_err(|what| format!("call {call} ({number}): {what}"))?;
    }
    Ok(())
}

impl Run {
    fn store(&mut self) -> &mut dyn Store {
        &mut **self.store.as_mut().expect("a store between calls")
    }

    fn compare(&mut self) -> Outcome {
        let model = self.model.clone();
        model.compare(self.store())
    }

    fn note(&mut self) {
        self.possible.push(self.model.clone());
    }

    fn durable(&mut self) {
        self.possible = vec![self.model.clone()];
    }

    fn call(&mut self, number: u64) -> Outcome {
        match number {
            0..35 => self.append(false),
            35..43 => self.append(true),
            43..48 => self.vote(),
            48..63 => self.commit(),
            63..71 => self.compact(),
            71..82 => self.persist(),
            82..87 => self.upkeep(),
            87..90 => self.restart(),
            90..97 => self.fail(),
            _ => self.hand_over(),
        }
    }

    fn persist(&mut self) -> Outcome {
        self.store().persist().map_err(said)?;
        self.durable();
        Ok(())
    }

    fn vote(&mut self) -> Outcome {
        self.term = self.model.persistent_state.term + self.random.below(2);
        let vote = self.random.below(4);
        let term = self.term;
        self.store().set_vote(term, vote).map_err(said)?;
        (self.model.persistent_state.term, self.model.persistent_state.vote) = (term, vote);
        self.note();
        Ok(())
    }

    fn append(&mut self, conflicts: bool) -> Outcome {
        let (applied, last) = (self.model.applied, self.model.last());
        let from = if conflicts { applied + 1 + self.random.below(last - applied + 1) } else { last + 1 };
        if from <= last {
            self.vote()?;
        }
        self.model.truncate(from);
        self.note();
        let mut entries = Vec::new();
        for index in from..=from + self.random.below(4) {
            let entry = self.entry(index);
            self.model.log.push(entry.clone());
            self.note();
            entries.push(entry);
        }
        self.store().append(&entries).map_err(said)
    }

    fn entry(&mut self, index: u64) -> Entry {
        self.clock_ms += self.random.below(30);
        let entry = Entry { index, term: self.model.persistent_state.term, ..Entry::default() };
        match self.random.below(10) {
            0 => entry,
            1 => {
                let node_id = 1 + self.random.below(30);
                let single =
                    ConfChangeSingle { change_type: ConfChangeType::AddNode, node_id, ..ConfChangeSingle::default() };
                let change = ConfChangeV2 { changes: vec![single].into(), ..ConfChangeV2::default() };
                let data = change.write_to_bytes().expect("bytes").into();
                let context = members_entry_context(self.clock_ms, &change);
                Entry { entry_type: EntryType::EntryConfChangeV2, data, context, ..entry }
            }
            _ => Entry { data: self.batch().to_bytes(), ..entry },
        }
    }

    fn batch(&mut self) -> WriteBatch {
        let state = self.model.state(u64::MAX);
        let mut changes: Vec<Change> = Vec::new();
        for _ in 0..self.random.below(4) {
            let key = Bytes::copy_from_slice(&[b'k', self.random.below(12) as u8]);
            if changes.iter().any(|change| change.key == key) {
                continue;
            }
            let length = if self.random.one_in(12) { 3000 } else { self.random.below(60) };
            let value = Bytes::from(vec![self.random.below(256) as u8; length as usize]);
            // A missing key is not deleted: a map does not keep that.
            let deletes = self.random.one_in(4) && state.contains_key(&key);
            changes.push(Change { key, value: (!deletes).then_some(value) });
        }
        // As drafts make them.
        changes.sort_by(|one, other| one.key.cmp(&other.key));
        WriteBatch { clock_ms: self.clock_ms, changes }
    }

    fn commit(&mut self) -> Outcome {
        let (applied, last) = (self.model.applied, self.model.last());
        let index = applied + self.random.below(last - applied + 1);
        let of_members =
            (applied + 1..=index).rfind(|index| self.model.entry(*index).entry_type == EntryType::EntryConfChangeV2);
        if let Some(at) = of_members.filter(|at| *at > self.model.persistent_state.members_at) {
            let members = ConfState { voters: vec![1, 2, at], ..ConfState::default() };
            self.store().set_members(at, &members).map_err(said)?;
            (self.model.persistent_state.members_at, self.model.persistent_state.members) = (at, members);
            self.note();
        }
        self.store().commit(index).map_err(said)?;
        self.model.applied = index;
        self.note();
        Ok(())
    }

    fn compact(&mut self) -> Outcome {
        let index = self.random.below(self.model.applied + 1);
        self.store().compact(index).map_err(said)
    }

    fn upkeep(&mut self) -> Outcome {
        for _ in 0..self.random.below(4) {
            self.store().upkeep().map_err(said)?;
        }
        Ok(())
    }

    fn restart(&mut self) -> Outcome {
        self.store = None;
        self.place = self.place.closed();
        self.store = Some(self.place.open().map_err(said)?);
        self.find()
    }

    fn fail(&mut self) -> Outcome {
        let failed = self.place.failed(&mut self.random);
        // Writes of its closing go to the old medium.
        self.store = None;
        self.place = failed;
        self.store = Some(self.place.open().map_err(said)?);
        self.find()
    }

    /// Finds the model that the store has gone back to.
    fn find(&mut self) -> Outcome {
        let store = &**self.store.as_ref().expect("a store");
        let mut differences = Vec::new();
        for model in self.possible.iter().rev() {
            match model.compare(store) {
                Ok(()) => {
                    self.model = model.clone();
                    self.durable();
                    return Ok(());
                }
                Err(what) => differences.push(what),
            }
        }
        Err(format!("it is in none of the states since the last persist: {differences:#?}"))
    }

    /// Gives a snapshot to another store, and goes on with that.
    fn hand_over(&mut self) -> Outcome {
        let chunk_bytes = 64 + self.random.below(600) as usize;
        let taken = self.store().snapshot(chunk_bytes);
        let mut snapshot = match taken {
            Err(error)
                if error.kind() == ErrorKind::Unready
                    && self.model.persistent_state.members_at > self.model.applied =>
            {
                return Ok(());
            }
            taken => taken.map_err(said)?,
        };
        let source = self.model.clone();
        // It stays what it was.
        self.append(false)?;
        self.commit()?;
        self.compact()?;
        self.upkeep()?;
        let variants: Vec<Variant> =
            VARIANTS.into_iter().filter(|variant| variant.takes(self.place.variant())).collect();
        let variant = variants[self.random.below(variants.len() as u64) as usize];
        let persistent_state =
            PersistentState { term: self.random.below(5), vote: 2, ..PersistentState::joiner(7, 20) };
        let (place, store) = Place::create(variant, BYTES, &persistent_state).map_err(said)?;
        let left = (std::mem::replace(&mut self.place, place), self.store.replace(store));
        self.model = Model::new(persistent_state);
        self.possible = vec![self.model.clone()];
        self.compare()?;
        self.receive(&mut *snapshot, &source)?;
        drop(snapshot);
        drop(left);
        self.clock_ms = self.store().clock_ms(ReadLevel::Newest);
        Ok(())
    }

    fn receive(&mut self, snapshot: &mut dyn Outgoing, source: &Model) -> Outcome {
        // Some attempts go wrong at one of the first chunks, the last does not.
        for left in (0..=self.random.below(4)).rev() {
            let empties = self.random.one_in(2);
            self.store().receive(empties).map_err(said)?;
            if empties {
                self.model = self.model.emptied();
                self.durable();
            }
            let fails_at = if left > 0 { self.random.below(20) } else { u64::MAX };
            if self.chunks(snapshot, fails_at)? {
                break;
            }
        }
        let metadata = snapshot.metadata().clone();
        self.store().finish(&metadata).map_err(said)?;
        self.model = source.received(self.model.persistent_state.clone());
        self.durable();
        Ok(())
    }

    /// Pushes all chunks, some of them badly. Returns whether the store has them all.
    fn chunks(&mut self, snapshot: &mut dyn Outgoing, fails_at: u64) -> Result<bool, String> {
        for number in 0.. {
            let (chunk, is_last) = snapshot.chunk(number).map_err(said)?;
            if self.random.one_in(20) {
                assert_eq!(snapshot.chunk(number).map_err(said)?, (chunk.clone(), is_last), "it is given again");
            }
            let goes_wrong = u64::from(number) >= fails_at;
            match if goes_wrong { self.random.below(4) } else { 4 } {
                0 => {
                    self.compare()?;
                    if self.random.one_in(2) {
                        self.fail()?
                    } else {
                        self.restart()?
                    }
                    return Ok(false);
                }
                1 => {
                    let mut wrong = chunk.to_vec();
                    let at = self.random.below(wrong.len() as u64) as usize;
                    wrong[at] ^= 1 << self.random.below(8);
                    return refused(self.store().push(number, &wrong)).map(|()| false);
                }
                2 => return refused(self.store().push(number + 1, &chunk)).map(|()| false),
                3 if !is_last => {
                    let metadata = snapshot.metadata().clone();
                    return refused(self.store().finish(&metadata)).map(|()| false);
                }
                _ => self.store().push(number, &chunk).map_err(said)?,
            }
            if is_last {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn refused(result: perdura_kv::store::Result<()>) -> Outcome {
    match result {
        Err(error) if error.kind() == ErrorKind::Refused => Ok(()),
        other => Err(format!("it must be refused: {other:?}")),
    }
}
