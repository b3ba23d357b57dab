//! Hazard: a row that an index leads to and that is no longer the one that was searched for; a
//! duplicate that is reported for the wrong index, or whose row is gone when the caller wants it; a
//! table that is opened with other indexes than it has.

use crate::support::*;
use perdura_capi::server::code::PerduraCode;
use perdura_capi::server::cursor::PerduraLock;
use perdura_capi::server::definition::PerduraIndex;
use perdura_capi::server::index::*;
use perdura_capi::server::key::*;
use perdura_capi::server::rows::*;
use std::ptr::null;

/// By id, unique; by name, which may repeat.
const INDEXES: [PerduraIndex; 2] =
    [PerduraIndex { unique: true, key_bytes: 4 }, PerduraIndex { unique: false, key_bytes: 0 }];

fn id_key(row: &Row) -> Vec<u8> {
    row.id.to_be_bytes().to_vec()
}

fn name_key(row: &Row) -> Vec<u8> {
    [row.name.as_deref().unwrap_or("").as_bytes(), &[0]].concat()
}

fn key(bytes: &[u8]) -> PerduraKey {
    PerduraKey { bytes: bytes.as_ptr(), length: bytes.len() as u32, may_repeat: false }
}

fn bound(bytes: &[u8]) -> PerduraBound {
    PerduraBound { kind: PerduraBoundKind::Included, bytes: bytes.as_ptr(), length: bytes.len() as u32 }
}

const NO_BOUND: PerduraBound = PerduraBound { kind: PerduraBoundKind::None, bytes: null(), length: 0 };

fn keyed_table(pool: &Pool) -> Cursor {
    ok(pool.create_with("./d/k", b"v1", b"frm", &INDEXES));
    pool.open_with("./d/k", b"v1", &INDEXES).expect("an open table")
}

fn insert(cursor: &Cursor, session: &Session, row: &Row) -> PerduraCode {
    let (id, name) = (id_key(row), name_key(row));
    // SAFETY: the record is one of this table, the keys are alive.
    unsafe { perdura_insert(cursor.0, session.0, row.record().as_ptr(), [key(&id), key(&name)].as_ptr()) }
}

/// Replaces the row read last.
fn update(cursor: &Cursor, session: &Session, before: &Row, after: &Row) -> PerduraCode {
    let keys = [(id_key(before), id_key(after)), (name_key(before), name_key(after))];
    let changes: Vec<_> = (0..2)
        .filter(|index| keys[*index].0 != keys[*index].1)
        .map(|index| PerduraKeyChange { index: index as u32, before: key(&keys[index].0), after: key(&keys[index].1) })
        .collect();
    // SAFETY: as above.
    unsafe { perdura_update(cursor.0, session.0, after.record().as_ptr(), changes.as_ptr(), changes.len()) }
}

fn delete(cursor: &Cursor, session: &Session, row: &Row) -> PerduraCode {
    let (id, name) = (id_key(row), name_key(row));
    // SAFETY: as above.
    unsafe { perdura_delete(cursor.0, session.0, [key(&id), key(&name)].as_ptr()) }
}

fn begin(cursor: &Cursor, session: &Session, index: u32) -> bool {
    let mut locks = false;
    // SAFETY: all are live.
    ok(unsafe { perdura_index_begin(cursor.0, session.0, index, false, &mut locks) });
    locks
}

fn outcome(code: PerduraCode, record: &[u8; RECORD_BYTES]) -> Option<Row> {
    match code {
        PerduraCode::End => None,
        code => {
            ok(code);
            Some(Row::of(record))
        }
    }
}

fn seek(cursor: &Cursor, session: &Session, bound: PerduraBound, step: PerduraStep, whole: bool) -> Option<Row> {
    let mut record = [0xEE; RECORD_BYTES];
    // SAFETY: the record has the table's bytes.
    let code =
        unsafe { perdura_index_seek(cursor.0, session.0, bound, NO_BOUND, step, whole, false, record.as_mut_ptr()) };
    outcome(code, &record)
}

