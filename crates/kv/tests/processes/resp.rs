//! A client of one connection.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Text(String),
    Error(String),
    Number(i64),
    Bytes(Vec<u8>),
    None,
    Array(Vec<Reply>),
}

/// A connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

pub fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

pub fn read_reply(stream: &mut impl BufRead) -> io::Result<Reply> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let text = line.trim_end();
    let (kind, rest) = text.split_at(1);
    let number = || rest.parse::<i64>().map_err(io::Error::other);
    Ok(match kind {
        "+" => Reply::Text(rest.into()),
        "-" => Reply::Error(rest.into()),
        ":" => Reply::Number(number()?),
        "$" if number()? < 0 => Reply::None,
        "$" => {
            let mut bytes = vec![0; number()? as usize + 2];
            stream.read_exact(&mut bytes)?;
            bytes.truncate(bytes.len() - 2);
            Reply::Bytes(bytes)
        }
        "*" => Reply::Array((0..number()?).map(|_| read_reply(stream)).collect::<io::Result<_>>()?),
        _ => return Err(io::Error::other(format!("no reply: {text}"))),
    })
}

impl Client {
    pub fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), Duration::from_secs(2))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    pub fn call(&mut self, words: &[&str]) -> io::Result<Reply> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.stream.get_mut().write_all(&request(&words))?;
        read_reply(&mut self.stream)
    }
}
