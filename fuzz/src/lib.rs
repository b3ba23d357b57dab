//! Bodies of the engine's fuzz targets: put input into a file of a pool that has every structure,
//! then open and use the pool. Those of the ordered maps are in [`map`], those of the medium below
//! in [`medium`], those of perdura-kv in [`kv`].
//!
//! The input is XORed onto a sound structure, so that the empty input is sound and mutations stay
//! close to what recovery expects. `crates/engine/tests/bit_flips.rs`, `bad_files.rs` and
//! `forged.rs` run the same hazards, seeded, in every `make test`.

#[path = "../../crates/engine/tests/common/mod.rs"]
mod common;
pub mod kv;
pub mod map;
pub mod medium;

use common::damage::{Subject, subject};
use common::{keyed, row_bytes, small, try_rows, values};
use perdura_engine::check::check;
use perdura_engine::format::{Record, SegmentKind, VERSION_HEADER, VersionHeader};
use perdura_engine::{Config, Engine, Isolation};
use perdura_log::{LogConfig, Recovery};
use perdura_pmem::sim::Image;
use perdura_pmem::{Medium, Region, SimMedium};
use std::sync::{Arc, OnceLock};

const FILE: &str = "t.00000002.00000";
const TABLE: u64 = 2;
const DESCRIPTORS_AT: u64 = 128;
const SEGMENTS_AT: u64 = 4096;
const SEGMENT_BYTES: u64 = 4096;

/// The pool that every run begins with: crashed, with records to redo.
fn base() -> &'static Subject {
    static BASE: OnceLock<Subject> = OnceLock::new();
    BASE.get_or_init(|| subject(false))
}

fn medium() -> (Arc<dyn Medium>, Region) {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(base().image.clone()));
    let region = medium.open(FILE).expect("the pool has it");
    (medium, region)
}

/// XORs `data` onto the bytes from `at` on, as far as they go.
fn xor(region: &Region, at: u64, data: &[u8]) {
    let mut bytes = vec![0; data.len().min((region.len() - at) as usize)];
    region.read(at, &mut bytes);
    bytes.iter_mut().zip(data).for_each(|(byte, change)| *byte ^= change);
    region.write(at, &bytes);
}

/// Numbers of the segments whose kind `wanted` accepts.
fn segments(region: &Region, wanted: fn(SegmentKind) -> bool) -> Vec<u64> {
    let count = (region.len() - SEGMENTS_AT) / SEGMENT_BYTES;
    let kind = |index: &u64| SegmentKind::decode(region.load(DESCRIPTORS_AT + index * 8), TABLE << 32 ^ index);
    (0..count).filter(|index| kind(index).is_some_and(wanted)).collect()
}

/// Takes a place below `bound` from the first two bytes of the input. Returns it and the rest.
fn place(data: &[u8], bound: u64) -> (u64, &[u8]) {
    match data.split_first_chunk::<2>() {
        Some((place, rest)) => (u64::from(u16::from_le_bytes(*place)) % bound, rest),
        None => (0, &[]),
    }
}

/// Checks, opens and uses a pool. Errors are as good as rows; panics are not.
fn open_and_use(medium: Arc<dyn Medium>) {
    open_and_use_as(medium, small());
}

fn open_and_use_as(medium: Arc<dyn Medium>, config: Config) {
    let _ = check(medium.clone(), &mut |_, _| ());
    let Ok(engine) = Engine::open(medium, config) else { return };
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.set_lock_wait_timeout(std::time::Duration::ZERO);
    for table in engine.tables().into_iter().flatten() {
        for (number, (rid, _)) in try_rows(&mut txn, &table).unwrap_or_default().into_iter().enumerate() {
            let _ = if number % 2 == 0 { txn.update(&table, rid, &row_bytes(7)) } else { txn.delete(&table, rid) };
        }
        for number in 0..80 {
            let _ = txn.insert(&table, &row_bytes(number));
        }
    }
    let _ = txn.commit();
    drop(txn);
    for name in engine.prepared() {
        let _ = engine.commit_prepared(&name);
    }
    let _ = (engine.create_table("new", b""), engine.sweep(), engine.checkpoint(), engine.drop_table("small"));
    engine.close();
}

