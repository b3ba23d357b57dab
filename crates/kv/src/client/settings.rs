//! Limits of clients, and facts about the server for them.

/// Where clients reach a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Figures of the process, as the system has them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Process {
    /// Bytes in DRAM.
    pub resident_bytes: u64,
    /// The most of them that there were.
    pub resident_most_bytes: u64,
    /// Bytes of addresses.
    pub virtual_bytes: u64,
    /// Seconds of processors for the program.
    pub cpu_user_s: f64,
    /// Seconds of processors for the system in its name.
    pub cpu_system_s: f64,
    /// Files and sockets that are open.
    pub descriptors: u64,
    /// The most that may be.
    pub descriptors_max: u64,
}

/// Limits of clients, and facts about the server for them.
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
    /// SHA-256 of the password of the user `default`, in hexadecimal, unless ACL SETUSER has set
    /// another one. None: a new connection is that user.
    pub default_password: Option<String>,
    /// Whether the cluster covers all slots in replies to clients in cluster mode.
    pub is_cluster: bool,
    /// When the process was started, in microseconds since 1970.
    pub start_us: u64,
    /// The process.
    pub process_id: u32,
    /// The TCP port of clients, or 0.
    pub port: u16,
    /// Decides what RANDOMKEY returns.
    pub seed: u64,
    /// Microseconds from which on a command is kept for SLOWLOG.
    pub slow_us: usize,
    /// How many slow commands are kept.
    pub slow_max: usize,
    /// Milliseconds from which on a command is a spike for LATENCY; 0: never.
    pub spike_ms: usize,
    /// A clock in microseconds that never goes back.
    pub steady_us: fn() -> u64,
    /// Figures of the process, as the system has them.
    pub process: fn() -> Process,
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
            slow_us: 10_000,
            slow_max: 128,
            spike_ms: 0,
            steady_us: || 0,
            process: Process::default,
            random: |_| None,
        }
    }
}
