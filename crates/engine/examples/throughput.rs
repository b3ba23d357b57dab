//! Measures inserts through the crate's API against a memcpy of the same bytes. Prints one JSON
//! object a line, for `tools/src/bench/engine.rs`.
//!
//! `throughput --dir DIR [--quick]` creates the pool in a directory of its own below DIR, and
//! removes it afterwards.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

use perdura_engine::{Config, Engine, Isolation};
use perdura_pmem::{FileMedium, Medium, Options};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Size of the paper's row, packed, in bytes.
const ROW_BYTES: usize = 64;

struct Arguments {
    directory: PathBuf,
    rows: usize,
    rounds: usize,
}

fn main() {
    let arguments = parse();
    let row = [0x5a_u8; ROW_BYTES];
    for _ in 0..arguments.rounds {
        for threads in threads() {
            let directory = arguments.directory.join(format!("perdura-throughput-{}", std::process::id()));
            report("perdura", threads, insert(&directory, threads, arguments.rows, &row));
            std::fs::remove_dir_all(&directory).expect("the directory is this program's own");
            report("memcpy", threads, copy(threads, arguments.rows, &row));
        }
    }
}

fn parse() -> Arguments {
    let mut words = std::env::args().skip(1);
    let mut arguments = Arguments { directory: PathBuf::from("/dev/shm"), rows: 1_000_000, rounds: 5 };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--dir" => arguments.directory = words.next().expect("--dir takes a directory").into(),
            "--quick" => (arguments.rows, arguments.rounds) = (200_000, 3),
            other => panic!("unknown argument {other}"),
        }
    }
    arguments
}

fn report(system: &str, threads: usize, rows_per_s: f64) {
    let plural = if threads == 1 { "" } else { "s" };
    println!(
        r#"{{"system":"{system}","case":"{threads} thread{plural}","metric":"rows_per_s","unit":"rows/s","value":{rows_per_s:.0}}}"#
    );
}

/// 1, 2, and on in powers of two, as many as there are processors.
fn threads() -> impl Iterator<Item = usize> {
    let processors = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    std::iter::successors(Some(1), |threads| Some(threads * 2)).take_while(move |threads| *threads <= processors)
}

/// Rows a second when `threads` transactions each insert `rows` rows into one table and commit.
fn insert(directory: &Path, threads: usize, rows: usize, row: &[u8]) -> f64 {
    let options = Options { emulate: true, create_dir: true };
    let medium: Arc<dyn Medium> = Arc::new(FileMedium::open(directory, options).expect("the directory can be used"));
    println!(r#"{{"medium":"{}"}}"#, medium.info().mode);
    let engine = Engine::open(medium, Config::default()).expect("the pool can be created");
    let table = engine.create_table("throughput", b"").expect("the pool is new");
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut txn = engine.session(Isolation::RepeatableRead);
                for _ in 0..rows {
                    txn.insert(&table, black_box(row)).expect("there is room");
                }
                txn.commit().expect("there is room");
            });
        }
    });
    let rate = (rows * threads) as f64 / begin.elapsed().as_secs_f64();
    engine.close();
    rate
}

/// Rows a second when `threads` threads copy the same bytes into fresh memory.
fn copy(threads: usize, rows: usize, row: &[u8]) -> f64 {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut target = vec![0u8; rows * row.len()];
                for place in target.chunks_exact_mut(row.len()) {
                    place.copy_from_slice(black_box(row));
                }
                black_box(&target);
            });
        }
    });
    (rows * threads) as f64 / begin.elapsed().as_secs_f64()
}
