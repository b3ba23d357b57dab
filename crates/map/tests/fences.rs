//! Hazards: a persist that fences more than it needs, or flushes less; a half-made map after a
//! power failure. Tests (I3).

use crate::support::compare::{audit, compare};
use crate::support::model::Model;
use crate::support::{KINDS, Map, NEWEST, all, create, layout, quiet, quiet_every, refused, tiny_layout};
use perdura_map::{ErrorKind, Kind};
use perdura_pmem::sim::{EventKind, Image, Random, Recorder, ReplayOptions, Seen, SimMedium};
use perdura_pmem::{Medium, trace};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A new map, and the recorder of its events.
fn recorded(kind: Kind, changes_max: u32) -> (Map, Arc<Recorder>) {
    let (medium, recorder) = Recorder::attach(SimMedium::new());
    let medium: Arc<dyn Medium> = Arc::new(medium);
    let map = create(&medium, "map", kind, &layout(kind, 1 << 20), &quiet_every(changes_max)).expect("there is room");
    (map, recorder)
}

fn fences(recorder: &Recorder) -> usize {
    recorder.trace().events().iter().filter(|event| matches!(event.kind, EventKind::Fence)).count()
}

/// Fences of a call.
fn cost<T>(recorder: &Recorder, call: impl FnOnce() -> T) -> usize {
    let before = fences(recorder);
    call();
    fences(recorder) - before
}

#[test]
fn a_persist_is_two_fences_and_none_without_changes() {
    for kind in KINDS {
        let (map, recorder) = recorded(kind, 1000);
        for changes in [1, 5, 300u64] {
            let from = map.timestamps().last + 1;
            let ordinary = cost(&recorder, || {
                for ts in from..from + changes {
                    map.set(ts, &ts.to_be_bytes(), &[1; 50]).expect("there is room");
                }
            });
            assert_eq!(ordinary, 0, "{kind}: changes fence nothing before their batch closes");
            assert_eq!(cost(&recorder, || map.persist().expect("persisted")), 2, "{kind}: {changes} changes");
            assert_eq!(cost(&recorder, || map.persist().expect("nothing to do")), 0, "{kind}");
            assert_eq!(
                cost(&recorder, || assert!(!map.delete(from + changes, b"absent").expect("allowed"))),
                0,
                "{kind}"
            );
            assert_eq!(cost(&recorder, || map.persist().expect("nothing to do")), 0, "{kind}: nothing was deleted");
        }
    }
}

#[test]
fn application_and_forgetting_wait_for_the_next_persist() {
    for kind in KINDS {
        let (map, recorder) = recorded(kind, 1000);
        for ts in 1..=50u64 {
            map.set(ts, &[ts as u8 % 3], &[1; 50]).expect("there is room");
        }
        map.persist().expect("persisted");
        assert_eq!(cost(&recorder, || map.apply(40).expect("it is there")), 0, "{kind}");
        assert_eq!(cost(&recorder, || map.persist().expect("persisted")), 2, "{kind}: it is to be durable");
        assert_eq!(cost(&recorder, || map.forget(40).expect("it is applied")), 0, "{kind}");
        refused(map.get(&[1], 39), ErrorKind::Forgotten);
        assert_eq!(cost(&recorder, || map.persist().expect("persisted")), 2, "{kind}: it is to be durable");
    }
}

#[test]
fn a_batch_of_k_changes_is_two_fences() {
    for kind in KINDS {
        for changes_max in [1, 10u32] {
            let (map, recorder) = recorded(kind, changes_max);
            let count = cost(&recorder, || {
                for ts in 1..=100u64 {
                    map.set(ts, &ts.to_be_bytes(), &[1; 50]).expect("there is room");
                }
            });
            assert_eq!(count, 200 / changes_max as usize, "{kind}: batches of {changes_max}");
        }
    }
}

