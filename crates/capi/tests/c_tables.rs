//! Hazard: a table that is found under a wrong name, opened with another definition than it was
//! written with, listed although it is the server's own, or dropped although it is the last copy.

use crate::support::*;
use perdura_capi::server::cleanup::*;
use perdura_capi::server::code::PerduraCode;
use perdura_capi::server::discovery::*;
use perdura_capi::server::handler::*;
use perdura_capi::server::report::*;
use perdura_capi::server::status::*;
use perdura_capi::server::table::*;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::Mutex;

fn path(path: &str) -> CString {
    CString::new(path).unwrap()
}

fn exists(pool: &Pool, name: &str) -> bool {
    // SAFETY: the engine is open.
    unsafe { perdura_table_exists(pool.engine, path(name).as_ptr()) }
}

fn drop_table(pool: &Pool, name: &str) -> PerduraCode {
    // SAFETY: the engine is open.
    unsafe { perdura_table_drop(pool.engine, path(name).as_ptr()) }
}

fn listed(pool: &Pool, database: &str) -> Vec<String> {
    unsafe extern "C" fn found(context: *mut c_void, name: *const c_char) -> bool {
        // SAFETY: the context is the vector below, the name a C string.
        unsafe { (*context.cast::<Vec<String>>()).push(CStr::from_ptr(name).to_str().unwrap().to_owned()) };
        false
    }
    let mut names: Vec<String> = Vec::new();
    // SAFETY: the engine is open; the context is what `found` expects.
    ok(unsafe { perdura_tables_list(pool.engine, path(database).as_ptr(), found, (&raw mut names).cast()) });
    names
}

#[test]
fn a_table_has_one_name_whatever_the_path() {
    let pool = Pool::new();
    ok(pool.create("./d/t", b"v1", b"frm"));
    assert_eq!(pool.create("./d/t", b"v1", b"frm"), PerduraCode::Exists);
    assert!(exists(&pool, "./d/t") && exists(&pool, "/data/d/t"));
    assert!(!exists(&pool, "./d/T") && !exists(&pool, "./e/t") && !exists(&pool, "t") && !exists(&pool, ""));
    // SAFETY: the engine is open.
    ok(unsafe { perdura_table_rename(pool.engine, path("./d/t").as_ptr(), path("./e/u").as_ptr()) });
    assert!(exists(&pool, "./e/u") && !exists(&pool, "./d/t"));
    ok(drop_table(&pool, "./e/u"));
    assert_eq!(drop_table(&pool, "./e/u"), PerduraCode::NotFound);
}

#[test]
fn another_definition_is_noticed() {
    let pool = Pool::new();
    ok(pool.create("./d/t", b"v1", b"frm"));
    assert_eq!(pool.open("./d/t", b"v2").err(), Some(PerduraCode::DefinitionChanged));
    assert_eq!(pool.open("./d/u", b"v1").err(), Some(PerduraCode::NotFound));
    assert!(pool.open("./d/t", b"v1").is_ok());
    // The server keeps the definitions of partitions, and gives them new ids at will.
    ok(pool.create("./d/p#P#p0", b"v1", b""));
    assert!(pool.open("./d/p#P#p0", b"v2").is_ok());
}

#[test]
fn the_servers_own_tables_are_not_listed() {
    let pool = Pool::new();
    for name in ["./d/t1", "./d/t@0023x", "./d2/t2", "./d/#sql-alter-1-2", "./d/#sql-backup-1-2"] {
        ok(pool.create(name, b"v1", b"frm"));
    }
    ok(pool.create("./d/p#P#p0", b"v1", b""));
    ok(pool.create("./d/kept_by_the_server", b"v1", b""));
    assert_eq!(listed(&pool, "d"), ["t1", "t@0023x"]);
    assert_eq!(listed(&pool, "d2"), ["t2"]);
    assert!(listed(&pool, "x").is_empty());
}

#[test]
fn definitions_are_found_again() {
    let pool = Pool::new();
    ok(pool.create("./d/t", b"v1", b"the server's bytes"));
    let pool = pool.reopen();
    let mut frm = std::ptr::null_mut();
    // SAFETY: all pointers are to live values; the definition is released once.
    unsafe {
        ok(perdura_frm_fetch(pool.engine, path("./d/t").as_ptr(), &mut frm));
        let mut bytes = 0;
        let data = perdura_frm_data(frm, &mut bytes);
        assert_eq!(std::slice::from_raw_parts(data, bytes), b"the server's bytes");
        perdura_frm_release(frm);
        assert_eq!(perdura_frm_fetch(pool.engine, path("./d/u").as_ptr(), &mut frm), PerduraCode::NotFound);
    }
}

