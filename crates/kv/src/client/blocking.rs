//! Blocking operations of a connection, before whose end no further request is looked at: WAIT,
//! a request that the leader must answer first, and KEYS, which takes several steps.

use crate::command::Listing;
use crate::node::Holders;

/// Condition of a WAIT.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// Entry that replicas are to have.
    pub index: u64,
    /// The replica that the client is connected to.
    pub at: u64,
    /// Whether that one is to have it.
    pub here: bool,
    /// Number of others that are to have it.
    pub others: usize,
    /// When the answer is given in any case, in microseconds since 1970.
    pub until_us: u64,
    /// Whether the reply counts the replica at `at`.
    pub tells_here: bool,
}

impl Wait {
    /// Whether the replicas that have the entry are enough.
    pub(super) fn is_met(&self, holders: Holders) -> bool {
        holders.others >= self.others && (holders.is_here || !self.here)
    }
}

/// Progress of KEYS.
#[derive(Debug, Default)]
struct Progress {
    listing: Option<Listing>,
    us: u64,
}

/// Blocking operations of a connection.
#[derive(Debug, Default)]
pub(super) struct Blocking {
    wait: Option<Wait>,
    is_asking: bool,
    keys: Option<Progress>,
}

impl Blocking {
    /// Whether an operation is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.wait.is_some() || self.is_asking || self.is_listing()
    }

    /// Condition of the WAIT that is under way.
    pub(super) fn wait(&self) -> Option<Wait> {
        self.wait
    }

    /// WAIT begins, or ends.
    pub(super) fn set_wait(&mut self, wait: Option<Wait>) {
        self.wait = wait;
    }

    /// The leader was asked; `holds` if nothing more is done until it has answered.
    pub(super) fn ask(&mut self, holds: bool) {
        self.is_asking = holds;
    }

    /// The leader has answered a request that holds the connection up if `held`.
    pub(super) fn end_ask(&mut self, held: bool) {
        self.is_asking &= !held;
    }

    /// Whether KEYS is under way.
    pub(super) fn is_listing(&self) -> bool {
        self.keys.is_some()
    }

    /// KEYS begins.
    pub(super) fn begin_listing(&mut self) {
        self.keys = Some(Progress::default());
    }

    /// Takes out how far KEYS has come. `None`: it has not begun.
    pub(super) fn take_listing(&mut self) -> Option<Listing> {
        self.keys.as_mut()?.listing.take()
    }

    /// Puts back how far KEYS has come.
    pub(super) fn put_listing(&mut self, listing: Listing) {
        self.keys.get_or_insert_default().listing = Some(listing);
    }

    /// Counts microseconds that a step of KEYS has taken.
    pub(super) fn add_listing_us(&mut self, us: u64) {
        self.keys.get_or_insert_default().us += us;
    }

    /// KEYS ends. Returns the microseconds that it has taken.
    pub(super) fn end_listing(&mut self) -> u64 {
        self.keys.take().map_or(0, |progress| progress.us)
    }

    /// Bytes of what KEYS has found.
    pub(super) fn bytes(&self) -> usize {
        let listing = self.keys.as_ref().and_then(|progress| progress.listing.as_ref());
        listing.map_or(0, Listing::bytes)
    }
}
