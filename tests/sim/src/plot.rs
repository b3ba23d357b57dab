//! Plot against a leader, so that another is elected as early as may be while clients still read
//! from it.

use perdura_kv::node::Role;

use super::cluster::{Cluster, Outcome};
use super::scheme::{How, Scheme};

/// An election's time without a leader in steps, by a clock that is right.
const ELECTION_STEPS: u64 = 100;
/// Steps between attempts to have a replica elected.
const TRYING_STEPS: u64 = 9;
/// Steps that answers take at most which come late.
const LATE_STEPS: u64 = 60;

/// How a scheme goes on.
enum Next {
    /// With the next part, after some steps.
    After(u64),
    /// With this part again, after some steps.
    Again(u64),
    End,
}

use Next::{After, Again, End};

impl Cluster {
    /// Goes on with what is under way against a leader, or begins something.
    pub(super) fn plot(&mut self, steps: u64, ways: &[How]) -> Outcome {
        if let Some(scheme) = self.scheme.take() {
            return self.go_on(scheme);
        }
        if self.random.one_in(steps)
            && let [leader] = self.leaders()[..]
        {
            let how = ways[self.random.below(ways.len() as u64) as usize];
            self.scheme = Some(Scheme { how, leader, at: self.now, done: 0, until: self.now + ELECTION_STEPS });
        }
        Ok(())
    }

    fn go_on(&mut self, mut scheme: Scheme) -> Outcome {
        if self.now < scheme.at {
            self.scheme = Some(scheme);
            return Ok(());
        }
        let next = match scheme.how {
            How::Part => self.part(scheme)?,
            How::Late => self.late(scheme)?,
            How::HandOver => self.by_hand_over(scheme)?,
            How::Forget => self.forget(scheme)?,
            How::Stop => self.stop(scheme)?,
            How::Twice => self.twice(scheme)?,
            How::Sharp => self.sharp(scheme)?,
            How::Deposed => self.deposed(scheme)?,
            How::Figure8 => self.figure_8(scheme)?,
        };
        match next {
            After(steps) => {
                (scheme.at, scheme.done) = (self.now + steps, scheme.done + 1);
                scheme.until = scheme.at + 2 * ELECTION_STEPS;
            }
            Again(steps) => scheme.at = self.now + steps,
            End => {
                self.network.whole();
                (self.only_reads, self.reads_only_from, self.steps_of_call) = (false, None, 8);
                self.compares_at = None;
                return Ok(());
            }
        }
        self.scheme = Some(scheme);
        Ok(())
    }

    fn others(&self, place: usize) -> Vec<u64> {
        let id = self.machines[place].id;
        self.ids().into_iter().filter(|other| *other != id).collect()
    }

    /// Cuts the leader off, to it and from it; some clients go on to read from it.
    fn cut_off(&mut self, scheme: Scheme, directions: (bool, bool)) {
        let (id, others) = (self.machines[scheme.leader].id, self.others(scheme.leader));
        self.network.cut_off(id, &others, directions);
        self.steps_of_call = 3;
        [2, 3].into_iter().for_each(|client| self.clients.turn_to(client, id));
        // A write would wait there, and its client with it. A comparison that fails is answered, if
        // the leader is believed to lead.
        if self.random.one_in(3) {
            self.compares_at = Some(id);
        } else {
            self.reads_only_from = Some(id);
        }
    }

    /// Lets a replica try to be elected. Refused as long as it has promised to wait.
    fn try_to_elect(&mut self, id: u64) -> Outcome {
        let place = id as usize - 1;
        if self.machines[place].stopped_until > self.now || self.leads(place) {
            return Ok(());
        }
        self.act(place, |node, _, _| node.campaign())
    }

    fn leads(&self, place: usize) -> bool {
        self.machines[place].node.as_ref().is_some_and(|node| node.status().role == Role::Leader)
    }

    fn term(&self, id: u64) -> u64 {
        self.machines[id as usize - 1].node.as_ref().map_or(0, |node| node.status().term)
    }

    /// Waits until another has been elected, and clients have been at both for a while.
    fn await_another(&mut self, scheme: Scheme) -> Result<Next, String> {
        let others = self.others(scheme.leader);
        if let Some(other) = others.iter().find(|other| self.leads(**other as usize - 1)) {
            [0, 1].into_iter().for_each(|client| self.clients.turn_to(client, *other));
            return Ok(After(ELECTION_STEPS / 2));
        }
        if self.now > scheme.until {
            return Ok(End);
        }
        self.try_to_elect(others[0])?;
        Ok(Again(TRYING_STEPS))
    }

    fn part(&mut self, scheme: Scheme) -> Result<Next, String> {
        match scheme.done {
            0 => {
                (self.network.delay, self.network.loss_percent) = (1, 0);
                self.cut_off(scheme, (true, true));
                Ok(After(1))
            }
            1 => self.await_another(scheme),
            _ => Ok(End),
        }
    }

