//! Messages between replicas as bytes of a connection.
//!
//! A frame has a length, a checksum, a version and a kind; what is in it is bounded and checked
//! field by field. A connection that brings anything else ends. No byte from the network reaches a
//! decoder that was generated for another purpose.

mod forward;
mod frame;
mod message;
mod peer_message;
mod send_queue;

pub use forward::{
    FORWARD_BYTES_MAX, Forward, Forwarded, ForwardedCommand, REPLY_BYTES_MAX, get_forward, get_forwarded, put_forward,
    put_forwarded,
};
pub use frame::{FRAME_BYTES_MAX, FrameError, Frames, put_frame};
pub use peer_message::{Chunk, Fetch, PeerMessage, get_peer_message, put_peer_message, queue_peer_message};
pub use send_queue::SendQueue;
