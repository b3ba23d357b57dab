//! Hazard: an error that does not say what to do, to which file, or why. Each tells its kind, file
//! and offset, and keeps what the operating system said as its source.

use perdura_pmem::{Error, ErrorKind, FileMedium, Medium, Options, SimMedium};
use std::error::Error as _;
use std::io;

/// The system's answer behind an error.
fn answer(error: &Error) -> Option<io::ErrorKind> {
    Some(error.source()?.downcast_ref::<io::Error>()?.kind())
}

#[test]
fn a_missing_file_is_named_by_its_path_with_the_systems_answer() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let medium = FileMedium::open(directory.path(), Options { emulate: true, create_dir: false }).expect("it opens");
    let error = medium.open("absent").expect_err("there is none");
    let path = directory.path().join("absent").display().to_string();
    assert_eq!((error.kind(), error.file(), error.offset()), (ErrorKind::NotFound, Some(&*path), None), "{error}");
    assert_eq!(answer(&error), Some(io::ErrorKind::NotFound));
    assert!(error.to_string().contains("restore the file"), "the message names the remedy: {error}");
}

#[test]
fn a_full_device_tells_the_bytes_wanted_and_those_free() {
    let medium = SimMedium::with_capacity(16 << 10);
    let error = medium.create("large", 20 << 10).expect_err("it cannot fit");
    assert_eq!((error.kind(), error.file(), error.offset()), (ErrorKind::Full, Some("large"), None), "{error}");
    assert!(error.to_string().contains("20480 bytes wanted, 16384 free"), "{error}");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let medium = FileMedium::open(directory.path(), Options { emulate: true, create_dir: false }).expect("it opens");
    let error = medium.create("large", 1 << 62).expect_err("it cannot fit");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!(answer(&error).is_some() && error.to_string().contains(" free;"), "{error}");
}

#[test]
fn a_failed_sync_keeps_its_cause() {
    let medium = SimMedium::new();
    let region = medium.create("file", 4096).expect("there is room");
    medium.fail_syncs(true);
    let error = region.sync().expect_err("told to fail");
    assert_eq!((error.kind(), error.file(), error.offset()), (ErrorKind::Io, Some("file"), None), "{error}");
    assert_eq!(answer(&error), Some(io::ErrorKind::Other));
}

/// A layer above passes an error on under its own kind; nothing that the user needs may get lost on
/// the way.
#[test]
fn an_error_passed_on_keeps_message_and_place_and_becomes_the_source() {
    let error = Error::new(ErrorKind::Poisoned, "bad block").in_file("t.1").at(4096);
    let upper = error.clone().pass_on("restore");
    assert_eq!(
        (upper.kind, &*upper.message, upper.file.as_deref(), upper.offset),
        ("restore", "bad block", Some("t.1"), Some(4096))
    );
    let source = upper.source.expect("the lower error");
    assert_eq!(source.downcast_ref::<Error>().map(Error::kind), Some(ErrorKind::Poisoned));
    let again = error.caused_by(io::Error::other("hardware"));
    assert_eq!(
        (again.clone().offset(), again.source().map(ToString::to_string)),
        (Some(4096), Some("hardware".to_owned()))
    );
}

#[test]
fn a_directory_that_is_none_is_named_with_what_to_do() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("file");
    std::fs::write(&file, b"").expect("it can be written");
    for (path, kind, words) in [
        (directory.path().join("absent"), ErrorKind::NotFound, "make it for the account"),
        (std::path::PathBuf::new(), ErrorKind::NotFound, "no directory is named"),
        (file, ErrorKind::Io, "name a directory"),
    ] {
        let error = FileMedium::open(&path, Options { emulate: true, create_dir: false }).err().expect("no directory");
        assert!(error.kind() == kind && error.to_string().contains(words), "{path:?}: {error}");
    }
}
