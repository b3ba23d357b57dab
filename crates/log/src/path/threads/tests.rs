//! The threads of a stream with sessions beside them, in interleavings that a seed decides and on
//! threads of their own; and a thread that dies.

use super::super::config::{LogPath, PathConfig};
use super::super::order::Target;
use super::super::seat::Seat;
use super::*;
use crate::Csn;
use crate::publication::Commit;
use perdura_pmem::sim::{Body, Scheduler};
use perdura_pmem::sync::{Mutex, yield_now};
use perdura_pmem::{Health, Medium, Region, SimMedium};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

const LANE_BYTES: u64 = 1 << 20;
const SESSIONS: u64 = 6;
const PARTS: u64 = 40;
const STAGED: [LogPath; 5] = [LogPath::Classic, LogPath::Persist, LogPath::WriteAhead, LogPath::Local, LogPath::Nf];

fn stream(path: LogPath, turns: Turns) -> Arc<Stream> {
    let config = PathConfig { path, turns, buffer_bytes: 4 << 10, write_ahead_bytes: 1024 };
    Arc::new(Stream::new(&config, 64, Health::SOUND).expect("a staged path"))
}

fn lane() -> Region {
    SimMedium::new().create("lane", LANE_BYTES).expect("room")
}

/// The end of each commit's record, and the commits that were announced.
#[derive(Default)]
struct Told {
    ends: Mutex<BTreeMap<Csn, u64>>,
    announced: Mutex<Vec<Csn>>,
}

impl Told {
    /// Has the commits of the stream announced here: durable ones, unless it has failed.
    fn by(stream: &Arc<Stream>) -> Arc<Told> {
        let told = Arc::new(Told::default());
        let (own, stream_there) = (told.clone(), Arc::downgrade(stream));
        stream.announce_by(Box::new(move |commits| {
            let stream = stream_there.upgrade().expect("it runs");
            for Commit { csn, .. } in commits {
                let end = own.ends.lock()[&csn];
                assert!(stream.failure().is_some() || stream.durable().load() >= end, "CSN {csn}");
                own.announced.lock().push(csn);
            }
        }));
        told
    }

    /// Ends a commit, and waits until it is announced.
    fn commit(&self, stream: &Stream, seat: Seat<'_>, csn: Csn) {
        self.ends.lock().insert(csn, seat.end());
        stream.end_record(seat, Some(Commit { csn, publication: None }));
        while !self.announced.lock().contains(&csn) {
            yield_now();
        }
    }

    /// Each commit was announced, once.
    fn check(&self) {
        let mut announced = self.announced.lock().clone();
        announced.sort_unstable();
        assert_eq!(announced, self.ends.lock().keys().copied().collect::<Vec<_>>());
    }
}

/// Reserves blocks, joins, fills and waits, [`PARTS`] times, of which two thirds are commits; then
/// looks into the lane.
fn session((stream, told): (&Stream, &Told), region: &Region, tail: &AtomicU64, number: u64) {
    for part in 0..PARTS {
        let bytes = 64 * (1 + (part * 7 + number) % 20);
        let begin = tail.fetch_add(bytes.next_multiple_of(512), SeqCst);
        let target = Target { region, activation: 1, lane: 0 };
        let seat = stream.join(target, begin..begin + bytes.next_multiple_of(512), bytes).expect("it runs");
        let (offset, content) = (seat.offset(), vec![1 + (number * PARTS + part) as u8 % 251; bytes as usize]);
        yield_now();
        seat.store(offset, &content);
        match part % 3 {
            0 => assert!(stream.wait_durable(seat.fill())),
            _ => told.commit(stream, seat, number * PARTS + part),
        }
        let mut found = vec![0; bytes as usize];
        region.read(offset, &mut found);
        assert_eq!(found, content, "session {number}, part {part}");
    }
}

