//! PERDURA.ONCE: a command that is done once, however often it is sent.
//!
//! `PERDURA.ONCE id number command ...`: `id` is the client's own, at most 64 bytes that no other
//! client of the same user uses, `number` rises from 1. The reply is kept with what the command has
//! changed, in one entry; a refusal too, since a reply that was sent must stay the reply.

use bytes::{BufMut, Bytes, BytesMut};
use perdura_pmem::Mutant;

use super::connection::Connection;
use super::context::Context;
use super::evaluate::{attempt, refuse_or_wait, run_on, slot_of};
use super::lookup::lookup;
use crate::codec::{Malformed, Read, Reader, put_bytes};
use crate::command::{Command, Refusal};
use crate::machine::draft::Draft;
use crate::machine::session::{self, ID_BYTES_MAX, Known};
use crate::resp::Reply;
use crate::store;

/// Number of arguments before the command.
const BEFORE: usize = 3;

/// The command within a request, if it is one that is done once.
pub(super) fn inner<'a>(command: &Command, request: &'a [Bytes]) -> Option<(&'static Command, &'a [Bytes])> {
    if command.name != "perdura.once" {
        return None;
    }
    let request = request.get(BEFORE..)?;
    lookup(request).ok().map(|command| (command, request))
}

/// PERDURA.ONCE.
pub(super) fn run(context: &mut Context<'_>, connection: &mut Connection, request: Vec<Bytes>) -> store::Result<()> {
    let parsed = lookup(&request[BEFORE..]).and_then(|command| Ok((command, number(&request[1], &request[2])?)));
    let (command, number) = match parsed {
        Ok((command, _)) if !command.is_on_draft() => {
            connection.say(Reply::error(format!("'{}' cannot be done once: it is no business of keys", command.name)));
            return Ok(());
        }
        Ok(parsed) => parsed,
        Err(reply) => {
            connection.say(reply);
            return Ok(());
        }
    };
    let (user, id, inner) = (connection.login.user().clone(), &request[1], &request[BEFORE..]);
    let slot = slot_of(command, inner);
    let why = attempt(context, connection, slot, |draft| once(draft, (&user, id), number, command, inner))?;
    refuse_or_wait(context, connection, (why, slot), request);
    Ok(())
}

fn number(id: &[u8], number: &[u8]) -> Result<u64, Reply> {
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        return Err(Reply::error(format!("the id of a session has 1 to {ID_BYTES_MAX} bytes")));
    }
    let number = str::from_utf8(number).ok().and_then(|text| text.parse::<u64>().ok()).filter(|number| *number > 0);
    number.ok_or_else(|| Reply::error("the number of a request is above 0, and rises"))
}

fn once(
    draft: &mut Draft<'_>,
    (user, id): (&[u8], &[u8]),
    number: u64,
    command: &Command,
    request: &[Bytes],
) -> Result<Reply, Reply> {
    let unreadable = |error| Refusal::from(error).into_reply();
    let hash = session::hash(request);
    let known = session::known(draft, (user, id), number, hash).map_err(unreadable)?;
    // Planted: a request that was done is done again.
    match if perdura_pmem::planted(Mutant::OnceDoneTwice) { Known::New } else { known } {
        Known::New => {}
        Known::Done(Some(kept)) => {
            return Err(get_reply(&mut Reader::new(kept)).unwrap_or_else(|_| Reply::error("the kept reply is damaged")));
        }
        Known::Done(None) => return Err(Reply::error("the request was done, but its reply was too long to be kept")),
        Known::Other => {
            return Err(Reply::error(format!(
                "request {number} of the session was another command: take the next number"
            )));
        }
        Known::Past(newest) => {
            return Err(Reply::error(format!("request {number} of the session is past: {newest} was done")));
        }
        Known::Forgotten => {
            return Err(Reply::error("the session is unknown, or was forgotten: begin one with request 1"));
        }
    }
    let reply = draft.attempt(|draft| run_on(command, request, draft)).unwrap_or_else(|reply| reply);
    let mut kept = BytesMut::new();
    put_reply(&reply, &mut kept);
    session::note(draft, (user, id), (number, hash), kept.freeze()).map_err(unreadable)?;
    Ok(reply)
}

/// Statuses that commands on keys return.
const STATUSES: [&str; 3] = ["OK", "string", "none"];

/// Appends a reply as it is kept: a byte for its kind, and what it consists of.
fn put_reply(reply: &Reply, out: &mut BytesMut) {
    match reply {
        Reply::Status(text) => {
            out.put_u8(0);
            put_bytes(out, text.as_bytes());
        }
        Reply::Error(text) => {
            out.put_u8(1);
            put_bytes(out, text.as_bytes());
        }
        Reply::Integer(number) => {
            out.put_u8(2);
            out.put_i64_le(*number);
        }
        Reply::Bytes(bytes) => {
            out.put_u8(3);
            put_bytes(out, bytes);
        }
        Reply::Array(elements) | Reply::Set(elements) => {
            out.put_u8(4);
            out.put_u32_le(elements.len() as u32);
            elements.iter().for_each(|element| put_reply(element, out));
        }
        Reply::NullArray => out.put_u8(6),
        // No command on keys returns others.
        Reply::Null | Reply::Double(_) | Reply::Map(_) | Reply::Written(_) => out.put_u8(5),
    }
}

fn get_reply(reader: &mut Reader) -> Read<Reply> {
    let text = |reader: &mut Reader| reader.bytes("a text");
    Ok(match reader.u8("the kind of a reply")? {
        0 => {
            let text = text(reader)?;
            let status = STATUSES.iter().find(|status| status.as_bytes() == text);
            status.map_or(Reply::Bytes(text), |status| Reply::Status(status))
        }
        1 => Reply::Error(String::from_utf8_lossy(&text(reader)?).into_owned()),
        2 => Reply::Integer(reader.u64("a number")? as i64),
        3 => Reply::Bytes(text(reader)?),
        4 => {
            let count = reader.count("the number of elements", 1)?;
            Reply::Array((0..count).map(|_| get_reply(reader)).collect::<Read<_>>()?)
        }
        5 => Reply::Null,
        6 => Reply::NullArray,
        _ => return Err(Malformed { field: "the kind of a reply" }),
    })
}

#[cfg(test)]
mod tests {
    use super::{BytesMut, Reader, Reply, get_reply, put_reply};

    #[test]
    fn a_kept_reply_comes_back() {
        let parts = vec![Reply::OK, Reply::Null, Reply::Integer(-5), Reply::text("v"), Reply::error("no")];
        let reply = Reply::Array(vec![Reply::Array(parts), Reply::NullArray]);
        let mut kept = BytesMut::new();
        put_reply(&reply, &mut kept);
        assert_eq!(get_reply(&mut Reader::new(kept.freeze())), Ok(reply));
    }
}
