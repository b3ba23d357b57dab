//! The register of a pool's tables: what the catalog says of each, and which of them are open.

use crate::error::{Error, ErrorKind, Result};
use crate::files::context::TableContext;
use crate::format::{Rid, parse_data_file_name};
use crate::table::Table;
use crate::table::definition::Definition;
use crate::table::figures::{Figures, TableSpace};
use perdura_pmem::Medium;
use perdura_pmem::sync::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Rounds of the background thread after which an idle table is closed: about ten minutes.
const IDLE_ROUNDS_MAX: u32 = 12_000;

/// Tables that a list for monitoring copies from the register at once.
const LISTED_AT_ONCE: usize = 128;

/// A table that the catalog names.
pub(crate) struct Registered {
    /// Table id.
    pub id: u32,
    /// RID of its catalog row.
    pub row: Rid,
    /// Definition of the table as created or last altered.
    definition: RwLock<Definition>,
    /// Somebody alters its indexes.
    pub altering: AtomicBool,
    figures: Arc<Figures>,
    state: Mutex<State>,
}

struct State {
    name: Arc<str>,
    table: Option<Arc<Table>>,
    /// The catalog has forgotten the table.
    forgotten: bool,
    /// Rounds since the last use.
    idle: u32,
    /// Number of the last use.
    used: u64,
    /// The table was open in this run: no files are behind its chain.
    settled: bool,
    /// Number of data files, as they were when the pool was opened or the table was closed.
    files: usize,
    data_bytes: u64,
    free_bytes: u64,
}

/// Sizes of the closed tables, as they were when they were closed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClosedSizes {
    /// Number of closed tables.
    pub tables: usize,
    /// Size of their data files, in bytes.
    pub data_bytes: u64,
    /// Bytes in free segments; of a table that was never open in this run none are known.
    pub free_bytes: u64,
}

/// A table that the catalog has forgotten.
pub(crate) struct Forgotten {
    /// Table id.
    pub id: u32,
    /// The table, if it is open.
    pub open: Option<Arc<Table>>,
    /// Number of data files of a closed table, from sequence number 0 on without a gap.
    pub files: usize,
}

impl Registered {
    /// A table that the catalog names as `name`, closed. The directory has `files` data files of
    /// it, of `bytes` in all.
    pub(crate) fn found(id: u32, row: Rid, definition: Definition, name: &str, files: usize, bytes: u64) -> Registered {
        let state = State { files, data_bytes: bytes, ..State::closed(name) };
        Registered::new(id, row, definition, Arc::default(), state)
    }

    /// A new table, open; `row` is its catalog row.
    pub(crate) fn created(table: &Arc<Table>, row: Rid) -> Registered {
        let state = State { table: Some(table.clone()), settled: true, ..State::closed(&table.name()) };
        let (definition, figures) = (table.whole_definition().clone(), table.figures().clone());
        Registered::new(table.id(), row, definition, figures, state)
    }

    fn new(id: u32, row: Rid, definition: Definition, figures: Arc<Figures>, state: State) -> Registered {
        let (definition, altering) = (RwLock::new(definition), AtomicBool::new(false));
        Registered { id, row, definition, altering, figures, state: Mutex::new(state) }
    }

    /// Definition of the table as created or last altered.
    pub(crate) fn definition(&self) -> Definition {
        self.definition.read().clone()
    }

    /// Notes a definition that differs in the creator's bytes alone, after the commit that gives
    /// it. Whoever has the table open need not know.
    pub(crate) fn set_definition(&self, definition: Definition) {
        *self.definition.write() = definition;
    }

    /// Present name of the table.
    pub(crate) fn name(&self) -> Arc<str> {
        self.state.lock().name.clone()
    }

    /// Figures that outlive the open table.
    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The table, if it is open.
    pub(crate) fn opened(&self) -> Option<Arc<Table>> {
        self.state.lock().table.clone()
    }

    /// The space of the table, as far as it is known. This counts as no use, so it keeps no idle
    /// table open.
    fn measure(&self) -> TableSpace {
        let state = self.state.lock();
        if let Some(open) = &state.table {
            return open.measure();
        }
        TableSpace {
            id: self.id,
            name: state.name.to_string(),
            is_open: false,
            files: state.files,
            data_bytes: state.data_bytes,
            free_bytes: state.settled.then_some(state.free_bytes),
            rows: self.figures.counted_rows(),
            purge_lag: 0,
            free_rids: None,
            unswept: None,
        }
    }
}

