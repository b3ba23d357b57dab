//! The crash explorer records seeded runs on simulated memory and lets the real recovery open every
//! kind of crash image that they may legally leave (docs/testing.md; `pmem::sim` says what is
//! legal).
//!
//! A [`subject::Subject`] is what crashes: the engine ([`engine`]) or the ordered maps ([`map`]).
//! They share all else: the images ([`explore`]), the mutations ([`mutation`]), the planted errors
//! ([`planted`]), the seeds ([`campaign`]).

pub mod campaign;
pub mod cost;
pub mod engine;
pub mod explore;
pub mod map;
pub mod mutation;
pub mod planted;
pub mod run;
pub mod sources;
pub mod subject;
mod unrecorded;
pub mod verdict;
mod workers;
