//! Times of day that are wrong: deadlines of keys must not notice, through writes, elections,
//! restarts and an operator's correction.

use crate::support::cluster::Cluster;
use crate::support::lines::{are, leader, says};
use perdura_kv::client::Settings;
use perdura_kv::node::{JUMP_MS_MAX, SLEW_PARTS};

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;
const TEN_YEARS_US: i64 = 3652 * DAY_US;

fn three() -> Cluster {
    Cluster::new(3, &Settings::default())
}

/// Lets time pass without ticks.
fn leap(cluster: &mut Cluster, us: i64) {
    cluster.now_us = cluster.now_us.saturating_add_signed(us);
    cluster.pass(10);
}

/// A key that is to end after a second does so, and one that is to end in an hour is still there.
fn seconds_last_a_second(cluster: &mut Cluster, id: u64) {
    let token = cluster.open(id);
    are(cluster, id, token, &[("GET hour / SET k v PX 1000", "$1 1 +OK")]);
    cluster.pass(960);
    are(cluster, id, token, &[("GET k", "$1 v")]);
    cluster.pass(80);
    are(cluster, id, token, &[("GET k", "$-1")]);
    are(cluster, id, token, &[("GET hour", "$1 1")]);
}

fn put_hour(cluster: &mut Cluster) {
    let token = cluster.open(1);
    are(cluster, 1, token, &[("SET hour 1 EX 3600", "+OK")]);
}

/// The distance of the calendar of a replica from the time that is right, in milliseconds.
fn error_ms(cluster: &mut Cluster, id: u64) -> i64 {
    let right_ms = cluster.now_us / 1000;
    cluster.at(id).node.clock().calendar_ms as i64 - right_ms as i64
}

/// Hazard: one write while the leader's clock is ten years ahead ends all keys, and no key ends
/// afterwards.
#[test]
fn a_clock_that_is_wrong_for_one_write_ends_no_key_and_lets_keys_end() {
    let mut cluster = three();
    put_hour(&mut cluster);
    cluster.at(1).ahead_us = TEN_YEARS_US;
    let token = cluster.open(1);
    are(&mut cluster, 1, token, &[("SET other 1", "+OK")]);
    let clock = cluster.at(1).node.clock();
    assert!(clock.is_refused && clock.refusals == 1 && clock.skew_ms > TEN_YEARS_US / 1000 - 100, "{clock:?}");
    seconds_last_a_second(&mut cluster, 1);
    cluster.at(1).ahead_us = 0;
    seconds_last_a_second(&mut cluster, 1);
    let clock = cluster.at(1).node.clock();
    assert!(!clock.is_refused && clock.refusals == 1, "{clock:?}");
    // Another leads.
    cluster.at(1).is_cut_off = true;
    cluster.pass(2_000);
    let other = leader(&cluster);
    assert_ne!(other, 1);
    seconds_last_a_second(&mut cluster, other);
    // All begin anew.
    cluster.at(1).is_cut_off = false;
    cluster.restart_together(&[1, 2, 3], 0, &Settings::default());
    cluster.pass(2_000);
    let next = leader(&cluster);
    seconds_last_a_second(&mut cluster, next);
    assert!(error_ms(&mut cluster, next).abs() < 100);
}

/// Hazard: the clock of the replica that is elected is another's by years, in either direction.
#[test]
fn a_new_leader_goes_on_with_the_time_of_the_old_one() {
    for ahead_us in [TEN_YEARS_US, -TEN_YEARS_US, 2 * JUMP_MS_MAX as i64 * 1000, -2 * JUMP_MS_MAX as i64 * 1000] {
        let mut cluster = three();
        for id in [2, 3] {
            cluster.at(id).ahead_us = ahead_us;
        }
        put_hour(&mut cluster);
        // The last entry is old by then, but for those that note the time.
        for _ in 0..4 {
            leap(&mut cluster, 200 * SECOND_US);
        }
        cluster.at(1).is_cut_off = true;
        cluster.pass(2_000);
        let other = leader(&cluster);
        assert_ne!(other, 1);
        seconds_last_a_second(&mut cluster, other);
        assert!(error_ms(&mut cluster, other).abs() < 500, "{} by {ahead_us}", error_ms(&mut cluster, other));
        assert!(cluster.at(other).node.clock().is_refused);
    }
}

/// A small difference is made up for, no faster than is said, and time does not go back for it.
#[test]
fn a_small_difference_is_made_up_for_slowly() {
    for sign in [1, -1] {
        let mut cluster = three();
        put_hour(&mut cluster);
        cluster.at(1).ahead_us = sign * 20 * SECOND_US;
        let (mut before, token) = (cluster.at(1).node.now_ms(), cluster.open(1));
        for second in 1..1200 {
            leap(&mut cluster, 990_000);
            are(&mut cluster, 1, token, &[("SET k v", "+OK")]);
            let now = cluster.at(1).node.now_ms();
            assert!(now > before, "{before} and then {now}");
            before = now;
            let error = sign * error_ms(&mut cluster, 1);
            let most = second * 1000 / SLEW_PARTS as i64;
            assert!(
                error <= most.min(20_000) + 10 && error >= (most - 60).min(19_900),
                "{error} of {most} at {second}"
            );
        }
        assert_eq!(cluster.at(1).node.clock().refusals, 0);
    }
}

