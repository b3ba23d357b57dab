//! Requests that a replica passes on to the leader for its clients, and what the leader answers to
//! them.
//!
//! Both go over a connection of their own, whose end means that no answer comes any more. Numbers
//! rise; answers come in any order. Arguments are as a client sent them, answers as it is sent
//! them.

use bytes::{BufMut, Bytes, BytesMut};

use super::frame::{FRAME_BYTES_MAX, put_frame};
use crate::codec::{Malformed, Read, Reader, put_bytes};

const FORWARD: u8 = 4;
const FORWARDED: u8 = 5;

/// Most bytes of what is passed on, as it goes over the network.
pub const FORWARD_BYTES_MAX: usize = FRAME_BYTES_MAX - 2;
/// Most bytes of a reply in an answer.
pub const REPLY_BYTES_MAX: usize = 64 << 20;
/// Most requests of a transaction.
const REQUESTS_MAX: usize = 100_000;
/// Most arguments of all requests.
const ARGUMENTS_MAX: usize = 1 << 21;
/// Longest name of a user.
const USER_BYTES_MAX: usize = 128;
/// Most watched keys of a transaction, and versions in an answer.
const VERSIONS_MAX: usize = 10_000;
/// Bytes of a length, and least bytes of a request and of a watched key.
const LENGTH_BYTES: usize = 4;
const REQUEST_BYTES_LEAST: usize = 1 + 2 * LENGTH_BYTES;
const WATCHED_BYTES_LEAST: usize = LENGTH_BYTES + 8;

/// A request, or one of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedCommand {
    /// Its arguments, the command included: at least one.
    pub request: Vec<Bytes>,
    /// The reply, if the replica that asks has given it already: the request is no business of
    /// keys.
    pub said: Option<Bytes>,
}

/// A request, or a transaction, for the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// By which it is answered.
    pub number: u64,
    /// The term of the leader that is meant. Another does not do it.
    pub term: u64,
    /// The newest entry that the client's requests have made or rest on.
    pub newest: u64,
    /// Whether the client speaks RESP3.
    pub is_resp3: bool,
    /// Whether the requests are those of a transaction. Else there is one.
    pub is_transaction: bool,
    /// User whose rights count. Empty: those of `default`, and the client has shown no password.
    pub user: Bytes,
    /// Keys that must have these versions still.
    pub watched: Vec<(Bytes, u64)>,
    /// The requests. A transaction may have none, and be about watched keys only.
    pub requests: Vec<ForwardedCommand>,
}

/// The leader's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// To which it is one.
    pub number: u64,
    /// The newest entry that the reply rests on, or 0.
    pub newest: u64,
    /// Versions of the keys of a WATCH, in their order.
    pub versions: Vec<u64>,
    /// The reply, as the client is sent it.
    pub reply: Bytes,
}

impl Forward {
    /// Bytes that it takes in a frame.
    pub(crate) fn bytes(&self) -> usize {
        let of = |bytes: &Bytes| LENGTH_BYTES + bytes.len();
        let of_one = |asked: &ForwardedCommand| {
            1 + asked.said.as_ref().map_or(0, of) + LENGTH_BYTES + asked.request.iter().map(of).sum::<usize>()
        };
        let watched = self.watched.iter().map(|(key, _)| of(key) + 8).sum::<usize>();
        26 + of(&self.user) + 2 * LENGTH_BYTES + watched + self.requests.iter().map(of_one).sum::<usize>()
    }
}

/// Appends the frame of a request.
///
/// # Panics
/// If it has more than [`FORWARD_BYTES_MAX`].
pub fn put_forward(forward: &Forward, out: &mut BytesMut) {
    let Forward { number, term, newest, is_resp3, is_transaction, user, watched, requests } = forward;
    put_frame(out, FORWARD, |out| {
        [number, term, newest].into_iter().for_each(|word| out.put_u64_le(*word));
        out.put_u8(u8::from(*is_resp3));
        out.put_u8(u8::from(*is_transaction));
        put_bytes(out, user);
        out.put_u32_le(watched.len() as u32);
        for (key, version) in watched {
            put_bytes(out, key);
            out.put_u64_le(*version);
        }
        out.put_u32_le(requests.len() as u32);
        for ForwardedCommand { request, said } in requests {
            out.put_u8(u8::from(said.is_some()));
            said.iter().for_each(|said| put_bytes(out, said));
            out.put_u32_le(request.len() as u32);
            request.iter().for_each(|argument| put_bytes(out, argument));
        }
    });
}