/// Hazard: nodes that were replaced before their persist are flushed as well, and a batch
/// costs as many as it has changes.
#[test]
fn a_persist_flushes_what_is_left_of_its_batch() {
    let (map, recorder) = recorded(Kind::BTree, 1000);
    (0..300u64).for_each(|key| map.set(1, &key.to_be_bytes(), b"value").expect("there is room"));
    map.persist().expect("persisted");
    let lines = || -> u64 {
        let lines = |kind: &EventKind| if let EventKind::Flush { count, .. } = kind { u64::from(*count) } else { 0 };
        recorder.trace().events().iter().map(|event| lines(&event.kind)).sum()
    };
    // Records of 64 bytes on average fit one line.
    const CHANGES: u64 = 500;
    let before = lines();
    (0..CHANGES).for_each(|n| map.set(2 + n, &(n % 3).to_be_bytes(), b"later").expect("there is room"));
    assert_eq!(lines(), before, "changes flush nothing");
    map.persist().expect("persisted");
    let flushed = lines() - before;
    // Three leaves at most and the way to them, the root record, the pages' words.
    assert!((CHANGES / 2..CHANGES + 60).contains(&flushed), "{flushed} lines for {CHANGES} changes of three keys");
}

#[test]
fn reads_touch_nothing() {
    for kind in KINDS {
        let (map, recorder) = recorded(kind, 10);
        for ts in 1..=50u64 {
            map.set(ts, &ts.to_be_bytes(), &[1; 50]).expect("there is room");
        }
        map.persist().expect("persisted");
        let before = recorder.event_count();
        assert_eq!(all(&*map, NEWEST).len(), 50);
        assert!(map.get(&7u64.to_be_bytes(), 30).expect("it reads").is_some());
        assert_eq!(map.check().expect("sound"), 50);
        assert!(map.space().used > 0);
        assert_eq!(recorder.event_count(), before, "{kind}");
    }
}

/// Every moment of creating a map, changing it for the first time, and creating it again after a
/// crash: the name belongs to a whole map, or the map can be created.
#[test]
fn a_map_is_there_whole_or_not_at_all() {
    for kind in KINDS {
        let (medium, recorder) = Recorder::attach(SimMedium::new());
        let medium: Arc<dyn Medium> = Arc::new(medium);
        let _attached = trace::attach(recorder.clone());
        let layout = tiny_layout(64 << 10);
        let map = create(&medium, "map", kind, &layout, &quiet_every(1)).expect("there is room");
        trace::ack(0);
        map.set(1, b"key", b"value").expect("there is room");
        trace::ack(1);
        let trace = recorder.trace();
        let (mut random, mut seen, mut made) = (Random::new(1), Seen::default(), [0, 0]);
        trace.replay(&ReplayOptions::default(), |point| {
            let acknowledged = point.marks().last().map(|mark| mark.payload);
            point.for_each_image(&mut random, &mut seen, 20, |image| {
                made[usize::from(is_whole(kind, image, acknowledged))] += 1;
            });
            ControlFlow::Continue(())
        });
        assert!(made[0] > 3 && made[1] > 3, "{kind}: {made:?}");
    }
}

/// Whether the image has a whole map. Panics if it must have one and has not.
fn is_whole(kind: Kind, image: Image, acknowledged: Option<u64>) -> bool {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image));
    let (map, is_there) = match perdura_map::open(&medium, "map", &quiet()) {
        Ok(map) => (map, true),
        Err(error) => {
            assert_eq!((acknowledged, error.kind()), (None, ErrorKind::NotFound), "{kind}: {error}");
            let made = create(&medium, "map", kind, &tiny_layout(64 << 10), &quiet());
            (made.unwrap_or_else(|error| panic!("{kind}: it cannot be made again: {error}")), false)
        }
    };
    let mut changed = Model::default();
    changed.change(1, b"key", Some(b"value"));
    let empty = compare(&*map, &Model::default()).and_then(|()| audit(&*map, &Model::default()));
    let set = compare(&*map, &changed).and_then(|()| audit(&*map, &changed));
    match acknowledged {
        Some(1) => set.unwrap_or_else(|what| panic!("{kind}: an acknowledged change is gone: {what}")),
        _ => assert!(empty.is_ok() || set.is_ok(), "{kind}: {empty:?}, {set:?}"),
    }
    map.set(2, b"other", b"value").unwrap_or_else(|error| panic!("{kind}: it does not go on: {error}"));
    drop(map);
    let names: Vec<String> = medium.list().expect("it lists").into_iter().map(|(name, _)| name).collect();
    assert!(is_there || names == ["map"], "{kind}: {names:?}");
    is_there
}
