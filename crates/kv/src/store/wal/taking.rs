//! A state that was received whole, and takes the old one's place. It is written out a part at a
//! time, while log and state go on as they are. Then one new log and one new name put it in force.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::super::ring::Base;
use super::checkpoint::Checkpoint;

/// A state that is being put in force.
pub(super) struct Taking {
    pub(super) checkpoint: Checkpoint,
    pub(super) base: Base,
    pub(super) pairs: BTreeMap<Bytes, Bytes>,
    /// Bytes of DRAM that the pairs take.
    pub(super) bytes: u64,
}
