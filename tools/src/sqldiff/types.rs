//! Column types and their values: ordinary ones, the ends of the range, and sometimes one that does
//! not fit.

use rand::Rng;
use rand::rngs::StdRng;

use super::random::{chance, pick};

/// Character sets with a collation: of one, two, four and varying bytes; with and without padding
/// and case.
const COLLATIONS: [(&str, &str); 9] = [
    ("utf8mb4", "utf8mb4_general_ci"),
    ("utf8mb4", "utf8mb4_bin"),
    ("utf8mb4", "utf8mb4_nopad_bin"),
    ("utf8mb4", "utf8mb4_unicode_ci"),
    ("latin1", "latin1_swedish_ci"),
    ("utf8mb3", "utf8mb3_general_ci"),
    ("ucs2", "ucs2_general_ci"),
    ("utf16", "utf16_unicode_ci"),
    ("sjis", "sjis_japanese_ci"),
];

const INTS: [(&str, u32); 5] = [("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)];
const TEXTS: [(&str, usize); 4] = [("TINY", 255), ("", 65_535), ("MEDIUM", 300_000), ("LONG", 300_000)];
const WORDS: [&str; 14] =
    ["", "a", "A", "abc", "b ", "Straße", "日本", "naïve", "x'y", "zz\\top", "0", "12", " lead", "quite a longer text"];

/// Which expressions may use a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Whole numbers and DECIMAL: sums are exact.
    Exact,
    /// FLOAT and DOUBLE.
    Approximate,
    /// Characters.
    Text,
    /// Bytes.
    Bytes,
    /// Dates and times.
    Time,
    /// Everything else.
    Other,
}

/// A column type.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// The type in CREATE TABLE.
    pub sql: String,
    /// Which expressions may use it.
    pub family: Family,
    /// Whether the server allows a literal DEFAULT for it.
    pub is_blob: bool,
    values: Values,
}

#[derive(Clone, Debug, PartialEq)]
enum Values {
    Int { bits: u32, unsigned: bool },
    Decimal { whole: u32, fraction: u32 },
    Float,
    Bit(u32),
    Text { length: usize },
    Bytes { length: usize },
    Enum,
    Set,
    Date,
    Time,
    Datetime,
    Timestamp,
    Year,
    Uuid,
    Inet6,
    Json,
    Geometry,
}

fn plain(sql: impl Into<String>, family: Family, values: Values) -> Type {
    Type { sql: sql.into(), family, is_blob: false, values }
}

/// The type of a generated column, which gets no values.
pub fn computed(sql: &str, family: Family) -> Type {
    plain(sql, family, Values::Float)
}

/// A random type.
pub fn any(random: &mut StdRng) -> Type {
    match random.random_range(0..26) {
        0..5 => int(random),
        5..7 => decimal(random),
        7 => plain(*pick(random, &["FLOAT", "DOUBLE", "FLOAT(8,2)"]), Family::Approximate, Values::Float),
        8 => {
            let bits = *pick(random, &[1, 7, 8, 9, 17, 63, 64]);
            plain(format!("BIT({bits})"), Family::Other, Values::Bit(bits))
        }
        9..15 => text(random),
        15..18 => bytes(random),
        18 if chance(random, 50) => {
            plain("ENUM('red','green','blue','') CHARACTER SET latin1", Family::Other, Values::Enum)
        }
        18 => plain("SET('a','b','c','d','e','f','g','h','i')", Family::Other, Values::Set),
        19..23 => temporal(random),
        23 => plain(*pick(random, &["UUID", "INET6"]), Family::Other, Values::Uuid).matching(),
        24 => Type { is_blob: true, ..plain("JSON", Family::Other, Values::Json) },
        _ => Type { is_blob: true, ..plain(*pick(random, &["GEOMETRY", "POINT"]), Family::Other, Values::Geometry) },
    }
}

impl Type {
    fn matching(mut self) -> Self {
        if self.sql == "INET6" {
            self.values = Values::Inet6;
        }
        self
    }
}

