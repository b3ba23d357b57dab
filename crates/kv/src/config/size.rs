//! Numbers of bytes, as people write them: `65536`, `"64K"`, `"256M"`, `"4G"`, `"1T"`.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, shift): &&(char, u32)| self.0 > 0 && self.0.trailing_zeros() >= *shift;
        match UNITS.iter().rev().find(fits) {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

fn parse(text: &str) -> Option<Size> {
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(*unit));
    let shift = unit.map_or(0, |(_, shift)| *shift);
    let digits = text.strip_suffix(|last| unit.is_some_and(|(unit, _)| *unit == last)).unwrap_or(text);
    let number: u64 = digits.parse().ok()?;
    number.checked_shl(shift).filter(|size| size >> shift == number).map(Size)
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

struct Reads;

impl Visitor<'_> for Reads {
    type Value = Size;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, or a text such as \"64M\" with K, M, G or T")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Size, E> {
        u64::try_from(number).map(Size).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Size, E> {
        Ok(Size(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
        parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl<'a> Deserialize<'a> for Size {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Size, D::Error> {
        deserializer.deserialize_any(Reads)
    }
}

#[cfg(test)]
mod tests {
    use super::{Size, parse};

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (text, bytes) in [("0", 0), ("1000", 1000), ("64K", 64 << 10), ("3G", 3 << 30), ("1T", 1 << 40)] {
            assert_eq!(parse(text), Some(Size(bytes)));
            assert_eq!(Size(bytes).to_string(), text);
        }
        for text in ["", "K", "-1", "1k", "1.5G", "99999999999T", " 1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
