//! Single checks, each on a new store.

use bytes::Bytes;
use perdura_kv::entry::{Change, WriteBatch};
use perdura_kv::sim::{self, Variant};
use perdura_kv::store::{Disk, ErrorKind, FOUNDING, PersistentState, ReadLevel, Result, Store};
use perdura_pmem::sim::Random;
use raft::eraftpb::{ConfState, Entry};

pub type Check = fn(Variant);

pub const CHECKS: &[(&str, Check)] = &[
    ("a founder begins with the founding entry, a joiner with nothing", a_founder_and_a_joiner),
    ("entries in the wrong place are refused", entries_in_the_wrong_place),
    ("an entry that cannot be read is refused", an_entry_that_cannot_be_read),
    ("a vote is there after a failure if it was persisted", a_vote_is_there),
    ("what is committed after a failure has its members", members_come_before_what_they_are_of),
    ("a snapshot outlives changes and comes in chunks of any length", a_snapshot_outlives_changes),
    ("a partial store does nothing but receive", a_partial_store_does_nothing),
    ("a snapshot of something else is refused", a_snapshot_of_something_else),
    ("a full store says so and goes on", a_full_store_goes_on),
    ("a log whose end is lost is damaged though another follows", a_log_whose_end_is_lost),
    ("rounds of overwriting leave the use of space flat", overwriting_is_flat),
];

/// Entries that were applied when the next log was begun lie in the one before only, until the
/// state is written out.
fn a_log_whose_end_is_lost(variant: Variant) {
    if variant != Variant::Wal {
        return;
    }
    let (place, mut store) = made(variant);
    let logs = || {
        let names = place.0.disk().list().expect("names");
        let mut logs: Vec<String> = names.into_iter().filter(|name| name.starts_with("log.")).collect();
        logs.sort_unstable();
        logs
    };
    for index in 2.. {
        store.append(&[put(index, 1, "key", &[7; 100])]).expect("an entry");
        store.commit(index).expect("a commit");
        store.persist().expect("a disk");
        store.upkeep().expect("a disk");
        if logs().len() == 2 {
            break;
        }
    }
    drop(store);
    let log = logs().swap_remove(0);
    let mut bytes = place.0.disk().bytes_of(&log).expect("a log");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("frames") + 1;
    assert!(place.0.closed().open().is_ok());
    bytes[end - 300..end].fill(0);
    place.0.disk().put_bytes(&log, bytes);
    let error = place.0.closed().open().err().expect("it is damaged");
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

fn founder() -> PersistentState {
    PersistentState::founder(7, 1, vec![1, 2, 3])
}

/// Where a store lies that is closed, or whose power fails, and opened again.
struct Place(sim::Place);

impl Place {
    fn create(variant: Variant, bytes: u64, persistent_state: &PersistentState) -> (Place, Box<dyn Store>) {
        let (place, store) = sim::Place::create(variant, bytes, persistent_state).expect("a store");
        (Place(place), store)
    }

    fn restart(&mut self, store: Box<dyn Store>) -> Result<Box<dyn Store>> {
        drop(store);
        self.0 = self.0.closed();
        self.0.open()
    }

    fn fail(&mut self, store: Box<dyn Store>, random: &mut Random) -> Result<Box<dyn Store>> {
        let failed = self.0.failed(random);
        drop(store);
        self.0 = failed;
        self.0.open()
    }
}

fn made(variant: Variant) -> (Place, Box<dyn Store>) {
    Place::create(variant, 1 << 20, &founder())
}

fn put(index: u64, term: u64, key: &str, value: &[u8]) -> Entry {
    let change = Change { key: key.to_owned().into(), value: Some(Bytes::copy_from_slice(value)) };
    let batch = WriteBatch { clock_ms: 1000 + index, changes: vec![change] };
    Entry { index, term, data: batch.to_bytes(), ..Entry::default() }
}

#[track_caller]
fn refused<T>(result: Result<T>, kind: ErrorKind) {
    match result {
        Ok(_) => panic!("it must be refused as {kind:?}"),
        Err(error) => {
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().len() > 10, "a message that helps: {error}");
        }
    }
}

fn newest(store: &dyn Store, key: &str) -> Option<Vec<u8>> {
    store.get(ReadLevel::Newest, key.as_bytes()).expect("it reads").map(|value| value.to_vec())
}

