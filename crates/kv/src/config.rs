//! How a server is set up: one TOML file. docs/kv-config.md has every option, with its default and
//! unit.
//!
//! An option that is not known is refused by its name, and so is a value that cannot be: a server
//! never starts with another configuration than the one that its operator has written.

mod size;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use perdura_pmem::Model;
use serde::{Deserialize, Serialize};

pub use size::Size;

/// The least and the most that an option may be.
pub(crate) type Bounds = std::ops::RangeInclusive<u64>;
/// Bounds of `clients.connections_max`.
pub(crate) const CONNECTIONS: Bounds = 1..=1 << 20;
/// Bounds of `clients.value_size_max`.
pub(crate) const VALUE_BYTES: Bounds = 1 << 10..=64 << 20;
/// Bounds of `clients.output_size_max`.
pub(crate) const OUTPUT_BYTES: Bounds = 64 << 10..=1 << 40;
/// Bounds of `clients.memory_max`.
pub(crate) const MEMORY_BYTES: Bounds = 256 << 20..=1 << 46;
/// Bounds of `clients.pipeline_max`.
pub(crate) const PIPELINE: Bounds = 1..=1 << 20;

/// Most seconds of `clients.idle_s`: a century.
const IDLE_S_MAX: u64 = 100 * 366 * 86_400;

/// A configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Directory of the replica's data.
    pub directory: PathBuf,
    /// The store.
    #[serde(default)]
    pub store: Store,
    /// How clients are served.
    #[serde(default)]
    pub clients: Clients,
    /// How replicas talk.
    #[serde(default)]
    pub peers: Peers,
    /// Address for operators: metrics and health.
    #[serde(default)]
    pub http: Http,
    /// Replication.
    #[serde(default)]
    pub raft: Raft,
    /// The log for operators.
    #[serde(default)]
    pub log: Log,
}

/// Which store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// A persistent list.
    #[default]
    List,
    /// A persistent B+-tree.
    Btree,
    /// A write-ahead log in files.
    Wal,
}

/// The store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// Which store. Counts when the replica is made.
    pub kind: StoreKind,
    /// Length of a map's file. Counts when the replica is made.
    pub size: Size,
    /// Whether a map may lie in a directory without DAX.
    pub emulate: bool,
    /// The medium whose time memory that is emulated takes, and the files of a `wal`.
    pub emulate_model: String,
    /// DRAM for the last entries.
    pub ring_size: Size,
    /// Garbage that a snapshot may hold in a map.
    pub snapshot_garbage_size: Size,
    /// Length of a log at which the state is written out.
    pub log_size: Size,
    /// Most bytes of keys and values of a `wal` in DRAM. 0: half of the machine's.
    pub state_size: Size,
}

impl Store {
    /// The medium whose time it takes; `None` for its own.
    pub(crate) fn model(&self) -> Result<Option<Model>, String> {
        Model::parse(&self.emulate_model).map_err(|error| format!("store.emulate_model: {error}"))
    }
}

impl Default for Store {
    fn default() -> Self {
        Self {
            kind: StoreKind::default(),
            size: Size(1 << 30),
            emulate: false,
            emulate_model: "off".to_owned(),
            ring_size: Size(64 << 20),
            snapshot_garbage_size: Size(256 << 20),
            log_size: Size(64 << 20),
            state_size: Size(0),
        }
    }
}

/// How clients are served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clients {
    /// Addresses to listen on.
    pub listen: Vec<String>,
    /// A Unix socket to listen on.
    pub unix: Option<PathBuf>,
    /// The address that clients are told. That of `listen` if it is empty.
    pub announce: String,
    /// Most connections.
    pub connections_max: usize,
    /// Most bytes of a value, and of any argument.
    pub value_size_max: Size,
    /// Bytes of replies that wait to be sent, beyond which a connection is not read from.
    pub output_size_max: Size,
    /// Bytes of all clients' requests and replies, beyond which those that have most are closed.
    pub memory_max: Size,
    /// Most requests of a connection that are not answered.
    pub pipeline_max: usize,
    /// Whether requests that only the leader can do are passed on to it.
    pub forwards: bool,
    /// Seconds after which an idle connection is closed. 0: never.
    pub idle_s: u64,
    /// SHA-256 of the password of the user `default`, in hexadecimal.
    pub password_sha256: Option<String>,
    /// Whether connections from other machines are refused while that user has no password.
    pub protected: bool,
    /// Encryption.
    pub tls: Option<Tls>,
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            listen: vec!["127.0.0.1:6379".into()],
            unix: None,
            announce: String::new(),
            connections_max: 10_000,
            value_size_max: Size(64 << 20),
            output_size_max: Size(1 << 20),
            memory_max: Size(1 << 30),
            pipeline_max: 1024,
            forwards: false,
            idle_s: 0,
            password_sha256: None,
            protected: true,
            tls: None,
        }
    }
}

