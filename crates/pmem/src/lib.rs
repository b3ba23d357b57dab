#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! A [`Medium`] is a directory of regions, a [`Region`] one mapped file. [`FileMedium`] maps files
//! through libpmem2; [`SimMedium`] keeps them in DRAM and, when asked, records every event so that
//! [`sim`] can build each legal crash image. The crates above take locks and wait through [`sync`],
//! which lets a seeded scheduler switch threads at each event. All stores to persistent memory go
//! through this crate (I10): the rules (I1) to (I11) are in `docs/invariants.md`. Errors are made
//! alike in all crates, by [`error_type!`] over [`Detail`].
//!
//! - `medium`, `region`: the two interfaces; `publish`: words stored in order; `functions`: how a
//!   mapping is flushed, chosen once; `health`: whether a medium has failed
//! - `split`: a pool's log and data on two media; `file`: files through libpmem2; `sim`: the
//!   simulated medium and crash images; `sync`: locks
//! - `model`: the time that emulated memory takes in place of another medium
//! - `prefault`, `heap`, `ahead`: pages, DRAM and lines ahead of their use; `numa`: threads near
//!   their memory
//! - `counters`, `trace`, `planted`: what is counted, recorded and broken for tests
//! - `checksum`, `units`, `detail`, `error`

#![warn(unreachable_pub)]

pub mod ahead;
pub mod checksum;
mod counters;
#[macro_use]
mod detail;
mod error;
mod file;
mod functions;
mod health;
pub mod heap;
mod medium;
mod model;
mod mutant;
pub mod numa;
pub mod planted;
pub mod prefault;
mod publish;
mod region;
pub mod sim;
mod split;
pub mod split_mix;
pub mod sync;
pub mod trace;
mod units;

pub use counters::{Content, Counters, counters};
pub use detail::Detail;
pub use error::{Error, ErrorKind, Result};
pub use file::{FileMedium, Options};
pub use health::{Health, any_failed};
pub use medium::{Granularity, Medium, MediumInfo, Mode};
pub use model::{Model, ModelledWrites, Preset};
pub use mutant::Mutant;
pub use numa::Modules;
pub use planted::planted;
pub use publish::{Step, fence_later, publish, publish_later, publish_when, wait_published};
pub use region::Region;
pub use sim::SimMedium;
pub use split::SplitMedium;
pub use units::{LINE_BYTES, WORD_BYTES};
