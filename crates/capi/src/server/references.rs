//! The register of foreign keys: which tables refer to which.

use super::code::{Failure, Outcome};
use super::definition;
use super::name;
use crate::row::definition::Definition;
use crate::row::foreign_key::{self, ForeignKey};
use perdura_engine::{Engine, Redefinition};
use perdura_pmem::sync::{Mutex, MutexGuard, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The foreign keys of a pool's tables, by child and by parent.
///
/// The catalog has each table's keys with its definition; this is made of it when the pool is
/// opened, and follows each DDL after its commit. A key names its parent, which need not exist. The
/// server's own tables (`#sql...`) are no children to anybody, and a table that is renamed to or
/// from such a name keeps those who refer to it by the name that users know.
///
/// The *version* grows whenever anything changes that a handler may have learned: keys, or a table
/// that has some or is referred to.
///
/// Thread-safety: any thread. `change` keeps those apart who make new definitions out of present
/// ones; it is taken before the locks of the engine.
#[derive(Default)]
pub(super) struct References {
    state: RwLock<State>,
    version: AtomicU64,
    change: Mutex<()>,
}

#[derive(Default)]
struct State {
    of_child: BTreeMap<String, Arc<[ForeignKey]>>,
    children: BTreeMap<String, BTreeSet<String>>,
}

impl State {
    fn set(&mut self, child: &str, keys: &[ForeignKey]) -> bool {
        let before = self.of_child.remove(child);
        for key in before.iter().flat_map(|keys| keys.iter()) {
            if let Some(children) = self.children.get_mut(&key.parent) {
                children.remove(child);
                if children.is_empty() {
                    self.children.remove(&key.parent);
                }
            }
        }
        for key in keys {
            self.children.entry(key.parent.clone()).or_default().insert(child.to_owned());
        }
        if !keys.is_empty() {
            self.of_child.insert(child.to_owned(), keys.into());
        }
        before.is_some() || !keys.is_empty()
    }

    fn concerns(&self, table: &str) -> bool {
        self.of_child.contains_key(table) || self.children.contains_key(table)
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
            let keys = foreign_key::decode(definition.foreign_keys).ok_or_else(|| damaged(&name))?;
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

    /// The keys of a table.
    pub(super) fn of_child(&self, table: &str) -> Vec<(String, ForeignKey)> {
        let state = self.state.read();
        let keys = state.of_child.get(table);
        keys.into_iter().flat_map(|keys| keys.iter().map(|key| (table.to_owned(), key.clone()))).collect()
    }

    /// The keys of tables that refer to a table, in the order of the tables' names.
    pub(super) fn of_parent(&self, table: &str) -> Vec<(String, ForeignKey)> {
        let state = self.state.read();
        let children = state.children.get(table).into_iter().flatten().filter(|child| !name::is_of_server(child));
        let keys = children.flat_map(|child| state.of_child[child].iter().map(move |key| (child.clone(), key.clone())));
        keys.filter(|(_, key)| key.parent == table).collect()
    }

    /// The keys of all tables of a table's database.
    pub(super) fn of_database(&self, table: &str) -> Vec<(String, ForeignKey)> {
        let state = self.state.read();
        let database = |name: &str| name.split_once('/').map(|(database, _)| database.to_owned());
        let is_in = |child: &String| database(child) == database(table);
        let tables = state.of_child.iter().filter(|(child, _)| is_in(child));
        tables.flat_map(|(child, keys)| keys.iter().map(|key| (child.clone(), key.clone()))).collect()
    }

    /// Notes the keys that a table has from now on. Also for a table that has come or gone, or has
    /// become another one.
    pub(super) fn set(&self, table: &str, keys: &[ForeignKey]) {
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
        if self.state.read().concerns(table) {
            self.note_change();
        }
    }

    /// The lists of keys that change when `from` is renamed to `to`, by the tables' present names.
    pub(super) fn renamed(&self, from: &str, to: &str) -> Vec<(String, Vec<ForeignKey>)> {
        let state = self.state.read();
        let is_users = !name::is_of_server(from) && !name::is_of_server(to);
        let follow = |key: &ForeignKey, is_own: bool| {
            let mut key = key.clone();
            if is_users && key.parent == from {
                key.parent = to.to_owned();
            }
            key.is_carried &= !is_own || name::is_of_server(to);
            key
        };
        let others = state.children.get(from).into_iter().flatten().filter(|child| is_users && *child != from);
        let tables = state.of_child.get_key_value(from).map(|(own, _)| own).into_iter().chain(others);
        tables
            .map(|table| (table, &state.of_child[table]))
            .map(|(table, keys)| (table.clone(), keys.iter().map(|key| follow(key, table == from)).collect()))
            .collect()
    }

    /// The lists of keys that change when columns of a table, which others refer to, get other
    /// names; without those of the table itself.
    pub(super) fn renamed_columns(&self, parent: &str, names: &[(&str, &str)]) -> Vec<(String, Vec<ForeignKey>)> {
        let state = self.state.read();
        let follow = |key: &ForeignKey| {
            let mut key = key.clone();
            if key.parent == parent {
                for (_, column) in &mut key.columns {
                    if let Some((_, after)) = names.iter().find(|(before, _)| *before == column) {
                        *column = (*after).to_owned();
                    }
                }
            }
            key
        };
        let children = state.children.get(parent).into_iter().flatten();
        let others = children.filter(|child| *child != parent && !names.is_empty());
        others.map(|child| (child.clone(), state.of_child[child].iter().map(follow).collect())).collect()
    }

    /// Notes lists of keys that [`References::renamed`] has made, after the commit.
    pub(super) fn follow(&self, changed: &[(String, Vec<ForeignKey>)], rename: Option<(&str, &str)>) {
        let mut state = self.state.write();
        for (table, keys) in changed {
            match rename {
                Some((from, to)) if table == from => {
                    state.set(from, &[]);
                    state.set(to, keys);
                }
                _ => {
                    state.set(table, keys);
                }
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
pub(super) fn redefinitions(engine: &Engine, changed: &[(String, Vec<ForeignKey>)]) -> Outcome<Vec<Redefinition>> {
    let redefined = |(table, keys): &(String, Vec<ForeignKey>)| {
        let stored = engine.definition(table)?;
        let keys = foreign_key::encode(keys);
        let definition = Definition { foreign_keys: &keys, ..definition::stored(&stored, table)? };
        Ok((table.clone(), definition.encode()))
    };
    changed.iter().map(redefined).collect()
}

fn damaged(table: &str) -> Failure {
    let what = format!("the foreign keys of table {table} cannot be read; run `perdura check` on the pool");
    Failure::new(super::code::PerduraCode::Damaged, what)
}
