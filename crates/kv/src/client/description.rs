//! A connection in a line, as CLIENT LIST and ACL LOG show it.

use super::connection::Connection;
use crate::resp::Protocol;

/// Line of CLIENT LIST about a connection.
pub fn line(connection: &Connection, now_us: u64) -> String {
    let seconds = |since_us: u64| now_us.saturating_sub(since_us) / 1_000_000;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let flags = match (connection.transaction.is_some(), connection.wait.is_some(), connection.is_readonly) {
        (true, ..) => "x",
        (_, true, _) => "b",
        (.., true) => "r",
        _ => "N",
    };
    let multi = connection.transaction.as_ref().map_or(-1, |transaction| transaction.requests.len() as i64);
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db=0 sub=0 psub=0 ssub=0 multi={multi} qbuf={} qbuf-free=0 argv-mem={} multi-mem={} rbs={} rbp={} obl={} oll={} omem={} tot-mem={} events=r cmd={} user={} redir=-1 resp={} lib-name={} lib-ver={}\n",
        connection.id,
        connection.peer.address,
        connection.peer.local,
        connection.token,
        text(&connection.name),
        seconds(connection.opened_us),
        seconds(connection.active_us),
        connection.requests.bytes_held(),
        connection.argument_bytes(),
        connection.transaction.as_ref().map_or(0, |transaction| transaction.bytes),
        connection.output.capacity(),
        connection.output.capacity(),
        connection.output.len(),
        connection.slots.len(),
        connection.slots.bytes(),
        connection.bytes() + size_of::<Connection>(),
        connection.command,
        text(&connection.user),
        if connection.protocol == Protocol::Resp3 { 3 } else { 2 },
        text(&connection.library[0]),
        text(&connection.library[1]),
    )
}
