//! The place of a part in the stream.

/// Bytes of groups that were placed in the stream before.
pub(crate) type Lsn = u64;