fn step(cursor: &Cursor, session: &Session, step: PerduraStep) -> Option<Row> {
    let mut record = [0xEE; RECORD_BYTES];
    // SAFETY: the record has the table's bytes.
    let code = unsafe { perdura_index_step(cursor.0, session.0, step, record.as_mut_ptr()) };
    outcome(code, &record)
}

fn ids(cursor: &Cursor, session: &Session, bound: PerduraBound, first: PerduraStep) -> Vec<u32> {
    let found = std::iter::successors(seek(cursor, session, bound, first, false), |_| step(cursor, session, first));
    found.map(|row| row.id).collect()
}

/// The rows of a range.
fn ids_to(cursor: &Cursor, session: &Session, bound: PerduraBound, end: PerduraBound) -> Vec<u32> {
    let (mut record, next) = ([0xEE; RECORD_BYTES], PerduraStep::Next);
    // SAFETY: the record has the table's bytes.
    let code = unsafe { perdura_index_seek(cursor.0, session.0, bound, end, next, false, false, record.as_mut_ptr()) };
    let found = std::iter::successors(outcome(code, &record), |_| step(cursor, session, next));
    found.map(|row| row.id).collect()
}

#[test]
fn rows_are_found_by_their_keys() {
    let pool = Pool::new();
    let table = keyed_table(&pool);
    let session = pool.session();
    session.begin(false);
    for (id, name) in [(5, "b"), (1, "a"), (3, "b"), (4, "c")] {
        ok(insert(&table, &session, &row(id, name)));
    }
    session.commit();
    session.begin(false);
    assert!(!begin(&table, &session, 0), "a plain read locks nothing");
    assert_eq!(ids(&table, &session, NO_BOUND, PerduraStep::Next), [1, 3, 4, 5]);
    assert_eq!(ids(&table, &session, NO_BOUND, PerduraStep::Previous), [5, 4, 3, 1]);
    assert_eq!(ids(&table, &session, bound(&3u32.to_be_bytes()), PerduraStep::Next), [3, 4, 5]);
    let (three, four) = (3u32.to_be_bytes(), 4u32.to_be_bytes());
    let to = |kind, key: &[u8; 4]| PerduraBound { kind, ..bound(key) };
    assert_eq!(ids_to(&table, &session, bound(&three), to(PerduraBoundKind::Included, &four)), [3, 4]);
    assert_eq!(ids_to(&table, &session, NO_BOUND, to(PerduraBoundKind::Excluded, &four)), [1, 3]);
    assert_eq!(ids_to(&table, &session, bound(&four), to(PerduraBoundKind::Excluded, &three)), []);
    assert_eq!(seek(&table, &session, bound(&2u32.to_be_bytes()), PerduraStep::NextSame, true), None);
    assert_eq!(seek(&table, &session, bound(&4u32.to_be_bytes()), PerduraStep::NextSame, true), Some(row(4, "c")));
    assert_eq!(step(&table, &session, PerduraStep::NextSame), None);
    assert_eq!(seek(&table, &session, bound(&4u32.to_be_bytes()), PerduraStep::NextSame, true), Some(row(4, "c")));
    assert_eq!(
        step(&table, &session, PerduraStep::Previous),
        Some(row(3, "b")),
        "a lookup does not know its neighbours"
    );
    begin(&table, &session, 1);
    assert_eq!(ids(&table, &session, bound(b"b\0"), PerduraStep::NextSame).len(), 2);
    let mut estimate = 0;
    // SAFETY: both are live, the bounds too.
    ok(unsafe { perdura_index_estimate(table.0, session.0, 1, bound(b"b\0"), NO_BOUND, &mut estimate) });
    assert!((2..=4).contains(&estimate), "{estimate} of 3 rows");
    session.commit();
}

