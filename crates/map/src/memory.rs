//! Memory of a map: the format of its file, records and pages in it, and the point from which
//! memory that nothing needs any more is used again.
//!
//! - [`format`]: sizes, words and checks of everything that is persistent, but for [`root`], the
//!   root record and its ring, and [`aside`], the meta blob and long tags
//! - [`record`], [`append`]: records, read in place and written
//! - [`pages`]: allocation in pages, over [`page_table`] (persistent), [`free_map`], [`page_use`]
//!   and [`page_counts`]; [`window`]: the search for pages that a compaction empties; [`prefault`]:
//!   pages mapped ahead of the writer
//! - [`pin`], [`retired`]: readers' epochs, and what waits for their end
//! - [`batch`], [`bitmap`], [`atomic`]

pub(crate) mod append;
pub(crate) mod aside;
pub(crate) mod atomic;
pub(crate) mod batch;
pub(crate) mod bitmap;
pub(crate) mod format;
pub(crate) mod free_map;
pub(crate) mod page_counts;
pub(crate) mod page_table;
pub(crate) mod page_use;
pub(crate) mod pages;
pub(crate) mod pin;
pub(crate) mod prefault;
pub(crate) mod record;
pub(crate) mod retired;
pub(crate) mod root;
pub(crate) mod window;
