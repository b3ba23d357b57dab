//! Replies to clients that number their requests, so that a repeated request is not done again.

use std::ops::Bound;

use bytes::{BufMut, Bytes, BytesMut};
use sha2::{Digest, Sha256};

use super::draft::{Draft, Unreadable};
use super::key::SYSTEM;
use crate::codec::{Malformed, Read, Reader};

/// Most sessions.
pub(crate) const SESSIONS_MAX: u64 = 100_000;
/// Longest id, in bytes.
pub(crate) const ID_BYTES_MAX: usize = 64;
/// Longest reply that is kept, in bytes.
pub(crate) const REPLY_BYTES_MAX: usize = 1024;

const IS_KEPT: u8 = 1;
const HAS_HASH: u8 = 2;

const COUNT: &[u8] = &[SYSTEM, b'n'];

/// State of a numbered request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It is new.
    New,
    /// It was done, with this reply, or one that was too long to be kept.
    Done(Option<Bytes>),
    /// Another request was done with this number.
    Other,
    /// A later one was done: the number.
    Past(u64),
    /// Nothing is known of the session, and the request is not its first.
    Forgotten,
}

/// A session, which lies in the map with the order of all:
///
/// ```text
/// 0x01 's' length(1) user id            the session: number of its last request (8), clock (8),
///                                       flags (1), hash of the request (8), reply
/// 0x01 'a' clock(8) length(1) user id   sessions in the order of their last requests
/// 0x01 'n'                              the number of sessions (8)
/// ```
///
/// Flags: 1 the reply is kept, 2 there is a hash, which sessions of earlier programs lack.
///
/// A session belongs to a user by its name, of at most this number of bytes: nobody learns what was
/// answered to another. Numbers in places are big-endian, those in a session little-endian. There
/// are [`SESSIONS_MAX`] sessions; a further one takes the place of that whose last request is the
/// oldest by the entries' clock. The reply of a forgotten session's request is lost, so a session
/// begins with request 1, and another number of an unknown session is refused.
struct Session {
    number: u64,
    clock_ms: u64,
    hash: Option<u64>,
    reply: Option<Bytes>,
}

/// The id of a user's session among those of all.
fn whole(user: &[u8], id: &[u8]) -> Vec<u8> {
    [&[user.len() as u8][..], user, id].concat()
}

fn place(whole: &[u8]) -> Vec<u8> {
    [&[SYSTEM, b's'][..], whole].concat()
}

fn place_by_age(clock_ms: u64, whole: &[u8]) -> Vec<u8> {
    [&[SYSTEM, b'a'][..], &clock_ms.to_be_bytes(), whole].concat()
}

impl Session {
    fn from_bytes(bytes: Bytes) -> Read<Self> {
        let mut reader = Reader::new(bytes);
        let (number, clock_ms) = (reader.u64("a session's number")?, reader.u64("a session's clock")?);
        let flags = reader.u8("a session's flags")?;
        if flags & !(IS_KEPT | HAS_HASH) != 0 {
            return Err(Malformed { field: "a session's flags" });
        }
        let hash = if flags & HAS_HASH != 0 { Some(reader.u64("a session's hash")?) } else { None };
        let reply = (flags & IS_KEPT != 0).then(|| reader.rest());
        Ok(Self { number, clock_ms, hash, reply })
    }

    fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(25 + self.reply.as_ref().map_or(0, Bytes::len));
        out.put_u64_le(self.number);
        out.put_u64_le(self.clock_ms);
        let is_kept = if self.reply.is_some() { IS_KEPT } else { 0 };
        out.put_u8(is_kept | if self.hash.is_some() { HAS_HASH } else { 0 });
        self.hash.iter().for_each(|hash| out.put_u64_le(*hash));
        out.put_slice(self.reply.as_deref().unwrap_or_default());
        out.freeze()
    }
}

fn find(draft: &Draft<'_>, whole: &[u8]) -> Result<Option<Session>, Unreadable> {
    let bytes = draft.value(&place(whole))?;
    bytes.map(Session::from_bytes).transpose().map_err(|malformed| {
        Unreadable(format!("the session cannot be read: {malformed}. If a newer perdura-kv has written it, ask that"))
    })
}

