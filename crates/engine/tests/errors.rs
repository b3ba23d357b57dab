//! Hazard: an error of the engine hides what the log or the medium said. Each error has a kind, a
//! file and an offset, and chains the errors of the layers below, down to the operating system's.

use crate::common::small;
use perdura_engine::{Engine, Error, ErrorKind};
use perdura_pmem::{FileMedium, Medium, Options, SimMedium};
use std::error::Error as _;
use std::sync::Arc;

/// The catalog's first data file.
const CATALOG: &str = "t.00000001.00000";

/// The source of an error, which must be of type `E`.
fn below<E: std::error::Error + 'static>(error: &dyn std::error::Error) -> &E {
    error.source().and_then(|source| source.downcast_ref()).expect("the lower layer's error is the source")
}

/// The error of opening a pool that lacks the file `missing`.
fn open_without(missing: &str) -> Error {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = Options { emulate: true, create_dir: false };
    let medium: Arc<dyn Medium> = Arc::new(FileMedium::open(directory.path(), options).expect("it opens"));
    Engine::open(medium.clone(), small()).expect("a new pool").close();
    medium.remove(missing).expect("it exists");
    Engine::open(medium, small()).err().expect("a file is missing")
}

fn answer(error: &perdura_pmem::Error) -> std::io::ErrorKind {
    below::<std::io::Error>(error).kind()
}

#[test]
fn an_error_is_one_pointer_that_any_thread_can_take() {
    fn crosses_threads<T: Send + Sync + Clone + 'static>() {}
    crosses_threads::<Error>();
    assert_eq!(size_of::<perdura_engine::Result<()>>(), size_of::<usize>());
}

#[test]
fn a_missing_lane_is_told_by_engine_log_medium_and_system() {
    let error = open_without("log.000.00");
    assert_eq!(
        (error.kind(), error.file(), error.offset()),
        (ErrorKind::Damaged, Some("log.000.00"), Some(0)),
        "{error}"
    );
    let log = below::<perdura_log::Error>(&error);
    assert_eq!((log.kind(), log.file(), log.offset()), (perdura_log::ErrorKind::Damaged, Some("log.000.00"), Some(0)));
    let medium = below::<perdura_pmem::Error>(log);
    assert_eq!((medium.kind(), answer(medium)), (perdura_pmem::ErrorKind::NotFound, std::io::ErrorKind::NotFound));
}

#[test]
fn a_missing_data_file_is_told_by_engine_medium_and_system() {
    let error = open_without(CATALOG);
    assert_eq!((error.kind(), error.file()), (ErrorKind::Damaged, Some(CATALOG)), "{error}");
    let medium = below::<perdura_pmem::Error>(&error);
    assert_eq!((medium.kind(), answer(medium)), (perdura_pmem::ErrorKind::NotFound, std::io::ErrorKind::NotFound));
}

#[test]
fn damage_is_told_with_file_and_offset_by_the_layer_that_found_it() {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    Engine::open(medium.clone(), small()).expect("a new pool").close();
    let catalog = medium.open(CATALOG).expect("it exists");
    let whole = catalog.load(16);
    catalog.store(16, !whole);
    let error = Engine::open(medium.clone(), small()).err().expect("the header is damaged");
    assert_eq!((error.kind(), error.file(), error.offset()), (ErrorKind::Damaged, Some(CATALOG), Some(16)), "{error}");
    assert!(error.source().is_none(), "nothing below refused");
    catalog.store(16, whole);
    medium.open("super").expect("it exists").write(0, &[0x55; 8192]);
    let error = Engine::open(medium, small()).err().expect("the superblock is none");
    assert_eq!((error.kind(), error.file(), error.offset()), (ErrorKind::Damaged, Some("super"), Some(0)), "{error}");
    assert_eq!(below::<perdura_log::Error>(&error).kind(), perdura_log::ErrorKind::NotAPool);
}

#[test]
fn a_full_device_is_told_by_every_layer_that_met_it() {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::with_capacity(8 << 10));
    let error = Engine::open(medium, small()).err().expect("no room for the log");
    assert_eq!(error.kind(), ErrorKind::DeviceFull, "{error}");
    let log = below::<perdura_log::Error>(&error);
    assert_eq!(log.kind(), perdura_log::ErrorKind::DeviceFull);
    assert_eq!(below::<perdura_pmem::Error>(log).kind(), perdura_pmem::ErrorKind::Full);
    assert!(error.file().is_some() && error.file() == log.file(), "{error}");

    let medium = Arc::new(SimMedium::new());
    drop(Engine::open(medium.clone(), small()).expect("a new pool"));
    let used = medium.list().expect("it lists").iter().map(|(_, len)| len.next_multiple_of(4096)).sum();
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(medium.image()).limited_to(used));
    let engine = Engine::open(medium, small()).expect("it opens");
    let error = engine.create_table("large", b"").expect_err("no room for its file");
    assert_eq!(error.kind(), ErrorKind::DeviceFull, "{error}");
    assert_eq!(below::<perdura_pmem::Error>(&error).kind(), perdura_pmem::ErrorKind::Full);
}
