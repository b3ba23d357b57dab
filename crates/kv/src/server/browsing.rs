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
        let names = self.config.http_names();
        let outcome = browser.go_on(&mut scratch, &names, |path| {
            let state = self.state();
            let numbers = || {
                let (store, traffic) = (self.node.store(), (&self.traffic, &self.links));
                let footprint = if store.is_partial() { Footprint::default() } else { store.footprint() };
                let users_disabled = self.clients.users_disabled();
                metrics::page(&state, (self.clients.statistics(), users_disabled), traffic, footprint, &self.latency)
            };
            operator::answer(path, &state, &self.latency, numbers)
        });
        self.scratch = scratch;
        if let Ok(false) = outcome {
            self.browsers.insert(key, browser);
        }
    }
}
