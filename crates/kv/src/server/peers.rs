//! Other replicas: the frames before messages (`handshake`), a link to each (`dial`, `links`), the
//! link by which requests are passed on (`forwarder`), connections from them and from operators
//! (`inbound`), and their addresses (`directory`).

pub(super) mod dial;
pub(super) mod directory;
pub(super) mod forwarder;
pub mod handshake;
pub(super) mod inbound;
pub(super) mod links;
