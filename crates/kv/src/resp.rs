//! The protocol of Redis clients, RESP2 and RESP3: requests out of bytes, replies into bytes.
//!
//! Every byte that comes in is untrusted. A request is bounded in arguments and bytes before
//! anything is kept of it, and its parser looks at no byte twice, however the bytes are cut into
//! packets.

mod line;
mod reply;
mod request;

pub(crate) use reply::{Protocol, Reply};
pub use request::{Limits, Malformed, Requests};
