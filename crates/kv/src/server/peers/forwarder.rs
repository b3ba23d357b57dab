//! The link by which requests of clients are passed on to the leader.
//!
//! There is one link, to the replica that leads. When it ends or another replica leads, the clients
//! that wait get an error at once: a request is never sent a second time.

use mio::event::Event;
use slog::{info, warn};

use super::dial::{DialSettings, Link, LinkEvent};
use super::directory::PeerDirectory;
use crate::client::Clients;
use crate::node::{Node, Role};
use crate::server::runtime::{Runtime, Source};
use crate::store;

/// The link to the leader, if requests are passed on.
#[derive(Default)]
pub(crate) struct Forwarder {
    /// The link and its key.
    link: Option<(u64, Link)>,
}

impl Forwarder {
    /// Looks at what is due for the link.
    pub(crate) fn tick(&mut self, settings: &DialSettings, clients: &mut Clients, node: &Node, runtime: &Runtime) {
        if let Some((_, link)) = &mut self.link {
            let event = link.tick(settings, runtime.registry(), runtime.now_ms());
            self.noticed(event, clients, node, runtime);
        }
    }

    /// Gives the link up if it does not go to the leader, and begins one to it.
    pub(crate) fn follow_leader(
        &mut self,
        settings: &DialSettings,
        directory: &PeerDirectory,
        clients: &mut Clients,
        node: &Node,
        runtime: &mut Runtime,
    ) {
        if !runtime.config().clients.forwards {
            return;
        }
        let status = node.status();
        let leader = if status.role == Role::Leader { 0 } else { status.leader };
        let address = directory.find(leader).filter(|_| leader != 0).map(|addresses| &addresses.peer[..]);
        let goes = self.link.as_ref().map(|(_, link)| (link.replica(), link.address()));
        if goes != address.map(|address| (leader, address)) {
            if let Some((_, mut link)) = self.link.take() {
                clients.forwards_lost(link.unsent(), node);
            }
            if let Some(address) = address {
                let key = runtime.key();
                let link = Link::of_forwards(leader, address.to_owned(), Source::Forwards.token(key));
                self.link = Some((key, link));
                self.tick(settings, clients, node, runtime);
            }
        }
        let is_up = self.link.as_ref().is_some_and(|(_, link)| link.is_up());
        clients.open_forwards(is_up.then_some((leader, status.term)));
    }

    /// Something has happened to the socket of a key.
    pub(crate) fn happened(
        &mut self,
        (key, event): (u64, &Event),
        settings: &DialSettings,
        clients: &mut Clients,
        node: &mut Node,
        scratch: &mut [u8],
        runtime: &Runtime,
    ) -> store::Result<()> {
        let Some((_, link)) = self.link.as_mut().filter(|(of, _)| *of == key) else { return Ok(()) };
        let event = link.happened(event, settings, scratch, runtime.now_ms());
        for answer in link.take_answers() {
            if !clients.forwarded(answer, node)? {
                warn!(runtime.log(), "the leader has answered what was not asked");
            }
        }
        self.noticed(event, clients, node, runtime);
        Ok(())
    }

    /// Sends requests of clients to the leader.
    pub(crate) fn send(&mut self, clients: &mut Clients, node: &Node, runtime: &Runtime) {
        let Some((_, link)) = &mut self.link else { return };
        for forward in clients.take_forwards() {
            link.pass(&forward);
        }
        let event = link.flush(runtime.now_ms());
        self.noticed(event, clients, node, runtime);
    }

    /// Fails the requests that wait if the link has ended, and logs its change.
    fn noticed(&mut self, event: Option<LinkEvent>, clients: &mut Clients, node: &Node, runtime: &Runtime) {
        let Some((_, link)) = &mut self.link else { return };
        if !link.is_up() {
            clients.forwards_lost(link.unsent(), node);
        }
        let (log, leader) = (runtime.log(), link.replica());
        match event {
            Some(LinkEvent::Up) => info!(log, "requests are passed on to the leader"; "leader" => leader),
            Some(LinkEvent::Down(why)) => {
                warn!(log, "requests are not passed on"; "leader" => leader, "why" => why);
            }
            None => {}
        }
    }
}
