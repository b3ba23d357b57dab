//! What clients may use, and what they are told of the server.

/// Where clients reach a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// What clients may use, and what they are told of the server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Most connections.
    pub connections_max: usize,
    /// Most connections that CONFIG SET may allow.
    pub connections_most: usize,
    /// Most requests of a connection that are not answered.
    pub requests_max: usize,
    /// Bytes of a connection's replies beyond which no further request is looked at.
    pub output_bytes_max: usize,
    /// Bytes of all connections' requests and replies beyond which those that have most are closed.
    pub memory_bytes_max: usize,
    /// Most bytes of one value, and of one argument.
    pub value_bytes_max: usize,
    /// SHA-256 of the password of the user `default`, in hexadecimal, unless the cluster has been told of that user by ACL SETUSER.
    /// None: whoever connects is that user.
    pub default_password: Option<String>,
    /// Whether clients in cluster mode are told that the cluster covers all slots.
    pub is_cluster: bool,
    /// When the process was started, in microseconds since 1970.
    pub start_us: u64,
    /// The process.
    pub process_id: u32,
    /// The TCP port of clients, or 0.
    pub port: u16,
    /// Decides what RANDOMKEY returns.
    pub seed: u64,
    /// Random bytes, so many, for the passwords of ACL GENPASS. `None` if there are none to be had.
    pub random: fn(usize) -> Option<Vec<u8>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            connections_most: 10_000,
            requests_max: 1024,
            output_bytes_max: 1 << 20,
            memory_bytes_max: 1 << 30,
            value_bytes_max: 64 << 20,
            default_password: None,
            is_cluster: true,
            start_us: 0,
            process_id: 0,
            port: 0,
            seed: 0,
            random: |_| None,
        }
    }
}
