//! Replies into the bytes of a connection.

use bytes::{BufMut, Bytes, BytesMut};

/// The version of the protocol that a client has asked for by HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// That of every client, until it says otherwise.
    #[default]
    Resp2,
    /// With types for nulls, maps, sets, numbers and booleans.
    Resp3,
}

/// A reply. What RESP2 has no type for is written as its servers always have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    /// A short text without the end of a line, such as `OK`.
    Status(&'static str),
    /// An error: its code in capitals and a text. Ends of lines become spaces.
    Error(String),
    /// A number.
    Integer(i64),
    /// A number with a fraction; in RESP2 a text.
    Double(f64),
    /// Bytes.
    Bytes(Bytes),
    /// No value.
    Null,
    /// No array, as an EXEC answers that a watched key has kept from running; in RESP3 a null like
    /// others.
    NullArray,
    /// A sequence.
    Array(Vec<Reply>),
    /// Pairs; in RESP2 a sequence of keys and values in turn.
    Map(Vec<(Reply, Reply)>),
    /// Elements without an order; in RESP2 a sequence.
    Set(Vec<Reply>),
    /// Bytes that another replica has written already, for the client's protocol.
    Written(Bytes),
}

impl Reply {
    /// `OK`.
    pub(crate) const OK: Reply = Reply::Status("OK");

    /// An error with the usual code.
    pub(crate) fn error(text: impl AsRef<str>) -> Reply {
        Reply::Error(format!("ERR {}", text.as_ref()))
    }

    /// A text.
    pub(crate) fn text(text: impl Into<String>) -> Reply {
        Reply::Bytes(Bytes::from(text.into()))
    }

    /// Bytes that it takes in memory and on the wire, roughly.
    pub(crate) fn weight(&self) -> usize {
        const EACH: usize = 40;
        let of_all = |elements: &[Reply]| elements.iter().map(Reply::weight).sum::<usize>();
        EACH + match self {
            Reply::Error(text) => text.len(),
            Reply::Bytes(bytes) | Reply::Written(bytes) => bytes.len(),
            Reply::Array(elements) | Reply::Set(elements) => of_all(elements),
            Reply::Map(pairs) => pairs.iter().map(|(key, value)| key.weight() + value.weight()).sum(),
            _ => 0,
        }
    }

    /// The bytes of the reply.
    pub(crate) fn written(&self, protocol: Protocol) -> Bytes {
        let mut out = BytesMut::new();
        self.write(protocol, &mut out);
        out.freeze()
    }

    /// Appends the reply to what the client is sent.
    pub(crate) fn write(&self, protocol: Protocol, out: &mut BytesMut) {
        let is_new = protocol == Protocol::Resp3;
        match self {
            Reply::Status(text) => line(out, b'+', text.as_bytes()),
            Reply::Error(text) => line(out, b'-', text.replace(['\r', '\n'], " ").as_bytes()),
            Reply::Integer(number) => header(out, b':', *number),
            Reply::Double(number) if is_new => line(out, b',', double(*number).as_bytes()),
            Reply::Double(number) => bulk(out, double(*number).as_bytes()),
            Reply::Bytes(bytes) => bulk(out, bytes),
            Reply::Written(bytes) => out.put_slice(bytes),
            Reply::Null | Reply::NullArray if is_new => line(out, b'_', b""),
            Reply::Null => header(out, b'$', -1),
            Reply::NullArray => header(out, b'*', -1),
            Reply::Array(elements) => sequence(out, b'*', elements, protocol),
            Reply::Set(elements) => sequence(out, if is_new { b'~' } else { b'*' }, elements, protocol),
            Reply::Map(pairs) => {
                let (mark, count) = if is_new { (b'%', pairs.len()) } else { (b'*', 2 * pairs.len()) };
                header(out, mark, count as i64);
                for (key, value) in pairs {
                    key.write(protocol, out);
                    value.write(protocol, out);
                }
            }
        }
    }
}

fn line(out: &mut BytesMut, mark: u8, text: &[u8]) {
    out.put_u8(mark);
    out.put_slice(text);
    out.put_slice(b"\r\n");
}

fn header(out: &mut BytesMut, mark: u8, number: i64) {
    line(out, mark, number.to_string().as_bytes());
}

fn bulk(out: &mut BytesMut, bytes: &[u8]) {
    header(out, b'$', bytes.len() as i64);
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

fn sequence(out: &mut BytesMut, mark: u8, elements: &[Reply], protocol: Protocol) {
    header(out, mark, elements.len() as i64);
    elements.iter().for_each(|element| element.write(protocol, out));
}

/// A number as RESP3 writes it: `inf`, `-inf` and `nan` beside decimals.
fn double(number: f64) -> String {
    if number.is_nan() { "nan".to_owned() } else { number.to_string() }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, BytesMut, Protocol, Reply};

    #[track_caller]
    fn is(reply: &Reply, old: &str, new: &str) {
        for (protocol, wanted) in [(Protocol::Resp2, old), (Protocol::Resp3, new)] {
            let mut out = BytesMut::new();
            reply.write(protocol, &mut out);
            assert_eq!(str::from_utf8(&out), Ok(wanted), "{protocol:?}");
        }
    }

    #[test]
    fn each_protocol_has_its_form_of_a_reply() {
        is(&Reply::OK, "+OK\r\n", "+OK\r\n");
        is(&Reply::error("two\r\nlines"), "-ERR two  lines\r\n", "-ERR two  lines\r\n");
        is(&Reply::Integer(-7), ":-7\r\n", ":-7\r\n");
        is(&Reply::Bytes(Bytes::from_static(b"a\r\nb")), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n");
        is(&Reply::text(""), "$0\r\n\r\n", "$0\r\n\r\n");
        is(&Reply::Null, "$-1\r\n", "_\r\n");
        is(&Reply::NullArray, "*-1\r\n", "_\r\n");
        is(&Reply::Double(0.5), "$3\r\n0.5\r\n", ",0.5\r\n");
        is(&Reply::Double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
        let pairs = vec![(Reply::text("k"), Reply::Integer(1))];
        is(&Reply::Map(pairs), "*2\r\n$1\r\nk\r\n:1\r\n", "%1\r\n$1\r\nk\r\n:1\r\n");
        let elements = vec![Reply::Null, Reply::Array(vec![])];
        is(&Reply::Set(elements), "*2\r\n$-1\r\n*0\r\n", "~2\r\n_\r\n*0\r\n");
    }
}
