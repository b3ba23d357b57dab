//! How two replicas find out whether they belong together, before any message.
//!
//! The connecting side says which replica it is, and which it means to reach; the other side
//! answers that it is right, or why not. Then messages go one way; each replica connects to each
//! other. All of it goes in the frames of `wire`, whose version stands before everything else.
//!
//! | kind | message |
//! |---|---|
//! | 32 hello | magic (8), cluster (16), replica (8), meant (8), start (8), two addresses |
//! | 33 welcome | cluster (16), replica (8) |
//! | 34 refusal | a text |
//! | 35 request, 36 response | of operators (server/admin) |
//! | 37 hello of a connection for clients' requests (wire/forward.rs) | as 32 |
//!
//! The addresses are those of the connecting replica for peers and for clients.
//! A replica of 0 is an operator, a cluster or a meant replica of 0 any. `start` is drawn at each
//! start: two processes that have the same replica's data differ in it.

use bytes::{BufMut, Bytes, BytesMut};

use crate::codec::{Malformed, Read, Reader, put_bytes};
use crate::config::ADDRESS_BYTES_MAX;
use crate::wire::put_frame;

const MAGIC: [u8; 8] = *b"PERDURKV";
const HELLO: u8 = 32;
const WELCOME: u8 = 33;
const REFUSAL: u8 = 34;
const REQUEST: u8 = 35;
const RESPONSE: u8 = 36;
const HELLO_OF_FORWARDS: u8 = 37;

/// Most bytes of a frame before authentication.
pub(crate) const UNAUTHENTICATED_BYTES_MAX: usize = 4096;
/// Most bytes of a request of an operator.
pub(crate) const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a response to an operator.
pub const RESPONSE_BYTES_MAX: usize = 4 << 20;
const REFUSAL_BYTES_MAX: usize = 1024;

/// Where a replica is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// By other replicas.
    pub peer: String,
    /// By clients.
    pub client: String,
}

impl Addresses {
    /// Appends them.
    pub(crate) fn put(&self, out: &mut BytesMut) {
        put_bytes(out, self.peer.as_bytes());
        put_bytes(out, self.client.as_bytes());
    }

    /// Those that were put.
    pub(crate) fn get(reader: &mut Reader) -> Read<Self> {
        let (peer, client) = (reader.bytes("the address of peers")?, reader.bytes("the address of clients")?);
        let text = |bytes: Bytes| match str::from_utf8(&bytes) {
            Ok(text) if text.len() <= ADDRESS_BYTES_MAX && text.chars().all(|c| c.is_ascii_graphic()) => {
                Ok(text.to_owned())
            }
            _ => Err(Malformed { field: "an address" }),
        };
        Ok(Self { peer: text(peer)?, client: text(client)? })
    }
}

/// Identity of the connecting side, and the replica it means to reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The cluster, or 0 for any.
    pub cluster: u128,
    /// The replica that connects, or 0 for an operator.
    pub replica: u64,
    /// The replica that it means, or 0 for any.
    pub meant: u64,
    /// Drawn at its start.
    pub start: u64,
    /// Where it is reached.
    pub addresses: Addresses,
}

/// Frames before messages, and those of operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// The first frame of the connecting side.
    Hello(Hello),
    /// The first frame of a replica that connects to pass on requests of clients.
    Forwards(Hello),
    /// They belong together.
    Welcome {
        /// The cluster.
        cluster: u128,
        /// The replica.
        replica: u64,
    },
    /// They do not, and why.
    Refusal(String),
    /// A request of an operator.
    AdminRequest(Bytes),
    /// A response to an operator.
    AdminResponse(Bytes),
}

/// Appends the frame of a handshake.
pub fn put_handshake(handshake: &Handshake, out: &mut BytesMut) {
    match handshake {
        Handshake::Hello(hello) => put_frame(out, HELLO, |out| put_hello(hello, out)),
        Handshake::Forwards(hello) => put_frame(out, HELLO_OF_FORWARDS, |out| put_hello(hello, out)),
        Handshake::Welcome { cluster, replica } => put_frame(out, WELCOME, |out| {
            out.put_u128_le(*cluster);
            out.put_u64_le(*replica);
        }),
        Handshake::Refusal(why) => put_frame(out, REFUSAL, |out| {
            out.put_slice(&why.as_bytes()[..why.floor_char_boundary_at(REFUSAL_BYTES_MAX)]);
        }),
        Handshake::AdminRequest(bytes) => put_frame(out, REQUEST, |out| out.put_slice(bytes)),
        Handshake::AdminResponse(bytes) => put_frame(out, RESPONSE, |out| out.put_slice(bytes)),
    }
}

