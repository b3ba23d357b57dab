//! The audit behind [`crate::OrderedMap::check`]: reads and checks everything reachable.
//!
//! It checks the order and checksums of the index, the chain of records, and that nothing reachable lies in a free
//! page. If nothing has changed meanwhile, it also compares the counts of live and held bytes with what is reachable,
//! so that no space is lost.

use crate::config::Kind;
use crate::error::Result;
use crate::format::Ref;
use crate::index::{Index, Store, for_each_node};
use crate::scan::Cursor;
use crate::snapshot::Snapshot;
use crate::state::Core;
use rustc_hash::FxHashSet;

/// Bytes and entries that the audit has reached.
#[derive(Default)]
struct Reachable {
    entries: FxHashSet<Ref>,
    node_bytes: u64,
    /// Rollback records that the index does not name.
    orphan_bytes: u64,
    /// List: every record of the chain.
    chain_bytes: u64,
}

impl<I: Index> Core<I> {
    /// Audits the map. Returns the number of versions.
    pub(crate) fn check(&self) -> Result<u64> {
        {
            let _collector = self.collector.lock();
            self.traverse()?;
        }
        let snapshot = self.snapshot()?;
        let mut reachable = Reachable::default();
        self.check_nodes(&snapshot, &mut reachable)?;
        self.check_entries(&snapshot, &mut reachable)?;
        self.check_chain(&snapshot, &mut reachable)?;
        self.check_space(snapshot.number, &reachable)?;
        Ok(snapshot.versions)
    }

    fn check_nodes(&self, snapshot: &Snapshot<'_>, reachable: &mut Reachable) -> Result<()> {
        // The index of a list exists only for the present: the snapshot does not hold its nodes, so pin them.
        let _pin = self.pins.pin();
        let root = if I::KIND == Kind::List { self.root() } else { snapshot.root };
        for_each_node(&self.reader, root, &mut |link, node| {
            I::Store::verify(&self.reader, link)?;
            if I::KIND == Kind::BTree {
                reachable.node_bytes += Ref(link).len();
            }
            node.check_heads(&self.records)
        })
    }

    fn check_entries(&self, snapshot: &Snapshot<'_>, reachable: &mut Reachable) -> Result<()> {
        if I::KIND == Kind::List {
            // The index of a list exists only for the present: the snapshot does not hold its nodes, so pin them.
            let _pin = self.pins.pin();
            return self.check_order(self.root(), reachable);
        }
        self.check_order(snapshot.root, reachable)?;
        if reachable.entries.len() as u64 != snapshot.versions {
            let (found, said) = (reachable.entries.len(), snapshot.versions);
            let what = format!("{found} versions found, {said} counted");
            return Err(self.records.damaged(Ref(snapshot.root).offset(), &what));
        }
        Ok(())
    }

    fn check_order(&self, root: u64, reachable: &mut Reachable) -> Result<()> {
        let mut cursor = Cursor::seek(&self.reader, &self.records, root, None)?;
        let mut before: Option<(&[u8], u64)> = None;
        while let Some((record, found)) = cursor.next()? {
            self.records.verify(record.offset(), &found)?;
            let this = (found.key, found.header.ts);
            if before.is_some_and(|before| before >= this) {
                return Err(self.records.damaged(record.offset(), "entries of the index out of order"));
            }
            before = Some(this);
            reachable.entries.insert(record);
        }
        Ok(())
    }

    fn check_chain(&self, snapshot: &Snapshot<'_>, reachable: &mut Reachable) -> Result<()> {
        let most = self.records.geometry.records_max();
        let is_list = I::KIND == Kind::List;
        let mut offset = snapshot.head;
        let mut count = 0;
        let mut linked = 0;
        while offset != 0 && (is_list || count < snapshot.pending) {
            let (record, found) = self.records.at(offset)?;
            self.records.verify(offset, &found)?;
            reachable.chain_bytes += record.len();
            let is_entry = reachable.entries.contains(&record);
            linked += u64::from(is_entry);
            if count < snapshot.pending && !is_entry {
                reachable.orphan_bytes += record.len();
            }
            count += 1;
            if count > most {
                return Err(self.records.damaged(offset, "the chain of records runs in a circle"));
            }
            offset = self.records.next(offset)?;
        }
        let is_unchanged = {
            let state = self.state.lock();
            state.pages.number == snapshot.number && !state.is_dirty
        };
        if is_list && is_unchanged && linked != reachable.entries.len() as u64 {
            let what = format!("{} entries of the index, {linked} of them in the chain", reachable.entries.len());
            return Err(self.records.damaged(snapshot.head, &what));
        }
        Ok(())
    }

    fn check_space(&self, number: u64, reachable: &Reachable) -> Result<()> {
        let state = self.state.lock();
        for record in &reachable.entries {
            let is_lost = state.pages.is_in_free_page(*record);
            if is_lost && state.pages.number == number {
                return Err(self.records.damaged(record.offset(), "a record lies in a page marked free"));
            }
        }
        if state.pages.number != number || state.is_dirty {
            return Ok(());
        }
        let entry_bytes: u64 = reachable.entries.iter().map(|record| record.len()).sum();
        let waiting = state.store.waiting_bytes(&state.pages.live);
        let live = entry_bytes + reachable.orphan_bytes + reachable.node_bytes + waiting;
        let held = if I::KIND == Kind::List { reachable.chain_bytes } else { live };
        let counted = (state.pages.live_bytes(), state.pages.live_in_all(), state.pages.held_in_all());
        if counted != (live, live, held) {
            let what = format!("bytes live, live by page and held: counted {counted:?}, reachable {:?}", (live, held));
            return Err(self.records.damaged(0, &what));
        }
        Ok(())
    }
}
