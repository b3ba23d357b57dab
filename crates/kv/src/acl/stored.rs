//! Users as the cluster keeps them.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use super::user::User;
use crate::machine::draft::{Draft, Source, Unreadable};
use crate::machine::key::SYSTEM;

/// Most users, beside `default`.
pub const USERS_MAX: usize = 1000;
/// Most bytes of a user's rules.
pub const RULES_BYTES_MAX: usize = 32 << 10;

const USERS: &[u8] = &[SYSTEM, b'u'];
const VERSION: &[u8] = &[SYSTEM, b'v'];

/// All users at a moment.
#[derive(Clone, Debug, Default)]
pub struct Acl {
    version: Option<Bytes>,
    users: BTreeMap<Bytes, User>,
}

impl Acl {
    /// The users of a cluster that has not been told of any.
    pub fn new(default_password: Option<&str>) -> Self {
        Self { version: None, users: [(Bytes::from_static(b"default"), User::first(default_password))].into() }
    }

    /// Reads the users if they have changed. Returns whether they have.
    pub fn refresh(&mut self, source: &dyn Source, default_password: Option<&str>) -> Result<bool, Unreadable> {
        let version = source.get(VERSION)?;
        if version == self.version {
            return Ok(false);
        }
        let (mut users, mut wrong) = (Self::new(default_password).users, None);
        source.scan(USERS, Bound::Unbounded, &mut |place, rules| {
            let name = Bytes::copy_from_slice(&place[USERS.len()..]);
            match User::of_rules(rules) {
                Ok(user) => drop(users.insert(name, user)),
                Err(what) => wrong = Some(format!("the rules of user '{}' are damaged: {what}", name.escape_ascii())),
            }
            wrong.is_none()
        })?;
        if let Some(wrong) = wrong {
            return Err(Unreadable(wrong));
        }
        *self = Self { version, users };
        Ok(true)
    }

    /// A user.
    pub fn user(&self, name: &[u8]) -> Option<&User> {
        self.users.get(name)
    }

    /// All users, by name.
    pub fn users(&self) -> impl Iterator<Item = (&Bytes, &User)> {
        self.users.iter()
    }
}

/// Makes a user, or changes it, within an entry.
pub fn put_user(draft: &mut Draft<'_>, name: &[u8], user: &User) {
    draft.change([USERS, name].concat(), Some(user.rules().into()));
    has_changed(draft);
}

/// Removes a user within an entry.
pub fn delete_user(draft: &mut Draft<'_>, name: &[u8]) {
    draft.change([USERS, name].concat(), None);
    has_changed(draft);
}

fn has_changed(draft: &mut Draft<'_>) {
    let version = draft.version();
    draft.change(VERSION.to_vec(), Some(Bytes::copy_from_slice(&version.to_be_bytes())));
}

/// The number of users beside `default`, as an entry would find it.
pub fn count_in(draft: &Draft<'_>) -> Result<usize, Unreadable> {
    let mut count = 0;
    draft.scan(USERS, Bound::Unbounded, &mut |place, _| {
        count += usize::from(&place[USERS.len()..] != b"default");
        true
    })?;
    Ok(count)
}

/// The user of a name, as an entry would find it.
pub fn user_in(draft: &Draft<'_>, name: &[u8]) -> Result<Option<User>, Unreadable> {
    let rules = draft.value(&[USERS, name].concat())?;
    rules.map(|rules| User::of_rules(&rules)).transpose().map_err(|what| Unreadable(what.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{Acl, Draft, User, delete_user, put_user};
    use crate::machine::draft::tests::Shelf;

    #[test]
    fn users_are_read_when_they_have_changed() {
        let (mut shelf, mut acl) = (Shelf::default(), Acl::new(None));
        assert_eq!(acl.refresh(&shelf, None), Ok(false));
        let mut draft = Draft::new(&shelf, 1, 7);
        put_user(&mut draft, b"alice", &User::of_rules(b"on nopass ~* +@all").expect("a user"));
        let deed = draft.into_deed();
        shelf.apply(deed);
        assert_eq!(acl.refresh(&shelf, None), Ok(true));
        assert_eq!(acl.refresh(&shelf, None), Ok(false));
        assert!(acl.user(b"alice").is_some_and(User::is_on) && acl.user(b"default").is_some());
        let mut draft = Draft::new(&shelf, 1, 8);
        delete_user(&mut draft, b"alice");
        let deed = draft.into_deed();
        shelf.apply(deed);
        assert_eq!(acl.refresh(&shelf, None), Ok(true));
        assert!(acl.user(b"alice").is_none());
    }
}
