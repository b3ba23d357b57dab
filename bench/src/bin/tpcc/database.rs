//! The operations that the transactions use: rows by their keys, for nine tables.
//!
//! A transaction is everything up to `commit` or `roll_back`. A system with one thread and no log
//! needs neither.

use crate::keys::Name;
use crate::rows::Row;

/// The transaction has lost a race: it is to be rolled back and tried again.
#[derive(Debug)]
pub struct Conflict;

/// The result of a step of a transaction.
pub type Tried<T> = Result<T, Conflict>;

/// A system, as one terminal uses it.
pub trait Database {
    /// Whether `roll_back` takes back what was written. Otherwise a transaction that is going to be
    /// rolled back is not begun.
    const TAKES_BACK: bool;

    /// Calls `visit` with each of these rows, or with none for a key that no row has.
    fn read<R: Row>(&mut self, keys: &[u64], visit: impl FnMut(usize, Option<&R>)) -> Tried<()>;

    /// Calls `visit` with the rows from key `from` up to, without, `to`, in order.
    fn read_range<R: Row>(&mut self, from: u64, to: u64, visit: impl FnMut(&R)) -> Tried<()>;

    /// Calls `visit` with each row of a table. A statement by itself.
    fn each<R: Row>(&mut self, visit: impl FnMut(&R));

    /// Changes a row, which nobody else changes until the transaction ends.
    fn change<R: Row, T>(&mut self, key: u64, edit: impl FnOnce(&mut R) -> T) -> Tried<T>;

    /// Changes the rows from key `from` up to, without, `to`, in order.
    fn change_range<R: Row>(&mut self, from: u64, to: u64, edit: impl FnMut(&mut R)) -> Tried<()>;

    /// Inserts a row, whose keys are new.
    fn insert<R: Row>(&mut self, row: R) -> Tried<()>;

    /// Deletes a row.
    fn remove<R: Row>(&mut self, key: u64) -> Tried<()>;

    /// The least key from `from` up to, without, `to`.
    fn first_key<R: Row>(&mut self, from: u64, to: u64) -> Tried<Option<u64>>;

    /// Numbers of the customers from one name up to, without, another, by first name.
    fn named(&mut self, from: &Name, to: &Name, found: &mut Vec<u32>) -> Tried<()>;

    /// Number of the last order from one key by customer up to, without, another.
    fn last_order(&mut self, from: u64, to: u64) -> Tried<Option<u32>>;

    /// Commits the transaction.
    fn commit(&mut self) -> Tried<()>;

    /// Rolls the transaction back.
    fn roll_back(&mut self);
}