fn int(random: &mut StdRng) -> Type {
    let &(name, bits) = pick(random, &INTS);
    let unsigned = chance(random, 30);
    let sql = format!("{name}{}", if unsigned { " UNSIGNED" } else { "" });
    plain(sql, Family::Exact, Values::Int { bits, unsigned })
}

fn decimal(random: &mut StdRng) -> Type {
    let &(whole, fraction) = pick(random, &[(5, 2), (10, 0), (18, 9), (38, 10), (65, 30)]);
    plain(format!("DECIMAL({whole},{fraction})"), Family::Exact, Values::Decimal { whole: whole - fraction, fraction })
}

fn text(random: &mut StdRng) -> Type {
    let (set, collation) = *pick(random, &COLLATIONS);
    let charset = format!("CHARACTER SET {set} COLLATE {collation}");
    if chance(random, 35) {
        let &(prefix, length) = pick(random, &TEXTS);
        let values = Values::Text { length };
        return Type { is_blob: true, ..plain(format!("{prefix}TEXT {charset}"), Family::Text, values) };
    }
    if chance(random, 30) {
        let length = *pick(random, &[0, 1, 10, 60, 255]);
        return plain(format!("CHAR({length}) {charset}"), Family::Text, Values::Text { length });
    }
    let length = *pick(random, &[1, 20, 63, 100, 255, 256, 2_000]);
    plain(format!("VARCHAR({length}) {charset}"), Family::Text, Values::Text { length })
}

fn bytes(random: &mut StdRng) -> Type {
    if chance(random, 45) {
        let &(prefix, length) = pick(random, &TEXTS);
        let values = Values::Bytes { length };
        return Type { is_blob: true, ..plain(format!("{prefix}BLOB"), Family::Bytes, values) };
    }
    if chance(random, 40) {
        let length = *pick(random, &[1, 16, 255]);
        return plain(format!("BINARY({length})"), Family::Bytes, Values::Bytes { length });
    }
    let length = *pick(random, &[1, 16, 255, 256, 4_000, 8_000]);
    plain(format!("VARBINARY({length})"), Family::Bytes, Values::Bytes { length })
}

fn temporal(random: &mut StdRng) -> Type {
    let digits = random.random_range(0..=6);
    match random.random_range(0..5) {
        0 => plain("DATE", Family::Time, Values::Date),
        1 => plain(format!("TIME({digits})"), Family::Time, Values::Time),
        2 => plain(format!("DATETIME({digits})"), Family::Time, Values::Datetime),
        3 => plain(format!("TIMESTAMP({digits})"), Family::Time, Values::Timestamp),
        _ => plain("YEAR", Family::Other, Values::Year),
    }
}

/// A short SQL expression for a text of `length` characters.
fn repeated(random: &mut StdRng, length: usize) -> String {
    let letter = char::from(b'a' + random.random_range(0..26_u8));
    format!("REPEAT('{letter}', {length})")
}

