//! Streams that are cut off, damaged, out of order or not streams at all leave the map as it was.

use super::Check;
use super::snapshots::prepare;
use crate::support::compare::{audit, compare};
use crate::support::model::Model;
use crate::support::{NEWEST, Place, all, collect_all, create, layout, load, quiet, refused, stream, value};
use perdura_map::{ErrorKind, OrderedMap, Result};
use perdura_pmem::sim::Random;

pub const CHECKS: &[(&str, Check)] = &[
    ("while a loader lives, others read what was there and change nothing", while_a_loader_lives),
    ("an abandoned loader leaves the map as it was", an_abandoned_loader_leaves_the_map),
    ("a stream that is cut off is refused", a_stream_that_is_cut_off),
    ("chunks in another order are refused", chunks_in_another_order),
    ("chunks of another stream are refused or make no difference", chunks_of_another_stream),
    ("bytes that are no chunk are refused", bytes_that_are_no_chunk),
    ("a chunk with any byte changed is refused", a_chunk_with_any_byte_changed),
    ("a stream for which there is no room changes nothing", a_stream_without_room),
];

/// A map with content of its own, its model, and the stream of another map.
fn subject(place: &Place) -> (crate::support::Map, Model, Vec<Vec<u8>>) {
    let source = place.create_other("source");
    prepare(&*source);
    let chunks = stream(&*source, 200);
    assert!(chunks.len() > 10, "{}", chunks.len());
    let map = place.create("map");
    let mut model = Model::default();
    for ts in 1..=30u64 {
        map.set(ts, &[ts as u8 % 9], &[ts as u8; 30]).expect("there is room");
        model.change(ts, &[ts as u8 % 9], Some(&[ts as u8; 30]));
    }
    (map, model, chunks)
}

fn unchanged(map: &dyn OrderedMap, model: &Model, what: &str) {
    compare(map, model).and_then(|()| audit(map, model)).unwrap_or_else(|difference| panic!("{what}: {difference}"));
}

/// The map accepts changes again, and loads the right stream.
fn usable(map: &dyn OrderedMap, chunks: &[Vec<u8>]) {
    map.set(1000, b"usable", b"yes").expect("changes go on");
    map.rollback(1000).expect("it is not applied");
    load(map, chunks).expect("the right stream loads");
    assert_eq!((map.timestamps().last, value(map, b"", NEWEST)), (60, Some(b"empty".to_vec())));
}

fn while_a_loader_lives(place: &Place) {
    let (map, model, chunks) = subject(place);
    let mut loader = map.load_snapshot().expect("nobody else loads");
    for (number, chunk) in chunks.iter().enumerate() {
        loader.push(chunk).expect("the next chunk");
        if number % 8 == 0 {
            compare(&*map, &model).expect("what was there before");
            refused(map.set(99, b"key", b"value"), ErrorKind::ReadOnly);
            refused(map.put(b"key", b"value"), ErrorKind::ReadOnly);
            refused(map.delete(99, &[1]), ErrorKind::ReadOnly);
            refused(map.remove(&[1]), ErrorKind::ReadOnly);
            refused(map.compare_and_set(99, &[1], None, None), ErrorKind::ReadOnly);
            refused(map.rollback(30), ErrorKind::ReadOnly);
            compare(&*map, &model).expect("what was there before");
        }
    }
    refused(map.load_snapshot(), ErrorKind::ReadOnly);
    loader.finish().expect("it is complete");
    assert_eq!(map.timestamps().last, 60);
    usable(&*map, &chunks);
}

fn an_abandoned_loader_leaves_the_map(place: &Place) {
    let (map, model, chunks) = subject(place);
    for kept in [0, 1, chunks.len() / 2, chunks.len()] {
        let mut loader = map.load_snapshot().expect("nobody else loads");
        for chunk in &chunks[..kept] {
            loader.push(chunk).expect("the next chunk");
        }
        drop(loader);
        unchanged(&*map, &model, &format!("abandoned after {kept} chunks"));
        map.collect().expect("collected");
        unchanged(&*map, &model, &format!("collected after {kept} chunks"));
    }
    map.persist().expect("persisted");
    drop(map);
    let map = place.open("map");
    unchanged(&*map, &model, "reopened");
    usable(&*map, &chunks);
}

/// Loads chunks that must be refused. Returns the error, whichever call reported it.
fn misload<'a>(map: &dyn OrderedMap, chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
    let mut loader = map.load_snapshot()?;
    for chunk in chunks {
        loader.push(chunk)?;
    }
    loader.finish()
}