    fn late(&mut self, scheme: Scheme) -> Result<Next, String> {
        match scheme.done {
            0 => {
                (self.network.delay, self.network.loss_percent) = (1, 0);
                self.network.slow_to = Some((self.machines[scheme.leader].id, LATE_STEPS));
                Ok(After(LATE_STEPS))
            }
            1 => {
                self.cut_off(scheme, (false, true));
                Ok(After(LATE_STEPS))
            }
            2 => {
                self.network.slow_to = None;
                self.cut_off(scheme, (true, true));
                Ok(After(1))
            }
            3 => self.await_another(scheme),
            _ => Ok(End),
        }
    }

    fn by_hand_over(&mut self, scheme: Scheme) -> Result<Next, String> {
        if scheme.done > 0 {
            return Ok(End);
        }
        self.network.delay = 1;
        self.transfer(scheme.leader)?;
        // The demand is under way already. What follows does not come back; the leader may or may
        // not be heard.
        let is_heard = self.random.one_in(2);
        self.cut_off(scheme, (true, !is_heard));
        Ok(After(ELECTION_STEPS))
    }

    fn forget(&mut self, scheme: Scheme) -> Result<Next, String> {
        let others = self.others(scheme.leader);
        let isolated = others[scheme.leader % others.len()];
        match scheme.done {
            0 => {
                (self.network.delay, self.network.loss_percent) = (1, 0);
                self.network.cut_off(isolated, &[self.machines[scheme.leader].id], (true, true));
                self.only_reads = true;
                Ok(After(ELECTION_STEPS + self.random.below(ELECTION_STEPS)))
            }
            1 => {
                for other in others.iter().filter(|other| **other != isolated) {
                    self.fail(*other as usize - 1, 3);
                }
                self.cut_off(scheme, (true, true));
                Ok(After(5))
            }
            2 => {
                // It has long heard no leader, so it may try at once; those that have just begun do
                // not know whom they heard.
                self.try_to_elect(isolated)?;
                self.only_reads = false;
                [0, 1].into_iter().for_each(|client| self.clients.turn_to(client, isolated));
                Ok(After(ELECTION_STEPS))
            }
            _ => Ok(End),
        }
    }

    fn stop(&mut self, scheme: Scheme) -> Result<Next, String> {
        match scheme.done {
            0 => {
                self.cut_off(scheme, (true, false));
                let steps = ELECTION_STEPS / 2 + self.random.below(2 * ELECTION_STEPS);
                self.machines[scheme.leader].stopped_until = self.now + steps;
                Ok(After(1))
            }
            1 => self.await_another(scheme),
            _ => Ok(End),
        }
    }

    /// A deposed leader's answer rests on its newest versions. The answer of another to its
    /// question must not bring it to a client.
    fn deposed(&mut self, scheme: Scheme) -> Result<Next, String> {
        let (id, others) = (self.machines[scheme.leader].id, self.others(scheme.leader));
        match scheme.done {
            0 => {
                (self.network.delay, self.network.loss_percent) = (1, 0);
                self.cut_off(scheme, (true, true));
                (self.reads_only_from, self.compares_at) = (None, Some(id));
                Ok(After(1))
            }
            1 => {
                if let Some(other) = others.iter().find(|other| self.leads(**other as usize - 1)) {
                    [0, 1].into_iter().for_each(|client| self.clients.turn_to(client, *other));
                    return Ok(After(ELECTION_STEPS / 6));
                }
                if self.now > scheme.until {
                    return Ok(End);
                }
                self.try_to_elect(others[scheme.leader % others.len()])?;
                Ok(Again(2))
            }
            2 => {
                // Now the values stay as they are.
                self.only_reads = true;
                [2, 3].into_iter().for_each(|client| self.clients.turn_to(client, id));
                Ok(After(ELECTION_STEPS / 8))
            }
            3 => {
                self.network.whole();
                self.compares_at = None;
                Ok(After(ELECTION_STEPS))
            }
            _ => Ok(End),
        }
    }

    /// A candidate's demand for real votes is lost, so its term is later than that of those who
    /// have agreed to its election.
    fn twice(&mut self, scheme: Scheme) -> Result<Next, String> {
        let (leader, others) = (self.machines[scheme.leader].id, self.others(scheme.leader));
        let candidate = others[0];
        match scheme.done {
            0 => {
                (self.network.delay, self.network.loss_percent) = (1, 0);
                self.network.cut_off(leader, &others, (true, true));
                // The others vote for none whose log is behind theirs.
                self.only_reads = true;
                Ok(After(1))
            }
            1 => {
                if self.term(candidate) > self.term(leader) {
                    self.network.whole();
                    self.network.lose(candidate);
                    let rest = self.others(candidate as usize - 1);
                    self.network.cut_off(candidate, &rest, (true, true));
                    return Ok(After(ELECTION_STEPS / 4));
                }
                if self.now > scheme.until {
                    return Ok(End);
                }
                if self.now.is_multiple_of(TRYING_STEPS) {
                    self.try_to_elect(candidate)?;
                }
                Ok(Again(1))
            }
            2 => {
                // Raft itself does not know after a start whom it has heard. The promise does.
                for other in others.iter().filter(|other| **other != candidate) {
                    self.fail(*other as usize - 1, 3);
                }
                self.network.whole();
                self.cut_off(scheme, (true, true));
                self.only_reads = false;
                Ok(After(5))
            }
            3 => self.await_another(scheme),
            _ => Ok(End),
        }
    }

