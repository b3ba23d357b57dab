//! A client of Redis' protocol with one connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a server may take for anything.
const PATIENCE: Duration = Duration::from_secs(10);

/// A reply, as far as our tools look at one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Text(String),
    Error(String),
    Number(i64),
    Bytes(Vec<u8>),
    Many(Vec<Reply>),
    None,
}

/// A connection.
pub struct Client {
    stream: BufReader<TcpStream>,
    line: String,
}

/// Appends a request.
pub fn put(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

impl Client {
    /// Connects to a port of this machine.
    pub fn connect(port: u16) -> io::Result<Self> {
        Self::at(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    /// Connects to an address.
    pub fn at(address: SocketAddr) -> io::Result<Self> {
        Self::connect_to(address, PATIENCE)
    }

    /// Connects to an address, and waits no longer than said for that and for each reply.
    pub fn connect_to(address: SocketAddr, patience: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        Ok(Self { stream: BufReader::new(stream), line: String::new() })
    }

    /// Sends requests that were put.
    pub fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(requests)
    }

    /// The next reply.
    pub fn reply(&mut self) -> io::Result<Reply> {
        self.line.clear();
        if self.stream.read_line(&mut self.line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = self.line.trim_end();
        let rest = text.get(1..).unwrap_or_default();
        let number = || rest.parse::<i64>().map_err(io::Error::other);
        Ok(match text.as_bytes().first() {
            Some(b'+') => Reply::Text(rest.to_owned()),
            Some(b'-') => Reply::Error(rest.to_owned()),
            Some(b':') => Reply::Number(number()?),
            Some(b'$') if number()? < 0 => Reply::None,
            Some(b'$') => {
                let mut bytes = vec![0; number()? as usize + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Bytes(bytes)
            }
            Some(b'*') => {
                let count = number()?;
                Reply::Many((0..count).map(|_| self.reply()).collect::<io::Result<_>>()?)
            }
            _ => return Err(io::Error::other(format!("not a reply that was expected: {text}"))),
        })
    }

    /// A request and its reply.
    pub fn call(&mut self, words: &[&str]) -> io::Result<Reply> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut out = Vec::new();
        put(&mut out, &words);
        self.send(&out)?;
        self.reply()
    }
}
