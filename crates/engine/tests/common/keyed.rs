//! Tables with indexes whose keys follow from the bytes of the rows: whoever finds an entry can
//! judge it by its row.

use super::{small, try_rows};
use perdura_engine::{
    Config, Direction, Engine, Error, ErrorKind, IndexDefinition, IndexScan, Isolation, Key, KeyChange, LockMode,
    LogConfig, ReadView, Rid, Session, Table,
};
use perdura_pmem::sim::Random;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Unique, 8 bytes.
    Number,
    /// Not unique, 4 bytes, few different ones.
    Group,
    /// Up to 300 bytes, ended by a zero; unique, but the empty one may repeat.
    Name,
    /// Unique, 1,200 bytes, of which most are those of other keys, too: a leaf of the small pool
    /// has room for two.
    Long,
    /// As `Long`, but 3,000 bytes. Needs larger segments.
    Longest,
}

/// All kinds that the small pool takes.
pub const KINDS: [Kind; 4] = [Kind::Number, Kind::Group, Kind::Name, Kind::Long];

/// Fields that the keys of a row are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    pub number: u64,
    pub group: u32,
    pub name: u32,
    pub long: u32,
    pub padding: usize,
}

impl Fields {
    /// All keys from one number; the row's group is one of four.
    pub fn of(number: u32) -> Fields {
        Fields {
            number: u64::from(number),
            group: number % 4,
            name: number,
            long: number,
            padding: number as usize % 40,
        }
    }

    /// Fields from numbers below `bound`, so that keys meet again and again.
    pub fn random(random: &mut Random, bound: u64) -> Fields {
        Fields {
            number: random.below(bound),
            group: random.below(5) as u32,
            name: if random.one_in(4) { 0 } else { random.below(bound) as u32 },
            long: random.below(bound) as u32,
            padding: random.below(60) as usize,
        }
    }

    /// The row.
    pub fn row(&self) -> Vec<u8> {
        let mut row = self.number.to_le_bytes().to_vec();
        for word in [self.group, self.name, self.long] {
            row.extend(word.to_le_bytes());
        }
        row.resize(row.len() + self.padding, 0x5a);
        row
    }

    /// Fields of a row.
    pub fn of_row(row: &[u8]) -> Fields {
        let word = |at: usize| u32::from_le_bytes(row[at..at + 4].try_into().expect("four bytes"));
        let number = u64::from_le_bytes(row[..8].try_into().expect("eight bytes"));
        Fields { number, group: word(8), name: word(12), long: word(16), padding: row.len() - 20 }
    }
}

impl Kind {
    /// How the index is declared.
    pub fn definition(self) -> IndexDefinition {
        match self {
            Kind::Number => IndexDefinition { unique: true, key_bytes: 8 },
            Kind::Group => IndexDefinition { unique: false, key_bytes: 4 },
            Kind::Name => IndexDefinition { unique: true, key_bytes: 0 },
            Kind::Long => IndexDefinition { unique: true, key_bytes: 1200 },
            Kind::Longest => IndexDefinition { unique: true, key_bytes: 3000 },
        }
    }

    /// The key of fields.
    pub fn key(self, fields: &Fields) -> Vec<u8> {
        match self {
            Kind::Number => fields.number.to_be_bytes().to_vec(),
            Kind::Group => fields.group.to_be_bytes().to_vec(),
            Kind::Name if fields.name == 0 => vec![0],
            Kind::Name => {
                let mut key = vec![b'n'; (fields.name % 5 * 60) as usize];
                key.extend(format!("{:06}", fields.name).bytes());
                key.resize(key.len() + fields.name as usize * 7 % 40, b'-');
                key.push(0);
                key
            }
            Kind::Long | Kind::Longest => {
                let mut key = u64::from(fields.long >> 4).to_be_bytes().to_vec();
                key.resize(if self == Kind::Long { 1192 } else { 2992 }, 0x33);
                key.extend(u64::from(fields.long).to_be_bytes());
                key
            }
        }
    }

    /// The key of a row, and whether another row may have it as well.
    pub fn of_row(self, row: &[u8]) -> (Vec<u8>, bool) {
        let fields = Fields::of_row(row);
        let may_repeat = match self {
            Kind::Group => true,
            Kind::Name => fields.name == 0,
            Kind::Number | Kind::Long | Kind::Longest => false,
        };
        (self.key(&fields), may_repeat)
    }

    /// A key to search for: of a row, of no row, or the beginning of one.
    pub fn bound(self, random: &mut Random, bound: u64) -> Vec<u8> {
        let mut key = self.key(&Fields::random(random, bound));
        if random.one_in(3) {
            key.truncate(random.below(key.len() as u64 + 1) as usize);
        }
        key
    }
}

/// The small pool with a log that takes statements on some hundred rows with all their keys.
pub fn config() -> Config {
    let log = LogConfig { lanes: 2, lane_bytes: 64 << 10, generations: 2, generations_max: 4, ..LogConfig::default() };
    Config { log, ..small() }
}

/// The same with segments that have room for the longest keys.
pub fn roomy() -> Config {
    Config { segment_bytes: 16 << 10, ..config() }
}

