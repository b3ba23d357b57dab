//! Transactions on whole replicas: MULTI, EXEC and WATCH, and refusals that rest on the moment.

use crate::support::cluster::Cluster;
use crate::support::lines::{are, leader, says};
use perdura_kv::client::Settings;

#[test]
fn a_transaction_is_one_entry_that_sees_its_own_writes() {
    let (mut cluster, token) = Cluster::one();
    let before = cluster.at(1).node.status().last;
    are(
        &mut cluster,
        1,
        token,
        &[(
            "MULTI / SET a 1 / INCR a / GET a / INCR b / SET c x / INCR c / PING / EXEC",
            "+OK +QUEUED +QUEUED +QUEUED +QUEUED +QUEUED +QUEUED +QUEUED *7 +OK :2 $1 2 :1 +OK -ERR value is not an integer or out of range +PONG",
        )],
    );
    assert_eq!(cluster.at(1).node.status().last, before + 1);
    are(
        &mut cluster,
        1,
        token,
        &[
            (
                "MULTI / SET a 9 / GET / EXEC",
                "+OK +QUEUED -ERR wrong number of arguments for 'get' command -EXECABORT Transaction discarded because of previous errors.",
            ),
            ("GET a", "$1 2"),
            ("MULTI / SET a 9 / DISCARD / GET a", "+OK +QUEUED +OK $1 2"),
            ("MULTI / EXEC", "+OK *0"),
            ("MULTI / PING / EXEC", "+OK +QUEUED *1 +PONG"),
            ("EXEC / DISCARD", "-ERR EXEC without MULTI -ERR DISCARD without MULTI"),
            (
                "MULTI / MULTI / WATCH a / EXEC",
                "+OK -ERR MULTI calls can not be nested -ERR WATCH inside MULTI is not allowed *0",
            ),
            (
                "MULTI / WAIT 0 0 / EXEC",
                "+OK -ERR Command not allowed inside a transaction -EXECABORT Transaction discarded because of previous errors.",
            ),
        ],
    );
}

/// Hazard: EXEC sends the length of an array and then leaves replies out of it, so the client takes
/// those that follow for its elements.
#[test]
fn replies_are_not_switched_off_within_a_transaction() {
    let (mut cluster, token) = Cluster::one();
    let refused = "-ERR Command not allowed inside a transaction";
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    for mode in ["OFF", "SKIP", "ON"] {
        let lines = format!("MULTI / CLIENT REPLY {mode} / PING / EXEC / PING");
        are(&mut cluster, 1, token, &[(&lines, &format!("+OK {refused} +QUEUED {aborted} +PONG"))]);
    }
    // Around a transaction they are, as in Redis.
    are(
        &mut cluster,
        1,
        token,
        &[
            (
                "CLIENT REPLY OFF / MULTI / SET a 1 / CLIENT REPLY ON / EXEC / GET a / CLIENT REPLY ON / GET a",
                "+OK $-1",
            ),
            ("CLIENT REPLY OFF / MULTI / SET a 1 / EXEC / GET a / CLIENT REPLY ON / GET a", "+OK $1 1"),
            ("MULTI / SET a 2 / EXEC / CLIENT REPLY SKIP / MULTI / GET a / EXEC", "+OK +QUEUED *1 +OK +QUEUED *1 $1 2"),
        ],
    );
}

