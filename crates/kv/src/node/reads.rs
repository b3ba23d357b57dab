//! Reads by ReadIndex: the leader makes sure, by a round of heartbeats, that it still leads, and
//! says what was committed when it was asked; a read waits until that is applied.
//!
//! Reads that have come since the last question share the next. A question's context is its own for
//! ever: an answer to an earlier one would be about an earlier moment. An answer to a later one is
//! good for all before it, so a question that stays without an answer is followed by another, and
//! forgets nothing: rounds may take longer than that.

use std::collections::BTreeMap;

use perdura_pmem::{Mutant, planted};
use raft::{RawNode, ReadState, StateRole};

use super::lease::Lease;
use super::output::{Done, Outcome, Output};
use crate::store::{Log, Store};

/// Ticks without an answer after which another question is asked.
const AGAIN_TICKS: usize = 3;

/// Condition of an answer that the leader has made from its newest versions already.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadCondition {
    /// The term in which it was made. An answer of another leader is none for it.
    pub(super) led_in: u64,
    /// Index and term of an entry that must be applied besides.
    pub(super) entry: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    ticket: u64,
    condition: Option<ReadCondition>,
    ticks: usize,
}

impl Waiting {
    fn entry(&self) -> Option<(u64, u64)> {
        self.condition.and_then(|condition| condition.entry)
    }
}

/// Reads that are not answered.
pub(super) struct Reads {
    id: u64,
    nonce: u64,
    /// Number of the last question.
    number: u64,
    /// Whether the next is asked even if no read waits for it.
    renews: bool,
    /// Not in a question.
    new: Vec<Waiting>,
    /// By question, with the number of ticks since it was asked.
    asked: BTreeMap<u64, (usize, Vec<Waiting>)>,
    /// Ticks since the last question.
    idle_ticks: usize,
    /// By the index that must be applied.
    known: BTreeMap<u64, Vec<Waiting>>,
    /// By which a leader reads without asking, if leases are held.
    lease: Option<Lease>,
}

impl Reads {
    pub(super) fn new(id: u64, nonce: u64) -> Self {
        Self {
            id,
            nonce,
            number: 0,
            renews: false,
            new: Vec::new(),
            asked: BTreeMap::new(),
            idle_ticks: 0,
            known: BTreeMap::new(),
            lease: None,
        }
    }

    /// Reads by a lease from now on, while this replica leads.
    pub(super) fn hold_lease(&mut self, lease: Lease) {
        self.lease = Some(lease);
    }

    /// Ends the lease, for the members change or Raft is run anew.
    pub(super) fn end_lease(&mut self) {
        self.lease.iter_mut().for_each(Lease::end);
    }

    /// Lets a read wait until a quorum has said that this replica, or another, leads; or only until
    /// so much is applied if it holds a lease.
    pub(super) fn wait(&mut self, ticket: u64, condition: Option<ReadCondition>, raw: &RawNode<Log>) {
        if let Some(lease) = &self.lease
            && raw.raft.state == StateRole::Leader
            && raw.raft.commit_to_current_term()
            && lease.holds(raw.raft.term)
        {
            return self.wait_for(ticket, raw.raft.raft_log.committed, condition);
        }
        self.new.push(Waiting { ticket, condition, ticks: 0 });
    }

    /// A read waits until this index is applied, and for nothing else.
    fn wait_for(&mut self, ticket: u64, index: u64, condition: Option<ReadCondition>) {
        let read = Waiting { ticket, condition, ticks: 0 };
        let floor = read.entry().map_or(index, |(at, _)| at.max(index));
        self.known.entry(floor).or_default().push(read);
    }

    /// Asks for those that are new, if there is somebody to ask.
    pub(super) fn ask(&mut self, raw: &mut RawNode<Log>) {
        if let (Some(lease), true) = (&mut self.lease, raw.raft.lead_transferee.is_some()) {
            lease.hand_over(raw.raft.term);
        }
        if self.new.is_empty() && !self.renews || raw.raft.leader_id == raft::INVALID_ID {
            return;
        }
        self.renews = false;
        self.number += 1;
        // Before it is sent: it is heard later.
        if let Some(lease) = &mut self.lease
            && raw.raft.state == StateRole::Leader
        {
            lease.asks(self.number, raw.raft.term);
        }
        self.idle_ticks = 0;
        self.asked.insert(self.number, (0, std::mem::take(&mut self.new)));
        raw.read_index([self.id, self.nonce, self.number].map(u64::to_le_bytes).concat());
    }

