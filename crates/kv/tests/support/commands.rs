//! Random commands, often right and often not.

use perdura_pmem::sim::Random;

/// Words of a command.
pub type Words = Vec<Vec<u8>>;

/// A stream of commands of two clients.
pub struct Commands {
    random: Random,
    /// Whether users are changed. There are no transactions then, for a change of users is not
    /// taken into one.
    has_users: bool,
}

/// A request as clients send it.
pub fn frame(words: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend(format!("${}\r\n", word.len()).into_bytes());
        out.extend(word);
        out.extend(b"\r\n");
    }
    out
}

/// Commands with where their keys are: `k` a key, `v` a value, `n` a number, `f` a fraction, `t` a
/// time to come from now, `o` options, `*` some more pairs or keys, `?` a pattern, `w` any word;
/// other words as they are.
const SHAPES: &[&str] = &[
    "get k",
    "set k v",
    "set k v",
    "set k v o",
    "set k v o o",
    "set k n",
    "setnx k v",
    "setex k t v",
    "psetex k t v",
    "getset k v",
    "getex k",
    "getex k o",
    "getdel k",
    "append k v",
    "strlen k",
    "getrange k n n",
    "substr k n n",
    "setrange k i v",
    "mget k *",
    "mset k v k v",
    "mset k v k",
    "msetnx k v k v",
    "incr k",
    "decr k",
    "incrby k n",
    "decrby k n",
    "incrbyfloat k f",
    "incrbyfloat k n",
    "expire k t e",
    "expire k t",
    "pexpire k t e",
    "expireat k n",
    "pexpireat k n e",
    "persist k",
    "ttl k",
    "expiretime k",
    "del k *",
    "unlink k *",
    "exists k *",
    "touch k *",
    "type k",
    "rename k k",
    "renamenx k k",
    "copy k k",
    "copy k k replace",
    "copy k k w",
    "copy k k DB n",
    "keys ?",
    "scan 0 match ? count 1000",
    "dbsize",
    "flushall",
    "flushdb w",
    "randomkey w",
    "ping",
    "ping v",
    "echo v",
    "select i",
    "multi",
    "multi",
    "exec",
    "exec",
    "discard",
    "watch k *",
    "unwatch",
    "w k v",
    "client getname",
    "client setname w",
    "client w",
    "get",
    "set k",
    "acl whoami",
    "acl getuser w",
    "acl setuser u r r",
    "acl deluser w",
    "acl list",
    "acl cat w",
    "command count x",
    "command getkeys set k v",
    "command getkeys mset k v k v",
    "object w k",
    "hello 9",
    "auth w",
    "auth w w",
    "reset x",
    "config get w",
    "getex k persist",
    "set k v get",
    "set k v keepttl",
    "set k v ex t",
    "set k v px t nx",
];
const OPTIONS: &[&str] =
    &["NX", "XX", "GET", "KEEPTTL", "EX t", "PX t", "PERSIST", "EX x", "nonsense", "EX 0", "PX -1", "EX"];
const EXPIRY: &[&str] = &["NX", "XX", "GT", "LT", "nx", "gt lt", "nx xx", "SOON"];
const RULES: &[&str] = &[
    "on",
    "off",
    ">x",
    "~a*",
    "%R~b",
    "+get",
    "-@all",
    "+@string",
    "+set",
    "-set",
    "nopass",
    "allkeys",
    "resetkeys",
    "+nope",
    "what",
    "#1",
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "5",
    "10",
    "100",
    "-7",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1.5",
    "x",
    "",
    " 1",
    "01",
    "+1",
    "-0",
];
const FRACTIONS: &[&str] = &["0.1", "0.25", "-1.5", "3", "1e2", "5.0e3", "x", "", "nan", "1e-3", "-0.1", ".5", "12."];
const VALUES: &[&str] =
    &["", "a", "hello", "10", "-3", "3.25", "0.5", "9223372036854775807", "two words", "\r\n", "\0\u{ff}"];
const PATTERNS: &[&str] = &["*", "a*", "?", "[a-c]", "*:*", "\\a", "none", "[^a]", "k:?"];
const WORDS: &[&str] = &["nope", "default", "x y", "help me", "save", "string", "", "alice", "'", "999", "sub|get"];

