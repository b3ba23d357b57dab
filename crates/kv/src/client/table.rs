//! All connections, by token. Those of requests that other replicas have passed on have places
//! here, and are no clients.

use super::connection::Connection;
use super::peer_sessions::ProxiedRequest;
use super::profile::Peer;
use super::tickets::TOKENS_MAX;

#[derive(Debug, Default)]
struct Place {
    connection: Option<Box<Connection>>,
    /// Number of the first reply of the next connection here, so that no ticket of an earlier one
    /// is its.
    first: u64,
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Table {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Id of the last connection.
    last_id: u64,
    count: usize,
    proxied_count: usize,
}

impl Table {
    /// Number of clients.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Adds a client's connection, if there are fewer than `most`.
    pub(super) fn open(&mut self, peer: Peer, now_us: u64, most: usize) -> Option<u32> {
        if self.count >= most.min(TOKENS_MAX) {
            return None;
        }
        self.last_id += 1;
        self.count += 1;
        Some(self.fill(self.last_id, peer, now_us))
    }

    /// Adds one for what another replica has passed on, if there are not as many as clients may be.
    pub(super) fn open_proxied(&mut self, proxied: ProxiedRequest, peer: Peer, now_us: u64) -> Option<u32> {
        if self.proxied_count >= TOKENS_MAX {
            return None;
        }
        self.proxied_count += 1;
        let token = self.fill(0, peer, now_us);
        self.get_mut(token)?.proxied = Some(proxied);
        Some(token)
    }

    fn fill(&mut self, id: u64, peer: Peer, now_us: u64) -> u32 {
        let token = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[token as usize];
        place.connection = Some(Box::new(Connection::new(id, token, place.first, peer, now_us)));
        token
    }

    /// Removes a connection.
    pub(super) fn close(&mut self, token: u32) {
        let Some(place) = self.places.get_mut(token as usize) else { return };
        if let Some(connection) = place.connection.take() {
            place.first = connection.slots.next();
            *if connection.proxied.is_some() { &mut self.proxied_count } else { &mut self.count } -= 1;
            self.free.push(token);
        }
    }

    /// A connection.
    pub(super) fn get(&self, token: u32) -> Option<&Connection> {
        self.places.get(token as usize)?.connection.as_deref()
    }

    /// A connection.
    pub(super) fn get_mut(&mut self, token: u32) -> Option<&mut Connection> {
        self.places.get_mut(token as usize)?.connection.as_deref_mut()
    }

    /// Takes a connection out for a while.
    pub(super) fn take(&mut self, token: u32) -> Option<Box<Connection>> {
        self.places.get_mut(token as usize)?.connection.take()
    }

    /// Puts back what was taken.
    pub(super) fn put(&mut self, connection: Box<Connection>) {
        let token = connection.token() as usize;
        self.places[token].connection = Some(connection);
    }

    /// All clients that are not taken out.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.places.iter().filter_map(|place| place.connection.as_deref()).filter(|one| one.proxied.is_none())
    }

    /// All clients that are not taken out.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.places.iter_mut().filter_map(|place| place.connection.as_deref_mut()).filter(|one| one.proxied.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::{Peer, Table};
    use crate::client::slots::State;
    use crate::resp::Reply;

    #[test]
    fn who_takes_a_place_takes_no_ticket_of_who_had_it() {
        let mut table = Table::default();
        let token = table.open(Peer::default(), 0, 1).expect("a place");
        assert_eq!(table.open(Peer::default(), 0, 1), None);
        let connection = table.get_mut(token).expect("a connection");
        let number = connection.push(State::Held { reply: Reply::Null, slot: 0 });
        table.close(token);
        table.close(token);
        assert_eq!(table.len(), 0);
        assert_eq!(table.open(Peer::default(), 0, 1), Some(token));
        let next = table.get(token).expect("a connection");
        assert!(next.slots.next() > number && next.profile.id() == 2);
    }
}
