//! The state that is replicated: how keys of clients lie in an ordered map.

pub mod draft;
pub mod head;
pub mod key;
mod listings;
pub mod memory;
pub mod session;
pub mod sweep;