impl Commands {
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), has_users: seed % 4 == 3 }
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.random.below(of.len() as u64) as usize]
    }

    fn key(&mut self) -> String {
        self.one(&["a", "b", "c", "d", "k:1", "k:2", "", "\0"]).to_owned()
    }

    /// The next command, and which of the clients says it.
    pub fn next(&mut self) -> (usize, Words) {
        let client = usize::from(self.random.one_in(4));
        let mut words = Vec::new();
        let has_users = self.has_users;
        let fits =
            |shape: &&str| !shape.starts_with(if has_users { "multi" } else { "acl " }) || shape.ends_with("whoami");
        let shape = loop {
            let shape = self.one(SHAPES);
            if fits(&shape) {
                break shape;
            }
        };
        for part in shape.split(' ') {
            self.part(part, &mut words);
        }
        self.distinguish(&mut words);
        // Without their last word these are right, and answered differently, also within EXEC.
        let differs = ["randomkey", "command", "hello"].contains(&&words[0][..]);
        if self.random.one_in(40) && !differs {
            words.pop();
        }
        if self.random.one_in(40) {
            words.push("more".to_owned());
        }
        if words.is_empty() {
            words.push("ping".to_owned());
        }
        if self.random.one_in(3) {
            words[0] = words[0].to_uppercase();
        }
        (client, words.into_iter().map(String::into_bytes).collect())
    }

    /// Makes the time of a comparing EXPIRE one that no other command has: two equal ones are told
    /// apart by the millisecond at which each server was asked.
    fn distinguish(&mut self, words: &mut [String]) {
        let compares = words.iter().any(|word| ["gt", "lt"].contains(&&word.to_lowercase()[..]));
        if compares && let Some(time @ 1..1_000_000) = words.get(2).and_then(|word| word.parse::<u64>().ok()) {
            words[2] = (time + 1000 * (1 + self.random.below(1 << 20))).to_string();
        }
    }

    fn part(&mut self, part: &str, words: &mut Vec<String>) {
        let word = match part {
            "k" => self.key(),
            "v" => self.one(VALUES).to_owned(),
            "n" => self.one(NUMBERS).to_owned(),
            "i" => self.one(&["0", "1", "3", "10", "-1", "x"]).to_owned(),
            "f" => self.one(FRACTIONS).to_owned(),
            // None that ends while the commands of a seed run.
            "t" => self.one(&["20000", "50000", "100000", "0", "-5", "x", "9223372036854775807"]).to_owned(),
            "?" => self.one(PATTERNS).to_owned(),
            "w" => self.one(WORDS).to_owned(),
            "u" => self.one(&["alice", "bob", "x y"]).to_owned(),
            "r" => self.one(RULES).to_owned(),
            "e" => return self.one(EXPIRY).split(' ').for_each(|word| words.push(word.to_owned())),
            "o" => {
                let option = self.one(OPTIONS);
                return option.split(' ').for_each(|word| self.part(word, words));
            }
            "*" => return (0..self.random.below(3)).for_each(|_| words.push(self.key())),
            other => other.to_owned(),
        };
        words.push(word);
    }
}

/// Whether both replies are the same, as far as they must be.
pub fn agree(command: &[Vec<u8>], wanted: &[u8], found: &[u8]) -> bool {
    let name = String::from_utf8_lossy(&command[0]).to_lowercase();
    match &name[..] {
        // In an order of their own.
        "keys" | "scan" | "exec" => sorted(wanted) == sorted(found),
        // Commands that only the other has, or a reason in other words.
        "object" | "lolwut" | "save" => found.starts_with(b"-ERR"),
        // Other commands in a category.
        "acl" if command.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"cat")) => wanted[0] == found[0],
        // The rules of a user in another order.
        "acl" => sorted_words(wanted) == sorted_words(found),
        _ => wanted == found,
    }
}

/// Whether the replies differ as the page of commands says, so that what follows is not comparable:
/// a number with more digits than the other computes with, or an EXEC after a watched key has come
/// and gone.
pub fn are_beyond(command: &[Vec<u8>], wanted: &[u8], found: &[u8]) -> bool {
    let name = String::from_utf8_lossy(&command[0]).to_lowercase();
    match &name[..] {
        "incrbyfloat" => wanted[0] == b'$' && wanted.len() > 18,
        "exec" => matches!(wanted, b"*-1\r\n" | b"_\r\n") && found[0] == b'*',
        _ => false,
    }
}

fn sorted_words(reply: &[u8]) -> Vec<&[u8]> {
    let mut words: Vec<&[u8]> = reply.split(|byte| byte.is_ascii_whitespace()).collect();
    words.sort_unstable();
    words
}

fn sorted(reply: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = reply.split(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    lines
}
