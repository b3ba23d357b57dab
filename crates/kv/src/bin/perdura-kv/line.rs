//! A connection to a running replica, at its address for replicas.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use perdura_kv::config::Config;
use perdura_kv::server::admin::{AdminRequest, AdminResponse};
use perdura_kv::server::handshake::{Handshake, Hello, RESPONSE_BYTES_MAX, get_handshake, put_handshake};
use perdura_kv::server::tls::TlsConnector;
use perdura_kv::wire::Frames;
use rustls::{Connection, StreamOwned};

use super::outcome::{Failure, Outcome};

/// How long a replica may take to connect, and to answer.
const CONNECT: Duration = Duration::from_secs(3);
const ANSWER: Duration = Duration::from_secs(20);

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// The connection.
pub(crate) struct Line {
    address: String,
    stream: Box<dyn Stream>,
    frames: Frames,
    /// The cluster of the replica.
    pub cluster: u128,
}

impl Line {
    /// TlsConnector to a replica and is let in.
    pub(crate) fn open(config: &Config, address: &str) -> Outcome<Line> {
        let named =
            |error: std::io::Error| Failure::refused(format!("{address}: {error}: is a replica running there?"));
        let mut last = None;
        let mut socket = None;
        for at in address.to_socket_addrs().map_err(named)? {
            match TcpStream::connect_timeout(&at, CONNECT) {
                Ok(connected) => socket = Some(connected),
                Err(error) => last = Some(error),
            }
        }
        let socket = socket.ok_or_else(|| named(last.unwrap_or_else(|| std::io::ErrorKind::NotFound.into())))?;
        socket.set_read_timeout(Some(ANSWER)).and_then(|()| socket.set_nodelay(true)).map_err(named)?;
        let stream: Box<dyn Stream> = match &config.peers.tls {
            None => Box::new(socket),
            Some(tls) => {
                let made = TlsConnector::new(tls).map_err(Failure::refused)?.connection(address).map_err(named)?;
                match made {
                    Connection::Client(connection) => Box::new(StreamOwned::new(connection, socket)),
                    Connection::Server(_) => return Err(Failure::refused("a connection of the wrong side")),
                }
            }
        };
        let mut line = Line { address: address.to_owned(), stream, frames: Frames::default(), cluster: 0 };
        line.say(&Handshake::Hello(Hello::default()))?;
        match line.hear()? {
            Handshake::Welcome { cluster, .. } => line.cluster = cluster,
            Handshake::Refusal(why) => return Err(line.failed(&why)),
            _ => return Err(line.failed("it says what no replica says")),
        }
        Ok(line)
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::refused(format!("{}: {why}", self.address))
    }

    fn say(&mut self, word: &Handshake) -> Outcome<()> {
        let mut out = BytesMut::new();
        put_handshake(word, &mut out);
        let said = self.stream.write_all(&out).and_then(|()| self.stream.flush());
        said.map_err(|error| self.failed(&error.to_string()))
    }

    fn hear(&mut self) -> Outcome<Handshake> {
        let mut bytes = vec![0; 64 << 10];
        loop {
            let next = self.frames.next(RESPONSE_BYTES_MAX + 2).map_err(|error| self.failed(&error.to_string()))?;
            if let Some((kind, bytes)) = next {
                return get_handshake(kind, bytes).map_err(|error| self.failed(&error.to_string()));
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(self.failed("it has closed the connection")),
                Ok(count) => self.frames.input().extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    return Err(self.failed("it does not answer in time"));
                }
                Err(error) => return Err(self.failed(&error.to_string())),
            }
        }
    }

    /// The bytes of an answer.
    pub(crate) fn answer_bytes(&mut self) -> Outcome<Bytes> {
        match self.hear()? {
            Handshake::AdminResponse(bytes) => Ok(bytes),
            Handshake::Refusal(why) => Err(self.failed(&why)),
            _ => Err(self.failed("it says what no replica says")),
        }
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&mut self, question: &AdminRequest) -> Outcome<AdminResponse> {
        let text = serde_json::to_vec(question).map_err(|error| self.failed(&error.to_string()))?;
        self.say(&Handshake::AdminRequest(text.into()))?;
        let bytes = self.answer_bytes()?;
        serde_json::from_slice(&bytes).map_err(|error| self.failed(&format!("an answer of another version: {error}")))
    }
}

/// How often a question that cannot be answered now is asked again, and after how long.
pub(crate) const TRIES: u32 = 100;
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// Asks the leader, beginning with the replica at an address. Returns the cluster.
pub(crate) fn ask_leader(config: &Config, address: &str, question: &AdminRequest) -> Outcome<u128> {
    let mut next = address.to_owned();
    let mut why = String::new();
    for _ in 0..TRIES {
        let answer = match Line::open(config, &next) {
            Ok(mut line) => {
                let cluster = line.cluster;
                match line.ask(question)? {
                    AdminResponse::Done => return Ok(cluster),
                    answer => answer,
                }
            }
            // The leader that was named may just have gone.
            Err(failure) if next != address => AdminResponse::Busy { why: failure.text },
            Err(failure) => return Err(failure),
        };
        match answer {
            AdminResponse::Elsewhere { leader, peer } if leader != 0 && !peer.is_empty() && peer != next => {
                next = peer;
                continue;
            }
            AdminResponse::Elsewhere { .. } => why = "no leader is known".into(),
            AdminResponse::Busy { why: now } => why = now,
            AdminResponse::Failed { why } => return Err(Failure::refused(format!("{next}: {why}"))),
            _ => return Err(Failure::refused(format!("{next}: an answer to another question"))),
        }
        address.clone_into(&mut next);
        std::thread::sleep(PAUSE);
    }
    Err(Failure::refused(format!("{address}: {why}; try again later")))
}
