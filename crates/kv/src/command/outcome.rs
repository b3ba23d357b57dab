//! Outcome of a command: a reply, or a refusal.

use crate::machine::draft::{Draft, PLACES_MAX, Unreadable};
use crate::resp::Reply;

/// Why a command is not done. It has changed nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Refusal {
    /// The client's fault: the reply says which.
    Wrong(Reply),
    /// The store cannot be read.
    Unreadable(Unreadable),
}

impl From<Unreadable> for Refusal {
    fn from(error: Unreadable) -> Self {
        Refusal::Unreadable(error)
    }
}

impl Refusal {
    /// The reply to the client.
    pub(crate) fn into_reply(self) -> Reply {
        match self {
            Refusal::Wrong(reply) => reply,
            Refusal::Unreadable(error) => Reply::error(format!("this replica cannot read its data: {error}")),
        }
    }
}

/// The refusal of a request that is wrong.
pub(super) fn wrong<T>(text: impl AsRef<str>) -> Outcome<T> {
    Err(Refusal::Wrong(Reply::error(text)))
}

/// Refuses what has looked at more than it may.
pub(super) fn bounded(draft: &Draft<'_>) -> Outcome<()> {
    if draft.has_looked_at_all() {
        return wrong(format!("a command looks at {PLACES_MAX} keys at most, and one that it changes counts twice"));
    }
    Ok(())
}

/// Outcome of a command.
pub(crate) type Outcome<T> = Result<T, Refusal>;
