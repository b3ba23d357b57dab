//! The register of foreign keys: which tables refer to which.

use super::code::{Failure, Outcome};
use super::definition;
use super::name;
use crate::row::definition::Definition;
use crate::row::foreign_key::{ForeignKey, ForeignKeys};
use perdura_engine::{Engine, Redefinition};
use perdura_pmem::sync::{Mutex, MutexGuard, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The foreign keys of a pool's tables, by child and by parent.
///
/// The catalog has each table's keys with its definition; this is made of it when the pool is
/// opened, and follows each DDL after its commit. A key names its parent, which need not exist.
///
/// The server alters many a table by a copy, under names of its own (`#sql...`): it fills the copy,
/// puts the old table aside, and the copy in its place. The copy is nobody's child before that. The
/// table put aside stays the child that it was, by the name that users know, so that at no moment a
/// parent has a child less. Those who refer to a table go on naming it by that name, too, and if
/// the copy gets another one they follow it then.
///
/// The *version* grows whenever anything changes that a handler may have learned: keys, or a table
/// that has some or is referred to. It takes some 300 bytes of DRAM for each key, and the names
/// twice: about what the catalog has of them.
///
/// Thread-safety: any thread. `change` keeps those apart who make new definitions out of present
/// ones; it is taken before the locks of the engine.
#[derive(Default)]
pub(super) struct References {
    state: RwLock<State>,
    version: AtomicU64,
    change: Mutex<()>,
}

/// Foreign keys of tables, by the tables' names.
pub(super) type Changed = Vec<(String, ForeignKeys)>;

#[derive(Default)]
struct State {
    of_child: BTreeMap<String, Arc<ForeignKeys>>,
    children: BTreeMap<String, BTreeSet<String>>,
    /// Tables put aside, with the names that users know.
    aside: BTreeMap<String, String>,
}

impl State {
    fn set(&mut self, child: &str, keys: &ForeignKeys) -> bool {
        let before = self.of_child.remove(child);
        for key in before.iter().flat_map(|known| &known.keys) {
            if let Some(children) = self.children.get_mut(&key.parent) {
                children.remove(child);
                if children.is_empty() {
                    self.children.remove(&key.parent);
                }
            }
        }
        for key in &keys.keys {
            self.children.entry(key.parent.clone()).or_default().insert(child.to_owned());
        }
        if keys.is_empty() {
            self.aside.remove(child);
        } else {
            self.of_child.insert(child.to_owned(), Arc::new(keys.clone()));
        }
        before.is_some() || !keys.is_empty()
    }

    fn concerns(&self, table: &str) -> bool {
        self.of_child.contains_key(table) || self.children.contains_key(table)
    }

    /// The tables that refer to a table.
    fn children(&self, parent: &str) -> impl Iterator<Item = &String> {
        self.children.get(parent).into_iter().flatten()
    }

    /// The name by which users know a table; `None` for a copy.
    fn users_name<'n>(&'n self, table: &'n str) -> Option<&'n str> {
        if name::is_of_server(table) { self.aside.get(table).map(String::as_str) } else { Some(table) }
    }
}

impl References {
    /// Reads the keys of all tables.
    pub(super) fn load(&self, engine: &Engine) -> Outcome<()> {
        let mut state = State::default();
        for name in engine.table_names() {
            // Dropped meanwhile.
            let Ok(stored) = engine.definition(&name) else { continue };
            // A table whose definition cannot be read is not opened either.
            let Ok(definition) = Definition::decode(&stored) else { continue };
            let keys = ForeignKeys::decode(definition.foreign_keys).ok_or_else(|| damaged(&name))?;
            state.set(&name, &keys);
        }
        *self.state.write() = state;
        self.note_change();
        Ok(())
    }

    /// Keeps others from changing definitions of several tables.
    pub(super) fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.change.lock()
    }

    /// A number that grows whenever something changes.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn note_change(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether a table has foreign keys, or others refer to it.
    pub(super) fn concerns(&self, table: &str) -> bool {
        self.state.read().concerns(table)
    }

    /// The keys of a table.
    pub(super) fn of_child(&self, table: &str) -> Vec<(String, ForeignKey)> {
        let state = self.state.read();
        let keys = state.of_child.get(table);
        keys.into_iter().flat_map(|known| known.keys.iter().map(|key| (table.to_owned(), key.clone()))).collect()
    }

    /// The keys of tables that refer to a table, in the order of the tables' names.
    pub(super) fn of_parent(&self, table: &str) -> Vec<(String, ForeignKey)> {
        let state = self.state.read();
        let children = state.children(table).filter_map(|child| Some((state.users_name(child)?, child)));
        let keys = children
            .flat_map(|(name, child)| state.of_child[child].keys.iter().map(move |key| (name.to_owned(), key.clone())));
        keys.filter(|(_, key)| key.parent == table).collect()
    }

    /// The keys of all tables of a table's database.
    pub(super) fn of_database(&self, table: &str) -> Vec<(String, ForeignKey)> {
        let state = self.state.read();
        let database = |name: &str| name.split_once('/').map(|(database, _)| database.to_owned());
        let is_in = |child: &String| database(child) == database(table);
        let tables = state.of_child.iter().filter(|(child, _)| is_in(child));
        tables.flat_map(|(child, known)| known.keys.iter().map(|key| (child.clone(), key.clone()))).collect()
    }

    /// Notes the keys that a table has from now on. Also for a table that has come or gone, or has
    /// become another one.
    pub(super) fn set(&self, table: &str, keys: &ForeignKeys) {
        let is_change = {
            let mut state = self.state.write();
            state.set(table, keys) || state.concerns(table)
        };
        if is_change {
            self.note_change();
        }
    }

    /// Notes that a table is another one, with the same keys.
    pub(super) fn touch(&self, table: &str) {
        if self.concerns(table) {
            self.note_change();
        }
    }

    /// The lists of keys that change when `from` is renamed to `to`, by the tables' present names.
    pub(super) fn renamed(&self, from: &str, to: &str) -> Changed {
        let state = self.state.read();
        let is_taken_in = !name::is_of_server(to);
        let own = state.of_child.get_key_value(from);
        // A copy takes the name of the table in whose place it comes.
        let copied = own.map(|(_, own)| own.copy_of.as_str()).filter(|name| !name.is_empty());
        let known = copied.or((!name::is_of_server(from)).then_some(from)).filter(|name| is_taken_in && *name != to);
        let follow = |table: &String| {
            let mut keys = (*state.of_child[table]).clone();
            for key in keys.keys.iter_mut().filter(|key| Some(key.parent.as_str()) == known) {
                key.parent = to.to_owned();
            }
            if is_taken_in && table == from {
                keys.copy_of.clear();
                keys.keys.iter_mut().for_each(|key| key.is_carried = false);
            }
            (table.clone(), keys)
        };
        let others = known.into_iter().flat_map(|known| state.children(known)).filter(|child| *child != from);
        own.map(|(own, _)| own).into_iter().chain(others).map(follow).collect()
    }

    /// The lists of keys that change when columns of a table, which others refer to, get other
    /// names; without those of the table itself.
    pub(super) fn renamed_columns(&self, parent: &str, names: &[(&str, &str)]) -> Changed {
        let state = self.state.read();
        let follow = |table: &String| {
            let mut keys = (*state.of_child[table]).clone();
            let columns = keys.keys.iter_mut().filter(|key| key.parent == parent).flat_map(|key| &mut key.columns);
            for (_, column) in columns {
                if let Some((_, after)) = names.iter().find(|(before, _)| before == column) {
                    *column = (*after).to_owned();
                }
            }
            (table.clone(), keys)
        };
        state.children(parent).filter(|child| *child != parent && !names.is_empty()).map(follow).collect()
    }

    /// Notes lists of keys that [`References::renamed`] has made, after the commit.
    pub(super) fn follow(&self, changed: &[(String, ForeignKeys)], rename: Option<(&str, &str)>) {
        let mut state = self.state.write();
        for (table, keys) in changed {
            match rename {
                Some((from, to)) if table == from => {
                    state.set(from, &ForeignKeys::default());
                    state.set(to, keys);
                }
                _ => {
                    state.set(table, keys);
                }
            }
        }
        if let Some((from, to)) = rename {
            // Whoever comes to a name that users know stands for itself.
            state.aside.retain(|_, name| name != to);
            if name::is_backup(to) && state.of_child.contains_key(to) {
                state.aside.insert(to.to_owned(), from.to_owned());
            }
        }
        let concerns = rename.is_some_and(|(from, to)| state.concerns(from) || state.concerns(to));
        drop(state);
        if concerns || !changed.is_empty() {
            self.note_change();
        }
    }
}

/// The definitions of tables with other foreign keys.
pub(super) fn redefinitions(engine: &Engine, changed: &[(String, ForeignKeys)]) -> Outcome<Vec<Redefinition>> {
    let redefined = |(table, keys): &(String, ForeignKeys)| {
        let stored = engine.definition(table)?;
        let keys = keys.encode();
        let definition = Definition { foreign_keys: &keys, ..definition::stored(&stored, table)? };
        Ok((table.clone(), definition.encode()))
    };
    changed.iter().map(redefined).collect()
}

fn damaged(table: &str) -> Failure {
    let what = format!("the foreign keys of table {table} cannot be read; run `perdura check` on the pool");
    Failure::new(super::code::PerduraCode::Damaged, what)
}
