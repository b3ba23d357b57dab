//! Hazard: a sequence gives a value out twice, since the end of its range was stored in a
//! transaction that is rolled back, or was not stored yet as the value was given out.

use crate::support::*;
use perdura_capi::server::code::PerduraCode;
use perdura_capi::server::sequence::*;

fn write(cursor: &Cursor, id: u32) {
    // SAFETY: the record is one of this table, the cursor used by this thread alone.
    ok(unsafe { perdura_sequence_write(cursor.0, row(id, "range").record().as_ptr()) });
}

fn read(cursor: &Cursor) -> Option<u32> {
    let mut record = [0; RECORD_BYTES];
    // SAFETY: as above.
    match unsafe { perdura_sequence_read(cursor.0, record.as_mut_ptr()) } {
        PerduraCode::End => None,
        code => {
            ok(code);
            Some(Row::of(&record).id)
        }
    }
}

#[test]
fn a_change_stays_though_its_connection_rolls_back() {
    let pool = Pool::new();
    let (sequence, table, session) = (pool.table("./d/s"), pool.table("./d/t"), pool.session());
    assert_eq!(read(&sequence), None);
    session.begin(false);
    ok(table.insert(&session, &row(1, "")));
    write(&sequence, 1000);
    write(&sequence, 2000);
    session.rollback();
    assert_eq!(read(&sequence), Some(2000));
    session.begin(true);
    assert_eq!(sequence.rows(&session), [row(2000, "range")], "one row");
    assert_eq!(table.rows(&session), []);
    session.commit();
}

#[test]
fn whoever_reads_sees_the_newest_row() {
    let pool = Pool::new();
    let (sequence, other, session) = (pool.table("./d/s"), pool.open("./d/s", b"v1").unwrap(), pool.session());
    write(&sequence, 1);
    session.begin(false);
    assert_eq!(sequence.rows(&session), [row(1, "range")]);
    write(&other, 2);
    assert_eq!((read(&sequence), read(&other)), (Some(2), Some(2)), "within a transaction that has a snapshot");
    session.commit();
}

#[test]
fn a_change_is_durable_as_the_call_returns() {
    let pool = Pool::new();
    let sequence = pool.table("./d/s");
    for id in 1..200 {
        write(&sequence, id);
        if id % 50 == 1 {
            let killed = pool.as_killed();
            assert_eq!(read(&killed.open("./d/s", b"v1").expect("the table")), Some(id));
        }
    }
    drop(sequence);
    let pool = pool.reopen();
    assert_eq!(read(&pool.open("./d/s", b"v1").expect("the table")), Some(199));
}
