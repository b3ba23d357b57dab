//! Hazard: files of a pool that are missing, cut off, too long, empty, exchanged, from another
//! build or full of rubbish cost rows in silence. Opening the pool or the table, and checking the
//! pool, must say which file, what is wrong and what to do, and never panic, hang or lose a row
//! without a word (I6).

use crate::common;

use crate::common::damage::{Subject, Verdict, is_told, judge, subject};
use crate::common::{row_bytes, seeds, small, try_rows};
use perdura_engine::check::check;
use perdura_engine::{Engine, ErrorKind, Isolation};
use perdura_pmem::sim::{Image, Random};
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The files of a pool: name and content.
type Files = BTreeMap<String, Vec<u8>>;

fn files(subject: &Subject) -> Files {
    subject.image.list().into_iter().map(|(name, _)| (name.clone(), subject.image.bytes_of(&name).unwrap())).collect()
}

fn image(files: &Files) -> Image {
    Image::from_files(files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])))
}

/// Judges the same files in simulated memory and in a directory; the verdicts must agree.
fn judge_both(subject: &Subject, damaged: &Files, hint: &str) -> Verdict {
    let image = image(damaged);
    let simulated = judge(subject, Arc::new(SimMedium::from_image(image.clone())), hint);
    let directory = common::directory();
    image.write_to(directory.path()).unwrap();
    assert_eq!(judge(subject, common::files(&directory), hint), simulated, "{hint}: files and simulation differ");
    simulated
}

#[test]
fn missing_cut_off_longer_and_empty_files() {
    let subject = subject(true);
    let whole = files(&subject);
    assert_eq!(judge_both(&subject, &whole, "nothing"), Verdict::Harmless);
    for (name, bytes) in &whole {
        let mut missing = whole.clone();
        missing.remove(name);
        // The spare holds nothing that counts.
        let usual = if name == "spare" { Verdict::Harmless } else { Verdict::Found };
        assert_eq!(judge_both(&subject, &missing, &format!("{name} missing")), usual);
        let len = bytes.len();
        for new_len in [0, 1, 64, 100, 4095, 4096, len / 2, len - 4096, len - 1, len + 1, len + 4096, len + (2 << 20)] {
            let mut resized = whole.clone();
            resized.get_mut(name).unwrap().resize(new_len, 0);
            let verdict = judge_both(&subject, &resized, &format!("{name} of {new_len} instead of {len} bytes"));
            // Nothing reads behind the two copies of the superblock.
            let expected = if name == "super" && new_len >= len { Verdict::Harmless } else { usual };
            assert!(verdict == expected || new_len == len, "{name} of {new_len} instead of {len} bytes");
        }
    }
}

#[test]
fn exchanged_and_foreign_files() {
    let (subject, other) = (subject(true), subject(false));
    let whole = files(&subject);
    let foreign = {
        let medium = Arc::new(SimMedium::new());
        let shared: Arc<dyn Medium> = medium.clone();
        let engine = Engine::open(shared, perdura_engine::Config { seed: Some(77), ..small() }).unwrap();
        engine.create_table("t", b"").unwrap();
        drop(engine);
        files(&Subject { image: medium.image(), ..other })
    };
    let data: Vec<_> = whole.keys().filter(|name| name.starts_with("t.")).collect();
    for one in &data {
        for two in data.iter().filter(|two| two != &one && whole[**two].len() == whole[*one].len()) {
            let mut exchanged = whole.clone();
            exchanged.insert((*one).clone(), whole[*two].clone());
            assert_eq!(judge_both(&subject, &exchanged, &format!("{one} is a copy of {two}")), Verdict::Found);
        }
    }
    for name in ["t.00000001.00000", "t.00000002.00000", "super"] {
        let mut exchanged = whole.clone();
        exchanged.insert(name.to_owned(), foreign[name].clone());
        assert_eq!(judge_both(&subject, &exchanged, &format!("{name} is of another pool")), Verdict::Found);
    }
    let mut more = whole.clone();
    more.insert("t.0000abcd.00000".to_owned(), vec![1; 100]);
    more.insert("notes.txt".to_owned(), b"not ours".to_vec());
    more.insert("log.063.00".to_owned(), vec![2; 100]);
    assert_eq!(judge_both(&subject, &more, "files that nothing names"), Verdict::Harmless);
}

/// Stores a word in a superblock copy or in the header of a data file, and puts the checksum right.
fn forge(bytes: &mut [u8], at: usize, value: u32, checksum_at: usize, then: std::ops::Range<usize>) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..checksum_at]), &bytes[then]);
    bytes[checksum_at..checksum_at + 4].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn another_build_has_written_here() {
    let subject = subject(true);
    let whole = files(&subject);
    let refused = |changed: &Files, file: &str| {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image(changed)));
        let before = medium.list().unwrap();
        // A table's file is opened with the table.
        let opened = Engine::open(medium.clone(), small());
        let error = opened.and_then(|engine| engine.tables().map(|_| ())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
        assert!(error.to_string().contains(file) && error.to_string().contains("use the build"), "{error}");
        assert_eq!(medium.list().unwrap(), before, "nothing is touched");
        is_told(&error, file);
        check(medium, &mut |_, _| ()).map(|report| !report.problems.is_empty())
    };
    for at in [8, 40] {
        let mut newer = whole.clone();
        let superblock = newer.get_mut("super").unwrap();
        for copy in superblock.chunks_mut(4096) {
            let entries = u32::from_le_bytes(copy[12..16].try_into().unwrap()) as usize;
            forge(copy, at, 9, 188, 192..192 + 32 * entries);
        }
        assert_eq!(refused(&newer, "super").map_err(|error| error.kind()), Err(ErrorKind::NotSupported));
    }
    // Of a newer build, and of the first format.
    for (name, format) in [("t.00000001.00000", 9), ("t.00000003.00000", 9), ("t.00000003.00000", 1)] {
        let mut other = whole.clone();
        forge(other.get_mut(name).unwrap(), 8, format, 56, 0..0);
        assert_ne!(refused(&other, name).ok(), Some(false));
    }
}

