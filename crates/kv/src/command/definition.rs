//! Entry of a command in the table.

use bytes::Bytes;

use super::arguments::Arguments;
use super::outcome::{Outcome, wrong};
use crate::machine::draft::Draft;
use crate::resp::Reply;

/// Whether a command may change keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It only reads, and is answered from what is applied.
    Read,
    /// It becomes an entry, if it changes anything.
    Write,
    /// It is no business of keys.
    None,
}

/// Which arguments of a command are keys. The command itself is argument 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// The first key, or 0 if there is none.
    pub first: i64,
    /// The last key; a negative number counts from the end.
    pub last: i64,
    /// From one key to the next.
    pub step: i64,
}

pub(super) const NO_KEY: Places = Places { first: 0, last: 0, step: 0 };
pub(super) const ONE_KEY: Places = Places { first: 1, last: 1, step: 1 };
pub(super) const TWO_KEYS: Places = Places { first: 1, last: 2, step: 1 };
pub(super) const ALL_KEYS: Places = Places { first: 1, last: -1, step: 1 };
pub(super) const KEYS_AND_VALUES: Places = Places { first: 1, last: -1, step: 2 };

/// A command.
#[derive(Debug)]
pub struct Command {
    /// Its name, in small messages.
    pub name: &'static str,
    /// Number of arguments, the command included; of the least if negative.
    pub arity: i64,
    /// Whether it may change keys.
    pub access: Access,
    /// Its other flags, as COMMAND names them, with spaces between.
    pub flags: &'static str,
    /// Its categories that do not follow from access and flags.
    pub categories: &'static str,
    /// The group of commands that it is documented in.
    pub group: &'static str,
    /// The version of Redis that has it first, or `perdura`.
    pub since: &'static str,
    /// Where its keys are.
    pub places: Places,
    /// Summary, in a line.
    pub summary: &'static str,
    /// Its implementation.
    pub(super) run: Run,
}

/// Implementation of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    /// It is done on a draft.
    Draft(fn(Arguments<'_>, &mut Draft<'_>) -> Outcome<Reply>),
    /// The connection does it.
    Client,
}

impl Command {
    /// Checks the number of arguments of a request.
    pub(crate) fn check(&self, request: &[Bytes]) -> Outcome<()> {
        if self.fits(request.len()) {
            Ok(())
        } else {
            wrong(format!("wrong number of arguments for '{}' command", self.name))
        }
    }

    /// Whether it takes this number of arguments.
    pub(crate) fn fits(&self, count: usize) -> bool {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if self.arity < 0 { count >= -self.arity } else { count == self.arity }
    }

    /// The keys of a request whose number of arguments is right.
    pub(crate) fn keys<'a>(&self, request: &'a [Bytes]) -> impl Iterator<Item = &'a Bytes> {
        let Places { first, last, step } = self.places;
        let place = |at: i64| usize::try_from(at).unwrap_or_default();
        let end = if last < 0 { request.len().saturating_sub(place(-last - 1)) } else { place(last) + 1 };
        let range = if first == 0 { 0..0 } else { place(first)..end.min(request.len()) };
        request[range].iter().step_by(place(step).max(1))
    }

    /// Does a request on a draft, and returns the reply for when its entry is applied. A refusal
    /// leaves the draft as it was only if the draft was empty before.
    pub(crate) fn run(&self, request: &[Bytes], draft: &mut Draft<'_>) -> Outcome<Reply> {
        self.check(request)?;
        self.check_keys(request)?;
        match self.run {
            Run::Draft(run) => run(Arguments::new(self.name, &request[1..]), draft),
            Run::Client => wrong(format!("'{}' cannot be done here", self.name)),
        }
    }

    /// Checks the length of a request's keys.
    pub(crate) fn check_keys(&self, request: &[Bytes]) -> Outcome<()> {
        for key in self.keys(request) {
            if key.len() > crate::machine::key::KEY_BYTES_MAX {
                return wrong(format!(
                    "a key of {} bytes is too long: {} at most",
                    key.len(),
                    crate::machine::key::KEY_BYTES_MAX
                ));
            }
        }
        Ok(())
    }

    /// Whether it is done on a draft.
    pub(crate) fn is_on_draft(&self) -> bool {
        matches!(self.run, Run::Draft(_))
    }

    /// Whether it has a flag.
    pub(crate) fn has_flag(&self, flag: &str) -> bool {
        self.flags.split(' ').any(|word| word == flag)
    }

    /// Its categories, without the sign before them.
    pub(crate) fn all_categories(&self) -> impl Iterator<Item = &'static str> {
        let access = match self.access {
            Access::Read => &["read"][..],
            Access::Write => &["write"],
            Access::None => &[],
        };
        let admin = if self.has_flag("admin") { &["admin", "dangerous"][..] } else { &[] };
        let speed = if self.has_flag("fast") { "fast" } else { "slow" };
        let own = self.categories.split(' ').filter(|word| !word.is_empty());
        access.iter().chain(admin).copied().chain(own).chain([speed])
    }
}
