//! Hazard: bytes of a journal, or of the files by which two directories know each other, that end
//! the process or are taken for what nobody wrote. These are the bodies of the fuzz targets, run
//! from seeds; `cargo fuzz` looks further (see `fuzz/`). Tests (I6) for the medium.
//!
//! `PERDURA_SEED=N` runs one input alone, `PERDURA_SOAK=N` N times as many.

#[path = "../../../fuzz/src/medium/mod.rs"]
mod medium;

use perdura_pmem::split_mix::SplitMix64;
use std::panic::{catch_unwind, resume_unwind};

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs `body` with an input for each seed, and names the seed that fails. The input begins with
/// one byte for the checksums; then each damage has its own twelve or so.
fn run(name: &str, body: fn(&[u8]), inputs: u64) {
    let seeds = match setting("PERDURA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..inputs * setting("PERDURA_SOAK").unwrap_or(1),
    };
    for seed in seeds {
        let mut random = SplitMix64::new(seed);
        let mut input: Vec<u8> = (0..random.below(40)).map(|_| random.next_u64() as u8).collect();
        // Most of a segment's bytes that matter are in few places: the heads of blocks.
        for place in input.chunks_mut(12).filter(|place| place.len() > 9) {
            if random.one_in(2) {
                let at = random.below(5) as u32 * 4096 + random.below(160) as u32;
                place[6..10].copy_from_slice(&at.to_le_bytes());
            }
        }
        if let Err(panic) = catch_unwind(|| body(&input)) {
            eprintln!("{name}: PERDURA_SEED={seed} fails");
            resume_unwind(panic);
        }
    }
}

#[test]
fn sound_input_is_accepted() {
    medium::journal(&[]);
    medium::pair(&[]);
}

#[test]
fn a_damaged_journal_is_refused_or_seen_as_it_is_replayed() {
    run("journal", medium::journal, 400);
}

#[test]
fn only_halves_of_one_pool_and_one_time_are_joined() {
    run("pair", medium::pair, 300);
}