/// Hazard: a directory whose superblock is lost is taken for an empty one, and a new pool replaces
/// the old files.
#[test]
fn a_pool_without_superblock_is_not_made_anew() {
    let subject = subject(true);
    let mut damaged = files(&subject);
    damaged.remove("super");
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image(&damaged)));
    for _ in 0..2 {
        let error = Engine::open(medium.clone(), small()).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        assert_eq!(medium.list().unwrap().len(), damaged.len(), "nothing is removed");
    }
}

/// Hazard: rubbish makes the engine panic. A damaged pool is opened or refused, and if opened then
/// read, written, swept, purged and dropped.
#[test]
fn rubbish_never_panics() {
    let subjects = [subject(true), subject(false)];
    let (mut opened, mut refused) = (0, 0);
    for seed in seeds(1500) {
        let _seed = NamedInPanic(seed);
        let mut random = Random::new(seed);
        let mut damaged = files(&subjects[seed as usize % 2]);
        let names: Vec<_> = damaged.keys().cloned().collect();
        for _ in 0..=random.below(3) {
            let name = &names[random.below(names.len() as u64) as usize];
            spoil(damaged.get_mut(name).unwrap(), &mut random);
        }
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image(&damaged)));
        let checked = check(medium.clone(), &mut |_, _| ());
        if let Err(error) = &checked {
            is_told(error, &format!("seed {seed}"));
        }
        let sound = checked.is_ok_and(|report| report.problems.is_empty());
        match Engine::open(medium, small()) {
            Ok(engine) => {
                opened += 1;
                exercise(&engine, sound, &mut random);
            }
            Err(error) => {
                refused += 1;
                is_told(&error, &format!("seed {seed}"));
            }
        }
    }
    assert!(opened > 500 && refused > 50, "{opened} opened, {refused} refused");
}

/// Prints the seed under which the test panicked.
struct NamedInPanic(u64);

impl Drop for NamedInPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with seed {}", self.0);
        }
    }
}

/// Damages up to 4 KiB, mostly near the beginning of a file.
fn spoil(bytes: &mut [u8], random: &mut Random) {
    // Most structures are near the beginning.
    let reach = if random.one_in(3) { bytes.len() } else { bytes.len().min(20 << 10) };
    let at = random.below(reach as u64) as usize;
    let (word, line) = (at & !7, at & !63);
    match random.below(7) {
        0 => bytes[at] = random.next_u64() as u8,
        1 => bytes[word..word + 8].copy_from_slice(&random.next_u64().to_le_bytes()),
        2 => bytes[line..line + 64].fill(0),
        3 => bytes[line..line + 64].fill(0xff),
        4 => {
            let source = random.below(reach as u64) as usize & !63;
            bytes.copy_within(source..source + 64, line);
        }
        5 => {
            let source = random.below(reach as u64) as usize & !7;
            bytes.copy_within(source..source + 8, word);
        }
        _ => {
            let end = (line + random.below(4096) as usize).min(bytes.len());
            bytes[line..end].iter_mut().for_each(|byte| *byte = random.next_u64() as u8);
        }
    }
}

/// Uses every part of an engine. Errors are allowed, panics are not.
fn exercise(engine: &Engine, sound: bool, random: &mut Random) {
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.set_lock_wait_timeout(std::time::Duration::ZERO);
    for table in engine.table_names() {
        let Ok(table) = engine.table(&table) else { continue };
        txn.start_statement();
        let seen = try_rows(&mut txn, &table).unwrap_or_default();
        for (number, (rid, _)) in seen.into_iter().enumerate() {
            let _ = match random.below(4) {
                0 => txn.update(&table, rid, &row_bytes(number as u32)),
                1 => txn.delete(&table, rid),
                _ => Ok(()),
            };
        }
        for number in 0..random.below(200) as u32 {
            let _ = txn.insert(&table, &row_bytes(number));
        }
        let _ = txn.insert(&table, &[3; 9000]);
        txn.end_statement();
        let _ = txn.commit();
    }
    drop(txn);
    for name in engine.prepared() {
        let _ = if random.one_in(2) { engine.commit_prepared(&name) } else { engine.rollback_prepared(&name) };
    }
    let _ = engine.sweep();
    let _ = engine.checkpoint();
    if sound {
        // In an unsound pool purge may meet versions in segments that claim to be free, which debug
        // builds take for a bug.
        engine.purge();
    }
    let _ = engine.truncate_table("small");
    let _ = engine.drop_table("bulk");
    let _ = engine.create_table("new", b"").map(|table| table.audit());
    engine.status().to_string();
    engine.close();
}
