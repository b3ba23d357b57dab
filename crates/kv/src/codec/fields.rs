//! Fields out of bytes and into bytes: little-endian numbers, and byte strings behind their length.
//! Bytes that are read are untrusted: a length is believed only as far as bytes follow.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The field of a version that this program does not know.
const OTHER_VERSION: &str = "a version of the layout";

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The field that cannot be read.
    pub field: &'static str,
}

impl Malformed {
    /// Bytes whose layout has a version that this program does not know.
    pub(crate) fn of_other_version() -> Self {
        Self { field: OTHER_VERSION }
    }

    /// Whether another version of the program has written the bytes: they are whole as far as can
    /// be told.
    pub(crate) fn is_of_other_version(self) -> bool {
        self.field == OTHER_VERSION
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_of_other_version() {
            return f.write_str("its layout is of a version that this program does not know");
        }
        write!(f, "{} is cut off or out of range", self.field)
    }
}

impl std::error::Error for Malformed {}

/// Outcome of a read.
pub type Read<T> = Result<T, Malformed>;

/// Bytes in one piece, from whose front others can be taken.
pub trait Piece: Buf {
    /// Takes the first `count` bytes, which are there.
    fn take_front(&mut self, count: usize) -> Self;
}

/// Bytes that are taken share the memory.
impl Piece for Bytes {
    fn take_front(&mut self, count: usize) -> Self {
        self.split_to(count)
    }
}

/// Bytes that are taken stay where they are.
impl Piece for &[u8] {
    fn take_front(&mut self, count: usize) -> Self {
        let (front, rest) = self.split_at(count);
        *self = rest;
        front
    }
}

/// Reads fields from the front of bytes, which its byte strings share or borrow.
#[derive(Debug)]
pub struct Reader<P = Bytes> {
    bytes: P,
}

impl<P> Reader<P> {
    /// A reader at the first byte.
    pub fn new(bytes: P) -> Self {
        Self { bytes }
    }
}

impl<P: Piece> Reader<P> {
    /// The next `count` bytes.
    pub(crate) fn take(&mut self, field: &'static str, count: usize) -> Read<P> {
        if count > self.left() {
            return Err(Malformed { field });
        }
        Ok(self.bytes.take_front(count))
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Read<[u8; N]> {
        // Copied: a share of the bytes would be counted, for a number.
        let found = *self.bytes.chunk().first_chunk().ok_or(Malformed { field })?;
        self.bytes.advance(N);
        Ok(found)
    }

    /// A byte.
    pub(crate) fn u8(&mut self, field: &'static str) -> Read<u8> {
        self.array(field).map(u8::from_le_bytes)
    }

    /// A number of 4 bytes.
    pub(crate) fn u32(&mut self, field: &'static str) -> Read<u32> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// A number of 8 bytes.
    pub(crate) fn u64(&mut self, field: &'static str) -> Read<u64> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// A number of 16 bytes.
    pub(crate) fn u128(&mut self, field: &'static str) -> Read<u128> {
        self.array(field).map(u128::from_le_bytes)
    }

    /// A number in as few bytes as it needs, see [`put_short`].
    pub(crate) fn short(&mut self, field: &'static str) -> Read<u64> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.u8(field)?;
            let bits = u64::from(byte & 0x7f);
            // More bits than a number has, or a byte that says nothing.
            if bits << shift >> shift != bits || byte == 0 && shift > 0 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed { field })
    }

    /// A byte that is 0 or 1.
    pub(crate) fn flag(&mut self, field: &'static str) -> Read<bool> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed { field }),
        }
    }

    /// A byte string behind its length.
    pub(crate) fn bytes(&mut self, field: &'static str) -> Read<P> {
        let length = self.u32(field)?;
        self.take(field, length as usize)
    }

    /// A count of things of at least `least` bytes each, so that no more are made room for than can
    /// follow.
    pub(crate) fn count(&mut self, field: &'static str, least: usize) -> Read<usize> {
        let count = self.u32(field)? as usize;
        if count > self.left() / least {
            return Err(Malformed { field });
        }
        Ok(count)
    }

    /// Number of bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.remaining()
    }

    /// All that is left.
    pub(crate) fn rest(self) -> P {
        self.bytes
    }

    /// The end: no byte may follow.
    pub(crate) fn end(self) -> Read<()> {
        if self.left() == 0 { Ok(()) } else { Err(Malformed { field: "the end" }) }
    }
}

/// Appends a byte string behind its length.
///
/// # Panics
/// If it has 4 GiB or more.
pub(crate) fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.put_slice(bytes);
}

/// Appends the length of a byte string, which is to follow.
///
/// # Panics
/// If it is 4 GiB or more.
pub(crate) fn put_length(out: &mut BytesMut, length: usize) {
    out.put_u32_le(u32::try_from(length).expect("a byte string below 4 GiB"));
}

/// Writes a number, seven bits a byte from the lowest on; the last byte is below 128.
pub(crate) fn put_short(out: &mut BytesMut, mut number: u64) {
    while number >= 0x80 {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

#[cfg(test)]
mod tests {
    use super::{Malformed, Reader, put_bytes};
    use bytes::{BufMut, Bytes, BytesMut};

    #[test]
    fn fields_come_back_as_they_were_put() {
        let mut out = BytesMut::new();
        out.put_u8(1);
        out.put_u32_le(7);
        out.put_u64_le(u64::MAX);
        out.put_u128_le(5);
        put_bytes(&mut out, b"abc");
        let mut reader = Reader::new(out.freeze());
        assert_eq!(reader.flag("flag"), Ok(true));
        assert_eq!(reader.u32("u32"), Ok(7));
        assert_eq!(reader.u64("u64"), Ok(u64::MAX));
        assert_eq!(reader.u128("u128"), Ok(5));
        assert_eq!(reader.bytes("bytes"), Ok(Bytes::from_static(b"abc")));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn a_length_beyond_the_bytes_is_refused() {
        let reader = |bytes: &'static [u8]| Reader::new(Bytes::from_static(bytes));
        assert_eq!(reader(&[255, 255, 255, 255, 1]).bytes("text"), Err(Malformed { field: "text" }));
        assert_eq!(reader(&[2, 0, 0, 0, 1, 1, 1]).count("pairs", 2), Err(Malformed { field: "pairs" }));
        assert_eq!(reader(&[2]).flag("flag"), Err(Malformed { field: "flag" }));
        assert_eq!(reader(&[0]).end(), Err(Malformed { field: "the end" }));
    }
}
