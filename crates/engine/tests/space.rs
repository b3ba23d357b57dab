//! Hazard: a table takes many times the bytes of its rows. Rows of many lengths once took a segment
//! each: beyond a few cell sizes, every row evicted an open segment and took a fresh one, so that
//! ten megabytes became gigabytes, for good.
//!
//! The tests bound the segments in use and the headers of files by the bytes of rows, version
//! headers and directory words.

use crate::common::{rows, small};
use perdura_engine::format::VERSION_HEADER;
use perdura_engine::{Config, Engine, Isolation, LogConfig, Session, Table};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

/// Size of a version header and a directory word, in bytes.
const HEADERS: u64 = VERSION_HEADER + 8;
const SEGMENT: u64 = 64 << 10;

fn config() -> Config {
    Config {
        log: LogConfig { lanes: 2, lane_bytes: 4 << 20, generations: 2, generations_max: 4, ..LogConfig::default() },
        data_file_bytes: 64 << 20,
        first_file_bytes: 64 << 10,
        segment_bytes: SEGMENT,
        page_words: 512,
        ..small()
    }
}

fn open() -> Engine {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    Engine::open(medium, config()).unwrap()
}

/// How row lengths from 0 to a maximum are drawn.
#[derive(Clone, Copy, Debug)]
enum Lengths {
    Uniform,
    /// Most rows are short.
    Skewed,
    /// Rows become longer and longer, so that few fit the cells of those before.
    Ascending,
}

impl Lengths {
    fn draw(self, random: &mut Random, most: u64, share: f64) -> usize {
        (match self {
            Lengths::Uniform => random.below(most + 1),
            Lengths::Skewed => {
                let short = random.below(most + 1) as f64 / most as f64;
                (short * short * short * most as f64) as u64
            }
            Lengths::Ascending => (most as f64 * share) as u64,
        }) as usize
    }
}

/// Bytes of a row beside its text: an id, as in a table of two columns.
const FIXED: usize = 9;

fn fill(txn: &mut Session, table: &Arc<Table>, rows: u64, at_once: u64, draw: &mut dyn FnMut(f64) -> usize) -> u64 {
    let mut given = 0;
    for number in 0..rows {
        let bytes = FIXED + draw(number as f64 / rows as f64);
        txn.insert(table, &vec![number as u8; bytes]).unwrap();
        given += bytes as u64 + HEADERS;
        if (number + 1) % at_once == 0 {
            txn.commit().unwrap();
        }
    }
    txn.commit().unwrap();
    given
}

fn in_use(table: &Table) -> u64 {
    table.data_bytes() - table.free_bytes()
}

/// Transactions of one row, of many rows, which are bulk inserts, and of a hundred rows, which
/// begin a bulk insert for their last rows only.
#[test]
fn rows_of_all_lengths_take_little_more_than_their_bytes() {
    for (most, count) in [(200, 100_000), (2000, 40_000), (8192, 15_000)] {
        for lengths in [Lengths::Uniform, Lengths::Skewed, Lengths::Ascending] {
            for at_once in [1, 100, u64::MAX] {
                let seed = most + at_once % 97;
                let engine = open();
                let table = engine.create_table("t", b"").unwrap();
                let mut random = Random::new(seed);
                let mut txn = engine.session(Isolation::ReadCommitted);
                let mut draw = |share| lengths.draw(&mut random, most, share);
                let given = fill(&mut txn, &table, count, at_once, &mut draw);
                let ratio = in_use(&table) as f64 / given as f64;
                println!("0 to {most}, {lengths:?}, {at_once} at once, seed {seed}: {ratio:.3}");
                assert!(ratio <= 1.3, "0 to {most}, {lengths:?}, {at_once} at once, seed {seed}: {ratio:.3}");
                table.audit().unwrap();
            }
        }
    }
}

