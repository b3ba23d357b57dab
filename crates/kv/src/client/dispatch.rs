//! One request: whether there is such a command, who may ask it, and who answers.

use bytes::Bytes;

use super::admission::LOADING;
use super::answers;
use super::connection::Connection;
use super::context::Context;
use super::denials::About;
use super::evaluate::{self, run_on, slot_of};
use super::lookup::lookup;
use super::notices::Notice;
use super::performance;
use super::slots::State;
use super::transaction_state::Transaction;
use super::{forward, once, transaction, users, wait};
use crate::acl::{self, Acl, Denied, User};
use crate::command::{Access, Command};
use crate::resp::Reply;
use crate::store;

/// Most arguments of a command that is not about keys: what it does with each of them is not
/// counted, and may be to look at all there is.
const ARGUMENTS_MAX: usize = 1024;

/// Whether a command has a bound of its own.
fn is_bounded(command: &Command) -> bool {
    matches!(command.name, "watch" | "acl|setuser")
}

/// Does a request, or begins to. Error: that of the store.
pub(super) fn request(
    context: &mut Context<'_>,
    connection: &mut Connection,
    request: Vec<Bytes>,
) -> store::Result<()> {
    connection.output.begin_request();
    checked(context, connection, request)?;
    if !connection.input.is_parked() {
        connection.output.end_request();
    }
    Ok(())
}

/// Whether a request is one of HTTP: what a browser sends, which has a foreign page send it.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:")
}

fn checked(context: &mut Context<'_>, connection: &mut Connection, request: Vec<Bytes>) -> store::Result<()> {
    if is_http(&request[0]) {
        context.shared.statistics.http += 1;
        context.shared.notices.add(Notice::Http { from: connection.profile.peer().address.clone() });
        connection.kill();
        return Ok(());
    }
    if connection.login.changes_users() && !connection.slots.is_empty() {
        connection.input.park(request);
        return Ok(());
    }
    connection.login.set_changes_users(false);
    let looked_up = lookup(&request).and_then(|command| {
        let allowed = allowed(context, connection, command, &request);
        allowed.inspect_err(|_| context.shared.performance.reject(command.name))
    });
    let command = match looked_up {
        Ok(command) => command,
        Err(reply) => {
            context.shared.statistics.commands += 1;
            context.shared.statistics.errors += 1;
            let reply = refused(connection, &request[0], reply);
            connection.say(reply);
            return Ok(());
        }
    };
    let is_queued = connection.transaction.is_some() && !transaction::is_own(command);
    if is_barrier(command) && !connection.slots.is_empty() || !is_queued && forward::waits(context, connection, command)
    {
        connection.input.park(request);
        return Ok(());
    }
    context.shared.statistics.commands += 1;
    connection.profile.set_command(command.name);
    if is_queued {
        queue(context, connection, command, request);
        return Ok(());
    }
    let (front, count) = (performance::front(&request), request.len());
    let begun_us = context.shared.steady_us();
    context.shared.performance.begin();
    run(context, connection, command, request)?;
    if connection.input.waits_for_room() {
        // It is counted when it is done.
        context.shared.statistics.commands -= 1;
        return Ok(());
    }
    // A read that waits is noted when it is done.
    let last = connection.slots.next().wrapping_sub(1);
    if !matches!(connection.slots.get_mut(last), Some(State::Read { .. })) {
        let us = context.shared.steady_us().saturating_sub(begun_us);
        context.shared.note(&connection.profile, (command, &front, count), us, context.now_us);
    }
    Ok(())
}

/// A request was refused before it was done: the transaction is spoilt, or ends if it was its EXEC.
fn refused(connection: &mut Connection, name: &[u8], reply: Reply) -> Reply {
    if !name.eq_ignore_ascii_case(b"exec") {
        connection.spoil();
        return reply;
    }
    connection.discard();
    aborted(&reply)
}

fn aborted(reply: &Reply) -> Reply {
    let text = error_text(reply);
    let text = text.strip_prefix("ERR ").unwrap_or(text);
    Reply::Error(format!("EXECABORT Transaction discarded because of: {text}"))
}

/// Whether the connection's user may do it now.
fn allowed(
    context: &mut Context<'_>,
    connection: &Connection,
    command: &'static Command,
    request: &[Bytes],
) -> Result<&'static Command, Reply> {
    if !context.shared.admission.is_open() && !matches!(command.name, "quit" | "reset") {
        return Err(Reply::Error(LOADING.to_owned()));
    }
    if !connection.login.is_known() && !command.has_flag("no_auth") {
        return Err(Reply::Error("NOAUTH Authentication required.".to_owned()));
    }
    if request.len() > ARGUMENTS_MAX && command.access == Access::None && !is_bounded(command) {
        return Err(Reply::error(format!("'{}' takes {ARGUMENTS_MAX} arguments at most", command.name)));
    }
    if connection.transaction.is_some() && !transaction::takes(command) {
        return Err(Reply::error("Command not allowed inside a transaction"));
    }
    may(context, connection, command, request)?;
    Ok(command)
}

