//! Count of what the next persist would save.

/// Changes since the last persist. Owned by the writer's lock.
#[derive(Default)]
pub(crate) struct Unpersisted {
    changes: u32,
    is_dirty: bool,
}

impl Unpersisted {
    /// Counts changes of keys.
    #[inline]
    pub(crate) fn add(&mut self, count: u32) {
        self.changes = self.changes.saturating_add(count);
        self.is_dirty = true;
    }

    /// Notes that a persist would save something.
    #[inline]
    pub(crate) fn note(&mut self) {
        self.is_dirty = true;
    }

    /// [`Unpersisted::note`], if it is so.
    #[inline]
    pub(crate) fn note_if(&mut self, is_dirty: bool) {
        self.is_dirty |= is_dirty;
    }

    #[inline]
    pub(crate) fn changes(&self) -> u32 {
        self.changes
    }

    /// Whether a persist would save anything.
    #[inline]
    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    pub(crate) fn clear(&mut self) {
        *self = Unpersisted::default();
    }
}
