//! `perdura restore` as a person meets it, and what must never be taken for a backup or a pool:
//! parts of one, damaged ones, other files. Backups of a running server are made, and restored, by
//! `cargo xtask operations`.

mod support;

use perdura_engine::Isolation;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::process::Command;
use support::open;
use tempfile::TempDir;

const INFO: &str = "perdura backup 1\nserver: 10.11\n";

/// A directory with a complete backup of a pool of 300 rows in it, at `backup`.
fn backup() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let pool = directory.path().join("backup/pool");
    fs::create_dir_all(&pool).unwrap();
    let engine = open(&pool).unwrap();
    let table = engine.create_table("d/flights", b"definition").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    for number in 0..300u32 {
        txn.insert(&table, &number.to_le_bytes()).unwrap();
    }
    txn.commit().unwrap();
    drop(txn);
    fs::write(directory.path().join("backup/backup.info"), INFO).unwrap();
    directory
}

/// Restores `directory/backup` to `directory/pool`: exit status, output, and the pool.
fn restore(directory: &TempDir) -> (i32, String, PathBuf) {
    let pool = directory.path().join("pool");
    let mut command = Command::new(env!("CARGO_BIN_EXE_perdura"));
    let output = command.arg("restore").arg(directory.path().join("backup")).arg(&pool).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap(), pool)
}

#[test]
fn a_backup_is_restored_with_room_for_all_of_it() {
    let directory = backup();
    let (status, text, pool) = restore(&directory);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("server: 10.11") && text.contains("sound"), "{text}");
    for entry in fs::read_dir(&pool).unwrap() {
        let metadata = entry.unwrap().metadata().unwrap();
        assert!(metadata.blocks() * 512 >= metadata.len(), "a mapped file without room ends in SIGBUS");
    }
    let engine = open(&pool).unwrap();
    assert_eq!(engine.table("d/flights").unwrap().row_count_estimate(), 300);
    drop(engine);
    let (status, text, _) = restore(&directory);
    assert_eq!(status, 2, "over a pool: {text}");
    assert!(text.contains("not empty"), "{text}");
}

#[test]
fn what_was_not_finished_is_no_backup() {
    let directory = backup();
    fs::remove_file(directory.path().join("backup/backup.info")).unwrap();
    let (status, text, pool) = restore(&directory);
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("was not finished") && !pool.exists(), "{text}");
    fs::write(directory.path().join("backup/backup.info"), "perdura backup 2\n").unwrap();
    let (status, text, pool) = restore(&directory);
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("backup.info") && !pool.exists(), "{text}");
}

#[test]
fn a_damaged_backup_becomes_no_pool() {
    let directory = backup();
    let file = fs::OpenOptions::new().write(true).open(directory.path().join("backup/pool/t.00000002.00000")).unwrap();
    // Every row lies in the lower half of the file.
    for at in (8192..64 << 10).step_by(64) {
        file.write_at(&[0xff], at + 40).unwrap();
    }
    let (status, text, pool) = restore(&directory);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("damaged"), "{text}");
    let error = open(&pool).err().expect("refused");
    assert!(error.to_string().contains("superblock is missing"), "{error}");
}

/// Wherever a restore is cut off, a server refuses what is there: it never makes a new, empty pool
/// of it.
#[test]
fn a_part_of_a_restore_is_refused() {
    let directory = backup();
    let (status, text, pool) = restore(&directory);
    assert_eq!(status, 0, "{text}");
    fs::remove_file(pool.join("super")).unwrap();
    let mut logs: Vec<_> = fs::read_dir(&pool).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with("log."));
    for log in logs {
        let error = open(&pool).err().expect("refused");
        assert!(error.to_string().contains("superblock is missing"), "{error}");
        fs::remove_file(log).unwrap();
    }
    assert!(open(&pool).is_err(), "data files alone");
}

#[test]
fn help_and_version_go_to_standard_output() {
    let run = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_perdura")).args(words).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap(), output.stderr.len())
    };
    for words in [&["--help"][..], &["-h"], &["help"], &["check", "--help"], &["inspect", "-h"], &["backup", "--help"]]
    {
        let (status, text, errors) = run(words);
        assert_eq!((status, errors), (0, 0), "{words:?}");
        assert!(text.starts_with("usage: perdura"), "{words:?}: {text}");
    }
    for words in [&["restore", "--help"][..], &["map", "--help"], &["restore", "somewhere", "--help"]] {
        assert_eq!(run(words).0, 0, "{words:?}");
    }
    for words in [&["--version"][..], &["check", "--version"]] {
        assert_eq!(run(words), (0, format!("perdura {}\n", env!("CARGO_PKG_VERSION")), 0));
    }
    for words in
        [&[][..], &["backup"], &["backup", "socket"], &["restore", "a"], &["check", "--user", "x"], &["chek", "--help"]]
    {
        let (status, text, errors) = run(words);
        assert_eq!((status, text.is_empty(), errors > 0), (2, true, true), "{words:?}");
    }
}
