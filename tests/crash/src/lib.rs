//! The crash explorer: seeded runs of the engine on recorded simulated memory, and the real recovery of every kind of legal crash
//! image of them (docs/ARCHITECTURE.md, Testing; `pmem::sim` for what is legal).

pub mod explore;
pub mod mutation;
pub mod oracle;
pub mod scenario;
pub mod verdict;
pub mod workload;
