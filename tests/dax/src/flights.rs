//! The table of flights: lines of a CSV file, by number in a unique index and by carrier in
//! another.

use perdura_engine::{Direction, Engine, ErrorKind, IndexDefinition, Isolation, Key, ReadView, Session, Table};
use std::error::Error;
use std::io::Write;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Lines of one transaction.
const BATCH: usize = 50;
const BY_NUMBER: usize = 0;
const BY_CARRIER: usize = 1;
/// Column of the carrier.
const CARRIER: usize = 9;

pub struct Flights {
    lines: Vec<String>,
    table: Arc<Table>,
    session: Session,
}

impl Flights {
    /// Reads the file, its heading left out, and opens the table or creates it.
    pub fn open(engine: &Engine, csv: &Path) -> Result<Flights, Box<dyn Error>> {
        let lines = std::fs::read_to_string(csv)?.lines().skip(1).map(str::to_owned).collect();
        let table = match engine.table("flights") {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let indexes = [true, false].map(|unique| IndexDefinition { unique, key_bytes: 0 });
                engine.create_table_with("flights", b"", &indexes)?
            }
            table => table?,
        };
        Ok(Flights { lines, table, session: engine.session(Isolation::RepeatableRead) })
    }

    /// Inserts the lines behind those that are there, and prints how many are acknowledged after
    /// each commit.
    pub fn load(&mut self) -> Result<(), Box<dyn Error>> {
        let mut done = self.numbers()?.len();
        while done < self.lines.len() {
            let end = (done + BATCH).min(self.lines.len());
            for (number, line) in (done..end).zip(&self.lines[done..end]) {
                let (number, carrier) = (number_key(number), carrier_key(line));
                let key = |bytes| Key { bytes, may_repeat: false };
                self.session.insert_with(&self.table, line.as_bytes(), &[key(&number), key(&carrier)])?;
            }
            self.session.commit()?;
            done = end;
            let mut out = std::io::stdout().lock();
            writeln!(out, "acknowledged {done}")?;
            out.flush()?;
        }
        Ok(())
    }

    /// Compares the table with the lines: the first `acknowledged` must be there, and of the
    /// transaction that was under way all or nothing. Returns the number of rows.
    pub fn compare(&mut self, acknowledged: usize) -> Result<usize, Box<dyn Error>> {
        let numbers = self.numbers()?;
        let rows = numbers.len();
        let whole = (acknowledged + BATCH).min(self.lines.len());
        if rows != acknowledged && rows != whole {
            return Err(format!("{rows} rows, where {acknowledged} were acknowledged and {whole} begun").into());
        }
        for (number, found) in numbers.iter().enumerate() {
            if *found != number_key(number) {
                return Err(format!("the entry at place {number} has the key {found:?}").into());
            }
            let rid = self.session.index(&self.table, BY_NUMBER).find(found, ReadView::Snapshot)?;
            let reader = self.session.reader();
            let row = rid.map(|rid| reader.get(&self.table, rid)).transpose()?.flatten();
            if row != Some(self.lines[number].as_bytes()) {
                return Err(format!("row {number} is {:?}", row.map(String::from_utf8_lossy)).into());
            }
        }
        let mut carriers: Vec<Vec<u8>> = self.lines[..rows].iter().map(|line| carrier_key(line)).collect();
        carriers.sort();
        if self.keys(BY_CARRIER)? != carriers {
            return Err("the index of carriers has other keys than the rows".into());
        }
        Ok(rows)
    }

    fn numbers(&mut self) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
        self.keys(BY_NUMBER)
    }

    /// All keys of an index, in order.
    fn keys(&mut self, index: usize) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
        let mut scan = self.session.index(&self.table, index).scan(ReadView::Snapshot);
        scan.seek(&self.session, Bound::Unbounded, Direction::Forward)?;
        let mut keys = Vec::new();
        while scan.next(&self.session)?.is_some() {
            keys.push(scan.key().to_vec());
        }
        Ok(keys)
    }
}

fn number_key(number: usize) -> Vec<u8> {
    (number as u64).to_be_bytes().to_vec()
}

/// The key of a line's carrier. Keys compare byte by byte; the zero byte keeps any from being the
/// beginning of another.
fn carrier_key(line: &str) -> Vec<u8> {
    let carrier = line.split(',').nth(CARRIER).unwrap_or_default();
    [carrier.as_bytes(), &[0]].concat()
}
