//! The loop: events, and after them the turn of the replica.

use std::io::{self, Read};
use std::os::unix::net::UnixStream as Pair;
use std::sync::Arc;
use std::time::Duration;

use mio::event::Event;
use mio::net::UnixStream;
use mio::{Events, Interest};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use slog::{info, warn};

use super::link::LinkEvent;
use super::state::{OWN, Server, Source};
use crate::node::Role;
use crate::store::{self, Error, ErrorKind};

const EVENTS_MAX: usize = 1024;

fn broken(error: io::Error) -> Error {
    Error::new(ErrorKind::Medium, format!("waiting for events: {error}"))
}

/// Becomes readable when the process is told to end. A file that may not become longer
/// (RLIMIT_FSIZE) ends no process: it is an error of the write.
fn signals(server: &Server) -> io::Result<UnixStream> {
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let (receiver, sender) = Pair::pair()?;
    receiver.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGTERM, sender.try_clone()?)?;
    signal_hook::low_level::pipe::register(SIGINT, sender)?;
    let mut receiver = UnixStream::from_std(receiver);
    server.poll.registry().register(&mut receiver, Source::Signal.token(0), Interest::READABLE)?;
    Ok(receiver)
}

impl Server {
    /// TlsAcceptor until it is told to end.
    pub fn run(&mut self) -> store::Result<()> {
        let mut signals = signals(self).map_err(broken)?;
        let mut events = Events::with_capacity(EVENTS_MAX);
        if self.members().voters == [self.id] {
            self.node.campaign()?;
            self.turn()?;
        }
        let mut awake_until_us = 0;
        loop {
            let (now_us, next_us) = (self.clock.now_us(), self.ticker.next_us());
            let is_busy = !self.readable.is_empty()
                || !self.readable_inbound.is_empty()
                || !self.readable_listeners.is_empty()
                || self.has_upkeep
                || self.clients.has_work();
            let rest = if is_busy || now_us < awake_until_us { 0 } else { next_us.saturating_sub(now_us) };
            match self.poll.poll(&mut events, Some(Duration::from_micros(rest))) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(broken(error)),
                _ => {}
            }
            let begun_us = self.clock.now_us();
            self.clients.begin_step();
            for event in &events {
                self.happened(event, &mut signals)?;
            }
            if events.is_empty() && rest == 0 && !is_busy {
                // Whoever else wants the processor may bring what is waited for.
                std::thread::yield_now();
            }
            if !events.is_empty() {
                awake_until_us = self.clock.now_us() + self.config.raft.spin_us;
            }
            self.go_on()?;
            if !events.is_empty() || is_busy {
                self.turn()?;
            }
            if self.ticker.is_due(self.clock.now_us()) {
                self.tick()?;
                self.turn()?;
            }
            self.traffic.longest_turn_us = self.traffic.longest_turn_us.max(self.clock.now_us() - begun_us);
            if self.has_ended() {
                return self.node.persist();
            }
        }
    }

    fn happened(&mut self, event: &Event, signals: &mut UnixStream) -> store::Result<()> {
        let (source, key) = Source::of(event.token());
        match source {
            Source::Listener => self.accept(key as usize),
            Source::Client => {
                let token = key as u32;
                let Some(Some(line)) = self.lines.get_mut(token as usize) else { return Ok(()) };
                line.channel.happened(event);
                self.feed(token)?;
                self.flush_client(token)?;
                return self.persist_if_due();
            }
            Source::Link => {
                let Some(link) = self.link_keys.get(&key).and_then(|id| self.links.get_mut(id)) else { return Ok(()) };
                let now_ms = self.clock.now_ms();
                let news = link.happened(event, &self.plan, &mut self.scratch, now_ms);
                self.tell(key, news);
            }
            Source::Forwards => return self.forwards_happened(key, event),
            Source::Inbound => {
                let Some(connection) = self.inbound.get_mut(&key) else { return Ok(()) };
                connection.channel.happened(event);
                self.hear(key)?;
            }
            Source::Browser => {
                let Some(browser) = self.browsers.get_mut(&key) else { return Ok(()) };
                browser.channel.happened(event);
                self.browse(key);
            }
            Source::Signal => {
                let mut bytes = [0; 16];
                while signals.read(&mut bytes).is_ok_and(|count| count > 0) {}
                self.begin_end()?;
            }
        }
        Ok(())
    }

    /// Goes on with connections and listeners that had more than their share.
    fn go_on(&mut self) -> store::Result<()> {
        for key in std::mem::take(&mut self.readable_listeners) {
            self.accept(key);
        }
        for _ in 0..self.readable.len() {
            if let Some(token) = self.readable.pop_front() {
                self.feed(token)?;
                self.persist_if_due()?;
            }
        }
        for _ in 0..self.readable_inbound.len() {
            if let Some(key) = self.readable_inbound.pop_front() {
                self.hear(key)?;
            }
        }
        Ok(())
    }

    /// Makes entries durable before the queue is drained, if there are many or they are old.
    fn persist_if_due(&mut self) -> store::Result<()> {
        if !self.node.wants_persist() {
            return Ok(());
        }
        let (now_us, raft) = (self.clock.now_us(), &self.config.raft);
        let since_us = *self.unpersisted_since_us.get_or_insert(now_us);
        if self.node.must_persist() || now_us - since_us >= raft.persist_us {
            return self.turn();
        }
        Ok(())
    }

    /// Sends, makes durable, sends what rested on that, and replies.
    pub fn turn(&mut self) -> store::Result<()> {
        self.traffic.turns += 1;
        loop {
            let wall_us = self.wall_us();
            self.clients.step(&mut self.node, wall_us)?;
            self.pass_on();
            let output = self.node.take_output();
            let is_quiet = output.messages.is_empty() && output.done.is_empty();
            for message in &output.messages {
                if let Some(link) = self.links.get_mut(&message.to()) {
                    link.send(message, &self.plan);
                }
            }
            self.flush_links();
            for done in output.done {
                if done.ticket & OWN == 0 {
                    self.clients.done(done, &mut self.node)?;
                } else {
                    self.asked_done(done.ticket, done.outcome);
                }
            }
            for token in self.clients.take_woken() {
                self.flush_client(token)?;
            }
            self.answer_forwards()?;
            if self.node.wants_persist() {
                self.node.persist()?;
                self.traffic.confirmations += 1;
                self.unpersisted_since_us = None;
            } else if is_quiet && !self.clients.has_forwards() {
                break;
            }
        }
        self.has_upkeep = self.node.tidy()?;
        Ok(())
    }

    fn flush_links(&mut self) {
        let now_ms = self.clock.now_ms();
        let news: Vec<(u64, LinkEvent)> =
            self.links.iter_mut().filter_map(|(id, link)| Some((*id, link.flush(now_ms)?))).collect();
        for (id, news) in news {
            self.tell_of(id, news);
        }
    }

    fn tell(&mut self, key: u64, news: Option<LinkEvent>) {
        if let (Some(news), Some(id)) = (news, self.link_keys.get(&key).copied()) {
            self.tell_of(id, news);
        }
    }

    /// Logs what has become of a link.
    pub fn tell_of(&mut self, id: u64, news: LinkEvent) {
        let address = self.links.get(&id).map_or("", |link| link.address());
        match news {
            LinkEvent::Up => info!(self.log, "connected to a replica"; "peer" => id, "address" => address),
            LinkEvent::Down(why) => {
                warn!(self.log, "no connection to a replica"; "peer" => id, "address" => address, "why" => why)
            }
        }
    }

    /// Begins to end: hands leadership over first, so that clients do not wait for an election.
    fn begin_end(&mut self) -> store::Result<()> {
        let now_ms = self.clock.now_ms();
        if self.ends_ms.is_some() {
            self.ends_ms = Some(now_ms);
            return Ok(());
        }
        self.ends_ms = Some(now_ms + self.config.raft.election_ms);
        if let Some(transfer_target) = self.transfer_target() {
            info!(self.log, "handing leadership over"; "to" => transfer_target);
            self.node.transfer(transfer_target)?;
        } else {
            self.ends_ms = Some(now_ms);
        }
        self.turn()
    }

    fn has_ended(&self) -> bool {
        let is_leader = || self.node.status().role == Role::Leader;
        self.ends_ms.is_some_and(|ends_ms| self.clock.now_ms() >= ends_ms || !is_leader())
    }
}
