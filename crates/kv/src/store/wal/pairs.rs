//! The applied pairs, which snapshots that are given away share.
//!
//! A snapshot copies nothing when it is begun. When a key changes for the first time after that,
//! what it was is kept for the snapshot: so a snapshot takes what changes while it lasts. The
//! values that it keeps were there when it was begun; keys that were not are bounded, and beyond
//! the bound it expires. What has ended is let go of a part at a time.

use std::collections::BTreeMap;
use std::ops::{Bound, Deref};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

/// Bytes that a key and its value take besides their own, roughly.
const EACH_BYTES: usize = 96;

/// Bytes that a key and a value take in DRAM, roughly; no more in a file.
pub(super) fn weight(key: &[u8], value: &[u8]) -> u64 {
    (EACH_BYTES + key.len() + value.len()) as u64
}

/// Keys by what they were before they changed: a value, or none.
type Before = BTreeMap<Bytes, Option<Bytes>>;

/// Versions kept for a snapshot.
struct Kept {
    id: u64,
    /// None once it has expired.
    before: Option<Before>,
    /// Bytes of keys that were not there when it was begun, and the most of them.
    new_bytes: u64,
    new_bytes_max: u64,
}

impl Kept {
    /// Keeps what a key was, unless it has changed before. Returns what it kept if it has expired
    /// by this.
    fn note(&mut self, key: &Bytes, was: Option<&Bytes>) -> Option<Before> {
        let before = self.before.as_mut()?;
        if before.contains_key(key) {
            return None;
        }
        before.insert(key.clone(), was.cloned());
        self.new_bytes += if was.is_none() { weight(key, &[]) } else { 0 };
        if self.new_bytes > self.new_bytes_max { self.before.take() } else { None }
    }
}

#[derive(Default)]
struct Shared {
    pairs: BTreeMap<Bytes, Bytes>,
    kept: Vec<Kept>,
    /// Number of snapshots so far.
    count: u64,
    /// Versions kept for snapshots that have ended.
    left: Vec<Before>,
}

fn read(shared: &RwLock<Shared>) -> RwLockReadGuard<'_, Shared> {
    shared.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(shared: &RwLock<Shared>) -> RwLockWriteGuard<'_, Shared> {
    shared.write().unwrap_or_else(PoisonError::into_inner)
}

/// The pairs as they are.
pub(super) struct Present<'a>(RwLockReadGuard<'a, Shared>);

impl Deref for Present<'_> {
    type Target = BTreeMap<Bytes, Bytes>;

    fn deref(&self) -> &Self::Target {
        &self.0.pairs
    }
}

/// The applied pairs.
#[derive(Default)]
pub(super) struct Pairs(Arc<RwLock<Shared>>);

impl Pairs {
    pub(super) fn of(pairs: BTreeMap<Bytes, Bytes>) -> Self {
        Self(Arc::new(RwLock::new(Shared { pairs, ..Shared::default() })))
    }

    /// The pairs as they are. Nothing changes them while this is there.
    pub(super) fn present(&self) -> Present<'_> {
        Present(read(&self.0))
    }

    /// Gives a key a value, or takes it away. Returns the one that it had.
    pub(super) fn set(&mut self, key: Bytes, value: Option<Bytes>) -> Option<Bytes> {
        let mut shared = write(&self.0);
        let Shared { pairs, kept, left, .. } = &mut *shared;
        let was = match value {
            Some(value) => pairs.insert(key.clone(), value),
            None => Some(pairs.remove(&key)?),
        };
        left.extend(kept.iter_mut().filter_map(|kept| kept.note(&key, was.as_ref())));
        was
    }

    /// The pairs as they are now, whatever becomes of them, until more than `new_bytes_max` bytes
    /// of keys have come.
    pub(super) fn freeze(&self, new_bytes_max: u64) -> Frozen {
        let mut shared = write(&self.0);
        shared.count += 1;
        let id = shared.count;
        shared.kept.push(Kept { id, before: Some(Before::new()), new_bytes: 0, new_bytes_max });
        Frozen { shared: self.0.clone(), id }
    }

    /// Lets go of some of what was kept for snapshots that have ended. Returns whether there is
    /// more.
    pub(super) fn let_some_go(&self, count: usize) -> bool {
        let left = &mut write(&self.0).left;
        let Some(last) = left.last_mut() else { return false };
        if pop_some(last, count) {
            left.pop();
        }
        !left.is_empty()
    }

    /// Whether a snapshot shares them.
    pub(super) fn are_shared(&self) -> bool {
        !read(&self.0).kept.is_empty()
    }

    /// Lets go of some of the pairs themselves. Returns whether that was all.
    pub(super) fn give_some_up(&self, count: usize) -> bool {
        !self.let_some_go(count) && pop_some(&mut write(&self.0).pairs, count)
    }
}

/// Takes the first entries out. Returns whether none is left.
fn pop_some<V>(entries: &mut BTreeMap<Bytes, V>, count: usize) -> bool {
    (0..count).any(|_| entries.pop_first().is_none())
}

/// How far a walk has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Walked {
    /// Up to a key.
    To(Bytes),
    /// To the end.
    All,
    /// Nowhere: the snapshot has expired.
    Expired,
}