fn put_hello(hello: &Hello, out: &mut BytesMut) {
    out.put_slice(&MAGIC);
    out.put_u128_le(hello.cluster);
    [hello.replica, hello.meant, hello.start].into_iter().for_each(|word| out.put_u64_le(word));
    hello.addresses.put(out);
}

/// The end of the last character within a number of bytes.
trait Boundary {
    fn floor_char_boundary_at(&self, most: usize) -> usize;
}

impl Boundary for str {
    fn floor_char_boundary_at(&self, most: usize) -> usize {
        (0..=most.min(self.len())).rev().find(|at| self.is_char_boundary(*at)).unwrap_or(0)
    }
}

/// The handshake in a frame of a kind.
pub fn get_handshake(kind: u8, bytes: Bytes) -> Read<Handshake> {
    let mut reader = Reader::new(bytes);
    let handshake = match kind {
        HELLO | HELLO_OF_FORWARDS => {
            let magic = reader.u64("the magic")?.to_le_bytes();
            if magic != MAGIC {
                return Err(Malformed { field: "the magic" });
            }
            let cluster = reader.u128("the cluster")?;
            let (replica, meant) = (reader.u64("the replica")?, reader.u64("the replica that is meant")?);
            let start = reader.u64("the start")?;
            let addresses = Addresses::get(&mut reader)?;
            let hello = Hello { cluster, replica, meant, start, addresses };
            if kind == HELLO { Handshake::Hello(hello) } else { Handshake::Forwards(hello) }
        }
        WELCOME => Handshake::Welcome { cluster: reader.u128("the cluster")?, replica: reader.u64("the replica")? },
        REFUSAL => return Ok(Handshake::Refusal(String::from_utf8_lossy(&reader.rest()).into_owned())),
        REQUEST => return Ok(Handshake::AdminRequest(reader.rest())),
        RESPONSE => return Ok(Handshake::AdminResponse(reader.rest())),
        _ => return Err(Malformed { field: "the kind of a frame before messages" }),
    };
    reader.end()?;
    Ok(handshake)
}

#[cfg(test)]
mod tests {
    use super::{Addresses, Handshake, Hello, get_handshake, put_handshake};
    use crate::wire::Frames;
    use bytes::{Bytes, BytesMut};

    fn handshakes() -> Vec<Handshake> {
        let addresses = Addresses { peer: "host:1".into(), client: "[::1]:2".into() };
        let hello = Hello { cluster: 1 << 100, replica: 2, meant: 3, start: 4, addresses };
        vec![
            Handshake::Hello(hello.clone()),
            Handshake::Forwards(hello),
            Handshake::Welcome { cluster: 5, replica: 6 },
            Handshake::Refusal("no".into()),
            Handshake::AdminRequest(Bytes::from_static(b"{}")),
            Handshake::AdminResponse(Bytes::new()),
        ]
    }

    #[test]
    fn handshakes_come_back() {
        for handshake in handshakes() {
            let mut frames = Frames::default();
            put_handshake(&handshake, frames.input());
            let (kind, bytes) = frames.next(1000).expect("sound").expect("whole");
            assert_eq!(get_handshake(kind, bytes), Ok(handshake));
        }
    }

    #[test]
    fn a_hello_that_is_cut_or_has_another_magic_is_refused() {
        let mut out = BytesMut::new();
        put_handshake(&handshakes()[0], &mut out);
        let whole = out.freeze().slice(10..);
        for cut in 0..whole.len() {
            assert!(get_handshake(32, whole.slice(..cut)).is_err(), "{cut}");
        }
        assert!(get_handshake(32, [&b"REDIS000"[..], &whole[8..]].concat().into()).is_err());
    }

    #[test]
    fn a_long_refusal_is_cut_between_characters() {
        let mut frames = Frames::default();
        put_handshake(&Handshake::Refusal("ä".repeat(1000)), frames.input());
        let (kind, bytes) = frames.next(4096).expect("sound").expect("whole");
        assert_eq!(get_handshake(kind, bytes), Ok(Handshake::Refusal("ä".repeat(512))));
    }
}
