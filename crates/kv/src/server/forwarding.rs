//! Requests of clients that are passed on: the link to the leader at a replica that follows, and
//! the answers to others at the leader.
//!
//! There is one link, to whoever leads. When it ends or another leads, room `client` is told at
//! once, and tells the clients: a request is never sent a second time.

use mio::event::Event;
use slog::{info, warn};

use super::link::{Link, LinkEvent};
use super::state::{Server, Source};
use crate::node::Role;
use crate::store;

impl Server {
    /// Has a link to the leader, if requests are passed on, and looks at what is due for it.
    pub fn tick_forwards(&mut self, now_ms: u64) {
        let inbound = &self.inbound;
        self.clients.keep_peer_sessions(|key| inbound.contains_key(&key));
        self.look_for_leader();
        if let Some((_, link)) = &mut self.forwards {
            let news = link.tick(&self.plan, self.poll.registry(), now_ms);
            self.tell_of_forwards(news);
        }
    }

    /// Gives the link up if it does not go to the leader, and begins one to it.
    fn look_for_leader(&mut self) {
        if !self.config.clients.forwards {
            return;
        }
        let status = self.node.status();
        let leader = if status.role == Role::Leader { 0 } else { status.leader };
        let address = self.directory.find(leader).filter(|_| leader != 0).map(|addresses| &addresses.peer[..]);
        let goes = self.forwards.as_ref().map(|(_, link)| (link.replica(), link.address()));
        if goes != address.map(|address| (leader, address)) {
            let address = address.map(str::to_owned);
            if let Some((_, mut link)) = self.forwards.take() {
                self.clients.forwards_lost(link.unsent(), &self.node);
            }
            if let Some(address) = address {
                let key = self.key();
                let mut link = Link::of_forwards(leader, address, Source::Forwards.token(key));
                let news = link.tick(&self.plan, self.poll.registry(), self.clock.now_ms());
                self.forwards = Some((key, link));
                self.tell_of_forwards(news);
            }
        }
        let is_up = self.forwards.as_ref().is_some_and(|(_, link)| link.is_up());
        self.clients.open_forwards(is_up.then_some((leader, status.term)));
    }

    /// Something has happened to the link's socket.
    pub fn forwards_happened(&mut self, key: u64, event: &Event) -> store::Result<()> {
        let now_ms = self.clock.now_ms();
        let Some((_, link)) = self.forwards.as_mut().filter(|(of, _)| *of == key) else { return Ok(()) };
        let news = link.happened(event, &self.plan, &mut self.scratch, now_ms);
        let answers = link.take_answers();
        for answer in answers {
            if !self.clients.forwarded(answer, &mut self.node)? {
                warn!(self.log, "the leader has answered what was not asked");
            }
        }
        self.tell_of_forwards(news);
        Ok(())
    }

    /// Sends what clients have for the leader.
    pub fn pass_on(&mut self) {
        self.look_for_leader();
        let Some((_, link)) = &mut self.forwards else { return };
        for forward in self.clients.take_forwards() {
            link.pass(&forward);
        }
        let news = link.flush(self.clock.now_ms());
        self.tell_of_forwards(news);
    }

    /// Tells clients that the link has ended, if it has, and logs what has become of it.
    fn tell_of_forwards(&mut self, news: Option<LinkEvent>) {
        let Some((_, link)) = &mut self.forwards else { return };
        if !link.is_up() {
            self.clients.forwards_lost(link.unsent(), &self.node);
        }
        match news {
            Some(LinkEvent::Up) => info!(self.log, "requests are passed on to the leader"; "leader" => link.replica()),
            Some(LinkEvent::Down(why)) => {
                warn!(self.log, "requests are not passed on"; "leader" => link.replica(), "why" => why);
            }
            None => {}
        }
    }

    /// Sends other replicas the answers to what they have passed on, and reads from those on whom
    /// it was waited.
    pub fn answer_forwards(&mut self) -> store::Result<()> {
        let mut answered = Vec::new();
        for (key, answer) in self.clients.take_answers() {
            let Some(connection) = self.inbound.get_mut(&key) else { continue };
            connection.answer(&answer);
            if answered.last() != Some(&key) {
                answered.push(key);
            }
        }
        for key in answered {
            self.flush_inbound(key)?;
            if self.inbound.get(&key).is_some_and(|connection| connection.is_left)
                && !self.readable_inbound.contains(&key)
            {
                self.readable_inbound.push_back(key);
            }
        }
        Ok(())
    }
}
