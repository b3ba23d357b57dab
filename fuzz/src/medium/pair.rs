//! The files `pair` of a pool's two directories.

use super::input::Input;
use super::{directory, open};
use perdura_pmem::{ErrorKind, SplitMedium};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const PAIR: &str = "pair";
const LOG: u64 = 1;
const DATA: u64 = 2;

/// Magic, the pool's id, the epoch, the half, and their checksum.
fn base(half: u64) -> Vec<u8> {
    let mut bytes = [u64::from_le_bytes(*b"PRDPAIR1"), 3, 4, 5, half, 0, 0, 0].map(u64::to_le_bytes).concat();
    mend(&mut bytes);
    bytes
}

fn mend(bytes: &mut [u8]) {
    let sum = u64::from(crc32c::crc32c(&bytes[..40]));
    bytes[40..48].copy_from_slice(&sum.to_le_bytes());
}

/// Id and epoch, if the bytes are a file of that half.
fn decode(bytes: &[u8], half: u64) -> Option<([u64; 2], u64)> {
    let word = |index: usize| u64::from_le_bytes(bytes[index * 8..][..8].try_into().expect("eight bytes"));
    let is_sound = &bytes[..8] == b"PRDPAIR1" && word(5) == u64::from(crc32c::crc32c(&bytes[..40])) && word(4) == half;
    is_sound.then(|| ([word(1), word(2)], word(3)))
}

fn read(directory: &Path, half: u64) -> Option<([u64; 2], u64)> {
    decode(&fs::read(directory.join(PAIR)).expect("it is there"), half)
}

/// Joins two directories whose files the input has changed: only if they are of one pool and one
/// time. If the first byte is odd, checksums are right.
pub fn pair(data: &[u8]) {
    let mut input = Input(data);
    let mends = input.u8() % 2 == 1;
    let mut files = [base(LOG), base(DATA)];
    while !input.is_over() {
        let at = input.below(2) as usize;
        input.change(&mut files[at]);
    }
    if mends {
        files.iter_mut().for_each(|bytes| mend(bytes));
    }
    let (log, directory) = (directory(), directory());
    for (place, bytes, other) in [(&log, &files[0], "super"), (&directory, &files[1], "t.1")] {
        fs::write(place.path().join(PAIR), bytes).expect("there is room");
        fs::write(place.path().join(other), b"the pool's").expect("there is room");
    }
    let found = (decode(&files[0], LOG), decode(&files[1], DATA));
    let belongs = match found {
        (Some((of_log, newer)), Some((of_data, epoch))) => {
            of_log == of_data && (newer == epoch || Some(newer) == epoch.checked_add(1))
        }
        _ => false,
    };
    for half in [&log, &directory] {
        assert!(SplitMedium::refuse_half(half.path()).is_err(), "a half passes for a whole");
    }
    let seen = SplitMedium::open_to_read(log.path(), directory.path()).map(drop);
    assert_eq!(seen.is_ok(), belongs, "{:?}", seen.err());
    let of_log = Arc::new(open(log.path()).expect("it opens"));
    let joined = SplitMedium::join(of_log, directory.path(), || open(directory.path())).map(drop);
    match joined {
        Ok(()) => {
            let raised = found.0.map(|(id, epoch)| (id, epoch.wrapping_add(1)));
            assert!(belongs && read(log.path(), LOG) == raised && read(directory.path(), DATA) == raised);
        }
        Err(error) => {
            assert!(!belongs, "{error}");
            assert!(matches!(error.kind(), ErrorKind::Mismatch | ErrorKind::Poisoned), "{:?}: {error}", error.kind());
            assert!(fs::read(log.path().join(PAIR)).expect("it is there") == files[0], "nothing is written before");
        }
    }
}
