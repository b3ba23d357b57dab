//! Commands on keys: writes and what follows them at once, on the newest versions; reads later, on
//! what is applied.

use bytes::Bytes;
use perdura_pmem::Mutant;

use super::connection::Connection;
use super::context::Context;
use super::hash_slot;
use super::lookup::lookup;
use super::shared::Shared;
use super::slots::State;
use super::step::Step;
use super::tickets::Stub;
use crate::command::{Command, Refusal};
use crate::machine::draft::Draft;
use crate::node::{Node, Rejection, Role};
use crate::resp::Reply;
use crate::store::{self, FOUNDING, ReadLevel, View};

/// How far the newest entry's clock may be behind the time of the log for TTL and PTTL to be
/// answered by it, in milliseconds.
const CLOCK_LAG_MS_MAX: u64 = 10;

/// The hash slot of a request's first key.
pub(super) fn slot_of(command: &Command, request: &[Bytes]) -> u16 {
    command.keys(request).next().map_or(0, |key| hash_slot::of(key))
}

/// Evaluates something on the newest versions. It is answered when what it rests on is applied.
/// A reply that `run` gives with `Err` changes nothing.
pub(super) fn evaluate(
    context: &mut Context<'_>,
    connection: &mut Connection,
    slot: u16,
    run: impl FnOnce(&mut Draft<'_>) -> Result<Reply, Reply>,
) -> store::Result<()> {
    if let Some(why) = attempt(context, connection, slot, run)? {
        connection.say(context.shared.refusal(why, slot));
    }
    Ok(())
}

/// A request was not taken, if `why` says so: it is refused, or waits until the store has made
/// room.
pub(super) fn refuse_or_wait(
    context: &mut Context<'_>,
    connection: &mut Connection,
    (why, slot): (Option<Rejection>, u16),
    request: Vec<Bytes>,
) {
    match why {
        None => {}
        Some(Rejection::MakesRoom) => connection.input.park_for_room(request),
        Some(why) => connection.say(context.shared.refusal(why, slot)),
    }
}

/// [`evaluate`], but what is not taken is not answered. Returns why it was not.
pub(super) fn attempt(
    context: &mut Context<'_>,
    connection: &mut Connection,
    slot: u16,
    run: impl FnOnce(&mut Draft<'_>) -> Result<Reply, Reply>,
) -> store::Result<Option<Rejection>> {
    if connection.slots.has_reads() {
        for number in connection.slots.reads() {
            evaluate_read(context, connection, number)?;
        }
    }
    let ticket = Stub::Place { token: connection.token(), number: connection.slots.next() }.ticket();
    match on_newest(context, (ticket, connection.login.user()), run)? {
        Ok(reply) => {
            connection.push(State::Held { reply, slot });
            connection.newest = context.node.store().last();
            Ok(None)
        }
        Err(why) => Ok(Some(why)),
    }
}

fn on_newest(
    context: &mut Context<'_>,
    (ticket, user): (u64, &Bytes),
    run: impl FnOnce(&mut Draft<'_>) -> Result<Reply, Reply>,
) -> store::Result<Result<Reply, Rejection>> {
    let memory = &context.shared.memory;
    let (step, performance) = (&mut context.shared.step, &mut context.shared.performance);
    context.node.evaluate(ticket, |draft| {
        draft.remember(memory, user);
        let reply = run(draft).unwrap_or_else(|reply| {
            draft.give_up();
            reply
        });
        draft.keep_time();
        step.add(draft);
        performance.set_outcome(&reply);
        Ok(reply)
    })
}

/// Does a command on a draft.
pub(super) fn run_on(command: &Command, request: &[Bytes], draft: &mut Draft<'_>) -> Result<Reply, Reply> {
    command.run(request, draft).map_err(Refusal::into_reply)
}

/// Evaluates a read that waits, before a write of the same connection.
fn evaluate_read(context: &mut Context<'_>, connection: &mut Connection, number: u64) -> store::Result<()> {
    let token = connection.token();
    let user = connection.login.user().clone();
    let Some(State::Read { request, .. }) = connection.slots.get_mut(number) else { return Ok(()) };
    let Ok(command) = lookup(request) else { return Ok(()) };
    let (slot, ticket) = (slot_of(command, request), Stub::Place { token, number }.ticket());
    // If it is not taken, it stays a read.
    if let Ok(reply) = on_newest(context, (ticket, &user), |draft| run_on(command, request, draft))? {
        connection.slots.set(number, State::Held { reply, slot });
    }
    Ok(())
}

/// A command that only reads.
pub(super) fn read(
    context: &mut Context<'_>,
    connection: &mut Connection,
    command: &'static Command,
    request: Vec<Bytes>,
) -> store::Result<()> {
    // Planted: a read does not see the write before it on its connection.
    let is_behind_write = connection.slots.has_held() && !perdura_pmem::planted(Mutant::ReadMissesOwnWrite);
    if is_behind_write || needs_clock(context, command) {
        return evaluate(context, connection, slot_of(command, &request), |draft| run_on(command, &request, draft));
    }
    // It goes over several steps: those before it are answered by now, and those behind it wait.
    let is_listing = command.name == "keys";
    // Changes of the connection itself, done by the leader, are not too new for it.
    if connection.is_readonly && !context.leads() && connection.newest <= context.node.store().applied() {
        let lacks_data = context.node.status().role == Role::Receiving || context.node.store().applied() < FOUNDING;
        let reply = if lacks_data {
            Reply::Error("LOADING this replica receives its data from another".to_owned())
        } else if is_listing {
            let number = connection.push(State::Read { request, is_asked: true });
            connection.blocking.begin_listing();
            context.batches.add_due((connection.token(), number));
            return Ok(());
        } else {
            read_applied(context.shared, (connection.login.user(), &request), context.node, Step::add)
        };
        connection.say(reply);
        return Ok(());
    }
    if is_listing {
        connection.blocking.begin_listing();
    }
    let number = connection.push(State::Read { request, is_asked: true });
    context.batches.add((connection.token(), number));
    Ok(())
}

/// Whether a command returns how long a key has left, and the log's clock has stood for too long to
/// know.
fn needs_clock(context: &Context<'_>, command: &Command) -> bool {
    matches!(command.name, "ttl" | "pttl")
        && context.leads()
        && context.node.store().clock_ms(ReadLevel::Newest) + CLOCK_LAG_MS_MAX < context.node.now_ms()
}

/// Does a read of a user on what is applied, and counts it as `count` does.
pub(super) fn read_applied(
    shared: &mut Shared,
    (user, request): (&Bytes, &[Bytes]),
    node: &Node,
    count: fn(&mut Step, &Draft<'_>),
) -> Reply {
    let Ok(command) = lookup(request) else { return Reply::Null };
    let store = node.store();
    let view = View::new(store, ReadLevel::Applied);
    let mut draft = Draft::new(&view, store.clock_ms(ReadLevel::Applied), store.applied());
    draft.remember(&shared.memory, user);
    let reply = run_on(command, request, &mut draft).unwrap_or_else(|reply| reply);
    count(&mut shared.step, &draft);
    shared.performance.set_outcome(&reply);
    match reply {
        Reply::Null => shared.statistics.misses += 1,
        Reply::Bytes(_) => shared.statistics.hits += 1,
        _ => {}
    }
    reply
}
