//! Admission at whole replicas: nobody before it knows its users, and nobody whom they do not let
//! in any more.

use crate::support::lines;

use crate::support::cluster::Cluster;
use crate::support::lines::{are, says};
use perdura_kv::client::{Notice, Peer, Settings};
use perdura_kv::node::Role;
use perdura_kv::sim::{VARIANTS, Variant};

const LOADING: &str = "-LOADING this replica catches up with its cluster and does not know its users yet: try again";

/// A cluster in which nobody may do anything without the password of alice.
fn closed(variant: Variant) -> Cluster {
    let mut cluster = Cluster::with_maps(variant, &[32 << 20; 3], &Settings::default());
    let admin = cluster.open(1);
    let rules = [("ACL SETUSER alice on >pw ~* &* +@all", "+OK"), ("ACL SETUSER default off", "+OK")];
    are(&mut cluster, 1, admin, &rules);
    cluster.pass(200);
    cluster
}

/// A replica that was started judged clients by the built-in `default`, who may do everything,
/// until it read its users; and who had connected by then was known for ever.
#[test]
fn a_replica_that_was_started_lets_nobody_in_before_it_knows_its_users() {
    for variant in VARIANTS {
        let mut cluster = closed(variant);
        cluster.restart(2);
        cluster.at(2).is_cut_off = true;
        let early = cluster.open(2);
        for line in
            ["PING", "READONLY / GET k", "ACL SETUSER eve on nopass ~* +@all", "AUTH alice pw", "HELLO 3", "INFO"]
        {
            let said = says(&mut cluster, 2, early, line);
            assert!(said.split(" -").all(|one| one.ends_with(&LOADING[1..])), "{variant:?} {line}: {said}");
        }
        // Long enough for it to see that nobody answers, and for a request that a client without
        // rights may not send.
        cluster.pass(3000);
        are(&mut cluster, 2, early, &[("PING", LOADING), ("RESET / PING", &format!("+RESET {LOADING}"))]);
        let large = cluster.open(2);
        let said = says(&mut cluster, 2, large, "*3 / $3 / SET / $1 / k / $99999");
        assert_eq!(said, LOADING, "{variant:?}");
        assert!(cluster.at(2).clients.is_over(large));
        cluster.at(2).is_cut_off = false;
        cluster.pass(1000);
        let denied = "-NOAUTH Authentication required.";
        are(&mut cluster, 2, early, &[("PING", denied), ("AUTH alice pw / PING", "+OK +PONG")]);
        let late = cluster.open(2);
        are(&mut cluster, 2, late, &[("PING", denied), ("AUTH alice pw / PING", "+OK +PONG")]);
    }
}

/// A replica that joins has no users at all until it has the data.
#[test]
fn a_replica_that_joins_lets_nobody_in() {
    let mut cluster = closed(Variant::List);
    cluster.join(4, Variant::List);
    let early = cluster.open(4);
    for _ in 0..3 {
        are(&mut cluster, 4, early, &[("PING / ACL WHOAMI / FLUSHALL", &[LOADING; 3].join(" "))]);
        cluster.pass(500);
    }
}

const DENIED: &str = "-NOAUTH Authentication required.";

/// A replica that has just become leader knows that a user was deleted only when it has applied the
/// entries of the leader before.
#[test]
fn a_new_leader_does_nothing_for_users_whom_the_old_one_has_deleted() {
    for forwards in [false, true] {
        let mut cluster = closed(Variant::List);
        cluster.forwards = forwards;
        let admin = cluster.open(1);
        are(&mut cluster, 1, admin, &[("AUTH alice pw / ACL SETUSER bob on >pw ~* +@all", "+OK +OK")]);
        cluster.pass(200);
        let bobs: Vec<u32> = [2, 3].map(|id| cluster.open(id)).into();
        for (id, bob) in [2, 3].into_iter().zip(&bobs) {
            are(&mut cluster, id, *bob, &[("AUTH bob pw", "+OK")]);
        }
        // The others have the entry, and have not heard that it is committed when the leader is
        // lost.
        cluster.put(1, admin, b"ACL DELUSER bob\r\n");
        (0..2).for_each(|_| assert!(cluster.round()));
        cluster.at(1).is_cut_off = true;
        are(&mut cluster, 1, admin, &[("", ":1")]);
        let is_gone = |cluster: &mut Cluster, at: usize| cluster.at([2, 3][at]).clients.is_over(bobs[at]);
        let mut asked = 0;
        for _ in 0..100 {
            cluster.tick();
            for round in 0..50 {
                // Also at the moment at which one leads and has not applied what the other did.
                for (at, id) in [2, 3].into_iter().enumerate() {
                    let leads = cluster.at(id).node.status().role == Role::Leader;
                    if (leads || forwards && round == 0) && !is_gone(&mut cluster, at) {
                        cluster.put(id, bobs[at], b"SET k bob\r\n");
                        asked += usize::from(leads);
                    }
                }
                if !cluster.round() {
                    break;
                }
            }
        }
        assert!(asked > 0);
        assert!(is_gone(&mut cluster, 0) && is_gone(&mut cluster, 1));
        let id = lines::leader(&cluster);
        let alice = cluster.open(id);
        are(&mut cluster, id, alice, &[("AUTH alice pw / GET k", "+OK $-1")]);
    }
}

