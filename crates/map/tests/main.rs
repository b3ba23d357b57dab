//! Tests of the maps through its interface, linked into one program; those of one file:
//! `cargo test -p perdura-map --test main NAME::`.

mod bad_files;
mod bit_flips;
mod concurrent_workers;
mod conformance;
mod errors;
mod fences;
mod full_region;
mod interleavings;
mod loads;
mod no_room_needed;
mod numbers_used_up;
mod sequences;
mod space;
mod stress;
mod support;
