//! Clients that speak RESP to a replica's room `client`, over connections that end with the
//! replica's power.
//!
//! Each has one operation under way. Half of them are of a user whose rights the first client takes
//! away and gives back: once that is acknowledged, no write of that user that is sent later may
//! succeed.

use bytes::BytesMut;
use perdura_pmem::sim::Random;

use super::history::{Action, Value};
use super::observed::Observed;
use super::replies::{Reply, take_reply};
use super::work::{Outcome, Work, outcome_of};

/// Steps after which an operation without an answer is given up, and its connection closed.
const STEPS_OF_OPERATION: u64 = 150;
/// Of so many operations of the first client, one changes the user's rights.
const OPERATIONS_OF_RIGHTS: u64 = 12;

/// An operation under way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    work: Work,
    key: u64,
    /// Step of the first request, and of the last attempt.
    called: u64,
    sent: Option<u64>,
    /// When the last reply but one came.
    first_reply: u64,
}

#[derive(Debug, Default)]
struct Session {
    /// Place of the machine, and token there.
    connection: Option<(usize, u32)>,
    /// The machine that it was told to ask instead.
    moves_to: Option<usize>,
    is_logged_in: bool,
    received: BytesMut,
    replies: Vec<Reply>,
    /// Number of replies that are waited for.
    wanted: usize,
    pending: Option<Pending>,
    /// Number of the last command that was to be done once.
    once: u64,
}

/// All clients of a run.
pub(super) struct Sessions {
    sessions: Vec<Session>,
    pub(super) observed: Observed,
    /// Whether the user was made.
    is_user_made: bool,
    /// Step at which it was acknowledged that the user has no rights, as long as nobody has asked
    /// to give them back.
    barred_since: Option<u64>,
    /// Of all that clients were told.
    pub(super) digest: u64,
}

