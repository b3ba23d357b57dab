//! A user: rules in, rules out.

use sha2::{Digest, Sha256};

/// All categories of commands, in the order of Redis.
pub(crate) const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

use super::patterns::{KeyPattern, has_spaces};
use crate::command::{self, Command};

/// The SHA-256 of a password, in hexadecimal.
pub(super) fn hash(password: &[u8]) -> String {
    Sha256::digest(password).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a text is the SHA-256 of a password.
pub(super) fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Name of the command or category that a rule is about, if there is one.
pub(super) fn known(what: &[u8]) -> Option<String> {
    let is_known = match what.split_first() {
        Some((b'@', category)) => CATEGORIES.iter().any(|one| one.as_bytes() == category),
        _ => command::all().any(|command| command.name.as_bytes() == what),
    };
    str::from_utf8(what).ok().filter(|_| is_known).map(str::to_owned)
}

/// A rule on commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandRule {
    pub(super) allows: bool,
    /// `get`, `client|id`, or `@string`.
    pub(super) what: String,
}

impl CommandRule {
    /// Whether it says something of a command.
    fn is_about(&self, command: &Command) -> bool {
        let outer = command.name.split('|').next().unwrap_or_default();
        match self.what.strip_prefix('@') {
            Some(category) => command.all_categories().any(|one| one == category),
            None => self.what == command.name || self.what == outer,
        }
    }

    /// Whether it is about all that another is about.
    fn covers(&self, other: &CommandRule) -> bool {
        let is_category = |rule: &CommandRule| rule.what.starts_with('@');
        // Looking at all commands takes long where there are many rules.
        if self.what == other.what {
            return true;
        }
        if !is_category(self) && !is_category(other) {
            return other.what.strip_prefix(&self.what[..]).is_some_and(|rest| rest.starts_with('|'));
        }
        command::all().filter(|command| other.is_about(command)).all(|command| self.is_about(command))
    }
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub(super) is_on: bool,
    /// Whether any password does.
    pub(super) is_open: bool,
    pub(super) passwords: Vec<String>,
    pub(super) keys: Vec<KeyPattern>,
    /// Patterns of channels.
    pub(super) channels: Vec<Vec<u8>>,
    /// Whether all commands are allowed that no rule is about.
    pub(super) allows_all: bool,
    pub(super) commands: Vec<CommandRule>,
}

impl Default for User {
    /// One who may do nothing.
    fn default() -> Self {
        let (is_on, is_open, allows_all) = (false, false, false);
        let (passwords, keys, channels, commands) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { is_on, is_open, passwords, keys, channels, allows_all, commands }
    }
}

impl User {
    /// The user `default` until ACL SETUSER changes it: with a password, or open to all.
    pub(crate) fn first(password_hash: Option<&str>) -> Self {
        let mut user = Self::default();
        let password = password_hash.map_or_else(|| "nopass".to_owned(), |hash| format!("#{hash}"));
        for rule in ["on", &password, "~*", "&*", "+@all"] {
            let _ = user.apply(rule.as_bytes());
        }
        user
    }

