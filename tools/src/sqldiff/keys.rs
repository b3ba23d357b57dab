//! The generator's model of a table's keys: primary, unique and secondary, of any columns, whole or
//! by their first characters.

use rand::Rng;
use rand::rngs::StdRng;

use super::column::Column;
use super::random::{chance, pick};
use super::types::Family;

/// Keys a table is created with at most.
const KEYS_MAX: u32 = 4;
/// Bytes of the columns of one key. Their weights may take more room; all fit in the longest key of
/// either engine.
pub const BYTES_MAX: usize = 1_100;
/// Promise of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Unique and without NULL.
    Primary,
    /// Unique, apart from NULL.
    Unique,
    /// Nothing.
    None,
}

/// A column in a key.
#[derive(Clone, Debug)]
pub struct Part {
    /// The column's name.
    pub column: String,
    /// How many of its characters or bytes count, if not all.
    pub prefix: Option<usize>,
    /// Whether the key orders it downward.
    pub descending: bool,
}

/// A key.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name in hints.
    pub name: String,
    /// Its promise.
    pub promise: Promise,
    /// Its columns.
    pub parts: Vec<Part>,
    /// Whether it is unique and too long, so that the server hashes its columns. Rows cannot be
    /// sought by it.
    pub hashed: bool,
}

/// The table of a new key.
pub struct Shape<'a> {
    /// Its columns after `id`.
    pub columns: &'a [Column],
    /// Whether it is partitioned.
    pub partitioned: bool,
    /// Whether `id` is AUTO_INCREMENT.
    pub automatic: bool,
    /// Whether it may have a key that the server hashes.
    pub hashes: bool,
}

impl Part {
    fn id() -> Self {
        Self { column: "id".to_owned(), prefix: None, descending: false }
    }

    fn definition(&self) -> String {
        let prefix = self.prefix.map(|length| format!("({length})")).unwrap_or_default();
        format!("{}{prefix}{}", self.column, if self.descending { " DESC" } else { "" })
    }
}

impl Key {
    /// The primary key: `id`, alone or beside a column that is never NULL.
    pub fn primary(random: &mut StdRng, table: &Shape<'_>) -> Self {
        let mut parts = vec![Part::id()];
        let fits = |column: &&Column| !column.nullable && column.generated.is_none();
        let columns: Vec<&Column> = table.columns.iter().filter(fits).collect();
        if !columns.is_empty() && chance(random, 30) {
            let column = columns[random.random_range(0..columns.len())];
            let part = whole_or_prefix(random, column, BYTES_MAX);
            let first = chance(random, 50) && !table.automatic;
            parts.extend(part);
            if first {
                parts.reverse();
            }
        }
        if chance(random, 10) {
            parts.iter_mut().for_each(|part| part.descending = true);
        }
        Self { name: "PRIMARY".to_owned(), promise: Promise::Primary, parts, hashed: false }
    }

    /// A unique or a secondary key; `None` if the table has no column for it.
    pub fn any(random: &mut StdRng, table: &Shape<'_>, name: String) -> Option<Self> {
        if table.hashes && chance(random, 20) {
            return Self::hashed(random, table, name);
        }
        let unique = chance(random, 35);
        let fits = |column: &&Column| column.fits_key(table.partitioned);
        let mut columns: Vec<&Column> = table.columns.iter().filter(fits).collect();
        let (mut parts, mut room) = (Vec::new(), BYTES_MAX);
        let count = *pick(random, &[1, 1, 1, 2, 2, 3]);
        while parts.len() < count && !columns.is_empty() {
            let column = columns.swap_remove(random.random_range(0..columns.len()));
            let Some(part) = whole_or_prefix(random, column, room) else { continue };
            room = room.saturating_sub(column.kind.key_bytes(part.prefix).unwrap_or(0));
            parts.push(Part { descending: chance(random, 15), ..part });
        }
        if parts.is_empty() {
            return None;
        }
        // With `id` at its end the key gives the whole order that a query asks for.
        if unique && table.partitioned || chance(random, 35) {
            parts.push(Part { descending: chance(random, 15), ..Part::id() });
        }
        Some(Self { name, promise: if unique { Promise::Unique } else { Promise::None }, parts, hashed: false })
    }

