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

pub mod audit;
pub mod build;
mod bulk;
pub mod estimate;
pub mod find;
pub mod indexes;
pub mod insert;
pub mod leaf;
mod leaf_form;
mod leaf_list;
pub mod leaf_order;
pub mod leaf_shadow;
pub mod leaves;
pub mod measure;
pub mod open;
pub mod outermost;
mod pack;
pub mod page;
mod places;
mod populated;
pub mod purge;
mod queue;
pub mod redo;
pub mod replace;
mod stored_changes;
pub mod table_index;
#[cfg(test)]
mod tests;
pub mod touched;