#[test]
fn a_duplicate_names_its_index_and_row() {
    let pool = Pool::new();
    let table = keyed_table(&pool);
    let session = pool.session();
    session.begin(true);
    ok(insert(&table, &session, &row(1, "a")));
    let first = table.position();
    ok(insert(&table, &session, &row(2, "a")));
    assert_eq!(insert(&table, &session, &row(1, "z")), PerduraCode::DuplicateKey);
    let mut at = 0;
    // SAFETY: the cursor is open.
    assert_eq!(unsafe { perdura_duplicate(table.0, &mut at) }, 0);
    assert_eq!(at, first);
    table.prepare(PerduraLock::Write);
    assert_eq!(table.read(&session, at), Ok(Some(row(1, "a"))));
    assert_eq!(update(&table, &session, &row(1, "a"), &row(2, "a")), PerduraCode::DuplicateKey);
    assert_eq!(table.read(&session, at), Ok(Some(row(1, "a"))), "a refused update had an effect");
    ok(delete(&table, &session, &row(1, "a")));
    ok(insert(&table, &session, &row(1, "z")));
    session.commit();
}

/// A transaction that is not bound to a snapshot waits for the row, and finds it under another key.
#[test]
fn a_row_that_got_another_key_meanwhile_is_told_by_its_key() {
    let pool = Pool::new();
    let (mine, others) = (keyed_table(&pool), pool.open_with("./d/k", b"v1", &INDEXES).expect("an open table"));
    let (waiter, writer) = (pool.session(), pool.session());
    writer.begin(true);
    ok(insert(&others, &writer, &row(1, "a")));
    writer.commit();
    writer.begin(true);
    others.prepare(PerduraLock::Write);
    begin(&others, &writer, 1);
    assert_eq!(seek(&others, &writer, bound(b"a\0"), PerduraStep::NextSame, false), Some(row(1, "a")));
    ok(update(&others, &writer, &row(1, "a"), &row(1, "b")));

    waiter.begin(true);
    mine.prepare(PerduraLock::Write);
    assert!(begin(&mine, &waiter, 1), "a read that locks must compare keys");
    std::thread::scope(|scope| {
        let found = scope.spawn(|| seek(&mine, &waiter, bound(b"a\0"), PerduraStep::NextSame, false));
        std::thread::sleep(std::time::Duration::from_millis(200));
        writer.commit();
        let found = found.join().expect("no panic");
        if let Some(found) = found {
            assert_eq!(found, row(1, "b"));
            let mut bytes = 0;
            // SAFETY: the cursor is open; the key is valid until the next call.
            let entry = unsafe { std::slice::from_raw_parts(perdura_index_key(mine.0, &mut bytes), bytes) };
            assert_eq!(entry, b"a\0", "the row would pass for the one that was searched for");
        }
    });
    let mut record = [0; RECORD_BYTES];
    // SAFETY: the record has the table's bytes.
    assert_eq!(unsafe { perdura_index_pass(mine.0, waiter.0, record.as_mut_ptr()) }, PerduraCode::End);
    waiter.commit();
}

/// All rows of one search of a descending list, as the plugin takes them: where the row's key is no
/// more that of its entry, the row is passed, unless it is offered where it is. `whole` says that
/// the search is for a key that does not repeat, `key_of` is the index's.
fn of_descending_list(
    (cursor, session): (&Cursor, &Session),
    (sought, whole): (&[u8], bool),
    key_of: fn(&Row) -> Vec<u8>,
) -> Vec<Row> {
    let mut record = [0xEE; RECORD_BYTES];
    let to = PerduraStep::NextSameDescending;
    let mut found = Vec::new();
    // SAFETY: all are live, and the record has the table's bytes.
    unsafe {
        let mut code =
            perdura_index_seek(cursor.0, session.0, bound(sought), NO_BOUND, to, whole, false, record.as_mut_ptr());
        while let Some(row) = outcome(code, &record) {
            let mut bytes = 0;
            let entry = std::slice::from_raw_parts(perdura_index_key(cursor.0, &mut bytes), bytes).to_vec();
            let now = key_of(&row);
            if entry == now || perdura_index_moved(cursor.0, session.0, now.as_ptr(), now.len()) {
                found.push(row);
                code = perdura_index_step(cursor.0, session.0, to, record.as_mut_ptr());
            } else {
                code = perdura_index_pass(cursor.0, session.0, record.as_mut_ptr());
            }
        }
    }
    found
}

