//! The model of a damaged map, and the comparison of the two.

use perdura_map::{ErrorKind, KeyChange, OrderedMap, Result, TAG_BYTES_MAX, Timestamps, Ts};
use std::collections::BTreeMap;
use std::ops::Bound;

/// More entries than any map here has: a scan that yields more does not end.
const ENTRIES_MAX: usize = 100_000;

/// Versions by key and timestamp; none is a deletion.
#[derive(Clone, Default)]
pub struct Model {
    pub versions: BTreeMap<(Vec<u8>, Ts), Option<Vec<u8>>>,
    pub stands: Timestamps,
}

impl Model {
    pub fn get(&self, key: &[u8], at: Ts) -> Option<&Vec<u8>> {
        let range = (Bound::Included((key.to_vec(), 0)), Bound::Included((key.to_vec(), at)));
        self.versions.range(range).next_back().and_then(|(_, value)| value.as_ref())
    }

    /// Keys with a value at `at`.
    fn entries(&self, at: Ts) -> Vec<(&[u8], &[u8])> {
        let mut keys: Vec<&[u8]> = self.versions.keys().map(|(key, _)| key.as_slice()).collect();
        keys.dedup();
        keys.into_iter().filter_map(|key| Some((key, self.get(key, at)?.as_slice()))).collect()
    }

    pub fn set(&mut self, ts: Ts, key: &[u8], value: Option<&[u8]>) {
        self.versions.insert((key.to_vec(), ts), value.map(<[u8]>::to_vec));
        self.stands.last = ts;
    }
}

/// Reads all of `map` in every way there is. With a model, whatever is read must match it. Returns
/// the number of errors.
pub fn read_all(map: &dyn OrderedMap, model: Option<&Model>) -> usize {
    let mut errors = 0;
    let stands = map.timestamps();
    let mut moments = vec![stands.forgotten, stands.applied, stands.last, Ts::MAX];
    moments.extend(model.iter().flat_map(|model| model.versions.keys().map(|(_, ts)| *ts)));
    moments.retain(|at| *at >= stands.forgotten);
    moments.sort_unstable();
    moments.dedup();
    for at in moments.into_iter().take(20) {
        errors += scan(map, model, at);
        if let Some(model) = model {
            errors += model.versions.keys().filter(|(key, _)| get(map, model, key, at).is_err()).count();
        }
    }
    errors += usize::from(mutations(map, model).is_err());
    errors
}

fn get(map: &dyn OrderedMap, model: &Model, key: &[u8], at: Ts) -> Result<()> {
    let found = map.get(key, at)?;
    let expected = model.get(key, at);
    assert!(found.as_deref() == expected.map(Vec::as_slice), "{key:x?} at {at}: read something else than was written");
    Ok(())
}

/// Scans everything in two ways. Returns the number of errors.
fn scan(map: &dyn OrderedMap, model: Option<&Model>, at: Ts) -> usize {
    let mut errors = 0;
    for prefix in [&b""[..], b"k"] {
        let begun =
            if prefix.is_empty() { map.scan((Bound::Unbounded, Bound::Unbounded), at) } else { map.prefix(prefix, at) };
        let Ok(mut scan) = begun else {
            errors += 1;
            continue;
        };
        let expected = model.map(|model| {
            let entries = model.entries(at).into_iter();
            entries.filter(|(key, _)| key.starts_with(prefix)).collect::<Vec<_>>()
        });
        let mut count = 0;
        loop {
            match scan.advance() {
                Ok(Some(entry)) => {
                    if let Some(expected) = &expected {
                        let expected = expected.get(count).copied();
                        assert!(
                            expected == Some((entry.key, entry.value)),
                            "a scan at {at} gave {:x?}, not {expected:x?}",
                            (entry.key, entry.value, entry.ts)
                        );
                    }
                    count += 1;
                    assert!(count < ENTRIES_MAX, "a scan does not end");
                }
                Ok(None) => {
                    assert!(expected.is_none_or(|expected| expected.len() == count), "a scan at {at} ended too early");
                    break;
                }
                Err(_) => {
                    errors += 1;
                    break;
                }
            }
        }
    }
    errors
}

