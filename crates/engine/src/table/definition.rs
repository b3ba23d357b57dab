//! What a table was created with.

use crate::format::IndexDefinition;
use std::sync::Arc;

/// What a table was created with. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// Its indexes.
    pub indexes: Arc<[IndexDefinition]>,
    /// The creator's bytes, unread by the engine.
    pub bytes: Arc<[u8]>,
}