    /// Number of the question that an answer is to, if it is one of these.
    fn number_of(&self, answer: &ReadState) -> Option<u64> {
        let words = [self.id, self.nonce].map(u64::to_le_bytes).concat();
        let rest = answer.request_ctx.strip_prefix(&words[..])?;
        let number = u64::from_le_bytes(rest.try_into().ok()?);
        self.asked.contains_key(&number).then_some(number)
    }

    /// An answer has come. `leads_in` is the term in which this replica leads, if it does.
    pub(super) fn answered(&mut self, answer: &ReadState, leads_in: Option<u64>, output: &mut Output) {
        let Some(number) = self.number_of(answer) else { return };
        if let Some(lease) = &mut self.lease {
            lease.answered(number, leads_in);
        }
        let later = self.asked.split_off(&(number + 1));
        let answered = std::mem::replace(&mut self.asked, later);
        for read in answered.into_values().flat_map(|(_, reads)| reads) {
            // Planted: an answer of a leader that was deposed counts once another has answered.
            if read.condition.is_some_and(|condition| leads_in != Some(condition.led_in))
                && !planted(Mutant::DeposedAnswerCounts)
            {
                output.done.push(Done { ticket: read.ticket, outcome: Outcome::Unavailable });
                continue;
            }
            let floor = read.entry().map_or(0, |(index, _)| index);
            self.known.entry(floor.max(answer.index)).or_default().push(read);
        }
    }

    /// Reads that wait for an applied index are done. Those that rest on an entry that another has
    /// replaced are given up.
    pub(super) fn applied(&mut self, store: &dyn Store, output: &mut Output) {
        // Planted: nobody looks whether the entry that an answer rests on was replaced.
        let stands = |(index, term)| {
            store.term(index).is_ok_and(|found| found == term) || planted(Mutant::ReplacedReadConditionCounts)
        };
        while let Some(entry) = self.known.first_entry()
            && *entry.key() <= store.applied()
        {
            let done = |read: Waiting| {
                let outcome = if read.entry().is_none_or(stands) { Outcome::Readable } else { Outcome::Unavailable };
                Done { ticket: read.ticket, outcome }
            };
            output.done.extend(entry.remove().into_iter().map(done));
        }
    }

    /// A tick has passed. Reads that have waited for `ticks_max` are given up. A replica that
    /// `leads` asks for its lease's sake.
    pub(super) fn tick(&mut self, leads: bool, ticks_max: usize, output: &mut Output) {
        self.idle_ticks += 1;
        let mut given_up = Vec::new();
        self.asked.retain(|_, (ticks, reads)| {
            *ticks += 1;
            reads.iter_mut().for_each(|read| read.ticks += 1);
            given_up.extend(reads.extract_if(.., |read| read.ticks >= ticks_max));
            *ticks < ticks_max
        });
        self.new.iter_mut().for_each(|read| read.ticks += 1);
        given_up.extend(self.new.extract_if(.., |read| read.ticks >= ticks_max));
        self.known.retain(|_, reads| {
            reads.iter_mut().for_each(|read| read.ticks += 1);
            given_up.extend(reads.extract_if(.., |read| read.ticks >= ticks_max));
            !reads.is_empty()
        });
        output
            .done
            .extend(given_up.into_iter().map(|read| Done { ticket: read.ticket, outcome: Outcome::Unavailable }));
        self.renews |= !self.asked.is_empty() && self.idle_ticks >= AGAIN_TICKS || leads && self.lease.is_some();
    }

    /// Gives up all, and the lease.
    pub(super) fn fail(&mut self, output: &mut Output) {
        self.end_lease();
        let asked = std::mem::take(&mut self.asked).into_values().flat_map(|(_, reads)| reads);
        let known = std::mem::take(&mut self.known).into_values().flatten();
        let all = asked.chain(std::mem::take(&mut self.new)).chain(known);
        output.done.extend(all.map(|read| Done { ticket: read.ticket, outcome: Outcome::Unavailable }));
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Output, Reads};

    /// A leader that is cut off applies nothing more: a read that waited for that waited for ever.
    #[test]
    fn a_read_that_waits_for_an_entry_is_given_up_too() {
        let (mut reads, mut output) = (Reads::new(1, 1), Output::default());
        reads.wait_for(7, 100, None);
        (0..9).for_each(|_| reads.tick(false, 10, &mut output));
        assert!(output.done.is_empty());
        reads.tick(false, 10, &mut output);
        assert_eq!(
            output.done.iter().map(|done| (done.ticket, done.outcome)).collect::<Vec<_>>(),
            [(7, Outcome::Unavailable)]
        );
        assert!(reads.known.is_empty());
    }
}
