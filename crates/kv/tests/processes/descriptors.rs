//! A process that may have few descriptors.

use std::net::TcpStream;
use std::time::Duration;

use super::replica::{Replica, wait_for};
use super::resp::Reply;

/// Hazard: clients take all descriptors, as any client can, and the state cannot be written out:
/// the process ends. Or each tick logs that a connection cannot be taken in.
#[test]
fn clients_leave_descriptors_to_the_replica() {
    let top = tempfile::tempdir().expect("a directory");
    let mut replica = Replica::new(top.path(), "a", "wal", "");
    let text = std::fs::read_to_string(replica.config()).expect("a configuration");
    std::fs::write(replica.config(), text.replace("emulate = true", "emulate = true, log_size = '64K'"))
        .expect("written");
    replica.done(&["init"]);
    replica.start_limited("-n 100");
    replica.votes();
    replica.logs("fewer clients than clients.connections_max");
    let mut client = replica.client().expect("a client");
    let address = ("127.0.0.1", replica.ports[0]);
    let class: Vec<TcpStream> = (0..200).filter_map(|_| TcpStream::connect(address).ok()).collect();
    std::thread::sleep(Duration::from_millis(500));
    let value = "v".repeat(2000);
    for number in 0..300 {
        let reply = client.call(&["SET", &format!("key:{}", number % 10), &value]).expect("a reply");
        assert_eq!(reply, Reply::Text("OK".into()));
    }
    // An operator finds a place beside them.
    assert!(replica.state().is_some());
    let lines = replica.log().matches("cannot be taken in").count();
    assert!(lines <= 1, "{lines} lines of one fault");
    drop(class);
    wait_for("a place", || {
        replica.client().ok()?.call(&["PING"]).ok().filter(|reply| *reply == Reply::Text("PONG".into()))
    });
    replica.stop();
}
