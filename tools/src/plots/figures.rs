//! The pictures of each benchmark that papers have a figure or a table for.

mod lanes;
mod load;
mod nflog;
mod prefault;
mod primitives;

use super::kept::Kept;
use super::picture::Picture;

/// All pictures of a benchmark whose values are there.
pub fn of(kept: &Kept) -> Vec<Picture> {
    match kept.bench.as_str() {
        "load" => load::pictures(kept),
        "lanes" => lanes::pictures(kept),
        "nflog" => nflog::pictures(kept),
        "prefault" => prefault::pictures(kept),
        "primitives" => primitives::pictures(kept),
        _ => Vec::new(),
    }
}
