//! Keys by reference, and their heads.

/// Finds keys by their references.
pub trait Keys {
    /// The bytes of the key that `reference` stands for. They never change.
    ///
    /// A reader asks for references that it met in the tree. If another thread has removed the
    /// entry or replaced its reference meanwhile, the key must still be readable under the old one:
    /// whoever removes or replaces keeps it for as long as readers that began before may run. It
    /// must not panic for any reference of the tree.
    fn key(&self, reference: u64) -> &[u8];
}

/// Eight bytes of `key` behind its first `skip`, as a number that orders as they do. What is
/// missing counts as 0.
#[inline]
pub(crate) fn head_of(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    if let Some(eight) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*eight);
    }
    rest.iter().enumerate().fold(0, |head, (at, byte)| head | u64::from(*byte) << (56 - 8 * at))
}

/// The largest head of a key that begins with `key`: what is missing counts as 255.
#[inline]
pub(crate) fn top_of(key: &[u8], skip: usize) -> u64 {
    let missing = 8 - key.len().saturating_sub(skip).min(8);
    head_of(key, skip) | u64::MAX.checked_shr(64 - 8 * missing as u32).unwrap_or(0)
}

/// Number of bytes in which both keys begin alike.
pub(crate) fn common(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_order_as_the_bytes_they_stand_for() {
        let keys: [&[u8]; 8] = [b"", b"a", b"a\0", b"ab", b"abcdefgh", b"abcdefghi", b"b", b"\xff\xff"];
        for pair in keys.windows(2) {
            assert!(head_of(pair[0], 0) <= head_of(pair[1], 0), "{pair:?}");
        }
        assert_eq!(head_of(b"xxabcdefgh", 2), head_of(b"abcdefgh", 0));
        assert_eq!(head_of(b"x", 3), 0);
        assert_eq!((top_of(b"x", 3), top_of(b"xabcdefghi", 1)), (u64::MAX, head_of(b"abcdefgh", 0)));
        assert_eq!(top_of(b"abc", 1), head_of(b"bc\xff\xff\xff\xff\xff\xff", 0));
        assert_eq!(common(b"abcd", b"abxd"), 2);
        assert_eq!(common(b"ab", b"ab"), 2);
    }
}
