//! Judgement of one connection: whether it stays, and whether it has to log in.

use super::connection::Connection;
use super::notices::Notice;
use super::shared::Shared;
use crate::acl::{Acl, User};
use crate::resp::Reply;

const UNPROTECTED: &str = "DENIED the user default has no password, so only connections of this machine are taken. Give it one (ACL SETUSER \
     default >password, or clients.password_sha256 in the configuration), turn it off (ACL SETUSER default off), have clients show \
     certificates (clients.tls.authorities), or set clients.protected = false if the network keeps others away";

/// Outcome for a connection.
pub(super) enum Verdict {
    /// It stays; whether it needs not log in first.
    Stays(bool),
    /// Its user is deleted or off.
    Ends,
    /// It comes from another machine, and would be let in without a password.
    Unprotected,
}

/// Judges a connection by the users as they are.
pub(super) fn verdict(connection: &Connection, acl: &Acl) -> Verdict {
    if let Some(user) = connection.login.shown_user() {
        let is_on = acl.user(user).is_some_and(User::is_on);
        return if is_on { Verdict::Stays(true) } else { Verdict::Ends };
    }
    match acl.is_open() {
        true if connection.profile.peer().is_remote => Verdict::Unprotected,
        is_open => Verdict::Stays(is_open),
    }
}

/// Judges a connection that has just come, or that has shown no password.
pub(super) fn judge(shared: &mut Shared, connection: &mut Connection) {
    if !shared.admission.is_open() {
        connection.login.set_known(false);
        return;
    }
    match verdict(connection, shared.admission.acl()) {
        Verdict::Stays(is_known) => connection.login.set_known(is_known),
        Verdict::Ends => connection.kill(),
        Verdict::Unprotected => {
            connection.login.set_known(false);
            shared.statistics.connections_refused += 1;
            shared.notices.add(Notice::Unprotected { from: connection.profile.peer().address.clone() });
            connection.say(Reply::Error(UNPROTECTED.to_owned()));
            connection.lifecycle.end();
        }
    }
}
