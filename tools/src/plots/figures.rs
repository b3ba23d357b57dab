//! The pictures of each benchmark that papers have a figure or a table for.

mod groups;
mod kv;
mod lanes;
mod load;
mod map;
mod nflog;
mod prefault;
mod primitives;

use super::kept::Kept;
use super::picture::Picture;

/// All pictures of a benchmark whose values are there.
pub fn of(kept: &Kept) -> Vec<Picture> {
    match kept.bench.as_str() {
        "kv" => kv::pictures(kept),
        "load" => load::pictures(kept),
        "lanes" => lanes::pictures(kept),
        "map" => map::pictures(kept),
        "nflog" => nflog::pictures(kept),
        "prefault" => prefault::pictures(kept),
        "primitives" => primitives::pictures(kept),
        _ => Vec::new(),
    }
}
