//! The simulated medium: regions in DRAM, and what is built on them to test power loss.
//!
//! The pieces: [`SimMedium`] is a medium like any other; [`image::Image`] is the content of one at rest.

pub(crate) mod hook;
pub mod image;
pub(crate) mod medium;
mod memory;
pub mod random;
mod scheduler;

pub use crate::trace;
pub use crate::trace::{ack, mark, span};
pub use image::Image;
pub use medium::SimMedium;
pub use random::Random;
pub use scheduler::{Body, Failure, Outcome, Scheduler};