/// The hash of a request, by which another one of the same number is told from it.
pub(crate) fn hash(request: &[Bytes]) -> u64 {
    let mut hasher = Sha256::new();
    for argument in request {
        hasher.update((argument.len() as u64).to_le_bytes());
        hasher.update(argument);
    }
    u64::from_le_bytes(hasher.finalize()[..8].try_into().expect("eight of 32 bytes"))
}

/// State of a numbered request of a user's session.
pub(crate) fn known(
    draft: &Draft<'_>,
    (user, id): (&[u8], &[u8]),
    number: u64,
    hash: u64,
) -> Result<Known, Unreadable> {
    Ok(match find(draft, &whole(user, id))? {
        None if number == 1 => Known::New,
        None => Known::Forgotten,
        Some(session) if session.number == number && session.hash.is_some_and(|of| of != hash) => Known::Other,
        Some(session) if session.number == number => Known::Done(session.reply),
        Some(session) if session.number > number => Known::Past(session.number),
        Some(_) => Known::New,
    })
}

/// Notes that a request was done. A reply that is too long is not kept.
pub(crate) fn note(
    draft: &mut Draft<'_>,
    (user, id): (&[u8], &[u8]),
    (number, hash): (u64, u64),
    reply: Bytes,
) -> Result<(), Unreadable> {
    let whole = whole(user, id);
    match find(draft, &whole)? {
        Some(before) => draft.change(place_by_age(before.clock_ms, &whole), None),
        None => make_room(draft)?,
    }
    let clock_ms = draft.now_ms();
    let reply = Some(reply).filter(|reply| reply.len() <= REPLY_BYTES_MAX);
    draft.change(place(&whole), Some(Session { number, clock_ms, hash: Some(hash), reply }.to_bytes()));
    draft.change(place_by_age(clock_ms, &whole), Some(Bytes::new()));
    Ok(())
}

