//! What `perdura backup` is asked for.

use std::path::PathBuf;

/// What a backup is made of.
pub struct Request {
    /// The server's socket.
    pub socket: PathBuf,
    /// The new directory.
    pub target: PathBuf,
    /// Account.
    pub user: String,
    /// File with its password.
    pub password_file: Option<PathBuf>,
    /// Where the pool is, if not where the server says.
    pub pool: Option<PathBuf>,
}
