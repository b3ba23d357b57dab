//! Hazard: bytes in a map's file, in a snapshot or in an argument that make a map panic, hang, or
//! return what nobody stored. These are the bodies of the fuzz targets, run from seeds;
//! `cargo fuzz` looks further (see `fuzz/`).
//!
//! `PERDURA_SEED=N` runs one input alone, `PERDURA_SOAK=N` N times as many.

#[path = "../../../fuzz/src/map/mod.rs"]
mod map;

use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// An input that takes longer than this hangs: most take less than a millisecond.
const DEADLINE: Duration = Duration::from_secs(100);

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Aborts the process and says why if no new seed comes in time. The test's own thread cannot do
/// it: it is the one that hangs.
fn watchdog(name: &'static str) -> Sender<u64> {
    let (beat, beats) = channel();
    std::thread::spawn(move || {
        let mut last = 0;
        loop {
            match beats.recv_timeout(DEADLINE) {
                Ok(seed) => last = seed,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("{name}: PERDURA_SEED={last} hangs");
                    std::process::abort();
                }
            }
        }
    });
    beat
}

/// Runs `body` with an input for each seed, and names the seed that fails.
fn run(name: &'static str, body: fn(&[u8]), inputs: u64, bytes_max: usize) {
    let seeds = match setting("PERDURA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..inputs * setting("PERDURA_SOAK").unwrap_or(1),
    };
    let beat = watchdog(name);
    for seed in seeds {
        beat.send(seed).expect("the watchdog lives as long as this");
        let mut random = StdRng::seed_from_u64(seed);
        let mut input = vec![0; random.random_range(0..=bytes_max)];
        random.fill_bytes(&mut input);
        // Most choices are read from small numbers.
        for byte in &mut input {
            if random.random_bool(0.3) {
                *byte %= 16;
            }
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(&input))) {
            eprintln!("{name}: PERDURA_SEED={seed} fails");
            resume_unwind(panic);
        }
    }
}

#[test]
fn a_damaged_file_is_refused_or_reads_as_persisted() {
    run("region", map::region, 600, 60);
}

/// The head of the file: identity, the ring of root records and the begin of the slots for aside
/// records; the summary's word; the page table, and the first of the pages.
const HEAD: [Range<u32>; 4] = [0..2400, 4416..4512, 8192..8256, 12 << 10..18 << 10];

/// Lost bytes read as zeros. Each word of the head is lost once, and some lines of the pages (with
/// PERDURA_SOAK each word).
#[test]
fn lost_bytes_are_noticed_or_do_not_matter() {
    const WORD: u8 = 3;
    const LINE: u8 = 0;
    let end = map::FILE_BYTES as u32;
    let (what, step) = if setting("PERDURA_SOAK").is_some() { (WORD, 8) } else { (LINE, 5 * 64) };
    let rest = (HEAD[3].end..end).step_by(step).map(|at| (what, at));
    let head = HEAD.into_iter().flat_map(|part| part.step_by(8).map(|at| (WORD, at)));
    for (what, at) in head.chain(rest) {
        for choice in 0..4 {
            let [a, b, c, d] = at.to_le_bytes();
            if let Err(panic) = catch_unwind(|| map::region(&[choice, what, a, b, c, d])) {
                eprintln!("lost at {at}, subject {choice}");
                resume_unwind(panic);
            }
        }
    }
}

/// Forging finds the objects that it changes by their checksums. If it finds none, it tests
/// nothing.
#[test]
fn forging_finds_the_objects() {
    use map::Shape::{Aside, Node, Record, Root};
    for choice in 0..4 {
        let is_tree = choice & 1 != 0;
        let bytes =
            map::subject(map::kind(is_tree), choice & 2 != 0).image.bytes_of(map::NAME).expect("the map's file");
        let found = map::objects(&bytes);
        let count = |shape| found.iter().filter(|object| object.shape == shape).count();
        let counts = (count(Root) > 8, count(Aside), count(Record) > 20, count(Node) > 5);
        assert_eq!(counts, (true, 2, true, is_tree), "subject {choice}");
    }
}

#[test]
fn a_changed_stream_is_refused_or_does_not_matter() {
    run("stream", map::stream, 300, 40);
}

#[test]
fn arguments_from_c_do_no_harm() {
    run("interface", map::interface, 300, 400);
}

#[test]
fn sound_input_is_accepted() {
    for choice in 0..4 {
        map::region(&[choice]);
        map::stream(&[choice]);
    }
    map::interface(&[]);
}