/// How replicas talk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Peers {
    /// Address to listen on.
    pub listen: String,
    /// The address that other replicas are told. That of `listen` if it is empty.
    pub announce: String,
    /// Bytes that wait to be sent to a replica, beyond which its messages are dropped.
    pub queue_size_max: Size,
    /// Milliseconds that a connection may be without an answer.
    pub silence_ms: u32,
    /// Whether an address that other machines reach needs encryption, with certificates of both
    /// sides.
    pub protected: bool,
    /// Hosts whose certificates may connect. Empty: all of the authorities.
    pub names: Vec<String>,
    /// Encryption, with certificates of both sides.
    pub tls: Option<Tls>,
}

impl Default for Peers {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7379".into(),
            announce: String::new(),
            queue_size_max: Size(128 << 20),
            silence_ms: 3000,
            protected: true,
            names: Vec::new(),
            tls: None,
        }
    }
}

/// Certificates, in PEM files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Our certificate, and those that lead to an authority.
    pub certificate: PathBuf,
    /// Our private key.
    pub key: PathBuf,
    /// The authorities by which the other side's certificate is checked.
    pub authorities: Option<PathBuf>,
}

/// Address for operators: metrics and health.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Address of /metrics, /health, /ready and the page. None if it is empty.
    pub listen: String,
    /// Hosts by whose names it may be asked, beside those of this configuration's addresses.
    pub names: Vec<String>,
}

/// Replication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Raft {
    /// Milliseconds between two looks at what is due.
    pub tick_ms: u64,
    /// Milliseconds without a leader after which an election begins.
    pub election_ms: u64,
    /// Milliseconds between heartbeats.
    pub heartbeat_ms: u64,
    /// Entries after which they are made durable though more requests are there.
    #[serde(alias = "confirm_entries")]
    pub persist_entries: u32,
    /// Microseconds after which entries are made durable though more requests are there.
    #[serde(alias = "confirm_us")]
    pub persist_us: u64,
    /// Microseconds for which the server looks for work before it sleeps.
    pub spin_us: u64,
    /// Whether the leader announces each commit to its followers at once.
    pub announces_commits: bool,
    /// Bytes of entries that are not applied.
    pub pending_size_max: Size,
    /// Bytes of a snapshot's chunk.
    pub chunk_size: Size,
    /// Milliseconds after which a snapshot that nobody fetches is let go.
    pub snapshot_idle_ms: u64,
    /// Whether learners that have caught up become voters.
    pub promotes: bool,
    /// Whether the leader reads without asking, by a lease.
    pub leases: bool,
    /// By how much a replica's clock may run faster than another's, in percent: what leases rest
    /// on.
    pub clock_drift_percent: u64,
    /// Seconds by which time may go forward at once when a replica leads that does not know how old
    /// its newest entry is.
    pub clock_forward_max_s: u64,
}

impl Default for Raft {
    fn default() -> Self {
        Self {
            tick_ms: 20,
            election_ms: 400,
            heartbeat_ms: 60,
            persist_entries: 100,
            persist_us: 100,
            spin_us: 100,
            announces_commits: false,
            pending_size_max: Size(256 << 20),
            chunk_size: Size(256 << 10),
            snapshot_idle_ms: 5000,
            promotes: true,
            leases: false,
            clock_drift_percent: 5,
            clock_forward_max_s: 7 * 86_400,
        }
    }
}

/// From which severity on the log has messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Only what needs a person.
    Error,
    /// Possible problems.
    Warning,
    /// Rare events.
    #[default]
    Info,
    /// All.
    Debug,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A text and `name=value` behind it.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// The log for operators, which goes to standard error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// From which severity on.
    pub level: LogLevel,
    /// How it is written.
    pub format: LogFormat,
}

