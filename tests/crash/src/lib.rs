//! The crash explorer: seeded runs on recorded simulated memory, and the real recovery of every kind of legal crash image of
//! them (docs/ARCHITECTURE.md, Testing; `pmem::sim` for what is legal).
//!
//! What is crashed is a [`subject::Subject`]: the engine ([`engine`]) and the ordered maps ([`map`]). All else is common
//! to them: the images ([`explore`]), the mutations ([`mutation`]), the seeds ([`campaign`]).

pub mod campaign;
pub mod engine;
pub mod explore;
pub mod map;
pub mod mutation;
pub mod planted;
pub mod run;
pub mod sources;
pub mod subject;
pub mod verdict;
mod workers;
