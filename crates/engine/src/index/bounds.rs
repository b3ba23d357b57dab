//! Bounds of ranges of keys. A bound is the beginning of keys.

use std::ops::Bound;

/// The least key of a range that begins at `from`.
pub(crate) fn start_of(from: Bound<&[u8]>) -> Vec<u8> {
    match from {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key.to_vec(),
        Bound::Excluded(key) => beyond(key),
    }
}

/// The key below which a range lies that ends at `to`.
pub(crate) fn end_of(to: Bound<&[u8]>) -> Vec<u8> {
    match to {
        Bound::Unbounded => beyond(b""),
        Bound::Included(key) => beyond(key),
        Bound::Excluded(key) => key.to_vec(),
    }
}

/// The least bound above all keys that begin with `key`; above all keys if it has only bytes that
/// are greatest.
pub(crate) fn beyond(key: &[u8]) -> Vec<u8> {
    match key.iter().rposition(|byte| *byte != 0xff) {
        Some(last) => {
            let mut bound = key[..=last].to_vec();
            bound[last] += 1;
            bound
        }
        None => vec![0xff; crate::format::ENTRY_BYTES_MAX + 1],
    }
}

#[cfg(test)]
mod tests {
    use super::beyond;

    #[test]
    fn the_bound_beyond_a_key_is_the_least_above_all_that_begin_with_it() {
        const BYTES: [u8; 4] = [0, 1, 0xfe, 0xff];
        let mut all = vec![Vec::new()];
        for length in 0..4 {
            let longest: Vec<Vec<u8>> = all.iter().filter(|key| key.len() == length).cloned().collect();
            all.extend(longest.iter().flat_map(|key| BYTES.map(|byte| [key, &[byte][..]].concat())));
        }
        for key in &all {
            let bound = beyond(key);
            for other in &all {
                assert_eq!(*other < bound, other < key || other.starts_with(key), "{other:?} beside that of {key:?}");
            }
        }
        assert!(beyond(&[0xff; 3072]) > vec![0xff; crate::format::ENTRY_BYTES_MAX]);
    }
}
