//! Changes objects of a map's file and corrects their checksums. No accident does that, but no map
//! may panic or loop on it. Objects are found by their checksums, as docs/format.md defines them,
//! without asking the map.

use super::input::Input;
use super::subject::FILE_BYTES;

/// The ring of root records: slots of two lines.
const RING_AT: usize = 256;
const SLOTS: usize = 16;
const ROOT_BYTES: usize = 128;
/// Stands for the ring where the place of a word or a record is part of its check.
const RING_PLACE: u64 = 1 << 41;
/// Content of a word of the ring; the rest is its check.
const CONTENT: u64 = (1 << 48) - 1;
/// The two slots of aside records.
const ASIDE_AT: usize = RING_AT + SLOTS * ROOT_BYTES;
const ASIDE_BYTES: usize = 32;
const ASIDE_SLOT_BYTES: usize = (ASIDE_BYTES + 2 * 1024usize).next_multiple_of(64);
/// Where the pages begin: after the summary, in one page of memory, and the page table, in another.
const DATA_AT: usize = 16 << 10;
const RECORD_HEADER_BYTES: usize = 40;

/// The kinds of object that have a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Root,
    Aside,
    Record,
    Node,
}

/// An object that has a checksum.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    pub shape: Shape,
    offset: usize,
    len: usize,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

fn salt(bytes: &[u8]) -> u64 {
    word(bytes, 32)
}

fn seed(salt: u64, place: u64) -> u32 {
    ((salt ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// The two lengths that a word holds.
fn lengths(word: u64) -> (usize, usize) {
    (word as u32 as usize, (word >> 32) as usize)
}

/// The end of an object of `len` bytes that two more pieces follow, or none if that is not within
/// the file.
fn end(bytes: &[u8], offset: usize, len: usize, (one, other): (usize, usize)) -> Option<usize> {
    let end = offset.checked_add(len)?.checked_add(one)?.checked_add(other)?;
    (end <= bytes.len()).then_some(end)
}

/// Words that check an object, by offset, and their correct values. None if the object's lengths
/// are impossible.
fn check_words(bytes: &[u8], object: Object) -> Option<Vec<(usize, u64)>> {
    let Object { shape, offset, len } = object;
    let crc = |place: usize, from: usize, to: usize| {
        u64::from(crc32c::crc32c_append(seed(salt(bytes), place as u64), &bytes[from..to]))
    };
    let found = match shape {
        Shape::Root => return Some(root_words(bytes, offset)),
        Shape::Aside => {
            let blob = end(bytes, offset, len, lengths(word(bytes, offset + 16)))?;
            let sum = crc32c::crc32c_append(crc(offset, offset, offset + len - 8) as u32, &bytes[offset + len..blob]);
            (offset + len - 8, u64::from(sum))
        }
        Shape::Record => {
            // Beside the key's length are that of the tag it bears, and flags.
            let (key, value) = lengths(word(bytes, offset + 32));
            let tag = if key >> 29 & 1 != 0 { key >> 17 & 0x7ff } else { 0 };
            let end = end(bytes, offset, RECORD_HEADER_BYTES + tag, (key & 0x1_ffff, value))?;
            (offset + 16, crc(offset, offset + 24, end))
        }
        Shape::Node => (offset, crc(offset, offset + 8, offset + len)),
    };
    Some(vec![found])
}

/// The words of the slot at an offset, with the checks that their content asks for.
fn root_words(bytes: &[u8], offset: usize) -> Vec<(usize, u64)> {
    let (salt, slot) = (salt(bytes), (offset - RING_AT) / ROOT_BYTES);
    let mut content: Vec<u64> = (0..ROOT_BYTES / 8).map(|number| word(bytes, offset + 8 * number) & CONTENT).collect();
    content[1] &= !u64::from(u32::MAX);
    let count = if content[1] >> 32 & 1 != 0 { content.len() } else { content.len() / 2 };
    let summed: Vec<u8> = content[..count].iter().flat_map(|word| word.to_le_bytes()).collect();
    content[1] |= u64::from(crc32c::crc32c_append(seed(salt, RING_PLACE | slot as u64), &summed));
    let sealed = content.iter().enumerate().map(|(number, word)| {
        let place = RING_PLACE | (slot * ROOT_BYTES / 8 + number) as u64;
        let check = (word ^ salt ^ place.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        (offset + 8 * number, word | check.max(1) << 48)
    });
    sealed.collect()
}

fn is_sound(bytes: &[u8], object: Object) -> bool {
    check_words(bytes, object).is_some_and(|words| words.iter().all(|(at, check)| word(bytes, *at) == *check))
}

/// All objects of a sound file, live or not.
pub fn objects(bytes: &[u8]) -> Vec<Object> {
    let roots =
        (0..SLOTS).map(|slot| Object { shape: Shape::Root, offset: RING_AT + slot * ROOT_BYTES, len: ROOT_BYTES });
    let asides =
        [0, 1].map(|slot| Object { shape: Shape::Aside, offset: ASIDE_AT + slot * ASIDE_SLOT_BYTES, len: ASIDE_BYTES });
    let records = (DATA_AT..bytes.len() - RECORD_HEADER_BYTES).step_by(16).map(|offset| Object {
        shape: Shape::Record,
        offset,
        len: RECORD_HEADER_BYTES,
    });
    // With four entries, leaves have two arrays and inner nodes three, in whole cache lines.
    let nodes = (DATA_AT..bytes.len() - 128)
        .step_by(64)
        .map(|offset| Object { shape: Shape::Node, offset, len: 128 })
        .filter(|object| word(bytes, object.offset) != 0);
    roots.chain(asides).chain(records).chain(nodes).filter(|object| is_sound(bytes, *object)).collect()
}

/// Changes words of objects and corrects their checksums.
pub fn forge(bytes: &mut [u8], input: &mut Input<'_>) {
    debug_assert_eq!(bytes.len() as u64, FILE_BYTES);
    let objects = objects(bytes);
    while !input.is_over() && !objects.is_empty() {
        let [object, other] = [0; 2].map(|_: u8| objects[input.below(objects.len() as u64) as usize]);
        let [at, from] = [object, other].map(|object| object.offset + 8 * (usize::from(input.u8()) % (object.len / 8)));
        match input.u8() % 4 {
            0 => put(bytes, at, word(bytes, from)),
            1 => put(bytes, at, 0),
            2 => put(bytes, at, word(bytes, at).wrapping_add(u64::from(input.u8())).wrapping_sub(128)),
            _ => input.bytes(8).iter().zip(&mut bytes[at..at + 8]).for_each(|(change, byte)| *byte ^= change),
        }
        for (place, check) in check_words(bytes, object).unwrap_or_default() {
            put(bytes, place, check);
        }
    }
}
