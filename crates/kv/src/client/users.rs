//! ACL: users of the cluster.

use bytes::Bytes;

use super::connection::Connection;
use super::context::Context;
use super::evaluate::{attempt, refuse_or_wait};
use super::lookup::{lookup, too_many};
use crate::acl::{self, CATEGORIES, Denied, Found, RULES_BYTES_MAX, USERS_MAX, User};
use crate::command::{self, Refusal, help, integer};
use crate::node::Rejection;
use crate::resp::Reply;
use crate::store;

/// Most rules of one ACL SETUSER.
const RULES_MAX: usize = 1024;
/// Longest name of a user, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// ACL SETUSER and ACL DELUSER, which are entries.
pub(super) fn change(
    context: &mut Context<'_>,
    connection: &mut Connection,
    name: &str,
    request: Vec<Bytes>,
) -> store::Result<()> {
    connection.login.set_changes_users(true);
    let why = match name {
        "acl|setuser" => set(context, connection, &request)?,
        _ => delete(context, connection, &request)?,
    };
    refuse_or_wait(context, connection, (why, 0), request);
    Ok(())
}

fn set(context: &mut Context<'_>, connection: &mut Connection, request: &[Bytes]) -> store::Result<Option<Rejection>> {
    let (name, rules) = (&request[2], &request[3..]);
    let refusal = if name.is_empty() || acl::has_spaces(name) {
        Some("Usernames can't contain spaces or null characters".to_owned())
    } else if name.len() > NAME_BYTES_MAX {
        Some(format!("the name of a user has {NAME_BYTES_MAX} bytes at most"))
    } else if rules.iter().map(|rule| rule.len() + 1).sum::<usize>() > RULES_BYTES_MAX {
        // Each is held against all before it.
        Some(format!("a user is given {RULES_BYTES_MAX} bytes of rules at once at most"))
    } else if rules.len() > RULES_MAX {
        Some(format!("a user is given {RULES_MAX} rules at once at most"))
    } else {
        None
    };
    if let Some(text) = refusal {
        connection.say(Reply::error(text));
        return Ok(None);
    }
    let is_default = &name[..] == b"default";
    let first =
        if is_default { User::first(context.shared.settings.default_password.as_deref()) } else { User::default() };
    attempt(context, connection, 0, |draft| {
        let unreadable = |error| Refusal::from(error).into_reply();
        let stored = acl::user_in(draft, name).map_err(unreadable)?;
        if matches!(stored, Found::None) && !is_default && acl::count_in(draft).map_err(unreadable)? >= USERS_MAX {
            return Err(Reply::error(format!("there are {USERS_MAX} users already")));
        }
        let mut user = match stored {
            Found::User(user) => user,
            Found::None => first,
            // Rules that are added to what nobody knows would make another user of it.
            Found::Unreadable(_) if rules.first().is_some_and(|rule| rule.eq_ignore_ascii_case(b"reset")) => {
                User::default()
            }
            Found::Unreadable(why) => {
                let name = String::from_utf8_lossy(name);
                return Err(Reply::error(format!(
                    "what is stored of user '{name}' cannot be read: {why}. Delete the user, or begin its rules with 'reset'"
                )));
            }
        };
        for rule in rules {
            user.apply(rule).map_err(|what| {
                let rule = String::from_utf8_lossy(rule);
                Reply::error(format!("Error in ACL SETUSER modifier '{rule}': {what}"))
            })?;
        }
        if user.rules().len() > RULES_BYTES_MAX {
            return Err(Reply::error(format!("a user has {RULES_BYTES_MAX} bytes of rules at most")));
        }
        acl::put_user(draft, name, &user);
        Ok(Reply::OK)
    })
}

fn delete(
    context: &mut Context<'_>,
    connection: &mut Connection,
    request: &[Bytes],
) -> store::Result<Option<Rejection>> {
    let names = &request[2..];
    if names.iter().any(|name| &name[..] == b"default") {
        connection.say(Reply::error("The 'default' user cannot be removed"));
        return Ok(None);
    }
    attempt(context, connection, 0, |draft| {
        let mut count = 0;
        for name in names {
            let found = acl::user_in(draft, name).map_err(|error| Refusal::from(error).into_reply())?;
            if !matches!(found, Found::None) {
                acl::delete_user(draft, name);
                count += 1;
            }
        }
        Ok(Reply::Integer(count))
    })
}

