//! Tests: many connections at a server's addresses, without its loop.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::BytesMut;
use mio::Events;
use slog::{Discard, Logger, o};

use super::browsers::BROWSERS_MAX;
use super::peers::handshake::{Handshake, Hello, put_handshake};
use super::peers::inbound::{GREETING_MS, Kind, OPERATOR_MS, OPERATORS_MAX, UNAUTHENTICATED_MAX, UNKNOWN_MAX};
use super::runtime::Port;
use super::runtime::Source;
use super::{Server, http, pool};
use crate::config::Config;
use crate::store::PersistentState;

const CLUSTER: u128 = 7;

/// Replica 1 of members 1, 2 and 3, which knows of no leader.
struct Busy {
    server: Server,
    _directory: tempfile::TempDir,
}

impl Busy {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!(
            "directory = '{}'\nstore = {{ size = '8M', emulate = true }}\nclients.listen = ['127.0.0.1:0']\n\
             peers.listen = '127.0.0.1:0'\nhttp.listen = '127.0.0.1:0'",
            directory.path().join("data").display()
        );
        let config = Config::parse(&text).expect("a configuration");
        drop(pool::create(&config, &PersistentState::founder(CLUSTER, 1, vec![1, 2, 3]), 1).expect("data"));
        let server = Server::open(config, Logger::root(Discard, o!())).expect("a server");
        Self { server, _directory: directory }
    }

    /// Somebody connects, and is taken in. Returns also the key of the connection.
    fn connect(&mut self, port: Port) -> (TcpStream, u64) {
        let ((number, address), before) = (self.server.listeners.find(port), self.server.runtime.last_key());
        let stream = TcpStream::connect(address).expect("a connection");
        while self.server.runtime.last_key() == before {
            self.server.accept(number);
        }
        (stream, self.server.runtime.last_key())
    }

    /// An inbound connection says something, which is heard.
    fn say(&mut self, stream: &mut TcpStream, key: u64, bytes: &[u8]) {
        stream.write_all(bytes).expect("sent");
        let (mut events, mut has_come) = (Events::with_capacity(64), false);
        while !has_come {
            self.server.runtime.wait(&mut events, 5_000_000).expect("events");
            assert!(!events.is_empty(), "nothing comes");
            for event in events.iter().filter(|event| Source::of(event.token()) == (Source::Inbound, key)) {
                assert!(self.server.inbound.happened(key, event), "no connection");
                has_come |= event.is_readable();
            }
        }
        self.server.hear(key).expect("a store");
    }

    /// Somebody connects to the address for replicas and says something. Returns also the key of
    /// the connection.
    fn visit(&mut self, bytes: &[u8]) -> (TcpStream, u64) {
        let (mut stream, key) = self.connect(Port::Peer);
        self.say(&mut stream, key, bytes);
        (stream, key)
    }

    /// A replica connects, or an operator, which is replica 0.
    fn greet(&mut self, replica: u64) -> (TcpStream, u64) {
        let mut out = BytesMut::new();
        let cluster = if replica == 0 { 0 } else { CLUSTER };
        put_handshake(&Handshake::Hello(Hello { cluster, replica, start: replica, ..Hello::default() }), &mut out);
        self.visit(&out)
    }

    fn count(&self, is_it: impl Fn(&Kind) -> bool) -> usize {
        self.server.inbound.count(is_it)
    }

    fn has(&self, id: u64) -> bool {
        self.count(|kind| matches!(kind, Kind::Peer(other, _) if *other == id)) == 1
    }
}

/// Hazard: unauthenticated connections, operators or replicas that nobody knows take all
/// connections that there may be, and the members find no way in: there is no leader any more, or
/// never one.
#[test]
fn many_connections_at_the_address_for_replicas_keep_no_member_out() {
    let mut busy = Busy::new();
    let (_second, _) = busy.greet(2);
    let mut silent: Vec<TcpStream> = (0..UNAUTHENTICATED_MAX + 20).map(|_| busy.connect(Port::Peer).0).collect();
    assert_eq!(busy.count(|kind| matches!(kind, Kind::Unauthenticated)), UNAUTHENTICATED_MAX);
    // The oldest has gone, the newest has not.
    assert_eq!(silent[0].read(&mut [0; 1]).expect("the end"), 0);
    silent.last_mut().expect("some").set_nonblocking(true).expect("a socket");
    assert!(silent.last_mut().expect("some").read(&mut [0; 1]).is_err());
    // Those whose streams end here have not been heard of since.
    (0..OPERATORS_MAX + 20).for_each(|_| drop(busy.greet(0)));
    (100..100 + UNKNOWN_MAX as u64 + 20).for_each(|id| drop(busy.greet(id)));
    assert_eq!(busy.count(|kind| matches!(kind, Kind::Operator(_))), OPERATORS_MAX);
    assert_eq!(busy.count(|kind| matches!(kind, Kind::Peer(id, _) if *id >= 100)), UNKNOWN_MAX);
    assert!(busy.has(119 + UNKNOWN_MAX as u64) && !busy.has(100));
    let (_third, _) = busy.greet(3);
    assert!(busy.has(2) && busy.has(3));
    // Again and again, it is one connection.
    let _again: Vec<_> = (0..3).map(|_| busy.greet(3)).collect();
    assert!(busy.has(3));
}

