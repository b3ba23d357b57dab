//! A pool's log and data in two directories, and who is refused.

use perdura_pmem::{Error, ErrorKind, FileMedium, Medium, SplitMedium};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn directory() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory")
}

/// Joins two directories, and makes a file in each if they are new.
fn join(log: &TempDir, data: &TempDir) -> Result<(), Error> {
    let of_log = Arc::new(FileMedium::open_journaled(log.path(), false, 0)?);
    let open = || FileMedium::open_journaled(data.path(), false, 0);
    let medium = SplitMedium::join(of_log, data.path(), open)?;
    if medium.list()?.is_empty() {
        medium.create("super", 4096)?.sync()?;
        medium.create("t.1", 4096)?.sync()?;
        medium.sync_dir()?;
    }
    Ok(())
}

fn copy(from: &Path) -> TempDir {
    let to = directory();
    for entry in fs::read_dir(from).expect("it lists") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, to.path().join(path.file_name().expect("a file"))).expect("it is copied");
    }
    to
}

fn refused(joined: Result<(), Error>, directory: &TempDir) {
    let error = joined.expect_err("refused");
    assert_eq!((error.kind(), error.file()), (ErrorKind::Mismatch, directory.path().to_str()), "{error}");
}

#[test]
fn a_missing_foreign_or_older_half_is_refused() {
    let (log, data) = (directory(), directory());
    join(&log, &data).expect("both are new");
    assert!(log.path().join("super").exists() && data.path().join("t.1").exists());
    let (old_log, old_data) = (copy(log.path()), copy(data.path()));
    (0..2).for_each(|_| join(&log, &data).expect("they belong together"));
    refused(join(&old_log, &data), &old_log);
    refused(join(&log, &old_data), &old_data);
    let (other_log, other_data, empty) = (directory(), directory(), directory());
    join(&other_log, &other_data).expect("both are new");
    refused(join(&other_log, &data), &other_log);
    refused(join(&empty, &data), &empty);
    refused(join(&log, &empty), &log);
    refused(join(&data, &log), &data);
    for half in [&log, &data] {
        let error = SplitMedium::refuse_half(half.path()).expect_err("the other half is elsewhere");
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    }
    SplitMedium::refuse_half(empty.path()).expect("it is no half");
    join(&log, &data).expect("nothing was changed");
    fs::write(data.path().join("pair"), [7; 64]).expect("it is written");
    let damaged = [SplitMedium::refuse_half(data.path()), join(&log, &data)];
    assert!(damaged.into_iter().all(|refusal| refusal.is_err_and(|error| error.kind() == ErrorKind::Poisoned)));
}