/// ACL and what follows, beside SETUSER and DELUSER.
pub(super) fn answer(context: &Context<'_>, connection: &Connection, inner: &str, request: &[Bytes]) -> Reply {
    let acl = context.shared.admission.acl();
    match inner {
        "whoami" => Reply::Bytes(connection.login.user().clone()),
        "users" => Reply::Array(acl.users().map(|(name, _)| Reply::Bytes(name.clone())).collect()),
        "list" => {
            let line = |(name, user): (&Bytes, &User)| {
                Reply::Bytes([b"user ", &name[..], b" ", &user.rules()].concat().into())
            };
            Reply::Array(acl.users().map(line).collect())
        }
        "getuser" => acl.user(&request[2]).map_or(Reply::Null, described),
        "cat" => categories(request),
        "genpass" => password(context, request),
        "dryrun" => dry_run(context, request),
        _ => help("acl"),
    }
}

fn described(user: &User) -> Reply {
    let texts = |texts: Vec<String>| texts.into_iter().map(Reply::text).collect();
    let flags = user.flags().into_iter().map(Reply::text).collect();
    Reply::Map(vec![
        (Reply::text("flags"), Reply::Set(flags)),
        (Reply::text("passwords"), Reply::Array(texts(user.passwords().to_vec()))),
        (Reply::text("commands"), Reply::text(user.command_rules())),
        (Reply::text("keys"), Reply::Bytes(user.key_rules().into())),
        (Reply::text("channels"), Reply::Bytes(user.channel_rules().into())),
        (Reply::text("selectors"), Reply::Array(Vec::new())),
    ])
}

fn categories(request: &[Bytes]) -> Reply {
    match &request[2..] {
        [] => Reply::Array(CATEGORIES.map(Reply::text).to_vec()),
        [category] => {
            let wanted = String::from_utf8_lossy(category).to_lowercase();
            if !CATEGORIES.contains(&&wanted[..]) {
                return Reply::error(format!("Unknown category '{}'", String::from_utf8_lossy(category)));
            }
            let of_it = command::all().filter(|command| command.all_categories().any(|one| one == wanted));
            Reply::Array(of_it.map(|command| Reply::text(command.name)).collect())
        }
        _ => too_many(request),
    }
}

/// Random hexadecimal digits, for a number of bits that is 256 by default.
fn password(context: &Context<'_>, request: &[Bytes]) -> Reply {
    let bits = match &request[2..] {
        [] => 256,
        [bits] => match integer(bits) {
            Ok(bits) => bits,
            Err(refusal) => return refusal.into_reply(),
        },
        _ => return too_many(request),
    };
    let bits = match bits {
        bits if (1..=4096).contains(&bits) => bits as usize,
        _ => {
            return Reply::error(
                "ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
            );
        }
    };
    match (context.shared.settings.random)(bits.div_ceil(4)) {
        Some(bytes) => Reply::text(bytes.iter().map(|byte| format!("{:x}", byte & 15)).collect::<String>()),
        None => Reply::error("this replica has no source of random numbers"),
    }
}

fn dry_run(context: &Context<'_>, request: &[Bytes]) -> Reply {
    let name = String::from_utf8_lossy(&request[2]);
    let Some(user) = context.shared.admission.acl().user(&request[2]) else {
        return Reply::error(format!("User '{name}' not found"));
    };
    let request = &request[3..];
    if command::find(&request[0]).is_none() {
        return Reply::error(format!("Command '{}' not found", String::from_utf8_lossy(&request[0])));
    }
    let command = match lookup(request) {
        Ok(command) => command,
        Err(reply) => return reply,
    };
    match acl::may(user, command, request) {
        Ok(()) => Reply::OK,
        Err(Denied::Command(name)) => Reply::text(format!("This user has no permissions to run the '{name}' command")),
        Err(Denied::Key(key)) => {
            let key = String::from_utf8_lossy(&key);
            Reply::text(format!("This user has no permissions to access the '{key}' key"))
        }
    }
}
