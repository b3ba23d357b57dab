//! Prepared transactions of a running log.

use crate::TxnId;
use crate::generation::{Pins, Placed};
use crossbeam_utils::CachePadded;
use perdura_pmem::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A prepared transaction, shared by its owner and whoever needs the generations it holds.
pub(crate) struct Prepared {
    pub(crate) txid: TxnId,
    pub(crate) state: Mutex<State>,
}

/// Mutable state of a prepared transaction: it changes when the transaction is copied forward or
/// ends.
pub(crate) struct State {
    pub(crate) pins: Pins,
    /// Its groups: chunks in order, then PREPARE.
    pub(crate) records: Vec<Placed>,
    /// Space for its ending; `None` until recovery has copied it forward.
    pub(crate) ending: Option<Placed>,
    /// Oldest activation that has, or had, a PREPARE record of it.
    pub(crate) since: u64,
    pub(crate) chunks: u32,
    pub(crate) chained: u32,
    pub(crate) ended: bool,
}

type Shard = Mutex<BTreeMap<TxnId, Arc<Prepared>>>;

/// Prepared transactions by id, in as many shards as there are lanes.
pub(crate) struct Registry(Box<[CachePadded<Shard>]>);

impl Registry {
    pub(crate) fn new(lanes: u32) -> Registry {
        Registry((0..lanes).map(|_| CachePadded::new(Mutex::new(BTreeMap::new()))).collect())
    }

    fn shard(&self, txid: TxnId) -> &Shard {
        &self.0[(txid % self.0.len() as u64) as usize]
    }

    pub(crate) fn add(&self, prepared: Arc<Prepared>) {
        self.shard(prepared.txid).lock().insert(prepared.txid, prepared);
    }

    pub(crate) fn remove(&self, txid: TxnId) {
        self.shard(txid).lock().remove(&txid);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Prepared>> {
        self.0.iter().flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|shard| shard.lock().len()).sum()
    }
}
