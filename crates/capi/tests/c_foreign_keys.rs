//! Hazard: a foreign key that is lost, or names another table than before, after its table or the
//! one that it refers to was renamed, rebuilt or altered, or after a restart; a row that a
//! transaction under way takes away from under a reference.

use crate::support::*;
use perdura_capi::server::code::PerduraCode;
use perdura_capi::server::definition::*;
use perdura_capi::server::foreign_keys::*;
use perdura_capi::server::key::PerduraKey;
use perdura_capi::server::rows::*;
use perdura_capi::server::table::*;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null_mut;

/// By id, unique.
const INDEXES: [PerduraIndex; 1] = [PerduraIndex { unique: true, key_bytes: 4 }];

/// A foreign key of one column.
struct Owned {
    name: CString,
    parent: CString,
    columns: [CString; 2],
    number: u32,
    is_carried: bool,
}

fn foreign_key(name: &str, number: u32, parent: &str) -> Owned {
    let text = |text: &str| CString::new(text).unwrap();
    Owned { name: text(name), parent: text(parent), columns: [text("a"), text("id")], number, is_carried: false }
}

fn create(pool: &Pool, path: &str, keys: &[Owned]) {
    create_copy(pool, (path, None), keys);
}

fn create_copy(pool: &Pool, names: (&str, Option<&str>), keys: &[Owned]) {
    let columns: Vec<[*const c_char; 2]> =
        keys.iter().map(|key| [key.columns[0].as_ptr(), key.columns[1].as_ptr()]).collect();
    let keys: Vec<_> = keys
        .iter()
        .zip(&columns)
        .map(|(key, columns)| PerduraForeignKey {
            name: key.name.as_ptr(),
            number: key.number,
            child: std::ptr::null(),
            parent: key.parent.as_ptr(),
            columns: &columns[0],
            parent_columns: &columns[1],
            column_count: 1,
            on_delete: 3,
            on_update: 0,
            is_carried: key.is_carried,
        })
        .collect();
    ok(pool.create_referring(names, &INDEXES, &keys));
}

extern "C" fn note(context: *mut c_void, key: *const PerduraForeignKey) {
    // SAFETY: `listed` passes its list, and the key is valid during the call.
    unsafe {
        let text = |text| CStr::from_ptr(text).to_str().unwrap().to_owned();
        let key = &*key;
        let (own, of) = (text(*key.columns), text(*key.parent_columns));
        let name = if key.number > 0 { key.number.to_string() } else { text(key.name) };
        let carried = if key.is_carried { " carried" } else { "" };
        let listed = format!("{} {name}: {own} -> {} {of}{carried}", text(key.child), text(key.parent));
        (*context.cast::<Vec<String>>()).push(listed);
    }
}

fn listed(pool: &Pool, path: &str, of: PerduraKeysOf) -> Vec<String> {
    let (path, mut list) = (CString::new(path).unwrap(), Vec::<String>::new());
    // SAFETY: the pool is open, and the list outlives the call.
    ok(unsafe { perdura_foreign_keys(pool.engine, path.as_ptr(), of, note, (&raw mut list).cast()) });
    list
}

fn rename(pool: &Pool, from: &str, to: &str) {
    let (from, to) = (CString::new(from).unwrap(), CString::new(to).unwrap());
    // SAFETY: the pool is open.
    ok(unsafe { perdura_table_rename(pool.engine, from.as_ptr(), to.as_ptr()) });
}

fn drop_table(pool: &Pool, path: &str) {
    let path = CString::new(path).unwrap();
    // SAFETY: the pool is open.
    ok(unsafe { perdura_table_drop(pool.engine, path.as_ptr()) });
}

fn version(pool: &Pool) -> u64 {
    // SAFETY: the pool is open.
    unsafe { perdura_foreign_keys_version(pool.engine) }
}

