//! Periodic work.

use slog::{error, info};

use super::Server;
use super::reports::log_notice;
use super::tls::{TlsAcceptor, TlsConnector};
use crate::codec::all_members;
use crate::store;

impl Server {
    /// A tick has passed.
    pub(super) fn tick(&mut self) -> store::Result<()> {
        let now_ms = self.runtime.now_ms();
        self.node.tick()?;
        self.clients.tick(&mut self.node)?;
        for notice in self.clients.take_notices() {
            log_notice(notice, self.runtime.log());
        }
        self.directory.read(&self.node)?;
        self.tick_links();
        self.renew_certificates(now_ms);
        let ticket = self.admin.ticket();
        self.directory.tick(&mut self.node, ticket, now_ms)?;
        let (admin, context) = self.admin();
        admin.tick(context);
        if let Some(names) = self.directory.take_names(&self.node) {
            self.clients.set_names(names);
        }
        self.close_late(now_ms);
        self.logged.tick(&self.node, &self.runtime);
        self.runtime.log_refusals();
        for key in self.listeners.take_again() {
            self.accept(key);
        }
        self.inbound.flush_all(&self.runtime);
        Ok(())
    }

    /// Has a link to each member whose address is known, to replicas that have connected while no
    /// member is known, and to the leader if requests are passed on.
    fn tick_links(&mut self) {
        let mut wanted = all_members(self.node.members());
        if wanted.is_empty() {
            wanted.extend(self.inbound.replicas());
        }
        wanted.retain(|id| *id != self.node.id());
        self.links.tick(&wanted, &self.directory, &mut self.runtime);
        self.clients.keep_peer_sessions(|key| self.inbound.contains(key));
        self.follow_leader();
        self.forwarder.tick(self.links.settings(), &mut self.clients, &self.node, &self.runtime);
    }

    /// Has requests passed on to the present leader.
    pub(super) fn follow_leader(&mut self) {
        let Self { runtime, node, clients, directory, links, forwarder, .. } = self;
        forwarder.follow_leader(links.settings(), directory, clients, node, runtime);
    }

    /// Uses certificates whose files have changed, for connections from now on. Those that cannot
    /// be used are left alone.
    fn renew_certificates(&mut self, now_ms: u64) {
        let config = self.runtime.config();
        if !self.renewal.is_due(config, now_ms) {
            return;
        }
        let (clients, peers) = (config.clients.tls.as_ref(), config.peers.tls.as_ref());
        let acceptor = |tls: Option<&_>| tls.map(TlsAcceptor::new).transpose();
        let read = acceptor(clients)
            .and_then(|of_clients| Ok((of_clients, acceptor(peers)?, peers.map(TlsConnector::new).transpose()?)));
        let log = self.runtime.log();
        match read {
            Ok((of_clients, of_peers, of_links)) => {
                self.sockets.set_tls(of_clients);
                self.inbound.set_tls(of_peers);
                self.links.set_tls(of_links);
                info!(log, "certificates were renewed: new connections use them");
            }
            Err(why) => error!(log, "changed certificates cannot be used: the old ones stay in use"; "why" => why),
        }
    }

    /// Closes connections whose time is over.
    pub(super) fn close_late(&mut self, now_ms: u64) {
        self.inbound.close_late(now_ms, &self.node, &self.runtime);
        self.browsers.close_late(now_ms);
        self.sockets.close_idle(now_ms, &mut self.clients, &self.runtime);
    }
}