/// Header, link word and segment descriptors of a data file. If the first byte is odd, the header's
/// checksum is corrected.
pub fn header(data: &[u8]) {
    let (medium, region) = medium();
    if let Some((mend, data)) = data.split_first() {
        xor(&region, 0, data);
        if mend % 2 == 1 {
            let mut bytes = [0; 56];
            region.read(0, &mut bytes);
            region.write(56, &crc32c::crc32c(&bytes).to_le_bytes());
        }
    }
    open_and_use(medium);
}

/// Page states and words of a directory segment.
pub fn directory(data: &[u8]) {
    let (medium, region) = medium();
    let segment = segments(&region, |kind| matches!(kind, SegmentKind::Directory(_)))[0];
    let (at, data) = place(data, 1000);
    xor(&region, SEGMENTS_AT + segment * SEGMENT_BYTES + at, data);
    open_and_use(medium);
}

/// A version anywhere in a segment of cells. If the place is even, the checksum of what lies there
/// is corrected.
pub fn version(data: &[u8]) {
    let (medium, region) = medium();
    let cells = segments(&region, |kind| matches!(kind, SegmentKind::Cells(_)));
    let (at, data) = place(data, cells.len() as u64 * SEGMENT_BYTES / 16);
    let offset = SEGMENTS_AT + cells[(at * 16 / SEGMENT_BYTES) as usize] * SEGMENT_BYTES + at * 16 % SEGMENT_BYTES;
    xor(&region, offset, data);
    let word = |at: u64| if offset + at < region.len() { region.load(offset + at) } else { 0 };
    let header = VersionHeader::decode(word(0), word(8));
    if at % 2 == 0 && offset + VERSION_HEADER + u64::from(header.len) <= region.len() {
        let mut row = vec![0; header.len as usize];
        region.read(offset + VERSION_HEADER, &mut row);
        region.write(offset + VERSION_HEADER - 4, &header.checksum(&row).to_le_bytes());
    }
    open_and_use(medium);
}

/// Redo records, in a commit or a prepared transaction that the log itself wrote.
pub fn log_record(data: &[u8]) {
    let (medium, region) = medium();
    drop(region);
    let bodies = data.chunks(97).filter_map(|body| body.split_first());
    log(&medium, &small().log, bodies.map(|(kind, body)| (*kind, body.to_vec())));
    open_and_use(medium);
}

/// Redo records by value, in a commit or a prepared transaction that the log itself wrote: the
/// input is XORed onto real ones.
pub fn log_value(data: &[u8]) {
    static BASE: OnceLock<(Image, Vec<Record>)> = OnceLock::new();
    let (image, real) = BASE.get_or_init(|| {
        let (image, real, _) = values::crashed();
        let redone = Arc::new(SimMedium::from_image(image));
        values::open(&redone, true).close();
        (redone.image(), real)
    });
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image.clone()));
    let config = values::by_value(keyed::config());
    let bodies = data.chunks(97).filter_map(|body| {
        let ([kind, number], changes) = body.split_first_chunk::<2>()?;
        let mut body = Vec::new();
        real[usize::from(*number) % real.len()].encode(&mut body);
        body.iter_mut().zip(changes).for_each(|(byte, change)| *byte ^= change);
        Some((*kind, body))
    });
    log(&medium, &config.log, bodies);
    open_and_use_as(medium, config);
}

/// Recovers the log and writes groups with these bodies: prepared transactions where the kind is a
/// multiple of four, otherwise commits.
fn log(medium: &Arc<dyn Medium>, config: &LogConfig, bodies: impl Iterator<Item = (u8, Vec<u8>)>) {
    let Ok(recovery) = Recovery::open(medium.clone(), config) else { return };
    let Ok((log, prepared)) = recovery.finish(&mut || 7) else { return };
    for (number, (kind, body)) in bodies.enumerate() {
        let mut txn = log.begin(number as u64);
        if kind % 4 == 0 {
            let _ = txn.prepare(&[number as u8], &body);
        } else if let Ok(reservation) = txn.reserve(body.len()) {
            let csn = txn.commit(reservation, &body);
            log.publish(csn);
            log.stored(csn);
        }
    }
    drop((log, prepared));
}
