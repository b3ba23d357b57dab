//! Replicas that pass requests on: clients that know of one replica only are served by it, and are
//! told what is known when the leader dies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::certificates::Authority;
use super::replica::{Replica, cluster, leader, wait_for};
use super::resp::{Client, Reply};

fn text(text: &str) -> Reply {
    Reply::Text(text.into())
}

/// Waits until a replica takes writes.
fn serves(replica: &Replica) -> Client {
    wait_for("a replica that takes writes", || {
        let mut client = replica.client().ok()?;
        (client.call(&["SET", "first", "1"]).ok()? == text("OK")).then_some(client)
    })
}

fn is_error(reply: std::io::Result<Reply>, code: &str) -> bool {
    matches!(reply, Ok(Reply::Error(error)) if error.starts_with(code))
}

/// Over encrypted connections, with values of many pieces.
#[test]
fn every_replica_does_what_the_leader_can() {
    let top = tempfile::tempdir().expect("a directory");
    let table = Authority::new(top.path(), "own").table("127.0.0.1");
    let replicas = cluster(top.path(), "list", &format!("clients.forwards = true\npeers.tls = {table}\n"));
    let long = "v".repeat(3_000_000);
    for (place, replica) in replicas.iter().enumerate() {
        let mut client = serves(replica);
        let mut call = |line: &str| client.call(&line.split(' ').collect::<Vec<_>>()).expect("a reply");
        let key = format!("key:{place}");
        assert_eq!(call(&format!("SET {key} {long}")), text("OK"));
        assert_eq!(call(&format!("GETSET {key} 5")), Reply::Bytes(long.clone().into_bytes()));
        assert_eq!(call(&format!("INCR {key}")), Reply::Number(6));
        assert_eq!(call(&format!("GET {key}")), Reply::Bytes(b"6".to_vec()));
        assert_eq!(call(&format!("WATCH {key}")), text("OK"));
        assert_eq!(call("MULTI"), text("OK"));
        assert_eq!(call(&format!("INCR {key}")), text("QUEUED"));
        assert_eq!(call("PING"), text("QUEUED"));
        assert_eq!(call("EXEC"), Reply::Array(vec![Reply::Number(7), text("PONG")]));
        for _ in 0..2 {
            assert_eq!(call(&format!("PERDURA.ONCE session:{place} 1 INCR {key}")), Reply::Number(8));
        }
        assert_eq!(call("WAIT 2 0"), Reply::Number(2));
        let name = format!("alice{place}");
        assert_eq!(call(&format!("ACL SETUSER {name} on >pw ~a:* +@read +set")), text("OK"));
        assert_eq!(call(&format!("AUTH {name} pw")), text("OK"));
        assert_eq!(call("SET a:1 x"), text("OK"));
        assert!(is_error(Ok(call("SET b x")), "NOPERM") && is_error(Ok(call("DEL a:1")), "NOPERM"));
    }
    let lead = leader(&replicas);
    let follower = &replicas[(lead + 1) % 3];
    follower.logs("requests are passed on to the leader");
    let mut client = replicas[lead].client().expect("a client");
    let Ok(Reply::Bytes(info)) = client.call(&["INFO", "stats"]) else { panic!("no INFO") };
    assert!(String::from_utf8_lossy(&info).contains("forwarded_requests:0\r\n"), "the leader passes nothing on");
}

/// Replies to one client about its counter.
#[derive(Debug, Default)]
struct Counted {
    done: i64,
    unknown: i64,
    refused: u64,
}

