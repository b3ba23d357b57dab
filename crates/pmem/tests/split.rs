//! A pool's log and data in two directories, and who is refused.

use perdura_pmem::{Error, ErrorKind, FileMedium, Medium, Options, SplitMedium};
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
pub fn a_missing_foreign_or_older_half_is_refused() {
    let (log, data) = (directory(), directory());
    join(&log, &data).expect("both are new");
    assert!(log.path().join("super").exists() && data.path().join("t.1").exists());
    let (old_log, old_data) = (copy(log.path()), copy(data.path()));
    (0..2).for_each(|_| join(&log, &data).expect("they belong together"));
    refused(join(&old_log, &data), &old_log);
    refused(join(&log, &old_data), &old_data);
    let (other_log, other_data, empty) = (directory(), directory(), directory());
    // As often as the first.
    (0..3).for_each(|_| join(&other_log, &other_data).expect("they belong together"));
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

/// Hazard: a start is cut off between the two halves, or within one, and the next one takes them
/// for copies of different age.
#[test]
pub fn a_start_that_is_cut_off_is_begun_again() {
    for (of_log_fails, after) in [true, false].into_iter().flat_map(|half| (0..6).map(move |after| (half, after))) {
        let (log, data) = (directory(), directory());
        join(&log, &data).expect("both are new");
        let of_log = Arc::new(FileMedium::open_journaled(log.path(), false, 0).expect("it opens"));
        let of_data = FileMedium::open_journaled(data.path(), false, 0).expect("it opens");
        if of_log_fails { &of_log } else { &of_data }.fail_sync_after(after);
        // The last ones of either may fail too late to matter.
        drop(SplitMedium::join(of_log, data.path(), || Ok(of_data)));
        join(&log, &data).unwrap_or_else(|error| panic!("the log's {of_log_fails}, sync {after}: {error}"));
    }
}

/// Hazard: the journal of the data lies beside the log, since that was memory; a start that takes
/// the log's directory for a disk replays it to the wrong files, or to none.
#[test]
fn a_journal_beside_the_log_is_found_whatever_the_log_is_on_now() {
    for is_disk in [true, false] {
        let (log, data) = (directory(), directory());
        let in_memory = || {
            let options = Options { emulate: true, ..Options::default() };
            Arc::new(FileMedium::open(log.path(), options).expect("it opens"))
        };
        let opened = |of_log: Arc<FileMedium>| {
            let open = || FileMedium::open_journaled_on(&of_log, data.path(), false, 0);
            SplitMedium::join(of_log.clone(), data.path(), open).expect("they belong together")
        };
        let medium = opened(in_memory());
        let region = medium.create("t.1", 4096).expect("there is room");
        region.sync().and_then(|()| medium.sync_dir()).expect("nothing fails");
        region.store(0, 7);
        region.persist(0, 8);
        drop((region, medium));
        // As a disk that has lost what was in its cache.
        fs::write(data.path().join("t.1"), [0; 4096]).expect("it is written");
        let view = SplitMedium::open_to_read(log.path(), data.path()).expect("they belong together");
        assert_eq!(view.open("t.1").expect("it is there").load(0), 7);
        assert_eq!(view.create("t.2", 4096).expect_err("it is only read").kind(), ErrorKind::Unsupported);
        drop(view);
        assert_eq!(fs::read(data.path().join("t.1")).expect("it is there"), [0; 4096], "nothing was changed");
        let of_log = match is_disk {
            true => Arc::new(FileMedium::open_journaled(log.path(), false, 0).expect("it opens")),
            false => in_memory(),
        };
        let medium = opened(of_log);
        assert_eq!(medium.open("t.1").expect("it is there").load(0), 7, "{is_disk}");
        drop(medium);
        let medium = opened(in_memory());
        let region = medium.open("t.1").expect("it is there");
        region.store(0, 8);
        region.persist(0, 8);
        drop((region, medium));
        fs::write(data.path().join("t.1"), [0; 4096]).expect("it is written");
        assert_eq!(opened(in_memory()).open("t.1").expect("it is there").load(0), 8, "the later one counts");
    }
}
