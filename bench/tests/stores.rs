//! Every system under test keeps what it is given. A benchmark of one that does not would be
//! worthless.

use perdura_bench::keys::{Shape, shuffled};
use perdura_bench::peers::index::{self, Entry, Record};
use perdura_bench::peers::pmemobj::Pool;
use perdura_bench::system::System;

const KEYS: usize = 700;

#[test]
fn what_is_inserted_is_read_until_it_is_deleted() {
    for system in System::ALL {
        for batch in [1, 7, 10] {
            let directory = tempfile::tempdir().unwrap();
            let mut store = system.create(directory.path(), KEYS, 33, batch);
            let keys = shuffled(KEYS, Shape::Numbers, 1);
            store.insert(&keys, &[1; 33], batch);
            assert_eq!(store.read(&keys), (KEYS * 34) as u64, "{}", system.name());
            // The same with another value.
            store.insert(&keys, &[2; 20], batch);
            assert_eq!(store.read(&keys), (KEYS * 22) as u64, "{}", system.name());
            store.delete(&keys[..KEYS / 2], batch);
            assert_eq!(store.read(&keys[KEYS / 2..]), (KEYS / 2 * 22) as u64, "{}", system.name());
        }
    }
}

#[test]
fn libpmemobj_links_every_object() {
    let directory = tempfile::tempdir().unwrap();
    let mut pool = Pool::create(directory.path(), 32 << 20);
    assert!(pool.is_empty());
    pool.link(95, 10);
    assert_eq!(pool.len(), 95);
}

#[test]
fn indexes_find_each_entry() {
    let leak = |seed| &*shuffled(KEYS, Shape::Numbers, seed).into_iter().map(Record).collect::<Vec<_>>().leak();
    let (records, probes) = (leak(1), leak(2));
    for (name, index) in index::all() {
        records.iter().for_each(|record| index.insert(Entry::new(record)));
        for probe in probes {
            let found = index.find(&Entry::new(probe));
            assert!(found == Entry::new(probe), "{name}");
            assert_ne!(found.address(), Entry::new(probe).address(), "{name} gives the record that was put in");
        }
        probes.iter().for_each(|probe| index.remove(&Entry::new(probe)));
    }
}
