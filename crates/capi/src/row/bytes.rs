//! Numbers and strings of bytes in stored definitions. Reading checks bounds: stored bytes are not
//! trusted.

/// Appends `value`, little endian.
pub fn put_u32(target: &mut Vec<u8>, value: u32) {
    target.extend(value.to_le_bytes());
}

/// Reads forward through stored bytes; gives `None` where they end too early.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next little endian number.
    pub fn u32(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// A string of bytes behind its length (u32, little endian).
    pub fn prefixed(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.bytes(count as usize)
    }
}
