//! Connections are encrypted, and both sides show certificates. Who has none, or one of another
//! authority or host, is not let in.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;

use perdura_kv::config::Tls;
use perdura_kv::server::handshake::{Addresses, Handshake, Hello, get_handshake, put_handshake};
use perdura_kv::server::tls::TlsConnector;
use perdura_kv::wire::Frames;

use super::certificates::Authority;
use super::replica::{Replica, cluster, wait_for};
use super::resp::{Reply, read_reply, request};

fn is_ok(reply: &std::io::Result<Reply>) -> bool {
    matches!(reply, Ok(Reply::Text(_)))
}

/// Files of certificates change while a replica runs: what cannot be used is not, what can be is.
#[test]
fn certificates_are_renewed_without_a_restart() {
    let top = tempfile::tempdir().expect("a directory");
    let (own, next) = (Authority::new(top.path(), "own"), Authority::new(top.path(), "next"));
    let (table, new) = (own.table("127.0.0.1"), next.table("127.0.0.1"));
    let kept = top.path().join("kept");
    std::fs::create_dir(&kept).expect("a directory");
    let files = ["127.0.0.1.pem", "127.0.0.1.key", "authority.pem"];
    let copy = |from: &std::path::Path, to: &std::path::Path, name: &str| {
        std::fs::copy(from.join(name), to.join(name)).expect("copied");
    };
    let (used, others) = (top.path().join("own"), top.path().join("next"));
    files.iter().for_each(|name| copy(&used, &kept, name));
    let old = table.replace("/own/", "/kept/");
    let mut replica = Replica::new(top.path(), "a", "list", &format!("clients.tls = {table}\npeers.tls = {table}\n"));
    replica.done(&["init"]);
    replica.start();
    wait_for("a replica that serves", || is_ok(&call(replica.ports[0], &old, &[b"SET", b"k", b"v"])).then_some(()));
    // Another's certificate without its key.
    copy(&others, &used, files[0]);
    replica.logs("changed certificates cannot be used");
    assert!(is_ok(&call(replica.ports[0], &old, &[b"SET", b"k", b"v"])));
    files.iter().for_each(|name| copy(&others, &used, name));
    replica.logs("certificates were renewed");
    wait_for("the new certificate", || is_ok(&call(replica.ports[0], &new, &[b"SET", b"k", b"v"])).then_some(()));
    assert!(!is_ok(&call(replica.ports[0], &old, &[b"SET", b"k", b"v"])));
    // Operators and replicas have the new ones too.
    replica.votes();
    replica.stop();
}

fn tls(table: &str) -> Tls {
    #[derive(serde::Deserialize)]
    struct Holder {
        tls: Tls,
    }
    toml::from_str::<Holder>(&format!("tls = {table}")).expect("a table").tls
}

/// A request over an encrypted connection.
fn call(port: u16, table: &str, words: &[&[u8]]) -> std::io::Result<Reply> {
    let connection = TlsConnector::new(&tls(table)).expect("certificates").connection("127.0.0.1:0")?;
    let rustls::Connection::Client(connection) = connection else { panic!("a client's side") };
    let mut stream = rustls::StreamOwned::new(connection, TcpStream::connect(("127.0.0.1", port))?);
    stream.write_all(&request(words))?;
    read_reply(&mut BufReader::new(stream))
}

#[test]
fn replicas_and_clients_with_certificates_work_together_and_others_are_refused() {
    let top = tempfile::tempdir().expect("a directory");
    let (own, other) = (Authority::new(top.path(), "own"), Authority::new(top.path(), "other"));
    let table = own.table("127.0.0.1");
    let replicas = cluster(top.path(), "list", &format!("clients.tls = {table}\npeers.tls = {table}\n"));
    // More than a record of TLS, both ways.
    let long = vec![b'x'; 15_000];
    let reply = wait_for("a leader for clients", || {
        replicas.iter().find_map(|replica| {
            match call(replica.ports[0], &table, &[b"MSET", b"key", &long, b"more", &long]) {
                Ok(Reply::Text(text)) => Some((replica.ports[0], text)),
                _ => None,
            }
        })
    });
    assert_eq!(reply.1, "OK");
    assert_eq!(call(reply.0, &table, &[b"GET", b"key"]).expect("a reply"), Reply::Bytes(long));

    assert!(call(reply.0, &other.table("127.0.0.1"), &[b"PING"]).is_err());
    wait_for("the log of a client's certificate", || {
        let is_said = |replica: &Replica| replica.log().contains("a client was refused");
        replicas.iter().any(is_said).then_some(())
    });
    assert!(replicas[0].client().expect("a connection").call(&["PING"]).is_err());

    // A replica of another authority, one for another host, and one that does not encrypt.
    let first = replicas[0].peers();
    for (name, more, why) in
        [("d", format!("peers.tls = {}\n", other.table("127.0.0.1")), "UnknownIssuer"), ("e", String::new(), "closed")]
    {
        let replica = Replica::new(top.path(), name, "list", &more);
        let said = replica.refused(&["join", "--to", &first], 2);
        assert!(said.contains(why) || said.contains("reset") || said.contains("certificate"), "{said}");
    }
    replicas[0].logs("a connection to the address for replicas has failed");
    let wrong_host = own.table("elsewhere.test");
    let mut replica = Replica::new(top.path(), "f", "list", &format!("peers.tls = {wrong_host}\n"));
    replica.done(&["join", "--to", &first]);
    replica.start();
    wait_for("the log of a wrong host", || {
        let is_said = |replica: &Replica| replica.log().contains("not valid for name");
        replicas.iter().any(is_said).then_some(())
    });
    assert_eq!(replica.state(), None, "who has a certificate of another host does not answer as this one");
}

