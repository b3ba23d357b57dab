//! Replicas that do not belong together, data that are not sound, and configurations that cannot
//! be: each is refused by its name.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::BytesMut;
use perdura_kv::server::handshake::{Handshake, Hello, get_handshake, put_handshake};
use perdura_kv::wire::Frames;

use super::replica::{Replica, wait_for};
use super::resp::Reply;

fn founded(top: &std::path::Path, name: &str, store: &str) -> Replica {
    let mut replica = Replica::new(top, name, store, "");
    replica.done(&["init"]);
    replica.start();
    replica.votes();
    replica
}

/// Says something to a replica, and returns what it answers until it closes the connection.
fn said(replica: &Replica, bytes: &[u8]) -> Vec<Handshake> {
    let mut stream = TcpStream::connect(("127.0.0.1", replica.ports[1])).expect("a connection");
    stream.write_all(bytes).expect("sent");
    let (mut frames, mut buffer, mut words) = (Frames::default(), [0; 4096], Vec::new());
    while let Ok(count) = stream.read(&mut buffer) {
        if count == 0 {
            break;
        }
        frames.input().extend_from_slice(&buffer[..count]);
        while let Ok(Some((kind, bytes))) = frames.next(4096) {
            words.push(get_handshake(kind, bytes).expect("a word"));
        }
    }
    words
}

fn hello(hello: Hello) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_handshake(&Handshake::Hello(hello), &mut out);
    out.to_vec()
}

#[track_caller]
fn is_refused(replica: &Replica, bytes: &[u8], why: &str) {
    match &said(replica, bytes)[..] {
        [Handshake::Refusal(text)] => assert!(text.contains(why), "{text}"),
        other => panic!("{why}: {other:?}"),
    }
    replica.logs(why);
}

/// A replica of another cluster, one that nobody knows, one with an id that is taken, and one that
/// speaks another version.
#[test]
fn foreign_connections_at_the_address_for_replicas_are_refused_by_their_fault() {
    let top = tempfile::tempdir().expect("a directory");
    let replica = founded(top.path(), "a", "list");
    let state = replica.state().expect("a state");
    let own = replica.id();
    let cluster = u128::from_str_radix(state["cluster"].as_str().expect("an id"), 16).expect("a number");
    let valid = Hello { cluster, replica: 7, start: 1, ..Hello::default() };
    is_refused(&replica, &hello(Hello { cluster: 5, ..valid.clone() }), "wrong cluster id");
    is_refused(&replica, &hello(valid.clone()), "unknown id");
    is_refused(&replica, &hello(Hello { replica: own, ..valid.clone() }), "two nodes with one id");
    is_refused(&replica, &hello(Hello { meant: 9, ..valid.clone() }), "the one at this address was replaced");
    let mut old = hello(valid);
    old[8] = 0;
    let checksum = crc32c::crc32c(&old[8..]).to_le_bytes();
    old[4..8].copy_from_slice(&checksum);
    is_refused(&replica, &old, "version 0 of the protocol");
    is_refused(&replica, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "a frame of");
}

/// Two processes must not use the same data, nor one process data that another kind of store has
/// made.
#[test]
fn data_in_use_or_of_another_store_are_refused() {
    let top = tempfile::tempdir().expect("a directory");
    for store in ["list", "wal"] {
        let mut replica = founded(top.path(), store, store);
        let said = replica.refused(&["serve"], 2);
        assert!(said.contains("another process runs this replica"), "{said}");
        let said = replica.refused(&["init"], 2);
        assert!(said.contains("there is a replica already"), "{said}");
        replica.stop();
        let text = std::fs::read_to_string(replica.config()).expect("a configuration");
        let other = if store == "list" { "btree" } else { "list" };
        std::fs::write(replica.config(), text.replace(&format!("kind = '{store}'"), &format!("kind = '{other}'")))
            .expect("written");
        let said = replica.refused(&["serve"], 2);
        assert!(said.contains(&format!("the replica there is a {store}: set store.kind")), "{said}");
    }
}

/// A copy of a replica's data has its id and its vote: two such processes could vote twice.
#[test]
fn a_copy_of_a_replica_is_refused() {
    let top = tempfile::tempdir().expect("a directory");
    let mut first = founded(top.path(), "a", "list");
    let mut second = Replica::new(top.path(), "b", "list", "");
    second.done(&["join", "--to", &first.peers()]);
    second.start();
    second.votes();
    second.stop();
    let mut copy = Replica::new(top.path(), "c", "list", "");
    std::fs::create_dir(copy.data()).expect("a directory");
    std::fs::copy(second.data().join("kv.map"), copy.data().join("kv.map")).expect("a copy");
    second.start();
    second.votes();
    first.logs("a replica has connected");
    copy.start();
    copy.logs("two nodes with one id");
    first.logs("two nodes with one id");
    first.kill();
}

