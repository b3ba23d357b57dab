//! Input of a connection: bytes that were read from it, and a request that waits.

use bytes::{Bytes, BytesMut};

use super::slots::weight;
use crate::resp::{Limits, Malformed, Requests};

/// Input of a connection.
#[derive(Debug, Default)]
pub(super) struct Input {
    requests: Requests,
    is_held: bool,
    parked: Option<Vec<Bytes>>,
    waits_for_room: bool,
}

impl Input {
    /// The buffer to which what was read is appended.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        self.requests.input()
    }

    /// The next request: that which waits, or one that has come whole.
    pub(super) fn next(&mut self, limits: &Limits) -> Result<Option<Vec<Bytes>>, Malformed> {
        self.parked.take().map_or_else(|| self.requests.next(limits), |request| Ok(Some(request)))
    }

    /// Bytes of all requests that were taken.
    pub(super) fn taken(&self) -> u64 {
        self.requests.taken()
    }

    /// Bytes of requests that are not taken.
    pub(super) fn bytes_held(&self) -> usize {
        self.requests.bytes_held()
    }

    /// Bytes of the request that waits.
    pub(super) fn parked_bytes(&self) -> usize {
        self.parked.as_ref().map_or(0, |request| weight(request))
    }

    /// Whether a request waits until those before it are answered.
    pub(super) fn is_parked(&self) -> bool {
        self.parked.is_some()
    }

    /// Lets a request wait until those before it are answered.
    pub(super) fn park(&mut self, request: Vec<Bytes>) {
        self.parked = Some(request);
    }

    /// Lets a request wait until the store has made room.
    pub(super) fn park_for_room(&mut self, request: Vec<Bytes>) {
        self.park(request);
        self.waits_for_room = true;
    }

    /// Gives up the request that waits.
    pub(super) fn drop_parked(&mut self) {
        self.parked = None;
    }

    /// Whether a request waits until the store has made room.
    pub(super) fn waits_for_room(&self) -> bool {
        self.waits_for_room
    }

    /// The store has made room.
    pub(super) fn end_wait_for_room(&mut self) {
        self.waits_for_room = false;
    }

    /// Whether requests have come that are not looked at: too much is under way, or one waits.
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Notes whether requests are not looked at.
    pub(super) fn set_held(&mut self, is_held: bool) {
        self.is_held = is_held;
    }
}