    /// Whether the user may log in with a password.
    pub(crate) fn accepts(&self, password: &[u8]) -> bool {
        let hashed = hash(password);
        // All are compared wholly, so that the time tells nothing.
        let differs = |kept: &String| kept.bytes().zip(hashed.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b)) != 0;
        let matches = self.passwords.iter().fold(false, |found, kept| found | !differs(kept));
        self.is_on && (self.is_open || matches)
    }

    /// Whether the user may log in at all, and with any password.
    pub(crate) fn is_open(&self) -> bool {
        self.is_on && self.is_open
    }

    /// Whether the user needs no password, on or off.
    pub(crate) fn has_no_password(&self) -> bool {
        self.is_open
    }

    /// Whether the user may log in.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Applies a rule. Error: what is wrong with it.
    pub(crate) fn apply(&mut self, rule: &[u8]) -> Result<(), &'static str> {
        match &rule.to_ascii_lowercase()[..] {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"nopass" => {
                self.is_open = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.is_open = false;
                self.passwords.clear();
            }
            b"allkeys" => return self.apply(b"~*"),
            b"resetkeys" => self.keys.clear(),
            b"allchannels" | b"&*" => self.channels = vec![b"*".to_vec()],
            b"resetchannels" => self.channels.clear(),
            b"allcommands" | b"+@all" => self.reset_commands(true),
            b"nocommands" | b"-@all" => self.reset_commands(false),
            b"sanitize-payload" | b"skip-sanitize-payload" => {}
            b"reset" => *self = Self::default(),
            lower => return self.apply_prefixed(rule, lower),
        }
        Ok(())
    }

    fn reset_commands(&mut self, allows_all: bool) {
        self.allows_all = allows_all;
        self.commands.clear();
    }

    fn apply_prefixed(&mut self, rule: &[u8], lower: &[u8]) -> Result<(), &'static str> {
        let Some((mark, rest)) = rule.split_first() else { return Err("Syntax error") };
        match mark {
            b'>' => self.add_password(hash(rest)),
            b'<' => return self.remove_password(&hash(rest)),
            b'#' | b'!' => {
                let Some(kept) = str::from_utf8(rest).ok().filter(|text| is_hash(text)) else {
                    return Err(
                        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
                    );
                };
                if *mark == b'!' {
                    return self.remove_password(kept);
                }
                self.add_password(kept.to_owned());
            }
            b'~' | b'%' => {
                let Some(keys) = KeyPattern::of_rule(rule) else { return Err("Syntax error") };
                if has_spaces(&keys.pattern) {
                    return Err("Syntax error");
                }
                self.add_keys(keys)?;
            }
            b'&' => {
                if has_spaces(rest) {
                    return Err("Syntax error");
                }
                if self.channels.iter().any(|channel| channel == b"*") {
                    return Err(
                        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels",
                    );
                }
                if !self.channels.iter().any(|channel| channel == rest) {
                    self.channels.push(rest.to_vec());
                }
            }
            b'+' | b'-' => return self.apply_to_commands(*mark == b'+', &lower[1..]),
            b'(' => return Err("Selectors are not supported"),
            _ => return Err("Syntax error"),
        }
        Ok(())
    }

    /// Adds what may be done to the keys of a pattern to what may be done already.
    fn add_keys(&mut self, keys: KeyPattern) -> Result<(), &'static str> {
        if keys.is_all() {
            self.keys = vec![keys];
            return Ok(());
        }
        if self.keys.iter().any(KeyPattern::is_all) {
            return Err(
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns",
            );
        }
        match self.keys.iter_mut().find(|one| one.pattern == keys.pattern) {
            Some(one) => (one.reads, one.writes) = (one.reads || keys.reads, one.writes || keys.writes),
            None => self.keys.push(keys),
        }
        Ok(())
    }

    fn add_password(&mut self, hash: String) {
        self.is_open = false;
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
    }

    fn remove_password(&mut self, hash: &str) -> Result<(), &'static str> {
        let Some(at) = self.passwords.iter().position(|kept| kept == hash) else {
            return Err("The password you are trying to remove from the user does not exist");
        };
        self.passwords.remove(at);
        Ok(())
    }

    fn apply_to_commands(&mut self, allows: bool, what: &[u8]) -> Result<(), &'static str> {
        let Some(what) = known(what) else { return Err("Unknown command or category name in ACL") };
        let rule = CommandRule { allows, what };
        // The newest rule counts, so those on what it is about are superseded, and one that changes
        // nothing is not kept.
        self.commands.retain(|older| !rule.covers(older));
        if command::all().any(|command| rule.is_about(command) && self.allows_command(command) != allows) {
            self.commands.push(rule);
        }
        Ok(())
    }

    /// Whether the newest rule that is about a command allows it.
    pub(super) fn allows_command(&self, command: &Command) -> bool {
        let newest = self.commands.iter().rev().find(|rule| rule.is_about(command));
        newest.map_or(self.allows_all, |rule| rule.allows)
    }

    /// Its flags, as GETUSER says them.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.is_open {
            flags.push("nopass");
        }
        flags
    }

    /// The SHA-256 of its passwords.
    pub(crate) fn passwords(&self) -> &[String] {
        &self.passwords
    }

    /// Its rules on commands.
    pub(crate) fn command_rules(&self) -> String {
        let mut rules = vec![if self.allows_all { "+@all" } else { "-@all" }.to_owned()];
        rules.extend(
            self.commands
                .iter()
                .map(|CommandRule { allows, what }| format!("{}{what}", if *allows { '+' } else { '-' })),
        );
        rules.join(" ")
    }

    /// Its rules on keys.
    pub(crate) fn key_rules(&self) -> Vec<u8> {
        self.keys.iter().map(KeyPattern::rule).collect::<Vec<_>>().join(&b' ')
    }

    /// Its rules on channels.
    pub(crate) fn channel_rules(&self) -> Vec<u8> {
        self.channels.iter().map(|channel| [b"&", &channel[..]].concat()).collect::<Vec<_>>().join(&b' ')
    }

    /// All its rules, as ACL LIST shows them: applied to a user who may do nothing they make this
    /// one.
    pub(crate) fn rules(&self) -> Vec<u8> {
        let mut rules: Vec<Vec<u8>> = self.flags().into_iter().map(|flag| flag.as_bytes().to_vec()).collect();
        rules.extend(self.passwords.iter().map(|hash| format!("#{hash}").into_bytes()));
        rules.extend(Some(self.key_rules()).filter(|rules| !rules.is_empty()));
        rules.push(if self.channels.is_empty() { b"resetchannels".to_vec() } else { self.channel_rules() });
        rules.push(self.command_rules().into_bytes());
        rules.join(&b' ')
    }

    /// The user whom rules make.
    pub fn of_rules(rules: &[u8]) -> Result<Self, &'static str> {
        let mut user = Self::default();
        let words = rules.split(|byte| *byte == b' ').filter(|rule| !rule.is_empty());
        words.map(|rule| user.apply(rule)).collect::<Result<Vec<()>, _>>()?;
        Ok(user)
    }
}

