//! Content that a pool must have after a crash: a prefix of the commit order that contains every
//! commit that was acknowledged or seen by a reader, and nothing else.
//!
//! The workload marks in the trace where a commit begins, where it is acknowledged, and where a
//! reader has seen it. The CSN of each commit is in the [`History`]. Table definitions have no CSN
//! there: one under way is found as a whole or not at all. Tests (I1, I4).

use super::history::{History, Key, State, apply};
use crate::subject;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A step of a transaction, as marked in the trace.
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
    /// A reader has seen what it wrote.
    Seen,
}

impl Step {
    const ALL: [Step; 7] =
        [Step::Begin, Step::Prepared, Step::Deciding, Step::Undoing, Step::Committed, Step::Undone, Step::Seen];

    /// Encodes the step as a mark's payload.
    pub fn mark(self, txn: usize) -> u64 {
        (txn as u64) << 8 | Step::ALL.iter().position(|step| *step == self).expect("one of all") as u64
    }

    /// Decodes a mark's payload.
    pub fn of_mark(payload: u64) -> (usize, Step) {
        ((payload >> 8) as usize, Step::ALL[(payload & 0xff) as usize])
    }
}

/// The model at one point of a trace.
#[derive(Clone, Default)]
pub struct Oracle {
    /// The oldest state that may be found.
    base: State,
    /// Every commit up to this CSN was acknowledged, or precedes one that was.
    floor: u64,
    /// Number of commits of the history's commit order that are in the base.
    applied: usize,
    /// The other transactions that have begun.
    under_way: BTreeMap<usize, Step>,
    /// Whether a recovered pool has acknowledged its first commit ([`AFTER`]).
    after: bool,
}

/// Mark of the commit that a recovered pool makes: [`AFTER_ROWS`] rows of the common table with
/// keys from [`AFTER_KEYS`] on.
pub const AFTER: u64 = u64::MAX - 1;
/// First key of these rows.
pub const AFTER_KEYS: Key = 0x7000_0000;
/// Number of these rows.
pub const AFTER_ROWS: u64 = 80;

/// Prepared transactions found after recovery, and how the checker decided them.
pub struct Decided {
    /// Whether they were committed (else rolled back).
    pub commit: bool,
    /// Their numbers.
    pub txns: Vec<usize>,
}

impl subject::Oracle<History> for Oracle {
    fn mark(&mut self, payload: u64, history: &History) {
        if payload == AFTER {
            self.after = true;
            return;
        }
        let (txn, step) = Step::of_mark(payload);
        match (step, history.txns[txn].csn) {
            (Step::Undone, _) => {
                self.under_way.remove(&txn);
            }
            (Step::Committed | Step::Seen, Some(csn)) => self.raise(csn, history),
            (Step::Committed | Step::Seen, None) => {
                self.under_way.remove(&txn);
                self.add(txn, history);
            }
            _ => {
                self.under_way.insert(txn, step);
            }
        }
    }
}

impl Oracle {
    /// All commits of a run.
    ///
    /// Rows that several threads change follow the commit order; all else follows the order in
    /// which its only thread recorded it.
    pub fn of_all(history: &History, common: &str) -> Oracle {
        let mut oracle = Oracle { applied: history.order.len(), ..Oracle::default() };
        let is_common = |txn: &usize| history.txns[*txn].changes_rows_of(common);
        let ended = (0..history.txns.len()).filter(|txn| !history.txns[*txn].is_undone && !is_common(txn));
        ended.for_each(|txn| oracle.add(txn, history));
        let common = history.order.iter().map(|(_, txn)| *txn).filter(is_common);
        common.for_each(|txn| oracle.add(txn, history));
        oracle
    }

    /// The oldest state that may be found.
    pub fn state(&self) -> &State {
        &self.base
    }

    /// From now on all commits up to `csn` must be found.
    fn raise(&mut self, csn: u64, history: &History) {
        self.floor = self.floor.max(csn);
        while let Some((csn, txn)) = history.order.get(self.applied)
            && *csn <= self.floor
        {
            self.applied += 1;
            self.under_way.remove(txn);
            self.add(*txn, history);
        }
    }

    fn add(&mut self, txn: usize, history: &History) {
        let made_sense = apply(&mut self.base, &history.txns[txn].changes);
        assert!(made_sense, "the workload's own history of transaction {txn} is wrong");
    }

    /// Compares a recovered state after the checker has `decided` the prepared transactions that it
    /// found.
    pub fn check(&self, actual: &State, decided: &Decided, history: &History) -> Result<(), String> {
        let (actual, _) = self.without_after(actual)?;
        self.place_of(&actual, decided, history).map(|_| ())
    }

    /// The oracle after a recovery that left `actual` and the `prepared` transactions: from now on
    /// exactly these must be found.
    pub fn settled(&self, actual: &State, prepared: &[usize], history: &History) -> Result<Oracle, String> {
        let undecided = Decided { commit: false, txns: prepared.to_vec() };
        let (actual, after) = self.without_after(actual)?;
        let (floor, applied) = self.place_of(&actual, &undecided, history)?;
        let under_way = prepared.iter().map(|txn| (*txn, Step::Prepared)).collect();
        Ok(Oracle { base: actual.into_owned(), floor, applied, under_way, after })
    }

