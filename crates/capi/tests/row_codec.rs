//! Hazard: a row that comes back different, and damaged bytes that make unpacking read or write out
//! of bounds. Every record must survive packing, and any bytes at all must be refused or unpacked
//! within the record.

use perdura_capi::row::codec::{DamagedRow, PackError, Packer, Unpacker};
use perdura_capi::row::layout::{Field, FieldKind, Layout, POINTER_BYTES};
use proptest::prelude::*;

const ROW_MAX: u64 = 1 << 24;
const GUARD: usize = 64;
const UNTOUCHED: u8 = 0xA5;

/// A column and its value in one row.
#[derive(Clone, Debug)]
enum Column {
    Virtual,
    Fixed(Vec<u8>),
    Padded { width: u32, value: Option<Vec<u8>> },
    Varchar { max: u32, value: Option<Vec<u8>> },
    Blob { length_bytes: u8, value: Option<Vec<u8>> },
}

fn columns() -> impl Strategy<Value = Vec<Column>> {
    let content = |max: usize| proptest::option::weighted(0.8, proptest::collection::vec(any::<u8>(), 0..=max));
    let column = prop_oneof![
        Just(Column::Virtual),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Column::Fixed),
        (padded(), proptest::option::weighted(0.2, Just(()))).prop_map(|(value, is_null)| Column::Padded {
            width: value.len() as u32,
            value: is_null.is_none().then_some(value)
        }),
        (1u32..600)
            .prop_flat_map(move |max| content(max as usize).prop_map(move |value| Column::Varchar { max, value })),
        (1u8..=4).prop_flat_map(move |length_bytes| {
            let max = if length_bytes == 1 { 255 } else { 3000 };
            content(max).prop_map(move |value| Column::Blob { length_bytes, value })
        }),
    ];
    proptest::collection::vec(column, 0..12)
}

/// A text, with spaces at its end and within, up to the width: none, some, or nothing else.
fn padded() -> impl Strategy<Value = Vec<u8>> {
    let letter = prop_oneof![2 => Just(b' '), 3 => any::<u8>()];
    (proptest::collection::vec(letter, 0..300), prop_oneof![Just(0usize), 1usize..600]).prop_map(
        |(mut text, spaces)| {
            text.resize(text.len() + spaces, b' ');
            text
        },
    )
}

/// A layout for the columns, and a record with their values. Some fields have a gap before them, as
/// a server may leave one.
fn record_of(columns: &[Column]) -> (Layout, Vec<u8>) {
    let null_bytes = columns.len() / 8 + 1;
    let mut record = vec![0u8; null_bytes];
    let mut fields = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        if index % 3 == 2 {
            record.push(UNTOUCHED);
        }
        let (null_offset, null_mask) = ((index / 8) as u32, 1u8 << (index % 8));
        let mut field = Field {
            kind: FieldKind::Virtual,
            length_bytes: 0,
            null_mask: 0,
            null_offset,
            offset: record.len() as u32,
            length: 0,
        };
        match column {
            Column::Virtual => {}
            Column::Fixed(bytes) => {
                field.kind = FieldKind::Fixed;
                field.length = bytes.len() as u32;
                record.extend(bytes);
            }
            Column::Padded { width, value } => {
                field = Field { kind: FieldKind::Padded, null_mask, length: *width, ..field };
                if value.is_none() {
                    record[null_offset as usize] |= null_mask;
                }
                record.extend(value.clone().unwrap_or_else(|| vec![UNTOUCHED; *width as usize]));
            }
            Column::Varchar { max, value } => {
                let length_bytes = if *max < 256 { 1 } else { 2 };
                field = Field { kind: FieldKind::Varchar, length_bytes, null_mask, length: *max, ..field };
                let start = record.len();
                record.resize(start + usize::from(length_bytes) + *max as usize, 0);
                match value {
                    None => record[null_offset as usize] |= null_mask,
                    Some(value) => {
                        record[start..start + usize::from(length_bytes)]
                            .copy_from_slice(&(value.len() as u16).to_le_bytes()[..length_bytes.into()]);
                        record[start + usize::from(length_bytes)..][..value.len()].copy_from_slice(value);
                    }
                }
            }
            Column::Blob { length_bytes, value } => {
                field = Field { kind: FieldKind::Blob, length_bytes: *length_bytes, null_mask, ..field };
                let (length, pointer) = match value {
                    None => (0, std::ptr::dangling()),
                    Some(value) => (value.len() as u32, value.as_ptr()),
                };
                if value.is_none() {
                    record[null_offset as usize] |= null_mask;
                }
                record.extend(&length.to_le_bytes()[..(*length_bytes).into()]);
                record.extend((pointer as usize).to_ne_bytes());
            }
        }
        fields.push(field);
    }
    (Layout::new(record.len() as u32, null_bytes as u32, fields).expect("a layout made to be right"), record)
}

