//! Runs operations on a map and on its model, and reports where they differ.
//!
//! The model is kept after each operation. After a restart or a power failure the map is compared
//! with every state it may have gone back to: from the newest one known to be durable to the newest
//! one of all.

use super::operation::{Expected, Operation, Text, key};
use super::power;
use crate::support::compare::{audit, audit_space, compare};
use crate::support::model::Model;
use crate::support::{Map, collect, create, layout, load, other, quiet, stream};
use perdura_map::{Config, ErrorKind, KeyChange, Kind, Layout, OrderedMap, Result as MapResult, Ts, View};
use perdura_pmem::sim::{Image, Recorder};
use perdura_pmem::{Medium, SimMedium, trace};
use std::collections::VecDeque;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

pub const NAME: &str = "map";

/// Structure, layout and batch of a run.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub kind: Kind,
    pub layout: Layout,
    /// Changes that close a batch.
    pub changes_max: u32,
}

impl Setting {
    pub fn config(&self) -> Config {
        Config { changes_max: self.changes_max, ..quiet() }
    }
}

/// The states a map has had since it was last opened, and which of them are durable.
pub struct History {
    /// The model after each operation.
    pub states: Vec<Model>,
    /// Index of the newest state that must survive.
    durable: usize,
    /// Indices of the states after the latest changes. The oldest of these changes closed its
    /// batch.
    recent: VecDeque<usize>,
}

impl History {
    fn new(model: Model) -> History {
        History { states: vec![model], durable: 0, recent: VecDeque::new() }
    }

    /// Adds a state if it differs from the last one. Returns its index.
    fn note(&mut self, model: &Model) -> usize {
        if self.states.last() != Some(model) {
            self.states.push(model.clone());
        }
        self.states.len() - 1
    }

    /// Counts a change that led to the state at `place`: the state `changes_max` before it has
    /// become durable.
    fn count(&mut self, place: usize, changes_max: u32) {
        self.recent.push_back(place);
        if self.recent.len() as u32 >= changes_max {
            let closed = self.recent.pop_front().expect("one was just added");
            self.durable = self.durable.max(closed);
        }
    }

    /// The states that a crash may lead to now, newest first.
    pub fn possible(&self, from: usize, to: usize) -> impl Iterator<Item = &Model> {
        self.states[from..=to.min(self.states.len() - 1)].iter().rev()
    }
}

/// A map, its medium and its model.
pub struct Run {
    setting: Setting,
    medium: Arc<SimMedium>,
    recorder: Arc<Recorder>,
    map: Option<Arc<Map>>,
    model: Model,
    history: History,
    kept: Option<(Vec<Vec<u8>>, Model)>,
    /// The timestamp of the view that is held, and up to where was to be forgotten meanwhile.
    viewed: Option<(Ts, Ts)>,
    /// Whether the present operation has changed something.
    is_change: bool,
}

/// Runs all operations on a new map. Returns the first difference, if there is one.
pub fn run(setting: &Setting, operations: &[Operation]) -> Result<(), String> {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let made = create(&medium, NAME, setting.kind, &setting.layout, &setting.config());
    drop(made.map_err(|error| format!("creating: {error}"))?);
    let mut run = Run::open(*setting, power::image_of(&*medium), Model::default())?;
    for (place, operation) in operations.iter().enumerate() {
        run.one(operation).map_err(|what| format!("operation {place}, {operation:?}: {what}"))?;
    }
    run.end().map_err(|what| format!("at the end: {what}"))
}

impl Run {
    /// Opens the map of an image, which must match the model, and records from then on.
    fn open(setting: Setting, image: Image, model: Model) -> Result<Run, String> {
        let (medium, recorder) = Recorder::attach(SimMedium::from_image(image));
        let medium = Arc::new(medium);
        let shared: Arc<dyn Medium> = medium.clone();
        let map = perdura_map::open(&shared, NAME, &setting.config()).map_err(|error| format!("opening: {error}"))?;
        compare(&*map, &model).map_err(|what| format!("after opening: {what}"))?;
        let history = History::new(model.clone());
        Ok(Run {
            setting,
            medium,
            recorder,
            map: Some(Arc::new(map)),
            model,
            history,
            kept: None,
            viewed: None,
            is_change: false,
        })
    }

