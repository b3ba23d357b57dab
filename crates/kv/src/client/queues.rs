//! Lists of connections that something is to be done for.

use std::collections::BTreeSet;

use super::connection::Connection;

/// The lists.
#[derive(Debug, Default)]
pub(super) struct Queues {
    /// Clients that the event loop must look at.
    woken: Vec<u32>,
    /// Connections of what other replicas have passed on that may be answered.
    served: Vec<u32>,
    /// Connections with requests that were held up.
    held: Vec<u32>,
    /// Connections with a request that waits until the store has made room.
    short: BTreeSet<u32>,
    /// Connections in WAIT.
    waiting: Vec<u32>,
}

impl Queues {
    /// Writes what can be written of the replies, and has the event loop look at a connection.
    /// Returns how many bytes were written.
    pub(super) fn wake(&mut self, connection: &mut Connection) -> usize {
        let output = connection.output.buffer_mut();
        let before = output.len();
        connection.slots.write(output);
        let written = output.len() - before;
        if connection.lifecycle.wake() {
            let list = if connection.proxied.is_none() { &mut self.woken } else { &mut self.served };
            list.push(connection.token());
        }
        written
    }

    /// Has the event loop look at a connection that is closed.
    pub(super) fn wake_killed(&mut self, token: u32) {
        self.woken.push(token);
    }

    /// Clients that the event loop must look at.
    pub(super) fn take_woken(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.woken)
    }

    /// Connections of what other replicas have passed on that may be answered.
    pub(super) fn take_served(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.served)
    }

    /// Requests of connections were held up: the next step goes on with them.
    pub(super) fn hold(&mut self, tokens: impl IntoIterator<Item = u32>) {
        self.held.extend(tokens);
    }

    /// Whether requests were held up.
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Connections with requests that were held up.
    pub(super) fn take_held(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.held)
    }

    /// A connection waits until the store has made room.
    pub(super) fn wait_for_room(&mut self, token: u32) {
        self.short.insert(token);
    }

    /// Connections that have waited for room.
    pub(super) fn take_short(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.short)
    }

    /// A connection is in WAIT.
    pub(super) fn wait(&mut self, token: u32) {
        self.waiting.push(token);
    }

    /// Number of connections in WAIT.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Connections in WAIT.
    pub(super) fn take_waiting(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.waiting)
    }
}
