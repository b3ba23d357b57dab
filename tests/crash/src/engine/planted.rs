//! Errors of reasoning that can be planted in engine and log.

use crate::planted::Planted;

/// All of them, by number, from 1 to 99.
pub const PLANTED: &[Planted] = &[];
