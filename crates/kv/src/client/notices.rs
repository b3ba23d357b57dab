//! Notices of the clients' room for the operator: the server takes and logs them.

/// Most that are kept until the server takes them.
const NOTICES_MAX: usize = 16;

/// An event that an operator wants to know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A browser, or something like it, has sent a request of HTTP from an address. The connection
    /// was closed.
    Http {
        /// Address that it came from.
        from: String,
    },
    /// A connection from another machine was refused, for the user `default` has no password.
    Unprotected {
        /// Address that it came from.
        from: String,
    },
    /// The record of a user cannot be read. The user has no rights.
    UserDisabled {
        /// Its name, escaped.
        user: String,
        /// Reason.
        why: String,
    },
    /// The users cannot be read. Nobody is let in.
    UsersUnreadable {
        /// Reason.
        why: String,
    },
    /// So many others.
    Others(u64),
}

/// Notices that were not taken yet.
#[derive(Debug, Default)]
pub(super) struct Notices {
    kept: Vec<Notice>,
    others: u64,
}

impl Notices {
    /// Keeps a notice, or counts it if there are too many.
    pub(super) fn add(&mut self, notice: Notice) {
        if self.kept.len() < NOTICES_MAX {
            self.kept.push(notice);
        } else {
            self.others += 1;
        }
    }

    /// Takes all.
    pub(super) fn take(&mut self) -> Vec<Notice> {
        let mut taken = std::mem::take(&mut self.kept);
        let others = std::mem::take(&mut self.others);
        taken.extend((others > 0).then_some(Notice::Others(others)));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::{NOTICES_MAX, Notice, Notices};

    /// Hazard: unauthenticated connections fill the memory, or the log, with what is said of them.
    #[test]
    fn notices_beyond_the_bound_are_counted() {
        let mut notices = Notices::default();
        (0..1000).for_each(|_| notices.add(Notice::Http { from: "a".into() }));
        let taken = notices.take();
        assert_eq!((taken.len(), taken.last()), (NOTICES_MAX + 1, Some(&Notice::Others(1000 - NOTICES_MAX as u64))));
        assert!(notices.take().is_empty());
    }
}
