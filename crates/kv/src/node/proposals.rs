//! Tickets that wait for entries.

use std::collections::BTreeMap;

use super::output::{Done, Outcome, Output};

/// Entries that were proposed here, by index: their terms and tickets.
#[derive(Debug, Default)]
pub(super) struct Proposals {
    waiting: BTreeMap<u64, (u64, u64)>,
    /// Ticks since leadership was lost.
    lost_ticks: usize,
}

impl Proposals {
    /// An entry was proposed. One that waited at the index is not in this log any more; another's
    /// may bring it back.
    pub(super) fn wait(&mut self, index: u64, term: u64, ticket: u64, output: &mut Output) {
        if let Some((_, ticket)) = self.waiting.insert(index, (term, ticket)) {
            output.done.push(Done { ticket, outcome: Outcome::Unknown });
        }
    }

    /// The entry of a term was applied at an index, and all before it.
    pub(super) fn applied(&mut self, index: u64, term: u64, output: &mut Output) {
        while let Some(entry) = self.waiting.first_entry()
            && *entry.key() <= index
        {
            let (at, (proposed, ticket)) = entry.remove_entry();
            let outcome = match (at == index, proposed == term) {
                (true, true) => Outcome::Applied,
                (true, false) => Outcome::Never,
                (false, _) => Outcome::Unknown,
            };
            output.done.push(Done { ticket, outcome });
        }
    }

    /// A tick has passed. Where leadership was lost `ticks_max` ago, tickets that still wait end as
    /// unknown: the next leader may have the entries, and this replica may not hear of it.
    pub(super) fn tick(&mut self, leads: bool, ticks_max: usize, output: &mut Output) {
        self.lost_ticks = if leads { 0 } else { self.lost_ticks + 1 };
        if self.lost_ticks >= ticks_max {
            self.fail(output);
        }
    }

    /// The entries of this leader's term behind `last` had no room in its own store: so nobody has
    /// been sent them, and nobody ever will be.
    pub(super) fn take_back(&mut self, last: u64, term: u64, output: &mut Output) {
        self.waiting.retain(|index, (proposed, ticket)| {
            let stays = *index <= last || *proposed != term;
            if !stays {
                output.done.push(Done { ticket: *ticket, outcome: Outcome::Never });
            }
            stays
        });
    }

    /// Ends all of them as unknown.
    pub(super) fn fail(&mut self, output: &mut Output) {
        let tickets = std::mem::take(&mut self.waiting).into_values();
        output.done.extend(tickets.map(|(_, ticket)| Done { ticket, outcome: Outcome::Unknown }));
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Output, Proposals};

    #[test]
    fn a_ticket_is_told_what_was_applied_at_its_index() {
        let (mut proposals, mut output) = (Proposals::default(), Output::default());
        for (index, ticket) in [(5, 50), (6, 60), (7, 70), (8, 80)] {
            proposals.wait(index, 2, ticket, &mut output);
        }
        proposals.applied(5, 2, &mut output);
        proposals.applied(6, 3, &mut output);
        proposals.wait(7, 4, 71, &mut output);
        proposals.fail(&mut output);
        let found: Vec<_> = output.done.iter().map(|done| (done.ticket, done.outcome)).collect();
        let unknown = [70, 71, 80].map(|ticket| (ticket, Outcome::Unknown));
        assert_eq!(found, [&[(50, Outcome::Applied), (60, Outcome::Never)][..], &unknown].concat());
    }

    /// Hazard: what no other replica can have is said to be so perhaps, or the other way round.
    #[test]
    fn what_the_own_store_had_no_room_for_is_never_applied() {
        let (mut proposals, mut output) = (Proposals::default(), Output::default());
        // 7 was proposed when this replica led before: others may have it.
        for (index, term) in [(5, 2), (6, 4), (7, 2), (8, 4)] {
            proposals.wait(index, term, index * 10, &mut output);
        }
        proposals.take_back(6, 4, &mut output);
        proposals.fail(&mut output);
        let found: Vec<_> = output.done.iter().map(|done| (done.ticket, done.outcome)).collect();
        assert_eq!(
            found,
            [(80, Outcome::Never), (50, Outcome::Unknown), (60, Outcome::Unknown), (70, Outcome::Unknown)]
        );
    }

    #[test]
    fn who_has_asked_a_leader_that_is_lost_does_not_wait_for_ever() {
        let (mut proposals, mut output) = (Proposals::default(), Output::default());
        proposals.wait(5, 2, 50, &mut output);
        for leads in [true, true, true, false, false, true, false, false] {
            proposals.tick(leads, 3, &mut output);
        }
        assert!(output.done.is_empty());
        proposals.tick(false, 3, &mut output);
        assert_eq!(
            output.done.iter().map(|done| (done.ticket, done.outcome)).collect::<Vec<_>>(),
            [(50, Outcome::Unknown)]
        );
    }
}
