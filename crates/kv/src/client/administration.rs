//! CLIENT: connections of this replica.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::connection::Connection;
use super::context::Context;
use crate::command::{help, integer};
use crate::resp::Reply;

/// CLIENT and what follows.
pub(super) fn answer(
    context: &mut Context<'_>,
    connection: &mut Connection,
    inner: &str,
    request: &[Bytes],
) -> Option<Reply> {
    let syntax = || Reply::error("syntax error");
    let switch = |value: &Bytes| match &value.to_ascii_lowercase()[..] {
        b"on" | b"off" => Reply::OK,
        _ => syntax(),
    };
    Some(match inner {
        "id" => Reply::Integer(connection.profile.id() as i64),
        "getname" if connection.profile.name().is_empty() => Reply::Null,
        "getname" => Reply::Bytes(connection.profile.name().clone()),
        "setname" => connection.profile.set_name(&request[2]).map_or_else(|reply| reply, |()| Reply::OK),
        "setinfo" => connection.profile.set_library(&request[2], &request[3]),
        "info" => Reply::text(connection.line(context.now_us)),
        "list" => list(context, connection, &request[2..]),
        "kill" => kill(context, connection, &request[2..]),
        "no-evict" | "no-touch" => switch(&request[2]),
        "reply" => return connection.output.set_wanted(&request[2]),
        "tracking" => match &request[2].to_ascii_lowercase()[..] {
            b"off" => Reply::OK,
            b"on" => Reply::error("keys are not tracked: client-side caching is not supported"),
            _ => syntax(),
        },
        "getredir" => Reply::Integer(-1),
        "trackinginfo" => Reply::Map(vec![
            (Reply::text("flags"), Reply::Set(vec![Reply::text("off")])),
            (Reply::text("redirect"), Reply::Integer(-1)),
            (Reply::text("prefixes"), Reply::Array(Vec::new())),
        ]),
        _ => help("client"),
    })
}

fn list(context: &Context<'_>, connection: &Connection, options: &[Bytes]) -> Reply {
    let mut ids = None;
    match options {
        [] => {}
        [option, kind] if option.eq_ignore_ascii_case(b"TYPE") => match &kind.to_ascii_lowercase()[..] {
            b"normal" => {}
            b"master" | b"replica" | b"slave" | b"pubsub" => ids = Some(BTreeSet::new()),
            _ => return Reply::error(format!("Unknown client type '{}'", String::from_utf8_lossy(kind))),
        },
        [option, wanted @ ..] if option.eq_ignore_ascii_case(b"ID") && !wanted.is_empty() => {
            match wanted.iter().map(|id| integer(id)).collect::<Result<BTreeSet<i64>, _>>() {
                Ok(wanted) => ids = Some(wanted),
                Err(_) => return Reply::error("Invalid client ID"),
            }
        }
        _ => return Reply::error("syntax error"),
    }
    let mut all: Vec<&Connection> = context.table.iter().chain([connection]).collect();
    all.retain(|one| ids.as_ref().is_none_or(|ids| ids.contains(&(one.profile.id() as i64))));
    all.sort_unstable_by_key(|one| one.profile.id());
    Reply::text(all.into_iter().map(|one| one.line(context.now_us)).collect::<String>())
}

/// Filter of the connections to be closed.
#[derive(Default)]
struct Filter<'a> {
    id: Option<i64>,
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    skips_me: bool,
    /// Whether it is about a type that no connection has.
    is_vain: bool,
}

impl Filter<'_> {
    fn matches(&self, one: &Connection) -> bool {
        let (id, peer) = (one.profile.id(), one.profile.peer());
        !self.is_vain
            && self.id.is_none_or(|wanted| wanted == id as i64)
            && self.address.is_none_or(|address| address == peer.address.as_bytes())
            && self.local.is_none_or(|local| local == peer.local.as_bytes())
            && self.user.is_none_or(|user| user == &one.login.user()[..])
    }
}

fn parse_filter<'a>(context: &Context<'_>, options: &'a [Bytes]) -> Result<Filter<'a>, Reply> {
    let mut filter = Filter { skips_me: true, ..Filter::default() };
    let (pairs, odd) = options.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(Reply::error("syntax error"));
    }
    for [option, value] in pairs {
        match &option.to_ascii_uppercase()[..] {
            b"ID" => match integer(value) {
                Ok(id) if id > 0 => filter.id = Some(id),
                _ => return Err(Reply::error("client-id should be greater than 0")),
            },
            b"ADDR" => filter.address = Some(value),
            b"LADDR" => filter.local = Some(value),
            b"USER" if context.shared.admission.acl().user(value).is_none() => {
                return Err(Reply::error(format!("No such user '{}'", String::from_utf8_lossy(value))));
            }
            b"USER" => filter.user = Some(value),
            b"TYPE" => match &value.to_ascii_lowercase()[..] {
                b"normal" => {}
                b"master" | b"replica" | b"slave" | b"pubsub" => filter.is_vain = true,
                _ => return Err(Reply::error(format!("Unknown client type '{}'", String::from_utf8_lossy(value)))),
            },
            b"SKIPME" => match &value.to_ascii_lowercase()[..] {
                b"yes" => filter.skips_me = true,
                b"no" => filter.skips_me = false,
                _ => return Err(Reply::error("syntax error")),
            },
            _ => return Err(Reply::error("syntax error")),
        }
    }
    Ok(filter)
}

fn kill(context: &mut Context<'_>, connection: &mut Connection, options: &[Bytes]) -> Reply {
    let is_old = options.len() == 1;
    let filter = if is_old {
        Filter { address: Some(&options[0]), ..Filter::default() }
    } else {
        match parse_filter(context, options) {
            Ok(filter) => filter,
            Err(reply) => return reply,
        }
    };
    let mut count = 0;
    for other in context.table.iter_mut().filter(|other| filter.matches(other)) {
        other.kill();
        context.shared.queues.wake_killed(other.token());
        count += 1;
    }
    if !filter.skips_me && filter.matches(connection) {
        connection.lifecycle.end();
        count += 1;
    }
    match (is_old, count) {
        (false, count) => Reply::Integer(count),
        (true, 0) => Reply::error("No such client"),
        (true, _) => Reply::OK,
    }
}
