//! Errors of reasoning that can be planted in the maps.

use crate::planted::Planted;

/// All of them, by number, from 100 on.
pub const PLANTED: &[Planted] = &[];
