//! Hazard: bytes of a peer, a client or a file that stop a replica, or are read as what nobody
//! wrote. These are the bodies of the fuzz targets, run from seeds; `cargo fuzz` looks further (see
//! `fuzz/`).
//!
//! `PERDURA_SEED=N` runs one input alone, `PERDURA_SOAK=N` N times as many.

#[path = "../../../fuzz/src/kv/mod.rs"]
mod kv;
use crate::support::seeds;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use bytes::BytesMut;
use perdura_kv::acl::{User, user_to_bytes};
use perdura_kv::entry::{Change, Kind, Tag, WriteBatch};
use perdura_kv::store::PersistentState;
use perdura_kv::wire::{
    Fetch, Forward, Forwarded, ForwardedCommand, PeerMessage, put_forward, put_forwarded, put_peer_message,
};
use perdura_pmem::sim::Random;

/// Runs `body` with an input for each seed, some of them samples with a few bytes changed.
fn run(name: &str, body: fn(&[u8]), inputs: u64, bytes_max: u64, samples: &[Vec<u8>]) {
    for seed in seeds::seeds(inputs) {
        let random = &mut Random::new(seed);
        let mut input: Vec<u8> = (0..random.below(bytes_max)).map(|_| random.below(256) as u8).collect();
        // Most choices are read from small numbers.
        input.iter_mut().for_each(|byte| *byte = if random.percent(30) { *byte % 16 } else { *byte });
        if !samples.is_empty() && random.percent(70) {
            input.clone_from(&samples[random.below(samples.len() as u64) as usize]);
            for _ in 0..random.below(4) {
                let at = random.below(input.len().max(1) as u64) as usize;
                if let Some(byte) = input.get_mut(at) {
                    *byte = if random.one_in(2) { random.below(256) as u8 } else { *byte ^ 1 << random.below(8) };
                }
            }
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(&input))) {
            eprintln!("{name}: PERDURA_SEED={seed} fails");
            resume_unwind(panic);
        }
    }
}

fn chosen(choice: u8, bytes: &[u8]) -> Vec<u8> {
    [&[choice], bytes].concat()
}

#[test]
fn frames_are_read_or_refused() {
    let fetch = PeerMessage::Fetch(Fetch { from: 1, to: 2, index: 3, term: 4, number: 5 });
    let mut out = BytesMut::new();
    put_peer_message(&fetch, &mut out);
    put_peer_message(&fetch, &mut out);
    let request = |line: &str| line.split(' ').map(|word| word.to_owned().into()).collect();
    let forward = Forward {
        number: 1,
        term: 2,
        newest: 3,
        is_resp3: false,
        is_transaction: true,
        user: "default".into(),
        watched: vec![("k".into(), 4)],
        requests: vec![
            ForwardedCommand { request: request("SET k v"), said: None },
            ForwardedCommand { request: request("PING"), said: Some("+PONG\r\n".into()) },
        ],
    };
    let (mut passed, mut answered) = (BytesMut::new(), BytesMut::new());
    put_forward(&forward, &mut passed);
    put_forwarded(&Forwarded { number: 1, newest: 2, versions: vec![3], reply: "+OK\r\n".into() }, &mut answered);
    let samples = [chosen(0, &out), chosen(9, &out[10..46]), chosen(12 * 4, &out)];
    let more = [chosen(4 * 4 + 1, &passed[10..]), chosen(5 * 4 + 1, &answered[10..]), chosen(8, &passed)];
    run("frames", kv::frames, 30_000, 120, &[&samples[..], &more].concat());
}

#[test]
fn requests_are_the_same_however_they_come() {
    let samples =
        ["*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\nbb\r\n*1\r\n$4\r\nPING\r\n", "SET a 'b c' \"\\x41\"\r\n\r\nPING\n*0\r\n"];
    run("requests", kv::requests, 20_000, 80, &samples.map(|text| chosen(3, text.as_bytes())));
}

#[test]
fn entries_and_tags_are_read_or_refused() {
    let change = Change { key: "key".into(), value: Some("value".into()) };
    let batch = WriteBatch { clock_ms: 5, changes: vec![change, Change { key: "b".into(), value: None }] };
    let tag = Tag { kind: Kind::Usual, term: 3, clock_ms: 4, context: "c".into() };
    let persistent_state = PersistentState::founder(7, 1, vec![1, 2, 3]);
    let rules = b"on #5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8 ~a* %R~b &c -@all +@string -set";
    let user = user_to_bytes(&User::of_rules(rules).expect("a user"));
    let samples = [
        chosen(0, &batch.to_bytes()),
        chosen(1, &tag.to_bytes()),
        chosen(2, &persistent_state.to_bytes()),
        chosen(8, &user),
        chosen(8, rules),
    ];
    run("entries", kv::entries, 20_000, 80, &samples);
}

#[test]
fn damaged_files_of_a_log_are_refused_or_used() {
    run("files", kv::files, 3000, 60, &[]);
}

#[test]
fn forged_messages_stop_no_replica() {
    run("replica", kv::replica, 4000, 400, &[]);
}