#[cfg(test)]
mod tests {
    use super::User;

    #[test]
    fn rules_make_a_user_and_a_user_makes_rules() {
        let hash = super::hash(b"pw");
        let mut user = User::default();
        assert_eq!(user.rules(), b"off resetchannels -@all");
        for rule in ["on", ">pw", "~a*", "%R~b*", "+get", "+@string", "-set", "+client|id"] {
            assert_eq!(user.apply(rule.as_bytes()), Ok(()), "{rule}");
        }
        let rules = format!("on #{hash} ~a* %R~b* resetchannels -@all +@string -set +client|id");
        assert_eq!(user.rules(), rules.as_bytes());
        assert_eq!(User::of_rules(rules.as_bytes()), Ok(user.clone()));
        assert!(user.accepts(b"pw") && !user.accepts(b"other"));
        assert_eq!(user.apply(b"off"), Ok(()));
        assert!(!user.accepts(b"pw"));
        assert_eq!(User::first(None).rules(), b"on nopass ~* &* +@all");
        assert!(User::first(Some(&hash)).accepts(b"pw") && !User::first(Some(&hash)).accepts(b""));
        for wrong in [
            "foo",
            "+nocmd",
            "+@nocat",
            "#12",
            "<none",
            "%X~a",
            "%~a",
            "",
            "(~a +get)",
            "&a b",
            "&a\tb",
            "~a\u{b}b",
            "%R~a\0",
        ] {
            assert!(user.apply(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    /// Rights on a pattern of keys add up, as in Redis; a pattern that another one covers stays its
    /// own.
    #[test]
    fn rights_on_one_pattern_are_one_rule() {
        let rules = |rules: &str| User::of_rules(rules.as_bytes()).expect("a user").key_rules();
        for (given, kept) in [
            ("%R~k %W~k", "~k"),
            ("%W~k %R~k ~k", "~k"),
            ("~k %R~k", "~k"),
            ("%R~k %W~k* %R~a", "%R~k %W~k* %R~a"),
            ("%R~a ~*", "~*"),
        ] {
            assert_eq!(rules(given), kept.as_bytes(), "{given}");
        }
        assert!(User::of_rules(b"~* %R~a").is_err() && User::of_rules(b"&* &a").is_err());
    }
}