#[test]
fn keys_are_kept_and_follow_renames() {
    let pool = Pool::new();
    create(&pool, "./d/c", &[foreign_key("k", 0, "./e/p"), foreign_key("", 2, "./d/c")]);
    assert_eq!(listed(&pool, "./e/p", PerduraKeysOf::Parent), ["d/c k: a -> e/p id"], "before there is a parent");
    let before = version(&pool);
    create(&pool, "./e/p", &[]);
    assert!(version(&pool) > before, "the parent has come");
    let before = version(&pool);
    create(&pool, "./e/other", &[]);
    assert_eq!(version(&pool), before, "nobody refers to it");
    rename(&pool, "./e/p", "./f/q");
    rename(&pool, "./d/c", "./d/z");
    let expected = ["d/z k: a -> f/q id", "d/z 2: a -> d/z id"];
    assert_eq!(listed(&pool, "./d/z", PerduraKeysOf::Child), expected);
    assert_eq!(listed(&pool, "./d/any", PerduraKeysOf::Database), expected);
    assert!(version(&pool) > before);
    let pool = pool.reopen();
    assert_eq!(listed(&pool, "./d/z", PerduraKeysOf::Child), expected);
    assert_eq!(listed(&pool, "./f/q", PerduraKeysOf::Parent), [expected[0]]);
    drop_table(&pool, "./d/z");
    assert!(listed(&pool, "./f/q", PerduraKeysOf::Parent).is_empty());
    let pool = pool.reopen();
    assert!(listed(&pool, "./d/z", PerduraKeysOf::Database).is_empty());
}

/// The server fills a copy, puts the old table aside, and the copy in its place.
#[test]
fn keys_stay_when_a_table_is_rebuilt() {
    let pool = Pool::new();
    create(&pool, "./d/p", &[]);
    create(&pool, "./d/c", &[foreign_key("k", 0, "./d/p")]);
    // The child.
    let mut carried = foreign_key("k", 0, "./d/p");
    carried.is_carried = true;
    let copied = ("./d/#sql-alter-1", Some("./d/c"));
    create_copy(&pool, copied, &[carried, foreign_key("new", 0, "./d/c")]);
    let of_parent = || listed(&pool, "./d/p", PerduraKeysOf::Parent);
    assert_eq!(of_parent(), ["d/c k: a -> d/p id"], "a copy is nobody's child");
    rename(&pool, "./d/c", "./d/#sql-backup-1");
    assert_eq!(of_parent(), ["d/c k: a -> d/p id"], "whoever changes the parent now waits for the child");
    rename(&pool, "./d/#sql-backup-1", "./d/c");
    assert_eq!(of_parent(), ["d/c k: a -> d/p id"], "the server gives up, and tries again");
    rename(&pool, "./d/c", "./d/#sql-backup-1");
    rename(&pool, "./d/#sql-alter-1", "./d/c");
    assert_eq!(of_parent(), ["d/c k: a -> d/p id"], "the one put aside does not count any more");
    drop_table(&pool, "./d/#sql-backup-1");
    let expected = ["d/c k: a -> d/p id", "d/c new: a -> d/c id"];
    assert_eq!(listed(&pool, "./d/c", PerduraKeysOf::Child), expected);
    // The parent.
    create_copy(&pool, ("./d/#sql-alter-2", Some("./d/p")), &[]);
    rename(&pool, "./d/p", "./d/#sql-backup-2");
    rename(&pool, "./d/#sql-alter-2", "./d/p");
    drop_table(&pool, "./d/#sql-backup-2");
    let pool = pool.reopen();
    assert_eq!(listed(&pool, "./d/c", PerduraKeysOf::Child), expected);
    assert_eq!(listed(&pool, "./d/p", PerduraKeysOf::Parent), [expected[0]]);
}