/// Counts one session more, in place of the oldest if there are enough.
fn make_room(draft: &mut Draft<'_>) -> Result<(), Unreadable> {
    let count = draft.value(COUNT)?.and_then(|bytes| bytes[..].try_into().ok()).map_or(0, u64::from_be_bytes);
    if count < SESSIONS_MAX {
        draft.change(COUNT.to_vec(), Some(Bytes::copy_from_slice(&(count + 1).to_be_bytes())));
        return Ok(());
    }
    let mut oldest = None;
    draft.scan(&[SYSTEM, b'a'], Bound::Unbounded, &mut |place, _| {
        oldest = Some(place.to_vec());
        false
    })?;
    if let Some(oldest) = oldest {
        draft.change(place(oldest.get(10..).unwrap_or_default()), None);
        draft.change(oldest, None);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Draft, Known, hash, known, note};
    use crate::machine::draft::tests::MemorySource;

    #[test]
    fn a_request_is_known_once_it_is_done() {
        let mut source = MemorySource::default();
        for (at, number, reply) in [(1, 1, 10), (2, 5, 2000)] {
            let mut draft = Draft::new(&source, at, at);
            assert_eq!(known(&draft, (b"me", b"id"), number, 7), Ok(Known::New));
            note(&mut draft, (b"me", b"id"), (number, 7), Bytes::from(vec![b'x'; reply])).expect("noted");
            let expected = if reply > 1024 { None } else { Some(Bytes::from(vec![b'x'; reply])) };
            assert_eq!(known(&draft, (b"me", b"id"), number, 7), Ok(Known::Done(expected)));
            let batch = draft.into_batch();
            source.apply(batch);
        }
        let draft = Draft::new(&source, 3, 3);
        assert_eq!(known(&draft, (b"me", b"id"), 1, 7), Ok(Known::Past(5)));
        assert_eq!(known(&draft, (b"me", b"id"), 6, 7), Ok(Known::New));
        assert_eq!(known(&draft, (b"me", b"other"), 2, 7), Ok(Known::Forgotten));
    }

    /// Hazard: a user who guesses the id and the number of another user's request reads its reply,
    /// whatever their rights.
    #[test]
    fn nobody_is_told_what_was_answered_to_another() {
        let mut source = MemorySource::default();
        let mut draft = Draft::new(&source, 1, 1);
        note(&mut draft, (b"ab", b"c"), (1, 7), Bytes::from_static(b"secret")).expect("noted");
        let batch = draft.into_batch();
        source.apply(batch);
        let draft = Draft::new(&source, 2, 2);
        for (user, id) in [("eve", "c"), ("a", "bc"), ("abc", ""), ("", "abc")] {
            assert_eq!(known(&draft, (user.as_bytes(), id.as_bytes()), 1, 7), Ok(Known::New), "{user} {id}");
        }
        assert_eq!(known(&draft, (b"ab", b"c"), 1, 7), Ok(Known::Done(Some(Bytes::from_static(b"secret")))));
    }

    /// Hazard: a client that loses count gets the reply of a command that was never done.
    #[test]
    fn another_request_of_the_same_number_is_told_from_it() {
        let requests = [&["SET", "k", "v"][..], &["SET", "k", "w"], &["SET", "kv"], &["GET", "k", "v"]];
        let hashes = requests.map(|words| hash(&words.iter().copied().map(Bytes::from).collect::<Vec<_>>()));
        let mut source = MemorySource::default();
        let mut draft = Draft::new(&source, 1, 1);
        note(&mut draft, (b"me", b"id"), (1, hashes[0]), Bytes::new()).expect("noted");
        // A session of an earlier program.
        let old = [&1_u64.to_le_bytes()[..], &1_u64.to_le_bytes(), &[1], b"reply"].concat();
        draft.change(super::place(&super::whole(b"me", b"old")), Some(old.into()));
        let batch = draft.into_batch();
        source.apply(batch);
        let draft = Draft::new(&source, 2, 2);
        assert_eq!(known(&draft, (b"me", b"id"), 1, hashes[0]), Ok(Known::Done(Some(Bytes::new()))));
        for other in &hashes[1..] {
            assert_eq!(known(&draft, (b"me", b"id"), 1, *other), Ok(Known::Other));
        }
        assert_eq!(known(&draft, (b"me", b"old"), 1, 5), Ok(Known::Done(Some(Bytes::from_static(b"reply")))));
    }

    /// Hazard: a program that does not know what a newer one has noted does a request again.
    #[test]
    fn a_session_of_a_newer_program_is_answered_with_an_error() {
        let mut source = MemorySource::default();
        let mut draft = Draft::new(&source, 1, 1);
        let newer = [&1_u64.to_le_bytes()[..], &1_u64.to_le_bytes(), &[4], b"reply"].concat();
        draft.change(super::place(&super::whole(b"me", b"id")), Some(newer.into()));
        let batch = draft.into_batch();
        source.apply(batch);
        let mut draft = Draft::new(&source, 2, 2);
        for number in [1, 2] {
            let refused = known(&draft, (b"me", b"id"), number, 7).expect_err("it cannot be read");
            assert!(refused.0.contains("a newer perdura-kv"), "{refused:?}");
        }
        note(&mut draft, (b"me", b"id"), (2, 7), Bytes::new()).expect_err("it cannot be read");
        assert!(draft.is_empty());
    }

    #[test]
    fn the_oldest_session_makes_room() {
        let mut source = MemorySource::default();
        let mut draft = Draft::new(&source, 1, 1);
        note(&mut draft, (b"me", b"old"), (1, 7), Bytes::new()).expect("noted");
        draft.change(super::COUNT.to_vec(), Some(Bytes::copy_from_slice(&super::SESSIONS_MAX.to_be_bytes())));
        let batch = draft.into_batch();
        source.apply(batch);
        let mut draft = Draft::new(&source, 2, 2);
        note(&mut draft, (b"me", b"new"), (1, 7), Bytes::new()).expect("noted");
        assert_eq!(known(&draft, (b"me", b"old"), 2, 7), Ok(Known::Forgotten));
        assert_eq!(known(&draft, (b"me", b"new"), 1, 7), Ok(Known::Done(Some(Bytes::new()))));
    }
}
