//! The C interface of the ordered maps, for programs that have a B+-tree library such as LMDB now.
//! The C interface of the ordered maps, for programs that have a B+-tree library such as LMDB now.
//!
//!
//! `include/perdura_map.h` is made from this module and needs no other header. A directory ([`directory`]) holds maps
//! `include/perdura_map.h` is made from this module and needs no other header. A directory ([`directory`]) holds maps
//! ([`open`]); a map is changed ([`change`]), read ([`read`], [`cursor`]), confirmed and taken back ([`progress`]), copied to
//! ([`open`]); a map is changed ([`change`]), read ([`read`], [`cursor`]), confirmed and taken back ([`progress`]), copied to
//! others ([`snapshot`], [`load`]) and looked after ([`space`]).
//! others ([`snapshot`], [`load`]) and looked after ([`space`]).
//!
//!
//! Invariants: no argument but a wild pointer can do harm: null, lengths beyond the limits and numbers out of range are
//! Invariants: no argument but a wild pointer can do harm: null, lengths beyond the limits and numbers out of range are
//! answered with a code. No panic crosses the interface; after one the map takes no more changes. What is read without a
//! answered with a code. No panic crosses the interface; after one the map takes no more changes. What is read without a
//! copy stays where it is until released, and a map with anything unreleased does not close.
//! copy stays where it is until released, and a map with anything unreleased does not close.
//!
//!
//! Thread-safety: a map may be used by many threads at once; a value, cursor, snapshot or loader by one at a time.
//! Thread-safety: a map may be used by many threads at once; a value, cursor, snapshot or loader by one at a time.

mod argument;
mod barrier;
pub mod change;
pub mod code;
pub mod cursor;
pub mod directory;
pub mod load;
pub mod open;
pub mod progress;
pub mod read;
pub mod snapshot;
pub mod space;