impl State {
    fn closed(name: &str) -> State {
        State {
            name: name.into(),
            table: None,
            forgotten: false,
            idle: 0,
            used: 0,
            settled: false,
            files: 0,
            data_bytes: 0,
            free_bytes: 0,
        }
    }
}

#[derive(Default)]
struct Register {
    by_name: BTreeMap<Arc<str>, Arc<Registered>>,
    by_id: FxHashMap<u32, Arc<Registered>>,
}

/// The tables of a pool, without the catalog.
///
/// A table is opened at its first use, under a lock of its own: two sessions open it once, and
/// others are not held up. One that cannot be opened fails the use that needed it, and is tried
/// again at the next. A table that nobody uses is closed when too many files are mapped, the
/// longest idle first, or when it has been idle for long.
///
/// In use is a table to which anybody but the register holds an `Arc`: a cursor, a scan, a write
/// set. New ones are handed out under the table's lock only, so a table whose register holds the
/// only one, under that lock, is nobody's. It is then closed only if that loses nothing
/// ([`Table::is_at_rest`]); its figures stay here. Lock order: closing; a table's lock; the maps of
/// all tables, or the list of the open ones.
pub(crate) struct Tables {
    context: Arc<TableContext>,
    register: RwLock<Register>,
    open: Mutex<BTreeMap<u32, Arc<Registered>>>,
    open_files_max: usize,
    /// RID of the catalog row with the id that the next table gets, once there is one.
    pub next_id_row: Mutex<Option<Rid>>,
    /// Number of uses so far.
    uses: AtomicU64,
    /// Number of tables opened so far.
    opened: AtomicUsize,
    closing: Mutex<()>,
}

impl Tables {
    /// The register of a pool that closes idle tables once more than `open_files_max` files are
    /// mapped.
    pub(crate) fn new(context: Arc<TableContext>, open_files_max: u32) -> Tables {
        Tables {
            context,
            register: RwLock::default(),
            open: Mutex::default(),
            open_files_max: open_files_max as usize,
            next_id_row: Mutex::new(None),
            uses: AtomicU64::new(0),
            opened: AtomicUsize::new(0),
            closing: Mutex::new(()),
        }
    }

