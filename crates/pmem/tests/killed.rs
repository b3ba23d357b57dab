//! A process is killed, the next one goes on with what it sees, and then the power fails: what the
//! first one never flushed may be gone although the second one saw it. Tests (I2).

use perdura_pmem::sim::{Image, Killed, Point, Random, Recorder, ReplayOptions, Seen, Trace};
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

fn at_end<T>(trace: &Trace, mut look: impl FnMut(&Point<'_>) -> T) -> T {
    let mut found = None;
    trace.replay(&ReplayOptions::default(), |point| {
        found = Some(look(point));
        ControlFlow::Continue(())
    });
    found.expect("a replay ends")
}

/// First words of the file "data" in the images that a loss of power at the end may leave.
fn words(trace: &Trace, count: u64) -> BTreeSet<Vec<u64>> {
    let first = |image: Image| {
        let bytes = image.bytes_of("data").unwrap_or_default();
        (0..count as usize)
            .map(|word| {
                bytes.get(word * 8..word * 8 + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()))
            })
            .collect()
    };
    at_end(trace, |point| point.images(&mut Random::new(1), &mut Seen::default(), 200).into_iter().map(first).collect())
}

/// A process that made "data" durable with a 1 in word 0, then stored 2 there and 5 in the next
/// line, past the cache 7 in the line after it, and was killed.
fn killed() -> Killed {
    let (medium, recorder) = Recorder::attach(SimMedium::new());
    let region = medium.create("data", 4096).unwrap();
    region.store(0, 1);
    region.persist(0, 8);
    region.sync().unwrap();
    medium.sync_dir().unwrap();
    region.store(0, 2);
    region.store(64, 5);
    region.write_nt(128, &7u64.to_le_bytes());
    at_end(&recorder.finish(), |point| point.kill())
}

#[test]
fn what_was_seen_and_not_flushed_may_be_lost() {
    let killed = killed();
    assert_eq!(killed.open_lines(), 2, "what went past the cache is on the medium");
    let (medium, recorder) = Recorder::resume(killed);
    let region = medium.open("data").unwrap();
    assert_eq!([region.load(0), region.load(64), region.load(128)], [2, 5, 7]);
    let firsts: BTreeSet<u64> = words(&recorder.trace(), 17).into_iter().map(|words| words[0]).collect();
    assert_eq!(firsts, BTreeSet::from([1, 2]));
    assert!(words(&recorder.trace(), 17).iter().all(|words| words[16] == 7));
}

/// The next process' flush and fence cover what the killed one stored, as in hardware, where a line
/// has no owner.
#[test]
fn a_flush_or_a_reclaim_of_the_next_process_makes_it_durable() {
    for reclaims in [false, true] {
        let (medium, recorder) = Recorder::resume(killed());
        let region = medium.open("data").unwrap();
        if reclaims {
            region.reclaim(0, 8);
        } else {
            region.flush(0, 8);
            assert_eq!(words(&recorder.trace(), 1).len(), 2, "not before the fence");
            region.fence();
        }
        assert_eq!(words(&recorder.trace(), 1), BTreeSet::from([vec![2]]), "reclaims: {reclaims}");
        let others: BTreeSet<u64> = words(&recorder.trace(), 9).into_iter().map(|words| words[8]).collect();
        assert_eq!(others, BTreeSet::from([0, 5]), "another line is untouched");
    }
}

/// Of one line the killed process' stores come before the next one's: none of these is there
/// without those.
#[test]
fn inherited_stores_precede_new_ones_of_their_line() {
    let (medium, recorder) = Recorder::resume(killed());
    let region = medium.open("data").unwrap();
    region.store(8, 9);
    let seen = words(&recorder.trace(), 2);
    assert_eq!(seen, BTreeSet::from([vec![1, 0], vec![2, 0], vec![2, 9]]));
}

/// Files made and not synced are there for the next process, and may be gone or cut off after a
/// loss of power.
#[test]
fn unsynced_files_are_inherited_unsynced() {
    let (medium, recorder) = Recorder::attach(SimMedium::new());
    medium.create("data", 8192).unwrap();
    let killed = at_end(&recorder.finish(), |point| point.kill());
    let (medium, recorder) = Recorder::resume(killed);
    assert_eq!(medium.list().unwrap(), [("data".to_owned(), 8192)]);
    let fresh = medium.create("more", 64).unwrap();
    fresh.store(0, 3);
    let lists: BTreeSet<_> = at_end(&recorder.trace(), |point| {
        let images = point.images(&mut Random::new(2), &mut Seen::default(), 200);
        images.iter().map(Image::list).collect()
    });
    assert!(lists.contains(&Vec::new()), "{lists:?}");
    assert!(lists.contains(&vec![("data".to_owned(), 8192)]), "{lists:?}");
    assert!(lists.contains(&vec![("data".to_owned(), 0)]), "{lists:?}");
    assert!(lists.contains(&vec![("more".to_owned(), 64)]), "{lists:?}");
}

/// A process may be killed again before it made anything durable.
#[test]
fn a_second_kill_hands_on_what_the_first_left() {
    let (medium, recorder) = Recorder::resume(killed());
    medium.open("data").unwrap().store(0, 3);
    let again = at_end(&recorder.finish(), |point| point.kill());
    let (medium, recorder) = Recorder::resume(again);
    assert_eq!(medium.open("data").unwrap().load(0), 3);
    assert_eq!(words(&recorder.trace(), 1), BTreeSet::from([vec![1], vec![2], vec![3]]));
}

/// A recording that goes on past the end of a process: its flushes are nobody's any more, its
/// stores past the cache are drained.
#[test]
fn a_process_that_ends_within_a_recording_leaves_its_cached_stores_open() {
    let (medium, recorder) = Recorder::attach(SimMedium::new());
    let _attached = perdura_pmem::trace::attach(recorder.clone());
    let region = medium.create("data", 4096).unwrap();
    region.sync().unwrap();
    medium.sync_dir().unwrap();
    region.store(0, 2);
    region.flush(0, 8);
    region.write_nt(8, &7u64.to_le_bytes());
    perdura_pmem::trace::ended();
    region.fence();
    assert_eq!(words(&recorder.trace(), 2), BTreeSet::from([vec![0, 7], vec![2, 7]]));
}
