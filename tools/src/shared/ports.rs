//! Ports of the loopback interface for servers that tests and benchmarks start.

use std::io::{Error, ErrorKind, Result};
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

/// The first of the ports, and the one behind the last: below those that Linux gives to outgoing
/// connections and to listeners at port 0.
const PORTS: std::ops::Range<u16> = 10_000..30_000;

/// Ports that one process has for its servers.
const BLOCK: u16 = 1_000;

/// A block of ports that no other process takes one of, as long as this one listens at the first.
struct Block {
    _first: TcpListener,
    rest: std::ops::Range<u16>,
}

impl Block {
    fn take() -> Option<Self> {
        PORTS.step_by(usize::from(BLOCK)).find_map(|first| {
            let listener = TcpListener::bind(("127.0.0.1", first)).ok()?;
            Some(Self { _first: listener, rest: first + 1..first + BLOCK })
        })
    }
}

/// A port that nobody listens at, and that no server of another test is given, be it between this
/// call and the start of its own server or while that is down.
pub fn free_port() -> Result<u16> {
    static OWN: Mutex<Option<Block>> = Mutex::new(None);
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if own.is_none() {
        *own = Block::take();
    }
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = own.as_mut().and_then(|block| block.rest.find(is_free));
    port.ok_or_else(|| Error::new(ErrorKind::AddrInUse, "no port of 127.0.0.1 from 10000 to 29999 is left for a test"))
}
