//! Keys of rows in indexes, as the plugin hands them over.
//!
//! A key is made so that the order of its bytes is that of the columns, and that no key of an index
//! begins another one.

use super::definition::items;
use perdura_engine::{Key, KeyChange};
use std::ops::Bound;

/// The longest key.
pub const PERDURA_KEY_BYTES_MAX: u32 = 3072;

/// A row's key in one of the table's indexes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraKey {
    /// The key.
    pub bytes: *const u8,
    /// Its length, at most PERDURA_KEY_BYTES_MAX.
    pub length: u32,
    /// Another row may have the key too, though the index is unique.
    pub may_repeat: bool,
}

/// A row's key in an index changes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraKeyChange {
    /// Number of the index.
    pub index: u32,
    /// The key that the row has.
    pub before: PerduraKey,
    /// The key that it gets.
    pub after: PerduraKey,
}

/// Where a range of keys begins or ends.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerduraBoundKind {
    /// It does not: the range goes on to the first or the last key.
    None = 0,
    /// At the keys that begin with the bytes, which belong to the range.
    Included,
    /// At the keys that begin with the bytes, which do not belong to the range.
    Excluded,
}

/// An end of a range of keys.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraBound {
    /// Whether there is one, and which side of it the keys at it are.
    pub kind: PerduraBoundKind,
    /// The beginning of the keys at this end.
    pub bytes: *const u8,
    /// How many bytes.
    pub length: u32,
}

impl PerduraKey {
    /// # Safety
    /// The key must be readable while the result is used.
    unsafe fn content<'k>(&self) -> &'k [u8] {
        // SAFETY: as the caller vouches for.
        unsafe { items(self.bytes, self.length as usize) }
    }

    /// # Safety
    /// As for [`PerduraKey::content`].
    pub(super) unsafe fn key<'k>(&self) -> Key<'k> {
        // SAFETY: as the caller vouches for.
        Key { bytes: unsafe { self.content() }, may_repeat: self.may_repeat }
    }
}

impl PerduraBound {
    /// # Safety
    /// The bytes must be readable while the result is used.
    pub(super) unsafe fn bound<'k>(&self) -> Bound<&'k [u8]> {
        // SAFETY: as the caller vouches for.
        let bytes = unsafe { items(self.bytes, self.length as usize) };
        match self.kind {
            PerduraBoundKind::None => Bound::Unbounded,
            PerduraBoundKind::Included => Bound::Included(bytes),
            PerduraBoundKind::Excluded => Bound::Excluded(bytes),
        }
    }
}

/// Most tables have no more indexes than this; the keys of their rows are passed on without a list
/// on the heap.
const FEW: usize = 4;

/// Has `body` use what `convert` makes of each of `count` items.
fn with_each<T: Copy, R>(count: usize, none: T, convert: impl Fn(usize) -> T, body: impl FnOnce(&[T]) -> R) -> R {
    if count > FEW {
        return body(&(0..count).map(convert).collect::<Vec<T>>());
    }
    let mut few = [none; FEW];
    for (index, item) in few.iter_mut().enumerate().take(count) {
        *item = convert(index);
    }
    body(&few[..count])
}

const NO_KEY: Key<'static> = Key { bytes: &[], may_repeat: false };

/// Has `body` use the keys of a new row.
///
/// # Safety
/// `keys` must be `count` keys, readable until the body ends.
pub(super) unsafe fn with_keys<R>(keys: *const PerduraKey, count: usize, body: impl FnOnce(&[Key<'_>]) -> R) -> R {
    // SAFETY: as the caller vouches for.
    let keys = unsafe { items(keys, count) };
    // SAFETY: as the caller vouches for.
    with_each(count, NO_KEY, |index| unsafe { keys[index].key() }, body)
}

/// Has `body` use the keys that a row has.
///
/// # Safety
/// As for [`with_keys`].
pub(super) unsafe fn with_old_keys<R>(keys: *const PerduraKey, count: usize, body: impl FnOnce(&[&[u8]]) -> R) -> R {
    // SAFETY: as the caller vouches for.
    let keys = unsafe { items(keys, count) };
    // SAFETY: as the caller vouches for.
    with_each(count, &[][..], |index| unsafe { keys[index].content() }, body)
}

/// Has `body` use the changes of a row's keys.
///
/// # Safety
/// The keys of the changes must be readable until the body ends.
pub(super) unsafe fn with_changes<R>(changes: &[PerduraKeyChange], body: impl FnOnce(&[KeyChange<'_>]) -> R) -> R {
    let convert = |at: usize| {
        let PerduraKeyChange { index, before, after } = &changes[at];
        // SAFETY: as the caller vouches for.
        unsafe { KeyChange { index: *index as usize, old: before.content(), new: after.key() } }
    };
    let none = KeyChange { index: 0, old: &[], new: NO_KEY };
    with_each(changes.len(), none, convert, body)
}
