//! Faults, by the plan's story.

use super::cluster::{Cluster, Outcome};
use super::plan::Story;
use super::scheme::How;

const WAYS_AGAINST_LEASES: [How; 8] =
    [How::Part, How::Late, How::HandOver, How::Forget, How::Stop, How::Twice, How::Sharp, How::Deposed];

impl Cluster {
    /// Lets things go wrong, or not.
    pub(super) fn disturb(&mut self) -> Outcome {
        let place = self.random.below(self.machines.len() as u64) as usize;
        if self.random.one_in(300) {
            self.machines[place].clocks.jump(&mut self.random);
        }
        match self.plan.story {
            Story::Usual | Story::Requests => {
                self.anything(place);
                self.hand_over(400)
            }
            Story::Storm => {
                if self.scheme.is_none() {
                    self.storm();
                }
                self.plot(400, &[How::Figure8])
            }
            Story::Lease => {
                if self.random.one_in(250) {
                    self.weather(&[0, 0, 5]);
                }
                self.plot(80, &WAYS_AGAINST_LEASES)
            }
        }
    }

    fn weather(&mut self, losses: &[u64]) {
        self.network.loss_percent = losses[self.random.below(losses.len() as u64) as usize];
        self.network.delay = [1, 3, 20, 60][self.random.below(4) as usize];
    }

    fn anything(&mut self, place: usize) {
        let ids = self.ids();
        if self.random.one_in(200) {
            self.network.part(&ids, &mut self.random);
        }
        if self.random.one_in(200) {
            self.weather(&[0, 0, 5, 30]);
        }
        if self.random.one_in(300) {
            self.machines[place].stopped_until = self.now + self.random.below(400);
        }
        if self.random.one_in(300) {
            self.steps_of_call = [4, 8, 8, 60][self.random.below(4) as usize];
        }
        if self.random.one_in(250) {
            self.fail(place, 400);
            // Sometimes the power of all fails at once.
            if self.random.one_in(6) {
                (0..self.machines.len()).for_each(|place| self.fail(place, 400));
            }
        }
    }

    /// A leader hands over, now and then.
    fn hand_over(&mut self, steps: u64) -> Outcome {
        if !self.random.one_in(steps) {
            return Ok(());
        }
        for place in self.leaders() {
            self.transfer(place)?;
        }
        Ok(())
    }

    pub(super) fn transfer(&mut self, place: usize) -> Outcome {
        if self.machines[place].stopped_until > self.now {
            return Ok(());
        }
        let to = 1 + self.random.below(self.machines.len() as u64);
        self.report.transfers += 1;
        self.act(place, |node, _, _| node.transfer(to))
    }

    /// A leader reaches few of the others, and its power fails soon, for a short time.
    fn storm(&mut self) {
        (self.network.loss_percent, self.network.delay) = (5, 6);
        let ids = self.ids();
        for place in self.leaders() {
            let id = self.machines[place].id;
            if self.random.one_in(15) {
                self.network.cut_from(id, &ids, &mut self.random);
            }
            if self.random.one_in(30) {
                self.fail(place, 150);
                self.network.lose(id);
                self.network.whole();
            }
        }
    }
}