    /// A state without the rows that a recovered pool committed, and whether it had them: all or
    /// none.
    fn without_after<'s>(&self, actual: &'s State) -> Result<(Cow<'s, State>, bool), String> {
        let is_after = AFTER_KEYS..AFTER_KEYS + AFTER_ROWS;
        let count = actual.values().map(|rows| rows.range(is_after.clone()).count() as u64).sum();
        match count {
            AFTER_ROWS => {
                let mut state = actual.clone();
                state.values_mut().for_each(|rows| rows.retain(|key, _| !is_after.contains(key)));
                Ok((Cow::Owned(state), true))
            }
            0 if !self.after => Ok((Cow::Borrowed(actual), false)),
            _ => Err(format!("of {AFTER_ROWS} rows that a recovered pool committed there are {count}")),
        }
    }

    /// The place in the commit order that a recovered state stands for: CSN, and commits up to it.
    fn place_of(&self, actual: &State, decided: &Decided, history: &History) -> Result<(u64, usize), String> {
        if let Some(ghost) = decided.txns.iter().find(|txn| !self.under_way.contains_key(txn)) {
            return Err(format!("transaction {ghost} is prepared although it was not under way"));
        }
        let is_found = |txn: &usize| decided.txns.contains(txn);
        let mut least = self.floor;
        for (txn, step) in self.under_way.iter().filter(|(txn, _)| !is_found(txn)) {
            match (step, history.txns[*txn].csn) {
                (Step::Prepared, _) => return Err(format!("prepared transaction {txn} is lost")),
                // Then it must have been committed.
                (Step::Deciding, Some(csn)) => least = least.max(csn),
                _ => {}
            }
        }
        let is_open = |(txn, step): &(&usize, &Step)| **step == Step::Begin && history.txns[**txn].is_definition();
        let open: Vec<usize> = self.under_way.iter().filter(is_open).map(|(txn, _)| *txn).collect();
        for chosen in 0..1u32 << open.len() {
            // Most images hold the base itself, which then need not be copied.
            let mut state = Cow::Borrowed(&self.base);
            let definitions = open.iter().enumerate().filter(|(position, _)| chosen & 1 << position != 0);
            let makes_sense =
                definitions.fold(true, |sense, (_, txn)| sense & apply(state.to_mut(), &history.txns[*txn].changes));
            let place = self.place_from(state, least, actual, decided, history).filter(|_| makes_sense);
            if let Some(place) = place {
                return Ok(place);
            }
        }
        Err(self.difference(actual))
    }

    /// As [`Oracle::place_of`], if `state` and some of the next commits, at least up to `least`,
    /// are the actual state.
    fn place_from(
        &self,
        mut state: Cow<'_, State>,
        least: u64,
        actual: &State,
        decided: &Decided,
        history: &History,
    ) -> Option<(u64, usize)> {
        let (mut reached, mut applied) = (self.floor, self.applied);
        loop {
            if reached >= least && is_with(&state, decided, history, actual) {
                return Some((reached, applied));
            }
            let (csn, txn) = history.order.get(applied)?;
            let has_begun = matches!(self.under_way.get(txn), Some(Step::Begin | Step::Deciding));
            if !has_begun || decided.txns.contains(txn) || !apply(state.to_mut(), &history.txns[*txn].changes) {
                return None;
            }
            (reached, applied) = (*csn, applied + 1);
        }
    }

    fn difference(&self, actual: &State) -> String {
        let steps: Vec<_> = self.under_way.iter().collect();
        let mut text = format!("with {steps:?} under way (first difference from the acknowledged state): ");
        for (table, rows) in &self.base {
            let Some(found) = actual.get(table) else { return text + &format!("table {table} is missing") };
            let lost = rows.iter().find(|(key, row)| found.get(key) != Some(row));
            let extra = found.iter().find(|(key, row)| rows.get(key) != Some(row));
            if let Some((key, _)) = lost.or(extra) {
                let brief = |row: Option<&Vec<u8>>| {
                    row.map(|row| format!("{} bytes, {:x?}", row.len(), &row[row.len().min(8)..row.len().min(24)]))
                };
                let (was, is) = (brief(rows.get(key)), brief(found.get(key)));
                return text + &format!("table {table} key {key:#x}: was {was:?}, is {is:?}");
            }
        }
        text += "only tables differ: ";
        text + &format!("{:?} instead of {:?}", actual.keys().collect::<Vec<_>>(), self.base.keys().collect::<Vec<_>>())
    }
}

/// Whether `state`, with what the checker decided, is the actual one.
fn is_with(state: &State, decided: &Decided, history: &History, actual: &State) -> bool {
    if !decided.commit || decided.txns.is_empty() {
        return state == actual;
    }
    let mut state = state.clone();
    decided.txns.iter().all(|txn| apply(&mut state, &history.txns[*txn].changes)) && state == *actual
}
