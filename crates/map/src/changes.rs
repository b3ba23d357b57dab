//! Changes as callers make and list them.

use crate::timestamps::Ts;

/// A change that is not forgotten, as its rollback record has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutation<'a> {
    /// The timestamp of the change.
    pub ts: Ts,
    /// The key it changed.
    pub key: &'a [u8],
    /// The value it gave the key, or none if it deleted the key.
    pub value: Option<&'a [u8]>,
    /// If there is one, this is no change of a key, but the tag of the timestamp. It comes before
    /// the timestamp's changes.
    pub tag: Option<&'a [u8]>,
}

/// One change of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyChange<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its new value, or none to delete it. Deleting a key that has no value changes nothing.
    pub value: Option<&'a [u8]>,
}

/// The outcome of [`crate::OrderedMap::compare_and_set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Whether the key had the expected value.
    pub matched: bool,
    /// The timestamp of the change that the answer rests on: this one if it changed the key,
    /// otherwise that of the version it was compared with, or 0 if the key has none. Once
    /// [`crate::Timestamps::persisted`] has reached it, a crash does not undo the answer, unless a
    /// rollback of newer versions of the key came before, which is persisted itself only by the
    /// next persist; once [`crate::Timestamps::applied`] has, a rollback does not.
    pub ts: Ts,
}
