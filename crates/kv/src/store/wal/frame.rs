//! Frames: what is written and synced as one.
//!
//! A file begins with its salt, a random number, three times; two that are the same count. Nobody
//! outside knows it, so no value of a client's passes for a frame.
//!
//! | bytes | |
//! |---|---|
//! | 4 | magic |
//! | 4 | length of the body |
//! | 4 | CRC32C of the salt, the file's number, the frame's number, the length and the body |
//! | 4 | the same without the body |
//! | 8 | number of the frame in the file, from 0 on |
//! | rest | the body, then zeros up to a multiple of 8 |
//!
//! A frame is written only after the one before it was synced. So a frame that is not whole is torn
//! by a failure if none follows it, and is damage if one does.

use super::super::error::{Error, Result};
use super::disk::DiskFile;

const MAGIC: u32 = u32::from_le_bytes(*b"pkv2");
const HEADER_BYTES: usize = 24;
const ALIGNMENT: usize = 8;
/// Bytes in which frames are looked for at a time.
const WINDOW_BYTES: u64 = 1 << 20;
/// Where the first frame begins.
pub(super) const FRAMES_AT: u64 = 24;

/// Mark that distinguishes the frames of a file from other bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seal {
    pub(super) salt: u64,
    /// The file's number.
    pub(super) of: u64,
}

impl Seal {
    fn of_header(self, number: u64, length: u64) -> u32 {
        crc32c::crc32c(&[self.salt, self.of, number, length].map(u64::to_le_bytes).concat())
    }

    /// Header of the file.
    pub(super) fn head(self) -> Vec<u8> {
        [self.salt; 3].map(u64::to_le_bytes).concat()
    }

    /// Length of a frame whose body has `body` bytes.
    pub(super) fn frame_bytes(body: usize) -> u64 {
        (HEADER_BYTES + body).next_multiple_of(ALIGNMENT) as u64
    }

    /// The bytes of a frame.
    pub(super) fn frame(self, number: u64, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::frame_bytes(body.len()) as usize);
        let length = u32::try_from(body.len()).expect("a frame below 4 GiB");
        let header = self.of_header(number, u64::from(length));
        for word in [MAGIC, length, crc32c::crc32c_append(header, body), header] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(body);
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        out
    }
}

/// The frames of a file, from the first on.
pub(super) struct Frames<'a> {
    file: &'a dyn DiskFile,
    name: &'a str,
    /// The salt is 0 if the file was never begun.
    pub(super) seal: Seal,
    len: u64,
    /// Where the next frame begins.
    pub(super) at: u64,
    /// Its number.
    pub(super) number: u64,
}

impl<'a> Frames<'a> {
    /// The frames of the file with a number. Error: `Damaged` if its salt is not known.
    pub(super) fn new(file: &'a dyn DiskFile, name: &'a str, of: u64) -> Result<Self> {
        let len = file.bytes().map_err(|error| Error::io(name, "its length", error))?;
        let mut frames = Self { file, name, seal: Seal { salt: 0, of }, len, at: FRAMES_AT, number: 0 };
        if len >= FRAMES_AT {
            let head = frames.bytes(0, FRAMES_AT)?;
            let salts = [0, 8, 16].map(|at| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes")));
            let known = [(0, 1), (1, 2), (0, 2)].into_iter().find(|(one, other)| salts[*one] == salts[*other]);
            let (known, _) = known.ok_or_else(|| Error::damaged(name, 0, "the salt is not as it was written"))?;
            frames.seal.salt = salts[known];
        }
        Ok(frames)
    }

    /// The body of the next frame, or `None` where no whole frame is. Error: `Damaged` if whole
    /// frames follow there.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>> {
        if self.seal.salt == 0 {
            return Ok(None);
        }
        if let Some((body, end)) = self.read(self.at, |number| number == self.number)? {
            (self.at, self.number) = (end, self.number + 1);
            return Ok(Some(body));
        }
        let mut window = self.at + ALIGNMENT as u64;
        while window < self.len {
            let bytes = self.bytes(window, WINDOW_BYTES.min(self.len - window))?;
            for offset in (0..bytes.len()).step_by(ALIGNMENT) {
                let at = window + offset as u64;
                if bytes[offset..].starts_with(&MAGIC.to_le_bytes())
                    && self.read(at, |number| number >= self.number)?.is_some()
                {
                    let what = format!("frame {} is not as it was written, and another follows at {at}", self.number);
                    return Err(Error::damaged(self.name, self.at, what));
                }
            }
            window += WINDOW_BYTES;
        }
        Ok(None)
    }

    /// The body of a whole frame at an offset, and where it ends. One whose header is not its own
    /// is not read.
    fn read(&self, at: u64, is_wanted: impl Fn(u64) -> bool) -> Result<Option<(Vec<u8>, u64)>> {
        if self.len.saturating_sub(at) < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let header = self.bytes(at, HEADER_BYTES as u64)?;
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let number = u64::from_le_bytes(header[16..24].try_into().expect("eight bytes"));
        let (begin, length) = (at + HEADER_BYTES as u64, u64::from(word(4)));
        let checksum = self.seal.of_header(number, length);
        if word(0) != MAGIC || word(12) != checksum || !is_wanted(number) || length > self.len - begin {
            return Ok(None);
        }
        let body = self.bytes(begin, length)?;
        let is_whole = crc32c::crc32c_append(checksum, &body) == word(8);
        Ok(is_whole.then_some((body, (begin + length).next_multiple_of(ALIGNMENT as u64))))
    }

