//! Room *files*: what lies on the medium for a table, file by file, and how a pointer into it is checked.
//!
//! It owns the data files and their chain, the row directory as an array of words, the arithmetic of cells, and the pool's spare file.
//! It decides nothing about what is free: that is `space`. It stands on `format`, `service` and the medium.
//! It keeps (I3) for links between files (a file is synced before the link names it), and it is where every offset that comes
//! from the medium is checked before it is followed.

pub mod cells;
pub mod chain;
pub mod context;
pub mod datafile;
pub mod directory;
pub mod spare;
