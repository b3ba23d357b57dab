//! Frames: where a message begins and ends, and that it has come as it was sent.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use perdura_pmem::checksum::crc32c;

use crate::codec::{Malformed, Read, Reader};

/// Version of the protocol between replicas.
pub(super) const VERSION: u8 = 1;
/// Most bytes behind a checksum: an entry of the largest request, and what it takes to say it.
pub const FRAME_BYTES_MAX: usize = 97 << 20;
/// Bytes of a frame's length and checksum.
pub(super) const HEADER_BYTES: usize = 8;
/// Most bytes that room is made for at once before they have come: nobody may send them.
const GROWTH_BYTES: usize = 1 << 20;

/// Why a connection's bytes cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A frame is longer than any may be, or too short to be one.
    Length(u32),
    /// A frame is not as it was sent.
    Checksum,
    /// The other side speaks another version.
    Version(u8),
    /// A message is not what its kind says.
    Message(Malformed),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Length(length) => write!(f, "a frame of {length} bytes: 2 to {FRAME_BYTES_MAX} are allowed"),
            FrameError::Checksum => f.write_str("a frame with a wrong checksum"),
            FrameError::Version(version) => {
                write!(f, "version {version} of the protocol between replicas; this one speaks {VERSION}")
            }
            FrameError::Message(malformed) => write!(f, "a message in which {malformed}"),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<Malformed> for FrameError {
    fn from(malformed: Malformed) -> Self {
        FrameError::Message(malformed)
    }
}

/// Appends a frame of a kind, whose message `put` appends.
///
/// # Panics
/// If the message is longer than a frame may be.
///
/// | bytes | |
/// |---|---|
/// | 4 | number of bytes behind the checksum |
/// | 4 | CRC32C of those |
/// | 1 | version of the protocol |
/// | 1 | kind |
/// | rest | the message, by its kind |
pub fn put_frame(out: &mut BytesMut, kind: u8, put: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    begin_frame(out, kind);
    put(out);
    let body = &out[start + HEADER_BYTES..];
    let (length, checksum) = (body.len(), crc32c(body));
    end_frame(&mut out[start..], length, checksum);
}

/// Appends what a frame of a kind has before its message. Length and checksum are not known yet.
pub(super) fn begin_frame(out: &mut BytesMut, kind: u8) {
    out.put_bytes(0, HEADER_BYTES);
    out.put_u8(VERSION);
    out.put_u8(kind);
}

/// Writes length and checksum of what is behind them into a frame.
pub(super) fn end_frame(frame: &mut [u8], length: usize, checksum: u32) {
    assert!(length <= FRAME_BYTES_MAX, "a message of {length} bytes");
    frame[..4].copy_from_slice(&(length as u32).to_le_bytes());
    frame[4..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// The frames of a connection. It holds one that is not whole, and what was put in behind it.
#[derive(Debug, Default)]
pub struct Frames {
    input: BytesMut,
}

impl Frames {
    /// The buffer to which the bytes of the connection are appended.
    pub fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// The kind and message of the next frame, or `None` until it is whole. `bytes_max` bounds it
    /// further: a peer that has not said who it is gets little room.
    pub fn next(&mut self, bytes_max: usize) -> Result<Option<(u8, Bytes)>, FrameError> {
        let Some((header, _)) = self.input.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [length, checksum] = [0, 4].map(|at| u32::from_le_bytes(*header[at..].first_chunk().expect("four bytes")));
        if !(2..=bytes_max.min(FRAME_BYTES_MAX)).contains(&(length as usize)) {
            return Err(FrameError::Length(length));
        }
        let missing = (HEADER_BYTES + length as usize).saturating_sub(self.input.len());
        if missing > 0 {
            // At once, so that a long frame is not copied each time that its buffer grows.
            self.input.reserve(missing.min(GROWTH_BYTES));
            return Ok(None);
        }
        self.input.advance(HEADER_BYTES);
        let body = self.input.split_to(length as usize).freeze();
        if crc32c(&body) != checksum {
            return Err(FrameError::Checksum);
        }
        let (version, kind, message) = parts(body)?;
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        Ok(Some((kind, message)))
    }
}

fn parts(body: Bytes) -> Read<(u8, u8, Bytes)> {
    let mut reader = Reader::new(body);
    Ok((reader.u8("the version")?, reader.u8("the kind")?, reader.rest()))
}

#[cfg(test)]
mod tests {
    use super::{Bytes, BytesMut, FRAME_BYTES_MAX, FrameError, Frames, GROWTH_BYTES, crc32c, put_frame};
    use bytes::BufMut;

    fn frame(kind: u8, message: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        put_frame(&mut out, kind, |out| out.put_slice(message));
        out.to_vec()
    }

    #[test]
    fn frames_come_out_whole_however_they_are_cut() {
        let stream = [frame(1, b"one"), frame(2, b""), frame(3, &[7; 100])].concat();
        for cut in 1..=stream.len() {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for piece in stream.chunks(cut) {
                frames.input().extend_from_slice(piece);
                while let Some(frame) = frames.next(FRAME_BYTES_MAX).expect("a frame") {
                    found.push(frame);
                }
            }
            let wanted =
                [(1, &b"one"[..]), (2, b""), (3, &[7; 100])].map(|(kind, message)| (kind, Bytes::from(message)));
            assert_eq!(found, wanted, "{cut}");
        }
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let sent = frame(1, b"message");
        for bit in 0..8 * sent.len() {
            let mut frames = Frames::default();
            frames.input().extend_from_slice(&sent);
            frames.input()[bit / 8] ^= 1 << (bit % 8);
            // A length that has grown waits for bytes that may come.
            assert!(!matches!(frames.next(FRAME_BYTES_MAX), Ok(Some(_))), "bit {bit}");
        }
    }

    /// Hazard: who only says that long frames come takes the memory.
    #[test]
    fn a_length_that_is_only_said_takes_little_memory() {
        let mut frames = Frames::default();
        frames.input().put_u64_le(FRAME_BYTES_MAX as u64);
        assert_eq!(frames.next(FRAME_BYTES_MAX), Ok(None));
        assert!(frames.input().capacity() <= 2 * GROWTH_BYTES);
    }

    #[test]
    fn a_frame_that_is_too_long_or_of_another_version_ends_the_connection() {
        let next = |bytes: &[u8], bytes_max| {
            let mut frames = Frames::default();
            frames.input().extend_from_slice(bytes);
            frames.next(bytes_max)
        };
        assert_eq!(next(&[255; 8], usize::MAX), Err(FrameError::Length(u32::MAX)));
        assert_eq!(next(&[1, 0, 0, 0, 0, 0, 0, 0], usize::MAX), Err(FrameError::Length(1)));
        assert_eq!(next(&frame(1, &[0; 100]), 50), Err(FrameError::Length(102)));
        let mut other = frame(1, b"");
        other[8] = 9;
        let checksum = crc32c(&other[8..]).to_le_bytes();
        other[4..8].copy_from_slice(&checksum);
        assert_eq!(next(&other, usize::MAX), Err(FrameError::Version(9)));
    }
}
