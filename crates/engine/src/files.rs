//! Room *files*: what the medium holds of a table, file by file, and the checks of every place that
//! a word names.
//!
//! It owns the data files and their chain, the row directory as an array of words, the arithmetic
//! of cells, the pool's spare file, and the files that it keeps. It does not decide what is free;
//! `space` does. It stands on `format`, `service` and the medium. It keeps (I3) for links between
//! files: a file is synced, a kept one wiped, before the link word names it; (I2): of what may be committed it overwrites in place only single
//! words, link, descriptor, page state and directory word; and (I10): it stores through regions of
//! `pmem` only. It checks every offset that comes from the medium before following it.

pub(crate) mod cells;
pub(crate) mod chain;
pub(crate) mod context;
pub(crate) mod datafile;
pub(crate) mod directory;
pub(crate) mod kept;
pub(crate) mod spare;
pub(crate) mod stack;