/// A client that is connected has the rights that there are now: off counts as deleted does, and
/// who has shown no password is what a new connection would be.
#[test]
fn who_is_connected_is_judged_again_when_users_change() {
    let mut cluster = Cluster::with_maps(Variant::List, &[32 << 20; 3], &Settings::default());
    cluster.forwards = true;
    let (admin, bob, far) = (cluster.open(1), cluster.open(1), cluster.open(2));
    let (open, open_far) = (cluster.open(1), cluster.open(2));
    are(
        &mut cluster,
        1,
        admin,
        &[("ACL SETUSER bob on >pw ~* +@all / ACL SETUSER alice on >pw ~* +@all / AUTH alice pw", "+OK +OK +OK")],
    );
    cluster.pass(100);
    are(&mut cluster, 1, bob, &[("AUTH bob pw / PING", "+OK +PONG")]);
    are(&mut cluster, 2, far, &[("AUTH bob pw / SET k 1", "+OK +OK")]);
    are(&mut cluster, 1, open, &[("SET k 2", "+OK")]);
    are(&mut cluster, 2, open_far, &[("SET k 3", "+OK")]);
    // Requests that the other replica passes on come to a leader that knows of the change before it
    // does.
    cluster.at(2).is_cut_off = true;
    cluster.put(1, admin, b"ACL SETUSER bob off\r\nACL SETUSER default resetpass >other\r\n");
    cluster.settle();
    assert!(cluster.at(1).clients.is_over(bob) && !cluster.at(2).clients.is_over(far));
    are(&mut cluster, 2, far, &[("SET k 4", DENIED)]);
    are(&mut cluster, 2, open_far, &[("SET k 5", DENIED)]);
    cluster.at(2).is_cut_off = false;
    cluster.pass(200);
    assert!(cluster.at(2).clients.is_over(far));
    are(&mut cluster, 1, open, &[("GET k", DENIED)]);
    are(&mut cluster, 2, open_far, &[("GET k / AUTH other / GET k", &format!("{DENIED} +OK $1 3"))]);
    let late = cluster.open(1);
    are(&mut cluster, 1, late, &[("AUTH bob pw", "-WRONGPASS invalid username-password pair or user is disabled.")]);
}

/// A read that waits for the leader is done with the rights that there are when it is done.
#[test]
fn reads_that_wait_are_judged_again() {
    let mut cluster = closed(Variant::List);
    let (admin, bob) = (cluster.open(1), cluster.open(3));
    are(&mut cluster, 1, admin, &[("AUTH alice pw / ACL SETUSER bob on >pw ~* +@all / SET k secret", "+OK +OK +OK")]);
    cluster.pass(100);
    are(&mut cluster, 3, bob, &[("AUTH bob pw / GET k", "+OK $6 secret")]);
    cluster.at(3).is_cut_off = true;
    are(&mut cluster, 1, admin, &[("ACL SETUSER bob resetkeys ~a*", "+OK")]);
    cluster.put(3, bob, b"GET k\r\nGET a\r\n");
    cluster.at(3).is_cut_off = false;
    cluster.pass(300);
    let denied = "-NOPERM this user has no permissions to access one of the keys used as arguments";
    assert_eq!(says(&mut cluster, 3, bob, ""), format!("{denied} $-1"));
}

