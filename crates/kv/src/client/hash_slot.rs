//! The hash slot of a key, by which clients in cluster mode choose a replica. All slots are the
//! same replicas' here.

/// Number of hash slots.
pub(super) const SLOTS: u16 = 16384;

/// The slot of a key: of what is between its first braces, if there is something, else of all of
/// it.
pub(super) fn of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM: polynomial 0x1021, from 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| (sum << 8) ^ TABLE[usize::from((sum >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let (mut table, mut at) = ([0; 256], 0);
    while at < 256 {
        let (mut sum, mut bit) = ((at as u16) << 8, 0);
        while bit < 8 {
            sum = if sum & 0x8000 != 0 { (sum << 1) ^ 0x1021 } else { sum << 1 };
            bit += 1;
        }
        table[at] = sum;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{crc16, of};

    #[test]
    fn slots_are_those_that_clients_compute() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(of(b"foo"), 12182);
        assert_eq!(of(b"{user1000}.following"), of(b"user1000"));
        assert_eq!(of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % 16384);
        assert_eq!(of(b"foo{{bar}}"), of(b"{bar"));
    }
}
