//! Browsers and other programs that ask by HTTP.

use super::clock;
use super::metrics;
use super::operator;
use super::process;
use super::state::Server;
use crate::store::{Footprint, ReadLevel};

impl Server {
    fn gauges(&self) -> metrics::Gauges {
        let (snapshot_senders, is_receiving) = self.node.snapshots();
        let wall_ms = clock::wall_ms();
        metrics::Gauges {
            room: self.room(),
            shortages: self.node.store().shortages().count,
            process: process::now(),
            start_ms: wall_ms - self.clock.now_ms().min(wall_ms),
            wall_ms,
            log_clock_ms: self.node.store().clock_ms(ReadLevel::Newest),
            elections: self.node.elections(),
            snapshot_senders: snapshot_senders as u64,
            is_receiving,
            client_bytes: self.clients.bytes() as u64,
            longest_step: self.clients.longest_step() as u64,
        }
    }

    /// Goes on with a browser's connection.
    pub fn browse(&mut self, key: u64) {
        let Some(mut browser) = self.browsers.remove(&key) else { return };
        let mut scratch = std::mem::take(&mut self.scratch);
        let names = self.config.http_names();
        let outcome = browser.go_on(&mut scratch, &names, |path| {
            let state = self.state();
            let numbers = || {
                let (store, traffic) = (self.node.store(), (&self.traffic, &self.links));
                let footprint = if store.is_partial() { Footprint::default() } else { store.footprint() };
                let (users_disabled, of_store) = (self.clients.users_disabled(), (footprint, &self.gauges()));
                metrics::page(&state, (self.clients.statistics(), users_disabled), traffic, of_store, &self.latency)
            };
            operator::answer(path, &state, &self.latency, numbers)
        });
        self.scratch = scratch;
        if let Ok(false) = outcome {
            self.browsers.insert(key, browser);
        }
    }
}
