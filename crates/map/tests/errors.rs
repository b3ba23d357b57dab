//! Hazard: an error of a map hides what the medium reported. Each must have a kind, the file and
//! the offset, and the medium's error as its source.

use perdura_map::{BTree, Config, Error, ErrorKind, Layout, List, OrderedMap, Ts};
use perdura_pmem::{FileMedium, Medium, Options, SimMedium};
use std::error::Error as _;
use std::sync::Arc;

fn config() -> Config {
    Config { background: false, ..Config::default() }
}

/// The kind of the medium's error that is the source of a map's error.
fn medium_kind(error: &Error) -> Option<perdura_pmem::ErrorKind> {
    Some(error.source()?.downcast_ref::<perdura_pmem::Error>()?.kind())
}

#[test]
fn an_error_is_one_pointer_that_any_thread_can_take() {
    fn crosses_threads<T: Send + Sync + Clone + 'static>() {}
    crosses_threads::<Error>();
    assert_eq!(size_of::<perdura_map::Result<()>>(), size_of::<usize>());
}

#[test]
fn a_missing_map_is_told_by_map_medium_and_system() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = Options { emulate: true, create_dir: false };
    let medium: Arc<dyn Medium> = Arc::new(FileMedium::open(directory.path(), options).expect("it opens"));
    let error = List::open(&medium, "absent", &config()).expect_err("there is none");
    let path = directory.path().join("absent").display().to_string();
    assert_eq!((error.kind(), error.file()), (ErrorKind::NotFound, Some(&*path)), "{error}");
    assert_eq!(medium_kind(&error), Some(perdura_pmem::ErrorKind::NotFound));
    let below = error.source().and_then(std::error::Error::source).and_then(|source| source.downcast_ref());
    assert_eq!(below.map(std::io::Error::kind), Some(std::io::ErrorKind::NotFound));
}

#[test]
fn damage_is_told_with_file_and_offset() {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    drop(BTree::create(&medium, "map", &Layout::btree(1 << 20), &config()).expect("there is room"));
    let region = medium.open("map").expect("it exists");
    // The last word of the identity, with its checksum at offset 60.
    region.store(56, region.load(56) ^ 1 << 40);
    let error = BTree::open(&medium, "map", &config()).expect_err("its checksum does not match");
    assert_eq!((error.kind(), error.file(), error.offset()), (ErrorKind::Damaged, Some("map"), Some(0)), "{error}");
    assert!(error.source().is_none(), "nothing below refused");
}

#[test]
fn a_full_device_and_a_taken_name_are_told() {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::with_capacity(2 << 20));
    let error = List::create(&medium, "large", &Layout::list(4 << 20), &config()).expect_err("it cannot fit");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert_eq!(medium_kind(&error), Some(perdura_pmem::ErrorKind::Full));
    let list = List::create(&medium, "map", &Layout::list(1 << 20), &config()).expect("there is room");
    let error = List::create(&medium, "map", &Layout::list(1 << 20), &config()).expect_err("the name is taken");
    assert_eq!((error.kind(), error.file()), (ErrorKind::Exists, Some("map")), "{error}");
    let error = list.put(b"key", &vec![0; 4 << 20]).expect_err("larger than the region");
    assert_eq!(error.file(), Some("map"), "{error}");
    assert!(list.get(b"key", Ts::MAX).expect("it reads").is_none());
}
