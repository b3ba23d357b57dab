//! An index of a table: the form of its leaves, their order, and whether they are damaged.

use super::leaf_form::LeafForm;
use super::leaf_order::{LeafOrder, Sought};
use super::leaves::Leaves;
use super::replace::{Ground, Replacer};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{IndexDefinition, data_file_name};
use perdura_pmem::sync::Mutex;
use std::sync::{Arc, OnceLock};

/// An index of a table.
pub(crate) struct Index {
    form: LeafForm,
    order: LeafOrder,
    /// Locked while the first leaf is made.
    beginning: Mutex<()>,
    /// Damage of the index, if there is any.
    damage: OnceLock<String>,
}

impl Index {
    /// An index without leaves.
    pub(crate) fn new(number: u16, definition: IndexDefinition, leaves: Arc<Leaves>) -> Index {
        let form = LeafForm::new(number, definition, leaves.units_max());
        let (beginning, damage) = (Mutex::new(()), OnceLock::new());
        Index { form, order: LeafOrder::new(leaves), beginning, damage }
    }

    /// Its number in the table.
    pub(crate) fn number(&self) -> u16 {
        self.form.number()
    }

    /// The form of its leaves.
    #[inline]
    pub(super) fn form(&self) -> &LeafForm {
        &self.form
    }

    /// Its leaves.
    #[inline]
    pub(super) fn order(&self) -> &LeafOrder {
        &self.order
    }

    /// The table's leaves.
    #[inline]
    pub(super) fn leaves(&self) -> &Leaves {
        self.order.leaves()
    }

    /// Replaces its leaves.
    #[inline]
    pub(super) fn replacer(&self) -> Replacer<'_> {
        Replacer::new(&self.form, &self.order)
    }

    /// Notes that something is wrong with the index, which nobody uses from now on.
    pub(crate) fn set_damaged(&self, what: String) {
        let _ = self.damage.set(what);
    }

    /// Fails with Damaged if something is wrong with the index.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.damage.get() {
            None => Ok(()),
            Some(what) => {
                Err(Error::new(ErrorKind::Damaged, what.clone()).in_file(data_file_name(self.leaves().table(), 0)))
            }
        }
    }

    /// Goes ahead to the leaf of `key`, which is to be changed soon, and asks for it. The caller
    /// holds a snapshot.
    #[inline]
    pub(crate) fn seek(&self, key: &[u8]) -> Sought<'_> {
        self.order.seek(key)
    }

    /// Makes the first leaf, unless there is one.
    pub(super) fn begin(&self, ground: Ground<'_>) -> Result<()> {
        if !self.order.tree().is_empty() {
            return Ok(());
        }
        let _one = self.beginning.lock();
        if !self.order.tree().is_empty() {
            return Ok(());
        }
        let leaf = self.leaves().take(ground.segments, self.form.units(0, &[], 0))?;
        self.replacer().make(leaf, b"", 0, false);
        self.order.enter(leaf);
        Ok(())
    }
}
