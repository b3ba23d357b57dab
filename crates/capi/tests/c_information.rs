//! Hazard: information_schema shows a value under the wrong column, or a text that is not there any
//! more; and CHECK TABLE passes a damaged row, or does not say which.

use crate::support::*;
use perdura_capi::server::check::*;
use perdura_capi::server::code::{PERDURA_NO_INDEX, PerduraCode};
use perdura_capi::server::information::*;
use perdura_capi::server::key::PerduraKey;
use perdura_capi::server::value::{PerduraValue, PerduraValueKind};
use std::ffi::c_void;

/// A value as text; `None` for NULL.
type Text = Option<String>;

struct Rows {
    rows: Vec<Vec<Text>>,
    most: usize,
}

unsafe extern "C" fn take(context: *mut c_void, values: *const PerduraValue, count: usize) -> bool {
    // SAFETY: the context is the rows below; the values are as many as said, their texts alive.
    let (rows, values) = unsafe { (&mut *context.cast::<Rows>(), std::slice::from_raw_parts(values, count)) };
    let text = |value: &PerduraValue| match value.kind {
        PerduraValueKind::Null => None,
        PerduraValueKind::Number => Some(value.number.to_string()),
        PerduraValueKind::Milliseconds => Some(format!("{} ms", value.number)),
        PerduraValueKind::Text => {
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts(value.text, value.bytes) };
            Some(String::from_utf8(bytes.to_vec()).unwrap())
        }
    };
    rows.rows.push(values.iter().map(text).collect());
    rows.rows.len() < rows.most
}

fn list_most(pool: &Pool, list: PerduraList, most: usize) -> Vec<Vec<Text>> {
    let mut rows = Rows { rows: Vec::new(), most };
    // SAFETY: the engine is open; the context is what `take` expects.
    ok(unsafe { perdura_list(pool.engine, list, take, (&raw mut rows).cast()) });
    rows.rows
}

fn list(pool: &Pool, which: PerduraList) -> Vec<Vec<Text>> {
    list_most(pool, which, usize::MAX)
}

fn some(text: &str) -> Text {
    Some(text.to_owned())
}

#[test]
fn a_transaction_has_a_value_for_each_column() {
    let pool = Pool::new();
    let (table, session) = (pool.table("./d/t"), pool.session());
    assert!(list(&pool, PerduraList::Transactions).is_empty());
    // SAFETY: the session is live, the texts end with a zero byte.
    unsafe {
        use perdura_capi::server::session::perdura_session_identify;
        perdura_session_identify(session.0, 42, c"anna".as_ptr(), c"here".as_ptr());
    }
    session.begin(true);
    ok(table.insert(&session, &row(1, "x")));
    session.end_statement();
    let rows = list(&pool, PerduraList::Transactions);
    assert_eq!((rows.len(), rows[0].len()), (1, 12));
    assert_eq!(rows[0][1..4], [some("42"), some("anna@here"), some("RUNNING")]);
    assert!(rows[0][4].as_ref().unwrap().ends_with(" ms"));
    assert_eq!(rows[0][5..8], [some("READ COMMITTED"), some("1"), some("0")]);
    assert_eq!(rows[0][9..], [None, None, None], "no snapshot, and nobody to ask for the statement");
    session.commit();
    assert!(list(&pool, PerduraList::Transactions).is_empty());
}

#[test]
fn tables_are_listed_until_the_taker_has_enough() {
    let pool = Pool::new();
    let (table, session) = (pool.table("./d/a"), pool.session());
    ok(pool.create("./d/b", b"v1", b"frm"));
    session.begin(true);
    ok(table.insert(&session, &row(1, "x")));
    session.commit();
    let rows = list(&pool, PerduraList::Space);
    assert_eq!((rows.len(), rows[1].len()), (3, 11));
    assert_eq!(rows[1][1..4], [some("d/a"), some("OPEN"), some("1")]);
    let number = |column: usize| rows[1][column].as_ref().unwrap().parse::<u64>().unwrap();
    assert_eq!(number(4), number(5) + number(6), "bytes in use and free bytes are all bytes");
    assert_eq!(rows[1][7], some("1"));
    assert!(rows[1][8..].iter().all(Option::is_some), "an open table is known in full: {:?}", rows[1]);
    assert_eq!(list_most(&pool, PerduraList::Space, 2).len(), 2);
    assert!(list(&pool, PerduraList::Locks).is_empty() && list(&pool, PerduraList::LockWaits).is_empty());
}

/// Reports to a check, and how often it may go on.
struct Told {
    faults: Vec<String>,
    left: u32,
}

unsafe extern "C" fn goes_on(context: *mut c_void, _done: u64, _all: u64) -> bool {
    // SAFETY: the context is the one below.
    let told = unsafe { &mut *context.cast::<Told>() };
    told.left = told.left.saturating_sub(1);
    told.left > 0
}

unsafe extern "C" fn fault(context: *mut c_void, text: *const u8, bytes: usize, index: u32) {
    // SAFETY: the context is the one below, the text as long as said.
    unsafe {
        let text = String::from_utf8(std::slice::from_raw_parts(text, bytes).to_vec()).unwrap();
        assert_eq!(index, PERDURA_NO_INDEX, "a row's fault is of no index");
        (*context.cast::<Told>()).faults.push(text);
    }
}

unsafe extern "C" fn no_key(_context: *mut c_void, _index: u32, _key: *mut PerduraKey) -> bool {
    false
}

fn check(table: &Cursor, session: &Session, quick: bool, left: u32) -> (PerduraCode, Vec<String>) {
    let mut told = Told { faults: Vec::new(), left };
    let hooks = PerduraCheckHooks { goes_on, fault, key: no_key, context: (&raw mut told).cast() };
    let mut record = [0; RECORD_BYTES];
    session.begin(false);
    // SAFETY: both are live, the record is one of the table, the context what the hooks expect.
    let code = unsafe { perdura_table_check(table.0, session.0, quick, record.as_mut_ptr(), hooks) };
    session.commit();
    (code, told.faults)
}

#[test]
fn a_changed_byte_of_a_row_is_a_fault_with_its_place() {
    let pool = Pool::new();
    let (table, session) = (pool.table("./d/t"), pool.session());
    session.begin(false);
    (0..100).for_each(|id| ok(table.insert(&session, &row(id, &format!("needle {id:03}")))));
    session.commit();
    assert_eq!(check(&table, &session, false, u32::MAX), (PerduraCode::Ok, Vec::new()));
    assert_eq!(check(&table, &session, false, 1).0, PerduraCode::Killed);
    let file = pool.path().join("t.00000002.00000");
    let bytes = std::fs::read(&file).unwrap();
    let at = bytes.windows(10).position(|bytes| bytes == b"needle 042").expect("the row's text");
    let change = |byte: &[u8]| {
        use std::os::unix::fs::FileExt;
        std::fs::File::options().write(true).open(&file).unwrap().write_all_at(byte, at as u64).unwrap();
    };
    change(b"N");
    let (code, faults) = check(&table, &session, false, u32::MAX);
    assert_eq!((code, faults.len()), (PerduraCode::Damaged, 1), "{faults:?}");
    assert!(faults[0].starts_with("row 0x") && faults[0].contains(": t.00000002.00000 at offset "), "{}", faults[0]);
    assert!(last_message().contains("1 faults"), "{}", last_message());
    assert_eq!(check(&table, &session, true, u32::MAX).0, PerduraCode::Ok, "a quick check reads headers only");
    change(b"n");
    assert_eq!(check(&table, &session, false, u32::MAX).0, PerduraCode::Ok, "nothing was marked");
}
