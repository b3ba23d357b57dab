//! Hazard: a table created before CHAR was stored without trailing spaces is read by the wrong
//! layout: when it is opened, when its rows change, or after an ALTER that writes a new definition
//! over the old rows.

use crate::support::{Cursor, Pool, Session, ok};
use perdura_capi::server::alter::*;
use perdura_capi::server::code::PerduraCode;
use perdura_capi::server::cursor::PerduraCursor;
use perdura_capi::server::definition::*;
use perdura_capi::server::handler::perdura_cursor_open;
use perdura_capi::server::rows::*;
use perdura_capi::server::table::perdura_table_create;
use std::ptr::{null, null_mut};

/// A NULL byte, an id, two texts.
const RECORD_BYTES: usize = 1 + 4 + WIDE + NARROW;
const WIDE: usize = 400;
const NARROW: usize = 12;
const PATH: &std::ffi::CStr = c"./d/t";

type Record = [u8; RECORD_BYTES];

/// Runs `body` with the definition of the table, whose texts are of `kind`.
fn with_definition<T>(kind: u8, version: &[u8], body: impl FnOnce(&PerduraDefinition) -> T) -> T {
    let base = PerduraField { kind, length_bytes: 0, null_mask: 0, null_offset: 0, offset: 1, length: 4 };
    let fields = [
        PerduraField { kind: PERDURA_FIELD_FIXED, ..base },
        PerduraField { offset: 5, length: WIDE as u32, null_mask: 1, ..base },
        PerduraField { offset: 5 + WIDE as u32, length: NARROW as u32, ..base },
    ];
    body(&PerduraDefinition {
        version: version.as_ptr(),
        version_bytes: version.len(),
        frm: b"frm".as_ptr(),
        frm_bytes: 3,
        fields: fields.as_ptr(),
        field_count: fields.len(),
        record_bytes: RECORD_BYTES as u32,
        null_bytes: 1,
        indexes: null(),
        index_count: 0,
        foreign_keys: null(),
        foreign_key_count: 0,
        copy_of: std::ptr::null(),
    })
}

fn create(pool: &Pool, kind: u8) {
    // SAFETY: the pool is open, the definition valid.
    ok(with_definition(kind, b"v1", |definition| unsafe {
        perdura_table_create(pool.engine, PATH.as_ptr(), definition)
    }));
}

fn open(pool: &Pool, kind: u8, version: &[u8]) -> Result<Cursor, PerduraCode> {
    let mut cursor: *mut PerduraCursor = null_mut();
    // SAFETY: the pool is open, the definition valid.
    let code = with_definition(kind, version, |definition| unsafe {
        perdura_cursor_open(pool.engine, PATH.as_ptr(), definition, &mut cursor)
    });
    if code == PerduraCode::Ok { Ok(Cursor(cursor)) } else { Err(code) }
}

/// A record whose texts are filled up with spaces.
fn record(id: u32, wide: Option<&str>, narrow: &str) -> Record {
    let mut record = [b' '; RECORD_BYTES];
    record[0] = u8::from(wide.is_none());
    record[1..5].copy_from_slice(&id.to_le_bytes());
    let wide = wide.unwrap_or_default();
    record[5..5 + wide.len()].copy_from_slice(wide.as_bytes());
    record[5 + WIDE..][..narrow.len()].copy_from_slice(narrow.as_bytes());
    record
}

fn insert(cursor: &Cursor, session: &Session, record: &Record) {
    session.begin(false);
    // SAFETY: the record is one of this table.
    ok(unsafe { perdura_insert(cursor.0, session.0, record.as_ptr(), null()) });
    session.end_statement();
    session.commit();
}

