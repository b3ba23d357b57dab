//! Hazard: a bit that flips at rest silently changes an answer, or brings the process down.
//!
//! The tests change every byte of a small map, one at a time; then whole words, lines and pages.
//! Every answer after that must be right or an error. Tests (I6).

use crate::support::KINDS;
use crate::support::damage::{Subject, Verdict, judge, subject};
use crate::support::root_slot;
use perdura_map::Kind;
use perdura_pmem::sim::Random;

/// Judges each of these damaged files, named by what was done. Returns how often damage was found,
/// and how often harmless. Panics with everything that went wrong.
fn judge_each(subject: &Subject, files: impl Iterator<Item = (String, Vec<u8>, bool)>) -> (u32, u32) {
    let (mut found, mut harmless, mut wrong) = (0, 0, Vec::new());
    for (what, bytes, changes) in files {
        match judge(subject, &bytes, changes) {
            Ok(Verdict::Found) => found += 1,
            Ok(Verdict::Harmless) => harmless += 1,
            Err(error) => wrong.push(format!("{what}: {error}")),
        }
    }
    let shown = wrong.len().min(20);
    assert!(wrong.is_empty(), "{}: {} wrong:\n{}", subject.kind, wrong.len(), wrong[..shown].join("\n"));
    (found, harmless)
}

fn changed(subject: &Subject, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = subject.bytes.clone();
    change(&mut bytes);
    bytes
}

fn flip_every_byte(kind: Kind, seed: u64) {
    let (subject, mut random) = (subject(kind), Random::new(seed));
    let files = (0..subject.bytes.len()).map(|at| {
        let bit = 1u8 << random.below(8);
        let mask = if random.one_in(3) { 0xff } else { bit };
        let what = format!("byte {at:#x} changed by {mask:#x}");
        (what, changed(&subject, |bytes| bytes[at] ^= mask), random.one_in(12))
    });
    let (found, harmless) = judge_each(&subject, files);
    assert!(found > 300 && harmless > 300, "{kind}: {found} found, {harmless} harmless");
}

#[test]
fn a_list_with_any_byte_changed_answers_rightly_or_refuses() {
    flip_every_byte(Kind::List, 1);
}

#[test]
fn a_btree_with_any_byte_changed_answers_rightly_or_refuses() {
    flip_every_byte(Kind::BTree, 2);
}

/// The structures that locate all others: each bit of the identity, the newest root record and the
/// slot after it, the begin of both aside records, and some words of the summary and of pages.
#[test]
fn every_bit_of_the_control_block() {
    for kind in KINDS {
        let subject = subject(kind);
        let [newest, after] = root_slot::newest_and_after(&subject.bytes);
        let places =
            [0..64, newest..newest + 128, after..after + 128, 2304..2368, 4416..4480, 8192..8224, 12288..12352];
        let files = places.into_iter().flatten().flat_map(|at| (0..8).map(move |bit| (at, bit))).map(|(at, bit)| {
            let what = format!("bit {bit} of byte {at:#x}");
            (what, changed(&subject, |bytes| bytes[at] ^= 1 << bit), false)
        });
        judge_each(&subject, files);
    }
}

#[test]
fn words_that_hold_anything() {
    for kind in KINDS {
        let (subject, mut random) = (subject(kind), Random::new(3));
        let len = subject.bytes.len();
        let files = (0..1500).map(|_| {
            let at = 8 * random.below(len as u64 / 8) as usize;
            let word = match random.below(5) {
                0 => 0,
                1 => u64::MAX,
                2 => random.below(len as u64),
                3 => 1 << random.below(64),
                _ => random.next_u64(),
            };
            let bytes = changed(&subject, |bytes| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes()));
            (format!("word {word:#x} at {at:#x}"), bytes, random.one_in(4))
        });
        judge_each(&subject, files);
    }
}

/// Lines that are zero, noise, or another line's.
#[test]
fn lines_and_pages_that_hold_anything() {
    for kind in KINDS {
        let (subject, mut random) = (subject(kind), Random::new(4));
        let len = subject.bytes.len() as u64;
        let files = (0..1000).map(|_| {
            let size = [64, 256, 1024][random.below(3) as usize];
            let at = (size * random.below(len / size)) as usize;
            let other = (size * random.below(len / size)) as usize;
            let manner = random.below(3);
            let what = format!("{size} bytes at {at:#x}, manner {manner}, {other:#x}");
            let bytes = changed(&subject, |bytes| match manner {
                0 => bytes[at..at + size as usize].fill(0),
                1 => bytes[at..at + size as usize].fill_with(|| random.next_u64() as u8),
                _ => bytes.copy_within(other..other + size as usize, at),
            });
            (what, bytes, random.one_in(4))
        });
        judge_each(&subject, files);
    }
}
