//! Login of a connection: its user, and whether it has shown who it is.

use bytes::Bytes;

/// Login of a connection.
#[derive(Debug)]
pub(super) struct Login {
    user: Bytes,
    is_known: bool,
    has_password: bool,
    changes_users: bool,
}

impl Default for Login {
    /// The user `default`, who has shown nothing.
    fn default() -> Self {
        Self { user: Bytes::from_static(b"default"), is_known: false, has_password: false, changes_users: false }
    }
}

impl Login {
    /// User whose rights the connection has.
    pub(super) fn user(&self) -> &Bytes {
        &self.user
    }

    /// User whose password the connection has shown.
    pub(super) fn shown_user(&self) -> Option<&Bytes> {
        self.has_password.then_some(&self.user)
    }

    /// Whether it has said who it is, where that is asked for.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Notes whether a connection without a password may do what `default` may.
    pub(super) fn set_known(&mut self, is_known: bool) {
        self.is_known = is_known;
    }

    /// A password is right. The name is copied: it must not keep the whole request in memory.
    pub(super) fn log_in(&mut self, name: &[u8]) {
        self.user = Bytes::copy_from_slice(name);
        (self.is_known, self.has_password) = (true, true);
    }

    /// Whether a request of the connection that changes users was done last. The requests behind it
    /// wait for the answer, for they rest on that.
    pub(super) fn changes_users(&self) -> bool {
        self.changes_users
    }

    /// Notes whether the present request changes users.
    pub(super) fn set_changes_users(&mut self, changes_users: bool) {
        self.changes_users = changes_users;
    }
}
