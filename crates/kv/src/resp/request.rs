//! Requests out of the bytes of a connection.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

use super::line;

/// Most bytes of a line: a count, a length, or a request written as one line.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The bounds of one request. What is beyond ends the connection with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Arguments, the command included.
    pub arguments_max: usize,
    /// Bytes of one argument.
    pub argument_bytes_max: usize,
    /// Bytes of all arguments.
    pub request_bytes_max: usize,
}

impl Limits {
    /// For a connection that must authenticate first.
    pub const UNAUTHENTICATED: Limits =
        Limits { arguments_max: 10, argument_bytes_max: 16 << 10, request_bytes_max: 64 << 10 };
    /// For all others: the longest value of a map, and room for the keys of a transaction.
    pub const USUAL: Limits =
        Limits { arguments_max: 1 << 20, argument_bytes_max: 64 << 20, request_bytes_max: 96 << 20 };
}

/// Error of a request that cannot be read. The connection ends: nobody knows where the next request
/// begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol error: {}", self.0)
    }
}

fn malformed<T>(what: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(what.into()))
}

/// A request that has begun.
#[derive(Debug)]
struct Begun {
    arguments: Vec<Bytes>,
    /// Arguments to come.
    missing: usize,
    /// Bytes that the arguments may still have.
    bytes_left: usize,
    /// Bytes of the arguments that have come, and of what holds them.
    bytes: usize,
    /// The length of the argument that is being read, once it is known.
    length: Option<usize>,
}

/// The requests of one connection. Bytes go in as they come; requests come out when they are whole.
/// It holds the bytes of one request that is not whole, and those behind it that were put in.
#[derive(Debug, Default)]
pub struct Requests {
    input: BytesMut,
    /// Bytes at the front of the input that hold no end of a line.
    searched: usize,
    begun: Option<Begun>,
    /// Bytes of the input that were taken so far.
    taken: u64,
}

impl Requests {
    /// The buffer to which the bytes of the connection are appended.
    pub fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// Bytes that have come and are not part of a returned request, and what each argument takes
    /// beside.
    pub(crate) fn bytes_held(&self) -> usize {
        self.input.len() + self.begun.as_ref().map_or(0, |begun| begun.bytes)
    }

    /// Bytes that were taken so far, also those that are part of no request. Requests that are kept
    /// share the memory of all that came between them, so who keeps some bounds the distance.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// The arguments of the next request, at least one, or `None` until it is whole. The arguments
    /// share the memory of the input.
    pub fn next(&mut self, limits: &Limits) -> Result<Option<Vec<Bytes>>, Malformed> {
        let before = self.input.len();
        let next = self.parse(limits);
        self.taken += (before - self.input.len()) as u64;
        if matches!(&next, Ok(Some(request)) if request.iter().any(|argument| argument.len() > SHARED_BYTES_MAX)) {
            // The bytes that follow shall not keep the memory of this one.
            self.input = BytesMut::from(&self.input[..]);
        }
        next
    }

    fn parse(&mut self, limits: &Limits) -> Result<Option<Vec<Bytes>>, Malformed> {
        loop {
            if self.begun.is_some() {
                return self.go_on(limits);
            }
            let Some(&first) = self.input.first() else { return Ok(None) };
            if first == b'*' {
                let Some((length, whole)) = self.line("too big mbulk count string")? else { return Ok(None) };
                self.begun = begin(&self.input[..length], limits)?;
                self.input.advance(whole);
                continue;
            }
            let Some((length, whole)) = self.line("too big inline request")? else { return Ok(None) };
            let Some(words) = line::words(&self.input[..length]) else {
                return malformed("unbalanced quotes in request");
            };
            if words.len() > limits.arguments_max || length > limits.request_bytes_max {
                return malformed("too big inline request");
            }
            self.input.advance(whole);
            if !words.is_empty() {
                return Ok(Some(words));
            }
        }
    }

