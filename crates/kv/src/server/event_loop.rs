//! The loop: events, and after them a step of the replica.

use std::io::{self, Read};
use std::os::unix::net::UnixStream as Pair;
use std::sync::Arc;

use mio::event::Event;
use mio::net::UnixStream;
use mio::{Events, Interest, Registry};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use slog::info;

use super::admin::{Admin, AdminContext};
use super::metrics::{self, Traffic};
use super::peers::inbound::PeerFrame;
use super::runtime::Port;
use super::runtime::Source;
use super::{Server, clock, operator, status};
use crate::node::Role;
use crate::store::{self, Error, ErrorKind};
use crate::wire::{FrameError, PeerMessage};

const EVENTS_MAX: usize = 1024;
/// Reads of an inbound connection before other events.
const READS_MAX: usize = 64;

fn broken(error: io::Error) -> Error {
    Error::new(ErrorKind::Medium, format!("waiting for events: {error}"))
}

/// Becomes readable when the process gets a signal to end. A file that may not become longer
/// (RLIMIT_FSIZE) ends no process: it is an error of the write.
fn signals(registry: &Registry) -> io::Result<UnixStream> {
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let (receiver, sender) = Pair::pair()?;
    receiver.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGTERM, sender.try_clone()?)?;
    signal_hook::low_level::pipe::register(SIGINT, sender)?;
    let mut receiver = UnixStream::from_std(receiver);
    registry.register(&mut receiver, Source::Signal.token(0), Interest::READABLE)?;
    Ok(receiver)
}

impl Server {
    /// Serves until a signal ends it.
    pub(super) fn run(&mut self) -> store::Result<()> {
        let mut signals = signals(self.runtime.registry()).map_err(broken)?;
        let mut events = Events::with_capacity(EVENTS_MAX);
        if self.node.members().voters == [self.node.id()] {
            self.node.campaign()?;
            self.step()?;
        }
        loop {
            let is_busy = self.sockets.is_readable()
                || self.inbound.is_readable()
                || self.listeners.is_readable()
                || self.has_upkeep
                || self.clients.has_work();
            let rest_us = self.schedule.rest_us(is_busy, self.runtime.now_us());
            self.runtime.wait(&mut events, rest_us).map_err(broken)?;
            let mut begun_us = self.runtime.now_us();
            self.clients.begin_step();
            for event in &events {
                self.happened(event, &mut signals)?;
            }
            if events.is_empty() && rest_us == 0 && !is_busy {
                self.traffic.spin_pauses += u64::from(self.schedule.yield_now(&self.runtime));
                begun_us = self.runtime.now_us();
            }
            if !events.is_empty() {
                self.schedule.stay_awake(&self.runtime);
            }
            self.go_on()?;
            if !events.is_empty() || is_busy {
                self.step()?;
            }
            if self.schedule.take_tick(&self.runtime) {
                self.tick()?;
                self.step()?;
            }
            self.traffic.longest_step_us = self.traffic.longest_step_us.max(self.runtime.now_us() - begun_us);
            let leads = || self.node.status().role == Role::Leader;
            if self.schedule.has_ended(leads, &self.runtime) {
                return self.node.persist_and_wait();
            }
        }
    }

