//! `perdura map info`, `check`, `get` and `scan`: prints what is in a map, for people and for
//! scripts.

use super::arguments::Range;
use super::outcome::{Outcome, absent, written};
use super::text;
use perdura_map::{ErrorKind, OrderedMap, Ts};
use perdura_pmem::Medium;
use std::io::{BufWriter, IsTerminal, Write, stdout};
use std::ops::Bound;

/// Bytes of the map's file.
pub fn file_bytes(medium: &dyn Medium, name: &str) -> Outcome<u64> {
    let files = medium.list().map_err(perdura_map::Error::from)?;
    Ok(files.into_iter().find(|(found, _)| found == name).map_or(0, |(_, bytes)| bytes))
}

/// Counts keys with a value, bytes of keys, and bytes of values.
fn count(map: &dyn OrderedMap) -> Outcome<String> {
    let (mut keys, mut key_bytes, mut value_bytes) = (0, 0, 0);
    let mut scan = match map.scan((Bound::Unbounded, Bound::Unbounded), Ts::MAX) {
        Err(error) if error.kind() == ErrorKind::Partial => {
            return Ok("emptied for a load that did not end; load a snapshot".into());
        }
        scan => scan?,
    };
    while let Some(entry) = scan.advance()? {
        keys += 1;
        key_bytes += entry.key.len() as u64;
        value_bytes += entry.value.len() as u64;
    }
    Ok(format!("{keys} with a value, {key_bytes} bytes of keys, {value_bytes} bytes of values"))
}

/// Prints kind, timestamps, keys and space.
pub fn info(medium: &dyn Medium, name: &str, map: &dyn OrderedMap) -> Outcome {
    let keys = count(map)?;
    let tag = match map.forgotten_tag() {
        Some((ts, tag)) => format!("{} at {ts}", text::printable(&tag)),
        None => "none".into(),
    };
    let (at, space, bytes) = (map.timestamps(), map.space(), file_bytes(medium, name)?);
    let exact = if space.exact { "" } else { " (garbage is not counted yet)" };
    let lines = [
        format!("map {name}: {}, {bytes} bytes", map.kind()),
        format!("  medium: {}", medium.info()),
        format!("  keys: {keys}"),
        format!(
            "  timestamps: last {}, applied {}, forgotten {}, persisted {}",
            at.last, at.applied, at.forgotten, at.persisted
        ),
        format!("  newest forgotten tag: {tag}; meta blob: {} bytes", map.meta().len()),
        format!("  pages: {} bytes, {} used, {} free", space.total, space.used, space.free),
        format!("  in used pages: {} bytes live, {} garbage{exact}", space.live, space.garbage),
        format!("  longest free run: {} bytes, fragmentation {:.2}", space.free_run_max, space.fragmentation()),
    ];
    written(writeln!(stdout(), "{}", lines.join("\n")), "standard output")
}

/// Verifies the map; fails at the first damage.
pub fn check(map: &dyn OrderedMap) -> Outcome {
    let versions = map.check()?;
    written(writeln!(stdout(), "{versions} versions; the map is sound"), "standard output")
}

/// Prints a value.
pub fn get(map: &dyn OrderedMap, key: &[u8], at: Ts, hex: bool) -> Outcome {
    bytes(&map.get(key, at)?.ok_or_else(|| absent(key))?, hex)
}

/// Prints bytes. A line end follows them on a terminal only.
pub fn bytes(value: &[u8], hex: bool) -> Outcome {
    let mut out = stdout().lock();
    let mut shown = Vec::new();
    if hex {
        text::hex(value, &mut shown)
    } else {
        shown.extend_from_slice(value)
    }
    if hex || out.is_terminal() {
        shown.push(b'\n');
    }
    written(out.write_all(&shown).and_then(|()| out.flush()), "standard output")
}

/// Prints keys and values with a tab between them, in hexadecimal or as db_dump -p does.
pub fn scan(map: &dyn OrderedMap, range: &Range, hex: bool) -> Outcome {
    let mut scan = match &range.prefix {
        Some(prefix) => map.prefix(prefix, range.at)?,
        None => {
            let from = range.from.as_deref().map_or(Bound::Unbounded, Bound::Included);
            let to = range.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            map.scan((from, to), range.at)?
        }
    };
    let encode = if hex { text::hex } else { text::print };
    let mut out = BufWriter::new(stdout().lock());
    let mut line = Vec::new();
    let mut outcome = Ok(());
    for _ in 0..range.limit {
        let Some(entry) = scan.advance()? else { break };
        line.clear();
        encode(entry.key, &mut line);
        line.push(b'\t');
        encode(entry.value, &mut line);
        line.push(b'\n');
        outcome = out.write_all(&line);
        if outcome.is_err() {
            break;
        }
    }
    written(outcome.and_then(|()| out.flush()), "standard output")
}

/// Prints the changes and tags from a timestamp on that are not forgotten, oldest first.
pub fn mutations(map: &dyn OrderedMap, from: Ts, hex: bool) -> Outcome {
    let encode = if hex { text::hex } else { text::print };
    let mut out = BufWriter::new(stdout().lock());
    let mut line = Vec::new();
    let mut outcome = Ok(());
    map.mutations(from, &mut |mutation| {
        line.clear();
        let (what, parts) = match (mutation.tag, mutation.value) {
            (Some(tag), _) => ("tag", [Some(tag), None]),
            (None, Some(value)) => ("set", [Some(mutation.key), Some(value)]),
            (None, None) => ("delete", [Some(mutation.key), None]),
        };
        line.extend(format!("{}\t{what}", mutation.ts).as_bytes());
        for part in parts.into_iter().flatten() {
            line.push(b'\t');
            encode(part, &mut line);
        }
        line.push(b'\n');
        outcome = out.write_all(&line);
        outcome.is_ok()
    })?;
    written(outcome.and_then(|()| out.flush()), "standard output")
}
