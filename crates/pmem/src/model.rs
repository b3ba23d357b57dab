//! Models of media: emulated memory that takes the time of the medium named.
//!
//! A region of a modelled medium charges what passes it, and the thread spins that long. What does
//! not pass a region is not charged: reads through its address, lines that a cached store reads
//! first, and what one core's cache takes from another's.

mod account;
mod clock;
mod costs;
mod device;
mod preset;
mod written;

pub(crate) use device::Device;
pub use preset::{Model, Preset};
pub use written::ModelledWrites;
