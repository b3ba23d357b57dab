//! Hazard: a stored table definition that was cut off or altered, and is read all the same.

use perdura_capi::row::definition::{Definition, Unreadable};
use perdura_capi::row::foreign_key::{ForeignKey, ForeignKeys};
use perdura_capi::row::layout::{Field, FieldKind, Layout};

fn layout() -> Layout {
    let varchar =
        Field { kind: FieldKind::Varchar, length_bytes: 1, null_mask: 2, null_offset: 0, offset: 1, length: 32 };
    let number = Field { kind: FieldKind::Fixed, length_bytes: 0, null_mask: 0, null_offset: 0, offset: 34, length: 8 };
    Layout::new(42, 1, vec![varchar, number]).unwrap()
}

#[test]
fn a_definition_survives_storing() {
    let definition =
        Definition { version: b"0123456789abcdef", layout: layout(), frm: b"the server's bytes", foreign_keys: b"" };
    assert_eq!(Definition::decode(&definition.encode()), Ok(definition));
}

/// A build that does not know padded fields knows format 1 alone: it must not take one for a fixed
/// field.
#[test]
fn the_format_tells_whether_there_are_padded_fields() {
    const FORMAT_AT: usize = 7;
    let plain = Definition { version: b"v", layout: layout(), frm: b"frm", foreign_keys: b"" };
    assert_eq!(plain.encode()[..=FORMAT_AT], *b"PRDTDEF1");
    let mut fields = layout().fields().to_vec();
    fields[1].kind = FieldKind::Padded;
    let padded = Definition { layout: Layout::new(42, 1, fields).unwrap(), ..plain.clone() };
    let mut bytes = padded.encode();
    assert_eq!(bytes[..=FORMAT_AT], *b"PRDTDEF2");
    assert!(padded.layout.has_same_records(&plain.layout));
    assert_eq!(Definition::decode(&bytes), Ok(padded.clone()));
    for (format, unreadable) in [
        (b'1', Unreadable::Damaged),
        (b'3', Unreadable::Damaged),
        (b'4', Unreadable::Newer),
        (b'x', Unreadable::Damaged),
    ] {
        bytes[FORMAT_AT] = format;
        assert_eq!(Definition::decode(&bytes), Err(unreadable));
    }
}

#[test]
fn cut_off_definitions_are_refused() {
    let bytes = Definition { version: b"v", layout: layout(), frm: b"frm", foreign_keys: b"" }.encode();
    for end in 0..bytes.len() {
        assert_eq!(Definition::decode(&bytes[..end]), Err(Unreadable::Damaged), "cut off at {end}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(Definition::decode(&longer), Err(Unreadable::Damaged));
}

#[test]
fn altered_definitions_never_panic() {
    let bytes = Definition { version: b"v", layout: layout(), frm: b"frm", foreign_keys: b"" }.encode();
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut altered = bytes.clone();
            altered[at] = value;
            let _ = Definition::decode(&altered);
        }
    }
}

#[test]
fn fields_beyond_the_record_are_refused() {
    let field = Field { kind: FieldKind::Fixed, length_bytes: 0, null_mask: 0, null_offset: 0, offset: 8, length: 4 };
    assert!(Layout::new(12, 1, vec![field]).is_ok());
    assert!(Layout::new(11, 1, vec![field]).is_err());
    assert!(Layout::new(12, 1, vec![Field { offset: u32::MAX, ..field }]).is_err());
    assert!(Layout::new(12, 1, vec![Field { offset: 0, ..field }]).is_err(), "over the NULL bits");
    assert!(Layout::new(12, 1, vec![Field { null_mask: 1, null_offset: 1, ..field }]).is_err());
    assert!(Layout::new(12, 1, vec![Field { kind: FieldKind::Varchar, length_bytes: 3, ..field }]).is_err());
    assert!(Layout::new(12, 1, vec![Field { kind: FieldKind::Blob, length_bytes: 2, length: 0, ..field }]).is_err());
    assert!(Layout::new(12, 1, vec![Field { kind: FieldKind::Padded, ..field }]).is_ok());
    assert!(Layout::new(11, 1, vec![Field { kind: FieldKind::Padded, ..field }]).is_err());
    assert!(Layout::new(1 << 20, 1, vec![Field { kind: FieldKind::Padded, length: 1 << 16, ..field }]).is_err());
}

fn keys() -> ForeignKeys {
    let columns = vec![("a".to_owned(), "id".to_owned()), ("b\u{e4}".to_owned(), "other".to_owned())];
    let named = ForeignKey {
        name: "k".to_owned(),
        number: 0,
        parent: "d/parent".to_owned(),
        columns,
        on_delete: 3,
        on_update: 0,
        is_carried: true,
    };
    let numbered = ForeignKey { name: String::new(), number: 7, is_carried: false, ..named.clone() };
    ForeignKeys { copy_of: "d/original".to_owned(), keys: vec![named, numbered] }
}

/// A build that does not know foreign keys must not take the table for one without.
#[test]
fn foreign_keys_are_of_a_format_of_their_own() {
    let bytes = keys().encode();
    let plain = Definition { version: b"v", layout: layout(), frm: b"frm", foreign_keys: b"" };
    let referring = Definition { foreign_keys: &bytes, ..plain.clone() };
    let stored = referring.encode();
    assert_eq!(stored[..8], *b"PRDTDEF3");
    assert_eq!(Definition::decode(&stored), Ok(referring));
    for end in 0..stored.len() {
        assert_eq!(Definition::decode(&stored[..end]), Err(Unreadable::Damaged), "cut off at {end}");
    }
    assert_eq!(ForeignKeys::default().encode(), b"");
}

#[test]
fn foreign_keys_survive_storing_and_damaged_ones_are_refused() {
    let bytes = keys().encode();
    assert_eq!(ForeignKeys::decode(&bytes), Some(keys()));
    assert_eq!(ForeignKeys::decode(&[]), Some(ForeignKeys::default()));
    for end in 1..bytes.len() {
        assert_eq!(ForeignKeys::decode(&bytes[..end]), None, "cut off at {end}");
    }
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut altered = bytes.clone();
            altered[at] = value;
            let _ = ForeignKeys::decode(&altered);
        }
    }
    let altered = |alter: fn(&mut ForeignKey)| {
        let mut altered = keys();
        alter(&mut altered.keys[1]);
        ForeignKeys::decode(&altered.encode())
    };
    assert_eq!(altered(|_| ()), Some(keys()));
    assert_eq!(altered(|key| key.columns.clear()), None, "no column");
    assert_eq!(altered(|key| key.columns = vec![key.columns[0].clone(); 33]), None, "more columns than an index has");
    assert_eq!(altered(|key| key.parent = "d/\0".to_owned()), None, "a text that ends early");
    assert_eq!(altered(|key| key.number = 0), None, "neither name nor number");
    assert_eq!(altered(|key| key.on_update = 6), None, "no action of the server's");
}
