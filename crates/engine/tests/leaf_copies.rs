//! Hazard: a leaf full of entries that came and went is replaced by a copy without them before a
//! checkpoint covers that, and redo misses them; or takes one that is lost for one of them; or the
//! copy lacks what somebody may still need. Tests (I4), (I6), (I8).

use crate::common::keyed::{Fields, Keyed, Kind, config, fill};
use crate::common::values::by_value;
use perdura_engine::{Config, Engine, ErrorKind, Isolation, LogConfig, ReadView, Rid};
use perdura_pmem::sim::{Image, PointKind, Random, Recorder, ReplayOptions, Seen};
use perdura_pmem::{Medium, SimMedium};
use std::ops::ControlFlow;
use std::sync::Arc;

/// By value, with a log that takes all of a test: nothing but the test makes a checkpoint.
fn settings() -> Config {
    let log = LogConfig { lanes: 1, lane_bytes: 16 << 20, generations: 2, generations_max: 2, ..LogConfig::default() };
    by_value(Config { log, ..config() })
}

fn open(medium: Arc<dyn Medium>) -> Engine {
    Engine::open(medium, settings()).unwrap_or_else(|error| panic!("{error}"))
}

/// The row of number 21 or 1022, by turns.
fn flipped(round: u32) -> Vec<u8> {
    Fields { padding: 8, ..Fields::of(21 + round % 2 * 1001) }.row()
}

/// Gives a row one of two keys, by turns, in commits of its own.
fn flip(engine: &Engine, keyed: &Keyed, rid: Rid, rounds: u32) {
    let mut txn = engine.session(Isolation::ReadCommitted);
    for round in 1..=rounds {
        keyed.update(&mut txn, rid, &flipped(round)).unwrap_or_else(|error| panic!("round {round}: {error}"));
        txn.commit().unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
}

fn used(keyed: &Keyed) -> u64 {
    keyed.table.data_bytes() - keyed.table.free_bytes()
}

/// Bytes that the log has taken.
fn log_bytes(engine: &Engine) -> u64 {
    engine.status().log.generations.iter().flat_map(|generation| generation.filled.clone()).sum()
}

/// Hazard: a hot entry takes all of a device before the next checkpoint, or a statement makes one.
/// Meanwhile it takes less room than in the log, and that is free afterwards.
#[test]
fn a_hot_entry_between_two_checkpoints() {
    const ROUNDS: u32 = 12_000;
    for kind in [Kind::Number, Kind::Group, Kind::Name] {
        let medium = Arc::new(SimMedium::new());
        let engine = open(medium.clone());
        let keyed = Keyed::create(&engine, "t", &[kind]);
        let rids = fill(&engine, &keyed, (1..60).map(Fields::of));
        let checkpoint = engine.checkpoint().unwrap();
        engine.purge();
        let (before, logged) = (used(&keyed), log_bytes(&engine));
        flip(&engine, &keyed, rids[20], ROUNDS);
        assert_eq!(engine.counters().checkpoint_csn, checkpoint, "{kind:?}: nobody made one");
        let (taken, logged) = (used(&keyed) - before, log_bytes(&engine) - logged);
        assert!(taken < logged, "{kind:?}: {taken} bytes for {logged} bytes of log");
        let rows = keyed.check(&engine);
        // Redo meets thousands of entries that are in no leaf.
        let crashed = open(Arc::new(SimMedium::from_image(medium.image())));
        assert_eq!(Keyed::open(&crashed, "t", &[kind]).check(&crashed), rows);
        (0..3).for_each(|_| crate::common::settle(&engine));
        // Files that are empty stay for a while, and their heads are in use.
        let kept = keyed.table.data_bytes() / 32 + (32 << 10);
        assert!(used(&keyed) < before + kept, "{kind:?}: {} bytes, before {before}", used(&keyed));
        assert_eq!(keyed.check(&engine), rows);
        keyed.table.audit().unwrap();
    }
}

/// Hazard: the same beside those who may need what came and went: a snapshot from before, one in
/// between, an insert and a deletion under way, a savepoint, and a prepared transaction.
#[test]
fn copies_have_what_somebody_may_need() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(medium.clone());
    let kinds = [Kind::Number, Kind::Long];
    let keyed = Keyed::create(&engine, "t", &kinds);
    let rids = fill(&engine, &keyed, (10..30).map(Fields::of));
    let snapshot = || {
        let mut txn = engine.session(Isolation::RepeatableRead);
        txn.start_statement();
        let rows = keyed.check_seen(&mut txn, "a new snapshot");
        txn.end_statement();
        (txn, rows)
    };
    engine.checkpoint().unwrap();
    let first = snapshot();
    let mut deleting = engine.session(Isolation::ReadCommitted);
    keyed.delete(&mut deleting, rids[10]).unwrap();
    let added = keyed.insert(&mut deleting, &Fields::of(1010).row()).unwrap();
    let savepoint = deleting.savepoint();
    keyed.update(&mut deleting, added, &Fields::of(20_010).row()).unwrap();
    let mut prepared = engine.session(Isolation::ReadCommitted);
    keyed.delete(&mut prepared, rids[12]).unwrap();
    let held = keyed.insert(&mut prepared, &Fields::of(1012).row()).unwrap();
    prepared.prepare(b"branch").unwrap();
    flip(&engine, &keyed, rids[11], 501);
    let between = snapshot();
    flip(&engine, &keyed, rids[11], 500);
    for (mut txn, rows) in [first, between] {
        txn.start_statement();
        keyed.check_against(&mut txn, &rows, ReadView::Snapshot, "a snapshot");
        keyed.find_all(&mut txn, &rows, ReadView::Snapshot, "a snapshot");
        txn.end_statement();
    }
    deleting.rollback_to(&savepoint).unwrap();
    deleting.rollback().unwrap();
    let rows = keyed.check(&engine);
    assert_eq!(rows.len(), 20);
    for commits in [true, false] {
        let engine = open(Arc::new(SimMedium::from_image(medium.image())));
        let keyed = Keyed::open(&engine, "t", &kinds);
        assert_eq!(keyed.check(&engine), rows);
        let mut decided = rows.clone();
        if commits {
            engine.commit_prepared(b"branch").unwrap();
            decided.remove(&rids[12]);
            decided.insert(held, Fields::of(1012).row());
        } else {
            engine.rollback_prepared(b"branch").unwrap();
        }
        assert_eq!(keyed.check(&engine), decided, "commits: {commits}");
    }
}

