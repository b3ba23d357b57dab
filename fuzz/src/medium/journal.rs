//! Segments of a journal: headers, groups and pieces (docs/format.md, "Journal of a page medium").

use super::input::Input;
use super::{content, directory, open};
use perdura_pmem::{ErrorKind, FileMedium};
use std::fs;

const BLOCK: usize = 4096;
const SEGMENT_BYTES: u64 = 16 << 20;
const FILES: [(&str, usize); 2] = [("a", 2 * BLOCK), ("b", BLOCK)];
/// Byte of the files before the replay.
const OLD: u8 = 0x11;

const NAME: u32 = 1;
const BYTES: u32 = 2;
const ZEROS: u32 = 3;
const VOID: u32 = 4;
const FORGET: u32 = 5;

/// Appends a piece whose length counts what `content` has, or is `len`.
fn piece(to: &mut Vec<u8>, (kind, file): (u32, u32), offset: u64, len: u64, content: &[u8]) {
    to.extend([kind.to_le_bytes(), file.to_le_bytes()].concat());
    to.extend([offset.to_le_bytes(), len.to_le_bytes()].concat());
    to.extend(content);
    to.resize(to.len().next_multiple_of(8), 0);
}

fn named(to: &mut Vec<u8>, kind: u32, file: u32, name: &str) {
    piece(to, (kind, file), 0, name.len() as u64, name.as_bytes());
}

/// A segment with groups of so many pieces, the first of which has the number `first`.
fn segment(first: u64, groups: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = vec![0; 2 * BLOCK];
    for block in bytes.chunks_mut(BLOCK) {
        block[..8].copy_from_slice(b"PRDJRNL1");
        block[8..12].copy_from_slice(&1_u32.to_le_bytes());
        block[12..16].copy_from_slice(&(BLOCK as u32).to_le_bytes());
        block[16..24].copy_from_slice(&(first * 7 + 1).to_le_bytes());
        block[24..32].copy_from_slice(&first.to_le_bytes());
        block[32..40].copy_from_slice(&SEGMENT_BYTES.to_le_bytes());
    }
    for (number, (count, pieces)) in (first..).zip(groups) {
        let at = bytes.len();
        bytes.resize(at + 24, 0);
        bytes[at + 4..at + 8].copy_from_slice(&(24 + pieces.len() as u32).to_le_bytes());
        bytes[at + 8..at + 16].copy_from_slice(&number.to_le_bytes());
        bytes[at + 16..at + 20].copy_from_slice(&count.to_le_bytes());
        bytes.extend(pieces);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    }
    mend(&mut bytes);
    bytes
}

/// Makes the checksums of headers right, and of groups as far as their lengths lead.
fn mend(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(BLOCK).take(2) {
        let sum = crc32c::crc32c(&block[..44]);
        block[44..48].copy_from_slice(&sum.to_le_bytes());
    }
    let salt = bytes[16..24].to_vec();
    let mut at = 2 * BLOCK;
    while at < bytes.len() {
        let len = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("four bytes")) as usize;
        if len < 24 || len > bytes.len() - at {
            at += BLOCK;
            continue;
        }
        let head = [&salt[..], &(at as u64).to_le_bytes()].concat();
        let sum = crc32c::crc32c_append(crc32c::crc32c(&head), &bytes[at + 4..at + len]);
        bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        at += len.next_multiple_of(BLOCK);
    }
}

/// A sound journal with pieces of every kind. The second segment has the older name.
fn base() -> [(&'static str, Vec<u8>); 2] {
    let mut first = Vec::new();
    named(&mut first, NAME, 1, "a");
    piece(&mut first, (BYTES, 1), 64, 16, &[1; 16]);
    named(&mut first, NAME, 2, "gone");
    piece(&mut first, (BYTES, 2), 1 << 40, 8, &[2; 8]);
    let mut second = Vec::new();
    named(&mut second, NAME, 3, "b");
    piece(&mut second, (BYTES, 3), 0, 100, &[3; 100]);
    named(&mut second, FORGET, 0, "b");
    let mut third = Vec::new();
    piece(&mut third, (VOID, 1), 0, BLOCK as u64, &7_u64.to_le_bytes());
    named(&mut third, NAME, 4, "b");
    piece(&mut third, (BYTES, 4), 8, 8, &[4; 8]);
    piece(&mut third, (ZEROS, 1), 4000, 200, &[]);
    [("journal.00000004", segment(5, &[(4, first), (3, second)])), ("journal.00000003", segment(7, &[(4, third)]))]
}

/// The files as the sound journal leaves them.
fn replayed() -> Vec<(String, Vec<u8>)> {
    let mut files = FILES.map(|(name, len)| (name.to_owned(), vec![OLD; len]));
    files[0].1[4000..4200].fill(0);
    files[1].1[8..16].fill(4);
    files.to_vec()
}

/// Replays a journal that the input has damaged, in memory and to the files: with the same outcome.
/// If the first byte is odd, checksums are right.
pub fn journal(data: &[u8]) {
    let mut input = Input(data);
    let mends = input.u8() % 2 == 1;
    let mut segments = base();
    while !input.is_over() {
        let at = input.below(segments.len() as u64) as usize;
        input.change(&mut segments[at].1);
    }
    let place = directory();
    for (name, bytes) in &mut segments {
        if mends {
            mend(bytes);
        }
        fs::write(place.path().join(name), bytes).expect("there is room");
    }
    for (name, len) in FILES {
        fs::write(place.path().join(name), vec![OLD; len]).expect("there is room");
    }
    let seen = FileMedium::open_to_read(place.path(), None).map(|medium| content(&medium));
    for (name, len) in FILES {
        assert!(fs::read(place.path().join(name)).expect("it is there") == vec![OLD; len], "{name} was changed");
    }
    let opened = open(place.path()).map(|medium| content(&medium));
    match (seen, opened) {
        (Ok(seen), Ok(opened)) => {
            assert!(seen == opened, "what is seen is not what a start finds");
            assert!(!data.is_empty() || opened == replayed(), "a sound journal");
            let again = open(place.path()).map(|medium| content(&medium));
            assert!(again.is_ok_and(|again| again == opened), "a journal that was replayed is void");
        }
        (Err(seen), Err(opened)) => {
            assert_eq!(seen.kind(), opened.kind(), "{seen}; {opened}");
            let is_expected = matches!(seen.kind(), ErrorKind::Poisoned | ErrorKind::Unsupported);
            assert!(is_expected && !data.is_empty(), "{:?}: {seen}", seen.kind());
        }
        (seen, opened) => panic!("seen: {:?}, opened: {:?}", seen.err(), opened.err()),
    }
}
