//! Replies of a server in RESP2, as a client takes them out of what it has received.

use bytes::{Buf, BytesMut};

/// A reply, as far as clients of the simulator look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// A status, or a number.
    Text(String),
    Error(String),
    Bytes(Vec<u8>),
    Null,
    Array(Vec<Reply>),
}

/// Takes the first reply out of the bytes received, if all of it is there. Error: bytes that no
/// server sends.
pub(super) fn take_reply(received: &mut BytesMut) -> Result<Option<Reply>, String> {
    let mut rest: &[u8] = received;
    let reply = parse(&mut rest)?;
    if reply.is_some() {
        let taken = received.len() - rest.len();
        received.advance(taken);
    }
    Ok(reply)
}

fn parse(rest: &mut &[u8]) -> Result<Option<Reply>, String> {
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let line = String::from_utf8_lossy(&rest[..end]).into_owned();
    *rest = &rest[end + 2..];
    let (kind, text) = line.split_at_checked(1).ok_or("an empty line")?;
    let length = || text.parse::<i64>().map_err(|_| format!("a length that is none: {line}"));
    Ok(Some(match kind {
        "+" | ":" => Reply::Text(text.to_owned()),
        "-" => Reply::Error(text.to_owned()),
        "$" => match usize::try_from(length()?) {
            Err(_) => Reply::Null,
            Ok(length) if rest.len() < length + 2 => return Ok(None),
            Ok(length) => {
                let bytes = rest[..length].to_vec();
                *rest = &rest[length + 2..];
                Reply::Bytes(bytes)
            }
        },
        "*" => match usize::try_from(length()?) {
            Err(_) => Reply::Null,
            Ok(count) => {
                let mut elements = Vec::new();
                for _ in 0..count {
                    let Some(element) = parse(rest)? else { return Ok(None) };
                    elements.push(element);
                }
                Reply::Array(elements)
            }
        },
        _ => return Err(format!("no reply: {line}")),
    }))
}

#[cfg(test)]
mod tests {
    use super::{Reply, take_reply};
    use bytes::BytesMut;

    #[test]
    fn a_reply_is_taken_once_it_is_whole() {
        let all = b"+OK\r\n$-1\r\n*2\r\n$3\r\na\r\n\r\n:7\r\n-ERR no\r\n*-1\r\n";
        let (mut received, mut found) = (BytesMut::new(), Vec::new());
        for byte in all {
            received.extend_from_slice(&[*byte]);
            found.extend(take_reply(&mut received).expect("replies"));
        }
        let text = |text: &str| Reply::Text(text.to_owned());
        let array = Reply::Array(vec![Reply::Bytes(b"a\r\n".to_vec()), text("7")]);
        assert_eq!(found, [text("OK"), Reply::Null, array, Reply::Error("ERR no".to_owned()), Reply::Null]);
        assert!(received.is_empty() && take_reply(&mut BytesMut::from("x\r\n")).is_err());
    }
}