    /// Looks a table up by its name. Fails with NotFound.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Registered>> {
        self.register.read().by_name.get(name).cloned().ok_or_else(|| not_found(name))
    }

    /// Looks a table up by its id.
    pub(crate) fn find_id(&self, id: u32) -> Option<Arc<Registered>> {
        self.register.read().by_id.get(&id).cloned()
    }

    /// Whether a table has this name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.register.read().by_name.contains_key(name)
    }

    /// All tables, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<Registered>> {
        self.register.read().by_name.values().cloned().collect()
    }

    /// Gives `visit` the space of each table, in the order of their names, until it returns false.
    pub(crate) fn measure(&self, visit: &mut dyn FnMut(TableSpace) -> bool) {
        self.each(&mut |table| visit(table.measure()));
    }

    /// Gives `visit` each table, in the order of their names, until it returns false. Nothing is
    /// locked meanwhile.
    pub(crate) fn each(&self, visit: &mut dyn FnMut(&Registered) -> bool) {
        let mut batch = self.after(None);
        while let Some((last, _)) = batch.last().cloned() {
            if !batch.iter().all(|(_, table)| visit(table)) {
                return;
            }
            batch = self.after(Some(&last));
        }
    }

    /// The first tables whose names come after `name`, with these names.
    fn after(&self, name: Option<&str>) -> Vec<(Arc<str>, Arc<Registered>)> {
        let register = self.register.read();
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        let later = register.by_name.range::<str, _>((from, Bound::Unbounded));
        later.take(LISTED_AT_ONCE).map(|(name, table)| (name.clone(), table.clone())).collect()
    }

    /// The names of all tables, in order.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        self.register.read().by_name.keys().cloned().collect()
    }

    /// The tables that are open.
    pub(crate) fn open_list(&self) -> Vec<Arc<Table>> {
        self.opened().iter().filter_map(|one| one.opened()).collect()
    }

    /// The table of this id, if it is open.
    pub(crate) fn open_by_id(&self, id: u32) -> Option<Arc<Table>> {
        // The list is unlocked before the table is locked.
        let found = self.open.lock().get(&id).cloned();
        found?.opened()
    }

    fn opened(&self) -> Vec<Arc<Registered>> {
        self.open.lock().values().cloned().collect()
    }

    /// Enters a table, which takes the place of another of its name.
    pub(crate) fn add(&self, table: Registered) {
        let table = Arc::new(table);
        let mut state = table.state.lock();
        state.used = self.next_use();
        let is_open = state.table.is_some();
        if is_open {
            self.open.lock().insert(table.id, table.clone());
        }
        {
            let mut register = self.register.write();
            register.by_id.insert(table.id, table.clone());
            register.by_name.insert(state.name.clone(), table.clone());
        }
        drop(state);
        if is_open {
            self.note_opened();
        }
    }

    /// Notes a new name of a table, after the commit that renames it.
    pub(crate) fn rename(&self, table: &Arc<Registered>, to: &str) {
        let to: Arc<str> = to.into();
        let mut state = table.state.lock();
        let mut register = self.register.write();
        register.by_name.remove(&state.name);
        if let Some(open) = &state.table {
            open.chain().set_name(&to);
        }
        state.name = to.clone();
        register.by_name.insert(to, table.clone());
    }

    /// Puts an open table in the place of `table`, of which it is the altered one, after the commit
    /// that alters it.
    pub(crate) fn alter(&self, table: &Registered, altered: &Arc<Table>) {
        let mut state = table.state.lock();
        *table.definition.write() = altered.whole_definition().clone();
        if let Some(before) = state.table.replace(altered.clone()) {
            before.set_altered();
        }
    }

    /// Forgets a table after the commit that drops it, or after another has taken its name. From
    /// now on it takes no more writes, and nobody opens it; the caller removes its files.
    pub(crate) fn forget(&self, table: &Arc<Registered>) -> Forgotten {
        let mut state = table.state.lock();
        {
            let mut register = self.register.write();
            register.by_id.remove(&table.id);
            if register.by_name.get(&state.name).is_some_and(|named| named.id == table.id) {
                register.by_name.remove(&state.name);
            }
        }
        state.forgotten = true;
        let open = state.table.take();
        if let Some(open) = &open {
            open.chain().set_dropped();
        }
        self.open.lock().remove(&table.id);
        Forgotten { id: table.id, open, files: state.files }
    }

    /// Opens a table, unless it is open.
    ///
    /// # Errors
    /// NotFound if it was dropped meanwhile; Damaged, NotSupported or Medium if its files cannot be
    /// opened. The next use tries again.
    pub(crate) fn open(&self, table: &Arc<Registered>) -> Result<Arc<Table>> {
        let (opened, is_new) = self.open_and(table, |state, opened| {
            if !std::mem::replace(&mut state.settled, true) && state.files > opened.chain().file_count() {
                self.remove_behind(opened);
            }
            opened.estimate_rows();
        })?;
        if is_new {
            self.note_opened();
        }
        Ok(opened)
    }

    /// Counts a table opened. Now and then it closes idle ones: many may be opened while a backup
    /// holds the background thread, and the bound must not depend on it.
    fn note_opened(&self) {
        if self.opened.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.slack()) {
            self.close_longest_idle();
        }
    }

    /// Has the files behind a table's chain removed: a growth that was cut off left them. If the
    /// directory cannot be read they stay, and are replaced when their names are needed.
    fn remove_behind(&self, table: &Table) {
        for (name, _) in self.context.medium.list().unwrap_or_default() {
            let is_behind = |(id, sequence)| id == table.id() && sequence as usize >= table.chain().file_count();
            if parse_data_file_name(&name).is_some_and(is_behind) {
                // Whoever opens a table may do so while the pool is held, so the background thread
                // removes them.
                self.context.services.remove_later(name);
            }
        }
    }

    /// Opens a table for recovery, which then calls [`Tables::end_redo`].
    pub(crate) fn open_for_redo(&self, table: &Arc<Registered>) -> Result<Arc<Table>> {
        self.open_and(table, |_, _| ()).map(|(table, _)| table)
    }

    /// Counts the rows of the tables that recovery has opened, after redo, and after it has removed
    /// the files behind their chains.
    pub(crate) fn end_redo(&self) {
        for table in self.opened() {
            let mut state = table.state.lock();
            state.settled = true;
            if let Some(table) = &state.table {
                table.estimate_rows();
            }
        }
    }

    /// Opens a table unless it is open, and calls `begin` once it was opened. Returns whether it
    /// was.
    fn open_and(&self, table: &Arc<Registered>, begin: impl FnOnce(&mut State, &Table)) -> Result<(Arc<Table>, bool)> {
        let mut state = table.state.lock();
        if state.forgotten {
            return Err(not_found(&state.name));
        }
        (state.idle, state.used) = (0, self.next_use());
        if let Some(open) = &state.table {
            return Ok((open.clone(), false));
        }
        let (context, definition) = (self.context.clone(), table.definition());
        let opened = Table::open(context, table.id, &state.name, definition, table.figures.clone());
        let opened = Arc::new(opened.map_err(|error| error.opening(&state.name))?);
        opened.index_list().settle();
        begin(&mut state, &opened);
        for file in opened.chain().files() {
            self.context.services.prefault_later(file.region());
        }
        state.table = Some(opened.clone());
        self.open.lock().insert(table.id, table.clone());
        Ok((opened, true))
    }

    fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    /// How many tables beyond the limit are opened before idle ones are looked for.
    fn slack(&self) -> usize {
        (self.open_files_max / 8).max(1)
    }

    /// Sizes of the closed tables. It looks at every table, so it is for reports.
    pub(crate) fn closed_sizes(&self) -> ClosedSizes {
        let mut sizes = ClosedSizes::default();
        for table in self.all() {
            let state = table.state.lock();
            if state.table.is_none() {
                sizes.tables += 1;
                sizes.data_bytes += state.data_bytes;
                sizes.free_bytes += state.free_bytes;
            }
        }
        sizes
    }

    /// A round of the background thread: counts how long tables have been idle, and closes those
    /// idle for long and, if too many files are mapped, the longest idle. Returns the number of
    /// tables closed.
    pub(crate) fn close_idle(&self) -> usize {
        let mut closed = 0;
        {
            let _one = self.closing.lock();
            for table in self.opened() {
                let mut state = table.state.lock();
                let Some(open) = &mut state.table else { continue };
                if Arc::strong_count(open) > 1 {
                    (state.idle, state.used) = (0, self.next_use());
                } else {
                    if let Some(open) = Arc::get_mut(open) {
                        open.forget_given_back();
                    }
                    state.idle = state.idle.saturating_add(1);
                    closed += usize::from(state.idle > IDLE_ROUNDS_MAX && self.close(&table, &mut state));
                }
            }
        }
        closed + self.close_longest_idle()
    }

    /// Closes tables that nobody uses, the longest idle first, if more files are mapped than the
    /// pool may have. Goes a little below the limit, so that it is not called for each table
    /// opened. Returns the number of tables closed.
    pub(crate) fn close_longest_idle(&self) -> usize {
        let _one = self.closing.lock();
        let mut files = 0;
        let mut idle = Vec::new();
        for table in self.opened() {
            let state = table.state.lock();
            let Some(open) = &state.table else { continue };
            let count = open.chain().file_count();
            files += count;
            if Arc::strong_count(open) == 1 {
                idle.push((state.used, count, table.clone()));
            }
        }
        if files <= self.open_files_max {
            return 0;
        }
        idle.sort_unstable_by_key(|(used, ..)| *used);
        let mut closed = 0;
        for (_, count, table) in idle {
            if files <= self.open_files_max - self.slack().min(self.open_files_max) {
                break;
            }
            if self.close(&table, &mut table.state.lock()) {
                files -= count;
                closed += 1;
            }
        }
        closed
    }

    /// Closes a table, whose locked state is `state`, if nobody uses it and nothing is lost.
    /// Returns whether it did.
    fn close(&self, table: &Registered, state: &mut State) -> bool {
        let Some(open) = state.table.as_mut().and_then(Arc::get_mut) else { return false };
        if !open.is_alone() || !open.is_at_rest() {
            return false;
        }
        (state.data_bytes, state.free_bytes) = (open.data_bytes(), open.free_bytes());
        state.files = open.chain().file_count();
        // The last `Arc` goes: the files are unmapped.
        state.table = None;
        self.open.lock().remove(&table.id);
        true
    }
}

fn not_found(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("table {name} does not exist in the pool"))
}