fn a_stream_that_is_cut_off(place: &Place) {
    let (map, model, chunks) = subject(place);
    for kept in 0..chunks.len() {
        refused(misload(&*map, chunks[..kept].iter().map(|chunk| &chunk[..])), ErrorKind::Damaged);
    }
    let last = chunks.len() - 1;
    for kept in 0..chunks[last].len() {
        let cut = chunks[..last].iter().map(|chunk| &chunk[..]).chain([&chunks[last][..kept]]);
        refused(misload(&*map, cut), ErrorKind::Damaged);
    }
    unchanged(&*map, &model, "cut off");
    usable(&*map, &chunks);
}

fn chunks_in_another_order(place: &Place) {
    let (map, model, chunks) = subject(place);
    let count = chunks.len();
    let orders = [
        (1..count).collect::<Vec<_>>(),
        (0..count).rev().collect(),
        (0..count).chain([count - 1]).collect(),
        [0, 0].into_iter().chain(1..count).collect(),
        [1, 0].into_iter().chain(2..count).collect(),
        (0..count - 2).chain([count - 1, count - 2]).collect(),
        (0..count / 2).chain(count / 2 + 1..count).collect(),
    ];
    for order in orders {
        refused(misload(&*map, order.iter().map(|number| &chunks[*number][..])), ErrorKind::Damaged);
        compare(&*map, &model).expect("what was there before");
    }
    unchanged(&*map, &model, "out of order");
    usable(&*map, &chunks);
}

/// Chunks of two snapshots of one map, mixed: the map loads one of them or nothing.
fn chunks_of_another_stream(place: &Place) {
    let (map, model, chunks) = subject(place);
    let source = place.open("source");
    let wanted = all(&*source, NEWEST);
    source.rollback(60).expect("it is not applied");
    source.set(60, b"key a", b"something else").expect("there is room");
    let (others, wanted_others) = (stream(&*source, 200), all(&*source, NEWEST));
    for cut in 1..chunks.len().min(others.len()) {
        let mixed = chunks[..cut].iter().chain(&others[cut..]).map(|chunk| &chunk[..]);
        match misload(&*map, mixed) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged, "{error}"),
            Ok(()) => {
                let found = all(&*map, NEWEST);
                assert!(found == wanted || found == wanted_others, "mixed at {cut}");
                return;
            }
        }
    }
    unchanged(&*map, &model, "mixed");
    usable(&*map, &chunks);
}

fn bytes_that_are_no_chunk(place: &Place) {
    let (map, model, chunks) = subject(place);
    let mut random = Random::new(5);
    for length in (0..200).chain([1000, 100_000]) {
        let garbage: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
        refused(misload(&*map, [&garbage[..]]), ErrorKind::Damaged);
        refused(misload(&*map, [&vec![0; length][..]]), ErrorKind::Damaged);
        refused(misload(&*map, [&chunks[0], &garbage[..]]), ErrorKind::Damaged);
        refused(misload(&*map, [&chunks[0], &vec![0xff; length][..]]), ErrorKind::Damaged);
    }
    unchanged(&*map, &model, "garbage");
    collect_all(&*map);
    unchanged(&*map, &model, "garbage, collected");
    usable(&*map, &chunks);
}

fn a_chunk_with_any_byte_changed(place: &Place) {
    let (map, model, chunks) = subject(place);
    let mut random = Random::new(6);
    for (number, chunk) in chunks.iter().enumerate() {
        for at in 0..chunk.len() {
            // Every byte of the first and last chunks, some of those between.
            if number > 1 && number + 2 < chunks.len() && !random.one_in(20) {
                continue;
            }
            let mut changed = chunks.clone();
            changed[number][at] ^= 1 << random.below(8);
            let result = misload(&*map, changed.iter().map(|chunk| &chunk[..]));
            let Err(error) = result else { panic!("chunk {number}, byte {at} changed: it loads") };
            assert_eq!(error.kind(), ErrorKind::Damaged, "chunk {number}, byte {at}: {error}");
        }
    }
    unchanged(&*map, &model, "changed bytes");
    usable(&*map, &chunks);
}

fn a_stream_without_room(place: &Place) {
    let source = place.create_other("source");
    for ts in 1..=300u64 {
        source.set(ts, &ts.to_be_bytes(), &[ts as u8; 1000]).expect("there is room");
    }
    let chunks = stream(&*source, 4096);
    let map = create(&place.medium, "map", place.kind, &layout(place.kind, 256 << 10), &quiet()).expect("room");
    let mut model = Model::default();
    for ts in 1..=50u64 {
        map.set(ts, &ts.to_be_bytes(), &[2; 500]).expect("there is room");
        model.change(ts, &ts.to_be_bytes(), Some(&[2; 500]));
    }
    for _ in 0..10 {
        refused(load(&*map, &chunks), ErrorKind::Full);
        unchanged(&*map, &model, "no room");
    }
    map.set(51, b"key", b"value").expect("what was taken for the stream is free again");
}
