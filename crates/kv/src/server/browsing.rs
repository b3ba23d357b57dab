//! Browsers and other programs that ask by HTTP.

use super::metrics;
use super::operator;
use super::state::Server;
use crate::store::Footprint;

impl Server {
    /// Goes on with a browser's connection.
    pub fn browse(&mut self, key: u64) {
        let Some(mut browser) = self.browsers.remove(&key) else { return };
        let mut scratch = std::mem::take(&mut self.scratch);
        let outcome = browser.go_on(&mut scratch, |path| {
            let state = self.state();
            let mut traffic = self.traffic;
            traffic.links_up = self.links.values().filter(|link| link.is_up()).count() as u64;
            traffic.letters_sent += self.links.values().map(|link| link.sent).sum::<u64>();
            traffic.letters_dropped += self.links.values().map(|link| link.dropped).sum::<u64>();
            let numbers = || {
                let store = self.node.store();
                traffic.footprint = if store.is_partial() { Footprint::default() } else { store.footprint() };
                metrics::page(&state, self.clients.statistics(), &traffic, &self.latency)
            };
            operator::answer(path, &state, &self.latency, numbers)
        });
        self.scratch = scratch;
        if let Ok(false) = outcome {
            self.browsers.insert(key, browser);
        }
    }
}
