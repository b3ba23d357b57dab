//! Clients that speak RESP to the replicas of a cluster, and replicas that forward their requests.

use perdura_kv::node::Node;
use perdura_kv::store;

use super::cluster::{CALLS_OF_FAILURE, Cluster, Outcome, said};
use super::front_end::FrontEnd;
use super::links::Link;

impl Cluster {
    /// Lets the clients of a replica do something, and takes what comes of it. Its power may fail
    /// within.
    pub(super) fn serve(
        &mut self,
        place: usize,
        does: impl FnOnce(&mut FrontEnd, &mut Node) -> store::Result<()>,
    ) -> Outcome {
        if self.machines[place].front_end.is_none() {
            return Ok(());
        }
        let failing = self.begin_risk(place, CALLS_OF_FAILURE);
        let machine = &mut self.machines[place];
        let (Some(node), Some(front_end)) = (&mut machine.node, &mut machine.front_end) else { return Ok(()) };
        front_end.now_us = machine.clocks.wall_ms() * 1000;
        does(front_end, node).map_err(said)?;
        self.end_risk(place, failing)
    }

    /// Takes what a node and its clients have, until they have nothing more.
    pub(super) fn take_with_front_end(&mut self, place: usize) -> Outcome {
        loop {
            let machine = &mut self.machines[place];
            let (Some(node), Some(front_end)) = (&mut machine.node, &mut machine.front_end) else { return Ok(()) };
            front_end.now_us = machine.clocks.wall_ms() * 1000;
            front_end.step(node).map_err(said)?;
            let output = node.take_output();
            self.checks.look(node)?;
            let is_quiet = output.done.is_empty() && output.messages.is_empty();
            for message in &output.messages {
                self.network.send(self.now, message, &mut self.random);
            }
            for done in output.done {
                front_end.done(done, node).map_err(said)?;
            }
            let written = front_end.take_output(node).map_err(said)?;
            for (key, answer) in front_end.take_answers() {
                let arrives = self.now + 1 + self.random.below(self.network.delay + 1);
                if let Some(link) = self.links.iter_mut().find(|link| link.key == key) {
                    link.answer(&answer, arrives);
                }
            }
            let closes: Vec<u32> =
                written.iter().filter(|(_, _, is_over)| *is_over).map(|(token, ..)| *token).collect();
            closes.iter().for_each(|token| front_end.close(*token));
            self.report.term = self.report.term.max(node.status().term);
            let has_work = front_end.has_work();
            let has_written = written.iter().any(|(_, bytes, is_over)| *is_over || !bytes.is_empty());
            for (token, bytes, is_over) in written {
                self.sessions.received((place, token), &bytes, self.now)?;
                if is_over {
                    self.sessions.closed(place, Some(token));
                }
            }
            if is_quiet && !has_written && !has_work {
                return Ok(());
            }
        }
    }

    /// Lets clients connect, send requests, and give up those without an answer.
    pub(super) fn run_sessions(&mut self) -> Outcome {
        for (place, token) in self.sessions.overdue(self.now) {
            self.sessions.closed(place, Some(token));
            self.serve(place, |front_end, _| {
                front_end.close(token);
                Ok(())
            })?;
        }
        for session in 0..self.sessions.count() {
            if !self.random.one_in(self.steps_of_call) {
                continue;
            }
            let place = match (self.sessions.connection(session), self.sessions.moves_to(session)) {
                (Some((place, _)), _) => place,
                (None, Some(place)) if !self.random.one_in(4) => place,
                _ => self.random.below(self.machines.len() as u64) as usize,
            };
            let machine = &mut self.machines[place];
            if machine.stopped_until > self.now {
                continue;
            }
            if self.sessions.connection(session).is_none() {
                let Some(token) = machine.front_end.as_mut().and_then(FrontEnd::open) else { continue };
                self.sessions.connected(session, place, token);
            }
            self.call(session)?;
        }
        Ok(())
    }

    /// A client that is connected sends a request, or leaves.
    fn call(&mut self, session: usize) -> Outcome {
        let Some((place, token)) = self.sessions.connection(session) else { return Ok(()) };
        if self.sessions.moves_to(session).is_some() || self.random.one_in(40) {
            self.sessions.closed(place, Some(token));
            return self.serve(place, |front_end, _| {
                front_end.close(token);
                Ok(())
            });
        }
        let Some(lines) = self.sessions.request(session, self.now, &mut self.random) else { return Ok(()) };
        self.serve(place, |front_end, node| front_end.send(token, &lines, node))
    }

