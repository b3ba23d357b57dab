//! WAIT and WAITAOF. What was acknowledged is on a quorum's media already, so both only wait for
//! more replicas than that.
//!
//! They answer what is so: WAIT the number of other replicas that have on their media all that this
//! connection has written, WAITAOF also whether this one has. "This" is the one that the client is
//! connected to, also where its requests are passed on. More than there are is an error at once,
//! and so is a leader that is lost.

use bytes::Bytes;

use super::blocking::Wait;
use super::connection::Connection;
use super::context::Context;
use super::shared::Shared;
use crate::command::integer;
use crate::node::Node;
use crate::resp::Reply;

/// WAIT others ms, WAITAOF here others ms.
pub(super) fn begin(context: &mut Context<'_>, connection: &mut Connection, name: &str, request: &[Bytes]) {
    match parse(context, connection, name, request) {
        Ok(wait) => {
            connection.blocking.set_wait(Some(wait));
            context.shared.queues.wait(connection.token());
            go_on(context.shared, connection, context.node);
        }
        Err(reply) => connection.say(reply),
    }
}

fn parse(context: &mut Context<'_>, connection: &Connection, name: &str, request: &[Bytes]) -> Result<Wait, Reply> {
    let number = |at: usize| integer(&request[at]).map_err(|refusal| refusal.into_reply());
    let tells_here = name == "waitaof";
    let here = if tells_here { number(1)? } else { 0 };
    let others = number(request.len() - 2)?;
    let timeout = integer(&request[request.len() - 1])
        .map_err(|_| Reply::error("timeout is not an integer or out of range"))
        .and_then(|ms| u64::try_from(ms).map_err(|_| Reply::error("timeout is negative")))?;
    if !(0..=1).contains(&here) || others < 0 && tells_here {
        return Err(Reply::error("value is out of range, must be between 0 and 1"));
    }
    let others = usize::try_from(others).unwrap_or_default();
    let at = connection.proxied.as_ref().map_or(context.node.id(), |proxied| proxied.replica());
    let index = connection.newest;
    let Some(holders) = context.node.holders(index, at) else {
        return Err(context.shared.again(0, context.node));
    };
    if others > holders.members {
        let members = holders.members;
        return Err(Reply::error(format!("there cannot be {others} other replicas: the cluster has {members}")));
    }
    let until_us = match timeout {
        0 => u64::MAX,
        ms => context.node.steady_us().saturating_add(ms.saturating_mul(1000)),
    };
    Ok(Wait { index, at, here: here == 1, others, until_us, tells_here })
}

/// Answers if what is waited for is so, or the time is up.
pub(super) fn go_on(shared: &mut Shared, connection: &mut Connection, node: &Node) {
    let Some(wait) = connection.blocking.wait() else { return };
    let reply = match node.holders(wait.index, wait.at) {
        None => shared.again(0, node),
        Some(holders) if wait.is_met(holders) || node.steady_us() >= wait.until_us => {
            let others = Reply::Integer(holders.others as i64);
            let here = Reply::Integer(i64::from(holders.is_here));
            if wait.tells_here { Reply::Array(vec![here, others]) } else { others }
        }
        Some(_) => return,
    };
    connection.blocking.set_wait(None);
    connection.say(reply);
}