/// The value of a column in an unpacked record.
fn value_of(layout: &Layout, index: usize, record: &[u8]) -> Option<Vec<u8>> {
    let field = layout.fields()[index];
    if field.null_mask != 0 && record[field.null_offset as usize] & field.null_mask != 0 {
        return None;
    }
    let at = field.offset as usize;
    let length_bytes = usize::from(field.length_bytes);
    let mut length = [0; 4];
    length[..length_bytes].copy_from_slice(&record[at..at + length_bytes]);
    let length = u32::from_le_bytes(length) as usize;
    Some(match field.kind {
        FieldKind::Virtual => Vec::new(),
        FieldKind::Fixed | FieldKind::Padded => record[at..at + field.length as usize].to_vec(),
        FieldKind::Varchar => record[at + length_bytes..][..length].to_vec(),
        FieldKind::Blob => {
            let pointer: [u8; POINTER_BYTES] = record[at + length_bytes..][..POINTER_BYTES].try_into().unwrap();
            let pointer = usize::from_ne_bytes(pointer) as *const u8;
            // SAFETY: an unpacked blob points to its content in the packed row, which the caller
            // keeps.
            unsafe { std::slice::from_raw_parts(pointer, length) }.to_vec()
        }
    })
}

fn expected(column: &Column) -> Option<Vec<u8>> {
    match column {
        Column::Virtual => Some(Vec::new()),
        Column::Fixed(bytes) => Some(bytes.clone()),
        Column::Padded { value, .. } | Column::Varchar { value, .. } | Column::Blob { value, .. } => value.clone(),
    }
}

/// Unpacks into a record with guard bytes behind it, and checks that they are untouched.
fn unpack(unpacker: &Unpacker, layout: &Layout, row: &[u8]) -> Result<Vec<u8>, DamagedRow> {
    let mut record = vec![UNTOUCHED; layout.record_bytes() + GUARD];
    // SAFETY: the buffer has the layout's bytes and more.
    let outcome = unsafe { unpacker.unpack(row, record.as_mut_ptr()) };
    assert!(record[layout.record_bytes()..].iter().all(|byte| *byte == UNTOUCHED), "written behind the record");
    let looked_at = outcome?;
    assert!(looked_at <= row.len(), "{looked_at} of {} bytes", row.len());
    // The bytes behind do not matter.
    if looked_at < row.len() {
        let mut again = vec![UNTOUCHED; layout.record_bytes() + GUARD];
        let mut other = row.to_vec();
        other[looked_at..].iter_mut().for_each(|byte| *byte = !*byte);
        // SAFETY: as above.
        assert_eq!(unsafe { unpacker.unpack(&other, again.as_mut_ptr()) }, Ok(looked_at), "another row");
    }
    Ok(record)
}