/// All records, and each replaced by what `change` makes of it.
fn records(cursor: &Cursor, session: &Session, change: Option<&dyn Fn(Record) -> Record>) -> Vec<Record> {
    session.begin(false);
    cursor.start_scan(session);
    let mut found = Vec::new();
    loop {
        let mut record = [0xEE; RECORD_BYTES];
        // SAFETY: the record has the table's bytes.
        match unsafe { perdura_scan_next(cursor.0, session.0, record.as_mut_ptr()) } {
            PerduraCode::End => break,
            code => ok(code),
        }
        found.push(record);
        if let Some(change) = change {
            // SAFETY: the record is one of this table.
            ok(unsafe { perdura_update(cursor.0, session.0, change(record).as_ptr(), null(), 0) });
        }
    }
    // SAFETY: the cursor is open.
    unsafe { perdura_scan_end(cursor.0) };
    session.end_statement();
    session.commit();
    found.sort();
    found
}

/// Alters the definition alone, to version `v2` with texts of `kind`.
fn alter(pool: &Pool, cursor: &Cursor, kind: u8) {
    let mut alteration = null_mut();
    with_definition(kind, b"v2", |definition| {
        // SAFETY: the cursor is open and the only one, the definition valid.
        unsafe {
            ok(perdura_alter_begin(cursor.0, definition, null(), &mut alteration));
            ok(perdura_alter_commit(pool.engine, cursor.0, alteration, definition, null(), 0));
        }
    });
}

fn content() -> Vec<Record> {
    let full = "w".repeat(WIDE);
    vec![
        record(1, Some("one"), "1"),
        record(2, Some(""), ""),
        record(3, Some(&full), "123456789012"),
        record(4, None, " lead"),
    ]
}

#[test]
fn rows_come_back_with_their_spaces() {
    let pool = Pool::new();
    create(&pool, PERDURA_FIELD_PADDED);
    let (cursor, session) = (open(&pool, PERDURA_FIELD_PADDED, b"v1").expect("the table"), pool.session());
    content().iter().for_each(|record| insert(&cursor, &session, record));
    assert_eq!(records(&cursor, &session, None), sorted(content()));
    // All texts grow to their width, and the rows move.
    let grown = |mut record: Record| {
        record[0] = 0;
        record[5..].fill(b'g');
        record
    };
    records(&cursor, &session, Some(&grown));
    assert_eq!(records(&cursor, &session, None), sorted(content().into_iter().map(grown).collect()));
}

#[test]
fn a_table_of_an_earlier_build_keeps_its_row_format() {
    for (stored, given) in [(PERDURA_FIELD_FIXED, PERDURA_FIELD_PADDED), (PERDURA_FIELD_PADDED, PERDURA_FIELD_FIXED)] {
        let pool = Pool::new();
        create(&pool, stored);
        {
            let (cursor, session) = (open(&pool, stored, b"v1").expect("the table"), pool.session());
            content().iter().for_each(|record| insert(&cursor, &session, record));
        }
        let pool = pool.reopen();
        {
            let (cursor, session) = (open(&pool, given, b"v1").expect("the table from before"), pool.session());
            assert_eq!(records(&cursor, &session, None), sorted(content()));
            insert(&cursor, &session, &record(5, Some("five"), "5"));
            drop(session);
            alter(&pool, &cursor, given);
        }
        let pool = pool.reopen();
        let (cursor, session) = (open(&pool, given, b"v2").expect("the altered table"), pool.session());
        insert(&cursor, &session, &record(6, Some("six"), "6"));
        let added = [record(5, Some("five"), "5"), record(6, Some("six"), "6")];
        assert_eq!(records(&cursor, &session, None), sorted([content(), added.to_vec()].concat()));
    }
}

#[test]
fn other_records_are_refused() {
    let pool = Pool::new();
    create(&pool, PERDURA_FIELD_PADDED);
    assert_eq!(open(&pool, PERDURA_FIELD_VIRTUAL, b"v1").err(), Some(PerduraCode::DefinitionChanged));
}

fn sorted(mut records: Vec<Record>) -> Vec<Record> {
    records.sort();
    records
}
