//! `perdura inspect` and `perdura check` as a person meets them: what they print, where, and with
//! which exit status.

mod support;

use perdura_engine::Isolation;
use perdura_pmem::{FileMedium, Medium, Options, SplitMedium};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use tempfile::TempDir;

fn directory() -> TempDir {
    tempfile::tempdir_in(Path::new("/dev/shm")).or_else(|_| tempfile::tempdir()).unwrap()
}

/// A pool with two tables; `closed` leaves nothing to redo.
fn pool(closed: bool) -> TempDir {
    let directory = directory();
    let engine = support::open(directory.path()).unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    for (name, rows) in [("flights", 300u32), ("planes", 20)] {
        let table = engine.create_table(name, b"definition").unwrap();
        let rids: Vec<_> = (0..rows).map(|n| txn.insert(&table, &n.to_le_bytes()).unwrap()).collect();
        txn.commit().unwrap();
        txn.delete(&table, rids[0]).unwrap();
        txn.insert(&table, &vec![9; 20_000]).unwrap();
        txn.commit().unwrap();
    }
    let table = engine.table("planes").unwrap();
    txn.insert(&table, b"prepared").unwrap();
    txn.prepare(b"branch").unwrap();
    drop(txn);
    if closed {
        engine.close();
    }
    directory
}

fn perdura(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_perdura")).args(arguments).output().expect("it runs")
}

/// Runs a command on a directory: exit status, standard output, standard error.
fn run(command: &str, directory: &Path) -> (i32, String, String) {
    let output = perdura(&[command, directory.to_str().unwrap()]);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().expect("it was not killed"), text(output.stdout), text(output.stderr))
}

/// Files of a directory without the lock.
fn content(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_name() != ".lock");
    files.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