    /// A unique key of a column without a limit, alone or beside another one. InnoDB's REPLACE
    /// loses rows by such a key, its UPDATE IGNORE refuses them, and at READ COMMITTED its ON
    /// DUPLICATE KEY UPDATE changes the row of another key first; so none of these changes a table
    /// with one (dml.rs). Their test is `perdura.keys_long`.
    fn hashed(random: &mut StdRng, table: &Shape<'_>, name: String) -> Option<Self> {
        let part = |column: &Column| Part { column: column.name.clone(), prefix: None, descending: false };
        let mut columns: Vec<&Column> = table.columns.iter().filter(|column| column.generated.is_none()).collect();
        columns.retain(|column| column.kind.length().is_some());
        let long: Vec<&Column> = columns.iter().copied().filter(|column| column.kind.is_blob).collect();
        let first = *(!long.is_empty()).then(|| pick(random, &long))?;
        let mut parts = vec![part(first)];
        let second = *pick(random, &columns);
        if second.name != first.name && chance(random, 40) {
            parts.push(part(second));
        }
        Some(Self { name, promise: Promise::Unique, parts, hashed: true })
    }

    /// Keys for a new table, of which `table` has none yet.
    pub fn some(random: &mut StdRng, table: &Shape<'_>) -> Vec<Self> {
        let mut keys = Vec::new();
        if table.automatic || chance(random, 70) {
            keys.push(Self::primary(random, table));
        }
        for number in 0..random.random_range(0..KEYS_MAX) {
            keys.extend(Self::any(random, table, format!("k{number}")));
        }
        keys
    }

    /// Its definition in CREATE TABLE and ALTER TABLE ADD.
    pub fn definition(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(Part::definition).collect();
        let parts = parts.join(", ");
        match self.promise {
            Promise::Primary => format!("PRIMARY KEY ({parts})"),
            Promise::Unique => format!("UNIQUE KEY {} ({parts})", self.name),
            Promise::None => format!("KEY {} ({parts})", self.name),
        }
    }

    /// Whether it refuses some rows.
    pub fn is_unique(&self) -> bool {
        self.promise != Promise::None
    }

    /// Whether a column is part of it.
    pub fn has(&self, column: &str) -> bool {
        self.parts.iter().any(|part| part.column == column)
    }

    /// Whether it makes `id` unique.
    pub fn is_of_id(&self) -> bool {
        self.is_unique() && self.parts.len() == 1 && self.parts[0].column == "id"
    }
}

/// A column in a key: as a whole or its beginning, never beyond the limit.
fn whole_or_prefix(random: &mut StdRng, column: &Column, room: usize) -> Option<Part> {
    let part = |prefix| Part { column: column.name.clone(), prefix, descending: false };
    let kind = &column.kind;
    if kind.key_bytes(None).is_some_and(|bytes| bytes <= room) && chance(random, 75) {
        return Some(part(None));
    }
    // The server takes the beginning of stored strings only.
    if !kind.has_beginning() || column.generated.is_some() {
        return kind.key_bytes(None).filter(|&bytes| bytes <= room).map(|_| part(None));
    }
    let length = *pick(random, &[1, 2, 3, 10, 60, 200]);
    let length = kind.length().map_or(length, |most| length.min(most));
    let fits = length > 0 && kind.key_bytes(Some(length)).is_some_and(|bytes| bytes <= room);
    fits.then(|| part(Some(length)))
}

/// A condition on a column that a key can answer.
pub fn on_key(random: &mut StdRng, column: &Column, name: &str) -> String {
    let kind = &column.kind;
    if column.generated.is_some() || matches!(kind.family, Family::Approximate) {
        let (low, high) = (random.random_range(-3..60), random.random_range(0..30));
        return match (kind.family, random.random_range(0..3)) {
            (Family::Text, 0) => format!("{name} = '#{}'", high),
            (Family::Text, _) => format!("{name} LIKE '#{}%'", high % 10),
            (_, 0) => format!("{name} = {high}"),
            (_, 1) => format!("{name} BETWEEN {low} AND {}", low + high),
            _ => format!("{name} IS NULL"),
        };
    }
    let (one, two) = (kind.sought(random), kind.sought(random));
    match random.random_range(0..12) {
        0..4 => format!("{name} = {one}"),
        4 => format!("{name} <=> {one}"),
        5 => format!("{name} IN ({one}, {two}, {})", kind.sought(random)),
        6 => format!("{name} BETWEEN {one} AND {two}"),
        7 => format!("{name} < {one}"),
        8 => format!("{name} >= {one}"),
        9 if kind.family == Family::Text => {
            format!("{name} LIKE {}", pick(random, &["'a%'", "'ab%'", "'b %'", "'日%'", "'x''%'", "'%a'", "'A_c'"]))
        }
        9 => format!("{name} > {one} AND {name} <= {two}"),
        // A date that is never NULL is NULL to the server if it is zero, but not to a range.
        _ if kind.family == Family::Time && !column.nullable => format!("{name} > {one}"),
        10 => format!("{name} = {one} OR {name} IS NULL"),
        _ => format!("{name} IS NULL"),
    }
}
