//! The directory of a replayed medium: which name leads to which file, and which changes of that
//! are open.
//!
//! Until the directory is synced, each change since the last sync may have survived or not. Those
//! that did are applied in order; a change whose precondition is then missing (a removal of a name
//! that never survived) does nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Names and file numbers.
pub(crate) type Names = BTreeMap<Arc<str>, u32>;

/// A change of the directory.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Create { name: Arc<str>, file: u32 },
    Remove { name: Arc<str> },
    Rename { from: Arc<str>, to: Arc<str> },
}

impl Change {
    pub(crate) fn apply(&self, names: &mut Names) {
        match self {
            Change::Create { name, file } => {
                names.entry(name.clone()).or_insert(*file);
            }
            Change::Remove { name } => {
                names.remove(name);
            }
            Change::Rename { from, to } => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
        }
    }
}

/// The durable directory and the changes since it was synced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    pub(crate) durable: Names,
    pub(crate) open: Vec<Change>,
}

impl Directory {
    /// Makes all changes durable.
    pub(crate) fn sync(&mut self) {
        for change in self.open.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// The directory with the changes that `survived` selects by number.
    pub(crate) fn with(&self, survived: impl Fn(usize) -> bool) -> Names {
        let mut names = self.durable.clone();
        for (_, change) in self.open.iter().enumerate().filter(|(index, _)| survived(*index)) {
            change.apply(&mut names);
        }
        names
    }

    /// Whether a crash now could leave the file with a name.
    pub(crate) fn can_name(&self, file: u32) -> bool {
        let created = |change: &Change| matches!(change, Change::Create { file: made, .. } if *made == file);
        self.durable.values().any(|named| *named == file) || self.open.iter().any(created)
    }
}
