//! The peers: other people's systems, used as their documentation recommends, on the same
//! directory.

pub mod dram;
pub mod fjall;
pub mod index;
pub mod lmdb;
pub mod ordered;
pub mod pmemobj;
pub mod redb;
