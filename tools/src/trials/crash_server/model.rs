//! The state of the database that one client knows: the oracle's half of the process-crash test.

use std::collections::BTreeMap;

use super::contest::Write;

/// Number of accounts that transfers move money between.
pub const ACCOUNTS: u32 = 40;
/// Initial money of each account.
pub const AMOUNT_AT_START: i64 = 1_000;

/// A row's columns besides its id. Its body follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Set by inserts and updates of one row.
    pub v: i64,
    /// Incremented by updates of many rows.
    pub n: i64,
}

/// The two tables that a client inserts into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The client's own table.
    Own,
    /// The table all clients share.
    Shared,
}

/// Money moved between accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Account that pays.
    pub from: u32,
    /// Account that is paid.
    pub to: u32,
    /// How much.
    pub amount: i64,
}

/// One change a statement made.
#[derive(Clone, Debug)]
pub enum Change {
    /// A row, new or old, has these columns now.
    Put(Place, u64, Row),
    /// A row is gone.
    Remove(Place, u64),
    /// A transfer was made and entered in the ledger.
    Transfer(u64, Transfer),
    /// A row with this value of AUTO_INCREMENT has this tag.
    Number(u64, u64),
    /// A contested row has a new version or is gone.
    Contest(Write),
    /// A table has ids 0 to n - 1; `None`: it does not exist.
    Table(String, Option<u64>),
}

/// Everything one client has in the database.
///
/// A transaction is a list of changes. Acknowledged changes are applied to the client's state;
/// those of a transaction whose outcome a crash hid are kept aside, and the database must show the
/// state with all of them or with none. A client's state holds what it alone changes. Accounts are
/// shared, and their sums follow from everybody's transfers; so are the contested rows, whose books
/// contest.rs keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Rows of the client's own table.
    pub own: BTreeMap<u64, Row>,
    /// The client's rows of the shared table.
    pub shared: BTreeMap<u64, Row>,
    /// The client's lines in the ledger.
    pub transfers: BTreeMap<u64, Transfer>,
    /// The client's rows with values of AUTO_INCREMENT: their tags.
    pub numbers: BTreeMap<u64, u64>,
    /// Tables the client made, with their number of rows.
    pub tables: BTreeMap<String, u64>,
}

impl State {
    /// The rows of one place.
    pub fn rows(&self, place: Place) -> &BTreeMap<u64, Row> {
        match place {
            Place::Own => &self.own,
            Place::Shared => &self.shared,
        }
    }

    /// The rows of one place, to change.
    pub fn rows_mut(&mut self, place: Place) -> &mut BTreeMap<u64, Row> {
        match place {
            Place::Own => &mut self.own,
            Place::Shared => &mut self.shared,
        }
    }

    /// Applies changes in order.
    pub fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(place, id, row) => drop(self.rows_mut(*place).insert(*id, *row)),
                Change::Remove(place, id) => drop(self.rows_mut(*place).remove(id)),
                Change::Transfer(id, transfer) => drop(self.transfers.insert(*id, *transfer)),
                Change::Number(number, tag) => drop(self.numbers.insert(*number, *tag)),
                Change::Contest(_) => {}
                Change::Table(name, Some(rows)) => drop(self.tables.insert(name.clone(), *rows)),
                Change::Table(name, None) => drop(self.tables.remove(name)),
            }
        }
    }

    /// The state with `changes` applied as well.
    pub fn with(&self, changes: &[Change]) -> Self {
        let mut state = self.clone();
        state.apply(changes);
        state
    }

    /// The first difference from what was found, for a message.
    pub fn difference(&self, found: &Self) -> String {
        first_difference("own row", &self.own, &found.own)
            .or_else(|| first_difference("shared row", &self.shared, &found.shared))
            .or_else(|| first_difference("transfer", &self.transfers, &found.transfers))
            .or_else(|| first_difference("number", &self.numbers, &found.numbers))
            .or_else(|| first_difference("table", &self.tables, &found.tables))
            .unwrap_or_else(|| "no difference".to_owned())
    }
}

/// The changes of contested rows among `changes`.
pub fn contested(changes: &[Change]) -> Vec<Write> {
    let write = |change: &Change| if let Change::Contest(write) = change { Some(*write) } else { None };
    changes.iter().filter_map(write).collect()
}

fn first_difference<K, V>(what: &str, expected: &BTreeMap<K, V>, found: &BTreeMap<K, V>) -> Option<String>
where
    K: Ord + std::fmt::Debug,
    V: PartialEq + std::fmt::Debug,
{
    let keys: std::collections::BTreeSet<&K> = expected.keys().chain(found.keys()).collect();
    let key = keys.into_iter().find(|key| expected.get(key) != found.get(key))?;
    let sizes = format!("{} expected, {} found", expected.len(), found.len());
    Some(format!("{what} {key:?}: expected {:?}, found {:?} ({sizes})", expected.get(key), found.get(key)))
}

/// Work that a crash left undecided.
#[derive(Clone, Debug, Default)]
pub enum InFlight {
    /// Nothing: the state is exact.
    #[default]
    Nothing,
    /// A commit, or a statement that commits, was sent but not answered.
    Commit(Vec<Change>),
    /// A two-phase transaction, which is or may be prepared, and may be committed.
    Xa {
        /// Its name.
        name: String,
        /// Its changes.
        changes: Vec<Change>,
        /// Whether PREPARE was answered and nothing was sent after it, so that it must be found
        /// prepared.
        must_be_prepared: bool,
        /// Whether XA COMMIT was sent, so that it may be found committed.
        may_be_committed: bool,
    },
}

/// The body column. Its length and letters follow from the row, so the oracle need not keep it.
pub fn body(client: usize, id: u64, row: Row) -> String {
    let mixed = (id ^ (row.v as u64).rotate_left(17) ^ ((client as u64) << 56)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let length = match mixed >> 58 {
        0 => 30_000 + (mixed as usize >> 16) % 70_000,
        1..=8 => (mixed as usize >> 16) % 4_000,
        _ => (mixed as usize >> 16) % 120,
    };
    let pattern = format!("{client}.{id}.{}|", row.v);
    pattern.chars().cycle().take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::{Change, Place, Row, State};

    #[test]
    fn changes_apply_in_order_and_leave_the_origin_alone() {
        let mut state = State::default();
        state.apply(&[Change::Put(Place::Own, 1, Row { v: 1, n: 0 }), Change::Table("t".into(), Some(5))]);
        let after = state.with(&[Change::Remove(Place::Own, 1), Change::Table("t".into(), None)]);
        assert_eq!(after, State::default());
        assert_eq!(state.own.len(), 1);
        assert!(state.difference(&after).contains("own row 1"));
    }
}
