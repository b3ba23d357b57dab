//! The peers: Redis with a synchronous log, alone; etcd, three of them. Both are Debian's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::super::report::Report;
use super::drive::{Case, Found, Kind, all, key, next, value};
use crate::drive::kv::cluster::{self, wait_for};
use crate::drive::kv::resp::Client;
use crate::shared::ports::free_port;

/// A key that one client alone compares and sets, so that comparing succeeds.
fn own_key(client: u64) -> String {
    key(2_000_000 + client)
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// A directory and the processes that use it.
struct Home {
    place: PathBuf,
    processes: Vec<Child>,
}

impl Home {
    fn new(medium: &Path, name: &str) -> Result<Home> {
        let place = cluster::directory(medium, &format!("bench-kv-{name}"))?;
        std::fs::create_dir(&place).with_context(|| place.display().to_string())?;
        Ok(Home { place, processes: Vec::new() })
    }

    fn spawn(&mut self, command: &mut Command) -> Result<()> {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.processes.push(command.current_dir(&self.place).spawn()?);
        Ok(())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // The directory is nobody else's, whatever becomes of it.
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

/// Redis.
pub struct Redis {
    port: u16,
    _home: Home,
}

impl Redis {
    /// Starts it, if it is installed.
    pub fn start(medium: &Path, report: &mut Report) -> Result<Option<Redis>> {
        if !is_there("redis-server") {
            report.note("redis-server is not installed".into());
            return Ok(None);
        }
        let (mut home, port) = (Home::new(medium, "redis")?, free_port()?);
        let words = ["--bind", "127.0.0.1", "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--port"];
        home.spawn(cluster::ending_with_us().arg("redis-server").args(words).arg(port.to_string()))?;
        wait_for("redis", || Client::connect(port).ok())?;
        report.note(
            "redis: one server, appendonly yes, appendfsync always; what it acknowledges no other machine has".into(),
        );
        Ok(Some(Redis { port, _home: home }))
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
}

/// etcd.
pub struct Etcd {
    port: u16,
    _home: Home,
}

impl Etcd {
    /// Starts three, if etcd is installed.
    pub fn start(medium: &Path, report: &mut Report) -> Result<Option<Etcd>> {
        if !is_there("etcd") {
            report.note("etcd is not installed".into());
            return Ok(None);
        }
        let mut home = Home::new(medium, "etcd")?;
        let mut ports = Vec::new();
        for _ in 0..3 {
            ports.push((free_port()?, free_port()?));
        }
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let all: Vec<String> =
            ports.iter().enumerate().map(|(number, (_, peer))| format!("n{number}={}", url(*peer))).collect();
        for (number, (client, peer)) in ports.iter().enumerate() {
            let mut command = cluster::ending_with_us();
            command.args([
                "etcd",
                "--name",
                &format!("n{number}"),
                "--data-dir",
                &format!("d{number}"),
                "--enable-v2=true",
            ]);
            command.args(["--listen-client-urls", &url(*client), "--advertise-client-urls", &url(*client)]);
            command.args(["--listen-peer-urls", &url(*peer), "--initial-advertise-peer-urls", &url(*peer)]);
            command.args(["--initial-cluster", &all.join(","), "--initial-cluster-state", "new"]);
            home.spawn(&mut command)?;
        }
        let leads = |port: u16| {
            let mut http = Http::connect(port).ok()?;
            let text = http.call("GET", "/v2/stats/self", "").ok()?;
            text.contains("StateLeader").then_some(port)
        };
        let port = wait_for("a leader of etcd", || ports.iter().find_map(|(client, _)| leads(*client)))?;
        report.note("etcd: three servers, asked at the leader by HTTP/1.1 (its API 2), reads with quorum=true".into());
        Ok(Some(Etcd { port, _home: home }))
    }

    /// Runs a case for some time.
    pub fn run(&self, case: &Case, keys: u64, length: Duration) -> Result<Found> {
        let mut clients = Vec::new();
        for place in 0..case.clients as u64 {
            let mut http = Http::connect(self.port)?;
            for name in [key(0), own_key(place)] {
                http.call("PUT", &format!("/v2/keys/{name}"), &format!("value={}", value(0)))?;
            }
            clients.push(http);
        }
        let asker =
            |(place, http): (usize, Http)| Asker { http, place: place as u64, state: place as u64 * 7919 + 1, held: 0 };
        let askers = clients.into_iter().enumerate().map(asker).collect();
        all(askers, length, 1, |Asker { http, place, state, held }| {
            let asked = Instant::now();
            match case.kind {
                Kind::Get => http.call("GET", &format!("/v2/keys/{}?quorum=true", key(0)), "")?,
                Kind::Set => {
                    let path = format!("/v2/keys/{}", key(next(state) % keys));
                    http.call("PUT", &path, &format!("value={}", value(*state)))?
                }
                Kind::Cas => {
                    let path = format!("/v2/keys/{}", own_key(*place));
                    *held += 1;
                    let form = format!("prevValue={}&value={}", value(*held - 1), value(*held));
                    http.call("PUT", &path, &form)?
                }
            };
            Ok(asked.elapsed())
        })
    }
}

/// A client of etcd, the number that its next key follows from, and what its own key holds.
struct Asker {
    http: Http,
    place: u64,
    state: u64,
    held: u64,
}

/// A connection that stays open.
struct Http {
    stream: BufReader<TcpStream>,
}

impl Http {
    fn connect(port: u16) -> Result<Http> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Http { stream: BufReader::new(stream) })
    }

    /// A request with a form, and the body of its answer.
    fn call(&mut self, method: &str, path: &str, form: &str) -> Result<String> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: etcd\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        );
        self.stream.get_mut().write_all(head.as_bytes())?;
        let (mut line, mut length, mut status) = (String::new(), None, String::new());
        loop {
            line.clear();
            ensure!(self.stream.read_line(&mut line)? > 0, "etcd has closed the connection");
            let text = line.trim_end();
            if status.is_empty() {
                text.clone_into(&mut status);
            } else if text.is_empty() {
                break;
            } else if let Some(number) = text.to_ascii_lowercase().strip_prefix("content-length:") {
                length = Some(number.trim().parse::<usize>()?);
            }
        }
        let mut body = vec![0; length.context("an answer of unknown length")?];
        self.stream.read_exact(&mut body)?;
        let body = String::from_utf8(body)?;
        ensure!(status.contains(" 200 ") || status.contains(" 201 "), "{method} {path}: {status}: {body}");
        Ok(body)
    }
}
