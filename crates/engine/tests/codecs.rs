//! Hazard: a codec of a persistent structure loses a value, lets a flipped bit pass, or panics on
//! damaged bytes (I6).

use crate::common;

use perdura_engine::format::{
    FORMAT_VERSION, Geometry, PageState, Record, Rid, SegmentKind, SpilledPage, UNIT_BYTES, VALUES_VERSION,
    VersionHeader, Word, fold_row, page_crc,
};
use proptest::prelude::*;

fn word() -> impl Strategy<Value = Word> {
    (0..1u32 << 16, 0..1u64 << 32, 0..1u16 << 12, any::<bool>()).prop_map(|(file, unit, incarnation, tombstone)| {
        let word = Word::new(file, unit * UNIT_BYTES, incarnation);
        if tombstone { word.tombstone() } else { word }
    })
}

/// The word without its flag: a deleted row has no version of its own.
fn alive(word: Word) -> Word {
    Word::new(word.file(), word.offset(), word.incarnation())
}

fn rid() -> impl Strategy<Value = Rid> {
    (0..1u64 << 48, 0..1u16 << 12).prop_map(|(row, incarnation)| Rid::new(row, incarnation))
}

fn kind() -> impl Strategy<Value = SegmentKind> {
    (0..3, any::<u32>()).prop_map(|(kind, argument)| match kind {
        0 => SegmentKind::Cells(argument),
        1 => SegmentKind::Directory(argument),
        _ => SegmentKind::Extents,
    })
}

