//! The operations, generated so that they shrink: keys and values from short lists, timestamps as
//! steps.

use perdura_map::Ts;
use proptest::collection::vec;
use proptest::prelude::*;
use std::fmt;

const KEYS: u8 = 18;

/// Keys: the empty one, prefixes of each other, equal in their first 8 bytes, longer than a small
/// page.
pub fn key(number: u8) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        1 => vec![0],
        2 => vec![0; 8],
        3 => vec![0; 9],
        4 => b"same here".to_vec(),
        5 => b"same herd".to_vec(),
        6 => b"same her".to_vec(),
        7 => b"same her\0".to_vec(),
        8 => vec![0xff; 2],
        9 => vec![0xff; 20],
        10 => vec![b'l'; 700],
        11 => [vec![b'l'; 700], vec![0]].concat(),
        _ => vec![b'a' + number],
    }
}

/// A value, given by its length and the byte that fills it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text {
    length: u16,
    fill: u8,
}

impl Text {
    pub fn bytes(&self) -> Vec<u8> {
        (0..self.length).map(|n| self.fill ^ (n >> 3) as u8).collect()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.length, self.fill)
    }
}

/// Expectation of a compare-and-set.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// The present value.
    Present,
    /// No value.
    Absent,
    /// This value.
    This(Text),
}

/// One operation. `step` is added to the newest timestamp, `below` is subtracted from it, so that
/// some are refused.
#[derive(Clone, Debug)]
pub enum Operation {
    Set {
        step: i8,
        key: u8,
        value: Text,
    },
    Delete {
        step: i8,
        key: u8,
    },
    CompareAndSet {
        step: i8,
        key: u8,
        expected: Expected,
        new: Option<Text>,
    },
    /// Changes at one timestamp with a tag. None deletes.
    Batch {
        step: i8,
        tag: u8,
        changes: Vec<(u8, Option<Text>)>,
    },
    Put {
        key: u8,
        value: Text,
    },
    Remove {
        key: u8,
    },
    Persist,
    Apply {
        below: i8,
    },
    Rollback {
        below: i8,
    },
    /// `below` counts from the applied timestamp.
    Forget {
        below: i8,
    },
    Collect,
    /// Compares everything with the model.
    Compare,
    /// Holds a snapshot during these operations, then streams it into a second map and compares.
    Held {
        bytes_max: usize,
        meanwhile: Vec<Operation>,
    },
    /// Streams the map and keeps the stream.
    Keep {
        bytes_max: usize,
    },
    /// Loads the kept stream, or drops the loader before the end. With `resets` the map is emptied
    /// first.
    Load {
        finish: bool,
        resets: bool,
    },
    /// Replaces the meta blob.
    Meta {
        fill: u8,
    },
    /// Holds a view during these operations, and compares what it shows before and after. `below`
    /// counts from the applied timestamp.
    View {
        below: i8,
        meanwhile: Vec<Operation>,
    },
    /// Ends the process and reopens the map.
    Restart,
    /// Fails the power at a moment since the last failure. The seed chooses the moment and what
    /// survives.
    PowerFails {
        seed: u64,
    },
}

impl Operation {
    /// The timestamp that a step leads to.
    pub fn step(last: Ts, step: i8) -> Ts {
        last.saturating_add_signed(i64::from(step))
    }
}

fn text() -> impl Strategy<Value = Text> {
    let length = prop_oneof![4 => 0u16..60, 2 => 100u16..400, 1 => 900u16..3000];
    (length, any::<u8>()).prop_map(|(length, fill)| Text { length, fill })
}

fn step() -> impl Strategy<Value = i8> {
    prop_oneof![8 => Just(1i8), 4 => Just(0i8), 2 => 2i8..5, 1 => Just(-1i8)]
}

/// Operations on a map that stays open.
fn plain() -> impl Strategy<Value = Operation> {
    let expected =
        prop_oneof![3 => Just(Expected::Present), 1 => Just(Expected::Absent), 1 => text().prop_map(Expected::This)];
    let below = || -1i8..8;
    prop_oneof![
        12 => (step(), 0..KEYS, text()).prop_map(|(step, key, value)| Operation::Set { step, key, value }),
        6 => (step(), 0..KEYS).prop_map(|(step, key)| Operation::Delete { step, key }),
        5 => (step(), 0..KEYS, expected, proptest::option::weighted(0.7, text()))
            .prop_map(|(step, key, expected, new)| Operation::CompareAndSet { step, key, expected, new }),
        3 => (step(), any::<u8>(), vec((0..KEYS, proptest::option::weighted(0.7, text())), 0..6))
            .prop_map(|(step, tag, changes)| Operation::Batch { step, tag, changes }),
        1 => (0..KEYS, text()).prop_map(|(key, value)| Operation::Put { key, value }),
        1 => (0..KEYS).prop_map(|key| Operation::Remove { key }),
        2 => Just(Operation::Persist),
        3 => below().prop_map(|below| Operation::Apply { below }),
        2 => below().prop_map(|below| Operation::Rollback { below }),
        2 => below().prop_map(|below| Operation::Forget { below }),
        4 => Just(Operation::Collect),
        1 => Just(Operation::Compare),
    ]
}

fn chunk_bytes() -> impl Strategy<Value = usize> {
    prop_oneof![Just(64usize), Just(1000), Just(1 << 16)]
}

/// Every operation except power failures.
fn any_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        40 => plain(),
        1 => (chunk_bytes(), vec(plain(), 0..25)).prop_map(|(bytes_max, meanwhile)| Operation::Held { bytes_max, meanwhile }),
        1 => chunk_bytes().prop_map(|bytes_max| Operation::Keep { bytes_max }),
        1 => any::<(bool, bool)>().prop_map(|(finish, resets)| Operation::Load { finish, resets }),
        1 => any::<u8>().prop_map(|fill| Operation::Meta { fill }),
        1 => (-1i8..8, vec(plain(), 0..25)).prop_map(|(below, meanwhile)| Operation::View { below, meanwhile }),
        1 => Just(Operation::Restart),
    ]
}

/// Sequences without power failures.
pub fn operations() -> impl Strategy<Value = Vec<Operation>> {
    vec(any_operation(), 1..160)
}

/// Sequences with power failures.
pub fn operations_with_failures() -> impl Strategy<Value = Vec<Operation>> {
    let failure = any::<u64>().prop_map(|seed| Operation::PowerFails { seed });
    vec(prop_oneof![14 => any_operation(), 1 => failure], 1..60)
}
