//! Keys of clients as keys of the map.

/// Longest key of a client, in bytes. Each may double.
pub(crate) const KEY_BYTES_MAX: usize = 32_000;

/// First byte of what the system keeps for itself.
///
/// ```text
/// 0x01 ...                                   the system's own
/// 0x02 deadline(8) generation(4) key         when keys end, in the order of time
/// 0x10 generation(4) key' 0x00 0x00          the head of a key
/// 0x10 generation(4) key' 0x00 0x01 element  an element of a key of a composite type
/// ```
///
/// Numbers are big-endian. To delete all keys at once is to begin a new generation; those of older
/// ones are cleared away later.
///
/// `key'` is the key with each 0x00 as 0x00 0xFF. So the heads order as the keys do, a key's
/// elements lie together behind its head, and no key's lie among another's: behind 0x00 a key that
/// goes on has 0xFF, which neither a head nor an element has.
pub(crate) const SYSTEM: u8 = 0x01;
const DEADLINES: u8 = 0x02;
const KEYS: u8 = 0x10;
const END_OF_HEAD: [u8; 2] = [0x00, 0x00];

/// Where the present generation is kept, in four bytes. Before the first FLUSHALL there is none,
/// and it is 0.
pub(crate) const GENERATION: &[u8] = &[SYSTEM, b'g'];

/// Where the number of keys is kept, in eight bytes. Before the first key there is none, and it is
/// 0.
pub(crate) const COUNT: &[u8] = &[SYSTEM, b'k'];

/// Where a moment is put that an entry without other changes carries.
pub(crate) const TIME: &[u8] = &[SYSTEM, b't'];

/// Where it is kept by how much the time of the log is ahead of the calendar, in eight bytes.
/// Without it, it is 0.
pub(crate) const AHEAD: &[u8] = &[SYSTEM, b'c'];

/// Prefix of the keys of all generations.
pub(crate) const ALL_KEYS: &[u8] = &[KEYS];

/// Where the addresses of all members lie.
pub(crate) fn members() -> [u8; 2] {
    [SYSTEM, b'm']
}

/// Where the addresses of a member lie.
pub(crate) fn member(replica: u64) -> Vec<u8> {
    [&members()[..], &replica.to_be_bytes()].concat()
}

/// Where the head of a key lies.
pub(crate) fn head(generation: u32, key: &[u8]) -> Vec<u8> {
    let mut out = begin(generation, key);
    out.extend_from_slice(&END_OF_HEAD);
    out
}

/// Prefix of the heads of all keys with a prefix, and of their elements.
pub(crate) fn begin(generation: u32, prefix: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(prefix.len() + 7);
    out.push(KEYS);
    out.extend_from_slice(&generation.to_be_bytes());
    for &byte in prefix {
        out.push(byte);
        if byte == 0x00 {
            out.push(0xFF);
        }
    }
    out
}

/// The generation of what lies at a place of a key. `None` if none does.
pub(crate) fn of_generation(place: &[u8]) -> Option<u32> {
    let (generation, _) = place.strip_prefix(&[KEYS])?.split_first_chunk()?;
    Some(u32::from_be_bytes(*generation))
}

/// The client's key whose head lies at `place`, and its generation. `None` if no head does.
pub(crate) fn of_head(place: &[u8]) -> Option<(u32, Vec<u8>)> {
    let (generation, rest) = place.strip_prefix(&[KEYS])?.split_first_chunk()?;
    let escaped = rest.strip_suffix(&END_OF_HEAD)?;
    let mut key = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter();
    while let Some(&byte) = bytes.next() {
        if byte == 0x00 && bytes.next() != Some(&0xFF) {
            return None;
        }
        key.push(byte);
    }
    Some((u32::from_be_bytes(*generation), key))
}

/// Where the deadline of a key is noted: milliseconds since 1970.
pub(crate) fn deadline(at_ms: u64, generation: u32, key: &[u8]) -> Vec<u8> {
    [&[DEADLINES][..], &at_ms.to_be_bytes(), &generation.to_be_bytes(), key].concat()
}

/// Prefix of every deadline.
pub(crate) fn deadlines() -> [u8; 1] {
    [DEADLINES]
}

/// The deadline that is noted at `place`, and its generation and key. `None` if none is.
pub(crate) fn of_deadline(place: &[u8]) -> Option<(u64, u32, &[u8])> {
    let (at_ms, rest) = place.strip_prefix(&[DEADLINES])?.split_first_chunk()?;
    let (generation, key) = rest.split_first_chunk()?;
    Some((u64::from_be_bytes(*at_ms), u32::from_be_bytes(*generation), key))
}

#[cfg(test)]
mod tests {
    use super::{begin, deadline, head, of_deadline, of_head};
    use proptest::prelude::*;

    /// Prefix of the elements of a key.
    fn elements(generation: u32, key: &[u8]) -> Vec<u8> {
        [&begin(generation, key)[..], &[0x00, 0x01]].concat()
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0_u8), Just(1), Just(0xFE), Just(0xFF), any::<u8>()];
        proptest::collection::vec(byte, 0..6)
    }

    proptest! {
        #[test]
        fn heads_order_as_keys_do(left in key(), right in key(), one: u32) {
            prop_assert_eq!(head(one, &left).cmp(&head(one, &right)), left.cmp(&right));
            prop_assert_eq!(head(one, &left).starts_with(&begin(one, &right)), left.starts_with(&right));
        }

        #[test]
        fn a_head_tells_its_key(key in key(), one: u32, other in proptest::collection::vec(any::<u8>(), 0..12)) {
            prop_assert_eq!(of_head(&head(one, &key)), Some((one, key.clone())));
            prop_assert_eq!(of_head(&[&elements(one, &key)[..], b"e"].concat()), None);
            if let Some((generation, key)) = of_head(&other) {
                prop_assert_eq!(head(generation, &key), other);
            }
        }

        #[test]
        fn elements_lie_behind_their_head_and_before_the_next_key(left in key(), right in key(), element in key()) {
            let mine = [&elements(1, &left)[..], &element].concat();
            prop_assert!(head(1, &left) < mine);
            if left < right {
                prop_assert!(mine < head(1, &right));
            }
        }
    }

    #[test]
    fn deadlines_order_by_time() {
        assert!(deadline(255, 1, b"z") < deadline(256, 0, b"a"));
        assert_eq!(of_deadline(&deadline(7, 2, b"key")), Some((7, 2, &b"key"[..])));
        assert_eq!(of_deadline(&head(0, b"key")), None);
    }
}
