//! Hazard: records and rows with right checksums and wrong content, from a faulty build or an
//! attacker, make recovery or the check panic, hang, or write outside a table. They must be
//! refused, or taken at their word (I6).

use crate::common::damage::{is_told, log_records, subject};
use crate::common::{row_bytes, seeds, small, try_rows};
use perdura_engine::check::check;
use perdura_engine::format::{Record, Rid, SegmentKind, UNIT_BYTES, VERSION_HEADER, VersionHeader, Word};
use perdura_engine::{Engine, Isolation};
use perdura_log::Recovery;
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, Region, SimMedium};
use std::sync::Arc;

const SEGMENTS_AT: u64 = 4096;
const SEGMENT_BYTES: u64 = 4096;

/// Makes a record: an arbitrary one, a real one, or a real one changed a little.
fn record<'v>(random: &mut Random, real: &[Record<'v>]) -> Record<'v> {
    let any = if random.one_in(8) { u64::MAX >> random.below(40) } else { random.next_u64() };
    let near = random.below(300);
    let page = if random.one_in(3) { any } else { random.below(40) };
    let row = if random.one_in(6) { any } else { near };
    let word = match random.below(3) {
        0 => Word(any),
        1 => Word(near * 64),
        _ => Word::new(random.below(3) as u32, SEGMENTS_AT + near * UNIT_BYTES, 0),
    };
    let table = random.below(6) as u32;
    match random.below(5) {
        4 => Record::Leaf {
            table,
            place: word,
            inserted: any,
            deleted: near,
            crc: any as u32,
            values: Vec::new().into(),
        },
        0 => {
            Record::Page { table, page, rows: if random.one_in(3) { any as u32 } else { near as u32 }, crc: any as u32 }
        }
        1 => Record::Row { table, rid: Rid::from_u64(row), word, crc: any as u32, value: None },
        // A real record, perhaps changed a little.
        _ => match real[random.below(real.len() as u64) as usize].clone() {
            Record::Row { table, rid, word, crc, value } => match random.below(4) {
                0 => Record::Row { table: random.below(6) as u32, rid, word, crc, value },
                1 => Record::Row { table, rid: Rid::from_u64(row), word, crc, value },
                2 => Record::Row { table, rid, word: word.tombstone(), crc, value },
                _ => Record::Row { table, rid, word, crc, value },
            },
            Record::Page { table, page: real, crc, .. } => {
                let page = if random.one_in(2) { page } else { real };
                Record::Page { table, page, rows: near as u32, crc }
            }
            Record::Deleted { table, rows, crc, .. } => Record::Deleted { table, page, rows, crc },
            Record::Spilled { table, rows, place, crc, .. } => Record::Spilled { table, page, rows, place, crc },
            Record::Leaf { table, place, inserted, deleted, crc, values } => {
                let place = if random.one_in(2) { word } else { place };
                Record::Leaf { table, place, inserted: inserted ^ 1 << random.below(64), deleted, crc, values }
            }
            Record::Delta { table, page: real, mut rows, crc } => {
                let page = if random.one_in(2) { page } else { real };
                let index = random.below(rows.len() as u64) as usize;
                match random.below(3) {
                    0 => rows.truncate(index),
                    1 => rows[index].1 = word,
                    _ => {
                        if let Some(last) = rows.last_mut() {
                            last.0 = u16::MAX - near as u16;
                        }
                    }
                }
                Record::Delta { table, page, rows, crc }
            }
        },
    }
}

/// Checks, opens and uses a pool. Errors must say what is wrong. Returns whether the pool opened.
fn open_and_use(medium: Arc<dyn Medium>, hint: &str) -> bool {
    let opened = open_and_close(medium.clone(), hint);
    assert_eq!(Arc::strong_count(&medium), 1, "{hint}: the medium is still held");
    opened
}

fn open_and_close(medium: Arc<dyn Medium>, hint: &str) -> bool {
    if let Err(error) = check(medium.clone(), &mut |_, _| ()) {
        is_told(&error, hint);
    }
    match Engine::open(medium, small()) {
        Err(error) => {
            is_told(&error, hint);
            false
        }
        Ok(engine) => {
            let mut txn = engine.session(Isolation::ReadCommitted);
            for name in engine.table_names() {
                let table = match engine.table(&name) {
                    Ok(table) => table,
                    Err(error) => {
                        is_told(&error, hint);
                        continue;
                    }
                };
                let _ = try_rows(&mut txn, &table);
                for number in 0..80 {
                    let _ = txn.insert(&table, &row_bytes(number));
                }
            }
            let _ = txn.commit();
            drop(txn);
            let _ = (engine.create_table("new", b""), engine.sweep(), engine.checkpoint());
            true
        }
    }
}

