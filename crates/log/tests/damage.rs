//! Damaged pools: each kind of damage is told apart, nothing panics or hangs, and no acknowledged
//! commit is lost silently. Tests (I6).

use crate::support::{commit, damage, found, opened, recover, settle, tiny};
use perdura_log::{Error, ErrorKind, Recovery};
use perdura_pmem::Medium;
use perdura_pmem::sim::{Image, Random, SimMedium};
use proptest::prelude::*;
use std::sync::Arc;

fn open_error(medium: &Arc<dyn Medium>) -> Error {
    Recovery::open(medium.clone(), &tiny(2, 4)).err().expect("it is damaged")
}

/// The kind of the medium's error that the log passed on or met.
fn medium_kind(error: &Error) -> Option<perdura_pmem::ErrorKind> {
    let source = std::error::Error::source(error)?;
    Some(source.downcast_ref::<perdura_pmem::Error>()?.kind())
}

#[test]
fn missing_and_truncated_files_are_named() {
    let (medium, log) = opened(&tiny(2, 4));
    commit(&log, 0, b"x");
    medium.remove("log.001.01").expect("it exists");
    let error = open_error(&medium);
    assert_eq!((error.kind(), error.file()), (ErrorKind::Damaged, Some("log.001.01")), "{error}");
    assert_eq!(medium_kind(&error), Some(perdura_pmem::ErrorKind::NotFound), "what the medium said is the source");
    medium.create("log.001.01", 4000).expect("room");
    let error = open_error(&medium);
    assert_eq!((error.kind(), error.file()), (ErrorKind::Damaged, Some("log.001.01")), "{error}");
    assert_eq!(error.offset(), Some(4000));
    medium.remove("log.001.01").expect("it exists");
    medium.create("log.001.01", 8192).expect("room");
    assert_eq!(open_error(&medium).offset(), Some(4096));
    medium.remove("super").expect("it exists");
    assert_eq!(medium_kind(&open_error(&medium)), Some(perdura_pmem::ErrorKind::NotFound));
    medium.create("super", 100).expect("room");
    assert_eq!((open_error(&medium).kind(), open_error(&medium).offset()), (ErrorKind::Damaged, Some(100)));
    medium.remove("super").expect("it exists");
    medium.create("super", 8192).expect("room");
    let error = open_error(&medium);
    assert_eq!((error.kind(), error.file(), error.offset()), (ErrorKind::NotAPool, Some("super"), Some(0)), "{error}");
    assert!(error.to_string().contains("restore"), "{error}");
}

#[test]
fn either_copy_of_the_superblock_is_enough() {
    let config = tiny(2, 4);
    for copy in 0..2 {
        let (medium, log) = opened(&config);
        for n in 0..300 {
            commit(&log, n, &n.to_le_bytes());
        }
        damage(&medium, "super", copy * 4096 + 128, |bytes| bytes[3] ^= 0x10);
        let (log, _) = recover(&medium, &config).expect("the other copy counts");
        assert_eq!(log.last_csn(), 300);
    }
}

/// Every bit of every record: a flip voids that record. If later ones prove that it was
/// acknowledged, that is an error; if it was the last, it looks like one that was never finished.
#[test]
fn a_flipped_bit_never_loses_an_acknowledged_commit_silently() {
    let config = tiny(1, 2);
    let (medium, log) = opened(&config);
    for n in 0..6u8 {
        commit(&log, 0, &vec![n; usize::from(n) * 20]);
    }
    let region = medium.open("log.000.00").expect("it exists");
    let mut starts = Vec::new();
    let mut at = 0;
    while region.load(at) != 0 {
        starts.push(at);
        at += (region.load(at) >> 32).next_multiple_of(64);
    }
    assert_eq!(starts.len(), 6);
    for (n, start) in starts.iter().enumerate() {
        for bit in 0..(32 + n as u64 * 20) * 8 {
            let flip = |bytes: &mut [u8; 8]| bytes[bit as usize % 64 / 8] ^= 1 << (bit % 8);
            let word = start + bit / 64 * 8;
            damage(&medium, "log.000.00", word, flip);
            let recovery = Recovery::open(medium.clone(), &config);
            match recovery {
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    assert!(error.to_string().contains(&format!("commit {} ", n + 1)), "{error}");
                }
                Ok(recovery) => assert_eq!((n, recovery.horizon), (5, 5), "only the last may go"),
                Err(error) => panic!("{error}"),
            }
            let recovery = Recovery::open_accepting_loss(medium.clone(), &config).expect("accepted");
            assert_eq!(recovery.horizon, n as u64);
            damage(&medium, "log.000.00", word, flip);
        }
    }
    assert_eq!(Recovery::open(medium, &config).expect("whole again").horizon, 6);
}

/// Two valid records with one CSN cannot be; nothing is guessed.
#[test]
fn a_csn_given_twice_is_refused() {
    let config = tiny(1, 3);
    let (medium, log) = opened(&config);
    let csn = commit(&log, 0, b"x");
    drop(log);
    let salt = Recovery::open(medium.clone(), &config).expect("it recovers").superblock.generations[0].salt;
    let region = medium.open("log.000.00").expect("it exists");
    region.write(64, &forge(salt, 64, csn));
    let error = open_error(&medium);
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Damaged, Some(64)), "{error}");
}

