//! The audit behind [`crate::OrderedMap::check`]: reads and checks everything reachable.
//!
//! It checks the order and checksums of the index, the versions of every key, the chain of records,
//! and that nothing reachable lies in a free page. If nothing has changed meanwhile, it also
//! compares the counts of live and held bytes with what is reachable, so that no space is lost.

use crate::error::Result;
use crate::index::Index;
use crate::memory::format::Ref;
use crate::state::State;
use crate::state::core::Core;
use crate::state::persist::Persisted;
use crate::state::shared::Shared;
use crate::upkeep::round::Round;
use crate::upkeep::structure::Structure;
use perdura_pmem::sync::PriorityMutex;
use rustc_hash::FxHashSet;

/// Records looked up in one step under the writer's lock.
const STEP_RECORDS: usize = 1024;

/// Progress of the audit.
#[derive(Default)]
struct Reachable {
    /// Records that are entries, or older versions of those that are kept.
    records: FxHashSet<Ref>,
    /// Count of the versions among them.
    versions: u64,
    node_bytes: u64,
    /// Rollback records that are no versions of a key: tags.
    other_bytes: u64,
    /// List: every record of the chain.
    chain_bytes: u64,
}

/// Audits a map. Returns the number of versions.
pub(crate) fn check<I: Structure>(core: &Core<I>) -> Result<u64> {
    Round::begin(core).traverse()?;
    while core.state.lock_behind().give_up_some() {}
    let (hold, persisted) = core.hold(u64::MAX)?;
    let audit = Audit { shared: &core.shared, state: &core.state, persisted: &persisted };
    let checked = audit.check_all();
    core.release(&hold);
    checked.map(|versions| if I::LINKS_ALL { persisted.versions } else { versions })
}

/// An audit of a persisted state, which is held.
struct Audit<'c, I: Index> {
    shared: &'c Shared<I>,
    state: &'c PriorityMutex<State<I>>,
    persisted: &'c Persisted,
}

impl<I: Structure> Audit<'_, I> {
    fn check_all(&self) -> Result<u64> {
        let mut reachable = Reachable::default();
        self.check_entries(&mut reachable)?;
        self.check_chain(&mut reachable)?;
        let is_unchanged = self.check_space(&reachable)?;
        let Persisted { versions, head, .. } = *self.persisted;
        if (is_unchanged || !I::LINKS_ALL) && reachable.versions != versions {
            let what = format!("{} versions found, {versions} counted", reachable.versions);
            return Err(self.shared.records.damaged(head, &what));
        }
        Ok(reachable.versions)
    }

    fn check_entries(&self, reachable: &mut Reachable) -> Result<()> {
        let Shared { records, .. } = self.shared;
        let mut before: Option<&[u8]> = None;
        let forgotten = self.persisted.times.forgotten;
        let bytes = I::check_index(self.shared, self.persisted.root, &mut |entry| {
            let (mut record, mut found) = (entry, records.get(entry)?);
            if before.is_some_and(|before| before >= found.key) {
                return Err(records.damaged(record.offset(), "entries of the index out of order"));
            }
            before = Some(found.key);
            let mut newer = None;
            loop {
                records.verify(record.offset(), &found)?;
                let is_new = reachable.records.insert(record);
                if record.is_deletion() != found.header.deletion || !is_new || found.header.tag {
                    return Err(records.damaged(record.offset(), "a reference to a record says what it is not"));
                }
                // A replaced change is no version, nor is a deletion that is forgotten.
                let is_over = found.header.deletion && found.header.ts <= forgotten;
                reachable.versions += u64::from(newer != Some(found.header.ts) && !is_over);
                newer = Some(found.header.ts);
                if found.header.ts <= forgotten {
                    return Ok(());
                }
                let Some((older, content)) = records.older(record.offset(), &found)? else { return Ok(()) };
                (record, found) = (older, content);
            }
        })?;
        reachable.node_bytes = bytes;
        Ok(())
    }

    fn check_chain(&self, reachable: &mut Reachable) -> Result<()> {
        let (Shared { records, .. }, persisted) = (self.shared, self.persisted);
        let most = records.geometry.records_max();
        let mut offset = persisted.head;
        let (mut count, mut linked) = (0, 0);
        while offset != 0 && (I::LINKS_ALL || count < persisted.pending) {
            let (record, found) = records.at(offset)?;
            records.verify(offset, &found)?;
            reachable.chain_bytes += record.len();
            let is_version = reachable.records.contains(&record);
            linked += u64::from(is_version);
            if count < persisted.pending && !is_version {
                reachable.other_bytes += record.len();
            }
            count += 1;
            if count > most {
                return Err(records.damaged(offset, "the chain of records runs in a circle"));
            }
            offset = records.next(offset)?;
        }
        let is_unchanged = self.state.lock_behind().is_unchanged(persisted.number);
        if I::LINKS_ALL && is_unchanged && linked != reachable.records.len() as u64 {
            let what = format!("{} versions of keys, {linked} of them in the chain", reachable.records.len());
            return Err(records.damaged(persisted.head, &what));
        }
        Ok(())
    }

    /// Returns whether nothing has changed since the persist.
    fn check_space(&self, reachable: &Reachable) -> Result<bool> {
        let (Shared { records, .. }, number) = (self.shared, self.persisted.number);
        let mut rest = reachable.records.iter().copied().peekable();
        while rest.peek().is_some() {
            let state = self.state.lock_behind();
            if state.pages.number() != number {
                return Ok(false);
            }
            let mut step = rest.by_ref().take(STEP_RECORDS);
            if let Some(lost) = step.find(|record| state.pages.is_in_free_page(*record)) {
                return Err(records.damaged(lost.offset(), "a record lies in a page marked free"));
            }
        }
        let record_bytes: u64 = reachable.records.iter().map(|record| record.len()).sum();
        let (mut at, mut live_in_pages, mut held_in_pages) = (0, 0, 0);
        loop {
            let state = self.state.lock_behind();
            if !state.is_unchanged(number) {
                return Ok(false);
            }
            if state.pages.sum_some(&mut at, &mut live_in_pages, &mut held_in_pages) {
                continue;
            }
            let waiting = I::waiting_bytes(&state.writer, &records.live);
            let live = record_bytes + reachable.other_bytes + reachable.node_bytes + waiting;
            let held = if I::LINKS_ALL { reachable.chain_bytes } else { live };
            let counted = (state.pages.live_bytes(), live_in_pages, held_in_pages);
            if counted != (live, live, held) {
                let what =
                    format!("bytes live, live by page and held: counted {counted:?}, reachable {:?}", (live, held));
                return Err(records.damaged(0, &what));
            }
            return Ok(true);
        }
    }
}
