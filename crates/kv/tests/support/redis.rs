//! A redis-server of the test's own, on a Unix socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

/// The server and two connections to it.
pub struct Redis {
    process: Child,
    socket: PathBuf,
    connections: Vec<BufReader<UnixStream>>,
    _directory: TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Redis {
    /// Starts it. `None` if it is not installed.
    pub fn start() -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("redis.sock");
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--databases", "1", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        Some(Self { process, socket, connections: Vec::new(), _directory: directory })
    }

    /// Two new connections, no keys and no users.
    pub fn begin(&mut self) {
        self.connections = (0..2).map(|_| self.connect()).collect();
        self.ask(0, b"FLUSHALL\r\n");
        self.ask(0, b"ACL DELUSER alice bob\r\n");
    }

    fn connect(&self) -> BufReader<UnixStream> {
        for _ in 0..500 {
            if let Ok(stream) = UnixStream::connect(&self.socket) {
                stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
                return BufReader::new(stream);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("redis-server does not listen");
    }

    /// Sends a request and returns the bytes of its reply.
    pub fn ask(&mut self, connection: usize, request: &[u8]) -> Vec<u8> {
        let connection = &mut self.connections[connection];
        connection.get_mut().write_all(request).expect("a request");
        let mut reply = Vec::new();
        read(connection, &mut reply);
        reply
    }

    /// The clock that the server has, in microseconds since 1970.
    pub fn now_us(&self) -> u64 {
        #[allow(clippy::disallowed_methods, reason = "the other server has the machine's clock")]
        let now = SystemTime::now();
        now.duration_since(UNIX_EPOCH).expect("a time since 1970").as_micros() as u64
    }
}

fn read(input: &mut BufReader<UnixStream>, reply: &mut Vec<u8>) {
    let start = reply.len();
    input.read_until(b'\n', reply).expect("a line");
    let line = reply[start..].to_vec();
    let number = || str::from_utf8(&line[1..line.len() - 2]).expect("a number").parse::<i64>().expect("a number");
    let count = match line[0] {
        b'$' | b'=' if number() >= 0 => {
            let mut bytes = vec![0; number() as usize + 2];
            input.read_exact(&mut bytes).expect("bytes");
            reply.extend(bytes);
            return;
        }
        b'*' | b'~' | b'>' => number().max(0),
        b'%' => 2 * number(),
        _ => 0,
    };
    (0..count).for_each(|_| read(input, reply));
}