    /// Reads further arguments of the request that has begun.
    fn go_on(&mut self, limits: &Limits) -> Result<Option<Vec<Bytes>>, Malformed> {
        loop {
            let Some(begun) = &mut self.begun else { return Ok(None) };
            if begun.missing == 0 {
                return Ok(self.begun.take().map(|begun| begun.arguments));
            }
            let Some(length) = begun.length else {
                let Some((digits, whole)) = self.line("too big bulk count string")? else { return Ok(None) };
                let length = argument_length(&self.input[..digits], limits)?;
                self.input.advance(whole);
                let begun = self.begun.as_mut().expect("it has begun");
                let Some(left) = begun.bytes_left.checked_sub(length) else {
                    return malformed("too big request");
                };
                (begun.bytes_left, begun.length) = (left, Some(length));
                self.input.reserve((length + 2).saturating_sub(self.input.len()).min(GROWTH_BYTES));
                continue;
            };
            if self.input.len() < length + 2 {
                return Ok(None);
            }
            let argument = self.input.split_to(length).freeze();
            if !self.input.starts_with(b"\r\n") {
                return malformed("expected the end of a line behind an argument");
            }
            self.input.advance(2);
            begun.bytes += argument.len() + size_of::<Bytes>();
            begun.arguments.push(argument);
            begun.missing -= 1;
            begun.length = None;
        }
    }

    /// Finds the line at the front: its length without its end, and with it. `None` if its end has
    /// not come. It is read where it lies.
    fn line(&mut self, too_long: &str) -> Result<Option<(usize, usize)>, Malformed> {
        let Some(at) = self.input[self.searched..].iter().position(|&byte| byte == b'\n') else {
            self.searched = self.input.len();
            return if self.searched > LINE_BYTES_MAX { malformed(too_long) } else { Ok(None) };
        };
        let end = self.searched + at;
        self.searched = 0;
        if end > LINE_BYTES_MAX {
            return malformed(too_long);
        }
        let without = self.input[..=end].strip_suffix(b"\r\n").map_or(end, <[u8]>::len);
        Ok(Some((without, end + 1)))
    }
}

/// Room made for an argument whose length the client has said, before its bytes have come: nobody
/// counts it, and a large page may be cleared for it.
const GROWTH_BYTES: usize = 16 << 10;

/// Longest argument that shares its memory with the requests behind it.
const SHARED_BYTES_MAX: usize = 256 << 10;

/// A line `*COUNT`. Nothing begins where the count is not above 0.
fn begin(line: &[u8], limits: &Limits) -> Result<Option<Begun>, Malformed> {
    let Some(count) = number(&line[1..]) else { return malformed("invalid multibulk length") };
    let Ok(missing) = usize::try_from(count) else { return Ok(None) };
    if missing > limits.arguments_max {
        return malformed("invalid multibulk length");
    }
    let arguments = Vec::with_capacity(missing.min(16));
    let begun = Begun { arguments, missing, bytes_left: limits.request_bytes_max, bytes: 0, length: None };
    Ok((missing > 0).then_some(begun))
}

/// A line `$LENGTH`.
fn argument_length(line: &[u8], limits: &Limits) -> Result<usize, Malformed> {
    let Some(digits) = line.strip_prefix(b"$") else {
        let found = line.first().map_or_else(|| "nothing".to_owned(), |&byte| format!("'{}'", byte.escape_ascii()));
        return malformed(format!("expected '$', got {found}"));
    };
    match number(digits).and_then(|length| usize::try_from(length).ok()) {
        Some(length) if length <= limits.argument_bytes_max => Ok(length),
        _ => malformed("invalid bulk length"),
    }
}