/// Counts at one replica until it is told to end.
fn count(port: u16, key: &str, ends: &AtomicBool) -> Counted {
    let (mut counted, mut client) = (Counted::default(), None);
    while !ends.load(Ordering::Relaxed) {
        let Some(open) = &mut client else {
            client = Client::connect(port).ok();
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        match open.call(&["INCR", key]) {
            Ok(Reply::Number(number)) => {
                counted.done += 1;
                assert!(
                    (counted.done..=counted.done + counted.unknown).contains(&number),
                    "{key}: {number} {counted:?}"
                );
            }
            Ok(Reply::Error(error)) if error.starts_with("UNKNOWN") => counted.unknown += 1,
            Ok(Reply::Error(error)) => {
                let codes = ["MOVED", "CLUSTERDOWN", "BUSY", "LOADING"];
                assert!(codes.iter().any(|code| error.starts_with(code)), "{error}");
                counted.refused += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(other) => panic!("INCR {key}: {other:?}"),
            // The client's own replica was killed.
            Err(_) => (counted.unknown, client) = (counted.unknown + 1, None),
        }
    }
    counted
}

/// The leader is killed in the midst, several times. Nothing that was acknowledged is lost, and
/// nothing is done twice: a counter is at least what was acknowledged, and at most that and what is
/// not known.
#[test]
fn a_killed_leader_loses_and_repeats_nothing_that_was_passed_on() {
    const WRITERS: usize = 6;
    let top = tempfile::tempdir().expect("a directory");
    let mut replicas = cluster(top.path(), "list", "clients.forwards = true\n");
    let ports: Vec<u16> = replicas.iter().map(|replica| replica.ports[0]).collect();
    replicas.iter().for_each(|replica| drop(serves(replica)));
    let ends = AtomicBool::new(false);
    let counted: Vec<Counted> = std::thread::scope(|scope| {
        let (ports, ends) = (&ports, &ends);
        let begin = |writer: usize| scope.spawn(move || count(ports[writer % 3], &format!("count:{writer}"), ends));
        let writers: Vec<_> = (0..WRITERS).map(begin).collect();
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(500));
            let place = leader(&replicas);
            replicas[place].kill();
            std::thread::sleep(Duration::from_millis(1500));
            replicas[place].start();
            replicas.iter().for_each(Replica::votes);
        }
        replicas.iter().for_each(|replica| drop(serves(replica)));
        std::thread::sleep(Duration::from_millis(300));
        ends.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("no writer panics")).collect()
    });
    println!("{counted:?}");
    let mut client = serves(&replicas[0]);
    for (writer, Counted { done, unknown, .. }) in counted.iter().enumerate() {
        let reply = client.call(&["GET", &format!("count:{writer}")]).expect("a reply");
        let Reply::Bytes(bytes) = &reply else { panic!("{reply:?}") };
        let number: i64 = String::from_utf8_lossy(bytes).parse().expect("a number");
        assert!((*done..=done + unknown).contains(&number), "count:{writer}: {number}, {done} done, {unknown} unknown");
        assert!(*done > 20, "count:{writer}: only {done} were done");
    }
}

/// Bytes that no replica sends end the connection with a reason, and nothing else.
#[test]
fn foreign_bytes_are_not_passed_on() {
    use bytes::{BufMut, BytesMut};
    use perdura_kv::server::handshake::{Handshake, Hello, get_handshake, put_handshake};
    use perdura_kv::wire::{Frames, put_frame};
    use std::io::{Read, Write};

    let top = tempfile::tempdir().expect("a directory");
    let replicas = cluster(top.path(), "list", "");
    let lead = leader(&replicas);
    let state = replicas[lead].state().expect("a state");
    let cluster = u128::from_str_radix(state["cluster"].as_str().expect("an id"), 16).expect("a number");
    let member = replicas[(lead + 1) % 3].id();
    let valid = Hello { cluster, replica: member, start: 1, ..Hello::default() };
    for (hello, why) in [
        (Hello { replica: 0, ..valid.clone() }, "operators pass no requests on"),
        (Hello { replica: 7, ..valid.clone() }, "unknown id"),
        (Hello { cluster: 5, ..valid.clone() }, "wrong cluster id"),
        (Hello { replica: replicas[lead].id(), ..valid.clone() }, "two nodes with one id"),
        (Hello { start: 2, ..valid }, "two nodes with one id"),
    ] {
        let mut out = BytesMut::new();
        put_handshake(&Handshake::Forwards(hello), &mut out);
        put_frame(&mut out, 4, |out| out.put_slice(&[1; 40]));
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", replicas[lead].ports[1])).expect("a connection");
        stream.write_all(&out).expect("sent");
        let (mut frames, mut buffer, mut last) = (Frames::default(), [0; 4096], None);
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            frames.input().extend_from_slice(&buffer[..count]);
            while let Ok(Some((kind, bytes))) = frames.next(4096) {
                last = get_handshake(kind, bytes).ok();
            }
        }
        assert!(matches!(&last, Some(Handshake::Refusal(text)) if text.contains(why)), "{why}: {last:?}");
    }
}
