//! Tests of the log through its interface, linked into one program; those of one file:
//! `cargo test -p perdura-log --test main NAME::`.

mod crash;
mod damage;
mod errors;
mod examples;
mod generation_switch;
mod ghosts;
mod handed_over;
mod lane_choice;
mod lifecycle;
mod on_disk;
mod path;
mod sectors;
mod shrink;
mod stop;
mod stress;
mod support;
mod waiting;
