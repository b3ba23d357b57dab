//! Hazard: a file that is no map, or another map, is taken for this one. Each must be refused with
//! an error that names the reason.

use crate::support;

use crate::support::damage::{NAME, subject};
use crate::support::root_slot::{self, RootSlot};
use crate::support::{KINDS, Place, error_kind, quiet, value};
use perdura_map::{BTree, ErrorKind, Kind, List};
use perdura_pmem::sim::{Image, Random};
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

/// The errors of opening a file of these bytes: as whatever it is, as a list, and as a B+-tree.
fn errors(bytes: &[u8]) -> [Option<ErrorKind>; 3] {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(Image::from_files([(NAME, bytes)])));
    [
        error_kind(perdura_map::open(&medium, NAME, &quiet())),
        error_kind(List::open(&medium, NAME, &quiet())),
        error_kind(BTree::open(&medium, NAME, &quiet())),
    ]
}

#[test]
fn files_of_others_are_foreign() {
    let mut random = Random::new(1);
    let noise: Vec<u8> = (0..64 << 10).map(|_| random.next_u64() as u8).collect();
    let mut log = vec![0; 8192];
    log[..8].copy_from_slice(b"PERDURA\0");
    log[8..12].copy_from_slice(&1u32.to_le_bytes());
    let mut data = vec![0; 64 << 10];
    data[..8].copy_from_slice(b"PRDDATA1");
    let text = b"This is no map.".repeat(1000);
    let elf = [&b"\x7fELF\x02\x01\x01"[..], &[0; 9000]].concat();
    for bytes in [noise, log, data, text, elf, vec![0; 64 << 10], vec![0xff; 64 << 10]] {
        assert_eq!(errors(&bytes), [Some(ErrorKind::Foreign); 3], "{:?}", &bytes[..8]);
    }
}

#[test]
fn short_files_are_foreign_or_damaged() {
    for length in [0, 1, 7, 8, 63, 64, 100, 511, 512, 4095] {
        for byte in [0, 0xff, b'P'] {
            for error in errors(&vec![byte; length]) {
                assert!(matches!(error, Some(ErrorKind::Foreign | ErrorKind::Damaged)), "{length} bytes: {error:?}");
            }
        }
    }
}

#[test]
fn a_map_of_one_kind_is_foreign_to_the_other() {
    for kind in KINDS {
        let seen = errors(&subject(kind).bytes);
        let wanted = match kind {
            Kind::List => [None, None, Some(ErrorKind::Foreign)],
            Kind::BTree => [None, Some(ErrorKind::Foreign), None],
        };
        assert_eq!(seen, wanted, "{kind}");
    }
}