/// Gives the row with `before` other columns.
fn replace(cursor: &Cursor, session: &Session, before: Row, after: Row) {
    cursor.prepare(PerduraLock::Write);
    begin(cursor, session, 0);
    assert_eq!(seek(cursor, session, bound(&id_key(&before)), PerduraStep::NextSame, true).as_ref(), Some(&before));
    ok(update(cursor, session, &before, &after));
}

/// Hazard: a list of values is read key by key, forwards in each and from the last to the first.
/// The place that a row has moved to is passed, or yet to come, by the way from key to key, and not
/// by that of the steps.
#[test]
fn a_descending_list_meets_each_row_once_wherever_it_has_moved() {
    let pool = Pool::new();
    let (mine, others) = (keyed_table(&pool), pool.open_with("./d/k", b"v1", &INDEXES).expect("an open table"));
    let (reader, writer) = (pool.session(), pool.session());
    writer.begin(true);
    for (name, id) in ["a", "b", "c", "d", "e"].into_iter().zip(1..) {
        ok(insert(&others, &writer, &row(id, name)));
    }
    writer.commit();
    reader.begin(true);
    mine.prepare(PerduraLock::Write);
    assert!(begin(&mine, &reader, 1), "a read that locks must compare keys");
    let found = |name: &str| {
        let sought = [name.as_bytes(), &[0]].concat();
        let rows = of_descending_list((&mine, &reader), (&sought, false), name_key);
        rows.iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(found("e"), [5]);
    writer.begin(true);
    // Back to a key that is passed, on to one that is yet to come, and back to one that is not in
    // the list.
    replace(&others, &writer, row(4, "d"), row(4, "e"));
    replace(&others, &writer, row(3, "c"), row(3, "a"));
    replace(&others, &writer, row(2, "b"), row(2, "f"));
    writer.commit();
    assert_eq!(["d", "c", "b", "a"].map(found), [vec![4], vec![], vec![2], vec![1, 3]]);
    reader.commit();
}

/// A row was left out that had moved to a key of the list, lost it to another one as it was waited
/// for, and moved back to one that was passed: for it had been found once, though not used.
#[test]
fn a_row_that_a_descending_list_has_found_and_lost_is_met_at_its_entry() {
    let pool = Pool::new();
    let (mine, others) = (keyed_table(&pool), pool.open_with("./d/k", b"v1", &INDEXES).expect("an open table"));
    let (reader, writer) = (pool.session(), pool.session());
    writer.begin(true);
    ok(insert(&others, &writer, &row(1, "a")));
    ok(insert(&others, &writer, &row(9, "b")));
    writer.commit();
    reader.begin(true);
    mine.prepare(PerduraLock::Write);
    assert!(begin(&mine, &reader, 0), "a read that locks must compare keys");
    let found = |id: u32| of_descending_list((&mine, &reader), (&id.to_be_bytes(), true), id_key);
    assert!(found(5).is_empty());
    writer.begin(true);
    replace(&others, &writer, row(1, "a"), row(3, "a"));
    writer.commit();
    writer.begin(true);
    replace(&others, &writer, row(3, "a"), row(5, "a"));
    replace(&others, &writer, row(9, "b"), row(3, "b"));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| found(3));
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!waiting.is_finished(), "the row is locked");
        writer.commit();
        assert_eq!(waiting.join().expect("no panic"), [row(3, "b")]);
    });
    assert_eq!(found(1), [row(5, "a")]);
    reader.commit();
}

#[test]
fn another_set_of_indexes_is_noticed() {
    let pool = Pool::new();
    drop(keyed_table(&pool));
    let turned = [INDEXES[1], INDEXES[0]];
    for other in [&[][..], &INDEXES[..1], &turned] {
        assert_eq!(pool.open_with("./d/k", b"v1", other).err(), Some(PerduraCode::DefinitionChanged));
    }
    let pool = pool.reopen();
    assert!(pool.open_with("./d/k", b"v1", &INDEXES).is_ok());
}