/// Says something to a replica over an encrypted connection, and returns the first word that comes
/// back.
fn greeted(replica: &Replica, table: &str, word: &Handshake) -> Handshake {
    let connection =
        TlsConnector::new(&tls(table)).expect("certificates").connection("127.0.0.1:0").expect("a connection");
    let rustls::Connection::Client(connection) = connection else { panic!("a client's side") };
    let socket = TcpStream::connect(("127.0.0.1", replica.ports[1])).expect("a connection");
    let mut stream = rustls::StreamOwned::new(connection, socket);
    let mut out = bytes::BytesMut::new();
    put_handshake(word, &mut out);
    stream.write_all(&out).expect("sent");
    let (mut frames, mut buffer) = (Frames::default(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer).expect("an answer");
        assert_ne!(count, 0, "nothing was said");
        frames.input().extend_from_slice(&buffer[..count]);
        if let Some((kind, bytes)) = frames.next(4096).expect("sound") {
            return get_handshake(kind, bytes).expect("a word");
        }
    }
}

/// A certificate of the authority was enough to say that it is any replica, and any operator.
#[test]
fn a_certificate_is_that_of_its_replica_and_of_an_operator_who_is_named() {
    let top = tempfile::tempdir().expect("a directory");
    let own = Authority::new(top.path(), "own");
    let (table, other) = (own.table("127.0.0.1"), own.table("other.test"));
    let more = format!("peers.tls = {table}\npeers.names = ['127.0.0.1', 'operator.test']\n");
    let mut first = Replica::new(top.path(), "a", "list", &more);
    first.done(&["init"]);
    first.start();
    first.votes();
    let mut second = Replica::new(top.path(), "b", "list", &more);
    second.done(&["join", "--to", &first.peers()]);
    second.start();
    second.votes();
    let id = second.id();
    second.kill();
    let state = first.state().expect("a state");
    let cluster = u128::from_str_radix(state["cluster"].as_str().expect("an id"), 16).expect("a number");
    let addresses = |peer: &str| Addresses { peer: peer.into(), client: "127.0.0.1:1".into() };
    let hello = |peer: &str| Hello { cluster, replica: id, start: 9, addresses: addresses(peer), ..Hello::default() };
    let is_refused = |table: &str, word: Handshake, why: &str| match greeted(&first, table, &word) {
        Handshake::Refusal(text) => assert!(text.contains(why), "{text}"),
        word => panic!("{why}: {word:?}"),
    };
    is_refused(&other, Handshake::Hello(Hello::default()), "none of the hosts in peers.names");
    is_refused(&other, Handshake::Hello(hello("other.test:1")), "none of the hosts in peers.names");
    // A name that may operate the cluster is no replica of it: neither where the replica is, nor
    // where it itself is.
    let operator = own.table("operator.test");
    let why = format!("wrong certificate: replica {id} is at");
    is_refused(&operator, Handshake::Hello(hello(&second.peers())), &why);
    is_refused(&operator, Handshake::Hello(hello("operator.test:1")), &why);
    is_refused(&operator, Handshake::Forwards(hello(&second.peers())), &why);
    is_refused(&table, Handshake::Hello(hello("operator.test:1")), &why);
    first.logs("wrong certificate");
    assert!(matches!(greeted(&first, &operator, &Handshake::Hello(Hello::default())), Handshake::Welcome { .. }));
    // One that moves to another host has a certificate of both.
    let both = own.table_of("both", &["127.0.0.1", "operator.test"]);
    assert!(matches!(greeted(&first, &both, &Handshake::Hello(hello("operator.test:1"))), Handshake::Welcome { .. }));
}
