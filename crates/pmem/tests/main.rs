//! Tests of the medium through its interface, linked into one program; those of one file:
//! `cargo test -p perdura-pmem --test main NAME::`.

mod bus;
mod conformance;
mod errors;
mod examples;
mod fuzz;
mod journal;
mod killed;
mod legality;
mod many_mappings;
mod modelled;
mod numa;
mod paged;
#[cfg(feature = "planted")]
mod planted;
mod prefault;
mod recorder;
mod scheduler;
mod sectors;
mod simulated;
mod split;
mod write_back;
mod written;