/// Error where there are too many.
fn bounded(field: &'static str, count: usize, most: usize) -> Read<usize> {
    if count <= most { Ok(count) } else { Err(Malformed { field }) }
}

/// The request in a frame of a kind.
pub fn get_forward(kind: u8, bytes: Bytes) -> Read<Forward> {
    if kind != FORWARD {
        return Err(Malformed { field: "the kind of what is passed on" });
    }
    let mut reader = Reader::new(bytes);
    let (number, term) = (reader.u64("the number of a request")?, reader.u64("the term of a request")?);
    let newest = reader.u64("the newest entry")?;
    let (is_resp3, is_transaction) = (reader.flag("the protocol")?, reader.flag("whether it is a transaction")?);
    let user = reader.bytes("a user")?;
    bounded("a user", user.len(), USER_BYTES_MAX)?;
    let count = reader.count("the number of watched keys", WATCHED_BYTES_LEAST)?;
    bounded("the number of watched keys", count, VERSIONS_MAX)?;
    let watched = (0..count).map(|_| Ok((reader.bytes("a watched key")?, reader.u64("a version")?)));
    let watched = watched.collect::<Read<Vec<_>>>()?;
    let count = reader.count("the number of requests", REQUEST_BYTES_LEAST)?;
    let count = bounded("the number of requests", count, if is_transaction { REQUESTS_MAX } else { 1 })?;
    let (mut requests, mut arguments) = (Vec::with_capacity(count), 0);
    for _ in 0..count {
        let has_said = reader.flag("whether a reply is given")?;
        let said = if has_said { Some(reader.bytes("a reply")?) } else { None };
        let count = reader.count("the number of arguments", LENGTH_BYTES)?;
        arguments = bounded("the number of arguments", arguments + count, ARGUMENTS_MAX)?;
        let request = (0..count).map(|_| reader.bytes("an argument")).collect::<Read<Vec<_>>>()?;
        requests.push(ForwardedCommand { request, said });
    }
    reader.end()?;
    if requests.is_empty() && !is_transaction || requests.iter().any(|asked| asked.request.is_empty()) {
        return Err(Malformed { field: "a request" });
    }
    Ok(Forward { number, term, newest, is_resp3, is_transaction, user, watched, requests })
}

/// Appends the frame of an answer.
///
/// # Panics
/// If its reply has more than [`REPLY_BYTES_MAX`].
pub fn put_forwarded(answer: &Forwarded, out: &mut BytesMut) {
    put_frame(out, FORWARDED, |out| {
        out.put_u64_le(answer.number);
        out.put_u64_le(answer.newest);
        out.put_u32_le(answer.versions.len() as u32);
        answer.versions.iter().for_each(|version| out.put_u64_le(*version));
        out.put_slice(&answer.reply);
    });
}

/// The answer in a frame of a kind.
pub fn get_forwarded(kind: u8, bytes: Bytes) -> Read<Forwarded> {
    if kind != FORWARDED {
        return Err(Malformed { field: "the kind of an answer" });
    }
    let mut reader = Reader::new(bytes);
    let (number, newest) = (reader.u64("the number of a request")?, reader.u64("the newest entry")?);
    let count = reader.count("the number of versions", 8)?;
    bounded("the number of versions", count, VERSIONS_MAX)?;
    let versions = (0..count).map(|_| reader.u64("a version")).collect::<Read<Vec<_>>>()?;
    let reply = reader.rest();
    bounded("a reply", reply.len(), REPLY_BYTES_MAX)?;
    Ok(Forwarded { number, newest, versions, reply })
}

