//! The state that is replicated: how keys of clients lie in an ordered map.

pub(crate) mod draft;
pub(crate) mod head;
pub(crate) mod key;
mod listings;
pub(crate) mod memory;
pub(crate) mod session;
pub(crate) mod sweep;
