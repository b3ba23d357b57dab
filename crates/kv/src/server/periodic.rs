//! Periodic work.

use slog::{error, info, warn};

use super::handshake::Addresses;
use super::http;
use super::inbound::{self, Kind};
use super::link::{Link, LinkEvent};
use super::state::{Server, Source};
use super::tls::{TlsAcceptor, TlsConnector};
use crate::client::{Name, Notice};
use crate::codec::all_members;
use crate::store;

impl Server {
    /// A moment has passed.
    pub fn tick(&mut self) -> store::Result<()> {
        let now_us = self.clock.now_us();
        let now_ms = now_us / 1000;
        self.ticker.tick(now_us, self.config.raft.tick_ms);
        self.node.tick()?;
        self.clients.tick(&mut self.node)?;
        self.log_notices();
        self.has_new_names |= self.directory.read(self.node.store(), self.id)?;
        self.tick_links(now_ms);
        self.tick_forwards(now_ms);
        self.renew_certificates(now_ms);
        let ticket = self.ticket();
        self.leader_tasks.tick(&mut self.node, &self.directory, ticket, now_ms)?;
        self.look_at_handovers();
        self.tell_names();
        self.end_late(now_ms);
        self.tell_role();
        self.tell_clock();
        self.tell_unread();
        self.tell_of_refusals(now_ms);
        self.tell_room(now_ms);
        if std::mem::take(&mut self.accepts_again) {
            (0..self.listeners.len()).for_each(|key| self.accept(key));
        }
        let keys: Vec<u64> = self.inbound.keys().copied().collect();
        keys.into_iter().try_for_each(|key| self.flush_inbound(key))
    }

    /// Uses certificates whose files have changed, for connections from now on. Those that cannot
    /// be used are left alone.
    fn renew_certificates(&mut self, now_ms: u64) {
        if !self.renewal.is_due(&self.config, now_ms) {
            return;
        }
        let (clients, peers) = (self.config.clients.tls.as_ref(), self.config.peers.tls.as_ref());
        let serves = |tls: Option<&_>| tls.map(TlsAcceptor::new).transpose();
        let read = serves(clients)
            .and_then(|of_clients| Ok((of_clients, serves(peers)?, peers.map(TlsConnector::new).transpose()?)));
        match read {
            Ok((of_clients, of_peers, connects)) => {
                (self.client_tls, self.peer_tls, self.plan.tls) = (of_clients, of_peers, connects);
                info!(self.log, "certificates were renewed: new connections use them");
            }
            Err(why) => error!(self.log, "changed certificates cannot be used: the old ones stay in use"; "why" => why),
        }
    }

    /// Has a link to each member whose address is known, and to whoever has connected while no
    /// member is known.
    fn tick_links(&mut self, now_ms: u64) {
        let mut wanted = all_members(self.members());
        if wanted.is_empty() {
            wanted.extend(self.inbound.values().filter_map(|connection| match connection.kind {
                Kind::Peer(id, _) => Some(id),
                _ => None,
            }));
        }
        wanted.retain(|id| *id != self.id);
        let (directory, traffic) = (&self.directory, &mut self.traffic);
        self.links.retain(|id, link| {
            let is_there = |addresses: &Addresses| addresses.peer == link.address();
            let stays = wanted.contains(id) && directory.find(*id).is_some_and(is_there);
            if !stays {
                // Counters do not fall.
                traffic.messages_sent += link.sent;
                traffic.messages_dropped += link.dropped;
            }
            stays
        });
        for id in wanted {
            if !self.links.contains_key(&id)
                && let Some(addresses) = self.directory.find(id)
            {
                let address = addresses.peer.clone();
                let key = self.key();
                self.link_keys.retain(|_, of| *of != id);
                self.link_keys.insert(key, id);
                self.links.insert(id, Link::new(id, address, Source::Link.token(key)));
            }
        }
        let registry = self.poll.registry();
        let plan = &self.plan;
        let tick = |(id, link): (&u64, &mut Link)| Some((*id, link.tick(plan, registry, now_ms)?));
        let news: Vec<(u64, LinkEvent)> = self.links.iter_mut().filter_map(tick).collect();
        for (id, news) in news {
            self.tell_of(id, news);
        }
    }

    /// Tells clients where replicas are reached.
    fn tell_names(&mut self) {
        let members_at = self.node.store().persistent_state().members_at;
        let has_new_members = std::mem::replace(&mut self.named_at, members_at) != members_at;
        if has_new_members {
            let members = self.members();
            info!(self.log, "members"; "voters" => format!("{:?}", members.voters), "learners" => format!("{:?}", members.learners));
        }
        if !std::mem::take(&mut self.has_new_names) && !has_new_members {
            return;
        }
        let name = |id: u64| {
            let (host, port) = self.directory.find(id)?.client.rsplit_once(':')?;
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            Some((id, Name { host, port: port.parse().ok()? }))
        };
        self.clients.set_names(all_members(self.members()).into_iter().filter_map(name).collect());
    }

