//! Bytes that another replica sends.

use bytes::{Bytes, BytesMut};
use perdura_kv::wire::{
    Frames, get_forward, get_forwarded, get_peer_message, put_forward, put_forwarded, put_peer_message,
};

/// Most bytes of a frame in this target.
const FRAME_BYTES_MAX: usize = 1 << 16;

/// The first byte chooses: the rest is a connection's bytes, which come in parts; or a message in a
/// frame whose checksum is right. What is read is written again the same.
pub fn frames(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    if choice % 4 > 0 {
        return peer_message(choice / 4, Bytes::copy_from_slice(data));
    }
    let mut frames = Frames::default();
    for part in data.chunks(usize::from(choice / 4) + 1) {
        frames.input().extend_from_slice(part);
        loop {
            match frames.next(FRAME_BYTES_MAX) {
                Ok(Some((kind, message))) => peer_message(kind, message),
                Ok(None) => break,
                // The connection ends.
                Err(_) => return,
            }
        }
    }
}

/// Messages, requests that are passed on, and answers to them.
fn peer_message(kind: u8, message: Bytes) {
    let mut out = BytesMut::new();
    if let Ok(message) = get_peer_message(kind, message.clone()) {
        put_peer_message(&message, &mut out);
    } else if let Ok(forward) = get_forward(kind, message.clone()) {
        put_forward(&forward, &mut out);
    } else if let Ok(answer) = get_forwarded(kind, message.clone()) {
        put_forwarded(&answer, &mut out);
    } else {
        return;
    }
    let mut frames = Frames::default();
    frames.input().unsplit(out);
    let (found, again) = frames.next(usize::MAX).expect("a frame of our own").expect("all of it");
    assert_eq!((found, again), (kind, message));
}
