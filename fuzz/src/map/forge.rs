//! Changes objects of a map's file and corrects their checksums. No accident does that, but no map may panic or loop on
//! it. Objects are found by their checksums, as docs/format.md defines them, without asking the map.

use super::input::Input;
use super::subject::FILE_BYTES;

const SLOTS_AT: usize = 128;
const ROOT_BYTES: usize = 128;
const DATA_AT: usize = 4096;
const RECORD_HEADER_BYTES: usize = 32;

/// The kinds of object that have a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Root,
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

/// Bytes of a record from its header on, without padding, or none if they are not within the file.
fn record_bytes(bytes: &[u8], offset: usize) -> Option<usize> {
    let lengths = word(bytes, offset + 24);
    let len = RECORD_HEADER_BYTES + (lengths & 0x7fff_ffff) as usize + (lengths >> 32) as usize;
    (offset + len <= bytes.len()).then_some(len)
}

/// The word that holds an object's checksum, by offset, and its correct value. None if the object's lengths are
/// impossible.
fn check_word(bytes: &[u8], object: Object) -> Option<(usize, u64)> {
    let Object { shape, offset, len } = object;
    let crc =
        |place: usize, from: usize, to: usize| crc32c::crc32c_append(seed(salt(bytes), place as u64), &bytes[from..to]);
    match shape {
        Shape::Root => Some((offset + len - 8, u64::from(crc(0, offset, offset + len - 8)))),
        Shape::Record => {
            let end = offset + record_bytes(bytes, offset)?;
            Some((offset + 8, u64::from(crc(offset, offset + 16, end))))
        }
        Shape::Node => {
            let counts = word(bytes, offset) as u32;
            let check = crc(offset, offset + 8, offset + len) ^ counts.wrapping_mul(0x9e37_79b9);
            Some((offset, u64::from(counts) | u64::from(check) << 32))
        }
    }
}

fn is_sound(bytes: &[u8], object: Object) -> bool {
    check_word(bytes, object).is_some_and(|(at, check)| word(bytes, at) == check)
}

/// All objects of a sound file, live or not.
pub fn objects(bytes: &[u8]) -> Vec<Object> {
    let roots = [0, 1].map(|slot| Object { shape: Shape::Root, offset: SLOTS_AT + slot * ROOT_BYTES, len: ROOT_BYTES });
    let records = (DATA_AT..bytes.len() - RECORD_HEADER_BYTES).step_by(16).map(|offset| Object {
        shape: Shape::Record,
        offset,
        len: RECORD_HEADER_BYTES,
    });
    // With four children, leaves have two arrays and inner nodes three, in whole cache lines.
    let nodes = (DATA_AT..bytes.len() - 128)
        .step_by(64)
        .map(|offset| Object { shape: Shape::Node, offset, len: 128 })
        .filter(|object| word(bytes, object.offset) != 0);
    roots.into_iter().chain(records).chain(nodes).filter(|object| is_sound(bytes, *object)).collect()
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
        if let Some((place, check)) = check_word(bytes, object) {
            put(bytes, place, check);
        }
    }
}
