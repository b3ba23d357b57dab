//! A user as it is stored. docs/format.md draws it.

use bytes::{BufMut, Bytes, BytesMut};

use super::patterns::{KeyPattern, has_spaces};
use super::user::{CommandRule, User, is_hash, known};
use crate::codec::{Malformed, Reader, put_bytes};

/// Beginning of a record. No program has written rules that do.
const MARK: &[u8] = b"off >";
const VERSION: u8 = 2;
/// Most bytes of a record: more than those of the longest rules, each byte escaped.
pub(super) const RECORD_BYTES_MAX: usize = 512 << 10;

const SPACE: u8 = b' ';
const ESCAPE: u8 = 0x1B;

const IS_ON: u8 = 1;
const IS_OPEN: u8 = 2;
const ALLOWS_ALL: u8 = 4;
const READS: u8 = 1;
const WRITES: u8 = 2;

/// The record of a user.
///
/// Strings lie behind their lengths, so no name or pattern can look like another rule, and bytes
/// that are not UTF-8 stay what they are. Programs before this layout read rules with spaces
/// between them. To them the record is a user who is off, has no rights, and has what follows
/// `MARK` for a password: therefore it holds no space. What they have written themselves is read
/// too.
///
/// A record is read wholly or not at all: a user whose record cannot be read has no rights.
pub fn to_bytes(user: &User) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u8(VERSION);
    let flag = |is_so: bool, flag: u8| if is_so { flag } else { 0 };
    body.put_u8(flag(user.is_on, IS_ON) | flag(user.is_open, IS_OPEN) | flag(user.allows_all, ALLOWS_ALL));
    body.put_u32_le(user.passwords.len() as u32);
    user.passwords.iter().for_each(|hash| put_bytes(&mut body, hash.as_bytes()));
    body.put_u32_le(user.keys.len() as u32);
    for keys in &user.keys {
        body.put_u8(flag(keys.reads, READS) | flag(keys.writes, WRITES));
        put_bytes(&mut body, &keys.pattern);
    }
    body.put_u32_le(user.channels.len() as u32);
    user.channels.iter().for_each(|channel| put_bytes(&mut body, channel));
    body.put_u32_le(user.commands.len() as u32);
    for CommandRule { allows, what } in &user.commands {
        body.put_u8(u8::from(*allows));
        put_bytes(&mut body, what.as_bytes());
    }
    body.put_u32_le(crc32c::crc32c(&body));
    let mut out = BytesMut::from(MARK);
    for byte in body {
        match byte {
            SPACE => out.put_slice(&[ESCAPE, 1]),
            ESCAPE => out.put_slice(&[ESCAPE, 0]),
            other => out.put_u8(other),
        }
    }
    out.freeze()
}

/// The user of a record, of this layout or of the one before. Error: why it cannot be read.
pub fn from_bytes(record: &[u8]) -> Result<User, String> {
    if record.len() > RECORD_BYTES_MAX {
        return Err(format!("a record of {} bytes", record.len()));
    }
    let Some(escaped) = record.strip_prefix(MARK) else { return User::of_rules(record).map_err(str::to_owned) };
    let body = plain(escaped).ok_or("a byte that cannot be in a record")?;
    let (body, checksum) = body.split_last_chunk().ok_or("it is cut off")?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
        return Err("its checksum fails".to_owned());
    }
    let mut reader = Reader::new(Bytes::copy_from_slice(body));
    let version = reader.u8("the version").map_err(|malformed| malformed.to_string())?;
    if version != VERSION {
        return Err(format!("it has version {version}: another version of perdura-kv has written it"));
    }
    user(reader).map_err(|malformed| malformed.to_string())
}

/// The bytes that were escaped.
fn plain(escaped: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter();
    while let Some(byte) = bytes.next() {
        out.push(match (*byte, bytes.as_slice().first()) {
            (SPACE, _) => return None,
            (ESCAPE, next) => {
                bytes.next();
                match next {
                    Some(1) => SPACE,
                    Some(0) => ESCAPE,
                    _ => return None,
                }
            }
            (other, _) => other,
        });
    }
    Some(out)
}