/// Hazard: a wake-up is lost, and a session waits for ever: the scheduler finds all waiting.
#[test]
fn nobody_is_left_waiting_in_any_interleaving() {
    for seed in 0..40 {
        let (stream, region) = (stream(STAGED[seed as usize % STAGED.len()], Turns::Caller), lane());
        let (told, tail, left) = (Told::by(&stream), AtomicU64::new(0), AtomicU64::new(SESSIONS));
        let mut all: Vec<Body<'_>> = bodies(&stream).into_iter().map(|body| body as Body<'_>).collect();
        for number in 0..SESSIONS {
            let (stream, told, region, tail, left) = (&stream, &*told, &region, &tail, &left);
            all.push(Box::new(move || {
                session((stream, told), region, tail, number);
                if left.fetch_sub(1, SeqCst) == 1 {
                    stream.end(NOTIFIERS_END);
                }
            }));
        }
        Scheduler::new(seed).switch_one_in(1 + seed % 5).run(all);
        told.check();
    }
}

#[test]
fn sessions_and_threads_of_their_own() {
    for turns in [Turns::Own, Turns::Waiters] {
        for path in STAGED {
            let (stream, region, tail) = (stream(path, turns), lane(), AtomicU64::new(0));
            let (told, threads) = (Told::by(&stream), Threads::start(&stream, || None));
            std::thread::scope(|scope| {
                for number in 0..SESSIONS {
                    let (stream, told, region, tail) = (&stream, &*told, &region, &tail);
                    scope.spawn(move || session((stream, told), region, tail, number));
                }
            });
            drop(threads);
            told.check();
            let status = stream.status();
            let bytes: u64 = (0..SESSIONS * PARTS).map(|at| 64 * (1 + (at % PARTS * 7 + at / PARTS) % 20)).sum();
            assert_eq!(status.written_bytes, bytes, "{status}");
            assert!((status.written_bytes + status.padding_bytes).is_multiple_of(512), "{status}");
            assert!(status.writes > 0 && status.syncs > 0 && status.copied_bytes <= bytes, "{status}");
        }
    }
}

/// A part that does not lie in its file panics in the log writer. Whoever waits is told, so is
/// whoever comes later, and commits are announced so that they can be refused.
#[test]
fn a_writer_that_dies_ends_all_waits() {
    let (stream, region) = (stream(LogPath::Classic, Turns::Own), lane());
    let (told, threads) = (Told::by(&stream), Threads::start(&stream, || None));
    let target = Target { region: &region, activation: 1, lane: 0 };
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (stream, region, told) = (&stream, &region, &told);
            scope.spawn(move || {
                let target = Target { region, activation: 1, lane: 0 };
                let Some(seat) = stream.join(target, 2 * LANE_BYTES..2 * LANE_BYTES + 512, 64) else { return };
                seat.store(seat.offset(), &[1; 64]);
                match number % 2 {
                    0 => assert!(!stream.wait_durable(seat.fill())),
                    _ => told.commit(stream, seat, number),
                }
            });
        }
    });
    assert!(stream.failure().is_some_and(|reason| reason.contains("perdura-log-wr of the log has panicked")));
    assert!(stream.join(target, 0..512, 64).is_none());
    drop(threads);
    told.check();
}

/// A session that panics between its place and its record is not waited for.
#[test]
fn a_part_that_is_never_filled_is_written_as_zeros() {
    let (stream, region) = (stream(LogPath::Nf, Turns::Waiters), lane());
    region.write(0, &[7; 512]);
    let target = Target { region: &region, activation: 1, lane: 0 };
    let lost = stream.join(target, 0..512, 128).expect("it runs");
    let seat = stream.join(target, 512..1024, 64).expect("it runs");
    seat.store(seat.offset(), &[1; 64]);
    lost.store(64, &[2; 64]);
    drop(lost);
    assert!(stream.wait_durable(seat.fill()));
    let mut found = [0; 192];
    region.read(0, &mut found);
    assert_eq!(found, [[0; 64], [0; 64], [1; 64]].concat()[..]);
}

/// A session waits for room in the log buffer, not for ever, and not for one that waits as well.
#[test]
fn a_full_buffer_is_waited_for() {
    for turns in [Turns::Own, Turns::Waiters] {
        let (stream, region) = (stream(LogPath::Nf, turns), lane());
        let threads = Threads::start(&stream, || None);
        let target = Target { region: &region, activation: 1, lane: 0 };
        let mut end = 0;
        for at in (0..64 * 1024).step_by(1024) {
            let seat = stream.join(target, at..at + 1024, 1024).expect("it runs");
            end = seat.fill();
        }
        assert!(stream.wait_durable(end) && (turns == Turns::Own || stream.status().waits_for_room > 0));
        drop(threads);
    }
}
