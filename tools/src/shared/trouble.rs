//! How a statement of a test client fails while the test kills servers.

/// Lock wait timeout, and deadlock, which stands for write conflicts too: the client rolls back and
/// goes on.
const CONFLICTS: [u16; 2] = [1205, 1213];
/// The server is shutting down.
const SHUTDOWN: u16 = 1053;

/// Why a client's statement failed.
pub enum Trouble {
    /// The server refused it because of another transaction.
    Refused,
    /// The connection is lost.
    Gone(mysql::Error),
    /// An error that no client should see.
    Unexpected(mysql::Error),
}

impl From<mysql::Error> for Trouble {
    fn from(error: mysql::Error) -> Self {
        match &error {
            mysql::Error::MySqlError(server) if CONFLICTS.contains(&server.code) => Self::Refused,
            mysql::Error::MySqlError(server) if server.code == SHUTDOWN => Self::Gone(error),
            mysql::Error::MySqlError(_) => Self::Unexpected(error),
            _ => Self::Gone(error),
        }
    }
}
