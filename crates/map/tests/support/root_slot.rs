//! Root records forged as docs/format.md draws them, without asking the map.

const RING_AT: usize = 256;
const SLOTS: u64 = 16;
const WORDS: usize = 16;
const PLACE: u64 = 1 << 41;
const CONTENT: u64 = (1 << 48) - 1;

/// Bits of a root record in two lines.
pub const NUMBER: (u32, u32) = (0, 48);
const CRC: (u32, u32) = (48, 32);
const WIDE: (u32, u32) = (80, 1);
/// Count of the pending records, in two lines.
pub const PENDING: (u32, u32) = (202, 40);
/// Count of the versions.
pub const VERSIONS: (u32, u32) = (582, 40);
/// Live bytes, in grains.
pub const LIVE: (u32, u32) = (622, 40);
/// Count of the nodes.
pub const NODES: (u32, u32) = (662, 40);

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The offset of the newest root record of a sound file.
fn newest(bytes: &[u8]) -> usize {
    let slots = (0..SLOTS as usize).map(|slot| RING_AT + 8 * WORDS * slot);
    slots.max_by_key(|at| word(bytes, *at) & CONTENT).expect("slots")
}

/// Offsets of the slot with the newest root record of a sound file, and of the slot after it.
pub fn newest_and_after(bytes: &[u8]) -> [usize; 2] {
    let newest = newest(bytes);
    let after = (newest - RING_AT) / 8 / WORDS + 1;
    [newest, RING_AT + after % SLOTS as usize * 8 * WORDS]
}

/// The content of a map's newest root record, 48 bits a word.
pub struct RootSlot {
    salt: u64,
    words: [u64; WORDS],
}

impl RootSlot {
    /// The newest root record of a sound file.
    pub fn newest(bytes: &[u8]) -> RootSlot {
        let newest = newest(bytes);
        let words = std::array::from_fn(|number| word(bytes, newest + 8 * number) & CONTENT);
        RootSlot { salt: word(bytes, 32), words }
    }

    /// Content of a field.
    pub fn get(&self, (at, bits): (u32, u32)) -> u64 {
        (0..bits).map(|bit| (self.words[((at + bit) / 48) as usize] >> ((at + bit) % 48) & 1) << bit).sum()
    }

    /// Changes a field.
    pub fn set(&mut self, (at, bits): (u32, u32), value: u64) {
        for bit in 0..bits {
            let (word, place) = (&mut self.words[((at + bit) / 48) as usize], 1 << ((at + bit) % 48));
            *word = if value >> bit & 1 == 0 { *word & !place } else { *word | place };
        }
    }

    /// Whether the record has two lines.
    pub fn is_wide(&self) -> bool {
        self.get(WIDE) == 1
    }

    /// Writes the record to the slot of its number, with correct checks.
    pub fn put(&mut self, bytes: &mut [u8]) {
        self.set(CRC, 0);
        let slot = self.get(NUMBER) % SLOTS;
        let count = if self.is_wide() { WORDS } else { WORDS / 2 };
        let content: Vec<u8> = self.words[..count].iter().flat_map(|word| word.to_le_bytes()).collect();
        let seed = ((self.salt ^ (PLACE | slot)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        self.set(CRC, u64::from(crc32c::crc32c_append(seed, &content)));
        for (number, word) in self.words[..count].iter().enumerate() {
            let place = PLACE | (slot * WORDS as u64 + number as u64);
            let check = (word ^ self.salt ^ place.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
            let at = RING_AT + 8 * (WORDS * slot as usize + number);
            bytes[at..at + 8].copy_from_slice(&(word | check.max(1) << 48).to_le_bytes());
        }
    }
}