    /// Moves what is forwarded, and answers to it.
    pub(super) fn run_links(&mut self) -> Outcome {
        if !self.plan.forwards {
            return Ok(());
        }
        for place in 0..self.machines.len() {
            self.look_for_leader(place);
        }
        for number in 0..self.links.len() {
            self.advance_link(number)?;
        }
        self.links.retain(|link| !link.is_over());
        let links = &self.links;
        for machine in self.machines.iter_mut().filter(|machine| machine.stopped_until <= self.now) {
            let is_there = |key| links.iter().any(|link| link.key == key);
            machine.front_end.iter_mut().for_each(|front_end| front_end.keep_links(is_there));
        }
        Ok(())
    }

    /// A replica that follows has a connection to the leader, and to no other.
    fn look_for_leader(&mut self, place: usize) {
        let machine = &mut self.machines[place];
        let (Some(node), Some(front_end)) = (&mut machine.node, &mut machine.front_end) else { return };
        if machine.stopped_until > self.now {
            return;
        }
        let leader = FrontEnd::leader(node);
        let to = leader.map(|(leader, _)| leader as usize - 1);
        let mut link = front_end.link.and_then(|key| self.links.iter_mut().find(|link| link.key == key));
        if let Some(old) = link.take_if(|link| Some(link.to) != to) {
            front_end.lose_link(old.give_up(), node);
        }
        if let Some(link) = link {
            link.send(front_end.take_forwards(leader));
            return;
        }
        let (from, id) = (place, machine.id);
        let Some(to) = to else {
            front_end.take_forwards(None);
            return;
        };
        let is_up = self.machines[to].node.is_some();
        if is_up && !self.network.is_cut(id, to as u64 + 1) {
            self.last_link += 1;
            self.links.push(Link::new(self.last_link, from, to));
            self.machines[from].front_end.iter_mut().for_each(|front_end| front_end.link = Some(self.last_link));
        }
    }

    fn advance_link(&mut self, number: usize) -> Outcome {
        let link = &mut self.links[number];
        let (from, to) = (link.from, link.to);
        let is_cut = self.network.is_cut(from as u64 + 1, to as u64 + 1);
        let is_lost = link.advance(self.now, is_cut, self.network.delay, &mut self.random);
        if is_lost && self.machines[from].stopped_until <= self.now {
            let unsent = link.give_up();
            let machine = &mut self.machines[from];
            if let (Some(node), Some(front_end)) = (&machine.node, &mut machine.front_end) {
                front_end.lose_link(unsent, node);
            }
        }
        while self.machines[to].stopped_until <= self.now
            && let Some(forward) = self.links[number].take_request(self.now)?
        {
            let (key, id) = (self.links[number].key, from as u64 + 1);
            self.serve(to, |front_end, node| front_end.forwarded(key, id, forward, node))?;
        }
        while self.machines[from].stopped_until <= self.now
            && let Some(answer) = self.links[number].take_answer(self.now)?
        {
            let mut was_asked = true;
            self.serve(from, |front_end, node| {
                was_asked = front_end.answered(answer, node)?;
                Ok(())
            })?;
            if !was_asked {
                return Err("an answer to what was not asked".to_owned());
            }
        }
        Ok(())
    }

    /// The power of a machine has failed: its connections end.
    pub(super) fn lose_links(&mut self, place: usize) {
        for link in &mut self.links {
            if link.to == place {
                link.lose_leader();
            }
            if link.from == place {
                link.give_up();
            }
        }
    }

    /// Checks what clients were told, and that all replicas know the same users.
    pub(super) fn end_sessions(&mut self) -> Outcome {
        self.sessions.end();
        self.sessions.observed.check()?;
        let mut known: Option<String> = None;
        for machine in &mut self.machines {
            let (Some(node), Some(front_end)) = (&mut machine.node, &mut machine.front_end) else { continue };
            front_end.tick(node).map_err(said)?;
            let Some(token) = front_end.open() else { continue };
            front_end.send(token, "ACL LIST\r\n", node).map_err(said)?;
            let written = front_end.take_output(node).map_err(said)?;
            let users = written.into_iter().filter(|(of, ..)| *of == token).map(|(_, bytes, _)| bytes);
            let users = String::from_utf8_lossy(&users.collect::<Vec<_>>().concat()).into_owned();
            match &known {
                Some(known) if *known != users => {
                    return Err(format!("{} knows the users {users}, another {known}", machine.id));
                }
                _ => known = Some(users),
            }
        }
        Ok(())
    }
}
