//! Frames: what is written and synced as one.
//!
//! | bytes | |
//! |---|---|
//! | 4 | magic |
//! | 4 | length of the body |
//! | 4 | CRC32C of the file's number, the frame's number, the length and the body |
//! | 4 | zero |
//! | 8 | number of the frame in the file, from 0 on |
//! | rest | the body, then zeros up to a multiple of 8 |
//!
//! A frame is written only after the one before it was synced. So a frame that is not whole is torn by a failure if none follows
//! it, and is damage if one does.

use super::super::error::{Error, Result};
use super::disk::DiskFile;

const MAGIC: u32 = u32::from_le_bytes(*b"pkv1");
const HEADER_BYTES: usize = 24;
const ALIGNMENT: usize = 8;

fn checksum(file: u64, number: u64, body: &[u8]) -> u32 {
    let words = [file, number, body.len() as u64].map(u64::to_le_bytes).concat();
    crc32c::crc32c_append(crc32c::crc32c(&words), body)
}

/// The bytes of a frame.
pub(super) fn frame(file: u64, number: u64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity((HEADER_BYTES + body.len()).next_multiple_of(ALIGNMENT));
    let length = u32::try_from(body.len()).expect("a frame below 4 GiB");
    for word in [MAGIC, length, checksum(file, number, body), 0] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(body);
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    out
}

/// The frames of a file, from the first on.
pub(super) struct Frames<'a> {
    file: &'a dyn DiskFile,
    name: &'a str,
    /// The file's number.
    of: u64,
    len: u64,
    /// Where the next frame begins.
    pub(super) at: u64,
    /// Its number.
    pub(super) number: u64,
}

impl<'a> Frames<'a> {
    pub(super) fn new(file: &'a dyn DiskFile, name: &'a str, of: u64) -> Result<Self> {
        let len = file.bytes().map_err(|error| Error::io(name, "its length", error))?;
        Ok(Self { file, name, of, len, at: 0, number: 0 })
    }

    /// The body of the next frame, or `None` where no whole frame is. Error: `Damaged` if whole frames follow there.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some((body, end)) = self.read(self.at, |number| number == self.number)? {
            (self.at, self.number) = (end, self.number + 1);
            return Ok(Some(body));
        }
        let rest = self.bytes(self.at, self.len - self.at)?;
        for offset in (ALIGNMENT..rest.len()).step_by(ALIGNMENT) {
            let at = self.at + offset as u64;
            if rest[offset..].starts_with(&MAGIC.to_le_bytes())
                && self.read(at, |number| number >= self.number)?.is_some()
            {
                let what = format!("frame {} is not as it was written, and another follows at {at}", self.number);
                return Err(Error::damaged(self.name, self.at, what));
            }
        }
        Ok(None)
    }

    /// The body of a whole frame at an offset, and where it ends.
    fn read(&self, at: u64, is_wanted: impl Fn(u64) -> bool) -> Result<Option<(Vec<u8>, u64)>> {
        if self.len.saturating_sub(at) < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let header = self.bytes(at, HEADER_BYTES as u64)?;
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let number = u64::from_le_bytes(header[16..24].try_into().expect("eight bytes"));
        let (begin, length) = (at + HEADER_BYTES as u64, u64::from(word(4)));
        if word(0) != MAGIC || word(12) != 0 || !is_wanted(number) || length > self.len - begin {
            return Ok(None);
        }
        let body = self.bytes(begin, length)?;
        let is_whole = checksum(self.of, number, &body) == word(8);
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
    use super::{Frames, frame};
    use crate::store::wal::disk::Disk;
    use crate::store::{ErrorKind, SimDisk};

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
        let frames: Vec<Vec<u8>> = written.iter().zip(0..).map(|(body, number)| frame(7, number, body)).collect();
        let whole = [&frames.concat()[..], &[0; 64]].concat();
        assert_eq!(bodies(&whole).expect("sound"), written);
        let last = frames[0].len() + frames[1].len();
        for bit in 0..8 * frames.concat().len() {
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
        assert_eq!(bodies(&frame(8, 0, b"one")).expect("none"), [[0_u8; 0]; 0]);
        assert_eq!(bodies(&[frame(7, 0, b"one"), frame(7, 0, b"two")].concat()).expect("one"), [b"one"]);
    }
}
