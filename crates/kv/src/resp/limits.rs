//! How large a request may be.

/// Most bytes of a line: a count, a length, or a request written as one line.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// The bounds of one request. What is beyond ends the connection with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Arguments, the command included.
    pub arguments_max: usize,
    /// Bytes of one argument.
    pub argument_bytes_max: usize,
    /// Bytes of all arguments.
    pub request_bytes_max: usize,
}

impl Limits {
    /// For a client that has not said who it is, where that is asked for.
    pub const UNAUTHENTICATED: Limits =
        Limits { arguments_max: 10, argument_bytes_max: 16 << 10, request_bytes_max: 64 << 10 };
    /// For all others: the longest value of a map, and room for the keys of a transaction.
    pub const USUAL: Limits =
        Limits { arguments_max: 1 << 20, argument_bytes_max: 64 << 20, request_bytes_max: 96 << 20 };
}