/// The pairs as they were at a moment.
pub(super) struct Frozen {
    shared: Arc<RwLock<Shared>>,
    id: u64,
}

impl Frozen {
    /// Calls `each` with the pairs behind a key, in order, until it returns false, or a number of
    /// keys were looked at.
    pub(super) fn walk(
        &self,
        after: Option<&Bytes>,
        looks: usize,
        each: &mut dyn FnMut(&Bytes, &Bytes) -> bool,
    ) -> Walked {
        let shared = read(&self.shared);
        let kept = shared.kept.iter().find(|kept| kept.id == self.id);
        let Some(before) = kept.and_then(|kept| kept.before.as_ref()) else { return Walked::Expired };
        let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let mut present = shared.pairs.range::<Bytes, _>(range).peekable();
        let mut before = before.range::<Bytes, _>(range).peekable();
        for look in 1.. {
            let key = match (present.peek(), before.peek()) {
                (Some((is, _)), Some((was, _))) => (*is).min(*was),
                (Some((key, _)), None) | (None, Some((key, _))) => *key,
                (None, None) => break,
            };
            let is = present.next_if(|(is, _)| *is == key).map(|(_, value)| value);
            let was = before.next_if(|(was, _)| *was == key);
            let value = was.map_or(is, |(_, was)| was.as_ref());
            if value.is_some_and(|value| !each(key, value)) || look == looks {
                return Walked::To(key.clone());
            }
        }
        Walked::All
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let mut shared = write(&self.shared);
        if let Some(at) = shared.kept.iter().position(|kept| kept.id == self.id) {
            let kept = shared.kept.swap_remove(at);
            shared.left.extend(kept.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Pairs, Walked};
    use perdura_pmem::sim::Random;
    use std::collections::BTreeMap;

    fn bytes(number: u64) -> Bytes {
        number.to_be_bytes().to_vec().into()
    }

    fn all(frozen: &super::Frozen, looks: usize) -> BTreeMap<Bytes, Bytes> {
        let (mut found, mut after) = (BTreeMap::new(), None);
        loop {
            let walked = frozen.walk(after.as_ref(), looks, &mut |key, value| {
                found.insert(key.clone(), value.clone());
                true
            });
            match walked {
                Walked::To(key) => after = Some(key),
                Walked::All => return found,
                Walked::Expired => panic!("it has expired"),
            }
        }
    }

    /// Hazard: a snapshot shows what came later, or lacks what went; or it is another when it is
    /// read again.
    #[test]
    fn a_snapshot_stays_what_it_was_whatever_changes() {
        for seed in 0..40 {
            let (mut random, mut pairs) = (Random::new(seed), Pairs::default());
            let mut frozen = Vec::new();
            for _ in 0..400 {
                match random.below(20) {
                    0 if frozen.len() < 3 => frozen.push((pairs.freeze(u64::MAX), pairs.present().clone())),
                    1 if !frozen.is_empty() => {
                        let (frozen, was): (super::Frozen, _) =
                            frozen.swap_remove(random.below(frozen.len() as u64) as usize);
                        let looks = 1 + random.below(7) as usize;
                        assert_eq!((all(&frozen, looks), all(&frozen, 9)), (was.clone(), was), "seed {seed}");
                    }
                    _ => {
                        let value = (!random.one_in(3)).then(|| bytes(random.below(100)));
                        pairs.set(bytes(random.below(40)), value);
                    }
                }
            }
            drop(frozen);
            while pairs.let_some_go(1) {}
            assert!(!pairs.are_shared() && !pairs.let_some_go(1));
        }
    }

    /// Hazard: keys that come and go while a snapshot is read slowly fill the memory.
    #[test]
    fn a_snapshot_expires_when_too_many_keys_have_come() {
        let mut pairs = Pairs::of((0..100).map(|number| (bytes(number), bytes(1))).collect());
        let frozen = pairs.freeze(50 * super::weight(&bytes(0), &[]));
        // The pairs that were there weigh as much as before, once.
        (0..1000).for_each(|number| _ = pairs.set(bytes(number % 100), (number % 7 > 0).then(|| bytes(number))));
        (1000..1050).for_each(|number| _ = pairs.set(bytes(number), Some(bytes(1))));
        (1000..1050).for_each(|number| _ = pairs.set(bytes(number), None));
        assert_eq!(all(&frozen, 10).len(), 100);
        pairs.set(bytes(1050), Some(bytes(1)));
        assert_eq!(frozen.walk(None, 1, &mut |_, _| true), Walked::Expired);
        assert!(pairs.let_some_go(149), "150 keys were kept, and the one by which it has expired");
    }

    /// Hazard: a state that was given up goes while somebody reads a snapshot of it, or never.
    #[test]
    fn pairs_are_given_up_a_part_at_a_time() {
        let mut pairs = Pairs::of((0..10).map(|number| (bytes(number), bytes(1))).collect());
        let frozen = pairs.freeze(1000);
        pairs.set(bytes(3), None);
        assert!(pairs.are_shared());
        drop(frozen);
        assert!(!pairs.are_shared());
        let rounds = (1..).find(|_| pairs.give_some_up(4)).expect("it ends");
        assert!((3..=5).contains(&rounds) && pairs.present().is_empty(), "{rounds}");
    }
}