    fn map(&self) -> Arc<Map> {
        self.map.clone().expect("the map is open between operations")
    }

    /// Runs an operation, and marks in the recording what must survive from then on.
    fn one(&mut self, operation: &Operation) -> Result<(), String> {
        let _attached = trace::attach(self.recorder.clone());
        trace::mark(power::payload(self.history.durable, self.history.states.len()));
        self.step(operation)?;
        let map = self.map();
        self.model_matches(&**map)?;
        let newest = self.history.note(&self.model);
        if std::mem::take(&mut self.is_change) {
            self.history.count(newest, self.setting.changes_max);
        }
        trace::mark(power::payload(self.history.durable, newest));
        Ok(())
    }

    /// Compares what is cheap to compare after every operation.
    fn model_matches(&self, map: &dyn OrderedMap) -> Result<(), String> {
        let seen = map.timestamps();
        let model = &self.model;
        if (seen.last, seen.applied, seen.forgotten) != (model.last, model.applied, model.forgotten) {
            return Err(format!("{seen:?} instead of {} {} {}", model.last, model.applied, model.forgotten));
        }
        audit_space(map)
    }

    fn step(&mut self, operation: &Operation) -> Result<(), String> {
        let map = self.map();
        let last = self.model.last;
        match operation {
            Operation::Set { step, key: number, value } => {
                let (ts, key, value) = (Operation::step(last, *step), key(*number), value.bytes());
                let result = map.set(ts, &key, &value).map(|()| true);
                self.changed(result, true, ts, &key, Some(&value))
            }
            Operation::Delete { step, key: number } => {
                let (ts, key) = (Operation::step(last, *step), key(*number));
                let present = self.model.newest(&key).is_some();
                self.changed(map.delete(ts, &key), present, ts, &key, None)
            }
            Operation::CompareAndSet { step, key: number, expected, new } => {
                let (ts, key) = (Operation::step(last, *step), key(*number));
                self.compare_and_set(&**map, ts, &key, *expected, new.map(|new| new.bytes()))
            }
            Operation::Batch { step, tag, changes } => self.batch(&**map, Operation::step(last, *step), *tag, changes),
            Operation::Put { key: number, value } => {
                let (key, value) = (key(*number), value.bytes());
                let result = map.put(&key, &value);
                self.put(result.map(|ts| ts == last + 1), true, &key, Some(&value))
            }
            Operation::Remove { key: number } => {
                let key = key(*number);
                let present = self.model.newest(&key).is_some();
                self.put(map.remove(&key), present, &key, None)
            }
            Operation::Held { bytes_max, meanwhile } => self.hold(*bytes_max, meanwhile),
            Operation::Keep { bytes_max } => {
                self.kept = Some((stream(&**map, *bytes_max), self.model.clone()));
                self.persisted();
                Ok(())
            }
            Operation::Load { finish, resets } => self.load(*finish, *resets),
            Operation::Meta { fill } => {
                let meta = vec![*fill; usize::from(*fill)];
                map.set_meta(&meta).map_err(|error| error.to_string())?;
                self.model.meta = meta;
                Ok(())
            }
            Operation::View { below, meanwhile } => self.view(*below, meanwhile),
            Operation::Restart => {
                drop(map);
                self.restart()
            }
            Operation::PowerFails { seed } => {
                drop(map);
                self.power_fails(*seed)
            }
            other => self.maintain(&**map, other),
        }
    }

