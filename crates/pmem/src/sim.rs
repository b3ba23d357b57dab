//! The simulated medium, and the tools that test power loss on it.
//!
//! [`SimMedium`] is a medium like any other. [`Recorder::attach`] records its events in a
//! [`Trace`]; replaying that ([`Trace::replay`]) stops at each [`Point`] at which the power may
//! fail and makes the images a failure then may leave ([`Point::for_each_image`]), or what a killed
//! process leaves to the next ([`Point::kill`], [`Recorder::resume`]). Each [`Image`] is opened as
//! a medium of its own ([`SimMedium::from_image`]), which may be recorded in turn. [`Scheduler`]
//! runs several threads in an interleaving that a seed decides. Call sites can be muted
//! ([`ReplayOptions::muted`]) to test the tests, and [`Trace::lint`] finds lines left open and
//! needless flushes. Of a page medium ([`SimMedium::paged`]) images have torn pages, and a sync may
//! fail.

mod before;
mod event;
mod file_state;
mod hash;
pub(crate) mod hook;
pub mod image;
pub mod killed;
mod lines;
pub mod lint;
mod machine;
mod medium;
mod memory;
mod names;
mod page;
pub mod point;
pub mod recorder;
mod recording;
pub mod replay;
pub mod scheduler;
mod syncs;

pub use crate::split_mix::SplitMix64 as Random;
pub use crate::trace::{self, ack, mark, span};
pub use event::{CallSite, Event, EventKind, Mark, SiteKind};
pub use image::{Image, Seen};
pub use killed::Killed;
pub use lint::Findings;
pub use medium::SimMedium;
pub use point::{CHOICES_DEFAULT, Point, PointKind};
pub use recorder::Recorder;
pub use recording::Trace;
pub use replay::ReplayOptions;
pub use scheduler::{Body, Failure, Outcome, Scheduler};