/// Redis answers a user who deletes itself, and closes the connection then; what it has sent behind
/// that is not done.
#[test]
fn who_deletes_itself_is_answered_first_and_does_nothing_more() {
    let mut cluster = Cluster::with_maps(Variant::List, &[32 << 20; 3], &Settings::default());
    cluster.forwards = true;
    for (id, rule) in
        [(1, "ACL DELUSER bob"), (2, "ACL DELUSER bob"), (1, "ACL SETUSER bob off"), (3, "ACL SETUSER bob off")]
    {
        let (admin, bob) = (cluster.open(1), cluster.open(id));
        are(&mut cluster, 1, admin, &[("ACL SETUSER bob on >pw ~* +@all", "+OK")]);
        cluster.pass(100);
        let answer = if rule.starts_with("ACL DEL") { ":1" } else { "+OK" };
        are(&mut cluster, id, bob, &[(&format!("AUTH bob pw / {rule} / SET k {id} / PING"), &format!("+OK {answer}"))]);
        assert!(cluster.at(id).clients.is_over(bob), "{id} {rule}");
        are(&mut cluster, 1, admin, &[("GET k", "$-1")]);
    }
    // The same holds for rights that it takes from itself.
    let bob = cluster.open(1);
    are(&mut cluster, 1, bob, &[("ACL SETUSER bob on / AUTH bob pw", "+OK +OK")]);
    let denied = "-NOPERM this user has no permissions to run the 'set' command";
    are(&mut cluster, 1, bob, &[("ACL SETUSER bob -set / SET k 1 / GET k", &format!("+OK {denied} $-1"))]);
}

/// A foreign page has a browser post commands to the address for clients.
#[test]
fn a_request_of_http_closes_the_connection_and_is_logged() {
    let mut cluster = Cluster::with_maps(Variant::List, &[32 << 20], &Settings::default());
    let admin = cluster.open(1);
    are(&mut cluster, 1, admin, &[("SET k 1", "+OK")]);
    for text in [
        "POST / HTTP/1.1\r\nHost: x\r\n\r\nFLUSHALL\r\n",
        "PUT / HTTP/1.1\r\nhOST: x\r\n\r\nFLUSHALL\r\n",
        "post\r\nFLUSHALL\r\n",
        "*1\r\n$5\r\nHost:\r\n*1\r\n$8\r\nFLUSHALL\r\n",
        "MULTI\r\nFLUSHALL\r\nHost: x\r\nEXEC\r\n",
    ] {
        let token = cluster.open(1);
        cluster.put(1, token, text.as_bytes());
        cluster.settle();
        assert!(cluster.at(1).clients.is_killed(token), "{text}");
        assert!(matches!(cluster.at(1).clients.take_notices()[..], [Notice::Http { .. }]), "{text}");
        cluster.at(1).clients.close(token);
    }
    assert_eq!(cluster.at(1).clients.statistics().http, 5);
    are(&mut cluster, 1, admin, &[("GET k", "$1 1")]);
}

/// Found: every connection could do everything as long as `default` had no password.
#[test]
fn a_connection_of_another_machine_is_refused_while_default_needs_no_password() {
    let mut cluster = Cluster::with_maps(Variant::List, &[32 << 20], &Settings::default());
    let admin = cluster.open(1);
    let connect = |cluster: &mut Cluster| {
        let (now_us, peer) = (cluster.now_us, Peer { is_remote: true, ..Peer::default() });
        cluster.at(1).clients.open(peer, now_us).expect("a connection")
    };
    let remote = connect(&mut cluster);
    let said = says(&mut cluster, 1, remote, "PING");
    assert!(said.starts_with("-DENIED ") && !said.contains("PONG"), "{said}");
    assert!(cluster.at(1).clients.is_over(remote));
    assert!(matches!(cluster.at(1).clients.take_notices()[..], [Notice::Unprotected { .. }]));
    are(&mut cluster, 1, admin, &[("ACL SETUSER bob on >pw ~* +@all / ACL SETUSER default resetpass >pw", "+OK +OK")]);
    let (bob, unauthenticated) = (connect(&mut cluster), connect(&mut cluster));
    are(&mut cluster, 1, bob, &[("PING / AUTH bob pw / PING", &format!("{DENIED} +OK +PONG"))]);
    are(&mut cluster, 1, admin, &[("AUTH pw / ACL SETUSER default nopass", "+OK +OK")]);
    cluster.pass(20);
    are(&mut cluster, 1, bob, &[("PING", "+PONG")]);
    assert!(cluster.at(1).clients.is_over(unauthenticated));
    // One that connects before the users are known is judged when they are.
    cluster.restart(1);
    let early = connect(&mut cluster);
    are(&mut cluster, 1, early, &[("PING", LOADING)]);
    cluster.at(1).node.campaign().expect("a store");
    cluster.pass(200);
    assert!(says(&mut cluster, 1, early, "PING").starts_with("-DENIED "));
}