    /// The operations that change no value.
    fn maintain(&mut self, map: &dyn OrderedMap, operation: &Operation) -> Result<(), String> {
        let (last, applied) = (self.model.last, self.model.applied);
        match operation {
            Operation::Persist => {
                map.persist().map_err(|error| error.to_string())?;
                let persisted = map.timestamps().persisted;
                self.persisted();
                if persisted == last { Ok(()) } else { Err(format!("{persisted} persisted instead of {last}")) }
            }
            Operation::Apply { below } => {
                let ts = Operation::step(last, -below);
                if allowed(map.apply(ts), ts <= last)? {
                    self.model.applied = applied.max(ts);
                }
                Ok(())
            }
            Operation::Rollback { below } => {
                let from = Operation::step(last, 1 - below);
                if allowed(map.rollback(from), from > applied)? {
                    self.model.rollback(from, map.timestamps().last)?;
                }
                Ok(())
            }
            Operation::Forget { below } => {
                let up_to = Operation::step(applied, -below);
                if allowed(map.forget(up_to), up_to <= applied)? {
                    self.forget(up_to);
                }
                Ok(())
            }
            Operation::Collect => map.collect().map(drop).map_err(|error| format!("{:?}: {error}", error.kind())),
            _ => compare(map, &self.model).and_then(|()| audit(map, &self.model)),
        }
    }

    fn compare_and_set(
        &mut self,
        map: &dyn OrderedMap,
        ts: Ts,
        key: &[u8],
        expected: Expected,
        new: Option<Vec<u8>>,
    ) -> Result<(), String> {
        let present = self.model.newest(key).map(<[u8]>::to_vec);
        let expected = match expected {
            Expected::Present => present.clone(),
            Expected::Absent => None,
            Expected::This(text) => Some(text.bytes()),
        };
        let result = map.compare_and_set(ts, key, expected.as_deref(), new.as_deref()).map(|compared| compared.matched);
        if expected.is_none() && present.is_none() && new.is_none() {
            // The map has the wanted value already, so nothing changes.
            return match result {
                Ok(true) if self.model.takes(ts) => Ok(()),
                other => allowed(other.map(drop), self.model.takes(ts)).map(drop),
            };
        }
        self.changed(result, expected == present, ts, key, new.as_deref())
    }

