//! HTTP/1.1 for operators, as little as it takes: GET without a body, one request a connection.

use std::io;
use std::net::IpAddr;

use bytes::{BufMut, BytesMut};
use httparse::{Request, Status};
use mio::event::Event;

use super::channel::Channel;
use crate::config::host_of;

/// Most bytes of a request.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Most fields of its header.
const FIELDS_MAX: usize = 64;
/// Milliseconds that a connection may last.
pub(super) const CONNECTION_MS: u64 = 10_000;

/// Response.
#[derive(Debug)]
pub(super) struct Response {
    /// The status: code and text.
    pub status: &'static str,
    /// Media type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

impl Response {
    /// A text.
    pub(super) fn text(status: &'static str, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// A connection.
pub(super) struct Browser {
    channel: Channel,
    /// Since when it is there.
    since_ms: u64,
    input: BytesMut,
    output: BytesMut,
    is_answered: bool,
}

/// Parsed request.
enum Parsed {
    /// It has not come wholly.
    Nothing,
    /// A path by GET, or by HEAD, which is answered without a body.
    Path { path: String, has_body: bool },
    /// Request that is answered with an error.
    Wrong(Response),
}

impl Browser {
    /// A connection that has just come.
    pub(super) fn new(channel: Channel, now_ms: u64) -> Self {
        Self { channel, since_ms: now_ms, input: BytesMut::new(), output: BytesMut::new(), is_answered: false }
    }

    /// Something has happened to its socket.
    pub(super) fn happened(&mut self, event: &Event) {
        self.channel.happened(event);
    }

    /// Address of the other side.
    pub(super) fn from(&self) -> String {
        self.channel.socket().remote()
    }

    /// Whether its time is over.
    pub(super) fn is_late(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.since_ms) > CONNECTION_MS
    }

    /// Reads, answers by `answer` once the request is whole, and writes. `names` are the hosts that
    /// it may be sent to. Returns whether the connection is done.
    pub(super) fn go_on(
        &mut self,
        scratch: &mut [u8],
        names: &[String],
        answer: impl FnOnce(&str) -> Response,
    ) -> io::Result<bool> {
        while let Some(count) = self.channel.read(scratch)? {
            if count == 0 && !self.is_answered {
                return Ok(true);
            }
            if count == 0 {
                break;
            }
            if !self.is_answered {
                self.input.extend_from_slice(&scratch[..count]);
            }
            if self.input.len() > REQUEST_BYTES_MAX {
                break;
            }
        }
        if !self.is_answered {
            match parse(&self.input, names) {
                Parsed::Nothing => {}
                Parsed::Path { path, has_body } => self.put(answer(&path), has_body),
                Parsed::Wrong(response) => self.put(response, true),
            }
        }
        Ok(self.channel.write(&mut self.output)? && self.is_answered)
    }

    fn put(&mut self, response: Response, has_body: bool) {
        let Response { status, content_type, body } = response;
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Security-Policy: default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\r\n\r\n",
            body.len()
        );
        self.output.put_slice(head.as_bytes());
        if has_body {
            self.output.put_slice(body.as_bytes());
        }
        self.is_answered = true;
    }
}

/// Whether a request may be sent to a host, as its header says it. A foreign page can have a name
/// of its own lead here, and would read what it is answered: so names must be known. Addresses lead
/// nowhere else.
fn is_own(host: &str, names: &[String]) -> bool {
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let name = if has_port && !is_address(host) { host_of(host) } else { host.trim_matches(['[', ']']) };
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    is_address(&name) || name == "localhost" || names.contains(&name)
}

/// Fault of the host that a request is sent to.
fn wrong_host(request: &Request<'_, '_>, names: &[String]) -> Option<Response> {
    let hosts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let hosts: Vec<&[u8]> = hosts.map(|header| header.value).collect();
    match hosts[..] {
        // No browser leaves it out.
        [] if request.version == Some(0) => None,
        [host] if str::from_utf8(host).is_ok_and(|host| is_own(host.trim(), names)) => None,
        [_] => Some(Response::text(
            "421 Misdirected Request",
            "this replica is not known by that name: use its address, or add the name to http.names\n",
        )),
        _ => Some(Response::text("400 Bad Request", "a request has one Host\n")),
    }
}

fn parse(input: &[u8], names: &[String]) -> Parsed {
    let too_long =
        || Parsed::Wrong(Response::text("431 Request Header Fields Too Large", "more than 8 KiB or 64 fields\n"));
    let wrong = || Parsed::Wrong(Response::text("400 Bad Request", "not a request of HTTP/1\n"));
    let mut headers = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = Request::new(&mut headers);
    match request.parse(input) {
        Ok(Status::Complete(_)) => {}
        Ok(Status::Partial) if input.len() <= REQUEST_BYTES_MAX => return Parsed::Nothing,
        Ok(Status::Partial) | Err(httparse::Error::TooManyHeaders) => return too_long(),
        Err(_) => return wrong(),
    }
    let (Some(method), Some(target)) = (request.method, request.path) else { return wrong() };
    if !target.starts_with('/') {
        return wrong();
    }
    if let Some(response) = wrong_host(&request, names) {
        return Parsed::Wrong(response);
    }
    let path = target.split('?').next().unwrap_or_default().to_owned();
    match method {
        "GET" => Parsed::Path { path, has_body: true },
        "HEAD" => Parsed::Path { path, has_body: false },
        _ => Parsed::Wrong(Response::text("405 Method Not Allowed", "GET and HEAD are all there is\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Parsed, parse};

    fn outcome(input: &[u8]) -> String {
        match parse(input, &["node.test".to_owned()]) {
            Parsed::Nothing => "wait".into(),
            Parsed::Path { path, has_body } => format!("{path} {has_body}"),
            Parsed::Wrong(response) => response.status[..3].into(),
        }
    }

    /// A foreign page, whose name leads to this machine, read what operators see.
    #[test]
    fn who_is_asked_by_a_name_that_is_not_its_own_does_not_answer() {
        for (host, wanted) in [
            ("127.0.0.1", "/ true"),
            ("127.0.0.1:9379", "/ true"),
            ("[::1]:9379", "/ true"),
            ("[::1]", "/ true"),
            ("localhost:1", "/ true"),
            ("LOCALHOST", "/ true"),
            ("Node.Test.:9379", "/ true"),
            ("node.test", "/ true"),
            ("evil.test", "421"),
            ("evil.test:9379", "421"),
            ("127.0.0.1.evil.test", "421"),
            ("", "421"),
            (":9379", "421"),
            ("localhost.evil.test", "421"),
            ("node.test@evil.test", "421"),
            ("node.test\r\nHOST: node.test", "400"),
        ] {
            assert_eq!(
                outcome(format!("GET / HTTP/1.1\r\nA: b\r\nhost:  {host} \r\n\r\n").as_bytes()),
                wanted,
                "{host}"
            );
        }
        assert_eq!(outcome(b"GET / HTTP/1.1\r\n\r\n"), "400");
        assert_eq!(outcome(b"GET / HTTP/1.0\r\n\r\n"), "/ true");
        assert_eq!(outcome(b"GET / HTTP/1.0\r\nHost: evil.test\r\n\r\n"), "421");
    }

    #[test]
    fn requests_are_read_when_they_are_whole_and_refused_when_they_are_none() {
        let long = [&b"GET /"[..], &[b'a'; 9000]].concat();
        let fields = [&b"GET / HTTP/1.1\r\n"[..], &b"A: b\r\n".repeat(65), b"\r\n"].concat();
        for (input, wanted) in [
            (&b"GET /metrics HTTP/1.1\r\nHost: x\r\n"[..], "wait"),
            (b"GET /metrics?a=b HTTP/1.1\r\nHost: 10.0.0.1:9379\r\n\r\n", "/metrics true"),
            (b"HEAD / HTTP/1.0\r\n\r\n", "/ false"),
            (b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
            (b"GET / HTTP/2\r\n\r\n", "400"),
            (b"GET http://x/ HTTP/1.1\r\n\r\n", "400"),
            (b"\xFF\r\n\r\n", "400"),
            (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", "400"),
            // Empty lines in front of a request are passed over.
            (b"\r\n\r\n", "wait"),
            (&long, "431"),
            (&fields, "431"),
        ] {
            assert_eq!(outcome(input), wanted, "{}", input.escape_ascii());
        }
    }
}
