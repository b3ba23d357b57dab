//! A session as the lock table and the status report see it, through the plugin's hooks.

use super::hooks::PerduraWaitHooks;
use perdura_engine::{Client, Description};
use std::sync::{Mutex, PoisonError};

/// Most bytes of a statement that reports show.
const STATEMENT_BYTES: usize = 1024;
/// Most bytes of a user's name that reports show.
const USER_BYTES: usize = 256;

/// The connection behind a session.
pub(super) struct SessionClient {
    hooks: PerduraWaitHooks,
    identity: Mutex<Identity>,
}

#[derive(Default)]
struct Identity {
    connection: u64,
    /// The user at its host, as reports show it.
    user: String,
}

// SAFETY: the context is only handed to hooks, which may be called from any thread.
unsafe impl Send for SessionClient {}
// SAFETY: as above.
unsafe impl Sync for SessionClient {}

impl SessionClient {
    pub(super) fn new(hooks: PerduraWaitHooks) -> SessionClient {
        SessionClient { hooks, identity: Mutex::default() }
    }

    /// Sets connection, user and host.
    pub(super) fn identify(&self, connection: u64, user: &[u8], host: &[u8]) {
        let mut name = user.to_vec();
        if !host.is_empty() {
            name.push(b'@');
            name.extend_from_slice(host);
        }
        name.truncate(USER_BYTES);
        let mut identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
        *identity = Identity { connection, user: one_line(&name) };
    }

    fn statement(&self) -> String {
        let Some(hook) = self.hooks.statement else { return String::new() };
        let mut bytes = vec![0; STATEMENT_BYTES];
        // SAFETY: the engine calls while the session lives, and whoever made the session vouched
        // for its hooks; the target is as long as said.
        let copied = unsafe { hook(self.hooks.context, bytes.as_mut_ptr(), STATEMENT_BYTES) };
        bytes.truncate(copied);
        one_line(&bytes)
    }
}

impl Client for SessionClient {
    fn context(&self) -> usize {
        self.hooks.context.expose_provenance()
    }

    fn conflict(&self, holder: usize) -> bool {
        let Some(hook) = self.hooks.conflict else { return false };
        // SAFETY: whoever made the sessions vouched for their hooks; the engine keeps the holder's
        // session alive meanwhile.
        unsafe { hook(self.hooks.context, std::ptr::with_exposed_provenance_mut(holder)) }
    }

    fn describe(&self) -> Description {
        let (connection, user) = {
            let identity = self.identity.lock().unwrap_or_else(PoisonError::into_inner);
            (identity.connection, identity.user.clone())
        };
        Description { connection, user, statement: self.statement() }
    }
}

/// The bytes as a line of text, with whatever is no text or would break the line replaced.
fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect()
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn a_statement_cannot_forge_lines_of_the_report() {
        assert_eq!(one_line(b"SELECT 1\n  session 7\r\0"), "SELECT 1   session 7  ");
        assert_eq!(one_line(b"caf\xe9 \xf0\x9f"), "caf\u{fffd} \u{fffd}");
    }
}
