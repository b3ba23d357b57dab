//! Indexes of the tables of a scenario. Their keys follow from the rows, so whoever finds an entry
//! can judge it by its row.
//!
//! Index 0 is unique. Many rows want one of about a thousand keys there, so writers meet keys that
//! are taken, or that another transaction is about to take or to give back. Index 1 has few keys,
//! with many rows each. Keys are so long that a few dozen rows split a leaf.

use super::history::{key_of, stamp_of};
use perdura_engine::{
    AlteredIndex, BuildClient, Direction, Engine, IndexDefinition, IndexScan, Key, KeyChange, LockMode, OwnWrites,
    ReadView, Result, Rid, RowRef, Session, Table,
};
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

/// How the indexes are declared.
pub const INDEXES: [IndexDefinition; 2] =
    [IndexDefinition { unique: true, key_bytes: 0 }, IndexDefinition { unique: false, key_bytes: GROUP_BYTES }];

/// Beginning of the definition of a table whose indexes were altered. The places of its indexes in
/// [`INDEXES`] follow.
const ALTERED: &[u8] = b"altered";

/// Length of a key in index 1.
const GROUP_BYTES: u16 = 240;
/// Number of different keys there.
const GROUPS: u64 = 5;
/// Where in a row that has a common key the byte lies that tells it.
const TELLS_AT: usize = 24;

/// The number of the unique key that the row shares with others; `None` if its unique key follows
/// from its own key.
pub fn common_number(row: &[u8]) -> Option<u64> {
    // The filling of a writer's row counts up; that of the rows which the checks insert does not.
    let filling = row.get(TELLS_AT..TELLS_AT + 8)?;
    let counts_up = filling.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1));
    counts_up.then(|| u64::from(filling[0]) << 2 | stamp_of(row) & 3)
}

/// The keys of a row, one for each index.
pub fn keys_of(row: &[u8]) -> [Vec<u8>; 2] {
    let (tag, number) = common_number(row).map_or((0, key_of(row)), |number| (1, number));
    let mut unique = vec![tag];
    unique.extend(number.to_be_bytes());
    unique.resize(unique.len() + 200 + (number * 37 % 200) as usize, number as u8);
    let group = (stamp_of(row) % GROUPS) as u8;
    [unique, vec![group; GROUP_BYTES.into()]]
}

/// The definition of a table that has been given indexes of these kinds.
pub fn definition(kinds: &[u8]) -> Vec<u8> {
    [ALTERED, kinds].concat()
}

/// The kinds of a table's indexes, as its definition has them; `None` if they are those that it was
/// created with.
pub fn altered_kinds(table: &Table) -> Option<Vec<u8>> {
    table.definition().strip_prefix(ALTERED).map(<[u8]>::to_vec)
}

/// The places in [`INDEXES`] of the indexes of a table.
fn kinds(table: &Table) -> Vec<usize> {
    match altered_kinds(table) {
        Some(kinds) => kinds.into_iter().map(usize::from).collect(),
        None => (0..table.indexes()).collect(),
    }
}

/// The key of that kind, of those that a row has.
fn key_of_kind(keys: &[Vec<u8>; 2], kind: usize) -> Key<'_> {
    Key { bytes: &keys[kind], may_repeat: kind == 1 }
}

/// Inserts a row with its keys, if the table has indexes.
pub fn insert(txn: &mut Session, table: &Arc<Table>, row: &[u8]) -> Result<Rid> {
    if table.indexes() == 0 {
        return txn.insert(table, row);
    }
    let keys = keys_of(row);
    let keys: Vec<Key<'_>> = kinds(table).into_iter().map(|kind| key_of_kind(&keys, kind)).collect();
    txn.insert_with(table, row, &keys)
}

/// Replaces a row and those of its keys that change.
pub fn update(txn: &mut Session, table: &Arc<Table>, rid: Rid, row: &[u8]) -> Result<()> {
    if table.indexes() == 0 {
        return txn.update(table, rid, row);
    }
    let Some(before) = newest(txn, table, rid)? else { return txn.update(table, rid, row) };
    let (old, new) = (keys_of(&before), keys_of(row));
    let changed = kinds(table).into_iter().enumerate().filter(|(_, kind)| old[*kind] != new[*kind]);
    let changes = changed.map(|(index, kind)| KeyChange { index, old: &old[kind], new: key_of_kind(&new, kind) });
    txn.update_with(table, rid, row, &changes.collect::<Vec<_>>())
}

/// Deletes a row and its keys.
pub fn delete(txn: &mut Session, table: &Arc<Table>, rid: Rid) -> Result<()> {
    if table.indexes() == 0 {
        return txn.delete(table, rid);
    }
    // An update says why there is no row to be deleted.
    let Some(row) = newest(txn, table, rid)? else { return txn.update(table, rid, b"") };
    let keys = keys_of(&row);
    let keys: Vec<&[u8]> = kinds(table).into_iter().map(|kind| &keys[kind][..]).collect();
    txn.delete_with(table, rid, &keys)
}

/// Gives a table indexes of these kinds. Those that it has stay, or are made anew.
pub fn alter(engine: &Engine, table: &Arc<Table>, wanted: &[u8], anew: bool) -> Result<()> {
    let has = kinds(table);
    let index = |kind: &u8| match has.iter().position(|known| *known == usize::from(*kind)) {
        Some(position) if !anew => AlteredIndex::Kept(position),
        _ => AlteredIndex::New(INDEXES[usize::from(*kind)]),
    };
    let indexes: Vec<AlteredIndex> = wanted.iter().map(index).collect();
    let mut alteration = engine.alter_indexes(table, &indexes)?;
    alteration.build(&mut KeyMaker { kinds: wanted, keys: Default::default() })?;
    alteration.commit(&definition(wanted)).map(drop)
}

