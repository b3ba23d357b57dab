//! Services that every part of a server uses: the configuration, the log, the clock, events, and
//! keys of connections.

use std::io;
use std::time::Duration;

use mio::{Events, Poll, Registry, Token, Waker};
use slog::{Logger, warn};

use super::clock::Clock;
use super::refusals::Refusals;
use crate::config::Config;

/// Purpose of a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    /// Clients.
    Client,
    /// Replicas and operators.
    Peer,
    /// Browsers.
    Browser,
}

impl Port {
    /// Its name in the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Port::Client => "clients",
            Port::Peer => "peers",
            Port::Browser => "http",
        }
    }
}

/// Source of a poll event. The number of a token is this and a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Listener,
    Client,
    Link,
    Inbound,
    Browser,
    Signal,
    Forwards,
    Store,
}

const SOURCES: [Source; 8] = [
    Source::Listener,
    Source::Client,
    Source::Link,
    Source::Inbound,
    Source::Browser,
    Source::Signal,
    Source::Forwards,
    Source::Store,
];
const SOURCE_SHIFT: u32 = 56;

impl Source {
    /// The token of a key.
    pub(super) fn token(self, key: u64) -> Token {
        Token(((self as u64) << SOURCE_SHIFT | key) as usize)
    }

    /// Source of a token, and its key.
    pub(super) fn of(token: Token) -> (Source, u64) {
        let word = token.0 as u64;
        (SOURCES[(word >> SOURCE_SHIFT) as usize % SOURCES.len()], word & ((1 << SOURCE_SHIFT) - 1))
    }
}

/// The services.
pub(super) struct Runtime {
    config: Config,
    log: Logger,
    clock: Clock,
    poll: Poll,
    /// The last key of a link, a connection or a browser. None is used twice.
    last_key: u64,
    /// Refused connections, by port.
    refusals: [Refusals; 3],
}

impl Runtime {
    /// The services under a configuration. Time begins now.
    pub(super) fn new(config: Config, log: Logger) -> io::Result<Self> {
        let (clock, poll, refusals) = (Clock::start(), Poll::new()?, Default::default());
        Ok(Self { config, log, clock, poll, last_key: 0, refusals })
    }

    /// The configuration.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// The log for operators.
    pub(super) fn log(&self) -> &Logger {
        &self.log
    }

    /// Registry of the sockets whose events are waited for.
    pub(super) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// A call that ends the wait for events, from another thread: the store has something to say.
    pub(super) fn wake(&self) -> io::Result<Box<dyn Fn() + Send>> {
        let waker = Waker::new(self.poll.registry(), Source::Store.token(0))?;
        // One that fails is made up for by the next tick.
        Ok(Box::new(move || drop(waker.wake())))
    }

    /// Waits for events, at most for so long.
    pub(super) fn wait(&mut self, events: &mut Events, most_us: u64) -> io::Result<()> {
        match self.poll.poll(events, Some(Duration::from_micros(most_us))) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Microseconds since the start.
    pub(super) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// Milliseconds since the start.
    pub(super) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// A key that none has had.
    pub(super) fn key(&mut self) -> u64 {
        self.last_key += 1;
        self.last_key
    }

    /// The key that was given last.
    #[cfg(test)]
    pub(super) fn last_key(&self) -> u64 {
        self.last_key
    }

    /// Logs that a connection was refused or closed, but not each if there are many.
    pub(super) fn refuse(&mut self, port: Port, from: &str, why: &str) {
        if let Some(left_out) = self.refusals[port as usize].note(self.clock.now_ms()) {
            warn!(self.log, "refused a connection"; "at" => port.name(), "from" => from, "why" => why, "left_out" => left_out);
        }
    }

    /// Logs how many refused connections have no line of their own.
    pub(super) fn log_refusals(&mut self) {
        let now_ms = self.clock.now_ms();
        for port in [Port::Client, Port::Peer, Port::Browser] {
            if let Some(count) = self.refusals[port as usize].take_left_out(now_ms) {
                warn!(self.log, "refused further connections"; "at" => port.name(), "count" => count);
            }
        }
    }
}
