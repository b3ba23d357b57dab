//! Hazard: a counter that an earlier build left behind the rows of its table gives out values that
//! rows have: an insert fails, and an upsert changes another row.

use crate::support::*;
use perdura_capi::server::auto_increment::*;
use perdura_capi::server::code::PerduraCode;
use perdura_capi::server::definition::PerduraIndex;
use perdura_capi::server::key::*;
use perdura_capi::server::rows::*;
use std::ptr::null;

/// By id ascending, and descending.
const INDEXES: [PerduraIndex; 2] =
    [PerduraIndex { unique: true, key_bytes: 4 }, PerduraIndex { unique: true, key_bytes: 4 }];

fn key(bytes: &[u8]) -> PerduraKey {
    PerduraKey { bytes: bytes.as_ptr(), length: bytes.len() as u32, may_repeat: false }
}

/// Inserts a row whose id the counter does not pass, as earlier builds did.
fn insert(cursor: &Cursor, session: &Session, id: u32) {
    let (ascending, descending) = (id.to_be_bytes(), (!id).to_be_bytes());
    let keys = [key(&ascending), key(&descending)];
    // SAFETY: the record is one of this table, the keys are alive.
    ok(unsafe { perdura_insert(cursor.0, session.0, row(id, "").record().as_ptr(), keys.as_ptr()) });
}

/// The greatest id up to `most` that a check of the counter finds in an index; `None` if the
/// counter was checked before.
fn found(pool: &Pool, cursor: &Cursor, index: usize, most: u32) -> Option<u32> {
    let turned = |id: u32| if index == 0 { id } else { !id };
    let (bound, mut bytes, mut length) = (turned(most).to_be_bytes(), [0; 3072], 0);
    // SAFETY: the pool is open, the cursor used by this thread alone; no key is longer.
    let code = unsafe {
        let (cursor, descends) = (cursor.0, index == 1);
        let (bound, bytes) = (bound.as_ptr(), bytes.as_mut_ptr());
        perdura_counter_check(pool.engine, cursor, index as u32, bound, 4, descends, bytes, &mut length)
    };
    (code != PerduraCode::End).then(|| {
        ok(code);
        if length == 0 { 0 } else { turned(u32::from_be_bytes(bytes[..4].try_into().unwrap())) }
    })
}

fn catch_up(pool: &Pool, cursor: &Cursor, value: u32) -> (u64, u64) {
    let (mut from, mut to) = (0, 0);
    // SAFETY: as above.
    ok(unsafe { perdura_counter_catch_up(pool.engine, cursor.0, value.into(), &mut from, &mut to) });
    (from, to)
}

fn next(pool: &Pool, cursor: &Cursor) -> u64 {
    let mut next = 0;
    // SAFETY: as above.
    ok(unsafe { perdura_counter_next(pool.engine, cursor.0, &mut next) });
    next
}

/// A table with rows of these ids, and a counter that has passed none of them; opened again after
/// the pool was.
fn behind(ids: &[u32]) -> (Pool, Cursor) {
    let pool = Pool::new();
    ok(pool.create_with("./d/t", b"v1", b"frm", &INDEXES));
    let (cursor, session) = (pool.open_with("./d/t", b"v1", &INDEXES).expect("an open table"), pool.session());
    // SAFETY: as above.
    ok(unsafe { perdura_counter_set(pool.engine, null(), cursor.0, 3) });
    session.begin(true);
    ids.iter().for_each(|id| insert(&cursor, &session, *id));
    session.commit();
    drop((cursor, session));
    let pool = pool.reopen();
    let cursor = pool.open_with("./d/t", b"v1", &INDEXES).expect("an open table");
    (pool, cursor)
}

