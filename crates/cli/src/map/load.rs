//! `perdura map load`: puts the pairs of a dump into a map, and creates the map if there is none.

use super::arguments::Load;
use super::open::{config, create};
use super::outcome::{Failure, Outcome};
use super::pairs::Pairs;
use super::text;
use perdura_map::{ErrorKind, Kind, Layout, OrderedMap, Ts};
use perdura_pmem::Medium;
use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::sync::Arc;

/// Loads the dump. The pairs before a failure stay loaded.
pub fn run(medium: &Arc<dyn Medium>, name: &str, how: &Load) -> Outcome {
    let source: Box<dyn BufRead> = match &how.file {
        Some(path) => {
            let file = File::open(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
            Box::new(BufReader::new(file))
        }
        None => Box::new(stdin().lock()),
    };
    let mut pairs = if how.bare { Pairs::bare(source) } else { Pairs::with_header(source)? };
    let map = map(medium, name, how, &pairs)?;
    let (mut loaded, mut kept) = (0u64, 0u64);
    let outcome = loop {
        match put_next(&*map, &mut pairs, how.keep) {
            Ok(Some(true)) => loaded += 1,
            Ok(Some(false)) => kept += 1,
            Ok(None) => break Ok(()),
            Err(failure) => break Err(failure),
        }
    };
    map.persist()?;
    match outcome {
        Ok(()) => {
            let kept = if kept > 0 { format!(", {kept} were there already") } else { String::new() };
            eprintln!("{loaded} pairs loaded{kept}");
            Ok(())
        }
        Err(Failure { status, message }) => {
            Err(Failure { status, message: format!("{message}; the {loaded} pairs before it are loaded") })
        }
    }
}

/// Opens the map, or creates it as asked for, or else as the dump's header describes it.
fn map<R>(medium: &Arc<dyn Medium>, name: &str, how: &Load, pairs: &Pairs<R>) -> Outcome<Box<dyn OrderedMap>> {
    match perdura_map::open(medium, name, &config()) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        found => return Ok(found?),
    }
    let kind = how.kind.or(pairs.kind).unwrap_or(Kind::BTree);
    let bytes = how.bytes.or(pairs.bytes).ok_or_else(|| {
        Failure::new(format!("there is no map {name}, and the dump does not say how large to make it: use --bytes"))
    })?;
    create(medium, name, kind, &Layout::of(kind, bytes))
}

/// Puts the next pair. Returns whether it was put, or `None` at the end of the dump.
fn put_next<R: BufRead>(map: &dyn OrderedMap, pairs: &mut Pairs<R>, keep: bool) -> Outcome<Option<bool>> {
    let Some((key, value)) = pairs.next()? else { return Ok(None) };
    if keep && map.get(&key, Ts::MAX)?.is_some() {
        return Ok(Some(false));
    }
    map.put(&key, &value).map_err(|error| {
        let failure = Failure::from(error);
        let message = pairs.wrong(&format!("key {}: {}", text::printable(&key), failure.message)).message;
        Failure { message, ..failure }
    })?;
    Ok(Some(true))
}