/// One statement rebuilds a table and gives it another name. Hazard: those who refer to it go on
/// naming the old one, also if a restart comes before the last rename.
#[test]
fn keys_follow_a_table_that_is_rebuilt_under_another_name() {
    let pool = Pool::new();
    create(&pool, "./d/p", &[foreign_key("own", 0, "./d/p")]);
    create(&pool, "./d/c", &[foreign_key("k", 0, "./d/p")]);
    create_copy(&pool, ("./e/#sql-alter-1", Some("./d/p")), &[foreign_key("own", 0, "./d/p")]);
    rename(&pool, "./d/p", "./d/#sql-backup-1");
    assert_eq!(listed(&pool, "./d/c", PerduraKeysOf::Child), ["d/c k: a -> d/p id"], "the server may still give up");
    let pool = pool.reopen();
    rename(&pool, "./e/#sql-alter-1", "./e/q");
    drop_table(&pool, "./d/#sql-backup-1");
    let check = |pool: &Pool| {
        assert_eq!(listed(pool, "./e/q", PerduraKeysOf::Child), ["e/q own: a -> e/q id"]);
        assert_eq!(listed(pool, "./d/c", PerduraKeysOf::Child), ["d/c k: a -> e/q id"]);
        assert!(listed(pool, "./d/p", PerduraKeysOf::Parent).is_empty());
    };
    check(&pool);
    check(&pool.reopen());
}

extern "C" fn take(context: *mut c_void, row: u64) {
    // SAFETY: the caller passes its list.
    unsafe { (*context.cast::<Vec<u64>>()).push(row) };
}

fn key(bytes: &[u8]) -> PerduraReferenceKey {
    PerduraReferenceKey { index: 0, start: bytes.as_ptr(), length: bytes.len() as u32, is_whole: true }
}

#[test]
fn rows_are_looked_up_without_a_cursor() {
    let pool = Pool::new();
    create(&pool, "./d/p", &[]);
    let cursor = pool.open_with("./d/p", b"v1", &INDEXES).expect("an open table");
    let (one, two) = (pool.session(), pool.session());
    for session in [&one, &two] {
        // SAFETY: the session is live.
        ok(unsafe {
            perdura_capi::server::statement::perdura_statement_begin(
                session.0,
                perdura_capi::server::statement::PerduraIsolation::ReadCommitted,
                0,
            )
        });
    }
    let bytes = 7u32.to_be_bytes();
    let row_key = PerduraKey { bytes: bytes.as_ptr(), length: 4, may_repeat: false };
    // SAFETY: all pointers are to live values.
    unsafe {
        let mut reference = null_mut();
        assert_eq!(perdura_reference_open(pool.engine, c"./d/none".as_ptr(), &mut reference), PerduraCode::NotFound);
        ok(perdura_reference_open(pool.engine, c"./d/p".as_ptr(), &mut reference));
        assert_eq!(perdura_reference_lock(reference, one.0, key(&bytes), 0), PerduraCode::End);
        ok(perdura_insert(cursor.0, one.0, row(7, "x").record().as_ptr(), &row_key));
        ok(perdura_reference_lock(reference, one.0, key(&bytes), 0));
        ok(perdura_reference_exists(reference, one.0, key(&bytes)));
        let own = perdura_position(cursor.0);
        assert_eq!(perdura_reference_lock(reference, one.0, key(&bytes), own), PerduraCode::End, "but itself");
        let (mut referring, mut rows) = (null_mut(), Vec::<u64>::new());
        let other = 8u32.to_be_bytes();
        assert_eq!(perdura_referring_begin(reference, one.0, key(&other), &mut referring), PerduraCode::End);
        ok(perdura_referring_begin(reference, one.0, key(&bytes), &mut referring));
        ok(perdura_referring_next(referring, one.0, take, (&raw mut rows).cast()));
        assert_eq!(rows, [perdura_position(cursor.0)]);
        assert_eq!(perdura_referring_next(referring, one.0, take, (&raw mut rows).cast()), PerduraCode::End);
        perdura_referring_end(referring);
        assert_eq!(perdura_reference_lock(reference, two.0, key(&bytes), 0), PerduraCode::LockWaitTimeout);
        ok(perdura_capi::server::transaction::perdura_commit(one.0));
        ok(perdura_reference_lock(reference, two.0, key(&bytes), 0));
        perdura_reference_close(reference);
    }
}