/// The subject's file with 4 bytes of its identity changed, and the checksum corrected
/// (docs/format.md).
fn forged(bytes: &[u8], at: usize, word: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn a_file_of_another_version_is_told_by_its_version() {
    for kind in KINDS {
        let subject = subject(kind);
        for version in [0, 1, 2, 3, 77, u32::MAX] {
            let own = forged(&subject.bytes, 8, version);
            assert_eq!(errors(&own)[0], Some(ErrorKind::Version), "{kind}, version {version}");
            let mut without_checksum = own;
            without_checksum[60..64].fill(0);
            assert_eq!(errors(&without_checksum)[0], Some(ErrorKind::Version), "another version's checksum is unknown");
        }
        assert_eq!(errors(&forged(&subject.bytes, 8, 4))[0], None, "{kind}: as it was");
    }
}

/// Wrong numbers under a correct checksum: none is relied on before it is checked.
#[test]
fn wrong_sizes_and_kinds_are_damage() {
    for kind in KINDS {
        let subject = subject(kind);
        let numbers = |at: usize, wrong: &[u32]| wrong.iter().map(|word| (at, *word)).collect::<Vec<_>>();
        let unknown_kinds = numbers(12, &[2, 77, u32::MAX]);
        let page_sizes =
            numbers(16, &[0, 1, 64, 128, 255, 257, 1024, 1000, 1024, 4096, 65_536, 1 << 17, 1 << 31, u32::MAX]);
        let branchings = numbers(20, &[0, 3, 65, u32::MAX]);
        let lengths = numbers(24, &[0, 4096, 32 << 20, u32::MAX]);
        for (at, word) in [unknown_kinds, page_sizes, branchings, lengths].concat() {
            let error = errors(&forged(&subject.bytes, at, word))[0];
            assert_eq!(error, Some(ErrorKind::Damaged), "{kind}: {word} at {at}");
        }
    }
}

/// A field of the root record changed, and the checksum corrected.
fn forged_root(bytes: &[u8], field: (u32, u32), value: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut root = RootSlot::newest(&bytes);
    root.set(field, value);
    root.put(&mut bytes);
    bytes
}

/// Found: a count of nodes that no file can hold overflowed when room for rolling back was
/// reckoned.
#[test]
fn counts_beyond_the_file_are_damage() {
    for kind in KINDS {
        let bytes = subject(kind).bytes;
        let pending = (root_slot::PENDING, "pending");
        let in_two_lines = [(root_slot::VERSIONS, "versions"), (root_slot::LIVE, "live"), (root_slot::NODES, "nodes")];
        let is_wide = RootSlot::newest(&bytes).is_wide();
        assert_eq!(is_wide, kind == Kind::BTree);
        let pending = if is_wide { pending } else { ((pending.0.0, 24), pending.1) };
        for (field, what) in [pending].into_iter().chain(in_two_lines.into_iter().filter(|_| is_wide)) {
            for value in [(1 << field.1) - 1, 1 << (field.1 - 1), bytes.len() as u64 + 1] {
                let error = errors(&forged_root(&bytes, field, value))[0];
                assert_eq!(error, Some(ErrorKind::Damaged), "{kind}: {what} {value}");
            }
        }
    }
}

/// A refused file stays as it is: it may belong to another program, or be repaired.
#[test]
fn a_refused_file_is_not_changed() {
    for kind in KINDS {
        let subject = subject(kind);
        let mut wrong = subject.bytes.clone();
        wrong[9] ^= 0x40;
        for bytes in [&b"someone else's".repeat(500)[..], &wrong] {
            let medium = Arc::new(SimMedium::from_image(Image::from_files([(NAME, bytes)])));
            let shared: Arc<dyn Medium> = medium.clone();
            let first = error_kind(perdura_map::open(&shared, NAME, &quiet()));
            assert!(first.is_some(), "{kind}");
            assert_eq!(error_kind(perdura_map::open(&shared, NAME, &quiet())), first);
            assert_eq!(medium.image().bytes_of(NAME).as_deref(), Some(bytes), "{kind}: the file was changed");
        }
    }
}

#[test]
fn a_file_that_was_cut_off_or_grew_is_refused() {
    for kind in KINDS {
        let subject = subject(kind);
        let whole = subject.bytes.len();
        for length in (0..whole).step_by(97).chain([whole - 1, whole - 8, whole - 64, whole - 256, whole / 2]) {
            let error = errors(&subject.bytes[..length])[0];
            assert!(matches!(error, Some(ErrorKind::Foreign | ErrorKind::Damaged)), "{kind}, {length}: {error:?}");
        }
        for more in [1, 64, 256, 100_000] {
            let error = errors(&[&subject.bytes[..], &vec![0; more]].concat())[0];
            assert!(matches!(error, None | Some(ErrorKind::Damaged)), "{kind}, {more} bytes more: {error:?}");
        }
    }
}

/// A file that was truncated on a real device must give an error too, not a fault of the process.
#[test]
fn a_file_cut_off_on_a_device_is_refused() {
    for kind in KINDS {
        let place = Place::in_files(kind);
        let map = place.create("map");
        map.set(1, b"key", b"value").expect("there is room");
        map.persist().expect("persisted");
        drop(map);
        let directory = place.medium.info().directory.expect("files have a directory");
        let path = directory.join("map");
        let whole = std::fs::metadata(&path).expect("it exists").len();
        for length in [whole - 4096, whole / 2, 4096, 100, 0] {
            std::fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(length)).expect("cut off");
            let error = error_kind(perdura_map::open(&place.medium, "map", &quiet()));
            assert!(matches!(error, Some(ErrorKind::Foreign | ErrorKind::Damaged)), "{kind}, {length}: {error:?}");
        }
        std::fs::remove_file(&path).expect("it exists");
        let map = place.create("map");
        map.set(1, b"key", b"value").expect("there is room");
        assert_eq!(value(&*map, b"key", 1), Some(b"value".to_vec()));
    }
}

/// Files left by a failed attempt to create a map do not hinder the next one.
#[test]
fn what_is_left_of_an_attempt_is_replaced() {
    for kind in KINDS {
        let place = Place::simulated(kind);
        place.medium.create("map.new", 3 << 20).expect("there is room").store(0, 77);
        let map = place.create("map");
        map.set(1, b"key", b"value").expect("there is room");
        map.persist().expect("persisted");
        drop(map);
        assert_eq!(value(&*place.open("map"), b"key", 1), Some(b"value".to_vec()));
        let names: Vec<String> = place.medium.list().expect("it lists").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["map"], "{kind}");
    }
}

/// A medium that refuses to sync: no map appears that a power failure could take away.
#[test]
fn a_medium_that_does_not_sync_makes_no_map() {
    for kind in KINDS {
        let medium = Arc::new(SimMedium::new());
        let shared: Arc<dyn Medium> = medium.clone();
        medium.fail_syncs(true);
        let made = support::create(&shared, "map", kind, &support::layout(kind, 1 << 20), &quiet());
        assert_eq!(error_kind(made), Some(ErrorKind::Medium), "{kind}");
        medium.fail_syncs(false);
        let made = support::create(&shared, "map", kind, &support::layout(kind, 1 << 20), &quiet());
        made.unwrap_or_else(|error| panic!("{kind}: {error}"));
    }
}