/// Data whose bytes were changed, at rest.
#[test]
fn damaged_data_are_refused_and_the_way_back_is_said() {
    let top = tempfile::tempdir().expect("a directory");
    let mut replica = founded(top.path(), "a", "wal");
    let mut client = replica.client().expect("a client");
    for number in 0..50 {
        client.call(&["SET", &format!("key:{number}"), "value"]).expect("a reply");
    }
    replica.stop();
    let log = std::fs::read_dir(replica.data()).expect("a directory").flatten().map(|entry| entry.path());
    let log = log.filter(|path| path.to_string_lossy().contains("log.")).max().expect("a log");
    let mut bytes = std::fs::read(&log).expect("the log");
    bytes[200] ^= 0xFF;
    std::fs::write(&log, bytes).expect("written");
    let said = replica.refused(&["serve"], 1);
    assert!(said.contains("damaged") && said.contains("perdura-kv join"), "{said}");
    assert_eq!(replica.refused(&["check"], 1), said);

    let mut replica = founded(top.path(), "b", "list");
    replica.stop();
    let map = replica.data().join("kv.map");
    let mut bytes = std::fs::read(&map).expect("the map");
    bytes[..4096].iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&map, bytes).expect("written");
    let said = replica.refused(&["serve"], 1);
    assert!(said.contains("damaged") && said.contains("perdura-kv join"), "{said}");
}

/// Request that a foreign page has a browser send to the address for clients.
#[test]
fn a_browser_is_not_taken_for_a_client() {
    let top = tempfile::tempdir().expect("a directory");
    let replica = founded(top.path(), "a", "list");
    let mut client = replica.client().expect("a client");
    client.call(&["SET", "k", "v"]).expect("a reply");
    let mut stream = TcpStream::connect(("127.0.0.1", replica.ports[0])).expect("a connection");
    let body = "FLUSHALL\r\nACL SETUSER eve on nopass ~* +@all\r\n";
    let request = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("sent");
    let mut said = Vec::new();
    // The connection may be reset, for not all was read.
    let _ = stream.read_to_end(&mut said);
    assert!(said.is_empty(), "{}", said.escape_ascii());
    replica.logs("it has sent a request of HTTP");
    assert_eq!(client.call(&["GET", "k"]).expect("a reply"), Reply::Bytes(b"v".to_vec()));
    assert_eq!(client.call(&["ACL", "USERS"]).expect("a reply"), Reply::Array(vec![Reply::Bytes(b"default".to_vec())]));
}

/// A replica that was started again let clients in as `default`, who may do everything, until it
/// had read its users.
#[test]
fn a_replica_that_is_started_again_never_serves_an_unauthenticated_client() {
    let top = tempfile::tempdir().expect("a directory");
    let mut replica = founded(top.path(), "a", "list");
    let mut client = replica.client().expect("a client");
    for rules in [&["ACL", "SETUSER", "alice", "on", ">pw", "~*", "+@all"][..], &["ACL", "SETUSER", "default", "off"]] {
        assert_eq!(client.call(rules).expect("a reply"), Reply::Text("OK".into()));
    }
    for _ in 0..8 {
        replica.kill();
        replica.start();
        // From the first moment on at which it listens.
        let mut unauthenticated = wait_for("a connection", || replica.client().ok());
        let refused = wait_for("a replica that knows its users", || match unauthenticated.call(&["READONLY"]) {
            Ok(Reply::Error(text)) if text.starts_with("LOADING ") => None,
            other => Some(other),
        });
        assert!(matches!(&refused, Ok(Reply::Error(text)) if text.starts_with("NOAUTH ")), "{refused:?}");
        assert_eq!(unauthenticated.call(&["AUTH", "alice", "pw"]).expect("a reply"), Reply::Text("OK".into()));
    }
}

#[test]
fn commands_and_configurations_that_cannot_be_are_named() {
    let top = tempfile::tempdir().expect("a directory");
    let open = Replica::new(top.path(), "open", "list", "");
    let text = std::fs::read_to_string(open.config()).expect("a configuration");
    let elsewhere = text.replace("peers.listen = '127.0.0.1:", "peers.listen = '192.0.2.1:");
    std::fs::write(open.config(), elsewhere).expect("written");
    for command in ["init", "serve"] {
        let said = open.refused(&[command], 2);
        assert!(said.contains("Set peers.tls, or peers.protected = false"), "{said}");
    }
    let replica = Replica::new(top.path(), "a", "list", "peers.speed = 3\n");
    let said = replica.refused(&["serve"], 2);
    assert!(said.contains("speed") && said.contains("config"), "{said}");
    let mut replica = Replica::new(top.path(), "b", "list", "");
    for (words, wanted) in [
        (&["serve", "now"][..], "now"),
        (&["members"], "members add, remove or promote?"),
        (&["members", "remove"], "the replica's id is missing"),
        (&["join"], "--to is missing"),
        (&["fly"], "fly is not a command"),
        (&["serve"], "make the replica first"),
        (&["status"], "is a replica running there?"),
        (&["restore", "no-such-file"], "no-such-file"),
    ] {
        let said = replica.refused(words, 2);
        assert!(said.contains(wanted), "{words:?}: {said}");
    }
    replica.done(&["init"]);
    // Somebody else has the port.
    let _taken = std::net::TcpListener::bind(("127.0.0.1", replica.ports[0])).expect("a port");
    replica.start();
    assert_eq!(replica.ended(), Some(2));
    assert!(wait_for("a log", || Some(replica.log())).contains("cannot listen on 127.0.0.1"), "{}", replica.log());
}
