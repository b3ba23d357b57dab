//! Tables of a thread's own: created, renamed, truncated, dropped, and given other indexes.

use super::history::{Change, Key, key_of};
use super::keys;
use super::oracle::Step;
use super::workload::Worker;
use perdura_engine::{Engine, ErrorKind};
use perdura_pmem::trace;

/// Beginning of the definition of a table. Behind it stands the name of the table that was renamed
/// last, as the definitions of children name their parents.
const DEFINED: &[u8] = b"of a thread";
/// Kinds of indexes that tables get.
const KINDS: [&[u8]; 5] = [&[], &[0], &[1], &[0, 1], &[1, 0]];

/// The table that the definition of table `name` names; `None` if it names none, or has become that
/// of other indexes.
pub(super) fn named(engine: &Engine, name: &str) -> Option<Vec<u8>> {
    let definition = engine.definition(name).ok()?;
    definition.strip_prefix(DEFINED).filter(|name| !name.is_empty()).map(<[u8]>::to_vec)
}

impl Worker<'_> {
    pub(super) fn ddl(&mut self) {
        let _label = trace::span("ddl");
        let pick = self.random.below(self.own_tables.len() as u64 + 1) as usize;
        match self.own_tables.get(pick).cloned() {
            None => self.create_table(),
            Some(name) => match self.random.below(3) {
                0 => self.definition_change(vec![Change::Drop(name.clone())], |engine| engine.drop_table(&name)),
                1 => self.definition_change(vec![Change::Truncate(name.clone())], |engine| {
                    engine.truncate_table(&name).map(|_| ())
                }),
                _ => self.rename_table(&name),
            },
        }
    }

    /// Renames a table. The definitions of all of the thread's tables name it in the same commit.
    fn rename_table(&mut self, name: &str) {
        let to = format!("{name}x");
        let is_plain =
            |table: &&String| self.engine.definition(table).is_ok_and(|definition| definition.starts_with(DEFINED));
        let naming: Vec<String> = self.own_tables.iter().filter(is_plain).cloned().collect();
        let present = |table: &String| if table == name { to.clone() } else { table.clone() };
        let named = naming.iter().map(|table| Change::Name(present(table), to.clone().into_bytes()));
        let changes = [Change::Rename(name.to_owned(), to.clone())].into_iter().chain(named).collect();
        let definition = [DEFINED, to.as_bytes()].concat();
        let redefined: Vec<_> = naming.iter().map(|table| (table.clone(), definition.clone())).collect();
        self.definition_change(changes, |engine| engine.rename_table_redefining((name, &to), false, &redefined));
    }

    pub(super) fn create_table(&mut self) {
        self.tables_made += 1;
        let name = format!("t{}_{}", self.thread, self.tables_made);
        let indexes = if self.is_keyed() { &keys::INDEXES[..] } else { &[] };
        self.definition_change(vec![Change::Create(name.clone())], |engine| {
            engine.create_table_with(&name, DEFINED, indexes).map(|_| ())
        });
        self.fill_table(&name, 0, 3);
    }

    /// Inserts up to `most` rows into one of the thread's tables, with keys from `first` on.
    fn fill_table(&mut self, name: &str, first: Key, most: u64) {
        let rows = (0..1 + self.random.below(most)).map(|key| self.row(first + key, 20)).collect();
        self.put_rows(name, rows);
    }

    /// Inserts `count` rows of some `bytes` into one of the thread's tables.
    pub(super) fn fill_with(&mut self, name: &str, count: u64, bytes: u64) {
        let _label = trace::span("filled");
        let first = self.next_key() << 8;
        let rows = (0..count).map(|key| self.row(first + key, bytes)).collect();
        self.put_rows(name, rows);
    }

    fn put_rows(&mut self, name: &str, mut rows: Vec<Vec<u8>>) {
        let table = self.engine.table(name).expect("the thread's own");
        self.txn.start_statement();
        rows.retain(|row| match keys::insert(&mut self.txn, &table, row) {
            Ok(_) => true,
            Err(error) => {
                assert!(error.kind() == ErrorKind::DuplicateKey, "there is room: {error}");
                false
            }
        });
        if rows.is_empty() {
            return self.give_up();
        }
        let put = |row: Vec<u8>| Change::Put(name.to_owned(), key_of(&row), row);
        let number = self.ledger.add(rows.into_iter().map(put).collect());
        trace::mark(Step::Begin.mark(number));
        let csn = self.txn.commit().expect("there is room");
        self.ledger.committed(number, csn);
        trace::ack(Step::Committed.mark(number));
    }

    /// Gives one of the thread's tables other indexes, perhaps with more rows before.
    pub(super) fn alter(&mut self) {
        let _label = trace::span("altered_indexes");
        let pick = self.random.below(self.own_tables.len() as u64 + 1) as usize;
        let Some(name) = self.own_tables.get(pick).cloned() else { return self.create_table() };
        if self.random.one_in(2) {
            let first = self.next_key() << 8;
            self.fill_table(&name, first, 20);
        }
        let kinds = KINDS[self.random.below(KINDS.len() as u64) as usize];
        let anew = self.random.one_in(3);
        self.alter_to(&name, kinds, anew);
    }

    /// Gives a table that no other thread uses indexes of these kinds.
    pub(super) fn alter_to(&mut self, name: &str, kinds: &[u8], anew: bool) {
        let table = self.engine.table(name).expect("it is there");
        let number = self.ledger.add(vec![Change::Alter(name.to_owned(), kinds.to_vec())]);
        trace::mark(Step::Begin.mark(number));
        match keys::alter(&self.engine, &table, kinds, anew) {
            Ok(()) => trace::ack(Step::Committed.mark(number)),
            // Rows came while the table had no unique index.
            Err(error) if error.kind() == ErrorKind::DuplicateKey => {
                self.ledger.undone(number);
                trace::mark(Step::Undone.mark(number));
            }
            Err(error) => panic!("an alteration: {error}"),
        }
    }

    pub(super) fn definition_change(
        &mut self,
        changes: Vec<Change>,
        run: impl FnOnce(&Engine) -> perdura_engine::Result<()>,
    ) {
        match &changes[0] {
            Change::Create(name) => self.own_tables.push(name.clone()),
            Change::Drop(name) => self.own_tables.retain(|own| own != name),
            Change::Rename(from, to) => {
                self.own_tables.retain(|own| own != from);
                self.own_tables.push(to.clone());
            }
            _ => {}
        }
        let number = self.ledger.add(changes);
        trace::mark(Step::Begin.mark(number));
        run(&self.engine).expect("there is room and the table is the thread's own");
        trace::ack(Step::Committed.mark(number));
    }
}
