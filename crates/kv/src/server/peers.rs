//! Other replicas: the frames before messages (`handshake`), a link to each (`dial`, `links`), the
//! link by which requests are passed on (`forwarder`), connections from them and from operators
//! (`inbound`), and their addresses (`directory`).

pub mod dial;
pub mod directory;
pub mod forwarder;
pub mod handshake;
pub mod inbound;
pub mod links;