proptest! {
    #[test]
    fn words(file in 0..1u32 << 16, unit in 0..1u64 << 32, incarnation in 0..1u16 << 12, bit in 0..64u32) {
        let word = Word::new(file, unit * UNIT_BYTES, incarnation);
        for word in [word, word.tombstone()] {
            prop_assert_eq!((word.file(), word.offset(), word.incarnation()), (file, unit * UNIT_BYTES, incarnation));
            prop_assert_eq!(word.is_empty(), file == 0 && unit == 0);
            prop_assert!(word.is_sound());
            prop_assert!(!Word(word.0 ^ 1u64 << bit).is_sound(), "a flipped bit passes");
        }
        prop_assert!(word.tombstone().is_tombstone() && !word.is_tombstone());
        prop_assert_eq!(word.tombstone().tombstone(), word.tombstone());
        let empty = Word::empty(incarnation);
        prop_assert!(empty.is_empty() && empty.is_sound() && empty.incarnation() == incarnation);
        prop_assert!(!Word(empty.0 ^ 1u64 << bit).is_sound(), "a flipped bit passes");
    }

    /// Hazard: words go on with an incarnation that one of them had lately, or that all of them
    /// still have before them.
    #[test]
    fn the_last_of_incarnations(around in 0..1u16 << 12, spread in 1..1u16 << 12, offsets in proptest::collection::vec(any::<u16>(), 1..9)) {
        let had: Vec<u16> = offsets.iter().map(|offset| (around + offset % spread) % 4096).collect();
        let farthest = |last: u16| had.iter().map(|had| (last + 4096 - had) % 4096).max();
        let lasts: Vec<u16> = had.iter().copied().filter(|last| farthest(*last) < Some(2048)).collect();
        let expected = lasts.first().map(|last| if *last == 0 && had.iter().any(|had| *had > 0) { 1 } else { *last });
        prop_assert!(spread > 2048 || expected.is_some());
        prop_assert_eq!(Word::last_incarnation(had), expected);
    }

    #[test]
    fn any_word_can_be_taken_apart(bits: u64) {
        let word = Word(bits);
        prop_assert!(word.file() < 1 << 16 && word.offset() < 1 << 35 && word.incarnation() < 1 << 12);
        prop_assert_eq!(word.is_empty(), word.file() == 0 && word.offset() == 0);
        let rid = Rid::from_u64(bits);
        prop_assert_eq!(rid.to_u64(), bits);
        prop_assert_eq!(Rid::new(rid.row(), rid.incarnation()), rid);
    }

    #[test]
    fn page_states(csn in 0..1u64 << 62, bit in 0..64u32) {
        let state = PageState::published(csn);
        prop_assert!(state.is_published() && state.is_sound() && state.csn() == csn);
        for state in [state, PageState::OPEN, PageState::UNPUBLISHED] {
            prop_assert!(!PageState(state.0 ^ 1u64 << bit).is_sound(), "a flipped bit passes");
        }
        prop_assert_eq!(PageState::published(0), PageState::OPEN);
    }

    #[test]
    fn segment_descriptors(kind in kind(), salt: u64, bit in 0..64u32) {
        let word = kind.encode(salt);
        prop_assert_eq!(SegmentKind::decode(word, salt), Some(kind));
        prop_assert_eq!(SegmentKind::decode(word ^ 1u64 << bit, salt), None, "a flipped bit passes");
        prop_assert_eq!(SegmentKind::decode(1u64 << bit, salt), None, "a bit of a free segment flipped");
        prop_assert_eq!(SegmentKind::decode(0, salt), Some(SegmentKind::Free));
    }

    #[test]
    fn any_descriptor_can_be_read(word: u64, salt: u64) {
        if let Some(kind) = SegmentKind::decode(word, salt) {
            prop_assert_eq!(kind.encode(salt), word);
        }
    }

    #[test]
    fn versions(rid in rid(), row: Vec<u8>, bit: prop::sample::Index) {
        let header = VersionHeader::new(rid, &row);
        let read = |bytes: &[u8]| {
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            VersionHeader::decode(word(0), word(8))
        };
        prop_assert_eq!(read(&header.encode()), header);
        prop_assert_eq!(header.checksum(&row), header.crc);
        let mut whole = [&header.encode()[..], &row].concat();
        let bit = bit.index(whole.len() * 8);
        whole[bit / 8] ^= 1 << (bit % 8);
        let damaged = read(&whole);
        let same = damaged.checksum(&whole[16..]) == damaged.crc;
        prop_assert!(!same || damaged.len as usize != row.len(), "a flipped bit passes");
    }

    #[test]
    fn records(
        table: u32, rid in rid(), word in word(), page in 0..1u64 << 40, rows: u32, crc: u32,
        changed in prop::collection::btree_map(0..512u16, word(), 1..100), tail: Vec<u8>,
        first in prop::collection::vec(any::<u8>(), 6..80), second in prop::collection::vec(any::<u8>(), 6..80),
    ) {
        // Length, offset and bytes of each entry.
        let entry = |at: u16, entry: &[u8]| [&(entry.len() as u16).to_le_bytes(), &at.to_le_bytes(), entry].concat();
        let entries = [entry(0, &first), entry(700, &second)].concat();
        for record in [
            Record::Row { table, rid, word, crc, value: None },
            Record::Row { table, rid, word: alive(word), crc, value: Some((&tail[..]).into()) },
            Record::Page { table, page, rows, crc },
            Record::Delta { table, page, rows: changed.clone().into_iter().collect(), crc },
            Record::Deleted { table, page, rows: changed.keys().copied().collect(), crc },
            Record::Spilled { table, page, rows: rows as u16, place: alive(word), crc },
            Record::Leaf { table, place: word, inserted: page, deleted: rows.into(), crc, values: Vec::new().into() },
            Record::Leaf { table, place: word, inserted: 0b1010, deleted: rows.into(), crc, values: (&entries[..]).into() },
        ] {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            prop_assert_eq!(bytes.len(), record.bytes());
            prop_assert_eq!(record.table(), table);
            prop_assert_eq!(Record::decode(&bytes[..bytes.len() - 1]), None);
            bytes.extend_from_slice(&tail);
            prop_assert_eq!(Record::decode(&bytes), Some((record, &tail[..])));
        }
    }

    #[test]
    fn spilled_pages(rows in prop::collection::btree_map(0..512u16, word(), 1..100), folded: u64, wrong: usize) {
        let page = SpilledPage { rows: rows.into_iter().collect(), folded };
        let bytes = page.encode();
        prop_assert_eq!(SpilledPage::decode(&bytes, page.rows.len()), Some(page.clone()));
        prop_assert_eq!(SpilledPage::decode(&bytes[1..], page.rows.len()), None);
        prop_assert!(wrong == page.rows.len() || SpilledPage::decode(&bytes, wrong).is_none());
    }

    #[test]
    fn any_spilled_page_can_be_read(bytes: Vec<u8>, count in 0..600usize) {
        if let Some(page) = SpilledPage::decode(&bytes, count) {
            prop_assert_eq!(page.encode(), bytes);
        }
    }

    #[test]
    fn any_record_can_be_read(bytes: Vec<u8>) {
        if let Some((record, rest)) = Record::decode(&bytes) {
            let mut again = Vec::new();
            record.encode(&mut again);
            prop_assert_eq!(Record::decode(&again), Some((record, &[][..])));
            prop_assert!(rest.len() < bytes.len());
        }
    }

    #[test]
    fn folded_checksums_do_not_depend_on_order(rows: Vec<(u64, u32)>) {
        let forward = rows.iter().fold(0, |sum, (row, crc)| sum ^ fold_row(*row, *crc));
        let backward = rows.iter().rev().fold(0, |sum, (row, crc)| sum ^ fold_row(*row, *crc));
        prop_assert_eq!(forward, backward);
        prop_assert_eq!(page_crc(b"words", forward), page_crc(b"words", backward));
    }

    #[test]
    fn geometries(format in 0..5u64, segment in 10..24u32, page in 0..12u32, other: u64) {
        let (segment_bytes, page_words) = (1 << segment, 1 << page);
        let fits = (12..=20).contains(&segment) && (3..=9).contains(&page);
        let read = Geometry::from_words([format, segment_bytes, page_words, 0, 0, 0, 0, 0]);
        let is_known = format == FORMAT_VERSION || format == VALUES_VERSION;
        prop_assert_eq!(read.is_ok(), is_known && fits);
        if let Ok(geometry) = read {
            prop_assert_eq!(geometry, Geometry { segment_bytes, page_words });
            prop_assert_eq!(Geometry::from_words(geometry.to_words(other % 2 == 0)), Ok(geometry));
            // Whatever its size, a file has segments of at least a page, and enough of them.
            let in_file = geometry.segment_bytes_in(other);
            prop_assert!(in_file.is_power_of_two() && (geometry.page_bytes()..=segment_bytes).contains(&in_file));
            prop_assert!(in_file == 4096 || other / in_file >= 256);
        }
        prop_assert_eq!(Geometry::from_words([other, other, other, 0, 0, 0, 0, 0]).is_ok(), false);
    }

    /// Pools of an older format are refused, with the build that reads them.
    #[test]
    fn other_formats_are_named(format: u64) {
        let words = Geometry { segment_bytes: 65536, page_words: 512 }.to_words(false);
        let refused = Geometry::from_words([format, words[1], words[2], 0, 0, 0, 0, 0]).map(|_| ());
        let named = |text: &String| text.contains(&format.to_string()) && text.contains("use the build");
        prop_assert!(format == FORMAT_VERSION || format == VALUES_VERSION || refused.is_err_and(|text| named(&text)));
    }

    #[test]
    fn table_names_and_definitions(tables in proptest::collection::btree_map("\\PC{1,60}", any::<Vec<u8>>(), 1..5)) {
        let (medium, engine) = common::pool();
        for (name, definition) in &tables {
            engine.create_table(name, definition).unwrap();
        }
        drop(engine);
        let engine = common::reopen(&medium);
        prop_assert_eq!(engine.tables().unwrap().len(), tables.len());
        for (name, definition) in &tables {
            prop_assert_eq!(&engine.table(name).unwrap().definition()[..], &definition[..]);
        }
    }
}
