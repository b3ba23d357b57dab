//! Hazard: an error of the log that hides what the medium said. Each tells its kind, file and
//! offset, and chains the medium's error.

use crate::support::{commit, create, damage, opened, recover, tiny};
use perdura_log::{Error, ErrorKind, Recovery};
use perdura_pmem::{FileMedium, Medium, Options, SimMedium};
use std::error::Error as _;
use std::sync::Arc;

/// The medium's error behind one of the log.
fn medium_error(error: &Error) -> &perdura_pmem::Error {
    error.source().and_then(|source| source.downcast_ref()).expect("the medium's error is the source")
}

#[test]
fn an_error_is_one_pointer_that_any_thread_can_take() {
    fn crosses_threads<T: Send + Sync + Clone + 'static>() {}
    crosses_threads::<Error>();
    assert_eq!(size_of::<perdura_log::Result<()>>(), size_of::<usize>());
}

#[test]
fn a_damaged_superblock_is_told_with_its_place() {
    let (medium, log) = opened(&tiny(1, 2));
    commit(&log, 0, b"x");
    drop(log);
    for copy in [0, 4096] {
        damage(&medium, "super", copy + 64, |bytes| bytes[0] ^= 1);
    }
    let error = Recovery::open(medium, &tiny(1, 2)).err().expect("both copies are damaged");
    assert_eq!((error.kind(), error.file(), error.offset()), (ErrorKind::Damaged, Some("super"), Some(0)), "{error}");
    assert!(error.source().is_none(), "nothing below refused");
}

/// Through all layers: the log says which file of the pool is missing, the medium by which path,
/// the system with which answer.
#[test]
fn a_missing_lane_is_told_by_log_medium_and_system() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = Options { emulate: true, create_dir: false };
    let medium: Arc<dyn Medium> = Arc::new(FileMedium::open(directory.path(), options).expect("it opens"));
    create(&medium, &tiny(2, 2), 1);
    medium.remove("log.001.01").expect("it exists");
    let error = Recovery::open(medium, &tiny(2, 2)).err().expect("a lane is missing");
    assert_eq!(
        (error.kind(), error.file(), error.offset()),
        (ErrorKind::Damaged, Some("log.001.01"), Some(0)),
        "{error}"
    );
    let below = medium_error(&error);
    let path = directory.path().join("log.001.01").display().to_string();
    assert_eq!((below.kind(), below.file()), (perdura_pmem::ErrorKind::NotFound, Some(&*path)));
    let answer = below.source().and_then(|source| source.downcast_ref::<std::io::Error>()).map(std::io::Error::kind);
    assert_eq!(answer, Some(std::io::ErrorKind::NotFound));
}

#[test]
fn a_full_device_is_told_as_such() {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::with_capacity(8 << 10));
    let error = perdura_log::create(&medium, &tiny(2, 2), [0; 8], &mut || 1).expect_err("no room for a lane");
    assert_eq!(error.kind(), ErrorKind::DeviceFull, "{error}");
    let below = medium_error(&error);
    assert_eq!((below.kind(), below.file()), (perdura_pmem::ErrorKind::Full, error.file()));
    assert_eq!(below.to_string(), error.to_string(), "the outer message is complete by itself");
}

#[test]
fn a_failed_persist_keeps_its_cause() {
    let sim = Arc::new(SimMedium::new());
    let medium: Arc<dyn Medium> = sim.clone();
    create(&medium, &tiny(1, 2), 1);
    let (log, _) = recover(&medium, &tiny(1, 2)).expect("it recovers");
    commit(&log, 0, b"x");
    sim.fail_syncs(true);
    let error = log.checkpoint().expect_err("the superblock is not durable");
    assert_eq!((error.kind(), error.file()), (ErrorKind::Medium, Some("super")), "{error}");
    assert_eq!(medium_error(&error).kind(), perdura_pmem::ErrorKind::Io);
}