/// The images that a loss of power at the end of a recording may leave.
fn images(recorder: &Recorder, seed: u64) -> Vec<Image> {
    let mut images = Vec::new();
    recorder.finish().replay(&ReplayOptions::default(), |point| {
        if point.kind == PointKind::End {
            images = point.images(&mut Random::new(seed), &mut Seen::default(), 6);
        }
        ControlFlow::Continue(())
    });
    images
}

/// Hazard: a loss of power at any stage of a leaf that fills up and is copied, on lines and on
/// pages; and another one after the recovery.
#[test]
fn a_loss_of_power_between_copies() {
    for (commits, pages) in (1..70).step_by(3).flat_map(|commits| [(commits, false), (commits, true)]) {
        let hint = format!("{commits} commits, on pages: {pages}");
        let medium = if pages { SimMedium::new().paged() } else { SimMedium::new() };
        let (medium, recorder) = Recorder::attach(medium);
        let engine = Engine::open(Arc::new(medium), by_value(config())).unwrap();
        let kinds = [Kind::Number, Kind::Long];
        let keyed = Keyed::create(&engine, "t", &kinds);
        let rids = fill(&engine, &keyed, (20..23).map(Fields::of));
        engine.checkpoint().unwrap();
        flip(&engine, &keyed, rids[1], commits);
        let rows = keyed.check(&engine);
        for image in images(&recorder, commits.into()) {
            // Twice, as a process that is killed in its recovery begins again.
            let medium = Arc::new(SimMedium::from_image(image));
            for _ in 0..2 {
                let engine = Engine::open(medium.clone() as Arc<dyn Medium>, by_value(config()));
                let engine = engine.unwrap_or_else(|error| panic!("{hint}: {error}"));
                let keyed = Keyed::open(&engine, "t", &kinds);
                assert_eq!(keyed.check(&engine), rows, "{hint}");
                flip(&engine, &keyed, rids[1], 70);
                assert_eq!(keyed.check(&engine)[&rids[1]], flipped(70), "{hint}");
                flip(&engine, &keyed, rids[1], commits);
            }
        }
    }
}

/// Number of a row whose key's bytes are nowhere else.
const MARKED: u64 = 0x7a3b_5c1d_9e2f_4861;

/// Overwrites every copy of an entry in the data files.
fn lose(medium: &SimMedium, key: &[u8]) -> usize {
    let mut lost = 0;
    for (name, bytes) in medium.list().unwrap() {
        if name.starts_with("log.") || name == "super" {
            continue;
        }
        let region = medium.open(&name).unwrap();
        let mut content = vec![0; bytes as usize];
        region.read(0, &mut content);
        for (at, _) in content.windows(key.len()).enumerate().filter(|(_, found)| *found == key) {
            region.write(at as u64, &[0xee; 8]);
            lost += 1;
        }
    }
    lost
}

/// Hazard: since redo passes by entries that later records delete, it passes by one that damage has
/// taken, and the row cannot be found any more.
#[test]
fn an_entry_that_is_lost_is_an_error() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(medium.clone());
    let keyed = Keyed::create(&engine, "t", &[Kind::Number]);
    let rids = fill(&engine, &keyed, (20..30).map(Fields::of));
    engine.checkpoint().unwrap();
    let fields = Fields { number: MARKED, ..Fields::of(40) };
    fill(&engine, &keyed, [fields]);
    // Leaves whose slots no record names have the entry now.
    flip(&engine, &keyed, rids[1], 200);
    let image = Arc::new(SimMedium::from_image(medium.image()));
    assert!(lose(&image, &MARKED.to_be_bytes()) > 1, "leaves in use and retired have it");
    let error = Engine::open(image as Arc<dyn Medium>, settings()).err().expect("the entry is lost");
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert!(error.to_string().contains("lacks the entry"), "{error}");
}