fn mutations(map: &dyn OrderedMap, model: Option<&Model>) -> Result<()> {
    let forgotten = map.timestamps().forgotten;
    let (mut count, mut newer) = (0, 0);
    map.mutations(0, &mut |mutation| {
        count += 1;
        if mutation.tag.is_some() {
            return count < ENTRIES_MAX;
        }
        newer += usize::from(mutation.ts > forgotten);
        if let Some(model) = model {
            let kept = model.versions.get(&(mutation.key.to_vec(), mutation.ts));
            assert!(kept.map(Option::as_deref) == Some(mutation.value), "a mutation is not what was changed");
        }
        count < ENTRIES_MAX
    })?;
    assert!(count < ENTRIES_MAX, "mutations do not end");
    if let Some(model) = model {
        let expected = model.versions.keys().filter(|(_, ts)| *ts > forgotten).count();
        assert_eq!(newer, expected, "mutations after {forgotten} are missing");
    }
    Ok(())
}

/// Changes a map in every way there is, as far as it allows. With a model, what the map accepted is
/// there afterwards.
pub fn write_all(map: &dyn OrderedMap, model: Option<&mut Model>) {
    let mut unwatched = Model { stands: map.timestamps(), ..Model::default() };
    let watched = model.is_some();
    let model = model.unwrap_or(&mut unwatched);
    let mut ts = map.timestamps().last;
    for number in 0..12u8 {
        let Some(next) = ts.checked_add(1) else { return };
        let (key, value) = ([b'k', number], vec![number; usize::from(number) * 40]);
        match map.set(next, &key, &value) {
            Ok(()) => model.set(next, &key, Some(&value)),
            Err(error) => refused(error.kind()),
        }
        match map.delete(next, &[b'k', number, b'x']) {
            Ok(deleted) if deleted => model.set(next, &[b'k', number, b'x'], None),
            Ok(_) => {}
            Err(error) => refused(error.kind()),
        }
        let pair = [[b'k', number, b'y'], [b'k', number, b'z']];
        let changes = pair.each_ref().map(|key| KeyChange { key, value: Some(&value) });
        match map.batch(next, &value[..value.len().min(TAG_BYTES_MAX)], &changes) {
            Ok(()) => pair.iter().for_each(|key| model.set(next, key, Some(&value))),
            Err(error) => refused(error.kind()),
        }
        ts = map.timestamps().last;
    }
    if map.set_meta(b"term").is_ok() {
        assert_eq!(map.meta(), b"term");
    }
    let _ = (map.forgotten_tag(), map.view(ts).and_then(|view| view.get(b"k").map(|found| found.is_some())));
    let persisted = map.persist().is_ok();
    if watched && persisted {
        read_all(map, Some(model));
    }
    if map.apply(ts).is_ok() && map.forget(ts).is_ok() {
        model.stands.forgotten = ts;
    }
    let _ = (map.persist(), map.collect(), map.collect());
    if let Some(next) = ts.checked_add(1)
        && map.set(next, b"k taken back", b"").is_ok()
    {
        match map.rollback(next) {
            Ok(()) => {}
            Err(error) => {
                refused(error.kind());
                model.set(next, b"k taken back", Some(b""));
            }
        }
    }
    if watched {
        read_all(map, Some(model));
    }
}

/// The kinds of error that damage may cause. The arguments are valid, so they cause none.
fn refused(kind: ErrorKind) {
    let expected = matches!(kind, ErrorKind::Damaged | ErrorKind::Full | ErrorKind::ReadOnly | ErrorKind::Medium);
    assert!(expected, "a right change was refused as {kind:?}");
}