#[test]
fn a_counter_goes_on_above_the_rows_of_its_table() {
    let ids: Vec<u32> = (1..400).chain([5000]).collect();
    for index in 0..2 {
        let (pool, cursor) = behind(&ids);
        assert_eq!(next(&pool, &cursor), 3);
        // Both may find the value before one of them has the counter go on.
        let other = pool.open_with("./d/t", b"v1", &INDEXES).expect("an open table");
        assert_eq!(found(&pool, &cursor, index, u32::MAX), Some(5000));
        assert_eq!(found(&pool, &other, index, u32::MAX), Some(5000));
        let session = pool.session();
        session.begin(true);
        let keep = |cursor: &Cursor| {
            // SAFETY: as above.
            unsafe { perdura_counter_keep(pool.engine, session.0, cursor.0) }
        };
        assert_eq!(keep(&cursor), PerduraCode::End, "not compared yet");
        assert_eq!(catch_up(&pool, &cursor, 5000), (3, 5001));
        // Whoever is told once that nothing is owed does not ask again: so nobody else may make it
        // owe anything later.
        assert_eq!((keep(&cursor), keep(&other)), (PerduraCode::Ok, PerduraCode::Ok));
        assert_eq!(catch_up(&pool, &other, 900_000), (5001, 5001));
        assert_eq!(found(&pool, &cursor, index, u32::MAX), None, "once is enough");
        assert_eq!(found(&pool, &other, index, u32::MAX), None, "for all");
        assert_eq!(next(&pool, &other), 5001);
        let (mut first, mut count, counting) = (0, 0, PerduraCounting { offset: 1, increment: 1 });
        // SAFETY: as above.
        ok(unsafe {
            let (values, cursor) = ((&mut first, &mut count), cursor.0);
            perdura_counter_reserve(pool.engine, session.0, cursor, counting, 2, 0, u64::MAX, values.0, values.1)
        });
        assert_eq!((first, count), (5001, 2));
        session.commit();
        drop((session, cursor, other));
        let pool = pool.reopen();
        let cursor = pool.open_with("./d/t", b"v1", &INDEXES).expect("an open table");
        assert_eq!(next(&pool, &cursor), 5003, "stored");
    }
}

/// Hazard: values beyond those that the server counts to hide the ones below; or an empty table has
/// the first key of another.
#[test]
fn a_check_looks_below_its_bound() {
    for index in 0..2 {
        let (pool, cursor) = behind(&[2, 70, 5000, 6000]);
        for (most, expected) in [(4999, 70), (5000, 5000), (5999, 5000), (69, 2), (1, 0)] {
            assert_eq!(found(&pool, &cursor, index, most), Some(expected), "index {index}, up to {most}");
        }
        drop(cursor);
        let (pool, cursor) = behind(&[]);
        assert_eq!(found(&pool, &cursor, index, u32::MAX), Some(0));
        assert_eq!(catch_up(&pool, &cursor, 0), (3, 3));
        drop(cursor);
        drop(pool);
    }
}

/// Hazard: a transaction that is not decided has inserted the greatest value, or is deleting it,
/// and then commits, or rolls back.
#[test]
fn rows_that_are_not_decided_count() {
    for index in 0..2 {
        let (pool, cursor) = behind(&[2, 70]);
        let session = pool.session();
        session.begin(true);
        insert(&cursor, &session, 900);
        session.end_statement();
        let other = pool.open_with("./d/t", b"v1", &INDEXES).expect("an open table");
        assert_eq!(found(&pool, &other, index, u32::MAX), Some(900));
        session.rollback();
        session.begin(true);
        other.start_scan(&session);
        while let Some(found) = other.next(&session).expect("a row") {
            if found.id == 70 {
                let keys = [70u32.to_be_bytes(), (!70u32).to_be_bytes()];
                // SAFETY: the cursor stands on the row; the keys are alive.
                ok(unsafe { perdura_delete(other.0, session.0, [key(&keys[0]), key(&keys[1])].as_ptr()) });
            }
        }
        session.end_statement();
        assert_eq!(found(&pool, &cursor, index, u32::MAX), Some(70));
        session.rollback();
        assert_eq!(found(&pool, &cursor, index, u32::MAX), Some(70));
        drop((session, cursor, other));
    }
}