#[test]
fn garbage_goes_and_last_copies_stay() {
    static KEPT: Mutex<Vec<String>> = Mutex::new(Vec::new());
    unsafe extern "C" fn kept(name: *const c_char) {
        // SAFETY: the name is a C string.
        KEPT.lock().unwrap().push(unsafe { CStr::from_ptr(name) }.to_str().unwrap().to_owned());
    }
    let pool = Pool::new();
    for name in ["./d/t", "./d/#sql-alter-1-2", "./d/#sql-backup-1-2", "/tmp/#sql-temptable-1-2-3"] {
        ok(pool.create(name, b"v1", b"frm"));
    }
    // SAFETY: the engine is open.
    ok(unsafe { perdura_drop_temporary_tables(pool.engine) });
    assert!(!exists(&pool, "/elsewhere/#sql-temptable-1-2-3") && exists(&pool, "./d/#sql-alter-1-2"));
    // SAFETY: as above.
    ok(unsafe { perdura_drop_ddl_garbage(pool.engine, kept) });
    assert!(exists(&pool, "./d/t") && exists(&pool, "./d/#sql-backup-1-2") && !exists(&pool, "./d/#sql-alter-1-2"));
    assert_eq!(*KEPT.lock().unwrap(), ["d/#sql-backup-1-2"]);
}

#[test]
fn a_truncated_table_goes_on_under_the_same_cursor() {
    let pool = Pool::new();
    let (table, session) = (pool.table("./d/t"), pool.session());
    session.begin(false);
    ok(table.insert(&session, &row(1, "x")));
    session.commit();
    // SAFETY: the cursor is open, no other is.
    ok(unsafe { perdura_table_truncate(pool.engine, table.0) });
    session.begin(false);
    assert!(table.rows(&session).is_empty());
    ok(table.insert(&session, &row(2, "y")));
    session.commit();
    let mut info = PerduraTableInfo::default();
    // SAFETY: the cursor is open.
    unsafe { perdura_table_info(table.0, &mut info) };
    assert_eq!(info.rows, 1);
    assert!(info.data_bytes > info.free_bytes);
}

#[test]
fn a_pool_in_use_is_refused_by_name() {
    let pool = Pool::new();
    assert_eq!(pool.open_twice(), PerduraCode::Medium);
    assert!(last_message().contains("use"), "{}", last_message());
}

#[test]
fn counters_and_report_tell_what_happened() {
    let pool = Pool::new();
    let (table, session) = (pool.table("./d/told"), pool.session());
    session.begin(false);
    ok(table.insert(&session, &row(1, "x")));
    session.commit();
    let mut counters = [PerduraCounter { name: std::ptr::null(), value: 0 }; 64];
    // SAFETY: the engine is open; the report is released once.
    let (count, text) = unsafe {
        let count = perdura_counters(pool.engine, counters.as_mut_ptr(), counters.len());
        let report = perdura_report(pool.engine);
        let mut bytes = 0;
        let data = perdura_report_text(report, &mut bytes);
        let text = String::from_utf8(std::slice::from_raw_parts(data, bytes).to_vec()).unwrap();
        perdura_report_release(report);
        (count, text)
    };
    let of = |name: &str| {
        // SAFETY: the names of those that were read are C strings.
        let found =
            counters[..count].iter().find(|counter| unsafe { CStr::from_ptr(counter.name) }.to_str() == Ok(name));
        found.expect("a counter of that name").value
    };
    assert_eq!(["sessions_open", "sessions_begun", "transactions", "failed"].map(of), [1, 1, 1, 0]);
    assert!(of("commits") >= 1 && of("fences") > 0);
    let names: BTreeSet<_> = counters[..count].iter().map(|counter| counter.name).collect();
    assert_eq!(names.len(), count, "each name stands for one");
    // SAFETY: there is room for one.
    assert_eq!(unsafe { perdura_counters(std::ptr::null(), counters.as_mut_ptr(), 1) }, count);
    assert_eq!(counters[0].value, 0, "without a pool there is nothing to count");
    assert!(text.contains("d/told"), "{text}");
}
