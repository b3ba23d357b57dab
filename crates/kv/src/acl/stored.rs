//! Users as the cluster keeps them.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use super::record;
use super::user::User;
use crate::machine::draft::{Draft, Source, Unreadable};
use crate::machine::key::SYSTEM;

/// Most users, beside `default`.
pub(crate) const USERS_MAX: usize = 1000;
/// Most bytes of a user's rules.
pub(crate) const RULES_BYTES_MAX: usize = 32 << 10;

const USERS: &[u8] = &[SYSTEM, b'u'];
const VERSION: &[u8] = &[SYSTEM, b'v'];

/// All users at a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acl {
    /// Whether they were read.
    is_read: bool,
    version: Option<Bytes>,
    users: BTreeMap<Bytes, User>,
    /// Those whose records cannot be read, and why. They are among the users, without any right.
    disabled: BTreeMap<Bytes, String>,
}

impl Acl {
    /// No users: nobody may do anything until they are read.
    pub(crate) fn closed() -> Self {
        Self::default()
    }

    /// Reads the users if they have changed, or were not read yet. Returns whether they have.
    /// Error: the store cannot be read, and they are as they were.
    pub(crate) fn refresh(&mut self, source: &dyn Source, default_password: Option<&str>) -> Result<bool, Unreadable> {
        let version = source.get(VERSION)?;
        if self.is_read && version == self.version {
            return Ok(false);
        }
        // The user `default` of a cluster in which ACL SETUSER has not defined it.
        let mut users = BTreeMap::from([(Bytes::from_static(b"default"), User::first(default_password))]);
        let mut disabled = BTreeMap::new();
        source.scan(USERS, Bound::Unbounded, &mut |place, bytes| {
            let name = Bytes::copy_from_slice(&place[USERS.len()..]);
            let user = record::from_bytes(bytes).unwrap_or_else(|why| {
                disabled.insert(name.clone(), why);
                User::default()
            });
            users.insert(name, user);
            true
        })?;
        *self = Self { is_read: true, version, users, disabled };
        Ok(true)
    }

    /// A user.
    pub(crate) fn user(&self, name: &[u8]) -> Option<&User> {
        self.users.get(name)
    }

    /// All users, by name.
    pub(crate) fn users(&self) -> impl Iterator<Item = (&Bytes, &User)> {
        self.users.iter()
    }

    /// Whether a new connection is the user `default` without a password.
    pub(crate) fn is_open(&self) -> bool {
        self.user(b"default").is_some_and(User::is_open)
    }

    /// Users whose records cannot be read, and why.
    pub(crate) fn disabled(&self) -> &BTreeMap<Bytes, String> {
        &self.disabled
    }
}

/// A user as an entry would find it.
pub(crate) enum Found {
    /// There is none.
    None,
    /// The user.
    User(User),
    /// There is a record that cannot be read, and why.
    Unreadable(String),
}

/// Makes a user, or changes it, within an entry.
pub(crate) fn put_user(draft: &mut Draft<'_>, name: &[u8], user: &User) {
    draft.change([USERS, name].concat(), Some(record::to_bytes(user)));
    has_changed(draft);
}

/// Removes a user within an entry.
pub(crate) fn delete_user(draft: &mut Draft<'_>, name: &[u8]) {
    draft.change([USERS, name].concat(), None);
    has_changed(draft);
}

fn has_changed(draft: &mut Draft<'_>) {
    let version = draft.version();
    draft.change(VERSION.to_vec(), Some(Bytes::copy_from_slice(&version.to_be_bytes())));
}

/// The number of users beside `default`, as an entry would find it.
pub(crate) fn count_in(draft: &Draft<'_>) -> Result<usize, Unreadable> {
    let mut count = 0;
    draft.scan(USERS, Bound::Unbounded, &mut |place, _| {
        count += usize::from(&place[USERS.len()..] != b"default");
        true
    })?;
    Ok(count)
}

/// The user of a name, as an entry would find it.
pub(crate) fn user_in(draft: &Draft<'_>, name: &[u8]) -> Result<Found, Unreadable> {
    Ok(match draft.value(&[USERS, name].concat())?.map(|bytes| record::from_bytes(&bytes)) {
        None => Found::None,
        Some(Ok(user)) => Found::User(user),
        Some(Err(why)) => Found::Unreadable(why),
    })
}

#[cfg(test)]
mod tests {
    use super::{Acl, Draft, USERS, User, delete_user, put_user};
    use crate::machine::draft::tests::MemorySource;

    fn changed(source: &mut MemorySource, version: u64, change: impl FnOnce(&mut Draft<'_>)) {
        let mut draft = Draft::new(source, 1, version);
        change(&mut draft);
        let batch = draft.into_batch();
        source.apply(batch);
    }

    #[test]
    fn users_are_read_when_they_have_changed() {
        let (mut source, mut acl) = (MemorySource::default(), Acl::closed());
        assert!(acl.users().next().is_none() && !acl.is_open());
        assert_eq!(acl.refresh(&source, None), Ok(true));
        assert!(acl.is_open());
        assert_eq!(acl.refresh(&source, None), Ok(false));
        let alice = User::of_rules(b"on nopass ~* +@all").expect("a user");
        changed(&mut source, 7, |draft| put_user(draft, b"alice", &alice));
        assert_eq!(acl.refresh(&source, None), Ok(true));
        assert_eq!(acl.refresh(&source, None), Ok(false));
        assert!(acl.user(b"alice").is_some_and(User::is_on) && acl.user(b"default").is_some());
        changed(&mut source, 8, |draft| delete_user(draft, b"alice"));
        assert_eq!(acl.refresh(&source, None), Ok(true));
        assert!(acl.user(b"alice").is_none());
    }

    /// One user that could not be read kept all others as they were, and after a start everybody
    /// was an open `default`.
    #[test]
    fn who_cannot_be_read_has_no_rights_and_the_others_are_read() {
        let (mut source, mut acl) = (MemorySource::default(), Acl::closed());
        let all = User::of_rules(b"on nopass ~* &* +@all").expect("a user");
        for damaged in [&b"default"[..], b"bob"] {
            changed(&mut source, 7, |draft| {
                put_user(draft, b"alice", &all);
                put_user(draft, damaged, &all);
                draft.change([USERS, damaged].concat(), Some("on nopass ~* &my channel +@all".into()));
            });
        }
        assert_eq!(acl.refresh(&source, None), Ok(true));
        assert_eq!(acl.user(b"alice"), Some(&all));
        for name in [&b"default"[..], b"bob"] {
            assert_eq!(acl.user(name), Some(&User::default()), "{}", name.escape_ascii());
        }
        assert!(!acl.is_open() && acl.disabled().len() == 2);
    }
}