impl Sessions {
    pub(super) fn new(count: usize) -> Self {
        Self {
            sessions: (0..count).map(|_| Session::default()).collect(),
            observed: Observed::new(1),
            is_user_made: false,
            barred_since: None,
            digest: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn connection(&self, session: usize) -> Option<(usize, u32)> {
        self.sessions[session].connection
    }

    pub(super) fn connected(&mut self, session: usize, place: usize, token: u32) {
        let session = &mut self.sessions[session];
        (session.connection, session.moves_to, session.is_logged_in) = (Some((place, token)), None, false);
        session.received.clear();
        session.replies.clear();
    }

    /// The machine that a client was told to ask.
    pub(super) fn moves_to(&self, session: usize) -> Option<usize> {
        self.sessions[session].moves_to
    }

    fn is_worker(session: usize) -> bool {
        session % 2 == 1
    }

    /// Bytes that a connected client sends now, if it has nothing under way.
    pub(super) fn request(&mut self, session: usize, step: u64, random: &mut Random) -> Option<String> {
        if self.sessions[session].wanted > 0 || Self::is_worker(session) && !self.is_user_made {
            return None;
        }
        if Self::is_worker(session) && !self.sessions[session].is_logged_in {
            return Some(self.send(session, Work::Login, 0));
        }
        let pending = match self.sessions[session].pending {
            Some(pending) => pending,
            None => self.choose(session, step, random),
        };
        self.sessions[session].pending = Some(Pending { sent: Some(step), ..pending });
        if let Work::Rights { .. } = pending.work {
            self.barred_since = None;
        }
        Some(self.send(session, pending.work, pending.key))
    }

    fn send(&mut self, session: usize, work: Work, key: u64) -> String {
        let lines = work.lines(session, key);
        self.sessions[session].wanted = lines.len();
        lines.into_iter().map(|line| line + "\r\n").collect()
    }

    fn choose(&mut self, session: usize, step: u64, random: &mut Random) -> Pending {
        let sessions = &self.sessions;
        let under_way = |key| sessions.iter().filter(|one| one.pending.is_some_and(|other| other.key == key)).count();
        let key = self.observed.key(under_way, random);
        let work = if session == 0 && (!self.is_user_made || random.one_in(OPERATIONS_OF_RIGHTS)) {
            Work::Rights { grants: !self.is_user_made || random.one_in(2) }
        } else {
            self.on_key(session, key, random)
        };
        Pending { work, key, called: step, sent: None, first_reply: step }
    }

    fn on_key(&mut self, session: usize, key: u64, random: &mut Random) -> Work {
        let expected = self.observed.guess(key, random);
        let new = self.observed.fresh();
        match random.below(12) {
            0..=2 => Work::Read,
            3 | 4 => Work::Write { new, ends_in_ms: None },
            5 | 6 => Work::Write { new, ends_in_ms: Some(20 + random.below(300)) },
            7 => Work::Compare { expected, new },
            8 => Work::WriteAndRead { new },
            9 | 10 => Work::Watch { new },
            _ => {
                let session = &mut self.sessions[session];
                session.once += 1;
                Work::Once { number: session.once, expected, new }
            }
        }
    }

    /// A connection has brought bytes. Error: an answer that no sound replica gives.
    pub(super) fn received(&mut self, at: (usize, u32), bytes: &[u8], step: u64) -> Result<(), String> {
        let Some(place) = self.sessions.iter().position(|session| session.connection == Some(at)) else {
            return Ok(());
        };
        let session = &mut self.sessions[place];
        session.received.extend_from_slice(bytes);
        while let Some(reply) = take_reply(&mut session.received)? {
            session.replies.push(reply);
            if session.replies.len() > session.wanted {
                return Err(format!("more replies than requests: {:?}", session.replies));
            }
            if session.replies.len() < session.wanted {
                session.pending.iter_mut().for_each(|pending| pending.first_reply = step);
            }
        }
        self.digest = self.digest.rotate_left(9).wrapping_mul(31) ^ u64::from(crc32c::crc32c(bytes)) ^ step << 32;
        if session.replies.is_empty() || session.replies.len() < session.wanted {
            return Ok(());
        }
        let replies = std::mem::take(&mut session.replies);
        session.wanted = 0;
        self.answered(place, &replies, step)
    }

    fn answered(&mut self, place: usize, replies: &[Reply], step: u64) -> Result<(), String> {
        let outcomes = replies.iter().map(outcome_of).collect::<Result<Vec<_>, _>>()?;
        let session = &mut self.sessions[place];
        session.moves_to = replies.iter().find_map(moved_to);
        if Self::is_worker(place) && !session.is_logged_in {
            session.is_logged_in = outcomes == [Outcome::Done];
            return Ok(());
        }
        let Some(pending) = session.pending.take() else { return Err("a reply to nothing".to_owned()) };
        self.check_rights(place, &pending, &outcomes)?;
        match pending.work {
            Work::Rights { grants } => self.rights_changed(grants, outcomes[0], step),
            Work::Watch { new } => self.watched(place, pending, new, &outcomes),
            Work::Once { .. } if matches!(outcomes[0], Outcome::Never | Outcome::Unknown | Outcome::Denied) => {
                // It is sent again until it is known what has come of it.
                self.sessions[place].pending = Some(pending);
            }
            Work::Read => {
                if let Some(seen) = seen(outcomes[0]) {
                    self.returned(pending, Action::Read(seen), step);
                }
            }
            Work::WriteAndRead { new } => self.written_and_read(pending, new, &outcomes, step),
            Work::Exec { .. } => self.done(pending, exec_of(&outcomes), step),
            Work::Login | Work::Write { .. } | Work::Compare { .. } | Work::Once { .. } => {
                self.done(pending, outcomes[0], step);
            }
        }
        Ok(())
    }

    /// A user who has no rights writes nothing.
    fn check_rights(&self, place: usize, pending: &Pending, outcomes: &[Outcome]) -> Result<(), String> {
        let succeeded = match pending.work {
            Work::Exec { .. } => exec_of(outcomes),
            _ => outcomes[0],
        };
        let is_late = self.barred_since.is_some_and(|since| pending.sent.is_some_and(|sent| sent > since));
        if Self::is_worker(place) && pending.work.is_write() && is_late && succeeded == Outcome::Done {
            let since = self.barred_since.unwrap_or_default();
            return Err(format!("a user without rights since step {since} has done {pending:?}"));
        }
        Ok(())
    }

    fn rights_changed(&mut self, grants: bool, outcome: Outcome, step: u64) {
        if outcome == Outcome::Done {
            self.is_user_made |= grants;
            self.barred_since = (!grants).then_some(step);
        }
    }

    fn watched(&mut self, place: usize, pending: Pending, new: u64, outcomes: &[Outcome]) {
        if let (Outcome::Done, Some(seen)) = (outcomes[0], seen(outcomes[1])) {
            let called = pending.first_reply;
            self.sessions[place].pending =
                Some(Pending { work: Work::Exec { seen, new }, called, sent: None, ..pending });
        }
    }

    /// A write, and what the read behind it saw: the read comes after the write.
    fn written_and_read(&mut self, pending: Pending, new: u64, outcomes: &[Outcome], step: u64) {
        let (key, called, write) = (pending.key, pending.called, Action::Write(new));
        let read = seen(outcomes[1]).map(Action::Read);
        match (outcomes[0], read) {
            (Outcome::Done, Some(read)) => {
                let returned = [pending.first_reply, step];
                self.observed.returned_both(key, [write, read], called, returned);
            }
            (Outcome::Done, None) => self.observed.returned(key, write, called, pending.first_reply),
            (written, read) => {
                if written == Outcome::Unknown {
                    self.observed.lost(key, write, called);
                }
                read.into_iter().for_each(|read| self.observed.returned(key, read, called, step));
            }
        }
    }

    /// A write or comparison was answered.
    fn done(&mut self, pending: Pending, outcome: Outcome, step: u64) {
        let action = |matched| pending.work.action(Some(matched));
        match outcome {
            Outcome::Done => {
                if let Work::Write { new, ends_in_ms: Some(_) } = pending.work {
                    self.observed.may_happen(pending.key, Action::Expire(new), pending.called);
                }
                action(true).into_iter().for_each(|action| self.returned(pending, action, step));
            }
            // EXEC does nothing, too, if the leader was another meanwhile: that says nothing of the
            // key.
            Outcome::Refused if matches!(pending.work, Work::Exec { .. }) => {}
            Outcome::Refused => action(false).into_iter().for_each(|action| self.returned(pending, action, step)),
            Outcome::Unknown => self.lose(pending),
            Outcome::Never | Outcome::Denied | Outcome::Found(_) => {}
        }
    }

    fn returned(&mut self, pending: Pending, action: Action, step: u64) {
        self.observed.returned(pending.key, action, pending.called, step);
    }

    /// Nobody knows what comes of an operation.
    fn lose(&mut self, pending: Pending) {
        if let Work::Write { new, ends_in_ms: Some(_) } = pending.work {
            self.observed.may_happen(pending.key, Action::Expire(new), pending.called);
        }
        if let Some(action) = pending.work.action(None) {
            self.observed.lost(pending.key, action, pending.called);
        }
    }

    /// Connections whose operation has had no answer for too long.
    pub(super) fn overdue(&self, step: u64) -> Vec<(usize, u32)> {
        let is_overdue = |session: &&Session| {
            let sent = session.pending.and_then(|pending| pending.sent);
            session.wanted > 0 && sent.is_some_and(|sent| sent + STEPS_OF_OPERATION < step)
        };
        self.sessions.iter().filter(is_overdue).filter_map(|session| session.connection).collect()
    }

    /// The connections to a machine have ended, or one of them.
    pub(super) fn closed(&mut self, place: usize, token: Option<u32>) {
        for number in 0..self.sessions.len() {
            let session = &mut self.sessions[number];
            let is_it = |(at, of): (usize, u32)| at == place && token.is_none_or(|token| token == of);
            if !session.connection.is_some_and(is_it) {
                continue;
            }
            session.connection = None;
            let was_sent = std::mem::take(&mut session.wanted) > 0;
            match session.pending {
                // A command that is done once is sent again.
                Some(Pending { work: Work::Once { .. }, .. }) | None => {}
                Some(pending) => {
                    session.pending = None;
                    if was_sent {
                        self.lose(pending);
                    }
                }
            }
        }
    }

    /// Nobody is told anything any more.
    pub(super) fn end(&mut self) {
        for number in 0..self.sessions.len() {
            if let Some(pending) = self.sessions[number].pending.take() {
                self.lose(pending);
            }
        }
    }
}

/// The machine that a reply says to ask instead.
fn moved_to(reply: &Reply) -> Option<usize> {
    let Reply::Error(text) = reply else { return None };
    let (_, port) = text.strip_prefix("MOVED ")?.rsplit_once(':')?;
    port.parse::<usize>().ok()?.checked_sub(1)
}

/// The value that a read saw, if it was done.
fn seen(outcome: Outcome) -> Option<Value> {
    match outcome {
        Outcome::Found(value) => Some(value),
        Outcome::Refused => Some(None),
        _ => None,
    }
}

/// Outcome of EXEC: nothing was done if what goes before was refused.
fn exec_of(outcomes: &[Outcome]) -> Outcome {
    outcomes[outcomes.len() - 1]
}
