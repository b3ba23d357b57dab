//! Patterns of keys that a user may touch, and of channels.

use crate::command::pattern;

/// Whether a text has what no name and no pattern has: white space, or a null character.
pub(crate) fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}

/// A pattern of keys, and what may be done to those that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPattern {
    pub pattern: Vec<u8>,
    pub reads: bool,
    pub writes: bool,
}

impl KeyPattern {
    /// The pattern of a rule `~p`, `%R~p`, `%W~p` or `%RW~p`.
    pub(super) fn of_rule(rule: &[u8]) -> Option<Self> {
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

    /// Whether it is `~*`.
    pub(super) fn is_all(&self) -> bool {
        self.pattern == b"*" && self.reads && self.writes
    }

    /// Whether a key that is read or written matches. What does neither, as EXISTS, only has to
    /// match.
    pub(super) fn allows(&self, key: &[u8], reads: bool, writes: bool) -> bool {
        (self.reads || !reads) && (self.writes || !writes) && pattern::matches(&self.pattern, key)
    }

    /// The rule that makes it.
    pub(super) fn rule(&self) -> Vec<u8> {
        let flags: &[u8] = match (self.reads, self.writes) {
            (true, true) => b"~",
            (true, false) => b"%R~",
            _ => b"%W~",
        };
        [flags, &self.pattern].concat()
    }
}
