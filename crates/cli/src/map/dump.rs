//! `perdura map dump`: writes a map as mdb_dump writes a database.

use super::arguments::Dump;
use super::outcome::{Failure, Outcome, written};
use super::{show, text};
use perdura_map::OrderedMap;
use perdura_pmem::Medium;
use std::fs::File;
use std::io::{self, BufWriter, Write, stdout};
use std::ops::Bound;

/// Dumps the map to the file that `how` names, or to standard output.
pub fn run(medium: &dyn Medium, name: &str, map: &dyn OrderedMap, how: &Dump) -> Outcome {
    let bytes = show::file_bytes(medium, name)?;
    let Some(path) = &how.file else {
        return dump(map, bytes, how, &mut BufWriter::new(stdout().lock()), "standard output");
    };
    let target = path.display().to_string();
    let file = File::create(path).map_err(|error| Failure::new(format!("{target}: {error}")))?;
    dump(map, bytes, how, &mut BufWriter::new(file), &target)
}

fn dump(map: &dyn OrderedMap, bytes: u64, how: &Dump, out: &mut dyn Write, target: &str) -> Outcome {
    // A timestamp that cannot be read fails here, before anything is written.
    let mut scan = map.scan((Bound::Unbounded, Bound::Unbounded), how.at)?;
    let mut outcome = head(map, bytes, how, out);
    let mut line = Vec::new();
    while outcome.is_ok()
        && let Some(entry) = scan.advance()?
    {
        line.clear();
        for bytes in [entry.key, entry.value] {
            line.push(b' ');
            if how.printable {
                text::print(bytes, &mut line)
            } else {
                text::hex(bytes, &mut line)
            }
            line.push(b'\n');
        }
        outcome = out.write_all(&line);
    }
    written(outcome.and_then(|()| writeln!(out, "DATA=END")).and_then(|()| out.flush()), target)
}

/// The header. Other tools call ordered keys with one value each a btree, so both kinds of maps do
/// here.
fn head(map: &dyn OrderedMap, bytes: u64, how: &Dump, out: &mut dyn Write) -> io::Result<()> {
    let format = if how.printable { "print" } else { "bytevalue" };
    let kind = map.kind();
    writeln!(out, "VERSION=3\nformat={format}\ntype=btree\nmapsize={bytes}\nperdura_kind={kind}\nHEADER=END")
}