/// A valid commit group without body in lane 0.
fn forge(salt: u64, offset: u64, csn: u64) -> [u8; 32] {
    let mut group = [0; 32];
    group[4..8].copy_from_slice(&32u32.to_le_bytes());
    group[8..16].copy_from_slice(&csn.to_le_bytes());
    group[16..24].copy_from_slice(&(salt ^ (77 | 1 << 48)).to_le_bytes());
    group[24] = 1;
    let mut sealed = salt.to_le_bytes().to_vec();
    sealed.extend_from_slice(&offset.to_le_bytes());
    sealed.extend_from_slice(&group[4..]);
    group[..4].copy_from_slice(&crc32c::crc32c(&sealed).to_le_bytes());
    group
}

/// Structured fuzzing of all that recovery reads: a pool with every kind of record, damaged in
/// every way there is.
#[test]
fn fuzzed_pools_open_or_say_why_not() {
    let config = tiny(2, 3);
    let (medium, log) = opened(&config);
    let mut waits = log.begin(0);
    waits.append_chunk(&[9; 100]).expect("room");
    waits.prepare(b"waits", b"redo").expect("room");
    for n in 0..40u64 {
        let mut txn = log.begin(n);
        if n % 3 == 0 {
            txn.append_chunk(&[n as u8; 150]).expect("room");
        }
        if n % 4 == 0 {
            txn.prepare(&n.to_le_bytes(), b"redo").expect("room");
            if n % 8 == 0 { settle(&log, txn.commit_prepared()) } else { txn.rollback().expect("written") }
        } else {
            let reservation = txn.reserve(30).expect("room");
            settle(&log, txn.commit(reservation, &[n as u8; 30]));
        }
    }
    drop(log);
    let names: Vec<(String, u64)> = medium.list().expect("listed");
    let files: Vec<(&str, Vec<u8>)> = names
        .iter()
        .map(|(name, len)| {
            let mut bytes = vec![0; *len as usize];
            medium.open(name).expect("it exists").read(0, &mut bytes);
            (name.as_str(), bytes)
        })
        .collect();
    let mut random = Random::new(11);
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut damaged = files.clone();
        for _ in 0..=random.below(4) {
            let file = random.below(damaged.len() as u64) as usize;
            break_bytes(&mut damaged[file].1, &mut random);
        }
        let image = Image::from_files(damaged.iter().map(|(name, bytes)| (*name, &bytes[..])));
        let copy: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image));
        match Recovery::open_accepting_loss(copy.clone(), &config) {
            Ok(recovery) => {
                opened += 1;
                found(&recovery);
                let (log, prepared) = recovery.finish(&mut || random.next_u64()).expect("what opens goes on");
                for one in prepared {
                    one.log.rollback().expect("written");
                }
                let before = log.last_csn();
                commit(&log, 0, b"works");
                let again = Recovery::open(copy, &config).expect("sound again");
                assert_eq!(again.horizon, before + 1);
            }
            Err(error) => {
                refused += 1;
                assert!(matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotAPool), "{error}");
            }
        }
    }
    assert!(opened > 10_000 && refused > 100, "{opened} opened, {refused} refused");
}

fn break_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    let len = bytes.len() as u64;
    let at = random.below(len) as usize;
    let line = at / 64 * 64;
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.next_u64() as u8,
        2 => bytes[at / 8 * 8..][..8].copy_from_slice(&random.next_u64().to_le_bytes()),
        3 => bytes[line..].iter_mut().take(random.below(700) as usize).for_each(|byte| *byte = 0xff),
        4 => bytes[line..line + 64].fill(0),
        // A line from elsewhere, such as a record out of its place.
        5 => {
            let source = random.below(len) as usize / 64 * 64;
            bytes.copy_within(source..source + 64, line);
        }
        // A plausible length.
        6 => bytes[line + 4..line + 8].copy_from_slice(&(random.below(5000) as u32).to_le_bytes()),
        _ => {
            if random.one_in(40) {
                bytes.truncate(at);
            } else {
                bytes[line + 24] = random.below(7) as u8;
            }
        }
    }
}

/// Old or hostile bytes in which every granule looks like a header of a long group are told apart
/// without summing up the rest of the lane for each.
#[test]
fn plausible_headers_do_not_make_the_scan_slow() {
    let mut bytes = vec![0; 16 << 20];
    for at in (0..bytes.len()).step_by(64) {
        let length = (bytes.len() - at) as u32;
        bytes[at + 4..at + 8].copy_from_slice(&length.to_le_bytes());
        bytes[at + 16] = 5;
        bytes[at + 24] = 2;
    }
    let mut groups = 0;
    perdura_log::scan(&bytes, 0x9e37_79b9_7f4a_7c15, 0, 1 << 21, |_, _| groups += 1);
    assert_eq!(groups, 0);
}

proptest! {
    /// Whatever lies in a lane, the scan ends, stays inside, and reports ascending groups.
    #[test]
    fn any_bytes_can_be_scanned(bytes in proptest::collection::vec(any::<u8>(), 0..3000), salt: u64, lane in 0u32..64) {
        let mut next = 0;
        perdura_log::scan(&bytes, salt, lane, 1 << 48, |offset, header| {
            assert!(offset >= next && offset % 64 == 0);
            next = offset + u64::from(header.length);
            assert!(next <= bytes.len() as u64);
        });
    }
}
