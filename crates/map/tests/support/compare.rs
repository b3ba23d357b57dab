//! Compares a map with its model: all reads at all timestamps, the changes, the timestamps, the
//! space.

use super::model::Model;
use super::{Change, collect};
use perdura_map::{Error, ErrorKind, Mutation, OrderedMap, Ts};
use std::fmt;

/// An error of the map, as the reason for a failed comparison.
fn text(what: impl fmt::Display) -> impl FnOnce(Error) -> String {
    move |error| format!("{what}: {:?}: {error}", error.kind())
}

/// Bytes, shortened for a message.
pub fn brief(bytes: &[u8]) -> String {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(12)]).into_owned();
    format!("{head:?} ({} bytes)", bytes.len())
}

/// Compares a map with its model. The error says what differs.
pub fn compare(map: &dyn OrderedMap, model: &Model) -> Result<(), String> {
    let seen = map.timestamps();
    let (seen, wanted) = ((seen.last, seen.applied, seen.forgotten), (model.last, model.applied, model.forgotten));
    if seen != wanted {
        return Err(format!("(last, applied, forgotten) {seen:?} instead of {wanted:?}"));
    }
    if map.meta() != model.meta {
        return Err(format!("the meta blob is {} instead of {}", brief(&map.meta()), brief(&model.meta)));
    }
    if model.is_partial {
        return compare_partial(map);
    }
    let (keys, times) = model.interesting();
    for at in times {
        compare_scan(map, model, at)?;
        for key in &keys {
            compare_get(map, model, key, at)?;
        }
    }
    if let Some(at) = model.forgotten.checked_sub(1) {
        for result in [
            map.get(b"any", at).map(drop),
            map.prefix(b"", at).map(drop),
            map.scan((std::ops::Bound::Unbounded, std::ops::Bound::Unbounded), at).map(drop),
        ] {
            match result {
                Err(error) if error.kind() == ErrorKind::Forgotten => {}
                other => return Err(format!("a read at {at}, below what is forgotten: {other:?}")),
            }
        }
    }
    compare_mutations(map, model, 0)?;
    compare_mutations(map, model, model.applied.saturating_add(1))
}

/// Checks that a map that was emptied for a load says so.
fn compare_partial(map: &dyn OrderedMap) -> Result<(), String> {
    for result in [
        map.get(b"any", Ts::MAX).map(drop),
        map.prefix(b"", Ts::MAX).map(drop),
        map.view(Ts::MAX - 1).map(drop),
        map.snapshot().map(drop),
    ] {
        match result {
            Err(error) if error.kind() == ErrorKind::Partial => {}
            other => return Err(format!("of a map that was emptied for a load: {other:?}")),
        }
    }
    Ok(())
}

fn compare_get(map: &dyn OrderedMap, model: &Model, key: &[u8], at: Ts) -> Result<(), String> {
    let seen = map.get(key, at).map_err(text(format_args!("get {} at {at}", brief(key))))?;
    let wanted = model.get(key, at).map(|(value, _)| value);
    if seen.as_deref() == wanted {
        return Ok(());
    }
    let [seen, wanted] = [seen.as_deref(), wanted].map(|value| value.map(brief));
    Err(format!("get {} at {at}: {seen:?} instead of {wanted:?}", brief(key)))
}

fn compare_scan(map: &dyn OrderedMap, model: &Model, at: Ts) -> Result<(), String> {
    let seen = map.prefix(b"", at).and_then(collect).map_err(text(format_args!("scan at {at}")))?;
    let wanted = model.scan(at);
    if seen.iter().map(|(key, value, ts)| (&key[..], &value[..], *ts)).eq(wanted.iter().copied()) {
        return Ok(());
    }
    let show = |(key, value, ts): (&[u8], &[u8], Ts)| format!("{} = {} @{ts}", brief(key), brief(value));
    let seen: Vec<String> = seen.iter().map(|(key, value, ts)| show((key, value, *ts))).collect();
    let wanted: Vec<String> = wanted.into_iter().map(show).collect();
    Err(format!("scan at {at}: {seen:?} instead of {wanted:?}"))
}

/// Compares the changes from `from` on, by timestamp. Where a key was changed twice at one
/// timestamp, the map may list the first change as well.
fn compare_mutations(map: &dyn OrderedMap, model: &Model, from: Ts) -> Result<(), String> {
    let (mut seen, mut tags): (Vec<Change>, Vec<(Ts, Vec<u8>)>) = (Vec::new(), Vec::new());
    let each = &mut |mutation: Mutation<'_>| {
        if let Some(tag) = mutation.tag {
            // Of several tags of a timestamp the last counts.
            tags.retain(|(ts, _)| *ts != mutation.ts);
            tags.push((mutation.ts, tag.to_vec()));
            return true;
        }
        seen.retain(|(ts, key, _)| (*ts, &key[..]) != (mutation.ts, mutation.key));
        seen.push((mutation.ts, mutation.key.to_vec(), mutation.value.map(<[u8]>::to_vec)));
        true
    };
    map.mutations(from, each).map_err(text(format_args!("changes from {from}")))?;
    let (mut kept, forgotten) = model.tags();
    kept.retain(|(ts, _)| *ts >= from);
    if (&tags, map.forgotten_tag()) != (&kept, forgotten.clone()) {
        return Err(format!("tags from {from}: {tags:?} instead of {kept:?} after {forgotten:?}"));
    }
    if !seen.is_sorted_by_key(|(ts, _, _)| *ts) {
        return Err(format!("changes from {from} are not in the order of their timestamps"));
    }
    let mut wanted = model.mutations(from);
    seen.sort();
    wanted.sort();
    if seen.iter().map(|(ts, key, value)| (*ts, &key[..], value.as_deref())).eq(wanted.iter().copied()) {
        return Ok(());
    }
    let show = |(ts, key, value): (Ts, &[u8], Option<&[u8]>)| format!("@{ts} {} = {:?}", brief(key), value.map(brief));
    let seen: Vec<String> = seen.iter().map(|(ts, key, value)| show((*ts, key, value.as_deref()))).collect();
    let wanted: Vec<String> = wanted.into_iter().map(show).collect();
    Err(format!("changes from {from}: {seen:?} instead of {wanted:?}"))
}

/// Audits the map itself: checksums, order, links, the number of versions, space. The error says
/// what is wrong.
pub fn audit(map: &dyn OrderedMap, model: &Model) -> Result<(), String> {
    if model.is_partial {
        return audit_space(map);
    }
    let found = map.check().map_err(text("check"))?;
    if found != model.version_count() {
        return Err(format!("the check found {found} versions instead of {}", model.version_count()));
    }
    audit_space(map)
}

/// Checks the space report. The error says what is wrong.
pub fn audit_space(map: &dyn OrderedMap) -> Result<(), String> {
    let space = map.space();
    let whole = space.used + space.free == space.total && space.live + space.garbage == space.used;
    let run = space.free_run_max <= space.free && (space.free <= space.reserved || space.free_run_max > 0);
    let fragmentation = (0.0..=1.0).contains(&space.fragmentation());
    if whole && run && fragmentation { Ok(()) } else { Err(format!("space does not add up: {space:?}")) }
}