#[test]
fn forged_log_records() {
    let subject = subject(false);
    let (mut opened, mut refused) = (0, 0);
    let real = log_records(&subject.image, &small().log);
    assert!(real.len() > 20);
    for seed in seeds(1500) {
        let mut random = Random::new(seed);
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(subject.image.clone()));
        // Recovering the log alone voids its records, so the engine redoes them into the tables
        // first.
        Engine::open(medium.clone(), small()).unwrap().close();
        let recovery = Recovery::open(medium.clone(), &small().log).unwrap();
        let (log, _prepared) = recovery.finish(&mut || 7).unwrap();
        for n in 0..=random.below(3) {
            let mut body = Vec::new();
            for _ in 0..=random.below(3) {
                record(&mut random, &real).encode(&mut body);
            }
            if random.one_in(12) {
                body.truncate(random.below(body.len() as u64) as usize);
            }
            let mut txn = log.begin(n);
            if random.one_in(4) {
                txn.prepare(b"forged", &body).unwrap();
            } else {
                let reservation = txn.reserve(body.len()).unwrap();
                let csn = txn.commit(reservation, &body);
                log.publish(csn);
                log.stored(csn);
            }
        }
        drop((log, _prepared));
        if open_and_use(medium, &format!("seed {seed}")) { opened += 1 } else { refused += 1 }
    }
    assert!(opened > 50 && refused > 500, "{opened} opened, {refused} refused");
}

#[test]
fn forged_catalog_rows() {
    let subject = subject(true);
    let (mut opened, mut refused) = (0, 0);
    for seed in seeds(1000) {
        let mut random = Random::new(seed);
        let medium = SimMedium::from_image(subject.image.clone());
        let region = medium.open("t.00000001.00000").unwrap();
        let entries = versions(&region);
        let (at, room) = entries[random.below(entries.len() as u64) as usize];
        forge_row(&region, at, room, &mut random);
        drop(region);
        if open_and_use(Arc::new(medium), &format!("seed {seed}")) { opened += 1 } else { refused += 1 }
    }
    assert!(opened > 50 && refused > 50, "{opened} opened, {refused} refused");
}

/// Offsets of the versions that the catalog's directory names, with the sizes of their cells in
/// bytes.
fn versions(region: &Region) -> Vec<(u64, u64)> {
    let kind = |index: u64| SegmentKind::decode(region.load(128 + index * 8), 1 << 32 ^ index).expect("sound");
    let mut found = Vec::new();
    for index in (0..14).filter(|index| matches!(kind(*index), SegmentKind::Directory(_))) {
        // The first word of a page is its state.
        for row in (0..512).filter(|row| row % small().page_words != 0) {
            let word = Word(region.load(SEGMENTS_AT + index * SEGMENT_BYTES + row * 8));
            if !word.is_empty() && !word.is_tombstone() {
                let SegmentKind::Cells(units) = kind((word.offset() - SEGMENTS_AT) / SEGMENT_BYTES) else { continue };
                found.push((word.offset(), u64::from(units) * UNIT_BYTES));
            }
        }
    }
    assert!(found.len() >= 4, "three tables and the next id");
    found
}

/// Replaces the row of a version by one that fits its cell, and puts the checksum right.
fn forge_row(region: &Region, at: u64, room: u64, random: &mut Random) {
    let old = VersionHeader::decode(region.load(at), region.load(at + 8));
    let mut row = vec![0; old.len as usize];
    region.read(at + 16, &mut row);
    match random.below(4) {
        0 => row.resize(random.below(room - VERSION_HEADER + 1) as usize, 0x41),
        1 => row.iter_mut().for_each(|byte| *byte = random.next_u64() as u8),
        _ => {
            for _ in 0..=random.below(3) {
                let at = random.below(row.len().clamp(1, 12) as u64) as usize;
                if let Some(byte) = row.get_mut(at) {
                    *byte = random.below(8) as u8;
                }
            }
        }
    }
    let header = VersionHeader::new(old.rid, &row);
    region.write(at, &header.encode());
    region.write(at + 16, &row);
}