#[test]
fn exec_does_nothing_if_a_watched_key_was_changed() {
    let (mut cluster, mine) = Cluster::one();
    let other = cluster.open(1);
    are(&mut cluster, 1, mine, &[("SET k 1 / WATCH k / GET k", "+OK +OK $1 1")]);
    are(&mut cluster, 1, mine, &[("MULTI / SET k 2 / EXEC", "+OK +QUEUED *1 +OK")]);
    are(&mut cluster, 1, mine, &[("WATCH k gone / GET k", "+OK $1 2")]);
    are(&mut cluster, 1, other, &[("SET k 2", "+OK")]);
    are(&mut cluster, 1, mine, &[("MULTI / SET k 3 / EXEC / GET k", "+OK +QUEUED *-1 $1 2")]);
    // Made, deleted, and watched again; forgotten by UNWATCH.
    are(
        &mut cluster,
        1,
        mine,
        &[("WATCH gone / SET gone 1 / DEL gone / MULTI / SET k 4 / EXEC", "+OK +OK :1 +OK +QUEUED *1 +OK")],
    );
    are(&mut cluster, 1, mine, &[("WATCH k", "+OK")]);
    are(&mut cluster, 1, other, &[("FLUSHALL", "+OK")]);
    are(
        &mut cluster,
        1,
        mine,
        &[(
            "HELLO 3 / MULTI / SET k 5 / EXEC",
            "%7 $6 server $5 redis $7 version $5 7.0.0 $5 proto :3 $2 id :1 $4 mode $7 cluster $4 role $6 master $7 modules *0 +OK +QUEUED _",
        )],
    );
    are(
        &mut cluster,
        1,
        mine,
        &[("WATCH k / SET k 1 / UNWATCH / MULTI / GET k / EXEC", "+OK +OK +OK +OK +QUEUED *1 $1 1")],
    );
    // The change is under way and not applied when the transaction comes.
    are(&mut cluster, 1, mine, &[("WATCH k", "+OK")]);
    cluster.put(1, other, b"SET k 7\r\n");
    cluster.put(1, mine, b"MULTI\r\nSET k 8\r\nEXEC\r\n");
    cluster.settle();
    assert_eq!(cluster.take(1, mine), b"+OK\r\n+QUEUED\r\n_\r\n");
    are(&mut cluster, 1, other, &[("GET k", "+OK $1 7")]);
}

/// Hazard: a refusal says that a key has ended, nothing of the log does, and a leader whose clock
/// is behind shows the key again.
#[test]
fn a_refusal_that_rests_on_the_moment_is_not_taken_back() {
    for (lines, wanted) in [("RENAME k l", "-ERR no such key"), ("MULTI / SET l 2 / EXEC", "+OK +QUEUED *-1")] {
        let mut cluster = Cluster::new(3, &Settings::default());
        let token = cluster.open(1);
        are(&mut cluster, 1, token, &[("SET k v EX 3600 / WATCH k", "+OK +OK")]);
        let before = cluster.now_us;
        cluster.now_us += 7_200_000_000;
        are(&mut cluster, 1, token, &[(lines, wanted)]);
        cluster.now_us = before;
        cluster.at(1).is_cut_off = true;
        cluster.pass(2_000);
        let leader = leader(&cluster);
        assert!(leader > 1, "{leader}");
        let other = cluster.open(leader);
        are(&mut cluster, leader, other, &[("GET k", "$-1")]);
    }
}

/// Two connections increment by WATCH and EXEC, with their steps interleaved at random: no
/// increment is lost.
#[test]
fn no_increment_by_watch_is_lost() {
    let (mut cluster, _) = Cluster::one();
    let tokens = [cluster.open(1), cluster.open(1), cluster.open(1)];
    let (mut done, mut random) = (0, 1_u64);
    let mut seen = [None::<u64>; 3];
    are(&mut cluster, 1, tokens[0], &[("SET n 0", "+OK")]);
    for _ in 0..600 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let who = (random >> 33) as usize % 3;
        match seen[who] {
            None => {
                let reply = says(&mut cluster, 1, tokens[who], "WATCH n / GET n");
                seen[who] = reply.rsplit(' ').next().and_then(|text| text.parse().ok());
                assert!(seen[who].is_some(), "{reply}");
            }
            Some(number) => {
                let reply = says(&mut cluster, 1, tokens[who], &format!("MULTI / SET n {} / EXEC", number + 1));
                done += u64::from(reply == "+OK +QUEUED *1 +OK");
                seen[who] = None;
            }
        }
    }
    assert!(done > 50, "{done}");
    are(&mut cluster, 1, tokens[0], &[("GET n", &format!("${} {done}", done.to_string().len()))]);
}
