//! Hazard: a map goes on after its last confirmation number, and the next start calls it damaged.

mod support;

use perdura_map::ErrorKind;
use perdura_pmem::sim::Image;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;
use support::{KINDS, NEWEST, create, layout, quiet_every, refused, value};

const NUMBER_BITS: u32 = 48;

/// A checksum of the format: CRC32C from a start value made of salt and place.
fn sum(salt: u64, place: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(((salt ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32, bytes)
}

/// The bytes of a map's file as they are after so many confirmations.
fn aged(bytes: &[u8], number: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let salt = word(&bytes, 32);
    let old = word(&bytes, 64) & ((1 << NUMBER_BITS) - 1);
    let slot = |number: u64| 128 + (number as usize & 1) * 2176;
    let mut record = bytes[slot(old)..slot(old) + 128].to_vec();
    record[..8].copy_from_slice(&number.to_le_bytes());
    let crc = sum(salt, 0, &record[..120]);
    record[120..].copy_from_slice(&u64::from(crc).to_le_bytes());
    bytes[slot(number)..slot(number) + 128].copy_from_slice(&record);
    let check = (number ^ salt ^ u64::MAX).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> NUMBER_BITS;
    bytes[64..72].copy_from_slice(&(number | check.max(1) << NUMBER_BITS).to_le_bytes());
    bytes
}

#[test]
fn a_map_stops_before_its_numbers_are_used_up() {
    for kind in KINDS {
        let medium = Arc::new(SimMedium::new());
        let shared: Arc<dyn Medium> = medium.clone();
        let map = create(&shared, "map", kind, &layout(kind, 256 << 10), &quiet_every(1)).expect("there is room");
        map.set(1, b"key", b"value").expect("there is room");
        drop(map);
        let bytes = aged(&medium.image().bytes_of("map").expect("it exists"), (1 << NUMBER_BITS) - (1 << 20) - 10);
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(Image::from_files([("map", &bytes[..])])));
        let mut changes = 0;
        for _ in 0..2 {
            let map = perdura_map::open(&medium, "map", &quiet_every(1)).expect("it opens");
            while let Ok(()) = map.set(2 + changes, b"key", b"later") {
                changes += 1;
                assert!(changes < 100, "{kind}: it never stops");
            }
            refused(map.set(1000, b"key", b"later"), ErrorKind::ReadOnly);
            assert_eq!(value(&*map, b"key", NEWEST), Some(b"later".to_vec()), "{kind}: it can be read");
            map.confirm().expect("nothing is left");
        }
        assert!(changes > 0, "{kind}");
    }
}
