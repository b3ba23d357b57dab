//! What was answered to clients that number their requests, so that one that comes again is not done again.
//!
//! ```text
//! 0x01 's' length(1) user id            the session: number of its last request (8), clock (8), whether its reply is kept (1), reply
//! 0x01 'a' clock(8) length(1) user id   sessions in the order of their last requests
//! 0x01 'n'                              the number of sessions (8)
//! ```
//!
//! A session belongs to a user by its name, which has so many bytes: nobody is told what was answered to another.
//! Numbers in places are big-endian, those in a session little-endian. There are [`SESSIONS_MAX`] sessions; a further one takes the place of that whose last request is the oldest by
//! the entries' clock. The reply of a forgotten session's request is lost, so a session begins with request 1, and another number of an
//! unknown session is refused.

use std::ops::Bound;

use bytes::{BufMut, Bytes, BytesMut};

use super::draft::{Draft, Unreadable};
use super::key::SYSTEM;
use crate::codec::{Read, Reader};

/// Most sessions.
pub const SESSIONS_MAX: u64 = 100_000;
/// Longest id, in bytes.
pub const ID_BYTES_MAX: usize = 64;
/// Longest reply that is kept, in bytes.
pub const REPLY_BYTES_MAX: usize = 1024;

const COUNT: &[u8] = &[SYSTEM, b'n'];

/// What is known of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is new.
    New,
    /// It was done, with this reply, or one that was too long to be kept.
    Done(Option<Bytes>),
    /// A later one was done: the number.
    Past(u64),
    /// Nothing is known of the session, and the request is not its first.
    Forgotten,
}

struct Session {
    number: u64,
    clock_ms: u64,
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
        let is_kept = reader.flag("whether a reply is kept")?;
        let reply = is_kept.then(|| reader.rest());
        Ok(Self { number, clock_ms, reply })
    }

    fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(17 + self.reply.as_ref().map_or(0, Bytes::len));
        out.put_u64_le(self.number);
        out.put_u64_le(self.clock_ms);
        out.put_u8(u8::from(self.reply.is_some()));
        out.put_slice(self.reply.as_deref().unwrap_or_default());
        out.freeze()
    }
}

fn find(draft: &Draft<'_>, whole: &[u8]) -> Result<Option<Session>, Unreadable> {
    let bytes = draft.value(&place(whole))?;
    bytes.map(Session::from_bytes).transpose().map_err(|torn| Unreadable(format!("a session is damaged: {torn}")))
}

/// What is known of a request of a user's session.
pub fn known(draft: &Draft<'_>, user: &[u8], id: &[u8], number: u64) -> Result<Known, Unreadable> {
    Ok(match find(draft, &whole(user, id))? {
        None if number == 1 => Known::New,
        None => Known::Forgotten,
        Some(session) if session.number == number => Known::Done(session.reply),
        Some(session) if session.number > number => Known::Past(session.number),
        Some(_) => Known::New,
    })
}

/// Notes that a request was done. A reply that is too long is not kept.
pub fn note(draft: &mut Draft<'_>, user: &[u8], id: &[u8], number: u64, reply: Bytes) -> Result<(), Unreadable> {
    let whole = whole(user, id);
    match find(draft, &whole)? {
        Some(before) => draft.change(place_by_age(before.clock_ms, &whole), None),
        None => make_room(draft)?,
    }
    let clock_ms = draft.now_ms();
    let reply = Some(reply).filter(|reply| reply.len() <= REPLY_BYTES_MAX);
    draft.change(place(&whole), Some(Session { number, clock_ms, reply }.to_bytes()));
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
    use super::{Bytes, Draft, Known, known, note};
    use crate::machine::draft::tests::Shelf;

    #[test]
    fn a_request_is_known_once_it_is_done() {
        let mut shelf = Shelf::default();
        for (at, number, reply) in [(1, 1, 10), (2, 5, 2000)] {
            let mut draft = Draft::new(&shelf, at, at);
            assert_eq!(known(&draft, b"me", b"id", number), Ok(Known::New));
            note(&mut draft, b"me", b"id", number, Bytes::from(vec![b'x'; reply])).expect("noted");
            let expected = if reply > 1024 { None } else { Some(Bytes::from(vec![b'x'; reply])) };
            assert_eq!(known(&draft, b"me", b"id", number), Ok(Known::Done(expected)));
            let deed = draft.into_deed();
            shelf.apply(deed);
        }
        let draft = Draft::new(&shelf, 3, 3);
        assert_eq!(known(&draft, b"me", b"id", 1), Ok(Known::Past(5)));
        assert_eq!(known(&draft, b"me", b"id", 6), Ok(Known::New));
        assert_eq!(known(&draft, b"me", b"other", 2), Ok(Known::Forgotten));
    }

    /// Hazard: whoever guesses the id and the number of another's request reads its reply, whatever rights they have.
    #[test]
    fn nobody_is_told_what_was_answered_to_another() {
        let mut shelf = Shelf::default();
        let mut draft = Draft::new(&shelf, 1, 1);
        note(&mut draft, b"ab", b"c", 1, Bytes::from_static(b"secret")).expect("noted");
        let deed = draft.into_deed();
        shelf.apply(deed);
        let draft = Draft::new(&shelf, 2, 2);
        for (user, id) in [("eve", "c"), ("a", "bc"), ("abc", ""), ("", "abc")] {
            assert_eq!(known(&draft, user.as_bytes(), id.as_bytes(), 1), Ok(Known::New), "{user} {id}");
        }
        assert_eq!(known(&draft, b"ab", b"c", 1), Ok(Known::Done(Some(Bytes::from_static(b"secret")))));
    }

    #[test]
    fn the_oldest_session_makes_room() {
        let mut shelf = Shelf::default();
        let mut draft = Draft::new(&shelf, 1, 1);
        note(&mut draft, b"me", b"old", 1, Bytes::new()).expect("noted");
        draft.change(super::COUNT.to_vec(), Some(Bytes::copy_from_slice(&super::SESSIONS_MAX.to_be_bytes())));
        let deed = draft.into_deed();
        shelf.apply(deed);
        let mut draft = Draft::new(&shelf, 2, 2);
        note(&mut draft, b"me", b"new", 1, Bytes::new()).expect("noted");
        assert_eq!(known(&draft, b"me", b"old", 2), Ok(Known::Forgotten));
        assert_eq!(known(&draft, b"me", b"new", 1), Ok(Known::Done(Some(Bytes::new()))));
    }
}
