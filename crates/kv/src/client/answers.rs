//! Commands that are answered at once, by what this replica knows.

use bytes::Bytes;

use super::connection::Connection;
use super::context::Context;
use super::login::Login;
use super::verdict::judge;
use super::{administration, catalog, cluster, denials, greeting, info, tuning, users};
use crate::command::{Command, help, integer};
use crate::resp::Reply;

/// The answer to a command. `None` if the client wants none.
pub(super) fn answer(
    context: &mut Context<'_>,
    connection: &mut Connection,
    command: &Command,
    request: &[Bytes],
) -> Option<Reply> {
    let (outer, inner) = command.name.split_once('|').unwrap_or((command.name, ""));
    Some(match outer {
        "ping" => ping(command, request),
        "echo" => Reply::Bytes(Bytes::copy_from_slice(&request[1])),
        "select" => select(&request[1]),
        "time" => {
            let words = [context.now_us / 1_000_000, context.now_us % 1_000_000];
            Reply::Array(words.map(|word| Reply::text(word.to_string())).to_vec())
        }
        "readonly" | "readwrite" => {
            connection.is_readonly = outer == "readonly";
            Reply::OK
        }
        "asking" | "unwatch" => Reply::OK,
        "quit" => {
            connection.lifecycle.end();
            Reply::OK
        }
        "reset" => {
            connection.reset();
            connection.login = Login::default();
            if !connection.profile.peer().is_remote {
                judge(context.shared, connection);
            }
            Reply::Status("RESET")
        }
        "auth" => greeting::auth(context, connection, request),
        "hello" => greeting::hello(context, connection, request),
        "client" => return administration::answer(context, connection, inner, request),
        "acl" if inner == "log" => denials::answer(&mut context.shared.denials, context.now_us, request),
        "acl" => users::answer(context, connection, inner, request),
        "command" => catalog::answer(inner, request),
        "cluster" => cluster::answer(context, inner, request),
        "config" => tuning::answer(context, inner, request),
        "slowlog" => context.shared.performance.slowlog(inner, request),
        "latency" => context.shared.performance.latency(inner, request),
        "memory" => help("memory"),
        "info" => info::answer(context, request),
        other => Reply::error(format!("'{other}' cannot be done here")),
    })
}

fn ping(command: &Command, request: &[Bytes]) -> Reply {
    match request {
        [_] => Reply::Status("PONG"),
        [_, text] => Reply::Bytes(Bytes::copy_from_slice(text)),
        _ => Reply::error(format!("wrong number of arguments for '{}' command", command.name)),
    }
}

fn select(number: &[u8]) -> Reply {
    match integer(number) {
        Ok(0) => Reply::OK,
        Ok(_) => Reply::error("DB index is out of range"),
        Err(refusal) => refusal.into_reply(),
    }
}
