//! Profile of a connection, as CLIENT LIST, ACL LOG and SLOWLOG show it.

use bytes::Bytes;

use crate::resp::Reply;

/// Other end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its address, as CLIENT LIST says it: `127.0.0.1:50000`, or the path of a Unix socket and
    /// `:0`.
    pub address: String,
    /// The address that it has connected to.
    pub local: String,
    /// Whether it is refused while `default` needs no password: it is on another machine, and has
    /// shown no certificate.
    pub is_remote: bool,
}

/// Profile of a connection.
#[derive(Debug)]
pub(super) struct Profile {
    id: u64,
    peer: Peer,
    name: Bytes,
    library: [Bytes; 2],
    opened_us: u64,
    active_us: u64,
    command: &'static str,
}

impl Profile {
    /// Profile of a connection that is opened now.
    pub(super) fn new(id: u64, peer: Peer, now_us: u64) -> Self {
        let (name, library) = Default::default();
        Self { id, peer, name, library, opened_us: now_us, active_us: now_us, command: "NULL" }
    }

    /// Id of the connection, which no other has had since the process was started.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Its other end.
    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Its name; empty if it has none.
    pub(super) fn name(&self) -> &Bytes {
        &self.name
    }

    /// Gives it a name. The name is copied: it must not keep the whole request in memory.
    pub(super) fn set_name(&mut self, name: &[u8]) -> Result<(), Reply> {
        if !is_plain(name) {
            return Err(Reply::error("Client names cannot contain spaces, newlines or special characters."));
        }
        self.name = Bytes::copy_from_slice(name);
        Ok(())
    }

    /// RESET: it has no name.
    pub(super) fn reset(&mut self) {
        self.name = Bytes::new();
    }

    /// CLIENT SETINFO: the client library's name or version.
    pub(super) fn set_library(&mut self, field: &[u8], value: &[u8]) -> Reply {
        let (at, field) = match &field.to_ascii_lowercase()[..] {
            b"lib-name" => (0, "lib-name"),
            b"lib-ver" => (1, "lib-ver"),
            _ => return Reply::error(format!("Unrecognized option '{}'", String::from_utf8_lossy(field))),
        };
        if !is_plain(value) {
            return Reply::error(format!("{field} cannot contain spaces, newlines or special characters."));
        }
        self.library[at] = Bytes::copy_from_slice(value);
        Reply::OK
    }

    /// When its last request came, in microseconds since 1970.
    pub(super) fn active_us(&self) -> u64 {
        self.active_us
    }

    /// A request has come.
    pub(super) fn touch(&mut self, now_us: u64) {
        self.active_us = now_us;
    }

    /// Notes its last command.
    pub(super) fn set_command(&mut self, name: &'static str) {
        self.command = name;
    }

    /// Line of CLIENT LIST about it: the fields of a profile around those of the connection's state
    /// and login.
    pub(super) fn line(&self, now_us: u64, token: u32, state: &str, login: &str) -> String {
        let Self { id, peer, opened_us, active_us, command, .. } = self;
        let seconds = |since_us: &u64| now_us.saturating_sub(*since_us) / 1_000_000;
        let [name, library, version] =
            [&self.name, &self.library[0], &self.library[1]].map(|bytes| String::from_utf8_lossy(bytes));
        format!(
            "id={id} addr={} laddr={} fd={token} name={name} age={} idle={} {state} cmd={command} {login} lib-name={library} lib-ver={version}\n",
            peer.address,
            peer.local,
            seconds(opened_us),
            seconds(active_us),
        )
    }
}

/// Longest name of a connection, and of a library and its version.
const NAME_BYTES_MAX: usize = 256;

/// Whether a name can be shown in a list.
fn is_plain(name: &[u8]) -> bool {
    name.len() <= NAME_BYTES_MAX && name.iter().all(u8::is_ascii_graphic)
}