fn user(mut reader: Reader) -> Result<User, Malformed> {
    let malformed = |field| Err(Malformed { field });
    let flags = reader.u8("the flags")?;
    if flags & !(IS_ON | IS_OPEN | ALLOWS_ALL) != 0 {
        return malformed("the flags");
    }
    let is = |flag| flags & flag != 0;
    let mut user = User { is_on: is(IS_ON), is_open: is(IS_OPEN), allows_all: is(ALLOWS_ALL), ..User::default() };
    for _ in 0..reader.count("the number of passwords", 4)? {
        match str::from_utf8(&reader.bytes("a password")?) {
            Ok(hash) if is_hash(hash) => user.passwords.push(hash.to_owned()),
            _ => return malformed("a password"),
        }
    }
    for _ in 0..reader.count("the number of patterns of keys", 5)? {
        let (flags, pattern) = (reader.u8("rights on keys")?, reader.bytes("a pattern of keys")?);
        if !(1..=READS | WRITES).contains(&flags) || has_spaces(&pattern) {
            return malformed("a pattern of keys");
        }
        let (reads, writes) = (flags & READS != 0, flags & WRITES != 0);
        user.keys.push(KeyPattern { pattern: pattern.to_vec(), reads, writes });
    }
    for _ in 0..reader.count("the number of patterns of channels", 4)? {
        let channel = reader.bytes("a pattern of channels")?;
        if has_spaces(&channel) {
            return malformed("a pattern of channels");
        }
        user.channels.push(channel.to_vec());
    }
    for _ in 0..reader.count("the number of rules on commands", 5)? {
        let (allows, what) = (reader.flag("a rule on commands")?, reader.bytes("a rule on commands")?);
        // A rule that this program does not know may forbid something.
        let Some(what) = known(&what) else { return malformed("a command or a category that there is not") };
        user.commands.push(CommandRule { allows, what });
    }
    reader.end()?;
    Ok(user)
}

#[cfg(test)]
mod tests {
    use super::{MARK, User, from_bytes, to_bytes};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn rule() -> impl Strategy<Value = Vec<u8>> {
        let byte = || prop_oneof![Just(b' '), Just(b'*'), Just(0_u8), Just(0x1B), Just(b'+'), any::<u8>()];
        let word = prop_oneof![
            Just("on"),
            Just("off"),
            Just("nopass"),
            Just("resetpass"),
            Just("allkeys"),
            Just("resetkeys"),
            Just("allchannels"),
            Just("resetchannels"),
            Just("+@all"),
            Just("-@all"),
            Just("+get"),
            Just("-@string"),
            Just("+client|id"),
            Just("+@read"),
            Just("~*"),
            Just("&*"),
            Just("reset"),
            Just("-client"),
        ];
        let mark =
            prop_oneof![Just("~"), Just("%R~"), Just("%W~"), Just("&"), Just(">"), Just("#"), Just("+"), Just("<")];
        let made = (mark, vec(byte(), 0..6)).prop_map(|(mark, rest)| [mark.as_bytes(), &rest].concat());
        prop_oneof![word.prop_map(|word| word.as_bytes().to_vec()), made.clone(), made]
    }

    proptest! {
        /// Whatever ACL SETUSER accepts comes back as it was, in rights and in what is shown.
        #[test]
        fn what_is_accepted_comes_back(rules in vec(rule(), 0..20)) {
            let mut user = User::default();
            for rule in rules {
                let mut next = user.clone();
                if next.apply(&rule).is_ok() {
                    user = next;
                }
                let record = to_bytes(&user);
                prop_assert_eq!(from_bytes(&record), Ok(user.clone()));
                // To the program before it is a user without rights, whom nobody can be.
                let old = User::of_rules(&record).expect("rules of the program before");
                prop_assert!(!old.is_on() && old.keys.is_empty() && !old.allows_all && old.commands.is_empty());
            }
        }

        /// A record of which any byte was changed is no user.
        #[test]
        fn a_damaged_record_is_no_user(at: prop::sample::Index, change in 1..=255_u8) {
            let user = User::of_rules(b"on >pw ~a* %R~b* &c +@string -set").expect("a user");
            let mut record = to_bytes(&user).to_vec();
            let at = MARK.len() + at.index(record.len() - MARK.len());
            record[at] ^= change;
            prop_assert!(from_bytes(&record).is_err());
        }
    }

    #[test]
    fn rules_of_the_program_before_are_read_and_its_mistakes_are_no_user() {
        let rules = b"on ~a* %R~b* resetchannels -@all +get";
        assert_eq!(from_bytes(rules), Ok(User::of_rules(rules).expect("a user")));
        assert!(from_bytes(b"on nopass ~* &my channel +@all").is_err());
    }
}
