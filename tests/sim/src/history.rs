//! Whether what clients saw of a key could have happened one after the other, each operation at a
//! moment between its call and its return.
//!
//! The search is that of Wing and Gong with Lowe's memory of states that led nowhere (2017): at
//! each step it takes an operation that was called before any that is left returned. An operation
//! whose outcome is not known may take effect at any time after its call, or never.

use std::collections::BTreeSet;

/// A value: that of a key that has none is `None`.
pub type Value = Option<u64>;

/// Action of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read this value.
    Read(Value),
    /// Wrote a value.
    Write(u64),
    /// Wrote `new` if the value was `expected`, and was told whether it was.
    Compare {
        /// The value it was compared with.
        expected: Value,
        /// The new value.
        new: u64,
        /// Whether it matched; unknown as long as the outcome is.
        matched: Option<bool>,
    },
    /// The value ends by its deadline, if it is still there.
    Expire(u64),
}

/// An operation on a key.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The action.
    pub action: Action,
    /// When it was called.
    pub called: u64,
    /// When it returned. `None`: it is not known whether it has had, or will have, an effect.
    pub returned: Option<u64>,
    /// Whether it takes effect after the operation before it in the history: both came in one
    /// pipeline.
    pub follows: bool,
}

/// Most operations of a history: a set of them is a word of so many bits.
pub const OPERATIONS_MAX: usize = 128;

fn step(action: Action, value: Value) -> Option<Value> {
    match action {
        Action::Read(seen) => (seen == value).then_some(value),
        Action::Write(new) => Some(Some(new)),
        Action::Expire(ended) => Some(value.filter(|value| *value != ended)),
        Action::Compare { expected, new, matched } => {
            let matches = expected == value;
            let fits = matched.is_none_or(|matched| matched == matches);
            fits.then_some(if matches { Some(new) } else { value })
        }
    }
}

/// Whether the operations on a key, which had no value before, could have happened one after the
/// other.
///
/// # Panics
/// If there are more than [`OPERATIONS_MAX`].
pub fn is_linearizable(operations: &[Operation]) -> bool {
    assert!(operations.len() <= OPERATIONS_MAX, "{} operations", operations.len());
    let known = |(place, operation): (usize, &Operation)| operation.returned.map(|_| 1_u128 << place);
    let must: u128 = operations.iter().enumerate().filter_map(known).sum();
    let mut seen = BTreeSet::new();
    let mut open = vec![(0_u128, None)];
    while let Some((done, value)) = open.pop() {
        if done & must == must {
            return true;
        }
        if !seen.insert((done, value)) {
            continue;
        }
        let left = || operations.iter().enumerate().filter(|(place, _)| done >> place & 1 == 0);
        // An operation that is called after another has returned comes after it.
        let until = left().filter_map(|(_, operation)| operation.returned).min().unwrap_or(u64::MAX);
        let may_follow = |place: usize, operation: &Operation| !operation.follows || done >> (place - 1) & 1 == 1;
        for (place, operation) in left().filter(|(_, operation)| operation.called <= until) {
            if !may_follow(place, operation) {
                continue;
            }
            if let Some(value) = step(operation.action, value) {
                open.push((done | 1 << place, value));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Action, Operation, is_linearizable};

    fn at(called: u64, returned: u64, action: Action) -> Operation {
        Operation { action, called, returned: Some(returned), follows: false }
    }

    fn unknown(called: u64, action: Action) -> Operation {
        Operation { action, called, returned: None, follows: false }
    }

    #[test]
    fn what_cannot_have_happened_is_noticed() {
        use Action::{Compare, Expire, Read, Write};
        let compare = |expected, new, matched| Compare { expected, new, matched: Some(matched) };
        let yes: [&[Operation]; 7] = [
            &[at(1, 2, Write(7)), at(3, 4, Read(Some(7)))],
            &[at(1, 9, Write(7)), at(2, 3, Read(None)), at(4, 5, Read(Some(7)))],
            &[unknown(1, Write(7)), at(5, 6, Read(None)), at(7, 8, Read(Some(7)))],
            &[unknown(1, Write(7)), at(5, 6, Read(None))],
            &[at(1, 2, Write(7)), at(3, 9, compare(Some(7), 8, true)), at(3, 9, compare(Some(7), 9, false))],
            &[at(1, 2, Write(7)), unknown(1, Expire(7)), at(3, 4, Read(Some(7))), at(5, 6, Read(None))],
            &[at(1, 2, Write(7)), unknown(1, Expire(7)), at(3, 4, Write(8)), at(5, 6, Read(Some(8)))],
        ];
        let no: [&[Operation]; 7] = [
            &[at(1, 2, Write(7)), at(3, 4, Read(None))],
            &[at(1, 9, Write(7)), at(2, 3, Read(Some(7))), at(4, 5, Read(None))],
            &[unknown(5, Write(7)), at(1, 2, Read(Some(7)))],
            &[at(1, 2, Write(7)), at(3, 9, compare(Some(7), 8, true)), at(3, 9, compare(Some(7), 9, true))],
            &[unknown(1, Write(7)), at(2, 3, Read(Some(7))), at(4, 5, Read(None))],
            &[at(1, 2, Write(7)), unknown(1, Expire(7)), at(3, 4, Read(None)), at(5, 6, Read(Some(7)))],
            &[at(1, 2, Write(7)), unknown(1, Expire(7)), at(3, 4, Write(8)), at(5, 6, Read(None))],
        ];
        let follows = |mut operations: [Operation; 2]| {
            operations[1].follows = true;
            operations
        };
        assert!(is_linearizable(&follows([at(1, 9, Write(7)), at(1, 9, Read(Some(7)))])));
        assert!(!is_linearizable(&follows([at(1, 9, Write(7)), at(1, 9, Read(None))])));
        assert!(yes.iter().all(|operations| is_linearizable(operations)));
        assert!(no.iter().all(|operations| !is_linearizable(operations)));
    }
}
