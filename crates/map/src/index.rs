//! What differs between the two structures: the ordered index of the keys, one entry for each.
//!
//! An entry is a reference to the key's newest record, from which older versions are reached. An entry whose record is a
//! deletion stays until the deletion is forgotten, and then until the index sweeps the leaf it lies in.

use crate::config::{Kind, Layout};
use crate::error::Result;
use crate::format::{Ref, RootRecord};
use crate::pages::{Pages, Urgency};
use crate::pin::Pins;
use crate::record::{Record, Records};
use crate::timestamps::Ts;

/// A map's index: [`crate::ListIndex`] (DRAM) or [`crate::TreeIndex`] (pages).
#[allow(private_interfaces, reason = "only this crate's two structures are meant")]
pub trait Index: Sized + Send + Sync + 'static {
    #[doc(hidden)]
    const KIND: Kind;
    /// What the writer's lock guards.
    #[doc(hidden)]
    type Writer: Send;
    /// Where a key's entry is, or would be.
    #[doc(hidden)]
    type Place;
    /// A whole index that is not in force yet.
    #[doc(hidden)]
    type Built;

    /// The index of a root record. That of a list is empty, until one built from its records is installed.
    #[doc(hidden)]
    fn open(layout: &Layout, pages: &Pages, records: &Records, root: &RootRecord) -> Result<(Self, Self::Writer)>;

    /// The newest record of a key. The caller is the writer, or has pinned. Error: `Damaged`.
    #[doc(hidden)]
    fn newest<'r>(&self, records: &'r Records, key: &[u8]) -> Result<Newest<'r>>;

    /// Walks the entries from the first not below `from` on, those of the root that [`Index::root`] returned, or with
    /// none the present ones. The caller has pinned.
    #[doc(hidden)]
    fn walk<'m>(&'m self, records: &'m Records, root: Option<u64>, from: &[u8]) -> Result<Box<dyn Walk + 'm>>;

    /// The place of a key, and its newest record. For the writer.
    #[doc(hidden)]
    fn locate<'r>(&self, writer: &Self::Writer, records: &'r Records, key: &[u8]) -> Result<(Self::Place, Newest<'r>)>;

    /// Makes the entry at a key's place name `record`, or removes it. Nothing has changed since the place was found. Readers
    /// see it at the latest when it is published. Error: `Full`, after which the caller aborts.
    #[doc(hidden)]
    fn put(&self, edit: &mut Editing<'_, Self>, place: &Self::Place, key: &[u8], record: Option<Ref>) -> Result<()>;

    /// Removes the entries of forgotten deletions from the leaf that holds a key's. Error: `Full`, after which the caller
    /// aborts.
    #[doc(hidden)]
    fn sweep(&self, edit: &mut Editing<'_, Self>, key: &[u8]) -> Result<()>;

    /// Builds an index of entries in ascending order, none of which is installed. Error: `Full`.
    #[doc(hidden)]
    fn build(&self, edit: &mut Editing<'_, Self>, entries: &[Entry]) -> Result<Self::Built>;

    /// Replaces all entries. The pages' counts have been discarded.
    #[doc(hidden)]
    fn install(&self, edit: &mut Editing<'_, Self>, built: Self::Built, pins: &Pins);

    /// Shows readers what was changed.
    #[doc(hidden)]
    fn publish(&self, writer: &mut Self::Writer);

    /// Takes back what is not published. Returns whether that is all since the last publication.
    #[doc(hidden)]
    fn abort(&self, writer: &mut Self::Writer, pages: &mut Pages) -> bool;

    /// The root as a root record names it. 0 for an index that is rebuilt at start.
    #[doc(hidden)]
    fn root(&self) -> u64;

    /// Count of the nodes in pages.
    #[doc(hidden)]
    fn nodes(writer: &Self::Writer) -> u64;

    /// Called before each confirmation, when all is published.
    #[doc(hidden)]
    fn confirms(writer: &mut Self::Writer, pages: &mut Pages);

    /// Called after each confirmation.
    #[doc(hidden)]
    fn confirmed(writer: &mut Self::Writer, pages: &mut Pages, pins: &Pins);

    /// Drops what is kept for reuse in pages that are to be emptied.
    #[doc(hidden)]
    fn leave_retired(writer: &mut Self::Writer, pages: &Pages, pins: &Pins);

    /// Reuses what no reader can see any more, or with `held` no snapshot. Cheap when there is little.
    #[doc(hidden)]
    fn recycle(writer: &mut Self::Writer, pages: &mut Pages, pins: &Pins, held: bool);
}

/// What a change of the index works on.
pub(crate) struct Editing<'e, I: Index> {
    pub(crate) writer: &'e mut I::Writer,
    pub(crate) pages: &'e mut Pages,
    pub(crate) records: &'e Records,
    pub(crate) urgency: Urgency,
    /// Deletions up to here may be swept.
    pub(crate) forgotten: Ts,
    /// Receives the records that were swept.
    pub(crate) dead: &'e mut Vec<Ref>,
}

/// The newest record of a key, if the key has an entry.
pub(crate) type Newest<'r> = Option<(Ref, Record<'r>)>;

/// An entry for [`Index::build`]: the first sixteen bytes of the key as a number, and the record.
pub(crate) type Entry = (u128, Ref);

/// A walk over entries, in ascending order.
pub(crate) trait Walk: Send {
    /// The next entry's record, or none at the end. Error: `Damaged`.
    fn next(&mut self) -> Result<Option<Ref>>;
}