/// Rows by RID.
pub type Rows = BTreeMap<Rid, Vec<u8>>;
/// A key and the row that has it.
pub type Entry = (Vec<u8>, Rid);

/// A table with indexes.
#[derive(Clone)]
pub struct Keyed {
    pub table: Arc<Table>,
    pub kinds: Vec<Kind>,
}

impl Keyed {
    /// Creates a table.
    pub fn create(engine: &Engine, name: &str, kinds: &[Kind]) -> Keyed {
        Keyed::try_create(engine, name, kinds).expect("there is room for a table")
    }

    /// Creates a table, if there is room.
    pub fn try_create(engine: &Engine, name: &str, kinds: &[Kind]) -> Result<Keyed, Error> {
        let definitions: Vec<_> = kinds.iter().map(|kind| kind.definition()).collect();
        let table = engine.create_table_with(name, b"keyed", &definitions)?;
        Ok(Keyed { table, kinds: kinds.to_vec() })
    }

    /// Opens a table.
    pub fn open(engine: &Engine, name: &str, kinds: &[Kind]) -> Keyed {
        let table = engine.table(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(table.indexes(), kinds.len());
        for (index, kind) in kinds.iter().enumerate() {
            assert_eq!(table.index_definition(index), Some(kind.definition()));
        }
        Keyed { table, kinds: kinds.to_vec() }
    }

    /// Inserts a row with its keys.
    pub fn insert(&self, txn: &mut Session, row: &[u8]) -> Result<Rid, Error> {
        let owned: Vec<_> = self.kinds.iter().map(|kind| kind.of_row(row)).collect();
        let keys: Vec<_> = owned.iter().map(|(bytes, may_repeat)| Key { bytes, may_repeat: *may_repeat }).collect();
        txn.insert_with(&self.table, row, &keys)
    }

    /// Locks a row and replaces it, with those of its keys that change.
    pub fn update(&self, txn: &mut Session, rid: Rid, row: &[u8]) -> Result<(), Error> {
        let Some(old) = self.lock(txn, rid)? else { return Err(not_there(txn, &self.table, rid)) };
        let before: Vec<_> = self.kinds.iter().map(|kind| kind.of_row(&old).0).collect();
        let after: Vec<_> = self.kinds.iter().map(|kind| kind.of_row(row)).collect();
        let changes: Vec<_> = before
            .iter()
            .zip(&after)
            .enumerate()
            .filter(|(_, (old, (new, _)))| *old != new)
            .map(|(index, (old, (new, may_repeat)))| KeyChange {
                index,
                old,
                new: Key { bytes: new, may_repeat: *may_repeat },
            })
            .collect();
        txn.update_with(&self.table, rid, row, &changes)
    }

    /// Locks a row and deletes it.
    pub fn delete(&self, txn: &mut Session, rid: Rid) -> Result<(), Error> {
        let Some(old) = self.lock(txn, rid)? else { return Err(not_there(txn, &self.table, rid)) };
        let keys: Vec<_> = self.kinds.iter().map(|kind| kind.of_row(&old).0).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        txn.delete_with(&self.table, rid, &keys)
    }

    fn lock(&self, txn: &mut Session, rid: Rid) -> Result<Option<Vec<u8>>, Error> {
        txn.locks().lock_row(&self.table, rid, LockMode::Exclusive)?;
        let row = txn.read(&self.table, rid, ReadView::Newest)?;
        // SAFETY: the row is locked, and copied before anything else happens.
        Ok(row.map(|row| unsafe { row.bytes() }.to_vec()))
    }

    /// Deletes a row, or replaces it, or inserts one if there is no RID.
    pub fn put(&self, txn: &mut Session, rid: Option<Rid>, row: Option<&[u8]>) -> Result<Option<Rid>, Error> {
        match (rid, row) {
            (None, Some(row)) => return self.insert(txn, row).map(Some),
            (Some(rid), Some(row)) => self.update(txn, rid, row)?,
            (Some(rid), None) => self.delete(txn, rid)?,
            (None, None) => {}
        }
        Ok(rid)
    }

    /// The row with a key, in an index of numbers, groups, names or long keys.
    pub fn find(&self, txn: &mut Session, kind: Kind, fields: &Fields) -> Option<Rid> {
        let index = self.index_of(kind);
        txn.index(&self.table, index)
            .find(&kind.key(fields), ReadView::Snapshot)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Number of the index of that kind.
    pub fn index_of(&self, kind: Kind) -> usize {
        self.kinds.iter().position(|other| *other == kind).expect("the table has such an index")
    }

    /// The entries that rows must have, in order.
    pub fn expected(&self, index: usize, rows: &Rows) -> Vec<Entry> {
        let mut entries: Vec<_> = rows.iter().map(|(rid, row)| (self.kinds[index].of_row(row).0, *rid)).collect();
        entries.sort_by(|one, other| (&one.0, one.1.row()).cmp(&(&other.0, other.1.row())));
        entries
    }

    /// All entries that a scan finds.
    pub fn entries(
        &self,
        txn: &mut Session,
        index: usize,
        view: ReadView,
        direction: Direction,
    ) -> Result<Vec<Entry>, Error> {
        let mut scan = txn.index(&self.table, index).scan(view);
        scan.seek(txn, Bound::Unbounded, direction)?;
        let mut entries = Vec::new();
        while let Some(rid) = step(&mut scan, txn, direction)? {
            entries.push((scan.key().to_vec(), rid));
        }
        Ok(entries)
    }

    /// Compares every index, both ways, with the rows that must be there. The caller has begun the
    /// statement.
    pub fn check_against(&self, txn: &mut Session, rows: &Rows, view: ReadView, hint: &str) {
        for index in 0..self.kinds.len() {
            let expected = self.expected(index, rows);
            let found = self.entries(txn, index, view, Direction::Forward);
            let found = found.unwrap_or_else(|error| panic!("{hint}, index {index}: {error}"));
            same(&expected, &found, &format!("{hint}, index {index}, forward"));
            let found = self.entries(txn, index, view, Direction::Backward);
            let mut found = found.unwrap_or_else(|error| panic!("{hint}, index {index}, backward: {error}"));
            found.reverse();
            same(&expected, &found, &format!("{hint}, index {index}, backward"));
        }
    }

    /// Looks up each row by each of its keys.
    pub fn find_all(&self, txn: &mut Session, rows: &Rows, view: ReadView, hint: &str) {
        for index in 0..self.kinds.len() {
            let expected = self.expected(index, rows);
            for (place, (key, rid)) in expected.iter().enumerate() {
                if place == 0 || expected[place - 1].0 != *key {
                    let found = txn.index(&self.table, index).find(key, view);
                    let found = found.unwrap_or_else(|error| panic!("{hint}, index {index}: {error}"));
                    assert_eq!(found, Some(*rid), "{hint}, index {index}, key {}", brief(key));
                }
            }
        }
    }

    /// Checks that the indexes have the keys of the rows and nothing else, as a new statement sees
    /// them. Returns the rows.
    pub fn check(&self, engine: &Engine) -> Rows {
        let mut txn = engine.session(Isolation::ReadCommitted);
        txn.start_statement();
        let rows = self.check_seen(&mut txn, "committed");
        self.find_all(&mut txn, &rows, ReadView::Snapshot, "committed");
        self.check_against(&mut txn, &rows, ReadView::Newest, "newest");
        txn.end_statement();
        rows
    }

    /// Checks that the indexes show the same as the table, as the session's statement sees both.
    /// Returns the rows.
    pub fn check_seen(&self, txn: &mut Session, hint: &str) -> Rows {
        let rows: Rows =
            try_rows(txn, &self.table).unwrap_or_else(|error| panic!("{hint}: {error}")).into_iter().collect();
        self.check_against(txn, &rows, ReadView::Snapshot, hint);
        rows
    }
}

/// One step of a scan.
pub fn step(scan: &mut IndexScan, txn: &Session, direction: Direction) -> Result<Option<Rid>, Error> {
    match direction {
        Direction::Forward => scan.next(txn),
        Direction::Backward => scan.previous(txn),
    }
}

/// Asserts that a row that is deleted cannot be changed, and returns the error that says so.
fn not_there(txn: &mut Session, table: &Arc<Table>, rid: Rid) -> Error {
    txn.update(table, rid, b"").expect_err("the row is deleted")
}

/// Asserts that entries are as they must be, and names the first that is not.
pub fn same(expected: &[Entry], found: &[Entry], hint: &str) {
    let text = |entry: Option<&Entry>| {
        entry.map_or("nothing".to_owned(), |(key, rid)| format!("{} of row {:#x}", brief(key), rid.to_u64()))
    };
    let place = (0..expected.len().max(found.len())).find(|place| expected.get(*place) != found.get(*place));
    if let Some(place) = place {
        let (wanted, seen) = (text(expected.get(place)), text(found.get(place)));
        let counts = format!("{} wanted, {} found", expected.len(), found.len());
        panic!("{hint}: entry {place} must be {wanted}, is {seen} ({counts})");
    }
}

/// A key in an error message.
pub fn brief(key: &[u8]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if key.len() <= 24 {
        hex(key)
    } else {
        format!("{}..{} ({})", hex(&key[..8]), hex(&key[key.len() - 8..]), key.len())
    }
}

/// Whether a concurrent transaction may cause this error.
pub fn is_conflict(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Deadlock | ErrorKind::LockWaitTimeout | ErrorKind::RecordChanged)
}

/// Inserts rows made of these fields and commits.
pub fn fill(engine: &Engine, keyed: &Keyed, fields: impl IntoIterator<Item = Fields>) -> Vec<Rid> {
    let mut txn = engine.session(Isolation::ReadCommitted);
    let insert = |fields: Fields| keyed.insert(&mut txn, &fields.row()).unwrap_or_else(|error| panic!("{error}"));
    let rids = fields.into_iter().map(insert).collect();
    txn.commit().unwrap_or_else(|error| panic!("{error}"));
    rids
}
