//! Whether a user may do a request.

use bytes::Bytes;

use super::user::User;
use crate::command::Command;

/// Why a user may not do a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The command.
    Command(&'static str),
    /// One of the keys.
    Key(Bytes),
}

/// Whether a user may do a request whose number of arguments is right.
///
/// Commands that list keys have no keys among their arguments: as in Redis, a user who may call
/// them sees the names of all keys. With values, they need the right to read every key.
pub(crate) fn may(user: &User, command: &Command, request: &[Bytes]) -> Result<(), Denied> {
    if !user.allows_command(command) {
        return Err(Denied::Command(command.name));
    }
    let wants_values = || request.iter().any(|word| word.eq_ignore_ascii_case(b"withvalues"));
    let reads_all = |user: &User| user.keys.iter().any(|pattern| pattern.reads && pattern.pattern == b"*");
    if command.name == "perdura.range" && wants_values() && !reads_all(user) {
        return Err(Denied::Key(Bytes::from_static(b"*")));
    }
    let mut keys = command.keys(request).enumerate();
    let denied = keys.find(|(at, key)| {
        let needs = command.key_access(request, *at);
        !user.keys.iter().any(|pattern| pattern.allows(key, needs.reads(), needs.writes()))
    });
    denied.map_or(Ok(()), |(_, key)| Err(Denied::Key(key.clone())))
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Denied, User, may};
    use crate::command::find;

    fn says(user: &User, line: &str) -> Result<(), Denied> {
        let request: Vec<Bytes> = line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        may(user, find(&request[0]).expect("a command"), &request)
    }

    #[test]
    fn the_newest_rule_counts_and_every_key_must_match() {
        let user = User::of_rules(b"on nopass ~a* %R~b* +@string -set +del +copy").expect("a user");
        let key = |key: &'static str| Err(Denied::Key(Bytes::from(key)));
        assert_eq!(says(&user, "GET a1"), Ok(()));
        assert_eq!(says(&user, "GET b1"), Ok(()));
        assert_eq!(says(&user, "GET c1"), key("c1"));
        assert_eq!(says(&user, "SET a1 v"), Err(Denied::Command("set")));
        assert_eq!(says(&user, "APPEND b1 v"), key("b1"));
        assert_eq!(says(&user, "MGET a1 b1 z"), key("z"));
        assert_eq!(says(&user, "COPY b1 a1"), Ok(()));
        assert_eq!(says(&user, "COPY a1 b1"), key("b1"));
        assert_eq!(says(&user, "KEYS *"), Err(Denied::Command("keys")));
        assert_eq!(says(&User::of_rules(b"~a* +@all").expect("a user"), "PERDURA.RANGE WITHVALUES"), key("*"));
        assert_eq!(says(&User::of_rules(b"~* +@all").expect("a user"), "PERDURA.RANGE WITHVALUES"), Ok(()));
        assert_eq!(says(&User::of_rules(b"~a* +@all").expect("a user"), "PERDURA.RANGE PREFIX a"), Ok(()));
        let apart = User::of_rules(b"on nopass %W~a* %R~b* +@all").expect("a user");
        assert_eq!(says(&apart, "MSET a1 v"), Ok(()));
        assert_eq!(says(&apart, "GETSET a1 v"), key("a1"));
        assert_eq!(says(&apart, "COPY b1 a1"), Ok(()));
    }
}
