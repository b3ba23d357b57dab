//! What a pool must hold after a crash: every acknowledged transaction, and of those under way each whole or not at all.
//!
//! The workload writes down what each transaction changes and marks in the trace where its commit begins and where it is
//! acknowledged. Commits of conflicting transactions begin in their commit order (a row lock is released after publication),
//! so applying changes in the order of the marks gives the state.

use crate::subject;
use perdura_pmem::sync::Mutex;
use std::collections::BTreeMap;

/// A row's key in the model; the first eight bytes of its image.
pub type Key = u64;
/// Tables by name, rows by key.
pub type State = BTreeMap<String, BTreeMap<Key, Vec<u8>>>;

/// One change a transaction makes.
#[derive(Clone, Debug)]
pub enum Change {
    /// A row becomes this.
    Put(String, Vec<u8>),
    /// A row goes.
    Remove(String, Key),
    /// A table comes.
    Create(String),
    /// A table goes.
    Drop(String),
    /// A table gets another name.
    Rename(String, String),
    /// A table becomes empty.
    Truncate(String),
}

/// Key of a row image.
pub fn key_of(row: &[u8]) -> Key {
    Key::from_le_bytes(row[..8].try_into().expect("rows begin with their key"))
}

/// Applies changes; whether they make sense in this state (a combination of transactions may not).
fn apply(state: &mut State, changes: &[Change]) -> bool {
    changes.iter().all(|change| match change {
        Change::Put(table, row) => state.get_mut(table).map(|rows| rows.insert(key_of(row), row.clone())).is_some(),
        Change::Remove(table, key) => state.get_mut(table).map(|rows| rows.remove(key)).is_some(),
        Change::Create(table) => state.insert(table.clone(), BTreeMap::new()).is_none(),
        Change::Drop(table) => state.remove(table).is_some(),
        Change::Rename(from, to) => match state.remove(from) {
            Some(rows) => state.insert(to.clone(), rows).is_none(),
            None => false,
        },
        Change::Truncate(table) => state.get_mut(table).map(BTreeMap::clear).is_some(),
    })
}

/// What happens to a transaction, as marked in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its commit begins (or its preparation, if it is to be prepared).
    Begin,
    /// Its preparation was acknowledged.
    Prepared,
    /// The commit of the prepared transaction begins.
    Deciding,
    /// The rollback of the prepared transaction begins.
    Undoing,
    /// It is acknowledged as committed.
    Committed,
    /// It is acknowledged as rolled back after it was prepared.
    Undone,
}

impl Step {
    const ALL: [Step; 6] = [Step::Begin, Step::Prepared, Step::Deciding, Step::Undoing, Step::Committed, Step::Undone];

    /// As a mark's payload.
    pub fn mark(self, txn: usize) -> u64 {
        (txn as u64) << 8 | Step::ALL.iter().position(|step| *step == self).expect("one of all") as u64
    }

    /// From a mark's payload.
    pub fn of_mark(payload: u64) -> (usize, Step) {
        ((payload >> 8) as usize, Step::ALL[(payload & 0xff) as usize])
    }

    /// Whether the mark is an acknowledgement, after which nothing of the thread's may be unfenced.
    pub fn is_ack(self) -> bool {
        matches!(self, Step::Prepared | Step::Committed | Step::Undone)
    }
}

/// What each transaction of a run changes, written down before its commit begins.
#[derive(Default)]
pub struct History(Mutex<Vec<Vec<Change>>>);

impl History {
    /// Writes down a transaction; returns its number.
    pub fn add(&self, changes: Vec<Change>) -> usize {
        let mut txns = self.0.lock();
        txns.push(changes);
        txns.len() - 1
    }

    /// The transactions.
    pub fn into_inner(self) -> Vec<Vec<Change>> {
        self.0.into_inner()
    }
}

#[derive(Clone)]
struct Pending {
    txn: usize,
    step: Step,
}

/// The model at one point of a trace.
#[derive(Clone, Default)]
pub struct Oracle {
    base: State,
    pending: Vec<Pending>,
}

/// Prepared transactions of a pool after recovery and what became of them by the checker's hand.
pub struct Decided {
    /// Whether they were committed (else rolled back).
    pub commit: bool,
    /// Their numbers.
    pub txns: Vec<usize>,
}

impl subject::Oracle<Vec<Vec<Change>>> for Oracle {
    fn mark(&mut self, payload: u64, history: &Vec<Vec<Change>>) {
        let (txn, step) = Step::of_mark(payload);
        match self.pending.iter_mut().find(|pending| pending.txn == txn) {
            Some(pending) => pending.step = step,
            None => self.pending.push(Pending { txn, step }),
        }
        self.pending.retain(|pending| pending.step != Step::Undone);
        while self.pending.first().is_some_and(|first| first.step == Step::Committed) {
            let first = self.pending.remove(0);
            let made_sense = apply(&mut self.base, &history[first.txn]);
            assert!(made_sense, "the workload's own history of transaction {} is wrong", first.txn);
        }
    }
}

impl Oracle {
    /// Compares a recovered state, in which the prepared transactions found were `decided`.
    pub fn check(&self, actual: &State, decided: &Decided, history: &[Vec<Change>]) -> Result<(), String> {
        let mut open = Vec::new();
        for pending in &self.pending {
            let found = decided.txns.contains(&pending.txn);
            match pending.step {
                Step::Prepared if !found => return Err(format!("prepared transaction {} is lost", pending.txn)),
                Step::Committed if found => {
                    return Err(format!("committed transaction {} is prepared again", pending.txn));
                }
                Step::Begin | Step::Deciding if !found => open.push(pending.txn),
                _ => {}
            }
        }
        if let Some(ghost) = decided.txns.iter().find(|txn| self.pending.iter().all(|pending| pending.txn != **txn)) {
            return Err(format!("transaction {ghost} is prepared though it was not under way"));
        }
        let combinations = 1u32 << open.len().min(8);
        for chosen in 0..combinations {
            let mut expected = self.base.clone();
            let mut makes_sense = true;
            for pending in &self.pending {
                let is_open = open.iter().position(|txn| *txn == pending.txn);
                let present = match is_open {
                    Some(position) => chosen & 1 << position != 0,
                    None if decided.txns.contains(&pending.txn) => decided.commit,
                    None => pending.step == Step::Committed,
                };
                if present {
                    makes_sense &= apply(&mut expected, &history[pending.txn]);
                }
            }
            if makes_sense && expected == *actual {
                return Ok(());
            }
        }
        Err(self.difference(actual, &open))
    }

    fn difference(&self, actual: &State, open: &[usize]) -> String {
        let mut text = format!("with transactions {open:?} under way (first difference from the acknowledged state): ");
        for (table, rows) in &self.base {
            let Some(found) = actual.get(table) else { return text + &format!("table {table} is missing") };
            let lost = rows.iter().find(|(key, row)| found.get(key) != Some(row));
            let extra = found.iter().find(|(key, row)| rows.get(key) != Some(row));
            if let Some((key, _)) = lost.or(extra) {
                let brief = |row: Option<&Vec<u8>>| {
                    row.map(|row| format!("{} bytes, {:x?}", row.len(), &row[8..row.len().min(24)]))
                };
                let (was, is) = (brief(rows.get(key)), brief(found.get(key)));
                return text + &format!("table {table} key {key:#x}: was {was:?}, is {is:?}");
            }
        }
        text += "only tables differ: ";
        text + &format!("{:?} instead of {:?}", actual.keys().collect::<Vec<_>>(), self.base.keys().collect::<Vec<_>>())
    }
}