/// Makes the keys of new indexes.
struct KeyMaker<'k> {
    kinds: &'k [u8],
    keys: [Vec<u8>; 2],
}

impl BuildClient for KeyMaker<'_> {
    fn goes_on(&mut self) -> bool {
        true
    }

    fn row(&mut self, row: &[u8]) -> Result<()> {
        self.keys = keys_of(row);
        Ok(())
    }

    fn key(&mut self, position: usize) -> Result<Key<'_>> {
        Ok(key_of_kind(&self.keys, self.kinds[position].into()))
    }
}

/// The newest version of a row, which is locked for it; `None` if it is deleted.
pub fn newest(txn: &mut Session, table: &Arc<Table>, rid: Rid) -> Result<Option<Vec<u8>>> {
    txn.locks().lock_row(table, rid, LockMode::Exclusive)?;
    let row = txn.read(table, rid, ReadView::Newest)?;
    // SAFETY: the row is locked, and the statement is not over.
    Ok(row.map(|row| unsafe { row.bytes() }.to_vec()))
}

/// The entries that rows must have in an index of that kind, in order.
pub fn expected(kind: usize, rows: &[(Rid, Vec<u8>)]) -> Vec<(Vec<u8>, Rid)> {
    in_order(rows.iter().map(|(rid, row)| (std::mem::take(&mut keys_of(row)[kind]), *rid)).collect())
}

/// The entries in the order of their keys, and of the rows where these are equal.
fn in_order<K: Ord>(mut entries: Vec<(K, Rid)>) -> Vec<(K, Rid)> {
    entries.sort_by(|one, other| (&one.0, one.1.row()).cmp(&(&other.0, other.1.row())));
    entries
}

/// Whether the indexes of a table have the keys of `rows`, which the session's statement sees, and
/// nothing else: scanned both ways, and looked up one by one.
pub fn compare(txn: &mut Session, table: &Arc<Table>, rows: &[(Rid, Vec<u8>)]) -> std::result::Result<(), String> {
    if table.indexes() == 0 {
        return Ok(());
    }
    let keys: Vec<[Vec<u8>; 2]> = rows.iter().map(|(_, row)| keys_of(row)).collect();
    let bytes: HashMap<u64, &[u8]> = rows.iter().map(|(rid, row)| (rid.to_u64(), &row[..])).collect();
    for (index, kind) in kinds(table).into_iter().enumerate() {
        let failed = |what: String| format!("table {}, index {index}: {what}", table.name());
        let entries = rows.iter().zip(&keys).map(|((rid, _), keys)| (&keys[kind][..], *rid));
        let expected = in_order(entries.collect());
        for direction in [Direction::Forward, Direction::Backward] {
            let mut scan = txn.index(table, index).scan(ReadView::Snapshot);
            scan.seek(txn, Bound::Unbounded, direction).map_err(|error| failed(format!("seek: {error}")))?;
            let mut left = expected.iter().copied();
            loop {
                let found = step(&mut scan, txn, direction).map_err(|error| failed(format!("scan: {error}")))?;
                let wanted = if direction == Direction::Forward { left.next() } else { left.next_back() };
                match (found.map(|rid| (scan.key(), rid)), wanted) {
                    (None, None) => break,
                    (found, wanted) if found == wanted => {
                        let row = row_of(&mut scan, txn).map_err(|error| failed(format!("a row: {error}")))?;
                        let (rid, row) = row.ok_or_else(|| failed(format!("{} has no row", text(wanted))))?;
                        if bytes.get(&rid) != Some(&&row[..]) {
                            return Err(failed(format!("{} leads to another row, {rid:#x}", text(wanted))));
                        }
                    }
                    (found, wanted) => {
                        let (found, wanted, left) = (text(found), text(wanted), left.len());
                        let what = format!("{direction:?}: {found} instead of {wanted}, {left} entries before the end");
                        return Err(failed(what));
                    }
                }
            }
        }
        for (place, (key, rid)) in expected.iter().enumerate() {
            if place > 0 && expected[place - 1].0 == *key {
                continue;
            }
            let found =
                txn.index(table, index).find(key, ReadView::Snapshot).map_err(|error| failed(error.to_string()))?;
            if found != Some(*rid) {
                let found = found.map(Rid::to_u64);
                return Err(failed(format!("{} leads to row {found:x?} instead of {:#x}", brief(key), rid.to_u64())));
            }
        }
    }
    Ok(())
}

/// One step of a scan.
pub fn step(scan: &mut IndexScan, txn: &Session, direction: Direction) -> Result<Option<Rid>> {
    match direction {
        Direction::Forward => scan.next(txn),
        Direction::Backward => scan.previous(txn),
    }
}

/// The row at which a scan stands, as the snapshot sees it, own writes included.
pub fn row_of(scan: &mut IndexScan, txn: &mut Session) -> Result<Option<(u64, Vec<u8>)>> {
    // SAFETY: the statement is not over.
    let copied = |(rid, row): (Rid, RowRef)| (rid.to_u64(), unsafe { row.bytes() }.to_vec());
    Ok(scan.read_row(txn, OwnWrites::All)?.map(copied))
}

fn text(entry: Option<(&[u8], Rid)>) -> String {
    entry.map_or("none".to_owned(), |(key, rid)| format!("{} of row {:#x}", brief(key), rid.to_u64()))
}

fn brief(key: &[u8]) -> String {
    format!("key {:02x?}..", &key[..key.len().min(9)])
}
