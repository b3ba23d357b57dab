//! `perdura map batch`: makes several changes at one timestamp, all or none.

use super::outcome::{Failure, Outcome};
use super::text;
use perdura_map::{KeyChange, OrderedMap};
use std::fs;
use std::io::{self, Read, stdin};
use std::path::Path;

/// Most bytes of the lines. They are held in memory until all are read.
const LINES_BYTES_MAX: u64 = 256 << 20;

/// Reads the changes from `file`, or from standard input, makes and applies them at the next
/// timestamp, and persists.
pub fn run(map: &dyn OrderedMap, tag: &[u8], file: Option<&Path>, hex: bool) -> Outcome {
    let lines = match file {
        Some(path) => read(fs::File::open(path), &path.display().to_string())?,
        None => read(Ok(stdin().lock()), "standard input")?,
    };
    let mut changes = Vec::new();
    for (number, line) in lines.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        let change = change(line, hex);
        changes.push(change.ok_or_else(|| {
            let number = number + 1;
            Failure::new(format!(
                "line {number}: neither set, a key and a value nor delete and a key, with tabs between"
            ))
        })?);
    }
    let changes: Vec<KeyChange<'_>> =
        changes.iter().map(|(key, value)| KeyChange { key, value: value.as_deref() }).collect();
    let ts = map.timestamps().last + 1;
    map.batch(ts, tag, &changes)?;
    map.apply(ts)?;
    map.forget(ts)?;
    Ok(map.persist()?)
}

fn read(source: io::Result<impl Read>, name: &str) -> Outcome<Vec<u8>> {
    let mut lines = Vec::new();
    let read = source.and_then(|source| source.take(LINES_BYTES_MAX + 1).read_to_end(&mut lines));
    read.map_err(|error| Failure::new(format!("{name}: {error}")))?;
    if lines.len() as u64 > LINES_BYTES_MAX {
        return Err(Failure::new(format!(
            "{name}: more than {LINES_BYTES_MAX} bytes; make several batches, or use load"
        )));
    }
    Ok(lines)
}

/// The key that a line changes, and its new value.
fn change(line: &[u8], hex: bool) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let decode = if hex { text::unhex } else { text::unprint };
    let mut parts = line.split(|byte| *byte == b'\t');
    let change = match (parts.next()?, parts.next()?, parts.next()) {
        (b"set", key, Some(value)) => (decode(key)?, Some(decode(value)?)),
        (b"delete", key, None) => (decode(key)?, None),
        _ => return None,
    };
    parts.next().is_none().then_some(change)
}
