//! Hazard: a pool that one way to the log has written loses what was acknowledged, or is refused,
//! when its process is killed and another way opens it. Tests (I1), (I11).

use crate::common::{committed, directory, files, small};
use perdura_engine::{Config, Engine, ErrorKind, Isolation, LogPath, PathConfig};
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Directory, path and first number of the process that is killed.
const CHILD: &str = "PERDURA_LOG_PATHS_CHILD";
const SESSIONS: u64 = 4;
/// Commits of all sessions that are told of before the kill.
const TOLD: usize = 300;

fn config(path: LogPath) -> Config {
    let mut config = Config { background: true, ..small() };
    config.log.lane_bytes = 64 << 10;
    config.log.path = PathConfig { path, buffer_bytes: 32 << 10, ..PathConfig::default() };
    config
}

fn opened(directory: &Path, path: LogPath) -> Engine {
    let options = perdura_pmem::Options { emulate: true, ..Default::default() };
    let medium = Arc::new(perdura_pmem::FileMedium::open(directory, options).expect("the directory opens"));
    Engine::open(medium, config(path)).expect("the pool opens")
}

fn row(number: u64) -> Vec<u8> {
    let mut row = number.to_le_bytes().to_vec();
    row.resize(8 + (number % 90) as usize, number as u8);
    row
}

/// Commits rows from several sessions, and tells of each, until it is killed. Of every seventh the
/// commit has two phases.
#[test]
fn child() {
    let Some(words) = std::env::var_os(CHILD) else { return };
    let words = words.into_string().expect("made by the parent");
    let words: Vec<&str> = words.split(':').collect();
    let engine = opened(Path::new(words[0]), words[1].parse().expect("a path"));
    let first: u64 = words[2].parse().expect("a number");
    let table = engine.table("t").expect("the parent made it");
    std::thread::scope(|scope| {
        for session in 0..SESSIONS {
            let (engine, table) = (&engine, &table);
            scope.spawn(move || {
                let mut txn = engine.session(Isolation::ReadCommitted);
                for number in (first + session..).step_by(SESSIONS as usize) {
                    txn.insert(table, &row(number)).expect("there is room");
                    if number % 7 == 0 {
                        txn.prepare(&number.to_le_bytes()).expect("there is room");
                    }
                    txn.commit().expect("there is room");
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "told {number}").and_then(|()| out.flush()).expect("the parent reads");
                }
            });
        }
    });
}

#[test]
fn a_killed_process_leaves_what_any_other_path_recovers() {
    let directory = directory();
    let engine = opened(directory.path(), LogPath::Direct);
    engine.create_table("t", b"").expect("there is room");
    engine.close();
    drop(engine);
    let mut told = BTreeSet::<Vec<u8>>::new();
    let paths = [LogPath::Classic, LogPath::Nf, LogPath::Direct, LogPath::Persist];
    for (round, path) in paths.into_iter().enumerate() {
        let words = format!("{}:{path}:{}", directory.path().display(), round * 1_000_000);
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "log_paths::child", "--nocapture", "--test-threads=1"])
            .env(CHILD, words)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let numbers = lines.map_while(Result::ok).filter_map(|line| line.split("told ").nth(1)?.parse::<u64>().ok());
        for number in numbers.take(TOLD) {
            told.insert(row(number));
        }
        child.kill().expect("it runs");
        child.wait().expect("it was started");
        let next = paths[(round + 1) % paths.len()];
        let engine = opened(directory.path(), next);
        let found: BTreeSet<Vec<u8>> =
            committed(&engine, &engine.table("t").expect("it was made")).into_iter().collect();
        let lost: Vec<_> = told.difference(&found).collect();
        assert!(lost.is_empty(), "{path}, killed and opened as {next}: {} of {} are lost", lost.len(), told.len());
        assert_eq!(found.len() - told.len(), found.difference(&told).count(), "a row is there twice");
        assert!(told.len() >= (round + 1) * TOLD, "{path}: only {} were told", told.len());
        // Commits that were not told of count from now on.
        told = found;
    }
}

#[test]
fn the_status_tells_the_path_and_a_small_buffer_is_refused() {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let engine = Engine::open(medium.clone(), config(LogPath::Nf)).expect("it opens");
    let table = engine.create_table("t", b"").expect("there is room");
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.insert(&table, b"row").expect("there is room");
    txn.commit().expect("there is room");
    let status = engine.status().to_string();
    assert!(status.contains("path nf, buffer of 32 KiB, write-ahead of 512 bytes"), "{status}");
    drop((txn, table, engine));
    let mut small = config(LogPath::Classic);
    small.log.path.buffer_bytes = 4 << 10;
    let error = Engine::open(medium.clone(), small.clone()).err().expect("a record may take more");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("enlarge it"), "{error}");
    small.log.path.path = LogPath::Direct;
    Engine::open(medium, small).expect("not used");
}

/// Hazard: the setting is at the creation's only, or a disk's way is another's.
#[test]
fn files_of_memory_are_written_by_every_path() {
    for path in LogPath::ALL {
        let directory = directory();
        let engine = Engine::open(files(&directory), config(path)).expect("it opens");
        let table = engine.create_table("t", b"").expect("there is room");
        std::thread::scope(|scope| {
            for session in 0..SESSIONS {
                let (engine, table) = (&engine, &table);
                scope.spawn(move || {
                    let mut txn = engine.session(Isolation::ReadCommitted);
                    for number in 0..100 {
                        txn.insert(table, &row(session * 1000 + number)).expect("there is room");
                        txn.commit().expect("there is room");
                    }
                });
            }
        });
        engine.close();
        drop((table, engine));
        let engine = opened(directory.path(), LogPath::Direct);
        let found = committed(&engine, &engine.table("t").expect("it was made"));
        assert_eq!(found.len(), 100 * SESSIONS as usize, "{path}");
    }
}