fn pack(layout: &Layout, record: &[u8]) -> Vec<u8> {
    let mut row = Vec::new();
    // SAFETY: the record has the layout's bytes; its blobs point to live values.
    unsafe { Packer::new(layout).pack(record.as_ptr(), &mut row, ROW_MAX) }.expect("a record within limits");
    row
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_record_survives_packing(columns in columns()) {
        let (layout, record) = record_of(&columns);
        let row = pack(&layout, &record);
        let unpacked = unpack(&Unpacker::new(&layout), &layout, &row).expect("a row just packed");
        for (index, column) in columns.iter().enumerate() {
            prop_assert_eq!(value_of(&layout, index, &unpacked), expected(column), "column {}", index);
        }
    }

    #[test]
    fn chosen_columns_come_back_and_others_stay(columns in columns(), chosen in any::<u16>()) {
        let (layout, record) = record_of(&columns);
        let row = pack(&layout, &record);
        let wants = |index: usize| chosen & 1 << index != 0;
        let unpacked = unpack(&Unpacker::for_columns(&layout, wants), &layout, &row).expect("a row just packed");
        for (index, column) in columns.iter().enumerate() {
            let field = layout.fields()[index];
            if wants(index) {
                prop_assert_eq!(value_of(&layout, index, &unpacked), expected(column), "column {}", index);
            } else if field.kind != FieldKind::Virtual && field.length + u32::from(field.length_bytes) > 0 {
                prop_assert_eq!(unpacked[field.offset as usize], UNTOUCHED, "column {}", index);
            }
        }
    }

    #[test]
    fn damaged_rows_stay_within_bounds(columns in columns(), flips in proptest::collection::vec((any::<u16>(), 1u8..), 1..6), cut in any::<u16>()) {
        let (layout, record) = record_of(&columns);
        let mut row = pack(&layout, &record);
        for (at, flip) in flips {
            let at = usize::from(at) % row.len();
            row[at] ^= flip;
        }
        row.truncate(row.len() - usize::from(cut) % (row.len() + 1) / 2);
        // The allocation ends with the row, so that a sanitizer sees any access behind it.
        let row = row.into_boxed_slice();
        if let Ok(unpacked) = unpack(&Unpacker::new(&layout), &layout, &row) {
            for index in 0..columns.len() {
                let _ = value_of(&layout, index, &unpacked);
            }
        }
    }

    #[test]
    fn any_bytes_stay_within_bounds(columns in columns(), row in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (layout, _) = record_of(&columns);
        let row = row.into_boxed_slice();
        if let Ok(unpacked) = unpack(&Unpacker::new(&layout), &layout, &row) {
            for index in 0..columns.len() {
                let _ = value_of(&layout, index, &unpacked);
            }
        }
    }
}

#[test]
fn rows_beyond_the_limit_are_refused() {
    let (layout, record) = record_of(&[Column::Blob { length_bytes: 4, value: Some(vec![1; 1 << 20]) }]);
    let mut row = Vec::new();
    // SAFETY: the record has the layout's bytes; its blob points to a live value.
    let outcome = unsafe { Packer::new(&layout).pack(record.as_ptr(), &mut row, 1 << 10) };
    assert!(matches!(outcome, Err(PackError::TooLarge(bytes)) if bytes > 1 << 20));
}

#[test]
fn packing_keeps_its_buffer() {
    let (layout, record) =
        record_of(&[Column::Fixed(vec![7; 8]), Column::Varchar { max: 32, value: Some(vec![1; 20]) }]);
    let packer = Packer::new(&layout);
    let mut row = Vec::new();
    for round in 0..3 {
        let before = row.as_ptr();
        // SAFETY: the record has the layout's bytes and no blobs.
        unsafe { packer.pack(record.as_ptr(), &mut row, ROW_MAX) }.unwrap();
        assert!(round == 0 || before == row.as_ptr(), "the buffer was allocated again");
    }
    assert_eq!(row.len(), 1 + 8 + 1 + 20);
}

#[test]
fn spaces_at_the_end_take_no_room() {
    for width in [1, 7, 8, 9, 31, 32, 33, 255, 256, 480, 1020] {
        for length in 0..=width {
            let mut value = vec![b'x'; length];
            value.resize(width, b' ');
            let (layout, record) = record_of(&[Column::Padded { width: width as u32, value: Some(value.clone()) }]);
            let row = pack(&layout, &record);
            assert_eq!(row.len(), 1 + if width < 256 { 1 } else { 2 } + length, "{length} of {width}");
            let unpacked = unpack(&Unpacker::new(&layout), &layout, &row).expect("a row just packed");
            assert_eq!(value_of(&layout, 0, &unpacked), Some(value), "{length} of {width}");
        }
    }
}

#[test]
fn a_null_has_no_bytes_and_comes_back_as_spaces() {
    let (layout, record) = record_of(&[Column::Padded { width: 40, value: None }, Column::Fixed(vec![1])]);
    let row = pack(&layout, &record);
    assert_eq!(row.len(), 1 + 1);
    let unpacked = unpack(&Unpacker::new(&layout), &layout, &row).expect("a row just packed");
    assert_eq!(unpacked[1..41], [b' '; 40]);
}

#[test]
fn a_text_beyond_its_width_is_damage() {
    let (layout, record) = record_of(&[Column::Padded { width: 4, value: Some(b"abcd".to_vec()) }]);
    let mut row = pack(&layout, &record);
    row[1] = 5;
    row.push(b'e');
    assert_eq!(unpack(&Unpacker::new(&layout), &layout, &row).err(), Some(DamagedRow));
}