#[cfg(test)]
mod tests {
    use super::{
        Bytes, BytesMut, Forward, Forwarded, ForwardedCommand, get_forward, get_forwarded, put_forward, put_forwarded,
    };
    use crate::wire::Frames;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = Bytes> {
        vec(any::<u8>(), 0..9).prop_map(Bytes::from)
    }

    prop_compose! {
        fn forward()(
            numbers: [u64; 3], flags: [bool; 2], user in bytes(), watched in vec((bytes(), any::<u64>()), 0..3),
            requests in vec((vec(bytes(), 1..4), proptest::option::of(bytes())), 1..4),
        ) -> Forward {
            let ([number, term, newest], [is_resp3, is_transaction]) = (numbers, flags);
            let requests = requests.into_iter().map(|(request, said)| ForwardedCommand { request, said });
            let requests = requests.take(if is_transaction { 3 } else { 1 }).collect();
            Forward { number, term, newest, is_resp3, is_transaction, user, watched, requests }
        }
    }

    fn frame(put: impl Fn(&mut BytesMut)) -> (u8, Bytes) {
        let mut frames = Frames::default();
        put(frames.input());
        frames.next(usize::MAX).expect("sound").expect("whole")
    }

    proptest! {
        #[test]
        fn what_is_passed_on_comes_back_and_is_refused_when_it_is_cut(forward in forward(), cut: prop::sample::Index) {
            let (kind, bytes) = frame(|out| put_forward(&forward, out));
            prop_assert_eq!(bytes.len(), forward.bytes());
            prop_assert!(get_forward(kind, bytes.slice(..cut.index(bytes.len()))).is_err());
            prop_assert_eq!(get_forward(kind, bytes), Ok(forward));
        }

        #[test]
        fn answers_come_back(number: u64, newest: u64, versions in vec(any::<u64>(), 0..4), reply in bytes()) {
            let answer = Forwarded { number, newest, versions, reply };
            let (kind, bytes) = frame(|out| put_forwarded(&answer, out));
            prop_assert!(get_forwarded(kind, bytes.slice(..19)).is_err());
            prop_assert_eq!(get_forwarded(kind, bytes), Ok(answer));
        }

        #[test]
        fn any_bytes_are_read_or_refused(kind in 0_u8..8, bytes in vec(0_u8..4, 0..80)) {
            let bytes = Bytes::from(bytes);
            if let Ok(forward) = get_forward(kind, bytes.clone()) {
                prop_assert_eq!(frame(|out| put_forward(&forward, out)), (kind, bytes.clone()));
            }
            if let Ok(answer) = get_forwarded(kind, bytes.clone()) {
                prop_assert_eq!(frame(|out| put_forwarded(&answer, out)), (kind, bytes));
            }
        }
    }

    #[test]
    fn what_has_no_request_or_too_many_is_refused() {
        let asked = ForwardedCommand { request: vec![Bytes::from("PING")], said: None };
        let forward = Forward {
            number: 1,
            term: 2,
            newest: 3,
            is_resp3: false,
            is_transaction: false,
            user: Bytes::from("default"),
            watched: Vec::new(),
            requests: vec![asked.clone()],
        };
        let is_read = |forward: &Forward| {
            let (kind, bytes) = frame(|out| put_forward(forward, out));
            get_forward(kind, bytes).is_ok()
        };
        assert!(is_read(&forward));
        assert!(!is_read(&Forward { requests: Vec::new(), ..forward.clone() }));
        assert!(is_read(&Forward { requests: Vec::new(), is_transaction: true, ..forward.clone() }));
        assert!(!is_read(&Forward { requests: vec![asked.clone(), asked.clone()], ..forward.clone() }));
        assert!(!is_read(&Forward {
            requests: vec![ForwardedCommand { request: Vec::new(), said: None }],
            ..forward.clone()
        }));
        assert!(!is_read(&Forward { user: Bytes::from(vec![b'u'; 129]), ..forward.clone() }));
        assert!(!is_read(&Forward { is_transaction: true, requests: vec![asked; 100_001], ..forward }));
    }
}
