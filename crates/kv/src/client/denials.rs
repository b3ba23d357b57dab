//! ACL LOG: requests that this replica has refused, and the users that sent them.

use std::collections::VecDeque;

use bytes::Bytes;

use super::connection::Connection;
use super::lookup::too_many;
use crate::command::integer;
use crate::resp::Reply;

/// Entries that are kept.
pub(super) const DENIALS_MAX: usize = 128;
/// Entries that are returned unless more are asked for.
const SHOWN: usize = 10;
/// The same refusal within this time is counted, and makes no entry of its own.
const SAME_US: u64 = 60_000_000;
/// Bytes of a key, a command or a user's name that are kept.
const TEXT_BYTES_MAX: usize = 128;

/// Subject of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// A name or a password.
    Login,
    Command,
    Key,
}

/// A refusal, and how often it came.
#[derive(Debug)]
struct Denial {
    id: u64,
    count: u64,
    about: About,
    is_queued: bool,
    object: String,
    user: String,
    client: String,
    first_us: u64,
    last_us: u64,
}

/// The newest refusals, the newest first.
#[derive(Debug, Default)]
pub(super) struct Denials {
    all: VecDeque<Denial>,
    next: u64,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_BYTES_MAX)]).into_owned()
}

impl Denials {
    /// Notes what was refused to a user of a connection: a command or a key, or by which command it
    /// tried to log in.
    pub(super) fn note(&mut self, connection: &Connection, now_us: u64, about: About, object: &[u8], user: &[u8]) {
        let (object, user) = (text(object), text(user));
        let (client, is_queued) = (connection.line(now_us), connection.transaction.is_some());
        let is_same = |one: &Denial| {
            (one.about, one.is_queued) == (about, is_queued)
                && one.object == object
                && one.user == user
                && now_us.saturating_sub(one.last_us) < SAME_US
        };
        let mut denial = match self.all.iter().position(is_same).and_then(|place| self.all.remove(place)) {
            Some(denial) => denial,
            None => {
                self.all.truncate(DENIALS_MAX - 1);
                self.next += 1;
                let (id, count, client) = (self.next - 1, 0, String::new());
                Denial { id, count, about, is_queued, object, user, client, first_us: now_us, last_us: now_us }
            }
        };
        (denial.count, denial.last_us, denial.client) = (denial.count + 1, now_us, client);
        self.all.push_front(denial);
    }
}

/// ACL LOG [count | RESET].
pub(super) fn answer(denials: &mut Denials, now_us: u64, request: &[Bytes]) -> Reply {
    let shown = match &request[2..] {
        [] => SHOWN,
        [word] if word.eq_ignore_ascii_case(b"reset") => {
            denials.all.clear();
            return Reply::OK;
        }
        [count] => match integer(count) {
            Ok(count) => usize::try_from(count).unwrap_or(0),
            Err(refusal) => return refusal.into_reply(),
        },
        _ => return too_many(request),
    };
    Reply::Array(denials.all.iter().take(shown).map(|denial| described(denial, now_us)).collect())
}

fn described(denial: &Denial, now_us: u64) -> Reply {
    let reason = match denial.about {
        About::Login => "auth",
        About::Command => "command",
        About::Key => "key",
    };
    let age_s = now_us.saturating_sub(denial.first_us) as f64 / 1e6;
    let fields = [
        ("count", Reply::Integer(denial.count as i64)),
        ("reason", Reply::text(reason)),
        ("context", Reply::text(if denial.is_queued { "multi" } else { "toplevel" })),
        ("object", Reply::text(denial.object.as_str())),
        ("username", Reply::text(denial.user.as_str())),
        ("age-seconds", Reply::Double(age_s)),
        ("client-info", Reply::text(denial.client.as_str())),
        ("entry-id", Reply::Integer(denial.id as i64)),
        ("timestamp-created", Reply::Integer((denial.first_us / 1000) as i64)),
        ("timestamp-last-updated", Reply::Integer((denial.last_us / 1000) as i64)),
    ];
    Reply::Map(fields.map(|(name, value)| (Reply::text(name), value)).to_vec())
}