    /// One that has long heard no leader is elected in the first step in which the promises of
    /// others allow it.
    fn sharp(&mut self, scheme: Scheme) -> Result<Next, String> {
        let (leader, others) = (self.machines[scheme.leader].id, self.others(scheme.leader));
        let candidate = others[scheme.leader % others.len()];
        match scheme.done {
            0 => {
                (self.network.delay, self.network.loss_percent) = (0, 0);
                self.network.cut_off(candidate, &[leader], (true, true));
                self.only_reads = true;
                Ok(After(ELECTION_STEPS + self.random.below(ELECTION_STEPS)))
            }
            1 => {
                self.cut_off(scheme, (true, true));
                (self.reads_only_from, self.compares_at, self.only_reads) = (Some(leader), None, false);
                [0, 1].into_iter().for_each(|client| self.clients.turn_to(client, candidate));
                self.steps_of_call = 1;
                Ok(After(ELECTION_STEPS / 2))
            }
            2 => {
                if self.leads(candidate as usize - 1) {
                    return Ok(After(ELECTION_STEPS / 4));
                }
                if self.now > scheme.until {
                    return Ok(End);
                }
                // Once others have agreed to an election, another attempt would take it back.
                let is_asking = self.term(candidate) > self.term(leader);
                if !is_asking || self.now.is_multiple_of(2 * TRYING_STEPS) {
                    self.try_to_elect(candidate)?;
                }
                Ok(Again(1))
            }
            _ => Ok(End),
        }
    }

    /// A leads, and only B hears its last entry. C is elected by the rest, and nobody hears its
    /// first one. A is elected again, and brings its old entry to a quorum; before anything of its
    /// new term is there, it fails, and C is elected again, whose last entry is of a later term.
    fn figure_8(&mut self, scheme: Scheme) -> Result<Next, String> {
        let ids = self.ids();
        let (a, others) = (self.machines[scheme.leader].id, self.others(scheme.leader));
        let (b, c) = (others[0], others[1]);
        let fails = |id: u64| id as usize - 1;
        let apart = |cluster: &mut Cluster, some: &[u64]| {
            cluster.network.whole();
            for id in some {
                let rest: Vec<u64> = ids.iter().copied().filter(|other| !some.contains(other)).collect();
                cluster.network.cut_off(*id, &rest, (true, true));
            }
        };
        match scheme.done {
            0 => {
                (self.network.delay, self.network.loss_percent, self.steps_of_call) = (1, 0, 2);
                (0..4).for_each(|client| self.clients.turn_to(client, a));
                apart(self, &[a, b]);
                Ok(After(12))
            }
            1 => {
                self.fail(fails(a), 3);
                Ok(After(1))
            }
            2 | 7 => self.elect_alone(c, scheme),
            3 => {
                // Its writes are durable by now.
                self.fail(fails(c), 3);
                apart(self, &[c]);
                Ok(After(1))
            }
            4 => self.elect(a, scheme),
            5 => {
                let committed = |node: &perdura_kv::node::Node| node.status().committed;
                let was = self.machines[fails(b)].node.as_ref().map_or(0, committed);
                let is = self.machines[fails(a)].node.as_ref().map_or(0, committed);
                if is <= was && self.now <= scheme.until {
                    return Ok(Again(1));
                }
                self.fail(fails(a), 3);
                self.network.lose(a);
                apart(self, &[a, b]);
                Ok(After(1))
            }
            6 => {
                self.steps_of_call = 8;
                Ok(After(1))
            }
            _ => Ok(End),
        }
    }

    fn elect(&mut self, id: u64, scheme: Scheme) -> Result<Next, String> {
        if self.leads(id as usize - 1) {
            return Ok(After(1));
        }
        if self.now > scheme.until {
            return Ok(End);
        }
        self.try_to_elect(id)?;
        Ok(Again(if self.now.is_multiple_of(TRYING_STEPS) { 1 } else { TRYING_STEPS / 2 }))
    }

    /// Has a replica elected, and cuts it off before anybody hears it lead.
    fn elect_alone(&mut self, id: u64, scheme: Scheme) -> Result<Next, String> {
        if self.leads(id as usize - 1) && scheme.done < 7 {
            let others = self.others(id as usize - 1);
            self.network.lose(id);
            self.network.cut_off(id, &others, (true, true));
            return Ok(After(6));
        }
        if self.leads(id as usize - 1) {
            return Ok(After(ELECTION_STEPS / 4));
        }
        if self.now > scheme.until {
            return Ok(End);
        }
        if self.now.is_multiple_of(TRYING_STEPS) {
            self.try_to_elect(id)?;
        }
        Ok(Again(1))
    }
}
