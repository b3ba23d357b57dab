//! Images of a simulated page medium: pages torn between sectors, in any order, and syncs that
//! fail. Tests (I2), (I11).

use perdura_pmem::sim::{Image, Point, Random, Recorder, ReplayOptions, Seen, Trace};
use perdura_pmem::{ErrorKind, Medium, Mode, Region, SimMedium};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

fn at_end<T>(trace: &Trace, mut look: impl FnMut(&Point<'_>) -> T) -> T {
    let mut found = None;
    trace.replay(&ReplayOptions::default(), |point| {
        found = Some(look(point));
        ControlFlow::Continue(())
    });
    found.expect("a replay ends")
}

fn word(image: &Image, offset: u64) -> u64 {
    let bytes = image.bytes_of("data").unwrap_or_default();
    bytes.get(offset as usize..offset as usize + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()))
}

/// The words at `offsets` in the images that a loss of power at the end may leave.
fn words<const N: usize>(trace: &Trace, offsets: [u64; N]) -> BTreeSet<[u64; N]> {
    let images = at_end(trace, |point| point.images(&mut Random::new(1), &mut Seen::default(), 600));
    images.iter().map(|image| offsets.map(|offset| word(image, offset))).collect()
}

/// A recorded page medium with a durable file of 16 KiB.
fn recorded() -> (SimMedium, Arc<Recorder>, Region) {
    let (medium, recorder) = Recorder::attach(SimMedium::new().paged());
    assert_eq!(medium.info().mode, Mode::Page);
    let region = medium.create("data", 16 << 10).expect("there is room");
    region.sync().expect("sync");
    medium.sync_dir().expect("sync of the directory");
    (medium, recorder, region)
}

#[test]
fn a_sector_is_of_one_moment_and_others_are_of_any() {
    let (_medium, recorder, region) = recorded();
    for step in 1..=4 {
        for offset in [0, 64, 512, 4096] {
            region.store(offset, step);
        }
    }
    let found = words(&recorder.trace(), [0, 64, 512, 4096]);
    assert!(found.iter().all(|[first, second, ..]| first - second <= 1), "a sector mixes moments: {found:?}");
    assert!(found.iter().any(|[first, second, ..]| first != second), "moments between two stores: {found:?}");
    for (one, other) in [(0, 2), (2, 0), (0, 3), (3, 0)] {
        let is_there = |words: &[u64; 4]| words[one] == 4 && words[other] == 0;
        assert!(found.iter().any(is_there), "sector {one} without sector {other}: {found:?}");
    }
    assert!(found.iter().any(|words| words[2] > 0 && words[2] < 4), "a page may be written at any time: {found:?}");
}

#[test]
fn a_fence_keeps_what_its_thread_has_flushed() {
    let (_medium, recorder, region) = recorded();
    region.store(0, 1);
    region.write_nt(4096, &2u64.to_le_bytes());
    region.store(8192, 3);
    region.persist(0, 8);
    let found = words(&recorder.trace(), [0, 4096, 8192]);
    assert_eq!(found, BTreeSet::from([[1, 2, 0], [1, 2, 3]]));
}

/// The cache of the kernel outlives a process: what it copied past its own is no more durable than
/// the rest.
#[test]
fn a_killed_process_leaves_all_that_it_has_not_synced_open() {
    let (_medium, recorder, region) = recorded();
    region.write_nt(0, &1u64.to_le_bytes());
    region.store(4096, 1);
    let killed = at_end(&recorder.trace(), |point| point.kill());
    let (medium, recorder) = Recorder::resume(killed);
    let region = medium.open("data").expect("it is there");
    assert_eq!((region.load(0), region.load(4096)), (1, 1));
    assert_eq!(words(&recorder.trace(), [0, 4096]).len(), 4);
    region.reclaim_all([(0, 8), (4096, 8)]);
    assert_eq!(words(&recorder.trace(), [0, 4096]), BTreeSet::from([[1, 1]]));
}

/// Of a sync that fails anything may have been written; after it nothing is.
#[test]
fn a_failed_sync_is_final_and_nothing_reaches_the_medium_after_it() {
    let (medium, recorder, region) = recorded();
    let health = medium.health();
    region.store(0, 1);
    region.persist(0, 8);
    health.check().expect("it works");
    medium.fail_sync_after(0);
    region.store(0, 2);
    region.persist(0, 8);
    let error = health.check().expect_err("it has failed");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let count = medium.sync_count();
    region.store(4096, 1);
    region.write_nt(8192, &[1; 8]);
    region.persist(4096, 8);
    for refusal in [region.sync(), medium.sync_dir(), medium.remove("data"), medium.rename("data", "other")] {
        assert_eq!(refusal.expect_err("refused").to_string(), error.to_string());
    }
    medium.create("more", 4096).expect_err("refused");
    assert_eq!((region.load(0), region.load(4096), medium.sync_count()), (2, 1, count));
    assert_eq!(words(&recorder.trace(), [0, 4096, 8192]), BTreeSet::from([[1, 0, 0], [2, 0, 0]]));
}
