#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! - `tree`: what readers ask; `descent`: the way down
//! - `writer`: insert and remove; `split` and `shrink`: what they do to the shape
//! - `trunk`: what readers and writer share; `audit`: whether all of it holds together
//! - `node`: a node, its version and how it is read; `arena`: the memory of nodes; `keys`: heads
//!
//! Invariants:
//! - The separator before a child is the reference of the smallest entry below that child. So a
//!   search that ends left of a child's entries has the answer at hand, and no separator names an
//!   entry that was removed.
//! - A node's memory stays a node's for as long as the tree lives, and its version only grows. So a
//!   reader that comes late reads some node, and finds its version changed.
//! - A writer marks every node that a change concerns before it unmarks the first of them, and one
//!   of those that a reader must pass from before the first store until after the last. So a reader
//!   sees all of a change or none of it.
//! - A reader follows a pointer, or asks for a reference's key, only after it has found the node
//!   unchanged since.

#![warn(unreachable_pub)]

mod arena;
mod atomic;
mod audit;
mod descent;
mod keys;
mod node;
mod shrink;
mod split;
mod tree;
mod trunk;
mod writer;

pub use keys::Keys;
pub use tree::{Place, Tree};
pub use writer::Writer;