/// Whether the connection's user has the right. If not, ACL LOG gets an entry.
fn may(context: &mut Context<'_>, connection: &Connection, command: &Command, request: &[Bytes]) -> Result<(), Reply> {
    let Err(denied) = permits(context.shared.admission.acl(), connection.login.user(), command, request) else {
        return Ok(());
    };
    let about = match &denied {
        None => None,
        Some(Denied::Command(name)) => Some((About::Command, name.as_bytes())),
        Some(Denied::Key(key)) => Some((About::Key, &key[..])),
    };
    if let Some((about, object)) = about {
        context.shared.denials.note(connection, context.now_us, about, object, connection.login.user());
    }
    Err(no_permission(denied.as_ref()))
}

/// Whether a user may do a request. Error: what is denied; nothing if there is no such user, or it
/// is off.
fn permits(acl: &Acl, user: &[u8], command: &Command, request: &[Bytes]) -> Result<(), Option<Denied>> {
    if command.has_flag("no_auth") {
        return Ok(());
    }
    let user = acl.user(user).filter(|user| User::is_on(user)).ok_or(None)?;
    acl::may(user, command, request)?;
    match once::inner(command, request) {
        Some((inner, request)) => Ok(acl::may(user, inner, request)?),
        None => Ok(()),
    }
}

fn no_permission(denied: Option<&Denied>) -> Reply {
    Reply::Error(match denied {
        None => "NOAUTH Authentication required.".to_owned(),
        Some(Denied::Command(name)) => format!("NOPERM this user has no permissions to run the '{name}' command"),
        Some(Denied::Key(_)) => {
            "NOPERM this user has no permissions to access one of the keys used as arguments".to_owned()
        }
    })
}

/// The answer to a request that was allowed when it came, if it is not allowed any more.
pub(super) fn denial(acl: &Acl, user: &[u8], request: &[Bytes]) -> Option<Reply> {
    let denied = lookup(request).map(|command| permits(acl, user, command, request));
    match denied {
        Ok(Ok(())) => None,
        Ok(Err(denied)) => Some(no_permission(denied.as_ref())),
        Err(reply) => Some(reply),
    }
}

/// Whether a command waits until those before it are answered, for it is about what they may
/// change, or takes several steps.
fn is_barrier(command: &Command) -> bool {
    matches!(command.name, "auth" | "hello" | "wait" | "waitaof" | "keys") || command.name.starts_with("acl|")
}

fn queue(context: &mut Context<'_>, connection: &mut Connection, command: &'static Command, request: Vec<Bytes>) {
    if command.is_on_draft() && !context.leads() && !forward::is_open(context, connection) {
        let reply = context.shared.again(slot_of(command, &request), context.node);
        connection.spoil();
        connection.say(reply);
        return;
    }
    let reply = transaction::queue(connection, command, request);
    connection.say(reply);
}

fn run(
    context: &mut Context<'_>,
    connection: &mut Connection,
    command: &'static Command,
    request: Vec<Bytes>,
) -> store::Result<()> {
    let Some(request) = forward::one(context, connection, command, request) else { return Ok(()) };
    match (command.access, command.name) {
        (Access::Write, "perdura.once") => once::run(context, connection, request),
        (Access::Write, _) => {
            let slot = slot_of(command, &request);
            let why = evaluate::attempt(context, connection, slot, |draft| run_on(command, &request, draft))?;
            evaluate::refuse_or_wait(context, connection, (why, slot), request);
            Ok(())
        }
        (Access::Read, _) => evaluate::read(context, connection, command, request),
        (Access::None, "exec") => {
            let denied = connection.transaction.iter().flat_map(Transaction::requests);
            let denied = denied.map(|(command, request)| may(context, connection, command, request));
            let denied = denied.filter_map(Result::err).next();
            if let Some(reply) = denied {
                connection.discard();
                connection.say(aborted(&reply));
                return Ok(());
            }
            transaction::exec(context, connection)
        }
        (Access::None, "watch") => transaction::watch(context, connection, command, &request),
        (Access::None, "multi" | "discard" | "unwatch") => {
            let reply = transaction::answer(connection, command.name);
            connection.say(reply);
            Ok(())
        }
        (Access::None, "wait" | "waitaof") => {
            wait::begin(context, connection, command.name, &request);
            Ok(())
        }
        (Access::None, "acl|setuser" | "acl|deluser") => users::change(context, connection, command.name, request),
        (Access::None, _) => {
            if let Some(reply) = answers::answer(context, connection, command, &request) {
                connection.say(reply);
            }
            Ok(())
        }
    }
}

fn error_text(reply: &Reply) -> &str {
    if let Reply::Error(text) = reply { text } else { "" }
}
