//! Clears away what commands do not see any more: keys that have ended, and keys of earlier
//! generations.

use std::ops::Bound;

use bytes::Bytes;

use super::draft::{Draft, Unreadable};
use super::head::{HEAD_BYTES_MAX, Head};
use super::key;

/// Most places that one entry clears away, and most bytes of them.
pub(crate) const PLACES_MAX: usize = 1000;
const BYTES_MAX: usize = 256 << 10;

/// The deadline that comes first, of any generation.
pub(crate) fn first_deadline(draft: &Draft<'_>) -> Result<Option<u64>, Unreadable> {
    let mut first = None;
    draft.scan(&key::deadlines(), Bound::Unbounded, &mut |place, _| {
        first = key::of_deadline(place).map(|(at, _, _)| at);
        false
    })?;
    Ok(first)
}

/// Whether there is something of an earlier generation.
pub(crate) fn has_old_generation(draft: &Draft<'_>) -> Result<bool, Unreadable> {
    let (generation, mut is_old) = (draft.generation()?, false);
    draft.scan(key::ALL_KEYS, Bound::Unbounded, &mut |place, _| {
        is_old = key::of_generation(place) != Some(generation);
        false
    })?;
    Ok(is_old)
}

/// Clears away some of it. Returns how many keys have ended.
pub(crate) fn sweep(draft: &mut Draft<'_>) -> Result<u64, Unreadable> {
    let (now_ms, generation) = (draft.now_ms(), draft.generation()?);
    let (mut ended, mut old, mut bytes) = (Vec::new(), Vec::new(), 0);
    draft.scan(&key::deadlines(), Bound::Unbounded, &mut |place, _| {
        match key::of_deadline(place) {
            Some((at, of, key)) if at <= now_ms && of == generation => ended.push(key.to_vec()),
            Some((at, _, _)) if at <= now_ms => old.push(place.to_vec()),
            _ => return false,
        }
        bytes += place.len();
        ended.len() + old.len() < PLACES_MAX && bytes < BYTES_MAX
    })?;
    draft.scan(key::ALL_KEYS, Bound::Unbounded, &mut |place, value| {
        if key::of_generation(place) == Some(generation) || ended.len() + old.len() >= PLACES_MAX || bytes >= BYTES_MAX
        {
            return false;
        }
        bytes += place.len();
        old.push(place.to_vec());
        if let Some(noted) = deadline_of(place, value) {
            bytes += noted.len();
            old.push(noted);
        }
        true
    })?;
    let mut count = 0;
    for key in &ended {
        if draft.delete_ended(key)? {
            count += 1;
        }
    }
    old.into_iter().for_each(|place| draft.change(place, None));
    Ok(count)
}

/// Where the deadline of the key is noted whose head lies at `place`, if it has one.
fn deadline_of(place: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let (generation, key) = key::of_head(place)?;
    let front = Bytes::copy_from_slice(&value[..value.len().min(HEAD_BYTES_MAX)]);
    let at_ms = Head::from_bytes(front).ok()?.deadline_ms?;
    Some(key::deadline(at_ms, generation, &key))
}

#[cfg(test)]
mod tests {
    use super::{Draft, first_deadline, has_old_generation, sweep};
    use crate::command::tests::Table;

    fn sweeps(table: &mut Table) -> u64 {
        let mut draft = Draft::new(&table.source, table.now_ms, 1_000);
        let count = sweep(&mut draft).expect("swept");
        let batch = draft.into_batch();
        table.source.apply(batch);
        count
    }

    #[test]
    fn what_is_not_seen_is_cleared_away() {
        let mut table = Table::at(1_000);
        table.replies(&[("SET a 1 PX 5", "+OK"), ("SET b 1 PX 9", "+OK"), ("SET c 1", "+OK"), ("DBSIZE", ":3")]);
        let draft = Draft::new(&table.source, 1_000, 9);
        assert_eq!((first_deadline(&draft), has_old_generation(&draft)), (Ok(Some(1_005)), Ok(false)));
        assert_eq!(sweeps(&mut table), 0);
        table.now_ms += 5;
        table.replies(&[("DBSIZE", ":3"), ("GET a", "$-1")]);
        assert_eq!(sweeps(&mut table), 1);
        table.replies(&[("DBSIZE", ":2"), ("FLUSHALL", "+OK"), ("DBSIZE", ":0"), ("SET d 1", "+OK")]);
        assert_eq!(has_old_generation(&Draft::new(&table.source, 1_005, 9)), Ok(true));
        table.now_ms += 10;
        assert_eq!(sweeps(&mut table), 0);
        let draft = Draft::new(&table.source, 1_015, 9);
        assert_eq!((first_deadline(&draft), has_old_generation(&draft)), (Ok(None), Ok(false)));
        table.replies(&[("DBSIZE", ":1"), ("KEYS *", "*1 $1 d")]);
    }

    /// Hazard: the deadlines of keys that FLUSHALL has taken away stay until their time comes, a
    /// year later.
    #[test]
    fn deadlines_go_with_the_keys_of_an_old_generation() {
        let mut table = Table::at(1_000);
        table.replies(&[
            ("SET a 1 EX 31536000", "+OK"),
            ("SET b 1", "+OK"),
            ("FLUSHALL", "+OK"),
            ("SET a 2 EX 9", "+OK"),
        ]);
        assert_eq!(table.source.deadlines().len(), 2);
        sweeps(&mut table);
        assert_eq!(table.source.deadlines(), [(10_000, b"a".to_vec())]);
        assert_eq!(has_old_generation(&Draft::new(&table.source, 1_000, 9)), Ok(false));
    }
}