    /// Closes connections whose time is over.
    pub fn end_late(&mut self, now_ms: u64) {
        let since = |then_ms: u64| now_ms.saturating_sub(then_ms);
        let late = |kind: &Kind, heard_ms: u64| match kind {
            Kind::Unauthenticated | Kind::Refused => since(heard_ms) > inbound::GREETING_MS,
            Kind::Operator(_) => since(heard_ms) > inbound::OPERATOR_MS,
            Kind::Peer(id, _) | Kind::Forwarder(id) => self.is_unknown(*id),
        };
        let ended: Vec<u64> = self
            .inbound
            .iter()
            .filter(|(_, connection)| late(&connection.kind, connection.heard_ms))
            .map(|(key, _)| *key)
            .collect();
        for key in ended {
            if let Some(connection) = self.inbound.remove(&key)
                && let Kind::Peer(id, _) = connection.kind
            {
                warn!(self.log, "a replica that is no member any more is let go"; "peer" => id);
            }
        }
        self.browsers.retain(|_, browser| since(browser.since_ms) <= http::CONNECTION_MS);
        let idle_ms = self.config.clients.idle_s * 1000;
        if idle_ms > 0 {
            let idle = |(token, line): (usize, &Option<_>)| {
                let line: &super::state::Line = line.as_ref()?;
                (since(line.active_ms) > idle_ms).then_some(token as u32)
            };
            let idle: Vec<u32> = self.lines.iter().enumerate().filter_map(idle).collect();
            idle.into_iter().for_each(|token| self.close_client(token));
        }
    }

    /// Logs when the time of day is not followed, when it is again, and when time went far forward
    /// at once.
    fn tell_clock(&mut self) {
        let (clock, told) = (self.node.clock(), self.clock_told);
        let (skew_ms, calendar_ms) = (clock.skew_ms, clock.calendar_ms);
        if clock.is_refused && !told.is_refused {
            error!(self.log, "the time of day of this machine is not that of the log, and is not followed: keys end by steady time. \
                 Set this clock right, or the time of the log by PERDURA.CLOCK SET"; "ahead_ms" => skew_ms, "log_ms" => calendar_ms);
        } else if told.is_refused && !clock.is_refused {
            info!(self.log, "the time of day is followed again"; "ahead_ms" => skew_ms);
        }
        if clock.taken_ms != told.taken_ms {
            warn!(self.log, "the time of the log has gone forward to the time of day of this machine: it is not known how old the newest \
                 entry was. Keys whose time was over in between have ended"; "by_ms" => clock.taken_ms);
        }
        self.clock_told = clock;
    }

    /// Logs when the leader has entries that this program cannot read, and when it can again.
    fn tell_unread(&mut self) {
        let unread = self.node.unread();
        match (unread, std::mem::replace(&mut self.unread_told, unread.is_some())) {
            (Some(index), false) => {
                error!(self.log, "the leader's entries cannot be read: its perdura-kv is newer. This replica lags until its own is as new";
                    "index" => index, "version" => env!("CARGO_PKG_VERSION"));
            }
            (None, true) => info!(self.log, "the leader's entries can be read again"),
            _ => {}
        }
    }

    /// Logs what the clients' room has to say.
    fn log_notices(&mut self) {
        for notice in self.clients.take_notices() {
            match notice {
                Notice::Http { from } => {
                    warn!(self.log, "a client was closed: it has sent a request of HTTP, as a foreign page may have a browser do";
                        "from" => from);
                }
                Notice::Unprotected { from } => {
                    warn!(self.log, "a client of another machine was refused: the user default has no password"; "from" => from);
                }
                Notice::UserDisabled { user, why } => {
                    error!(self.log, "a user has no rights: what is stored of it cannot be read"; "user" => user, "why" => why);
                }
                Notice::UsersUnreadable { why } => {
                    error!(self.log, "nobody is let in: the users cannot be read"; "why" => why);
                }
                Notice::Others(count) => warn!(self.log, "more of the same was not logged"; "count" => count),
            }
        }
    }

    /// Logs who leads, if that is another than before.
    fn tell_role(&mut self) {
        let status = self.node.status();
        let told = (status.leader, status.term, format!("{:?}", status.role).to_lowercase());
        if told != self.told {
            info!(self.log, "roles"; "role" => &told.2, "leader" => told.0, "term" => told.1);
            self.told = told;
        }
    }
}