fn a_founder_and_a_joiner(variant: Variant) {
    let (mut place, store) = made(variant);
    assert_eq!((store.first(), store.last(), store.applied()), (2, FOUNDING, FOUNDING));
    assert_eq!((store.term(FOUNDING).expect("it is known"), store.clock_ms(ReadLevel::Newest)), (1, 1000));
    assert_eq!(*store.persistent_state(), founder());
    let store = place.restart(store).expect("it opens");
    assert_eq!(*store.persistent_state(), founder());
    let joiner = PersistentState::joiner(7, 9);
    let (mut place, store) = Place::create(variant, 1 << 20, &joiner);
    assert_eq!((store.first(), store.last(), store.applied(), store.term(0).expect("none")), (1, 0, 0, 0));
    let store = place.restart(store).expect("it opens");
    assert_eq!(*store.persistent_state(), joiner);
}

fn entries_in_the_wrong_place(variant: Variant) {
    let (_place, mut store) = made(variant);
    store.append(&[put(2, 1, "a", b"1"), put(3, 1, "b", b"1")]).expect("they follow");
    refused(store.append(&[put(5, 1, "c", b"1")]), ErrorKind::Order);
    refused(store.append(&[put(4, 1, "c", b"1"), put(6, 1, "c", b"1")]), ErrorKind::Order);
    refused(store.commit(4), ErrorKind::Order);
    refused(store.compact(2), ErrorKind::Order);
    store.commit(2).expect("it is there");
    refused(store.append(&[put(2, 2, "a", b"2")]), ErrorKind::Order);
    store.commit(1).expect("it is applied");
    assert_eq!(store.applied(), 2);
    assert_eq!(store.entries(2, 4, u64::MAX).expect("they are there").len(), 2);
    refused(store.entries(2, 5, u64::MAX), ErrorKind::Beyond);
    refused(store.entries(1, 2, u64::MAX), ErrorKind::Compacted);
}

fn an_entry_that_cannot_be_read(variant: Variant) {
    let (_place, mut store) = made(variant);
    // Cut off; of a version that this program does not know.
    for (data, kind) in [(&b"\x01"[..], ErrorKind::Entry), (b"\x09", ErrorKind::Version)] {
        let wrong = Entry { index: 2, term: 1, data: Bytes::from_static(data), ..Entry::default() };
        refused(store.append(&[wrong]), kind);
    }
    store.append(&[put(2, 1, "a", b"1")]).expect("nothing was left of it");
}

fn a_vote_is_there(variant: Variant) {
    for seed in 0..5 {
        let (mut place, mut store) = made(variant);
        store.set_vote(5, 3).expect("noted");
        store.append(&[put(2, 5, "a", b"1")]).expect("it follows");
        store.persist().expect("durable");
        store.set_vote(6, 2).expect("noted");
        let store = place.fail(store, &mut Random::new(seed)).expect("it opens");
        let PersistentState { term, vote, .. } = *store.persistent_state();
        assert!((term, vote) == (5, 3) || (term, vote) == (6, 2), "{term}, {vote}");
        assert_eq!(newest(&*store, "a"), Some(b"1".to_vec()));
    }
}

fn members_come_before_what_they_are_of(variant: Variant) {
    for seed in 0..5 {
        let (mut place, mut store) = made(variant);
        let members = ConfState { voters: vec![1, 2], learners: vec![4], ..ConfState::default() };
        store.append(&[Entry { index: 2, term: 1, ..Entry::default() }]).expect("it follows");
        store.set_members(2, &members).expect("noted");
        refused(store.snapshot(100), ErrorKind::Unready);
        store.commit(2).expect("it is there");
        store.persist().expect("durable");
        let store = place.fail(store, &mut Random::new(seed)).expect("it opens");
        assert_eq!(
            (store.applied(), store.persistent_state().members_at, &store.persistent_state().members),
            (2, 2, &members)
        );
        let many = ConfState { voters: (0..32).collect(), ..ConfState::default() };
        let mut store = store;
        refused(store.set_members(3, &many), ErrorKind::Order);
    }
}

fn a_snapshot_outlives_changes(variant: Variant) {
    let (_place, mut store) = made(variant);
    let entries: Vec<Entry> =
        (2..40).map(|index| put(index, 1, &format!("k{}", index % 7), &[index as u8; 90])).collect();
    store.append(&entries).expect("they follow");
    store.commit(30).expect("they are there");
    for chunk_bytes in [64, 200, 1 << 20] {
        let mut snapshot = store.snapshot(chunk_bytes).expect("a snapshot");
        let last = store.last();
        store.append(&[put(last + 1, 1, "k1", b"later")]).expect("it follows");
        store.upkeep().expect("upkeep");
        let (_other, mut target) = Place::create(variant, 1 << 20, &PersistentState::joiner(7, 9));
        target.receive(true).expect("it is emptied");
        for number in 0.. {
            let (chunk, is_last) = snapshot.chunk(number).expect("a chunk");
            assert!(chunk.len() <= chunk_bytes.max(64), "{} bytes", chunk.len());
            target.push(number, &chunk).expect("it is whole");
            if is_last {
                break;
            }
        }
        refused(snapshot.chunk(1 << 20), ErrorKind::Expired);
        target.finish(snapshot.metadata()).expect("it is whole");
        assert_eq!(
            (target.last(), target.applied(), &target.persistent_state().members),
            (30, 30, &store.persistent_state().members)
        );
        assert_eq!(newest(&*target, "k1"), Some(vec![29; 90]));
        assert_eq!(newest(&*target, "k3"), Some(vec![24; 90]));
        target.append(&[put(31, 1, "k1", b"next")]).expect("it follows");
        assert_eq!(newest(&*target, "k1"), Some(b"next".to_vec()));
    }
}

