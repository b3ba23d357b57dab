//! Counters, for INFO and for operators.

/// Declares the counters: each with its name on the page of metrics, and its help text there.
macro_rules! counters {
    ($($field:ident: $name:literal, $help:literal;)+) => {
        /// Counters since the process was started.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Statistics {
            $(#[doc = $help] pub $field: u64,)+
        }

        impl Statistics {
            /// All counters: name and help text on the page of metrics, and value.
            pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$(($name, $help, self.$field),)+].into_iter()
            }
        }
    };
}

counters! {
    connections: "connections_total", "Clients that have connected.";
    connections_refused: "connections_refused_total",
        "Clients that were refused: there were too many, or they need a password.";
    evicted: "evicted_total", "Clients that were closed, for all together had too much in memory.";
    http: "http_refused_total", "Clients that were closed, for they have sent a request of HTTP.";
    commands: "commands_total", "Requests that were answered.";
    errors: "errors_total", "Replies that were errors.";
    moved: "moved_total", "Requests that were sent to another replica.";
    forwarded: "forwarded_total", "Requests that were passed on to the leader.";
    busy: "busy_total", "Requests that were refused because too much was under way.";
    full: "full_total", "Requests that were refused because the leader's store has no room.";
    unknown: "unknown_total", "Requests whose outcome is not known.";
    input_bytes: "input_bytes_total", "Bytes of clients.";
    output_bytes: "output_bytes_total", "Bytes to clients.";
    hits: "hits_total", "Reads that found a key.";
    misses: "misses_total", "Reads that found none.";
    expired: "expired_total", "Keys that have ended by their deadline.";
}
