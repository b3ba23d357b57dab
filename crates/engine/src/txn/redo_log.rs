//! The redo records of a transaction, and its handle of the log.

use crate::changes::write_set::WriteSet;
use crate::error::Result;
use crate::files::context::RedoForm;
use crate::pool::Pool;
use perdura_log::{Csn, LogTxn};

/// The redo records of a transaction.
#[derive(Default)]
pub(super) struct RedoLog {
    log: Option<LogTxn>,
    /// Records that no chunk has taken yet.
    records: Vec<u8>,
    /// Name under which the transaction is prepared.
    xid: Vec<u8>,
}

impl RedoLog {
    /// The log of a transaction that is prepared as `xid`.
    pub(super) fn prepared(log: LogTxn, xid: Vec<u8>) -> RedoLog {
        RedoLog { log: Some(log), records: Vec::new(), xid }
    }

    /// Whether the transaction has come to the log.
    pub(super) fn is_begun(&self) -> bool {
        self.log.is_some()
    }

    /// Gathers the redo records of `writes` by session `id`, in the form `form`. Full chunks go to
    /// the log at once.
    pub(super) fn gather(&mut self, pool: &Pool, id: u64, writes: &WriteSet, form: RedoForm) -> Result<()> {
        let log = match &mut self.log {
            Some(log) => log,
            slot => slot.insert(pool.log.begin(id)),
        };
        writes.log(&mut self.records, log, (pool.chunk_bytes, form))
    }

    /// Has another thread that makes the write of the commit record publish it, if there may be
    /// such a thread.
    pub(super) fn share_publication(&mut self, writes: &WriteSet) {
        if let Some(log) = self.log.as_mut().filter(|log| log.shares_writes())
            && let Some(writer) = writes.publication()
        {
            log.set_publication(writer);
        }
    }

    /// Reserves space, takes a CSN, writes and fences the commit record. `reserved` is called in
    /// between.
    pub(super) fn commit(&mut self, reserved: impl FnOnce()) -> Result<Csn> {
        let log = self.log.as_mut().expect("records were gathered");
        let reservation = log.reserve(self.records.len())?;
        reserved();
        Ok(log.commit(reservation, &self.records))
    }

    /// Prepares the transaction under the name `xid`.
    pub(super) fn prepare(&mut self, xid: &[u8]) -> Result<()> {
        let log = self.log.as_mut().expect("records were gathered");
        log.prepare(xid, &self.records)?;
        self.xid = xid.to_vec();
        Ok(())
    }

    /// Fences the commit record of a prepared transaction. Returns its CSN.
    pub(super) fn commit_prepared(&mut self) -> Csn {
        self.log.as_mut().expect("a prepared transaction has a prepare record").commit_prepared()
    }

    /// Takes the handle of the log.
    pub(super) fn take(&mut self) -> Option<LogTxn> {
        self.log.take()
    }

    /// Takes the name.
    pub(super) fn take_xid(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.xid)
    }

    /// Forgets records and name.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.xid.clear();
    }
}
