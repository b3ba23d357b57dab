//! Certificates that are renewed while the server runs: whether their files have changed.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::config::{Config, Tls};

/// Milliseconds between two looks.
const EVERY_MS: u64 = 1000;

/// Identity of a file's content: inode, size, and time of change. `None` if it cannot be looked at.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Identities of the files at the last look.
#[derive(Debug)]
pub(super) struct Renewal {
    next_ms: u64,
    seen: Vec<Stamp>,
}

fn stamp(path: &Path) -> Stamp {
    let found = std::fs::metadata(path).ok()?;
    Some((found.ino(), found.size(), found.ctime(), found.ctime_nsec()))
}

fn stamps(config: &Config) -> Vec<Stamp> {
    let tables = [&config.clients.tls, &config.peers.tls].into_iter().flatten();
    let files = |tls: &Tls| [Some(tls.certificate.clone()), Some(tls.key.clone()), tls.authorities.clone()];
    tables.flat_map(files).flatten().map(|path| stamp(&path)).collect()
}

impl Renewal {
    /// As the files are now. To be called before they are read.
    pub(super) fn new(config: &Config) -> Self {
        Self { next_ms: 0, seen: stamps(config) }
    }

    /// Whether it is time to look, and a file has changed since.
    pub(super) fn is_due(&mut self, config: &Config, now_ms: u64) -> bool {
        if now_ms < self.next_ms {
            return false;
        }
        self.next_ms = now_ms + EVERY_MS;
        let found = stamps(config);
        let has_changed = found != self.seen;
        self.seen = found;
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::Renewal;
    use crate::config::Config;

    #[test]
    fn a_change_of_any_file_is_seen_once() {
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        for name in ["certificate", "key", "authorities"] {
            std::fs::write(path(name), "old").expect("written");
        }
        let [certificate, key, authorities] =
            ["certificate", "key", "authorities"].map(|name| path(name).display().to_string());
        let text = format!(
            "directory = '/x'\n[peers.tls]\ncertificate = '{certificate}'\nkey = '{key}'\nauthorities = '{authorities}'"
        );
        let config: Config = toml::from_str(&text).expect("a configuration");
        let mut renewal = Renewal::new(&config);
        assert!(!renewal.is_due(&config, 0));
        for (number, name) in ["certificate", "key", "authorities"].into_iter().enumerate() {
            std::fs::write(path(name), "newer").expect("written");
            let now_ms = number as u64 * 2000 + 500;
            assert!(number > 0 || !renewal.is_due(&config, now_ms), "it is not time to look");
            assert!(renewal.is_due(&config, now_ms + 1000), "{name}");
            assert!(!renewal.is_due(&config, now_ms + 2000), "{name}");
        }
        std::fs::remove_file(path("key")).expect("removed");
        assert!(renewal.is_due(&config, 20_000));
    }
}
