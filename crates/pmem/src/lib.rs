//! Persistent memory for Perdura: regions, flush and fence, pre-fault, and a simulated medium with a recorder.
//!
//! A [`Medium`] is a directory of regions, a [`Region`] one mapped file. [`FileMedium`] maps files through libpmem2;
//! [`SimMedium`] keeps them in DRAM and, when asked, records every event so that [`sim`] can build each legal crash
//! image. Locks and waits of the crates above come from [`sync`], so that a seeded scheduler can switch threads at
//! each event. All stores to persistent memory go through this crate (I10).

mod counters;
mod detail;
mod error;
mod file;
mod functions;
mod medium;
pub mod numa;
pub mod planted;
pub mod prefault;
mod region;
pub mod sim;
pub mod sync;
pub mod trace;

pub use counters::{Counters, counters};
pub use detail::Detail;
pub use error::{Error, ErrorKind, Result};
pub use file::{FileMedium, Options};
pub use medium::{Granularity, Medium, MediumInfo, Mode};
pub use planted::planted;
pub use region::{LINE_BYTES, Region, WORD_BYTES};
pub use sim::SimMedium;
