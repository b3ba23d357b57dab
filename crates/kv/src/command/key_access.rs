//! Access of commands to their keys: the flags of Redis 7's key specifications, by which rights on
//! keys are judged.

use bytes::Bytes;

use super::definition::{Access, Command};

/// Access of a command to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyAccess(&'static [&'static str]);

impl KeyAccess {
    /// Whether it returns something of the value, or copies it. What only returns whether or how
    /// much there is (EXISTS, STRLEN) does not.
    pub(crate) fn reads(self) -> bool {
        self.0.contains(&"access")
    }

    /// Whether it may change the value or the deadline, or delete the key.
    pub(crate) fn writes(self) -> bool {
        ["update", "insert", "delete"].iter().any(|flag| self.0.contains(flag))
    }

    /// The flags, as COMMAND says them.
    pub(crate) fn flags(self) -> &'static [&'static str] {
        self.0
    }
}

impl Command {
    /// Access of a request to its key of a number, from 0 on. A command that is not named here
    /// needs all rights that it could.
    pub(crate) fn key_access(&self, request: &[Bytes], at: usize) -> KeyAccess {
        KeyAccess(match (self.name, at) {
            ("set", _) if has_option(request, &[b"GET", b"IFEQ"]) => &["RW", "access", "update"],
            ("set" | "setex" | "psetex" | "mset", _) | ("rename" | "copy", 1) => &["OW", "update"],
            ("setnx" | "msetnx", _) | ("renamenx", 1) => &["OW", "insert"],
            ("append", _) => &["RW", "insert"],
            ("setrange" | "expire" | "pexpire" | "expireat" | "pexpireat" | "persist", _) => &["RW", "update"],
            // The version that it compares tells of a change, but not of a value.
            ("perdura.cas", _) => &["RW", "update"],
            ("getdel" | "delifeq", _) | ("rename" | "renamenx", 0) => &["RW", "access", "delete"],
            ("del" | "unlink" | "perdura.cad", _) => &["RM", "delete"],
            ("exists" | "touch" | "type" | "strlen" | "watch" | "memory|usage", _) => &["RO"],
            ("copy", 0) => &["RO", "access"],
            _ if self.access == Access::Write => &["RW", "access", "update"],
            _ => &["RO", "access"],
        })
    }
}

/// Whether an option is among the arguments behind key and value. A value that looks like one
/// counts: that asks for more rights.
fn has_option(request: &[Bytes], options: &[&[u8]]) -> bool {
    request.iter().skip(3).any(|word| options.iter().any(|option| word.eq_ignore_ascii_case(option)))
}

#[cfg(test)]
mod tests {
    use super::Bytes;
    use crate::command::{all, find, find_within};

    /// Each command on keys and what it needs of each: R to read, W to write, - neither. As
    /// redis-server 7.0.15 has it.
    const NEEDS: &[(&str, &str)] = &[
        ("GET k", "R"),
        ("GETRANGE k 0 1", "R"),
        ("SUBSTR k 0 1", "R"),
        ("MGET k l", "R R"),
        ("STRLEN k", "-"),
        ("SET k v", "W"),
        ("SET k v EX 5 NX", "W"),
        ("SET k v get", "RW"),
        ("SET k v IFEQ w", "RW"),
        ("SET get v", "W"),
        ("SET k get", "W"),
        ("SETNX k v", "W"),
        ("SETEX k 1 v", "W"),
        ("PSETEX k 1 v", "W"),
        ("GETSET k v", "RW"),
        ("GETEX k", "RW"),
        ("GETDEL k", "RW"),
        ("APPEND k v", "W"),
        ("SETRANGE k 0 v", "W"),
        ("MSET k v l w", "W W"),
        ("MSETNX k v l w", "W W"),
        ("INCR k", "RW"),
        ("DECR k", "RW"),
        ("INCRBY k 1", "RW"),
        ("DECRBY k 1", "RW"),
        ("INCRBYFLOAT k 1", "RW"),
        ("EXPIRE k 1", "W"),
        ("PEXPIRE k 1", "W"),
        ("EXPIREAT k 1", "W"),
        ("PEXPIREAT k 1", "W"),
        ("PERSIST k", "W"),
        ("TTL k", "R"),
        ("PTTL k", "R"),
        ("EXPIRETIME k", "R"),
        ("PEXPIRETIME k", "R"),
        ("DEL k l", "W W"),
        ("UNLINK k l", "W W"),
        ("EXISTS k l", "- -"),
        ("TOUCH k l", "- -"),
        ("TYPE k", "-"),
        ("RENAME k l", "RW W"),
        ("RENAMENX k l", "RW W"),
        ("COPY k l", "R W"),
        ("WATCH k l", "- -"),
        ("MEMORY USAGE k", "-"),
        ("DELIFEQ k v", "RW"),
        ("PERDURA.GET k", "R"),
        ("PERDURA.CAS k 1 v", "W"),
        ("PERDURA.CAD k 1", "W"),
    ];

    #[test]
    fn each_command_needs_what_it_does_to_each_key() {
        for (line, wanted) in NEEDS {
            let request: Vec<Bytes> = line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
            let command = find(&request[0]).expect("a command");
            let command = find_within(command, &request[1]).unwrap_or(command);
            let need = |at| match command.key_access(&request, at) {
                access if access.reads() && access.writes() => "RW",
                access if access.reads() => "R",
                access if access.writes() => "W",
                _ => "-",
            };
            let needs: Vec<&str> = (0..command.keys(&request).count()).map(need).collect();
            assert_eq!(needs.join(" "), *wanted, "{line}");
        }
    }

    /// A command that is new must be decided on.
    #[test]
    fn no_command_on_keys_is_left_out() {
        let is_named = |name: &str| {
            let words = name.split('|');
            NEEDS
                .iter()
                .any(|(line, _)| words.clone().zip(line.split(' ')).all(|(part, word)| word.eq_ignore_ascii_case(part)))
        };
        let missing: Vec<&str> = all().filter(|one| one.places.first > 0).map(|one| one.name).collect();
        let missing: Vec<&&str> = missing.iter().filter(|name| !is_named(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
