//! Reads keys and values from the text that mdb_dump and db_dump write.
//!
//! A dump has a header of `name=value` lines from VERSION=3 to HEADER=END. Lines of key and value
//! follow in turn, each after a space, until DATA=END. A bare dump has only these lines, without
//! the space, and ends with the file.

use super::outcome::{Failure, Outcome};
use super::text;
use perdura_map::Kind;
use std::io::BufRead;

/// Key and value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A dump being read.
pub struct Pairs<R> {
    source: R,
    line: u64,
    decode: fn(&[u8]) -> Option<Vec<u8>>,
    bare: bool,
    /// Kind of the dumped map, if the header says it.
    pub kind: Option<Kind>,
    /// Bytes of the dumped map, if the header says it.
    pub bytes: Option<u64>,
}

impl<R: BufRead> Pairs<R> {
    /// A dump without a header.
    pub fn bare(source: R) -> Pairs<R> {
        Pairs { source, line: 0, decode: text::unprint, bare: true, kind: None, bytes: None }
    }

    /// Reads the header.
    pub fn with_header(source: R) -> Outcome<Pairs<R>> {
        let mut pairs = Pairs { source, line: 0, decode: text::unhex, bare: false, kind: None, bytes: None };
        let mut version = false;
        loop {
            let line = pairs.next_line()?.ok_or_else(|| pairs.wrong("the header does not end"))?;
            let line = String::from_utf8_lossy(&line).into_owned();
            match line.split_once('=') {
                Some(("VERSION", "3")) => version = true,
                _ if !version => {
                    return Err(pairs.wrong("this is no dump: VERSION=3 is missing; use -T for bare lines"));
                }
                Some(("HEADER", "END")) => return Ok(pairs),
                Some((name, value)) => pairs.heed(name, value)?,
                None => return Err(pairs.wrong("a line of the header without '='")),
            }
        }
    }

    fn heed(&mut self, name: &str, value: &str) -> Outcome {
        match (name, value) {
            ("format", "bytevalue") => self.decode = text::unhex,
            ("format", "print") => self.decode = text::unprint,
            ("type", "btree" | "hash") => {}
            ("format" | "type" | "VERSION", _) => return Err(self.wrong(&format!("{name}={value} is not understood"))),
            ("duplicates" | "dupsort", "1") => return Err(self.wrong("keys with several values do not fit a map")),
            ("keys", "0") => return Err(self.wrong("a dump without keys does not fit a map")),
            ("mapsize", _) => self.bytes = value.parse().ok(),
            ("perdura_kind", _) => self.kind = text::kind(value),
            _ => {}
        }
        Ok(())
    }

    /// The next pair, or `None` at the end.
    pub fn next(&mut self) -> Outcome<Option<Pair>> {
        let Some(key) = self.next_line()? else {
            return if self.bare { Ok(None) } else { Err(self.wrong("the dump is cut off: DATA=END is missing")) };
        };
        if !self.bare && key == b"DATA=END" {
            if self.next_line()?.is_some() {
                return Err(self.wrong("something follows DATA=END: load one database at a time"));
            }
            return Ok(None);
        }
        let key = self.content(&key)?;
        let value = self.next_line()?.ok_or_else(|| self.wrong("the last key has no value"))?;
        Ok(Some((key, self.content(&value)?)))
    }

    fn content(&self, line: &[u8]) -> Outcome<Vec<u8>> {
        let text = if self.bare { Some(line) } else { line.strip_prefix(b" ") };
        text.and_then(self.decode).ok_or_else(|| self.wrong("not a key or value in the dump's format"))
    }

    /// The next line without its end.
    fn next_line(&mut self) -> Outcome<Option<Vec<u8>>> {
        let mut line = Vec::new();
        self.source.read_until(b'\n', &mut line).map_err(|error| self.wrong(&format!("cannot be read: {error}")))?;
        if line.is_empty() {
            return Ok(None);
        }
        self.line += 1;
        line.pop_if(|byte| *byte == b'\n');
        Ok(Some(line))
    }

    /// A failure that names the line read last.
    pub fn wrong(&self, what: &str) -> Failure {
        Failure::new(format!("line {}: {what}", self.line))
    }
}