    fn batch(&mut self, map: &dyn OrderedMap, ts: Ts, tag: u8, changes: &[(u8, Option<Text>)]) -> Result<(), String> {
        let changes: Vec<(Vec<u8>, Option<Vec<u8>>)> =
            changes.iter().map(|(number, value)| (key(*number), value.map(|value| value.bytes()))).collect();
        let given: Vec<KeyChange<'_>> =
            changes.iter().map(|(key, value)| KeyChange { key, value: value.as_deref() }).collect();
        let tag = vec![tag; usize::from(tag) % 50];
        match map.batch(ts, &tag, &given) {
            Ok(()) if self.model.takes(ts) => {
                self.model.tag(ts, tag);
                for (key, value) in &changes {
                    if value.is_some() || self.model.newest(key).is_some() {
                        self.model.change(ts, key, value.as_deref());
                    }
                }
                self.is_change = true;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Full && self.model.takes(ts) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Timestamp && !self.model.takes(ts) => Ok(()),
            other => Err(format!("{other:?}, the timestamp being allowed: {}", self.model.takes(ts))),
        }
    }

    /// Changes the model if the map was changed. Unless it was refused, `result` must be
    /// `expected`.
    fn changed(
        &mut self,
        result: MapResult<bool>,
        expected: bool,
        ts: Ts,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), String> {
        let takes = self.model.takes(ts);
        match result {
            Ok(done) if done == expected && takes => {
                if done {
                    self.model.change(ts, key, value);
                    self.is_change = true;
                }
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Full && takes => Ok(()),
            Err(error) if error.kind() == ErrorKind::Timestamp && !takes => Ok(()),
            other => Err(format!("{other:?} instead of {expected}, the timestamp being allowed: {takes}")),
        }
    }

    /// As [`Run::changed`], for a change that is applied at once and forgets what it replaces.
    fn put(&mut self, result: MapResult<bool>, expected: bool, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        let ts = self.model.last + 1;
        let (before, done) = (self.model.version_count(), matches!(result, Ok(true)));
        self.changed(result, expected, ts, key, value)?;
        if done {
            self.model.applied = ts;
            let forgotten = self.map().timestamps().forgotten;
            let is_held = self.viewed.is_some();
            if !is_held && before > 0 && forgotten != ts && self.map().get(key, ts - 1).is_ok_and(|old| old.is_some()) {
                return Err(format!("what a put replaced can be read, {forgotten} being forgotten"));
            }
            self.forget(if is_held { ts } else { forgotten });
        }
        Ok(())
    }

    /// Forgets in the model, as far as a view allows.
    fn forget(&mut self, up_to: Ts) {
        let held = self.viewed.as_mut().map_or(Ts::MAX, |(at, wanted)| {
            *wanted = up_to.max(*wanted);
            *at
        });
        self.model.forget(up_to.min(held));
    }

    /// Holds a view. What it shows stays, whatever is forgotten.
    fn view(&mut self, below: i8, meanwhile: &[Operation]) -> Result<(), String> {
        let map = self.map();
        let at = Operation::step(self.model.applied, -below);
        let seen = |view: &View<'_>| view.scan((Unbounded, Unbounded)).and_then(collect);
        let (view, before) = match map.view(at).and_then(|view| seen(&view).map(|before| (view, before))) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::Forgotten && at < self.model.forgotten => return Ok(()),
            Err(error) => return Err(format!("a view at {at}: {error}")),
        };
        self.viewed = Some((at, 0));
        for operation in meanwhile {
            self.one(operation).map_err(|what| format!("{operation:?} while a view is held: {what}"))?;
        }
        if at <= self.model.applied {
            let after = seen(&view).map_err(|error| format!("a view at {at} held meanwhile: {error}"))?;
            let model = self.model.scan(at);
            let same = after.iter().map(|(key, value, ts)| (&key[..], &value[..], *ts)).eq(model.iter().copied());
            if !same || below >= 0 && before != after {
                return Err(format!("a view at {at} shows {} keys, before {}", after.len(), before.len()));
            }
        }
        drop(view);
        // Puts leave a part of a backlog to those that follow.
        if let Some((_, wanted)) = self.viewed.take().filter(|(_, wanted)| *wanted > self.model.forgotten) {
            self.model.forget(wanted);
        }
        Ok(())
    }

    /// Notes that every state so far is durable.
    fn persisted(&mut self) {
        self.history.durable = self.history.note(&self.model);
    }

    fn hold(&mut self, bytes_max: usize, meanwhile: &[Operation]) -> Result<(), String> {
        let map = self.map();
        let snapshot = map.snapshot().map_err(|error| format!("taking a snapshot: {error}"))?;
        self.persisted();
        let model = self.model.clone();
        for operation in meanwhile {
            self.one(operation).map_err(|what| format!("{operation:?} while a snapshot is held: {what}"))?;
            if matches!(operation, Operation::Collect) && map.collect().map_err(|error| error.to_string())? != 0 {
                return Err("something is collected while a snapshot is held".to_owned());
            }
        }
        // Every third chunk by a stream that goes on where the last one stood.
        let (mut chunks, mut stream) = (Vec::new(), snapshot.chunks(bytes_max));
        while let Some(chunk) = stream.next() {
            chunks.push(chunk.map_err(|error| format!("streaming: {error}"))?);
            if chunks.len() % 3 == 0 {
                stream = snapshot.resume(&stream.position(), bytes_max);
            }
        }
        if let Some(chunk) = chunks.iter().find(|chunk| chunk.len() > bytes_max) {
            return Err(format!("a chunk of {} bytes instead of {bytes_max}", chunk.len()));
        }
        for kind in [self.setting.kind, other(self.setting.kind)] {
            let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
            let target = create(&medium, "target", kind, &layout(kind, 1 << 20), &quiet()).expect("there is room");
            load(&*target, &chunks).map_err(|error| format!("loading into a {kind}: {error}"))?;
            // A meta blob does not travel.
            let model = model.clone().with_meta(Vec::new());
            compare(&*target, &model)
                .and_then(|()| audit(&*target, &model))
                .map_err(|what| format!("{kind}: {what}"))?;
        }
        Ok(())
    }

    /// Loads the kept stream. An emptied map is loaded to the end afterwards, since it can do
    /// nothing else.
    fn load(&mut self, finish: bool, resets: bool) -> Result<(), String> {
        let map = self.map();
        let Some((chunks, model)) = self.kept.clone() else { return Ok(()) };
        let loaded = model.with_meta(self.model.meta.clone());
        let loader = if resets { map.reset_and_load() } else { map.load_snapshot() };
        let mut loader = loader.map_err(|error| error.to_string())?;
        if resets {
            self.model = Model::emptied(self.model.meta.clone());
            self.replaced();
        }
        let wanted = if finish { &chunks[..] } else { &chunks[..chunks.len() / 2] };
        let result = wanted.iter().try_for_each(|chunk| loader.push(chunk));
        let result = result.and_then(|()| if finish { loader.finish() } else { Ok(()) });
        match result {
            Ok(()) if finish => {
                self.model = loaded;
                self.replaced();
            }
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Full => {}
            Err(error) => return Err(format!("loading: {error}")),
        }
        if self.model.is_partial { self.load_partial() } else { Ok(()) }
    }

    /// Loads the kept stream into a map that was emptied for it.
    fn load_partial(&mut self) -> Result<(), String> {
        let map = self.map();
        compare(&**map, &self.model)?;
        let Some((chunks, model)) = self.kept.clone() else { return Err("an emptied map, but no load began".into()) };
        // Two sound loads: that of a reset has all room.
        let result = map.reset_and_load().and_then(|mut loader| {
            chunks.iter().try_for_each(|chunk| loader.push(chunk))?;
            loader.finish()
        });
        result.map_err(|error| format!("loading an emptied map: {error}"))?;
        self.model = model.with_meta(self.model.meta.clone());
        self.replaced();
        Ok(())
    }

    /// Notes that a load has put another content in place, durably. A second one may follow.
    fn replaced(&mut self) {
        self.history.recent.clear();
        self.persisted();
        trace::mark(power::payload(self.history.durable, self.history.states.len()));
    }

    /// Ends the process: every store survives, flushed or not.
    fn restart(&mut self) -> Result<(), String> {
        self.map = None;
        let image = self.medium.image();
        self.go_on_from(image, self.history.durable, self.history.states.len() - 1)
    }

    /// Checks some images that a power failure may leave, and continues from one of them.
    fn power_fails(&mut self, seed: u64) -> Result<(), String> {
        let trace = self.recorder.trace();
        self.map = None;
        let Some(crash) = power::explore(&self.setting, &trace, &self.history, seed)? else { return self.restart() };
        self.go_on_from(crash.image, crash.durable, crash.newest)
    }

    fn go_on_from(&mut self, image: Image, durable: usize, newest: usize) -> Result<(), String> {
        let model = power::find(&self.setting, image.clone(), &self.history, durable, newest)?;
        let kept = self.kept.take();
        *self = Run { kept, ..Run::open(self.setting, image, model)? };
        if self.model.is_partial {
            let _attached = trace::attach(self.recorder.clone());
            trace::mark(power::payload(self.history.durable, self.history.states.len()));
            self.load_partial()?;
        }
        Ok(())
    }

    /// Ends with a last power failure and a last comparison.
    fn end(mut self) -> Result<(), String> {
        let map = self.map();
        compare(&**map, &self.model).and_then(|()| audit(&**map, &self.model))?;
        drop(map);
        self.power_fails(self.history.states.len() as u64)
    }
}

/// Whether a call succeeded. It must if it is allowed, and must be refused for its timestamp if
/// not.
fn allowed(result: MapResult<()>, is_allowed: bool) -> Result<bool, String> {
    match result {
        Ok(()) if is_allowed => Ok(true),
        Err(error) if !is_allowed && error.kind() == ErrorKind::Timestamp => Ok(false),
        other => Err(format!("{other:?}, being allowed: {is_allowed}")),
    }
}
