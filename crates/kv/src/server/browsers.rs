//! Connections of browsers, and of other programs that ask by HTTP.

use std::collections::BTreeMap;
use std::io;

use mio::event::Event;

use super::channel::Channel;
use super::http::{Browser, Response};
use super::runtime::Port;
use super::runtime::{Runtime, Source};
use super::socket::Socket;

/// Most connections.
pub(super) const BROWSERS_MAX: usize = 64;

/// The connections.
#[derive(Default)]
pub(super) struct Browsers {
    connections: BTreeMap<u64, Browser>,
}

impl Browsers {
    /// Takes a connection in. The oldest is closed if there are too many.
    pub(super) fn accept(&mut self, socket: Socket, runtime: &mut Runtime) -> io::Result<()> {
        let key = runtime.key();
        if self.connections.len() >= BROWSERS_MAX
            && let Some((_, oldest)) = self.connections.pop_first()
        {
            runtime.refuse(Port::Browser, &oldest.from(), "too many connections: the oldest is closed");
        }
        let channel = Channel::new(socket, None, runtime.registry(), Source::Browser.token(key))?;
        self.connections.insert(key, Browser::new(channel, runtime.now_ms()));
        Ok(())
    }

    /// Something has happened to a socket.
    pub(super) fn happened(&mut self, key: u64, event: &Event) {
        if let Some(browser) = self.connections.get_mut(&key) {
            browser.happened(event);
        }
    }

    /// Goes on with a connection, whose request `answer` answers.
    pub(super) fn go_on(
        &mut self,
        key: u64,
        scratch: &mut [u8],
        names: &[String],
        answer: impl FnOnce(&str) -> Response,
    ) {
        let Some(browser) = self.connections.get_mut(&key) else { return };
        if !matches!(browser.go_on(scratch, names, answer), Ok(false)) {
            self.connections.remove(&key);
        }
    }

    /// Closes connections whose time is over.
    pub(super) fn close_late(&mut self, now_ms: u64) {
        self.connections.retain(|_, browser| !browser.is_late(now_ms));
    }

    /// Number of connections.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }
}
