//! Room *index*: ordered indexes over the keys of rows.
//!
//! It owns the leaves on the medium, their shadows, and the index of the leaves in DRAM.
//! `docs/indexes.md` is the design. The room stands on `space` and `shadow`. It knows keys and row
//! numbers, no rows. It keeps (I2): of a leaf in use only the valid word changes in place; (I3): a
//! leaf's content is fenced before its state says that it is in use; (I4): the valid word has
//! entries of durable commits only; and (I8): a slot is used again, and a place, when neither
//! snapshot nor redo needs what is there.
//!
//! A table has `indexes` over one set of `leaves` (`leaf_list`, `places`, `queue`); a leaf is its
//! bytes (`leaf`) and its shadow (`leaf_shadow`, `stored_changes`). A `table_index` is composed of
//! the form of its leaves (`leaf_form`) and their order (`leaf_order`, `populated`). It is read by
//! `find`, `outermost`, `estimate` and `measure`, page by `page`, and changed by `insert` and
//! `redo`. Leaves are replaced by `replace`, packed by `pack`, and written in order by `bulk` for
//! `build`. `open`, `purge` and `audit` go through all of a table's indexes.

pub(crate) mod audit;
pub(crate) mod bounds;
pub(crate) mod build;
mod bulk;
mod entry_order;
pub(crate) mod estimate;
pub(crate) mod find;
pub(crate) mod indexes;
pub(crate) mod insert;
pub(crate) mod leaf;
mod leaf_form;
mod leaf_list;
pub(crate) mod leaf_order;
pub(crate) mod leaf_shadow;
pub(crate) mod leaves;
pub(crate) mod measure;
pub(crate) mod open;
pub(crate) mod outermost;
mod pack;
pub(crate) mod page;
mod places;
mod populated;
pub(crate) mod purge;
mod queue;
pub(crate) mod redo;
pub(crate) mod replace;
mod stored_changes;
pub(crate) mod table_index;
#[cfg(test)]
mod tests;
pub(crate) mod touched;
