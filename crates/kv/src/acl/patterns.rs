//! Which keys a user may touch.

use std::fmt;

use crate::command::pattern;

/// A pattern of keys, and what may be done to those that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    pub pattern: Vec<u8>,
    pub reads: bool,
    pub writes: bool,
}

impl KeyPattern {
    /// The pattern of a rule `~p`, `%R~p`, `%W~p` or `%RW~p`.
    pub fn of_rule(rule: &[u8]) -> Option<Self> {
        if let Some(pattern) = rule.strip_prefix(b"~") {
            return Some(Self { pattern: pattern.to_vec(), reads: true, writes: true });
        }
        let rest = rule.strip_prefix(b"%")?;
        let at = rest.iter().position(|byte| *byte == b'~')?;
        let (flags, pattern) = (rest[..at].to_ascii_uppercase(), rest[at + 1..].to_vec());
        let (reads, writes) = (flags.contains(&b'R'), flags.contains(&b'W'));
        let is_known = flags.iter().all(|flag| matches!(flag, b'R' | b'W')) && !flags.is_empty();
        is_known.then_some(Self { pattern, reads, writes })
    }

    /// Whether a key that is read or written matches.
    pub fn allows(&self, key: &[u8], reads: bool, writes: bool) -> bool {
        (self.reads || !reads) && (self.writes || !writes) && pattern::matches(&self.pattern, key)
    }
}

impl fmt::Display for KeyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = match (self.reads, self.writes) {
            (true, true) => "",
            (true, false) => "%R",
            _ => "%W",
        };
        write!(f, "{flags}~{}", String::from_utf8_lossy(&self.pattern))
    }
}
