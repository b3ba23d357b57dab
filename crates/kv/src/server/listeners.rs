//! Sockets that listen, for clients, for replicas and for browsers.

use std::collections::BTreeSet;
use std::io;

use slog::{Logger, debug, warn};

use super::runtime::{Port, Runtime, Source};
use super::socket::{Listener, Socket};
use crate::config::{Config, is_loopback};

/// Connections that are taken in before other events.
const ACCEPTS_MAX: usize = 128;
/// Milliseconds between two lines about connections that cannot be taken in.
const UNTAKEN_MS: u64 = 10_000;

/// The sockets that listen.
pub(super) struct Listeners {
    sockets: Vec<(Listener, Port)>,
    /// Those at which more may have connected.
    readable: BTreeSet<usize>,
    /// Whether all must be looked at though nothing has happened: a connection could not be taken.
    accepts_again: bool,
    /// When it was logged last that one could not be taken.
    untaken_ms: Option<u64>,
}

impl Listeners {
    /// Listens at all addresses of the configuration.
    pub(super) fn open(runtime: &Runtime) -> io::Result<Self> {
        let config = runtime.config();
        let mut sockets = Vec::new();
        for address in &config.clients.listen {
            sockets.push((Listener::tcp(address)?, Port::Client));
        }
        if let Some(path) = &config.clients.unix {
            sockets.push((Listener::unix(path)?, Port::Client));
        }
        sockets.push((Listener::tcp(&config.peers.listen)?, Port::Peer));
        if !config.http.listen.is_empty() {
            sockets.push((Listener::tcp(&config.http.listen)?, Port::Browser));
        }
        for (key, (listener, _)) in sockets.iter_mut().enumerate() {
            listener.register(runtime.registry(), Source::Listener.token(key as u64))?;
        }
        warn_of_open_addresses(config, runtime.log());
        Ok(Self { sockets, readable: BTreeSet::new(), accepts_again: false, untaken_ms: None })
    }

    /// The addresses of a port.
    pub(super) fn addresses(&self, wanted: Port) -> String {
        let of_it = self.sockets.iter().filter(|(_, port)| *port == wanted);
        of_it.map(|(listener, _)| listener.local()).collect::<Vec<_>>().join(" ")
    }

    /// Whether more may have connected.
    pub(super) fn is_readable(&self) -> bool {
        !self.readable.is_empty()
    }

    /// Sockets at which more may have connected.
    pub(super) fn take_readable(&mut self) -> BTreeSet<usize> {
        std::mem::take(&mut self.readable)
    }

    /// All sockets, if a connection could not be taken since the last call.
    pub(super) fn take_again(&mut self) -> std::ops::Range<usize> {
        if std::mem::take(&mut self.accepts_again) { 0..self.sockets.len() } else { 0..0 }
    }

    /// Gives connections of a socket to `take`, up to a number: the rest comes after other events.
    pub(super) fn accept(
        &mut self,
        key: usize,
        runtime: &mut Runtime,
        mut take: impl FnMut(Socket, Port, &mut Runtime) -> io::Result<()>,
    ) {
        self.readable.insert(key);
        for _ in 0..ACCEPTS_MAX {
            let Some((listener, port)) = self.sockets.get(key) else { return };
            match listener.accept() {
                Ok(None) => {
                    self.readable.remove(&key);
                    return;
                }
                Ok(Some(socket)) => {
                    let from = socket.remote();
                    if let Err(error) = take(socket, *port, runtime) {
                        debug!(runtime.log(), "a connection failed at once"; "from" => from, "why" => error.to_string());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Mostly there is no descriptor left. Others that close make room; the next
                    // tick looks again.
                    self.accepts_again = true;
                    self.readable.remove(&key);
                    let now_ms = runtime.now_ms();
                    if self.untaken_ms.is_none_or(|logged_ms| now_ms >= logged_ms + UNTAKEN_MS) {
                        self.untaken_ms = Some(now_ms);
                        warn!(runtime.log(), "a connection cannot be taken in"; "why" => error.to_string());
                    }
                    return;
                }
            }
        }
    }

    /// A socket of a port that listens on the network, and its number.
    #[cfg(test)]
    pub(super) fn find(&self, wanted: Port) -> (usize, std::net::SocketAddr) {
        let number = self.sockets.iter().position(|(_, port)| *port == wanted).expect("a listener");
        let Listener::Tcp(listener) = &self.sockets[number].0 else { panic!("not of the network") };
        (number, listener.local_addr().expect("an address"))
    }
}

/// Logs a warning for each address that is open to everybody who reaches it.
fn warn_of_open_addresses(config: &Config, log: &Logger) {
    let (clients, peers) = (&config.clients, &config.peers);
    if peers.tls.is_none() && !is_loopback(&peers.listen) {
        warn!(log, "every machine that reaches the address for replicas may do all: set peers.tls, or keep others from it";
            "address" => &peers.listen);
    }
    if peers.tls.is_some() && peers.names.is_empty() {
        warn!(
            log,
            "every holder of a certificate of peers.tls.authorities may operate the cluster: use an authority of its own, or set \
             peers.names"
        );
    }
    if !clients.protected && clients.listen.iter().any(|address| !is_loopback(address)) {
        warn!(
            log,
            "clients.protected is off: while the user default has no password, every machine that reaches the address for clients may do all"
        );
    }
}
