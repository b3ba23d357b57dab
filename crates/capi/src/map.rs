//! The interface of the ordered maps: `include/perdura_map.h` is made from these files.
//!
//! A directory ([`directory`]) holds maps ([`open`]). A program changes a map ([`change`]), reads
//! it ([`read`], [`cursor`], [`view`]), keeps a replicated log in it ([`replicated`]), moves its
//! timestamps on ([`progress`]), copies it to another ([`snapshot`], [`load`]) and maintains it
//! ([`space`]).
//!
//! From the bottom up: `code`, `call`, `argument`, `result`; `directory`, `open`; the rest, of
//! which `snapshot` uses `progress`. Stands on `perdura-map`.
//!
//! Invariants: only a wild pointer can do harm. Null, a length beyond the limits and a number out
//! of range are answered with a code. After a panic the map takes no more changes. A value that was
//! read without a copy stays where it is until released, and a map with anything unreleased does
//! not close.
//!
//! Thread-safety: any number of threads may use a map; one at a time uses a value, view, cursor,
//! snapshot or loader.

mod argument;
mod call;
pub mod change;
pub mod code;
pub mod cursor;
pub mod directory;
pub mod load;
pub mod open;
pub mod progress;
pub mod read;
pub mod replicated;
mod result;
pub mod snapshot;
pub mod space;
#[cfg(test)]
mod tests;
pub mod view;
