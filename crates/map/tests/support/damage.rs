//! A small map at rest to be damaged, and the judgement whether damage went unnoticed.
//!
//! Damage may be found or be harmless. It must not cause a panic or a wrong answer.

use super::model::Model;
use super::{Change, collect, create, quiet, quiet_every, tiny_layout};
use perdura_map::{ErrorKind, Kind, OrderedMap, Ts};
use perdura_pmem::sim::Image;
use perdura_pmem::{Medium, SimMedium};
use std::ops::Bound::{Excluded, Included};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub const NAME: &str = "map";

/// A map at rest, and what it must answer.
pub struct Subject {
    pub kind: Kind,
    /// The bytes of its file.
    pub bytes: Vec<u8>,
    pub model: Model,
}

/// The outcome of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An error from opening, a read or the audit.
    Found,
    /// Every answer was right.
    Harmless,
}

/// A map of several pages with versions, deletions, long keys and values, forgotten and unapplied
/// changes, which was collected and reopened in between.
pub fn subject(kind: Kind) -> Subject {
    let medium = Arc::new(SimMedium::new());
    let shared: Arc<dyn Medium> = medium.clone();
    let mut model = Model::default();
    let map = create(&shared, NAME, kind, &tiny_layout(48 << 10), &quiet_every(3)).expect("there is room");
    fill(&*map, &mut model, 1..40);
    map.apply(30).expect("it is there");
    model.applied = 30;
    map.forget(25).expect("it is applied");
    model.forget(25);
    super::collect_all(&*map);
    drop(map);
    let map = perdura_map::open(&shared, NAME, &quiet()).expect("it opens");
    fill(&*map, &mut model, 40..55);
    map.persist().expect("persisted");
    drop(map);
    let bytes = medium.image().bytes_of(NAME).expect("it exists");
    Subject { kind, bytes, model }
}

fn fill(map: &dyn OrderedMap, model: &mut Model, times: std::ops::Range<Ts>) {
    for ts in times {
        let key = match ts % 9 {
            0 => Vec::new(),
            1 => vec![b'l'; 150],
            n => vec![b'k', n as u8],
        };
        let value = vec![ts as u8; (ts * 37 % 150) as usize];
        if ts % 7 == 3 && model.newest(&key).is_some() {
            assert!(map.delete(ts, &key).expect("there is room"));
            model.change(ts, &key, None);
        } else {
            map.set(ts, &key, &value).expect("there is room");
            model.change(ts, &key, Some(&value));
        }
    }
}

/// Whether damage may cause an error of this kind.
fn tells_damage(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Damaged | ErrorKind::Foreign | ErrorKind::Version)
}

/// Opens a file of these bytes, reads and audits it, and changes it if `changes`. The error says
/// which rule was broken.
pub fn judge(subject: &Subject, bytes: &[u8], changes: bool) -> Result<Verdict, String> {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(Image::from_files([(NAME, bytes)])));
    let judged = catch_unwind(AssertUnwindSafe(|| {
        let map = match perdura_map::open(&medium, NAME, &quiet()) {
            Ok(map) => map,
            Err(error) if tells_damage(error.kind()) => return Ok(Verdict::Found),
            Err(error) => return Err(format!("opening: {:?}: {error}", error.kind())),
        };
        let mut judge = Judge { map: &*map, found: false };
        judge.read_all(&subject.model)?;
        judge.check(subject.model.version_count())?;
        if changes {
            judge.change(subject.model.clone())?;
        }
        Ok(if judge.found { Verdict::Found } else { Verdict::Harmless })
    }));
    judged.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        Err(format!(
            "a panic: {}",
            text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
        ))
    })
}

struct Judge<'a> {
    map: &'a dyn OrderedMap,
    found: bool,
}

impl Judge<'_> {
    /// The answer, or none if it was refused as damage may be.
    fn answer<T>(&mut self, what: &str, result: perdura_map::Result<T>) -> Result<Option<T>, String> {
        match result {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if tells_damage(error.kind()) => {
                self.found = true;
                Ok(None)
            }
            Err(error) => Err(format!("{what}: {:?}: {error}", error.kind())),
        }
    }

    fn read_all(&mut self, model: &Model) -> Result<(), String> {
        let seen = self.map.timestamps();
        if (seen.last, seen.applied, seen.forgotten) != (model.last, model.applied, model.forgotten) {
            return Err(format!("{seen:?} instead of {} {} {}", model.last, model.applied, model.forgotten));
        }
        let (keys, _) = model.interesting();
        for at in [model.forgotten, model.applied, model.last - 3, Ts::MAX] {
            for key in &keys {
                let answer = self.map.get(key, at).map(|value| value.map(|value| value.to_vec()));
                let Some(seen) = self.answer("a read", answer)? else { continue };
                if seen.as_deref() != model.get(key, at).map(|(value, _)| value) {
                    return Err(format!("get {key:?} at {at}: {seen:?}"));
                }
            }
            let scan = self.map.prefix(b"", at).and_then(collect);
            let Some(seen) = self.answer("a scan", scan)? else { continue };
            let seen: Vec<_> = seen.iter().map(|(key, value, ts)| (&key[..], &value[..], *ts)).collect();
            if seen != model.scan(at) {
                return Err(format!("scan at {at}: {seen:?}"));
            }
        }
        let middle = self.map.scan((Excluded(b"k\x03"), Included(b"k\x06")), Ts::MAX).and_then(collect);
        if let Some(seen) = self.answer("a scan", middle)? {
            let within = |key: &[u8]| key > &b"k\x03"[..] && key <= &b"k\x06"[..];
            if !seen.iter().map(|(key, _, _)| &key[..]).eq(model
                .scan(Ts::MAX)
                .iter()
                .map(|seen| seen.0)
                .filter(|key| within(key)))
            {
                return Err(format!("scan of the middle: {seen:?}"));
            }
        }
        let changes = self.changes();
        if let Some(seen) = self.answer("the changes", changes)? {
            let wanted = model.mutations(0);
            if !seen.iter().map(|(ts, key, value)| (*ts, &key[..], value.as_deref())).eq(wanted) {
                return Err(format!("changes: {seen:?}"));
            }
        }
        Ok(())
    }

    fn changes(&self) -> perdura_map::Result<Vec<Change>> {
        let mut seen = Vec::new();
        self.map.mutations(0, &mut |mutation| {
            seen.push((mutation.ts, mutation.key.to_vec(), mutation.value.map(<[u8]>::to_vec)));
            true
        })?;
        Ok(seen)
    }

    fn check(&mut self, versions: u64) -> Result<(), String> {
        let result = self.map.check();
        match self.answer("the check", result)? {
            Some(count) if count != versions => Err(format!("the check counts {count} versions instead of {versions}")),
            _ => Ok(()),
        }
    }

    /// Changes succeed or are refused. Neither makes an answer wrong.
    fn change(&mut self, mut model: Model) -> Result<(), String> {
        for round in 0..12u64 {
            let (ts, key) = (model.last + 1, vec![b'k', (round % 10) as u8]);
            let set = self.map.set(ts, &key, &[round as u8; 90]);
            if error_is_full(&set) {
                break;
            }
            if self.answer("a change", set)?.is_none() {
                break;
            }
            model.change(ts, &key, Some(&[round as u8; 90]));
            if round % 4 == 3 {
                let persisted = self.map.persist();
                self.answer("a persist", persisted)?;
                let collected = self.map.collect();
                self.answer("a collection", collected)?;
            }
        }
        self.read_all(&model).map_err(|what| format!("after changes: {what}"))
    }
}

fn error_is_full<T>(result: &perdura_map::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full)
}
