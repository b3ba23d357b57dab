//! The spaces at the end of a text of fixed width.

/// What fills a text up to its width.
pub const PAD: u8 = b' ';

const PADS: u64 = u64::from_ne_bytes([PAD; 8]);
const WORD: usize = size_of::<u64>();
const BLOCK: usize = 4 * WORD;

/// The length of `bytes` bytes without the spaces at their end. It goes back over the spaces 32 bytes at a time, then by words.
///
/// # Safety
/// `source` must be readable for `bytes` bytes.
#[inline(always)]
pub unsafe fn trimmed(source: *const u8, bytes: usize) -> usize {
    let mut end = bytes;
    // SAFETY: each read ends at or before `end`, which is at most `bytes`, and begins at or behind `source`.
    unsafe {
        while end >= BLOCK {
            let words = source.add(end - BLOCK).cast::<[u64; 4]>().read_unaligned();
            if words.iter().fold(0, |other, word| other | (word ^ PADS)) != 0 {
                break;
            }
            end -= BLOCK;
        }
        while end >= WORD {
            let word = u64::from_le_bytes(source.add(end - WORD).cast::<[u8; WORD]>().read());
            let other = word ^ PADS;
            if other != 0 {
                return end - other.leading_zeros() as usize / 8;
            }
            end -= WORD;
        }
        while end > 0 && source.add(end - 1).read() == PAD {
            end -= 1;
        }
    }
    end
}