    fn bytes(&self, at: u64, count: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count as usize];
        self.file.read_at(at, &mut bytes).map_err(|error| Error::io(self.name, "reading", error))?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{FRAMES_AT, Frames, Seal};
    use crate::store::wal::disk::Disk;
    use crate::store::{ErrorKind, SimDisk};

    const SEAL: Seal = Seal { salt: 0x1234_5678_9abc_def0, of: 7 };

    fn bodies(bytes: &[u8]) -> crate::store::Result<Vec<Vec<u8>>> {
        let disk = SimDisk::default();
        disk.put_bytes("file", bytes.to_vec());
        let file = disk.open("file").expect("a file");
        let mut frames = Frames::new(&*file, "file", 7)?;
        let mut found = Vec::new();
        while let Some(body) = frames.next()? {
            found.push(body);
        }
        Ok(found)
    }

    #[test]
    fn a_torn_last_frame_is_cut_off_and_any_other_is_damage() {
        // No byte is there only to fill up.
        let written = [&[1; 8][..], &[], &[9; 104]];
        let frames: Vec<Vec<u8>> = written.iter().zip(0..).map(|(body, number)| SEAL.frame(number, body)).collect();
        let end = FRAMES_AT as usize + frames.concat().len();
        let whole = [&SEAL.head()[..], &frames.concat(), &[0; 64]].concat();
        assert_eq!(bodies(&whole).expect("sound"), written);
        let last = FRAMES_AT as usize + frames[0].len() + frames[1].len();
        for bit in 8 * FRAMES_AT as usize..8 * end {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            match bodies(&bytes) {
                Ok(found) => assert!(bit / 8 >= last && found == written[..2], "bit {bit}: {found:?}"),
                Err(error) => {
                    assert_eq!((error.kind(), error.file()), (ErrorKind::Damaged, Some("file")), "bit {bit}: {error}");
                    assert!(bit / 8 < last && error.offset().is_some_and(|at| at <= bit as u64 / 8), "bit {bit}");
                }
            }
        }
        for cut in 0..last {
            assert!(bodies(&whole[..cut]).expect("torn").len() < 3, "{cut}");
        }
    }

    #[test]
    fn a_frame_of_another_file_or_place_does_not_count() {
        let others = [Seal { of: 8, ..SEAL }, Seal { salt: 1, ..SEAL }];
        for other in others {
            assert_eq!(bodies(&[SEAL.head(), other.frame(0, b"one")].concat()).expect("none"), [[0_u8; 0]; 0]);
        }
        let twice = [SEAL.head(), SEAL.frame(0, b"one"), SEAL.frame(0, b"two")].concat();
        assert_eq!(bodies(&twice).expect("one"), [b"one"]);
    }

    /// A file that was cut off in the zeros behind the last body has all bodies; it made the reader
    /// panic.
    #[test]
    fn a_file_that_ends_within_the_last_padding_is_whole() {
        let whole = [SEAL.head(), SEAL.frame(0, b"one"), SEAL.frame(1, b"two")].concat();
        for cut in 0..=5 {
            assert_eq!(bodies(&whole[..whole.len() - cut]).expect("whole"), [b"one", b"two"], "{cut}");
        }
        assert_eq!(bodies(&whole[..whole.len() - 6]).expect("torn"), [b"one"]);
    }

    /// A value that looks like the frame that follows made a torn frame look like damage. Without
    /// the salt nobody can write one.
    #[test]
    fn a_value_that_looks_like_a_frame_is_none() {
        let forged = Seal { salt: 0, of: 7 };
        let mut bytes = [SEAL.head(), SEAL.frame(0, b"one"), SEAL.frame(1, &forged.frame(2, b"bad"))].concat();
        *bytes.last_mut().expect("bytes") ^= 1;
        let torn = bytes.len() - forged.frame(2, b"bad").len();
        bytes[torn - 1] ^= 1;
        assert_eq!(bodies(&bytes).expect("torn"), [b"one"]);
    }

    #[test]
    fn one_damaged_salt_does_no_harm_and_two_are_noticed() {
        let whole = [SEAL.head(), SEAL.frame(0, b"one")].concat();
        for bit in 0..8 * FRAMES_AT as usize {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(bodies(&bytes).expect("sound"), [b"one"], "bit {bit}");
            bytes[(bit / 8 + 8) % FRAMES_AT as usize] ^= 0xff;
            assert_eq!(bodies(&bytes).expect_err("damage").kind(), ErrorKind::Damaged, "bit {bit}");
        }
        assert_eq!(bodies(&[0; 100]).expect("not begun"), [[0_u8; 0]; 0]);
    }
}
