//! The maps that inputs damage.

use super::model::Model;
use perdura_map::{BTree, Config, Kind, Layout, List, OrderedMap};
use perdura_pmem::sim::Image;
use perdura_pmem::{Medium, SimMedium};
use std::sync::{Arc, OnceLock};

pub const NAME: &str = "m";
pub const FILE_BYTES: u64 = 96 << 10;

/// A map at rest.
pub struct Subject {
    pub image: Image,
    /// The persisted states, in order. The map must come back to the last.
    pub states: Vec<Model>,
}

/// No background thread: the caller persists and collects.
pub fn config() -> Config {
    Config { changes_max: u32::MAX, background: false, seed: Some(1), ..Config::default() }
}

/// Creates an empty map.
pub fn create(medium: &Arc<dyn Medium>, kind: Kind, page_bytes: u32) -> Box<dyn OrderedMap> {
    let layout = Layout { bytes: FILE_BYTES, page_bytes, branching: 4 };
    match kind {
        Kind::List => Box::new(List::create(medium, NAME, &layout, &config()).expect("room")),
        Kind::BTree => Box::new(BTree::create(medium, NAME, &layout, &config()).expect("room")),
    }
}

/// A kind by a bit.
pub fn kind(bit: bool) -> Kind {
    if bit { Kind::BTree } else { Kind::List }
}

/// The subject of a kind, with small pages or larger ones.
pub fn subject(kind: Kind, small: bool) -> &'static Subject {
    static SUBJECTS: OnceLock<[Subject; 4]> = OnceLock::new();
    let subjects = SUBJECTS.get_or_init(|| {
        [(Kind::List, 256), (Kind::List, 1024), (Kind::BTree, 256), (Kind::BTree, 1024)]
            .map(|(kind, page_bytes)| make(kind, page_bytes))
    });
    &subjects[usize::from(kind == Kind::BTree) * 2 + usize::from(!small)]
}

/// A map with keys of every kind: overwritten, deleted and forgotten ones, a value longer than a
/// page, garbage that is collected, and finally changes that are not persisted.
fn make(kind: Kind, page_bytes: u32) -> Subject {
    let medium = Arc::new(SimMedium::new());
    let shared: Arc<dyn Medium> = medium.clone();
    let map = create(&shared, kind, page_bytes);
    let (mut model, mut states) = (Model::default(), Vec::new());
    for ts in 1..=9u64 {
        for number in 0..6u8 {
            let key = key(ts, number);
            let value = vec![number ^ ts as u8; if number == 5 { 1500 } else { usize::from(number) * 9 }];
            if (ts + u64::from(number)).is_multiple_of(7) {
                if map.delete(ts, &key).expect("room") {
                    model.set(ts, &key, None);
                }
            } else {
                map.set(ts, &key, &value).expect("room");
                model.set(ts, &key, Some(&value));
            }
        }
        map.advance(ts, &[b't', ts as u8]).expect("room");
        map.set_meta(&[ts as u8; 30]).expect("room");
        if ts.is_multiple_of(3) {
            map.apply(ts - 1).expect("not above the last");
            map.forget(ts - 2).expect("not above the applied");
            (model.stands.applied, model.stands.forgotten) = (ts - 1, ts - 2);
        }
        map.persist().expect("a medium that works");
        model.stands = map.timestamps();
        states.push(model.clone());
        if ts == 6 {
            map.collect().expect("a sound map");
        }
    }
    map.set(10, b"lost", &[7; 300]).expect("room");
    // As a crash leaves it: closing could persist.
    let image = medium.image();
    Subject { image, states }
}

/// Keys, some of which repeat. One is empty, and some differ only after a long common prefix.
fn key(ts: u64, number: u8) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        1 => b"k".to_vec(),
        2 => [b'k', ts as u8].to_vec(),
        3 => [&b"key of the same begin "[..], &[ts as u8 % 3]].concat(),
        4 => [0xff; 8].to_vec(),
        _ => b"large".to_vec(),
    }
}