/// Rows of 33 KiB had a segment of 64 KiB each, and rows of 33 MiB a file of 64 MiB. Rows of one
/// length may take an eighth more than their bytes, headers and words, and a few segments that are
/// not full.
#[test]
fn rows_of_any_one_length_waste_at_most_an_eighth() {
    let config = Config { data_file_bytes: 4 << 20, first_file_bytes: 64 << 10, page_words: 512, ..config() };
    let lengths = std::iter::successors(Some(8u64), |bytes| Some(bytes + bytes / 9 + 1));
    let around = [33 << 10, 64 << 10, 65 << 10, 513 << 10, 1025 << 10, 2100 << 10, 5 << 20, 12 << 20];
    for bytes in lengths.take_while(|bytes| *bytes < 12 << 20).chain(around) {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let engine = Engine::open(medium, config.clone()).unwrap();
        let table = engine.create_table("t", b"").unwrap();
        let mut txn = engine.session(Isolation::ReadCommitted);
        let count = (8u64 << 20).div_ceil(bytes + HEADERS).max(3);
        let row = vec![7; bytes as usize];
        for number in 0..count {
            txn.insert(&table, &row).unwrap();
            if number == count / 2 {
                txn.commit().unwrap();
            }
        }
        txn.commit().unwrap();
        let given = count * ((bytes + HEADERS).next_multiple_of(8));
        let most = given + given / 8 + 4 * SEGMENT;
        println!("{count} rows of {bytes}: {:.3}", in_use(&table) as f64 / given as f64);
        assert!(in_use(&table) <= most, "{count} rows of {bytes}: {} of at most {most}", in_use(&table));
        // The last file may be empty, but no room is lost in those before.
        let files = most + config.data_file_bytes.max(bytes + bytes / 8);
        assert!(table.data_bytes() <= files, "{count} rows of {bytes}: files of {} bytes", table.data_bytes());
        table.audit().unwrap();
    }
}

/// Hazard: a hundred rows of a hundred lengths take a segment for each length.
#[test]
fn a_small_table_of_many_lengths_stays_small() {
    for (most, segments) in [(200, 4), (2000, 6), (8192, 12)] {
        for lengths in [Lengths::Uniform, Lengths::Skewed, Lengths::Ascending] {
            for at_once in [1, u64::MAX] {
                let engine = open();
                let table = engine.create_table("t", b"").unwrap();
                let mut random = Random::new(most);
                let mut txn = engine.session(Isolation::ReadCommitted);
                fill(&mut txn, &table, 100, at_once, &mut |share| lengths.draw(&mut random, most, share));
                let taken = in_use(&table).div_ceil(SEGMENT);
                println!("0 to {most}, {lengths:?}, {at_once} at once: {taken} segments");
                assert!(taken <= segments, "0 to {most}, {lengths:?}, {at_once} at once: {taken} segments");
            }
        }
    }
}

/// Hazard: later loads, of other lengths, do not find the room of loads rolled back and rows
/// deleted.
#[test]
fn what_loads_leave_is_used_by_the_next() {
    let engine = open();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut most = 0;
    for round in 0..12u64 {
        let mut random = Random::new(round);
        for number in 0..20_000u64 {
            txn.insert(&table, &vec![number as u8; random.below(400) as usize]).unwrap();
        }
        if round % 2 == 0 {
            txn.rollback().unwrap();
        } else {
            txn.commit().unwrap();
            for (rid, _) in rows(&mut txn, &table) {
                txn.delete(&table, rid).unwrap();
            }
            txn.commit().unwrap();
        }
        for _ in 0..3 {
            engine.checkpoint().unwrap();
            engine.purge();
        }
        table.audit().unwrap();
        if round == 3 {
            most = table.data_bytes();
        }
        // Purge may give files back.
        assert!(round <= 3 || table.data_bytes() <= most, "round {round} did not find the room of the first");
    }
}

/// Rows of some lengths got cells of a size that the next start refused as damage.
#[test]
fn rows_of_every_length_are_there_after_a_restart() {
    let config = config();
    let medium = Arc::new(SimMedium::new());
    let shared: Arc<dyn Medium> = medium.clone();
    let engine = Engine::open(shared.clone(), config.clone()).unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let lengths: Vec<usize> = (0..70_000).step_by(97).collect();
    for (number, bytes) in lengths.iter().enumerate() {
        // Each table has few lengths, so that each length gets cells of its own class.
        let name = format!("t{}", number / 8);
        let table = engine.table(&name).or_else(|_| engine.create_table(&name, b"")).unwrap();
        txn.insert(&table, &vec![number as u8; *bytes]).unwrap();
        txn.commit().unwrap();
    }
    drop((txn, engine));
    let engine = Engine::open(shared, config).unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut found = Vec::new();
    for table in engine.tables().unwrap() {
        found.extend(rows(&mut txn, &table).into_iter().map(|(_, row)| row.len()));
        engine.sweep().unwrap();
        table.audit().unwrap();
    }
    found.sort_unstable();
    assert_eq!(found, lengths);
}