/// Steady time is lost when all processes end: the time of day counts then, if it can be right.
#[test]
fn an_outage_passes_for_keys_too_but_not_ten_years_of_it() {
    let settings = Settings::default();
    for (ms, ahead_us, ends) in [(1, 0, false), (7_200_000, 0, true), (0, TEN_YEARS_US, false)] {
        let mut cluster = three();
        put_hour(&mut cluster);
        for id in [1, 2, 3] {
            cluster.at(id).ahead_us = ahead_us;
        }
        cluster.now_us += ms * 1000;
        cluster.restart_together(&[1, 2, 3], 0, &settings);
        cluster.pass(2_000);
        let id = leader(&cluster);
        let token = cluster.open(id);
        are(&mut cluster, id, token, &[("EXISTS hour", if ends { ":0" } else { ":1" })]);
        are(&mut cluster, id, token, &[("SET hour 1 EX 3600", "+OK")]);
        seconds_last_a_second(&mut cluster, id);
        let clock = cluster.at(id).node.clock();
        assert_eq!((clock.is_refused, clock.taken_ms > 0), (ahead_us > 0, ends), "{clock:?}");
    }
}

/// Hazard: nobody writes for weeks, and the start after it takes the right time for a wrong one.
#[test]
fn a_cluster_in_which_nobody_writes_knows_its_time_after_a_restart() {
    let mut cluster = three();
    for _ in 0..30 {
        leap(&mut cluster, DAY_US);
    }
    cluster.restart_together(&[1, 2, 3], 0, &Settings::default());
    cluster.pass(2_000);
    let id = leader(&cluster);
    assert!(error_ms(&mut cluster, id).abs() < 100);
    assert!(!cluster.at(id).node.clock().is_refused);
}

/// Hazard: a cluster that was made while the clock was ten years ahead keeps that time for good.
#[test]
fn an_operator_sets_the_time_right_for_all_replicas_and_for_good() {
    let mut cluster = three();
    for id in [1, 2, 3] {
        cluster.at(id).ahead_us = -TEN_YEARS_US;
    }
    put_hour(&mut cluster);
    cluster.restart_together(&[1, 2, 3], 0, &Settings::default());
    cluster.pass(2_000);
    let id = leader(&cluster);
    seconds_last_a_second(&mut cluster, id);
    assert!(cluster.at(id).node.clock().is_refused);
    let token = cluster.open(id);
    let right_ms = (cluster.now_us as i64 - TEN_YEARS_US) / 1000;
    are(
        &mut cluster,
        id,
        token,
        &[("MULTI / PERDURA.CLOCK / DISCARD", "+OK -ERR Command not allowed inside a transaction +OK")],
    );
    are(&mut cluster, id, token, &[(&format!("PERDURA.CLOCK SET {right_ms}"), &format!(":{right_ms}"))]);
    seconds_last_a_second(&mut cluster, id);
    assert_eq!(cluster.at(id).node.clock().refusals, 1);
    cluster.at(id).is_cut_off = true;
    cluster.pass(2_000);
    let other = leader(&cluster);
    assert_ne!(other, id);
    seconds_last_a_second(&mut cluster, other);
    for id in [1, 2, 3] {
        cluster.at(id).is_cut_off = false;
    }
    cluster.restart_together(&[1, 2, 3], 0, &Settings::default());
    cluster.pass(2_000);
    let next = leader(&cluster);
    seconds_last_a_second(&mut cluster, next);
    let clock = cluster.at(next).node.clock();
    assert!(!clock.is_refused && clock.skew_ms.abs() < 100, "{clock:?}");
    // The moments of the calendar are those of the right time.
    let (token, at) = (cluster.open(next), clock.calendar_ms + 1000);
    are(&mut cluster, next, token, &[(&format!("SET k v PXAT {at} / PEXPIRETIME k"), &format!("+OK :{at}"))]);
    let left: i64 = says(&mut cluster, next, token, "PTTL k").trim_start_matches(':').trim().parse().expect("a number");
    assert!((900..=1000).contains(&left), "{left}");
    // Forward, time passes.
    are(
        &mut cluster,
        next,
        token,
        &[(&format!("PERDURA.CLOCK SET {}", at + 3_600_000), &format!(":{}", at + 3_600_000))],
    );
    are(&mut cluster, next, token, &[("EXISTS hour k", ":0")]);
}

/// Hazard: WAIT ends at once, or never, when the time of day is set.
#[test]
fn wait_waits_by_steady_time() {
    for ahead_us in [-3_600 * SECOND_US, 3_600 * SECOND_US] {
        let mut cluster = three();
        cluster.at(3).is_cut_off = true;
        let token = cluster.open(1);
        cluster.put(1, token, b"SET k v\r\nWAIT 2 200\r\n");
        cluster.settle();
        cluster.at(1).ahead_us = ahead_us;
        cluster.pass(150);
        cluster.put(1, token, b"");
        assert_eq!(cluster.take(1, token), b"+OK\r\n");
        cluster.pass(60);
        assert_eq!(cluster.take(1, token), b":1\r\n");
    }
}
