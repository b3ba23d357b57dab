//! A process is killed while purge clears the words of deleted rows, or while it publishes a page,
//! its successor uses the cells or the page, and then the power fails.
//!
//! The successor sees a cleared word that is in the cache only. The word on the medium still names
//! the deletion's cell: what the successor writes there must not be reached by it. Tests (I8).

use crate::common::simulated::after_power_failures;
use crate::common::{committed, rows, small};
use perdura_engine::{Engine, Isolation};
use perdura_pmem::sim::{Killed, PointKind, Random, Recorder, ReplayOptions, Seen};
use perdura_pmem::{Medium, SimMedium};
use std::ops::ControlFlow;
use std::sync::Arc;

const BEFORE: u32 = 48;

/// Rows are of one length, so that any of them fits the cell of any other.
fn row(number: u32) -> Vec<u8> {
    format!("row {number:06}").into_bytes()
}

/// State after a process killed in the purge of its deletions, before the fence of the words it
/// cleared.
fn killed_in_purge() -> Killed {
    let (medium, recorder) = Recorder::attach(SimMedium::new());
    let engine = Engine::open(Arc::new(medium), small()).unwrap();
    let table = engine.create_table("t", b"").unwrap();
    let mut session = engine.session(Isolation::ReadCommitted);
    let rids: Vec<_> = (0..BEFORE).map(|number| session.insert(&table, &row(number)).unwrap()).collect();
    session.commit().unwrap();
    // By lines of the directory, so that a change of another row flushes no cleared word.
    for rid in rids.iter().filter(|rid| rid.row() / 8 % 2 == 0) {
        session.delete(&table, *rid).unwrap();
    }
    session.commit().unwrap();
    engine.checkpoint().unwrap();
    assert!(engine.purge() > 0);
    let mut last = None;
    recorder.finish().replay(&ReplayOptions::default(), |point| {
        if point.kind == PointKind::Fence {
            last = Some(point.kill());
        }
        ControlFlow::Continue(())
    });
    last.expect("purge fences")
}

/// Changes the rows that are left until there is no fresh segment, so that freed cells are used
/// again.
fn change_all(engine: &Engine) {
    let table = engine.table("t").unwrap();
    let mut session = engine.session(Isolation::ReadCommitted);
    for round in 0..60 {
        for (rid, _) in rows(&mut session, &table) {
            session.update(&table, rid, &row(1000 + round)).unwrap();
        }
        session.commit().unwrap();
    }
}

#[test]
fn a_cell_is_used_again_only_when_no_word_on_the_medium_names_it() {
    let killed = killed_in_purge();
    assert!(killed.open_lines() > 0);
    let (medium, recorder) = Recorder::resume(killed);
    let engine = Engine::open(Arc::new(medium), small()).unwrap();
    change_all(&engine);
    let expected = committed(&engine, &engine.table("t").unwrap());
    assert_eq!(expected.len(), BEFORE as usize / 2);
    for engine in after_power_failures(&recorder, 30) {
        assert_eq!(committed(&engine, &engine.table("t").unwrap()), expected);
    }
}

/// The successor sees a page published by a state that is in the cache only. A row in another line
/// of the page must not depend on it.
#[test]
fn a_row_in_a_page_that_a_killed_process_published_stays() {
    let (medium, recorder) = Recorder::attach(SimMedium::new());
    let engine = Engine::open(Arc::new(medium), small()).unwrap();
    let table = engine.create_table("t", b"").unwrap();
    let mut session = engine.session(Isolation::ReadCommitted);
    session.insert(&table, &row(0)).unwrap();
    session.commit().unwrap();
    let mut killed = Vec::new();
    recorder.finish().replay(&ReplayOptions::default(), |point| {
        if point.kind == PointKind::Fence && point.site.is_some_and(|site| site.file().ends_with("space/shard.rs")) {
            killed.push(point.kill());
        }
        ControlFlow::Continue(())
    });
    assert!(!killed.is_empty());
    for killed in killed {
        let (medium, recorder) = Recorder::resume(killed);
        let engine = Engine::open(Arc::new(medium), small()).unwrap();
        let Ok(table) = engine.table("t") else { continue };
        engine.sweep().unwrap();
        let mut session = engine.session(Isolation::ReadCommitted);
        session.insert(&table, &row(1)).unwrap();
        session.commit().unwrap();
        let (mut random, mut seen) = (Random::new(1), Seen::default());
        recorder.finish().replay(&ReplayOptions::default(), |point| {
            for image in point.images(&mut random, &mut seen, 6) {
                let shared: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image));
                let engine = Engine::open(shared, small()).unwrap();
                let rows = committed(&engine, &engine.table("t").unwrap()).len();
                assert!(rows == 1 || point.kind != PointKind::End);
            }
            ControlFlow::Continue(())
        });
    }
}
