//! Hazard: what a creation leaves that was cut off, and cut off again when it was repeated, looks
//! like a damaged pool. The next start must take it for an unfinished creation. Tests (I3).

use crate::common::small;
use perdura_engine::{Config, Engine, LogConfig};
use perdura_pmem::sim::{Killed, Random, Recorder, ReplayOptions, Seen};
use perdura_pmem::{Medium, SimMedium};
use std::ops::ControlFlow;
use std::sync::Arc;

/// States after a process killed during the creation, at each point in turn.
fn killed_in_creation() -> Vec<Killed> {
    let (medium, recorder) = Recorder::attach(SimMedium::new());
    Engine::open(Arc::new(medium), small()).unwrap();
    let mut killed = Vec::new();
    recorder.finish().replay(&ReplayOptions::default(), |point| {
        killed.push(point.kill());
        ControlFlow::Continue(())
    });
    killed
}

/// Files are removed one by one, and after a power loss any of the removals may have happened. When
/// `super.new` was gone and a data file was not, that looked like a pool that had lost its
/// superblock.
#[test]
fn a_creation_cut_off_twice_is_done_again() {
    let killed = killed_in_creation();
    assert!(killed.len() > 5);
    for (number, killed) in killed.into_iter().enumerate() {
        let (medium, recorder) = Recorder::resume(killed);
        Engine::open(Arc::new(medium), small()).unwrap_or_else(|error| panic!("killed at point {number}: {error}"));
        let (mut seen, mut random) = (Seen::default(), Random::new(number as u64));
        recorder.finish().replay(&ReplayOptions::default(), |point| {
            point.for_each_image(&mut random, &mut seen, 30, |image| {
                let files = image.list();
                let shared: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image));
                let opened = Engine::open(shared, small()).map(|_| ());
                assert!(
                    opened.is_ok(),
                    "killed at point {number}, cut off at event {}: {opened:?}, {files:?}",
                    point.index
                );
            });
            ControlFlow::Continue(())
        });
    }
}

/// Settings of the log that count at creation only: a start with others says so, and keeps what the
/// pool has.
#[test]
fn settings_that_only_a_new_pool_follows_are_told() {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let own = small();
    drop(Engine::open(medium.clone(), own.clone()).unwrap());
    let notices = |log: LogConfig| {
        let engine = Engine::open(medium.clone(), Config { log, ..own.clone() }).unwrap();
        engine.status().notices
    };
    let (lanes, lane_bytes) = (own.log.lanes + 1, own.log.lane_bytes * 2);
    assert_eq!(notices(own.log.clone()), [""; 0]);
    assert_eq!(
        notices(LogConfig { lanes: 0, lane_bytes: LogConfig::default().lane_bytes, ..own.log.clone() }),
        [""; 0]
    );
    let [one, other] = &notices(LogConfig { lanes, lane_bytes, ..own.log.clone() })[..] else { panic!("two notices") };
    assert!(one.contains(&format!("log_lanes is set to {lanes}, but")), "{one}");
    assert!(other.contains(&format!("created with {} and keeps", own.log.lane_bytes)), "{other}");
}