impl Config {
    /// Reads the configuration in a file. The error names the file, the option and what is wrong
    /// with it.
    pub fn read(path: &Path) -> Result<Config, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Config::parse(&text).map_err(|what| format!("{}: {what}", path.display()))
    }

    /// Reads a configuration.
    pub fn parse(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        config.check()?;
        Ok(config)
    }

    /// The address that clients are told.
    pub fn client_address(&self) -> String {
        let listen = self.clients.listen.first().cloned().unwrap_or_default();
        if self.clients.announce.is_empty() { listen } else { self.clients.announce.clone() }
    }

    /// The address that replicas are told.
    pub fn peer_address(&self) -> String {
        if self.peers.announce.is_empty() { self.peers.listen.clone() } else { self.peers.announce.clone() }
    }

    /// The hosts by whose names the address for HTTP may be asked.
    pub(crate) fn http_names(&self) -> Vec<String> {
        let addresses =
            [&self.http.listen, &self.client_address(), &self.peer_address()].map(|text| host_of(text).to_owned());
        let all = self.http.names.iter().cloned().chain(addresses);
        all.filter(|name| !name.is_empty()).map(|name| name.to_ascii_lowercase()).collect()
    }

    fn check(&self) -> Result<(), String> {
        let is_hash =
            |text: &String| text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !self.clients.password_sha256.as_ref().is_none_or(is_hash) {
            return Err("clients.password_sha256 is not 64 digits of 0 to 9 and a to f".to_owned());
        }
        self.check_numbers()?;
        self.store.model()?;
        if self.directory.as_os_str().is_empty() {
            return Err("directory is empty: name the directory of the replica's data".into());
        }
        self.check_addresses()?;
        self.check_peers()
    }

    fn check_numbers(&self) -> Result<(), String> {
        let Config { store, clients, peers, raft, .. } = self;
        let between = |name: &str, value: u64, least: u64, most: u64| {
            let fits = (least..=most).contains(&value);
            if fits { Ok(()) } else { Err(format!("{name} = {value}: use {least} to {most}")) }
        };
        let within = |name: &str, value: u64, bounds: &Bounds| between(name, value, *bounds.start(), *bounds.end());
        between("store.size", store.size.0, 1 << 20, 1 << 46)?;
        between("store.ring_size", store.ring_size.0, 0, 1 << 40)?;
        if store.state_size.0 != 0 {
            between("store.state_size", store.state_size.0, 1 << 20, 1 << 46)?;
        }
        between("store.log_size", store.log_size.0, 1 << 16, 1 << 40)?;
        between("store.snapshot_garbage_size", store.snapshot_garbage_size.0, 1 << 20, 1 << 46)?;
        between("clients.idle_s", clients.idle_s, 0, IDLE_S_MAX)?;
        within("clients.connections_max", clients.connections_max as u64, &CONNECTIONS)?;
        within("clients.value_size_max", clients.value_size_max.0, &VALUE_BYTES)?;
        within("clients.output_size_max", clients.output_size_max.0, &OUTPUT_BYTES)?;
        within("clients.memory_max", clients.memory_max.0, &MEMORY_BYTES)?;
        within("clients.pipeline_max", clients.pipeline_max as u64, &PIPELINE)?;
        between("peers.queue_size_max", peers.queue_size_max.0, 1 << 20, 1 << 40)?;
        between("peers.silence_ms", u64::from(peers.silence_ms), 100, 3_600_000)?;
        between("raft.tick_ms", raft.tick_ms, 1, 1000)?;
        between("raft.heartbeat_ms", raft.heartbeat_ms, raft.tick_ms, 60_000)?;
        between("raft.election_ms", raft.election_ms, 2 * raft.heartbeat_ms, 600_000)?;
        between("raft.persist_entries", u64::from(raft.persist_entries), 1, 1 << 20)?;
        between("raft.persist_us", raft.persist_us, 0, 1_000_000)?;
        between("raft.spin_us", raft.spin_us, 0, 10_000)?;
        between("raft.pending_size_max", raft.pending_size_max.0, 1 << 20, 1 << 40)?;
        between("raft.chunk_size", raft.chunk_size.0, 1 << 10, 1 << 21)?;
        between("raft.snapshot_idle_ms", raft.snapshot_idle_ms, raft.tick_ms, 3_600_000)?;
        between("raft.clock_drift_percent", raft.clock_drift_percent, 0, 100)?;
        between("raft.clock_forward_max_s", raft.clock_forward_max_s, 0, 100 * 366 * 86_400)
    }

    fn check_addresses(&self) -> Result<(), String> {
        let Config { clients, peers, http, .. } = self;
        let addresses = clients.listen.iter().map(|address| ("clients.listen", address));
        let named = [("clients.announce", &clients.announce), ("peers.announce", &peers.announce)];
        let named = named.into_iter().chain([("http.listen", &http.listen)]).filter(|(_, text)| !text.is_empty());
        for (name, address) in addresses.chain([("peers.listen", &peers.listen)]).chain(named) {
            check_address(name, address)?;
        }
        for (name, listen, announced) in
            [("clients", clients.listen.first(), &clients.announce), ("peers", Some(&peers.listen), &peers.announce)]
        {
            let is_any = listen.is_some_and(|listen| listen.starts_with("0.0.0.0:") || listen.starts_with("[::]:"));
            if is_any && announced.is_empty() {
                return Err(format!("{name}.listen is every address: say in {name}.announce which one others use"));
            }
        }
        if clients.listen.is_empty() && clients.unix.is_none() {
            return Err("clients.listen is empty and there is no clients.unix: nobody could connect".into());
        }
        Ok(())
    }

    fn check_peers(&self) -> Result<(), String> {
        let Config { peers, .. } = self;
        if peers.tls.as_ref().is_some_and(|tls| tls.authorities.is_none()) {
            return Err("peers.tls lacks authorities: replicas check each other's certificates".into());
        }
        if peers.protected && peers.tls.is_none() && !is_loopback(&peers.listen) {
            return Err(format!(
                "peers.listen = \"{}\": every machine that reaches it could read and change everything. Set peers.tls, or peers.protected = false if \
                 the network keeps others from it",
                peers.listen
            ));
        }
        if !peers.names.is_empty() && peers.tls.is_none() {
            return Err("peers.names are those of certificates, and there is no peers.tls".into());
        }
        Ok(())
    }
}