fn a_partial_store_does_nothing(variant: Variant) {
    let (mut place, mut store) = made(variant);
    store.append(&[put(2, 1, "a", b"1")]).expect("it follows");
    store.set_vote(4, 2).expect("noted");
    store.receive(true).expect("it is emptied");
    for seed in 0..3 {
        assert!(store.is_partial() && store.last() == 0);
        refused(store.append(&[put(1, 1, "a", b"1")]), ErrorKind::Partial);
        refused(store.commit(0), ErrorKind::Partial);
        refused(store.get(ReadLevel::Newest, b"a"), ErrorKind::Partial);
        refused(store.snapshot(100), ErrorKind::Partial);
        assert_eq!((store.persistent_state().term, store.persistent_state().vote), (4, 2));
        assert!(!store.upkeep().expect("nothing to do"));
        store.persist().expect("durable");
        store = place.fail(store, &mut Random::new(seed)).expect("it opens");
        refused(store.push(0, b"chunk"), ErrorKind::Refused);
    }
}

fn a_snapshot_of_something_else(variant: Variant) {
    let (_place, mut source) = made(variant);
    source.append(&[put(2, 1, "a", b"1")]).expect("it follows");
    source.commit(2).expect("it is there");
    let mut snapshot = source.snapshot(1 << 20).expect("a snapshot");
    let (chunk, is_last) = snapshot.chunk(0).expect("a chunk");
    assert!(is_last);
    let (_other, mut target) = Place::create(variant, 1 << 20, &PersistentState::joiner(7, 9));
    for (index, term) in [(3, 1), (2, 2)] {
        target.receive(true).expect("it is emptied");
        target.push(0, &chunk).expect("it is whole");
        let mut wrong = snapshot.metadata().clone();
        (wrong.index, wrong.term) = (index, term);
        refused(target.finish(&wrong), ErrorKind::Refused);
        assert!(target.is_partial());
    }
    target.receive(true).expect("it is emptied");
    refused(target.push(0, b""), ErrorKind::Refused);
    target.receive(true).expect("it is emptied");
    target.push(0, &chunk).expect("it is whole");
    target.finish(snapshot.metadata()).expect("the right one");
    assert_eq!((target.is_partial(), newest(&*target, "a")), (false, Some(b"1".to_vec())));
}

/// A log file has no bound of its own; the medium's end is an error of the medium.
fn a_full_store_goes_on(variant: Variant) {
    if variant == Variant::Wal {
        return;
    }
    let (_place, mut store) = Place::create(variant, 256 << 10, &founder());
    let mut index = FOUNDING;
    let error = loop {
        let entries = [put(index + 1, 1, "a", &[1; 4000]), put(index + 2, 1, "b", &[2; 4000])];
        match store.append(&entries) {
            Ok(()) => index += 2,
            Err(error) => break error,
        }
        assert!(index < 1000, "it has 256 KiB");
    };
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    store.commit(index).expect("they are there");
    store.compact(index).expect("they are applied");
    // The call that failed, once more: a part of it may be there.
    store.append(&[put(index + 1, 1, "a", &[3; 4000]), put(index + 2, 1, "b", &[4; 4000])]).expect("there is room");
    assert_eq!((store.last(), newest(&*store, "b")), (index + 2, Some(vec![4; 4000])));
}

fn overwriting_is_flat(variant: Variant) {
    let (mut place, mut store) = Place::create(variant, 256 << 10, &founder());
    for index in 2..600 {
        store.append(&[put(index, 1, &format!("k{}", index % 5), &[index as u8; 1500])]).expect("there is room");
        store.commit(index).expect("it is there");
        store.persist().expect("durable");
        store.compact(index).expect("it is applied");
        store.upkeep().expect("upkeep");
    }
    let store = place.restart(store).expect("it opens");
    assert_eq!(newest(&*store, "k1"), Some(vec![(596 % 256) as u8; 1500]));
    assert_eq!((store.last(), store.applied()), (599, 599));
}
