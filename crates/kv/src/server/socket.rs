//! Sockets of both kinds, and listening for them.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};

/// A connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    /// Of the network.
    Tcp(TcpStream),
    /// Of this machine.
    Unix(UnixStream),
}

macro_rules! either {
    ($self:expr, $socket:ident => $body:expr) => {
        match $self {
            Socket::Tcp($socket) => $body,
            Socket::Unix($socket) => $body,
        }
    };
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        either!(self, socket => socket.read(bytes))
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        either!(self, socket => socket.write(bytes))
    }

    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        either!(self, socket => socket.write_vectored(pieces))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        either!(self, socket => socket.as_fd())
    }
}

impl Socket {
    /// Begins to connect. The socket becomes writable when it is done, or has failed
    /// ([`Socket::failure`]).
    pub(super) fn connect(address: SocketAddr) -> io::Result<Socket> {
        TcpStream::connect(address).map(Socket::Tcp)
    }

    /// Has events of the socket reported under a token.
    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        either!(self, socket => socket.register(registry, token, Interest::READABLE | Interest::WRITABLE))
    }

    /// Why the socket could not connect, if so.
    pub(super) fn failure(&self) -> Option<io::Error> {
        let failure = either!(self, socket => socket.take_error());
        let is_open = match self {
            Socket::Tcp(socket) => socket.peer_addr().map(drop),
            Socket::Unix(_) => Ok(()),
        };
        failure.unwrap_or_else(Some).or(is_open.err())
    }

    /// Sends small pieces at once, and gives up a connection whose bytes nobody has acknowledged
    /// for so long.
    pub(super) fn tune(&self, silence_ms: Option<u32>) {
        let Socket::Tcp(socket) = self else { return };
        // Each is a help only: the connection works without.
        let _ = socket.set_nodelay(true);
        let _ = rustix::net::sockopt::set_socket_keepalive(socket, true);
        if let Some(silence_ms) = silence_ms {
            let _ = rustix::net::sockopt::set_tcp_user_timeout(socket, silence_ms);
        }
    }

    /// Whether the other end is on this machine.
    pub(super) fn is_local(&self) -> bool {
        match self {
            Socket::Tcp(socket) => socket.peer_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback()),
            Socket::Unix(_) => true,
        }
    }

    /// Address of the other end, as far as the network says.
    pub(super) fn remote(&self) -> String {
        match self {
            Socket::Tcp(socket) => socket.peer_addr().map_or_else(|_| "?".to_owned(), |address| address.to_string()),
            Socket::Unix(_) => "unix".to_owned(),
        }
    }
}

/// A socket that listens.
#[derive(Debug)]
pub(super) enum Listener {
    /// On the network.
    Tcp(TcpListener),
    /// On this machine, at a path that is removed in the end.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens at an address `HOST:PORT`. The error names it.
    pub(super) fn tcp(address: &str) -> io::Result<Listener> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"));
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in std::net::ToSocketAddrs::to_socket_addrs(address).map_err(named)? {
            match TcpListener::bind(address) {
                Ok(listener) => return Ok(Listener::Tcp(listener)),
                Err(error) => last = error,
            }
        }
        Err(named(last))
    }

    /// Listens at a path, in place of a socket that nobody listens at any more.
    pub(super) fn unix(path: &Path) -> io::Result<Listener> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {}: {error}", path.display()));
        match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => return Err(named(io::ErrorKind::AddrInUse.into())),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(named)?
            }
            Err(_) => {}
        }
        UnixListener::bind(path).map(|listener| Listener::Unix(listener, path.to_owned())).map_err(named)
    }

    /// The address that it listens at.
    pub(super) fn local(&self) -> String {
        match self {
            Listener::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| "?".to_owned(), |address| address.to_string())
            }
            Listener::Unix(_, path) => path.display().to_string(),
        }
    }

    /// Has events reported under a token.
    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.register(registry, token, Interest::READABLE),
            Listener::Unix(listener, _) => listener.register(registry, token, Interest::READABLE),
        }
    }

    /// The next that has connected, or `None`.
    pub(super) fn accept(&self) -> io::Result<Option<Socket>> {
        let accepted = match self {
            Listener::Tcp(listener) => listener.accept().map(|(socket, _)| Socket::Tcp(socket)),
            Listener::Unix(listener, _) => listener.accept().map(|(socket, _)| Socket::Unix(socket)),
        };
        match accepted {
            Ok(socket) => Ok(Some(socket)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // If it cannot be removed, the next start does.
            let _ = std::fs::remove_file(path);
        }
    }
}
