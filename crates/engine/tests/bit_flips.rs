//! Hazard: a bit that flips at rest costs an acknowledged row in silence. After every flip the
//! check must report damage, or all rows must be there and stay there (I6).
//!
//! The tests flip bits of every structure, all of them or at seeded places: superblock, log
//! records, file headers, link words, segment descriptors, page states, directory words, versions.

use crate::common::damage::{Subject, Verdict, judge, subject};
use perdura_engine::format::{SegmentKind, segments_for_bytes};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::ops::Range;
use std::sync::Arc;

const SEGMENT_BYTES: u64 = 4096;
const SEGMENTS_AT: u64 = 4096;
const DESCRIPTORS_AT: u64 = 128;
const LINK_AT: u64 = 64;

/// Flips one bit at a time, at each of `places` (file, byte offset, bit). Returns how many flips
/// were found and how many were harmless.
fn flip_each(subject: &Subject, places: impl IntoIterator<Item = (String, u64, u32)>) -> (u32, u32) {
    let (mut found, mut harmless) = (0, 0);
    for (file, at, bit) in places {
        let medium = SimMedium::from_image(subject.image.clone());
        let region = medium.open(&file).expect("it exists");
        let mut byte = [0];
        region.read(at, &mut byte);
        region.write(at, &[byte[0] ^ 1 << bit]);
        drop(region);
        match judge(subject, Arc::new(medium), &format!("bit {bit} of {file} at offset {at:#x} flipped")) {
            Verdict::Found => found += 1,
            Verdict::Harmless => harmless += 1,
        }
    }
    (found, harmless)
}

/// Every bit of the bytes `bytes` of a file, as places.
fn all_bits(file: &str, bytes: Range<u64>) -> impl Iterator<Item = (String, u64, u32)> {
    bytes.flat_map(move |at| (0..8).map(move |bit| (at, bit))).map({
        let file = file.to_owned();
        move |(at, bit)| (file.clone(), at, bit)
    })
}

/// The segments in use of all data files: file name, number of the segment, use.
fn segments(subject: &Subject) -> Vec<(String, u64, SegmentKind)> {
    let medium = SimMedium::from_image(subject.image.clone());
    let mut all = Vec::new();
    for (name, len) in subject.image.list() {
        let Some(numbers) = name.strip_prefix("t.") else { continue };
        let (table, file) = numbers.split_once('.').expect("a data file's name");
        let number = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
        let region = medium.open(&name).expect("it exists");
        for index in 0..(len - SEGMENTS_AT) / SEGMENT_BYTES {
            let salt = number(table) << 32 ^ number(file) << 16 ^ index;
            let word = region.load(DESCRIPTORS_AT + index * 8);
            let kind = SegmentKind::decode(word, salt).expect("a sound descriptor");
            if kind != SegmentKind::Free {
                all.push((name.clone(), index, kind));
            }
        }
    }
    all
}

#[test]
fn flips_in_headers_and_link_words() {
    let subject = subject(true);
    for file in ["t.00000001.00000", "t.00000002.00000"] {
        let (found, harmless) = flip_each(&subject, all_bits(file, 0..60));
        assert_eq!((found, harmless), (480, 0), "{file}: every bit of the header counts");
        let (found, harmless) = flip_each(&subject, all_bits(file, LINK_AT..LINK_AT + 8));
        assert_eq!((found, harmless), (64, 0), "{file}: every bit of the link word counts");
    }
}

#[test]
fn flips_in_segment_descriptors() {
    let subject = subject(true);
    let names: std::collections::BTreeSet<_> = segments(&subject).into_iter().map(|(name, _, _)| name).collect();
    let mut random = Random::new(1);
    for name in names {
        let bytes = subject.image.bytes_of(&name).unwrap().len() as u64;
        let places = all_bits(&name, DESCRIPTORS_AT..DESCRIPTORS_AT + segments_for_bytes(bytes, SEGMENT_BYTES) * 8);
        let (found, harmless) = flip_each(&subject, places.filter(|_| random.one_in(3)));
        assert_eq!(harmless, 0, "{name}: every bit counts, {found} found");
    }
}

#[test]
fn flips_in_the_row_directory() {
    for closed in [true, false] {
        let subject = subject(closed);
        let mut random = Random::new(2);
        let directories: Vec<_> =
            segments(&subject).into_iter().filter(|(_, _, kind)| matches!(kind, SegmentKind::Directory(_))).collect();
        assert!(directories.len() >= 3, "each table with rows has one");
        for (name, index, _) in directories {
            let start = SEGMENTS_AT + index * SEGMENT_BYTES;
            let (_, harmless) = flip_each(&subject, all_bits(&name, start..start + 128).filter(|_| random.one_in(2)));
            assert_eq!(harmless, 0, "{name}: every bit of a page's state counts");
            flip_each(&subject, all_bits(&name, start + 128..start + 128 + 800).filter(|_| random.one_in(12)));
        }
    }
}

#[test]
fn flips_in_versions() {
    for closed in [true, false] {
        let subject = subject(closed);
        let mut random = Random::new(3);
        let (mut found, mut harmless) = (0, 0);
        for (name, index, kind) in segments(&subject) {
            if matches!(kind, SegmentKind::Directory(_)) {
                continue;
            }
            let start = SEGMENTS_AT + index * SEGMENT_BYTES;
            let places = all_bits(&name, start..start + SEGMENT_BYTES).filter(|_| random.one_in(800));
            let (more_found, more_harmless) = flip_each(&subject, places);
            found += more_found;
            harmless += more_harmless;
        }
        assert!(found > 50 && harmless > 50, "{found} found, {harmless} harmless");
    }
}

#[test]
fn flips_in_log_records_and_superblock() {
    for closed in [true, false] {
        let subject = Subject { prepared_may_go: true, ..subject(closed) };
        let mut random = Random::new(4);
        for (name, len) in subject.image.list() {
            if name.starts_with("log.") {
                flip_each(&subject, all_bits(&name, 0..len).filter(|_| random.one_in(400)));
            }
        }
        flip_each(&subject, all_bits("super", 0..8192).filter(|_| random.one_in(250)));
    }
}