/// The host of an address `HOST:PORT`.
pub(crate) fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Whether only this machine reaches an address. A name other than `localhost` may be any.
pub(crate) fn is_loopback(address: &str) -> bool {
    let host = host_of(address);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Most bytes of an address.
pub(crate) const ADDRESS_BYTES_MAX: usize = 262;

/// Whether an address can be announced to others.
pub(crate) fn is_address(address: &str) -> bool {
    let has_port = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    address.len() <= ADDRESS_BYTES_MAX
        && address.chars().all(|sign| sign.is_ascii_graphic())
        && address.rsplit_once(':').is_some_and(has_port)
}

fn check_address(name: &str, address: &str) -> Result<(), String> {
    if is_address(address) { Ok(()) } else { Err(format!("{name} = \"{address}\": use HOST:PORT")) }
}

#[cfg(test)]
mod tests {
    use super::{Clients, Config, Http, Log, Peers, Raft, Size, Store, StoreKind, Tls};

    /// The configuration of a directory, with the default of every option.
    fn of_directory(directory: &str) -> Config {
        let (store, clients, peers) = (Store::default(), Clients::default(), Peers::default());
        let (http, raft, log) = (Http::default(), Raft::default(), Log::default());
        Config { directory: directory.into(), store, clients, peers, http, raft, log }
    }

    #[test]
    fn a_short_file_is_enough_and_the_rest_is_default() {
        let config = Config::parse("directory = 'd'\n[store]\nkind = 'wal'\nlog_size = '8M'").expect("a configuration");
        let mut wanted = of_directory("d");
        wanted.store.kind = StoreKind::Wal;
        wanted.store.log_size = Size(8 << 20);
        assert_eq!(config, wanted);
        assert_eq!(config.http, Http::default());
    }

    /// Hazard: a server of an older configuration does not start after an upgrade.
    #[test]
    fn options_are_read_by_their_old_names_too() {
        let raft = |names: [&str; 2]| {
            let [entries, us] = names;
            Config::parse(&format!("directory = 'd'\n[raft]\n{entries} = 7\n{us} = 9")).expect("a configuration").raft
        };
        let renamed = raft(["persist_entries", "persist_us"]);
        assert_eq!((renamed.persist_entries, renamed.persist_us), (7, 9));
        assert_eq!(raft(["confirm_entries", "confirm_us"]), renamed);
    }

    #[test]
    fn wrong_options_are_named() {
        for (text, wanted) in [
            ("", "directory"),
            ("directory = 'd'\nsize = 3", "size"),
            ("directory = 'd'\n[raft]\nelektion_ms = 3", "elektion_ms"),
            ("directory = 'd'\n[raft]\nelection_ms = 3", "raft.election_ms = 3: use 120 to"),
            ("directory = 'd'\n[store]\nkind = 'heap'", "heap"),
            (
                "directory = 'd'\n[store]\nemulate_model = 'optan'",
                "store.emulate_model: no model of a medium is called",
            ),
            // Times 1000 it would be less than a second.
            ("directory = 'd'\n[clients]\nidle_s = 18446744073709552", "clients.idle_s"),
            ("directory = 'd'\n[clients]\nidle_s = -1", "idle_s"),
            // No snapshot would last until it is fetched.
            ("directory = 'd'\n[store]\nsnapshot_garbage_size = 0", "store.snapshot_garbage_size"),
            ("directory = 'd'\n[store]\nsnapshot_garbage_size = '1T'\nsnapshot_garbage_size = '2T'", "duplicate"),
            ("directory = 'd'\n[store]\nsize = '4X'", "4X"),
            ("directory = 'd'\n[clients]\nlisten = ['6379']", "clients.listen = \"6379\": use HOST:PORT"),
            ("directory = 'd'\n[clients]\nlisten = ['a b:6379']", "clients.listen = \"a b:6379\": use HOST:PORT"),
            ("directory = 'd'\n[peers]\nlisten = '0.0.0.0:1'", "peers.announce"),
            ("directory = 'd'\n[peers]\nlisten = '10.0.0.1:1'", "peers.protected"),
            ("directory = 'd'\n[peers]\nlisten = 'localhost.test:1'", "peers.protected"),
            ("directory = 'd'\n[peers]\nnames = ['a']", "peers.names"),
            ("directory = 'd'\n[peers.tls]\ncertificate = 'c'\nkey = 'k'", "peers.tls lacks authorities"),
        ] {
            let said = Config::parse(text).expect_err(text);
            assert!(said.contains(wanted), "{text}: {said}");
        }
    }

    #[test]
    fn an_address_that_others_reach_needs_certificates_or_to_be_said() {
        for (peers, is_taken) in [
            ("listen = '127.0.0.2:1'", true),
            ("listen = '[::1]:1'", true),
            ("listen = 'localhost:1'", true),
            ("listen = '[::ffff:127.0.0.1]:1'", true),
            ("listen = '[2001:db8::1]:1'", false),
            ("listen = '10.0.0.1:1'\nprotected = false", true),
            ("listen = '0.0.0.0:1'\nannounce = 'a:1'", false),
            ("listen = '10.0.0.1:1'\ntls = { certificate = 'c', key = 'k', authorities = 'a' }", true),
        ] {
            assert_eq!(Config::parse(&format!("directory = 'd'\n[peers]\n{peers}")).is_ok(), is_taken, "{peers}");
        }
    }

    /// The names of all options, with their sections.
    fn options(prefix: &str, value: &toml::Value) -> Vec<String> {
        let toml::Value::Table(table) = value else { return vec![prefix.to_owned()] };
        let name = |name: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        table.iter().flat_map(|(key, value)| options(&name(key), value)).collect()
    }

    #[test]
    fn the_page_has_every_option() {
        let tls = Some(Tls { authorities: Some("a".into()), ..Tls::default() });
        let mut config = of_directory("d");
        (config.clients.tls, config.peers.tls, config.clients.unix) = (tls.clone(), tls, Some("u".into()));
        let page = include_str!("../../../docs/kv-config.md");
        let all = options("", &toml::Value::try_from(&config).expect("a table"));
        assert!(all.len() > 30, "{all:?}");
        let missing: Vec<_> = all.iter().filter(|name| !page.contains(&format!("| `{name}` |"))).collect();
        assert!(missing.is_empty(), "docs/kv-config.md lacks {missing:?}");
    }
}
