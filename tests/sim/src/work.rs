//! Operations of a client that speaks RESP: what it sends for one, and what the replies tell.

use super::history::{Action, Value};
use super::observed::{name, number};
use super::replies::Reply;

/// The user whose rights change.
pub(super) const USER: &str = "worker";

/// An operation that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// AUTH, before anything else.
    Login,
    /// ACL SETUSER: the user can do everything, or nothing.
    Rights {
        grants: bool,
    },
    Read,
    /// A write, of a value that may end by itself.
    Write {
        new: u64,
        ends_in_ms: Option<u64>,
    },
    Compare {
        expected: Value,
        new: u64,
    },
    /// A write and a read in one pipeline.
    WriteAndRead {
        new: u64,
    },
    /// WATCH and GET. MULTI, SET and EXEC come next.
    Watch {
        new: u64,
    },
    Exec {
        seen: Value,
        new: u64,
    },
    /// A comparison that is done once, however often it is sent.
    Once {
        number: u64,
        expected: Value,
        new: u64,
    },
}

/// Outcome of an operation, as its replies tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was done.
    Done,
    /// The comparison did not hold, or a watched key was changed.
    Refused,
    /// Nothing has come of it, and nothing will.
    Never,
    /// It may have taken effect, or may yet.
    Unknown,
    /// The key has this value.
    Found(Value),
    /// The user may not do it.
    Denied,
}

/// A value that begins with a number, of a length that the number decides.
fn value(number: u64) -> String {
    format!("{number}.{}", "x".repeat((number * 7 % 40) as usize))
}

fn compare(key: &str, expected: Value, new: u64) -> String {
    match expected {
        Some(expected) => format!("SET {key} {} IFEQ {}", value(new), value(expected)),
        None => format!("SET {key} {} NX", value(new)),
    }
}

impl Work {
    /// The lines to be sent, one a reply.
    pub(super) fn lines(&self, session: usize, key: u64) -> Vec<String> {
        let key = String::from_utf8_lossy(&name(key)).into_owned();
        match *self {
            Work::Login => vec![format!("AUTH {USER} secret")],
            Work::Rights { grants: true } => vec![format!("ACL SETUSER {USER} on >secret allkeys allcommands")],
            Work::Rights { grants: false } => vec![format!("ACL SETUSER {USER} resetkeys")],
            Work::Read => vec![format!("GET {key}")],
            Work::Write { new, ends_in_ms: None } => vec![format!("SET {key} {}", value(new))],
            Work::Write { new, ends_in_ms: Some(ms) } => vec![format!("SET {key} {} PX {ms}", value(new))],
            Work::Compare { expected, new } => vec![compare(&key, expected, new)],
            Work::WriteAndRead { new } => vec![format!("SET {key} {}", value(new)), format!("GET {key}")],
            Work::Watch { .. } => vec![format!("WATCH {key}"), format!("GET {key}")],
            Work::Exec { new, .. } => vec!["MULTI".to_owned(), format!("SET {key} {}", value(new)), "EXEC".to_owned()],
            Work::Once { number, expected, new } => {
                vec![format!("PERDURA.ONCE session{session} {number} {}", compare(&key, expected, new))]
            }
        }
    }

    /// The entry of a history that it makes if it is done, or may be.
    pub(super) fn action(&self, matched: Option<bool>) -> Option<Action> {
        match *self {
            Work::Write { new, .. } | Work::WriteAndRead { new } => Some(Action::Write(new)),
            Work::Compare { expected, new } | Work::Once { expected, new, .. } => {
                Some(Action::Compare { expected, new, matched })
            }
            Work::Exec { seen, new } => Some(Action::Compare { expected: seen, new, matched }),
            Work::Login | Work::Rights { .. } | Work::Read | Work::Watch { .. } => None,
        }
    }

    /// Whether it changes keys.
    pub(super) fn is_write(&self) -> bool {
        self.action(None).is_some()
    }
}

/// Outcome that one reply tells. Error: a reply that no server gives.
pub(super) fn outcome_of(reply: &Reply) -> Result<Outcome, String> {
    Ok(match reply {
        Reply::Text(_) => Outcome::Done,
        Reply::Null => Outcome::Refused,
        Reply::Bytes(bytes) => Outcome::Found(Some(number(bytes))),
        Reply::Array(elements) => match elements.iter().find(|element| **element != Reply::Text("OK".to_owned())) {
            None => Outcome::Done,
            Some(other) => return Err(format!("EXEC is answered with {other:?}")),
        },
        Reply::Error(text) => {
            let code = text.split(' ').next().unwrap_or_default();
            match code {
                "UNKNOWN" => Outcome::Unknown,
                "NOPERM" | "NOAUTH" | "WRONGPASS" => Outcome::Denied,
                "MOVED" | "CLUSTERDOWN" | "BUSY" | "OOM" | "TRYAGAIN" | "LOADING" | "EXECABORT" => Outcome::Never,
                _ => return Err(format!("a client is told: {text}")),
            }
        }
    })
}