/// Hazard: one that sends a byte now and then, or does not take what it is told, stays for ever.
#[test]
fn an_unauthenticated_connection_is_closed_in_time_whatever_it_sends() {
    let mut busy = Busy::new();
    let (mut slow, slow_key) = busy.visit(b"x");
    let (_refused, refused_key) = busy.greet(1);
    assert!(!busy.server.inbound.contains(refused_key), "it was told");
    let (_member, _) = busy.greet(2);
    let came_ms = busy.server.inbound.heard_ms(slow_key);
    std::thread::sleep(Duration::from_millis(5));
    busy.say(&mut slow, slow_key, b"y");
    assert_eq!(busy.server.inbound.heard_ms(slow_key), came_ms);
    busy.server.close_late(came_ms + GREETING_MS);
    assert!(busy.server.inbound.contains(slow_key));
    busy.server.close_late(came_ms + GREETING_MS + 1);
    assert!(!busy.server.inbound.contains(slow_key) && busy.has(2));
}

/// Hazard: an unauthenticated connection has the server wait for a frame that fills the memory.
#[test]
fn an_unauthenticated_connection_gets_room_for_a_hello_and_no_more() {
    use super::peers::handshake::UNAUTHENTICATED_BYTES_MAX;
    let mut busy = Busy::new();
    for (length, waits) in [(UNAUTHENTICATED_BYTES_MAX, true), (UNAUTHENTICATED_BYTES_MAX + 1, false)] {
        let header = [&(length as u32).to_le_bytes()[..], &[0; 4]].concat();
        let (_stream, key) = busy.visit(&header);
        assert_eq!(busy.server.inbound.contains(key), waits, "{length}");
    }
}

/// Hazard: browsers that are many or slow take descriptors and memory from others.
#[test]
fn browsers_are_few_and_end_in_time() {
    let mut busy = Busy::new();
    // Those that say nothing keep nobody out: the oldest goes.
    let mut browsers: Vec<TcpStream> = (0..BROWSERS_MAX + 200).map(|_| busy.connect(Port::Browser).0).collect();
    assert_eq!(busy.server.browsers.len(), BROWSERS_MAX);
    assert_eq!(browsers[0].read(&mut [0; 1]).expect("the end"), 0);
    let (mut operator, key) = busy.connect(Port::Browser);
    operator.write_all(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").expect("sent");
    operator.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket");
    let mut answer = [0; 12];
    let is_answered = (0..100).any(|_| {
        busy.server.browse(key);
        operator.read_exact(&mut answer).is_ok()
    });
    assert!(is_answered && answer == *b"HTTP/1.1 200", "{}", answer.escape_ascii());
    let newest_ms = busy.server.runtime.now_ms();
    busy.server.close_late(newest_ms);
    assert_eq!(busy.server.browsers.len(), BROWSERS_MAX - 1);
    busy.server.close_late(newest_ms + http::CONNECTION_MS + 1);
    assert_eq!(busy.server.browsers.len(), 0);
}

/// Hazard: a backup of a replica that lags, or that nobody hears, lacks what was acknowledged long
/// before.
#[test]
fn a_replica_that_knows_of_no_leader_begins_no_backup() {
    let mut busy = Busy::new();
    let (_stream, key) = busy.greet(0);
    let (admin, context) = busy.server.admin();
    admin.request(key, br#""backup""#, context).expect("a store");
    busy.server.step().expect("a store");
    assert_eq!(busy.count(|kind| matches!(kind, Kind::Operator(None))), 1);
    assert_eq!(busy.server.admin.waiting(), 1);
}

/// Hazard: a replica cannot be made where the directory above its own is missing, and the error
/// does not say so.
#[test]
fn the_directories_above_the_data_are_made_too() {
    for kind in ["list", "btree", "wal"] {
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().join("not/there/yet");
        let text = format!(
            "directory = '{}'\nstore = {{ kind = '{kind}', size = '8M', emulate = true }}\nclients.listen = ['127.0.0.1:0']\n\
             peers.listen = '127.0.0.1:0'",
            data.display()
        );
        let config = Config::parse(&text).expect("a configuration");
        drop(pool::create(&config, &PersistentState::founder(CLUSTER, 1, vec![1]), 1).expect("data"));
        assert!(data.read_dir().expect("a directory").count() > 0, "{kind}");
        drop(pool::open(&config).expect("data"));
    }
}

/// Hazard: what the log says of where clients are served is another address than that.
#[test]
fn the_addresses_that_are_said_are_those_that_are_listened_at() {
    let busy = Busy::new();
    for port in [Port::Client, Port::Peer, Port::Browser] {
        assert_eq!(busy.server.listeners.addresses(port), busy.server.listeners.find(port).1.to_string());
        assert!(!busy.server.listeners.addresses(port).ends_with(":0"));
    }
}

/// Hazard: a backup that takes longer than an operator may be silent is cut off.
#[test]
fn an_operator_that_takes_a_backup_is_not_silent() {
    let mut busy = Busy::new();
    let (_stream, key) = busy.greet(0);
    busy.server.admin().1.begin_backup(key).expect("a snapshot");
    let later_ms = busy.server.runtime.now_ms() + OPERATOR_MS;
    busy.server.inbound.get_mut(key).flush(later_ms).expect("sent");
    busy.server.close_late(later_ms + OPERATOR_MS);
    assert!(busy.server.inbound.contains(key));
    busy.server.close_late(later_ms + OPERATOR_MS + 1);
    assert!(!busy.server.inbound.contains(key));
}