    fn happened(&mut self, event: &Event, signals: &mut UnixStream) -> store::Result<()> {
        let (source, key) = Source::of(event.token());
        let Self { runtime, node, clients, links, scratch, .. } = self;
        match source {
            Source::Listener => self.accept(key as usize),
            Source::Client => {
                let token = key as u32;
                if self.sockets.happened(token, event) {
                    self.sockets.read(token, clients, node, scratch, runtime)?;
                    self.sockets.flush(token, clients, node, runtime)?;
                    return self.persist_if_due();
                }
            }
            Source::Link => links.happened(key, event, scratch, runtime),
            Source::Forwards => {
                let settings = links.settings();
                return self.forwarder.happened((key, event), settings, clients, node, scratch, runtime);
            }
            Source::Inbound => {
                if self.inbound.happened(key, event) {
                    self.hear(key)?;
                }
            }
            Source::Browser => {
                self.browsers.happened(key, event);
                self.browse(key);
            }
            Source::Store => return node.end_persist(),
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
        for key in self.listeners.take_readable() {
            self.accept(key);
        }
        for token in self.sockets.take_readable() {
            let Self { runtime, node, clients, sockets, scratch, .. } = self;
            sockets.read(token, clients, node, scratch, runtime)?;
            self.persist_if_due()?;
        }
        for key in self.inbound.take_readable() {
            self.hear(key)?;
        }
        Ok(())
    }

    /// Takes in connections at a listener.
    pub(super) fn accept(&mut self, key: usize) {
        let Self { runtime, listeners, node, clients, sockets, inbound, browsers, .. } = self;
        listeners.accept(key, runtime, |socket, port, runtime| match port {
            Port::Client => sockets.accept(socket, clients, runtime),
            Port::Peer => inbound.accept(socket, node, runtime),
            Port::Browser => browsers.accept(socket, runtime),
        });
    }

    /// Reads from an inbound connection, and does what it says.
    pub(super) fn hear(&mut self, key: u64) -> store::Result<()> {
        self.inbound.resume(key, &self.runtime);
        for _ in 0..READS_MAX {
            self.take_frames(key)?;
            if !self.inbound.read(key, &self.clients, &mut self.scratch, &self.runtime) {
                return Ok(());
            }
        }
        self.inbound.read_later(key);
        Ok(())
    }

    /// Does what has come whole from an inbound connection.
    fn take_frames(&mut self, key: u64) -> store::Result<()> {
        while let Some((replica, frame)) = self.inbound.next(key, &self.clients) {
            let Self { runtime, node, clients, directory, inbound, .. } = self;
            match frame {
                Ok(PeerFrame::Message(message)) if message.from() == replica => self.take_message(message)?,
                Ok(PeerFrame::Message(message)) => {
                    let why = format!("a message of replica {} over a connection of {replica}", message.from());
                    inbound.refuse(key, why, runtime);
                }
                Ok(PeerFrame::Forward(forward)) => clients.take_in(key, replica, forward, node, clock::wall_us())?,
                Ok(PeerFrame::Hello(hello)) => inbound.greet(key, (&hello, false), directory, node, runtime),
                Ok(PeerFrame::Forwards(hello)) => inbound.greet(key, (&hello, true), directory, node, runtime),
                Ok(PeerFrame::AdminRequest(request)) => {
                    let (admin, context) = self.admin();
                    admin.request(key, &request, context)?;
                }
                Err(FrameError::Version(version)) => {
                    let what = FrameError::Version(version);
                    inbound.refuse(key, format!("{what}: run the same version of perdura-kv on all replicas"), runtime);
                }
                Err(what) => inbound.refuse(key, what.to_string(), runtime),
            }
        }
        Ok(())
    }

    /// Gives a message to the replica. A snapshot that its store cannot take is left alone.
    fn take_message(&mut self, message: PeerMessage) -> store::Result<()> {
        self.traffic.messages_received += 1;
        let is_used = match self.node.step(message) {
            Err(error) if error.kind() == ErrorKind::Configuration => {
                self.logged.log_snapshot_mismatch(&error, self.runtime.log());
                false
            }
            step => step?,
        };
        self.traffic.messages_refused += u64::from(!is_used);
        Ok(())
    }

    /// Requests of operators, and the parts that they touch.
    pub(super) fn admin(&mut self) -> (&mut Admin, AdminContext<'_>) {
        let Self { runtime, node, clients, directory, links, inbound, admin, .. } = self;
        (admin, AdminContext { runtime, node, clients, directory, links, inbound })
    }

    /// Goes on with a browser's connection.
    pub(super) fn browse(&mut self, key: u64) {
        let Self { runtime, node, clients, sockets, directory, links, browsers, traffic, scratch, .. } = self;
        let (names, latency, sent) = (runtime.config().http_names(), sockets.latency(), links.traffic());
        browsers.go_on(key, scratch, &names, |path| {
            let state = status::state(runtime, node, clients, directory);
            let numbers = || {
                let traffic = Traffic { messages_sent: sent.sent, messages_dropped: sent.dropped, ..*traffic };
                let of_clients = (clients.statistics(), clients.users_disabled());
                let gauges = metrics::Gauges::of(runtime, node, clients);
                metrics::page(&state, of_clients, (&traffic, links.count_up()), &gauges, latency)
            };
            operator::answer(path, &state, latency, numbers)
        });
    }

    /// Makes entries durable before the queue is drained, if there are many or they are old.
    fn persist_if_due(&mut self) -> store::Result<()> {
        if !self.node.wants_persist() {
            return Ok(());
        }
        if self.schedule.must_persist(&self.runtime) || self.node.must_persist() {
            return self.step();
        }
        Ok(())
    }

    /// Sends, makes durable, sends what rested on that, and replies.
    pub(super) fn step(&mut self) -> store::Result<()> {
        self.traffic.steps += 1;
        loop {
            self.clients.step(&mut self.node, clock::wall_us())?;
            self.follow_leader();
            self.forwarder.send(&mut self.clients, &self.node, &self.runtime);
            let output = self.node.take_output();
            let is_quiet = output.messages.is_empty() && output.done.is_empty();
            self.links.send(&output.messages, &self.runtime);
            for done in output.done {
                if Admin::is_own(done.ticket) {
                    let (admin, context) = self.admin();
                    admin.done(done.ticket, done.outcome, context);
                } else {
                    self.clients.done(done, &mut self.node)?;
                }
            }
            for token in self.clients.take_woken() {
                self.sockets.flush(token, &mut self.clients, &mut self.node, &self.runtime)?;
            }
            self.inbound.send_answers(&mut self.clients, &self.runtime);
            if self.node.wants_persist() {
                self.node.persist()?;
                self.traffic.persists += 1;
                self.schedule.persisted();
            } else if is_quiet && !self.clients.has_forwards() {
                break;
            }
        }
        self.has_upkeep = self.node.tidy()?;
        Ok(())
    }

    /// Begins to end: hands leadership over first, so that clients do not wait for an election.
    fn begin_end(&mut self) -> store::Result<()> {
        if self.schedule.is_ending() {
            self.schedule.end_in(0, &self.runtime);
            return Ok(());
        }
        if let Some(target) = self.node.transfer_target() {
            self.schedule.end_in(self.runtime.config().raft.election_ms, &self.runtime);
            info!(self.runtime.log(), "handing leadership over"; "to" => target);
            self.node.transfer(target)?;
        } else {
            self.schedule.end_in(0, &self.runtime);
        }
        self.step()
    }
}
