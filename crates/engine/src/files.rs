//! Room *files*: what the medium holds of a table, file by file, and the checks of every place that
//! a word names.
//!
//! It owns data files and their chain, the row directory, the arithmetic of cells, the pool's spare
//! file and the files that it keeps, and stands on `format`, `service` and the medium. It keeps
//! (I3): a file is synced, or a kept one wiped, before a link names it; (I2): it overwrites only
//! link, descriptor, page state and directory word; (I10). It checks every offset.

pub(crate) mod cells;
pub(crate) mod chain;
pub(crate) mod context;
pub(crate) mod datafile;
pub(crate) mod directory;
pub(crate) mod kept;
pub(crate) mod spare;
pub(crate) mod stack;
