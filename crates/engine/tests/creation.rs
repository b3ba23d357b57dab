//! The creation of a pool is cut off, and so is its being done again: whatever is left is an unfinished creation to the next start,
//! never a damaged pool.

mod common;

use common::small;
use perdura_engine::Engine;
use perdura_pmem::sim::{Killed, Random, Recorder, ReplayOptions, Seen};
use perdura_pmem::{Medium, SimMedium};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a process leaves that is killed anywhere in the creation.
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

/// Names are removed one by one, and after a loss of power any of the removals may have happened: `super.new` gone and a data file
/// still there looked like a pool that had lost its superblock.
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