/// A length up to `max`: mostly short, often up to 8 KiB, seldom the whole.
fn some_length(random: &mut StdRng, max: usize) -> usize {
    let limit = match random.random_range(0..100) {
        0..60 => 40,
        60..80 => 300,
        80..98 => 8_192,
        _ => 300_000,
    };
    random.random_range(0..=max.min(limit))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

impl Type {
    /// Characters or bytes that a string has at most; `None` for other types.
    pub fn length(&self) -> Option<usize> {
        match self.values {
            Values::Text { length } | Values::Bytes { length } => Some(length),
            _ => None,
        }
    }

    /// Whether a key can take the beginning of its values.
    pub fn has_beginning(&self) -> bool {
        self.is_blob || self.length().is_some()
    }

    /// Bytes that a key takes at most of the column, or of its first `prefix` characters; `None` if
    /// it has no limit.
    pub fn key_bytes(&self, prefix: Option<usize>) -> Option<usize> {
        let widest = match self.sql.split_once("CHARACTER SET ").map(|(_, set)| set) {
            Some(set) if set.starts_with("utf8mb4") || set.starts_with("utf16") => 4,
            Some(set) if set.starts_with("utf8mb3") => 3,
            Some(set) if set.starts_with("ucs2") || set.starts_with("sjis") => 2,
            _ => 1,
        };
        match self.values {
            Values::Text { length } | Values::Bytes { length } if prefix.is_some() || !self.is_blob => {
                Some(prefix.unwrap_or(length) * widest)
            }
            _ if self.is_blob => prefix.map(|length| length * 4),
            _ if self.family == Family::Text => Some(160),
            _ => Some(32),
        }
    }

    /// An SQL expression for a value other than NULL. One in thirty does not fit.
    pub fn value(&self, random: &mut StdRng) -> String {
        if chance(random, 3) {
            return (*pick(random, &["'nonsense'", "-1", "99999999999999999999", "''", "1e300", "'2024-02-30'"]))
                .into();
        }
        self.fitting(random)
    }

    /// An SQL expression for a value to search for. Never the empty ENUM: by a key the server finds
    /// the member of that name, without one also the rows whose value is none.
    pub fn sought(&self, random: &mut StdRng) -> String {
        loop {
            let value = self.fitting(random);
            if self.values != Values::Enum || value != "''" {
                return value;
            }
        }
    }

    /// Whether SUM is exact and independent of the order of rows: a DECIMAL of the maximum width
    /// overflows.
    pub fn has_sums(&self) -> bool {
        const DIGITS_MAX: u32 = 65;
        let overflows = matches!(self.values, Values::Decimal { whole, fraction } if whole + fraction == DIGITS_MAX);
        self.family == Family::Exact && !overflows
    }

    /// Whether it is a geometry.
    pub fn is_geometry(&self) -> bool {
        self.values == Values::Geometry
    }

    /// An SQL expression for a value that most likely fits.
    pub fn fitting(&self, random: &mut StdRng) -> String {
        match self.values {
            Values::Int { bits, unsigned } => int_value(random, bits, unsigned),
            Values::Decimal { whole, fraction } => decimal_value(random, whole, fraction),
            Values::Float => {
                (*pick(random, &["0", "-0.0", "1.5", "-2.25", "1e10", "3.402823e38", "1e-30", "0.1"])).into()
            }
            Values::Bit(bits) => {
                let value = random.random::<u64>() >> (64 - bits);
                if chance(random, 50) { format!("{value}") } else { format!("b'{value:b}'") }
            }
            Values::Text { length } if self.sql.starts_with("CHAR(") => char_value(random, length),
            Values::Text { length } => text_value(random, length),
            Values::Bytes { length } => bytes_value(random, length),
            Values::Enum => (*pick(random, &["'red'", "'green'", "'blue'", "''", "2", "'BLUE'"])).into(),
            Values::Set => (*pick(random, &["''", "'a'", "'a,c'", "'b,h,i'", "'c,a,a'", "511", "'z'"])).into(),
            Values::Uuid => format!("'{:08x}-0000-11ee-8000-{:012x}'", random.random::<u32>(), random.random::<u32>()),
            Values::Inet6 => {
                (*pick(random, &["'::'", "'::1'", "'2001:db8::ff00:42:8329'", "'::ffff:192.0.2.1'"])).into()
            }
            Values::Json => json_value(random),
            Values::Geometry => {
                let (x, y) = (random.random_range(-9..9), random.random_range(-9..9));
                let shape = *pick(random, &["POINT", "POINT", "POINT", "LINE"]);
                let text =
                    if shape == "POINT" { format!("POINT({x} {y})") } else { format!("LINESTRING(0 0, {x} {y})") };
                format!("ST_GeomFromText('{text}')")
            }
            _ => self.time_value(random),
        }
    }

    fn time_value(&self, random: &mut StdRng) -> String {
        let (month, day) = (random.random_range(1..=12), random.random_range(1..=28));
        let (hour, minute, second) =
            (random.random_range(0..24), random.random_range(0..60), random.random_range(0..60));
        let micros =
            if chance(random, 50) { format!(".{:06}", random.random_range(0..1_000_000)) } else { String::new() };
        let year = match self.values {
            Values::Timestamp => random.random_range(1971..2037),
            Values::Year => random.random_range(1901..=2155),
            _ => *pick(random, &[1000, 1969, 1999, 2024, 9999]),
        };
        match self.values {
            Values::Date => format!("'{year}-{month:02}-{day:02}'"),
            Values::Time => {
                let sign = if chance(random, 20) { "-" } else { "" };
                format!("'{sign}{}:{minute:02}:{second:02}{micros}'", random.random_range(0..=838))
            }
            Values::Year => format!("{year}"),
            _ => format!("'{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{micros}'"),
        }
    }

    /// A short field for a LOAD DATA file with commas as separators and `\` as the escape. The
    /// field contains neither.
    pub fn field(&self, random: &mut StdRng) -> String {
        match self.values {
            Values::Text { length } => {
                let word = pick(random, &WORDS).replace('\\', "\\\\");
                let times = if chance(random, 20) { some_length(random, length) / 4 } else { 1 };
                word.repeat(times.clamp(1, 2_000))
            }
            Values::Bytes { length } => "b".repeat(some_length(random, length)),
            Values::Bit(_) => (*pick(random, &["0", "1", "A"])).to_owned(),
            Values::Json => "[1]".to_owned(),
            Values::Geometry => "\\N".to_owned(),
            _ => self.value(random).trim_matches('\'').to_owned(),
        }
    }
}

fn int_value(random: &mut StdRng, bits: u32, unsigned: bool) -> String {
    let (low, high) =
        if unsigned { (0, (1_i128 << bits) - 1) } else { (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1) };
    match random.random_range(0..20) {
        0 => low.to_string(),
        1 => high.to_string(),
        2 => (high + 1).to_string(),
        3 => (low - 1).to_string(),
        _ => random.random_range(low.max(-100)..=high.min(100)).to_string(),
    }
}

fn decimal_value(random: &mut StdRng, whole: u32, fraction: u32) -> String {
    if chance(random, 10) {
        return format!("{}{}", if chance(random, 50) { "-" } else { "" }, "9".repeat(whole as usize));
    }
    let scale = 10_i64.pow(fraction.min(9));
    let below = if fraction == 0 { 0 } else { random.random_range(0..scale) };
    let above = random.random_range(-99..=99);
    if fraction == 0 { above.to_string() } else { format!("{above}.{below:0width$}", width = fraction.min(9) as usize) }
}

fn text_value(random: &mut StdRng, length: usize) -> String {
    if chance(random, 45) {
        return quoted(pick::<&str>(random, &WORDS));
    }
    let most = if chance(random, 2) { length + 1 } else { length };
    let length = some_length(random, most);
    repeated(random, length)
}

/// A text for a column that the server fills up with spaces: also with spaces at its end, nothing
/// but spaces, and the whole width.
fn char_value(random: &mut StdRng, length: usize) -> String {
    match random.random_range(0..10) {
        0 => format!("SPACE({})", random.random_range(0..=length)),
        1 | 2 => {
            let text = some_length(random, length);
            format!("CONCAT({}, SPACE({}))", repeated(random, text), random.random_range(0..=length - text))
        }
        3 => repeated(random, length),
        4 => format!("REPEAT('ß', {length})"),
        _ => text_value(random, length),
    }
}

fn bytes_value(random: &mut StdRng, length: usize) -> String {
    if chance(random, 30) {
        let bytes: Vec<u8> = (0..random.random_range(0..=length.min(12))).map(|_| random.random()).collect();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        return format!("X'{hex}'");
    }
    let length = some_length(random, length);
    if chance(random, 50) { format!("REPEAT(X'00FF', {})", length / 2) } else { repeated(random, length) }
}

fn json_value(random: &mut StdRng) -> String {
    let number = random.random_range(0..100);
    match random.random_range(0..5) {
        0 => "'{}'".to_owned(),
        1 => format!("'[{number}, null, \"x\"]'"),
        2 => format!("JSON_OBJECT('k', {number}, 'deep', JSON_ARRAY({number}, 'ß'))"),
        3 => format!("CONCAT('\"', REPEAT('j', {}), '\"')", some_length(random, 20_000)),
        _ => format!("'{number}'"),
    }
}