fn flip(directory: &TempDir, file: &str, at: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(directory.path().join(file)).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

#[test]
fn a_sound_pool() {
    for closed in [true, false] {
        let pool = pool(closed);
        let before = content(pool.path());
        let (status, out, err) = run("check", pool.path());
        assert_eq!((status, err.as_str()), (0, ""), "{out}");
        assert!(out.contains("2 tables, 320 rows") && out.contains("1 prepared"), "{out}");
        assert!(out.trim_end().ends_with("the pool is sound"), "{out}");
        let (status, out, err) = run("inspect", pool.path());
        assert_eq!((status, err.as_str()), (0, ""), "{out}");
        let expected = [
            "emulated",
            "2 lanes of 65536 bytes",
            "checkpoint CSN",
            "table perdura.catalog (id 1)",
            "table flights (id 2)",
            "table planes (id 3)",
            "300 rows of 21196 bytes",
            "segments:",
            "the pool is sound",
        ];
        for part in expected {
            assert!(out.contains(part), "{part:?} is not in {out}");
        }
        assert_eq!(content(pool.path()), before, "nothing is changed");
    }
}

#[test]
fn a_pool_with_commits_to_redo_says_how_many() {
    let pool = pool(false);
    let (status, out, _) = run("check", pool.path());
    assert_eq!(status, 0);
    assert!(out.contains("6 commits for the next start to redo"), "{out}");
}

/// A pool on a disk whose power has failed: of the data files the disk has what the last checkpoint
/// left, all else is in log and journal.
struct PoweredOff {
    data: TempDir,
    /// In memory, if it is another.
    log: Option<TempDir>,
}

impl PoweredOff {
    fn new(is_split: bool) -> PoweredOff {
        let on_disk = || TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (data, log) = (on_disk(), is_split.then(directory));
        let medium: Arc<dyn Medium> = match &log {
            None => Arc::new(FileMedium::open_journaled(data.path(), false, 0).unwrap()),
            Some(log) => {
                let options = Options { emulate: true, ..Options::default() };
                let home = Arc::new(FileMedium::open(log.path(), options).unwrap());
                let open = || FileMedium::open_journaled_on(&home, data.path(), false, 0);
                Arc::new(SplitMedium::join(home.clone(), data.path(), open).unwrap())
            }
        };
        let engine = support::open_on(medium).unwrap();
        let table = engine.create_table("flights", b"definition").unwrap();
        let mut txn = engine.session(Isolation::ReadCommitted);
        let mut settled = BTreeMap::new();
        for round in 0..3u32 {
            // More than a record carries.
            for n in 0..40 {
                txn.insert(&table, &[round as u8 + n; 2000]).unwrap();
            }
            txn.commit().unwrap();
            txn.insert(&table, b"a row that its record carries").unwrap();
            txn.commit().unwrap();
            if round == 1 {
                engine.checkpoint().unwrap();
                settled = content(data.path());
            }
        }
        let image = PoweredOff { data: on_disk(), log: log.as_ref().map(|_| directory()) };
        for (name, now) in content(data.path()) {
            let is_written = ["journal.", "log.", "super"].iter().any(|prefix| name.starts_with(prefix));
            let empty = vec![0; now.len()];
            let old = settled.get(&name).filter(|old| old.len() == now.len()).unwrap_or(&empty);
            std::fs::write(image.data.path().join(&name), if is_written { &now } else { old }).unwrap();
        }
        for (from, to) in log.iter().zip(&image.log) {
            content(from.path()).iter().for_each(|(name, now)| std::fs::write(to.path().join(name), now).unwrap());
        }
        image
    }

    fn run(&self, command: &str) -> (Option<i32>, String) {
        let mut words = vec![command, self.data.path().to_str().unwrap()];
        words.extend(self.log.iter().flat_map(|log| ["--log-dir", log.path().to_str().unwrap()]));
        let output = perdura(&words);
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    fn content(&self) -> Vec<BTreeMap<String, Vec<u8>>> {
        [Some(&self.data), self.log.as_ref()].into_iter().flatten().map(|directory| content(directory.path())).collect()
    }
}

/// Hazard: the check of a pool on a disk sees what the next start is going to mend, or mends it.
#[test]
fn a_pool_whose_power_failed_is_read_as_it_will_be_found() {
    for is_split in [false, true] {
        let pool = PoweredOff::new(is_split);
        let before = pool.content();
        for command in ["check", "inspect"] {
            let (status, said) = pool.run(command);
            assert_eq!(status, Some(0), "{said}");
            assert!(
                said.contains("1 tables, 82 rows; 2 commits for the next start to redo")
                    && said.contains("the pool is sound"),
                "{said}"
            );
            assert!(pool.content() == before, "nothing is changed");
        }
        let journal = if is_split { pool.log.as_ref().unwrap() } else { &pool.data };
        for name in content(journal.path()).into_keys().filter(|name| name.contains("journal.")) {
            std::fs::remove_file(journal.path().join(name)).unwrap();
        }
        assert_ne!(pool.run("check").0, Some(0), "the journal has what the files lack");
    }
}

#[test]
fn the_halves_of_a_pool_are_read_together() {
    let (pool, other) = (PoweredOff::new(true), PoweredOff::new(true));
    let (data, log) = (pool.data.path().to_str().unwrap(), pool.log.as_ref().unwrap().path().to_str().unwrap());
    let foreign = other.log.as_ref().unwrap().path().to_str().unwrap();
    let missing = other.data.path().join("missing");
    let wrong: [(&[&str], &str); 5] = [
        (&["check", data], "--log-dir LOGDIR"),
        (&["check", log], "--log-dir LOGDIR"),
        (&["check", log, "--log-dir", data], "not the"),
        (&["check", data, "--log-dir", foreign], "another pool"),
        (&["inspect", data, "--log-dir", missing.to_str().unwrap()], "has not the log"),
    ];
    for (words, what) in wrong {
        let output = perdura(words);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {err}");
        assert!(err.contains(what), "{words:?}: {err}");
    }
    assert_eq!(pool.run("check").0, Some(0));
    // The pool's own directory is the log's, too, of one that is in one piece.
    let whole = self::pool(true);
    let path = whole.path().to_str().unwrap();
    assert_eq!(perdura(&["check", path, "--log-dir", path]).status.code(), Some(0));
}

#[test]
fn a_damaged_row_is_named() {
    let pool = pool(true);
    let file = content(pool.path())["t.00000002.00000"].clone();
    let at = file.windows(4).rposition(|bytes| bytes == [9; 4]).expect("the large row") as u64;
    flip(&pool, "t.00000002.00000", at);
    for command in ["check", "inspect"] {
        let (status, out, err) = run(command, pool.path());
        assert_eq!((status, err.as_str()), (1, ""), "{out}");
        assert!(out.contains("DAMAGED table flights: t.00000002.00000 at offset"), "{out}");
        assert!(out.contains("restore") && out.contains("1 problem\n"), "{out}");
        assert!(!out.contains("is sound"), "{out}");
    }
}

#[test]
fn a_lost_or_damaged_file_is_named() {
    for name in ["super", "log.000.01", "t.00000001.00000", "t.00000003.00000"] {
        let lost = pool(true);
        std::fs::remove_file(lost.path().join(name)).unwrap();
        let cut = pool(true);
        std::fs::OpenOptions::new().write(true).open(cut.path().join(name)).unwrap().set_len(100).unwrap();
        for damaged in [lost, cut] {
            let (status, out, err) = run("check", damaged.path());
            assert_eq!(status, 1, "{name}: {out}{err}");
            let said = format!("{out}{err}");
            assert!(said.contains(name) && said.contains("restore"), "{name}: {said}");
        }
    }
}

#[test]
fn a_directory_without_a_pool() {
    let empty = directory();
    let (status, out, err) = run("check", empty.path());
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.starts_with("perdura: there is no pool here") && err.contains("check the path"), "{err}");
    let (status, _, err) = run("inspect", &empty.path().join("missing"));
    assert_eq!(status, 2);
    assert!(err.contains("missing does not exist"), "{err}");
    let file = empty.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let (status, _, err) = run("check", &file);
    assert_eq!(status, 2);
    assert!(err.contains("Not a directory"), "{err}");
}

#[test]
fn a_pool_in_use() {
    let pool = pool(true);
    let held = support::medium(pool.path());
    for command in ["check", "inspect"] {
        let (status, out, err) = run(command, pool.path());
        assert_eq!((status, out.as_str()), (2, ""));
        assert!(err.contains("in use by another server"), "{err}");
    }
    drop(held);
    assert_eq!(run("check", pool.path()).0, 0);
}

#[test]
fn wrong_commands_are_answered_with_the_usage() {
    for arguments in [&[][..], &["check"], &["chek", "."], &["check", ".", "more"], &["--all"], &["check", "--fast"]] {
        let output = perdura(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(err.starts_with("perdura: ") && err.contains("usage: perdura inspect DIR"), "{err}");
    }
    for arguments in [["--help"], ["-h"], ["--version"], ["-V"]] {
        let output = perdura(&arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(String::from_utf8(output.stdout).unwrap().contains("perdura"));
    }
}

/// Hazard: standard output on a full device ends a command in a panic, with a status that says
/// nothing.
#[test]
fn a_full_device_behind_standard_output_is_told_and_ends_nothing() {
    let sound = pool(true);
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for command in ["check", "inspect"] {
        let mut process = Command::new(env!("CARGO_BIN_EXE_perdura"));
        let output = process.arg(command).arg(sound.path()).stdout(full()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}: {error}");
        assert_eq!(error.matches("standard output cannot be written").count(), 1, "{command}: {error}");
    }
    // A reader that has seen enough is no failure.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut process = Command::new(env!("CARGO_BIN_EXE_perdura"));
    let output = process.arg("inspect").arg(sound.path()).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
