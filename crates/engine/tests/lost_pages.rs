//! Hazard: pages of a disk's files cannot be read, so that keys in DRAM's order are zeros now, and
//! who goes by them goes in circles, or waits for a leaf that it has locked itself. Reads and
//! purge may fail, but must end.

use crate::common::keyed::{Fields, Keyed, Kind, config, fill};
use crate::common::{seeds, try_rows};
use perdura_engine::{
    CheckClient, CheckDepth, Direction, Engine, Error, Isolation, LockMode, ReadView, Result, Rid, Session,
};
use perdura_pmem::FileMedium;
use perdura_pmem::sim::Random;
use std::ops::Bound;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{fs, thread};
use tempfile::TempDir;

const KINDS: [Kind; 3] = [Kind::Number, Kind::Group, Kind::Long];
const ROWS: u32 = 600;
const PAGE: u64 = 4096;
const ENDS_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn statements_and_purge_end_whichever_pages_are_lost() {
    for seed in seeds(20) {
        let (over, ended) = mpsc::channel();
        thread::spawn(move || {
            work_on_lost_pages(seed);
            over.send(())
        });
        ended.recv_timeout(ENDS_WITHIN).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

fn work_on_lost_pages(seed: u64) {
    let mut random = Random::new(seed);
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory");
    let mut engine = open(&directory);
    let mut keyed = Keyed::create(&engine, "t", &KINDS);
    let rids = fill(&engine, &keyed, (0..ROWS).map(Fields::of));
    let mut txn = engine.session(Isolation::ReadCommitted);
    // The leaves of some keys are sparse.
    for (number, rid) in (0..).zip(&rids).filter(|(number, _)| number % 200 > 20) {
        delete(&mut txn, &keyed, number, *rid).expect("the row is there");
    }
    txn.commit().expect("nothing fails");
    engine.checkpoint().expect("nothing fails");
    if random.one_in(2) {
        // Segments are to be swept.
        drop((txn, keyed, engine));
        engine = open(&directory);
        keyed = Keyed::open(&engine, "t", &KINDS);
        txn = engine.session(Isolation::ReadCommitted);
    }
    // Rolled back on lost pages.
    delete(&mut txn, &keyed, 0, rids[0]).expect("the row is there");
    keyed.insert(&mut txn, &Fields::of(ROWS).row()).expect("there is room");
    lose_pages(&directory, &mut random);
    for _ in 0..6 {
        act(&engine, &keyed, &rids, &mut random);
    }
    let _ = txn.rollback();
    engine.purge();
}

fn open(directory: &TempDir) -> Engine {
    let medium = FileMedium::open_paged(directory.path(), false).expect("the directory opens");
    Engine::open(Arc::new(medium), config()).expect("the pool opens")
}

/// Cuts the data files somewhere: what lies behind cannot be read.
fn lose_pages(directory: &TempDir, random: &mut Random) {
    for entry in fs::read_dir(directory.path()).expect("a directory") {
        let path = entry.expect("a file").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("t.")) && !random.one_in(4) {
            let file = fs::File::options().write(true).open(&path).expect("a data file");
            let pages = file.metadata().expect("a file").len() / PAGE;
            file.set_len(random.below(pages) * PAGE).expect("it can be cut");
        }
    }
}

/// Does one thing, which may fail. What it has changed is not acknowledged once a page is known
/// to be lost (I11).
fn act(engine: &Engine, keyed: &Keyed, rids: &[Rid], random: &mut Random) {
    let mut txn = engine.session(Isolation::ReadCommitted);
    let number = random.below(u64::from(ROWS)) as u32;
    let index = random.below(KINDS.len() as u64) as usize;
    let key = KINDS[index].key(&Fields::of(number));
    let mut has_changed = false;
    txn.start_statement();
    match random.below(13) {
        0 | 1 => _ = engine.purge(),
        2 => _ = keyed.entries(&mut txn, index, ReadView::Snapshot, Direction::Forward),
        3 => _ = keyed.entries(&mut txn, index, ReadView::Newest, Direction::Backward),
        4 => _ = txn.index(&keyed.table, index).find(&key, ReadView::Newest),
        5 => has_changed = keyed.insert(&mut txn, &Fields::of(number).row()).is_ok(),
        6 => has_changed = delete(&mut txn, keyed, number, rids[number as usize]).is_ok(),
        7 => _ = txn.index(&keyed.table, index).estimate(Bound::Included(&key), Bound::Unbounded),
        8 => _ = try_rows(&mut txn, &keyed.table),
        9 => _ = engine.compact(),
        10 => _ = engine.sweep(),
        11 => _ = txn.check_table(&keyed.table, CheckDepth::Full, &mut Checker),
        _ => engine.each_index(|_| true),
    }
    txn.end_statement();
    let must_fail = has_changed && engine.check_medium().is_err();
    if random.one_in(2) {
        let acknowledged = txn.commit().is_ok();
        assert!(!must_fail || !acknowledged, "a commit on a medium that had failed");
    }
}

/// A client of CHECK TABLE: zeros in the place of a lost page are no faults of the table.
struct Checker;

impl CheckClient for Checker {
    fn goes_on(&mut self, _done: u64, _all: u64) -> bool {
        true
    }

    fn is_row(&mut self, _row: &[u8]) -> bool {
        true
    }

    fn found(&mut self, fault: Error) {
        panic!("{fault}");
    }
}

/// Deletes row `number`, whatever can be read of it.
fn delete(txn: &mut Session, keyed: &Keyed, number: u32, rid: Rid) -> Result<()> {
    txn.locks().lock_row(&keyed.table, rid, LockMode::Exclusive)?;
    let keys = KINDS.map(|kind| kind.key(&Fields::of(number)));
    txn.delete_with(&keyed.table, rid, &keys.each_ref().map(Vec::as_slice))
}
