//! Transfer of a map's whole content: a snapshot of it ([`snapshot`]), the stream that carries it
//! ([`stream`]), and the load that puts it in the place of another ([`load`], [`content`]).

pub(crate) mod content;
pub(crate) mod load;
pub(crate) mod snapshot;
pub(crate) mod stream;
