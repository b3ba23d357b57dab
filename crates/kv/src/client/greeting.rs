//! Authentication and protocol of a connection: AUTH and HELLO.

use bytes::Bytes;

use super::connection::Connection;
use super::context::Context;
use super::denials::About;
use crate::command::integer;
use crate::resp::{Protocol, Reply};

/// The version of Redis whose commands clients may expect.
pub(super) const REDIS_VERSION: &str = "7.0.0";

fn wrong_password() -> Reply {
    Reply::Error("WRONGPASS invalid username-password pair or user is disabled.".to_owned())
}

/// AUTH [name] password.
pub(super) fn auth(context: &mut Context<'_>, connection: &mut Connection, request: &[Bytes]) -> Reply {
    let (name, password) = match request {
        [_, password] => {
            let is_open =
                context.shared.admission.acl().user(b"default").is_some_and(crate::acl::User::has_no_password);
            if is_open {
                return Reply::error(
                    "AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
                );
            }
            (Bytes::from_static(b"default"), password)
        }
        [_, name, password] => (name.clone(), password),
        _ => return Reply::error("syntax error"),
    };
    if log_in(context, connection, &request[0], &name, password) { Reply::OK } else { wrong_password() }
}

/// Whether name and password are right. `command` is by which it was tried.
fn log_in(
    context: &mut Context<'_>,
    connection: &mut Connection,
    command: &[u8],
    name: &Bytes,
    password: &[u8],
) -> bool {
    let accepts = context.shared.admission.acl().user(name).is_some_and(|user| user.accepts(password));
    if accepts {
        connection.login.log_in(name);
    } else {
        context.shared.denials.note(connection, context.now_us, About::Login, command, name);
    }
    accepts
}

/// HELLO [version [AUTH name password] [SETNAME name]].
pub(super) fn hello(context: &mut Context<'_>, connection: &mut Connection, request: &[Bytes]) -> Reply {
    let protocol = match request.get(1).map(|version| integer(version)) {
        None => connection.output.protocol(),
        Some(Ok(2)) => Protocol::Resp2,
        Some(Ok(3)) => Protocol::Resp3,
        Some(Ok(_)) => return Reply::Error("NOPROTO unsupported protocol version".to_owned()),
        Some(Err(_)) => return Reply::error("Protocol version is not an integer or out of range"),
    };
    let (mut at, mut name, mut login) = (2, None, None);
    while let Some(option) = request.get(at) {
        match (&option.to_ascii_uppercase()[..], request.len() - at - 1) {
            (b"AUTH", 2..) => {
                login = Some((&request[at + 1], &request[at + 2]));
                at += 3;
            }
            (b"SETNAME", 1..) => {
                name = Some(&request[at + 1]);
                at += 2;
            }
            _ => return Reply::error(format!("Syntax error in HELLO option '{}'", String::from_utf8_lossy(option))),
        }
    }
    if let Some((name, password)) = login
        && !log_in(context, connection, &request[0], name, password)
    {
        return wrong_password();
    }
    if !connection.login.is_known() {
        return Reply::Error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
                .to_owned(),
        );
    }
    if let Some(name) = name
        && let Err(reply) = connection.profile.set_name(name)
    {
        return reply;
    }
    connection.output.set_protocol(protocol);
    let text = |text: &str| Reply::text(text);
    Reply::Map(vec![
        (text("server"), text("redis")),
        (text("version"), text(REDIS_VERSION)),
        (text("proto"), Reply::Integer(if protocol == Protocol::Resp3 { 3 } else { 2 })),
        (text("id"), Reply::Integer(connection.profile.id() as i64)),
        (text("mode"), text(if context.shared.settings.is_cluster { "cluster" } else { "standalone" })),
        (text("role"), text(if context.leads() { "master" } else { "replica" })),
        (text("modules"), Reply::Array(Vec::new())),
    ])
}
