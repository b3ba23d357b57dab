//! MULTI, EXEC and WATCH. The commands of a transaction become one entry, so all of them take
//! effect or none does, and nobody sees a part.
//!
//! A watched key is noted by its version when WATCH is answered, and compared in EXEC on the newest
//! versions. The noted versions hold for one term: if the leader was another meanwhile, EXEC does
//! nothing, for an entry that was taken back may have had the same index.

use bytes::Bytes;
use perdura_pmem::Mutant;

use super::answers;
use super::connection::Connection;
use super::context::Context;
use super::evaluate::{attempt, evaluate, refuse_or_wait, run_on, slot_of};
use super::forward;
use super::hash_slot;
use super::transaction_state::{Transaction, Watched};
use crate::command::{Command, Refusal, WORK_BYTES_MAX};
use crate::machine::draft::{Draft, PLACES_MAX};
use crate::resp::Reply;
use crate::store;

/// Most bytes of answers that have nothing to do with keys.
const ANSWERS_BYTES_MAX: usize = 64 << 20;
/// Most keys that a connection watches.
const WATCHED_MAX: usize = 10_000;

/// Whether a command is about the transaction, and so is not put into it.
pub(super) fn is_own(command: &Command) -> bool {
    matches!(command.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
}

/// Whether a command may be in a transaction: what is answered at once, or is done on a draft.
/// CLIENT REPLY would leave replies out of the array that EXEC has promised.
pub(super) fn takes(command: &Command) -> bool {
    !matches!(
        command.name,
        "wait" | "waitaof" | "perdura.once" | "perdura.clock" | "acl|setuser" | "acl|deluser" | "client|reply"
    )
}

/// Puts a request into the transaction.
pub(super) fn queue(connection: &mut Connection, command: &'static Command, request: Vec<Bytes>) -> Reply {
    let taken = connection.input.taken();
    connection.transaction.as_mut().map_or(Reply::Null, |transaction| transaction.queue(taken, command, request))
}

/// MULTI, DISCARD and UNWATCH.
pub(super) fn answer(connection: &mut Connection, name: &str) -> Reply {
    match (name, connection.transaction.is_some()) {
        ("multi", true) => return Reply::error("MULTI calls can not be nested"),
        ("multi", false) => connection.transaction = Some(Transaction::begin(connection.input.taken())),
        ("discard", false) => return Reply::error("DISCARD without MULTI"),
        ("discard", true) => connection.discard(),
        _ => connection.watched = Watched::default(),
    }
    Reply::OK
}

/// WATCH.
pub(super) fn watch(
    context: &mut Context<'_>,
    connection: &mut Connection,
    command: &Command,
    request: &[Bytes],
) -> store::Result<()> {
    if connection.transaction.is_some() {
        connection.say(Reply::error("WATCH inside MULTI is not allowed"));
        return Ok(());
    }
    if let Err(refusal) = command.check_keys(request) {
        connection.say(refusal.into_reply());
        return Ok(());
    }
    let keys = &request[1..];
    if connection.watched.keys().len() + keys.len() > WATCHED_MAX {
        connection.say(Reply::error(format!("a connection watches {WATCHED_MAX} keys at most")));
        return Ok(());
    }
    if forward::is_open(context, connection) {
        forward::watch(context, connection, request);
        return Ok(());
    }
    let term = context.node.status().term;
    let mut watched = std::mem::take(&mut connection.watched);
    watched.enter(term);
    evaluate(context, connection, hash_slot::of(&keys[0]), |draft| {
        for key in keys {
            let version = version(draft, key)?;
            watched.note(key, version);
        }
        Ok(Reply::OK)
    })?;
    connection.watched = watched;
    Ok(())
}

fn version(draft: &Draft<'_>, key: &[u8]) -> Result<u64, Reply> {
    let front = draft.front(key).map_err(|error| Refusal::from(error).into_reply())?;
    Ok(front.map_or(0, |front| front.version))
}

/// EXEC.
pub(super) fn exec(context: &mut Context<'_>, connection: &mut Connection) -> store::Result<()> {
    let Some(mut transaction) = connection.transaction.take() else {
        connection.say(Reply::error("EXEC without MULTI"));
        return Ok(());
    };
    let watched = std::mem::take(&mut connection.watched);
    if transaction.is_spoilt() {
        connection.say(Reply::Error("EXECABORT Transaction discarded because of previous errors.".to_owned()));
        return Ok(());
    }
    if !watched.holds_in(context.node.status().term) {
        connection.say(Reply::NullArray);
        return Ok(());
    }
    let slot = transaction.first_on_keys().map(|(command, request)| slot_of(command, request));
    let slot = slot.or_else(|| watched.keys().first_key_value().map(|(key, _)| hash_slot::of(key)));
    let user = connection.login.shown_user().cloned();
    let Some(answered) = answer_off_draft(context, connection, &transaction) else {
        connection.say(too_much("answers", ANSWERS_BYTES_MAX));
        return Ok(());
    };
    let Some(slot) = slot else {
        connection.say(Reply::Array(answered.into_iter().flatten().collect()));
        return Ok(());
    };
    if forward::is_open(context, connection) {
        let requests = transaction.into_requests();
        forward::transaction(context, connection, user, requests, answered, watched.keys().clone(), slot);
        return Ok(());
    }
    let why = attempt(context, connection, slot, |draft| {
        for (key, noted) in watched.keys() {
            // Planted: EXEC runs though a watched key was changed.
            if version(draft, key)? != *noted && !perdura_pmem::planted(Mutant::ExecIgnoresWatch) {
                return Err(Reply::NullArray);
            }
        }
        let requests = transaction.requests().iter().zip(answered.iter().cloned());
        let mut said = 0;
        let replies = requests.map(|((command, request), answered)| {
            let reply = answered.map_or_else(|| one(draft, command, request, said), Ok)?;
            said += reply.weight();
            Ok(reply)
        });
        Ok(Reply::Array(replies.collect::<Result<_, _>>()?))
    })?;
    refuse_or_wait(context, connection, (why, slot), vec![Bytes::from_static(b"EXEC")]);
    if connection.input.waits_for_room() {
        // Requests that touch no keys have been done, and are not done again.
        transaction.keep(answered, connection.output.protocol());
        (connection.transaction, connection.watched) = (Some(transaction), watched);
    }
    Ok(())
}

/// Answers the requests that are not about keys now: a draft has nothing to do with them. None: the
/// answers are too long.
fn answer_off_draft(
    context: &mut Context<'_>,
    connection: &mut Connection,
    transaction: &Transaction,
) -> Option<Vec<Option<Reply>>> {
    let (mut answered, mut bytes) = (Vec::new(), 0);
    for (place, (command, request)) in transaction.requests().iter().enumerate() {
        let said = transaction.said(place).map(Some);
        let answer = || answers::answer(context, connection, command, request);
        let reply = said.or_else(|| (!command.is_on_draft()).then(answer));
        let reply = reply.map(|reply| reply.unwrap_or(Reply::OK));
        bytes += reply.as_ref().map_or(0, Reply::weight);
        if bytes > ANSWERS_BYTES_MAX {
            return None;
        }
        answered.push(reply);
    }
    Some(answered)
}

/// Does one command of a transaction; the replies before it have `said` bytes. What it refuses
/// changes nothing, and the others are done all the same.
fn one(draft: &mut Draft<'_>, command: &Command, request: &[Bytes], said: usize) -> Result<Reply, Reply> {
    if draft.work().max(said) > WORK_BYTES_MAX {
        return Err(too_much("values", WORK_BYTES_MAX));
    }
    if draft.has_looked_at_all() {
        return Err(Reply::Error(format!(
            "EXECABORT Transaction discarded: it looks at more than {PLACES_MAX} keys, where one that it changes counts twice"
        )));
    }
    let before = draft.places();
    let reply = draft.attempt(|draft| run_on(command, request, draft)).unwrap_or_else(|reply| reply);
    if draft.places() == before {
        draft.look_at(1);
    }
    Ok(reply)
}

fn too_much(what: &str, most: usize) -> Reply {
    Reply::Error(format!("EXECABORT Transaction discarded: its {what} have more than {most} bytes"))
}
