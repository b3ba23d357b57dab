//! Golden bytes of the encoders of format version 1. They were taken before the layouts became
//! structures, so these tests tell a structure that moves a field or swaps two.

use crate::format::{Header, Kind, TXID_MAX, prepare_body};
use crate::group::{Place, Sink, Staged};
use crate::scan::scan;
use crate::superblock::{COPIES, COPY_BYTES, GenerationEntry, Superblock};
use perdura_pmem::{Medium, SimMedium};

/// [`superblock`], 32 bytes a line.
const SUPERBLOCK: [&str; 10] = [
    "50455244555241000100000003000000101112131415161718191a1b1c1d1e1f",
    "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f",
    "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f",
    "60616263646566670400000000000000000010000000000078797a7b7c7d7e7f",
    "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
    "00000000000000000000000000000000000000000000000000000000ccf8b7d5",
    "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf00000000000000000000000000000000",
    "e0e1e2e3e4e5e6e7e8e9eaebecedeeef00000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
];

/// A PREPARE and a COMMIT_PREPARED group in lane 5, from offset 128 on.
const GROUPS: [&str; 4] = [
    "5f25f25d3400000000000000000000001113161b0435408003191a1b1c1d1e1f",
    "060000000000000061206e616d6500007265646f000000000000000000000000",
    "aaf134552400000008090a0b0c0d0e0f1113161b0435569704191a1b1c1d1e1f",
    "7265646f00000000000000000000000000000000000000000000000000000000",
];

fn hex(bytes: &[u8]) -> Vec<String> {
    bytes.chunks(32).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect()).collect()
}

/// The word whose bytes, as they lie in the file, are `first`, `first` + 1 and so on.
fn ascending(first: u8) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| first + index as u8))
}

/// Each byte that can have any value is its offset.
fn superblock() -> Superblock {
    Superblock {
        sequence: ascending(16),
        pool: std::array::from_fn(|index| 24 + index as u8),
        geometry: std::array::from_fn(|index| ascending(40 + 8 * index as u8)),
        lanes: 4,
        lane_bytes: 1 << 20,
        epoch: ascending(120),
        horizon: ascending(128),
        checkpoint_csn: ascending(136),
        txid_limit: ascending(144),
        activation_next: ascending(152),
        device: None,
        generations: vec![
            GenerationEntry { activation: ascending(192), salt: ascending(200) },
            GenerationEntry { activation: ascending(224), salt: ascending(232) },
            GenerationEntry::FREE,
        ],
    }
}

#[test]
fn the_superblock_is_written_as_ever() {
    let bytes = superblock().encode();
    assert_eq!(hex(&bytes), SUPERBLOCK);
    let mut file = vec![0; (COPIES * COPY_BYTES) as usize];
    file[COPY_BYTES as usize..][..bytes.len()].copy_from_slice(&bytes);
    assert_eq!(Superblock::decode("super", &file).expect("valid"), (superblock(), 1));
}

#[test]
fn groups_are_written_as_ever() {
    let salt = 0x8040_2010_0804_0201;
    let medium = SimMedium::new();
    let region = medium.create("lane", 256).expect("room");
    let header = Header {
        length: 0,
        csn: 0,
        txid: 0x1514_1312_1110,
        lag: 0,
        kind: Kind::Prepare,
        chunks: 0x1b_1a19,
        chained: 0x1f1e_1d1c,
    };
    let commit = Header { csn: ascending(8), lag: 0x1716, kind: Kind::CommitPrepared, ..header };
    let mut written = Vec::new();
    for (offset, header, body) in [(128, header, prepare_body(b"a name", b"redo")), (192, commit, b"redo".to_vec())] {
        let staged = Staged::new(Place { region: &region, salt, lane: 5, offset, sink: Sink::PastCache }, &body);
        let header = Header { length: staged.length(), ..header };
        staged.seal(&header);
        written.push((offset, header));
    }
    let mut bytes = [0; 256];
    region.read(0, &mut bytes);
    assert_eq!(hex(&bytes[128..]), GROUPS);
    let mut found = Vec::new();
    scan(&bytes, salt, 5, TXID_MAX, |offset, header| found.push((offset, *header)));
    assert_eq!(found, written);
}
