//! Links to the other replicas: one to each member whose address is known.

use std::collections::BTreeMap;

use mio::event::Event;
use slog::{Logger, info, warn};

use super::dial::{DialSettings, Link, LinkEvent, LinkTraffic};
use super::directory::PeerDirectory;
use super::handshake::Addresses;
use crate::server::runtime::{Runtime, Source};
use crate::server::tls::TlsConnector;
use crate::wire::PeerMessage;

/// The links.
pub(crate) struct Links {
    settings: DialSettings,
    /// By the other replica.
    links: BTreeMap<u64, Link>,
    /// The replica of a link, by its key.
    keys: BTreeMap<u64, u64>,
    /// Messages of links that are no more: counters do not fall.
    ended: LinkTraffic,
}

impl Links {
    /// No links.
    pub(crate) fn new(settings: DialSettings) -> Self {
        Self { settings, links: BTreeMap::new(), keys: BTreeMap::new(), ended: LinkTraffic::default() }
    }

    /// How links are made.
    pub(crate) fn settings(&self) -> &DialSettings {
        &self.settings
    }

    /// Uses other certificates for connections from now on.
    pub(crate) fn set_tls(&mut self, tls: Option<TlsConnector>) {
        self.settings.tls = tls;
    }

    /// Whether messages to a replica go.
    pub(crate) fn is_up(&self, replica: u64) -> bool {
        self.links.get(&replica).is_some_and(Link::is_up)
    }

    /// Number of links that are up.
    pub(crate) fn count_up(&self) -> usize {
        self.links.values().filter(|link| link.is_up()).count()
    }

    /// Messages of all links since the start.
    pub(crate) fn traffic(&self) -> LinkTraffic {
        let mut traffic = self.ended;
        self.links.values().for_each(|link| traffic += link.traffic());
        traffic
    }

    /// Has a link to each wanted replica whose address is known and to no other, and looks at what
    /// is due for them.
    pub(crate) fn tick(&mut self, wanted: &[u64], directory: &PeerDirectory, runtime: &mut Runtime) {
        self.links.retain(|id, link| {
            let is_there = |addresses: &Addresses| addresses.peer == link.address();
            let stays = wanted.contains(id) && directory.find(*id).is_some_and(is_there);
            if !stays {
                self.ended += link.traffic();
            }
            stays
        });
        for id in wanted {
            if !self.links.contains_key(id)
                && let Some(addresses) = directory.find(*id)
            {
                let (address, key) = (addresses.peer.clone(), runtime.key());
                self.keys.retain(|_, of| of != id);
                self.keys.insert(key, *id);
                self.links.insert(*id, Link::new(*id, address, Source::Link.token(key)));
            }
        }
        let now_ms = runtime.now_ms();
        for link in self.links.values_mut() {
            let event = link.tick(&self.settings, runtime.registry(), now_ms);
            log_event(runtime.log(), link, event);
        }
    }

    /// Something has happened to the socket of a key.
    pub(crate) fn happened(&mut self, key: u64, event: &Event, scratch: &mut [u8], runtime: &Runtime) {
        let Some(link) = self.keys.get(&key).and_then(|id| self.links.get_mut(id)) else { return };
        let event = link.happened(event, &self.settings, scratch, runtime.now_ms());
        log_event(runtime.log(), link, event);
    }

    /// Sends messages, as far as that goes.
    pub(crate) fn send(&mut self, messages: &[PeerMessage], runtime: &Runtime) {
        for message in messages {
            if let Some(link) = self.links.get_mut(&message.to()) {
                link.send(message, &self.settings);
            }
        }
        let now_ms = runtime.now_ms();
        for link in self.links.values_mut() {
            let event = link.flush(now_ms);
            log_event(runtime.log(), link, event);
        }
    }
}

fn log_event(log: &Logger, link: &Link, event: Option<LinkEvent>) {
    let (id, address) = (link.replica(), link.address());
    match event {
        Some(LinkEvent::Up) => info!(log, "connected to a replica"; "peer" => id, "address" => address),
        Some(LinkEvent::Down(why)) => {
            warn!(log, "no connection to a replica"; "peer" => id, "address" => address, "why" => why);
        }
        None => {}
    }
}