/// A decimal number, with a minus before it or not, and nothing else.
fn number(digits: &[u8]) -> Option<i64> {
    let unsigned = digits.strip_prefix(b"-").unwrap_or(digits);
    if !unsigned.first()?.is_ascii_digit() {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{GROWTH_BYTES, Limits, Malformed, Requests};
    use bytes::Bytes;
    use proptest::prelude::*;

    /// All requests of a stream that comes in pieces of `cut` bytes.
    fn read(stream: &[u8], cut: usize) -> Result<Vec<Vec<Bytes>>, Malformed> {
        let (mut requests, mut found) = (Requests::default(), Vec::new());
        for piece in stream.chunks(cut.max(1)) {
            requests.input().extend_from_slice(piece);
            while let Some(request) = requests.next(&Limits::UNAUTHENTICATED)? {
                found.push(request);
            }
        }
        Ok(found)
    }

    #[test]
    fn requests_come_out_whole_however_they_are_cut() {
        let stream = b"*2\r\n$3\r\nGET\r\n$5\r\na\r\nb\0\r\nPING\r\n\r\n*0\r\n*-1\r\n*1\r\n$0\r\n\r\nSET k 'v w'\n";
        for cut in 1..=stream.len() {
            let found = read(stream, cut).expect("requests");
            assert_eq!(found, [&[&b"GET"[..], b"a\r\nb\0"][..], &[b"PING"], &[b""], &[b"SET", b"k", b"v w"]], "{cut}");
        }
    }

    #[test]
    fn what_is_malformed_or_too_large_is_refused_before_it_is_kept() {
        let cases: [(&[u8], &str); 12] = [
            (b"*x\r\n", "invalid multibulk length"),
            (b"*+1\r\n", "invalid multibulk length"),
            (b"*11\r\n", "invalid multibulk length"),
            (b"*99999999999999999999\r\n", "invalid multibulk length"),
            (b"*1\r\n+OK\r\n", "expected '$', got '+'"),
            (b"*1\r\n\r\n", "expected '$', got nothing"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$16385\r\n", "invalid bulk length"),
            (b"*1\r\n$2\r\nabc\r\n", "expected the end of a line behind an argument"),
            (b"*1\r\n$1 \r\n", "invalid bulk length"),
            (b"GET 'a\r\n", "unbalanced quotes in request"),
            (b"1 2 3 4 5 6 7 8 9 10 11\r\n", "too big inline request"),
        ];
        for (stream, why) in cases {
            let wrong = read(stream, stream.len()).expect_err("malformed");
            assert_eq!(wrong.to_string(), format!("Protocol error: {why}"), "{}", stream.escape_ascii());
        }
        for (start, why) in [(&b"*"[..], "too big mbulk count string"), (b"G", "too big inline request")] {
            let stream = [start, &vec![b'1'; 70_000]].concat();
            let wrong = read(&stream, 1000).expect_err("endless");
            assert_eq!(wrong.to_string(), format!("Protocol error: {why}"));
        }
        let five = b"$16000\r\n".iter().copied().chain([b'x'; 16000]).chain(*b"\r\n").collect::<Vec<_>>().repeat(5);
        let wrong = read(&[b"*5\r\n", &five[..]].concat(), 4096).expect_err("too much");
        assert_eq!(wrong.to_string(), "Protocol error: too big request");
    }

    #[test]
    fn a_length_that_is_only_said_takes_no_memory() {
        let mut requests = Requests::default();
        requests.input().extend_from_slice(b"*1\r\n$67108864\r\nx");
        assert_eq!(requests.next(&Limits::USUAL), Ok(None));
        assert!(requests.input().capacity() <= 2 * GROWTH_BYTES, "{} bytes", requests.input().capacity());
    }

    /// Hazard: the few bytes behind a long argument keep its memory, which nobody counts.
    #[test]
    fn what_follows_a_long_argument_does_not_keep_its_memory() {
        let mut requests = Requests::default();
        let long = [&b"*1\r\n$1000000\r\n"[..], &[b'x'; 1_000_000], b"\r\n*1\r\n$1\r\na\r\n"].concat();
        requests.input().extend_from_slice(&long);
        assert_eq!(requests.next(&Limits::USUAL).expect("a request").map(|request| request[0].len()), Some(1_000_000));
        assert!(requests.input().capacity() < 1000, "{} bytes", requests.input().capacity());
        assert_eq!(requests.next(&Limits::USUAL).expect("a request").map(|request| request[0].len()), Some(1));
        assert_eq!(requests.taken(), long.len() as u64);
    }

    proptest! {
        #[test]
        fn any_bytes_give_requests_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 1_usize..50) {
            let whole = read(&bytes, bytes.len().max(1));
            prop_assert_eq!(whole.is_ok(), read(&bytes, cut).is_ok());
        }

        #[test]
        fn what_is_written_is_read(
            request in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..10), cut in 1_usize..50,
        ) {
            let mut stream = format!("*{}\r\n", request.len()).into_bytes();
            for argument in &request {
                stream.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
                stream.extend_from_slice(argument);
                stream.extend_from_slice(b"\r\n");
            }
            prop_assert_eq!(read(&stream, cut), Ok(vec![request.into_iter().map(Bytes::from).collect()]));
        }
    }
}
