//! SEQUENCE objects: no value comes twice, and what an acknowledged SETVAL has set stays passed.

use std::collections::BTreeMap;

use mysql::Conn;
use mysql::prelude::Queryable;
use rand::Rng;
use rand::rngs::StdRng;

use crate::shared::trouble::Trouble;

/// Names, and how many values each reserves at once.
const SEQUENCES: [(&str, u32); 3] = [("one_by_one", 0), ("ten", 10), ("thousand", 1000)];
/// Of so many uses of a sequence one sets it.
const SETS: u32 = 12;

/// Number of sequences.
pub const COUNT: usize = SEQUENCES.len();

/// The values that a client has got, of transactions rolled back too.
#[derive(Default)]
pub struct Values {
    taken: Vec<(usize, i64)>,
    /// For each sequence the greatest value that it has passed before this client's next use.
    passed: [i64; COUNT],
    faults: Vec<String>,
}

/// The statements that make the sequences.
pub fn definitions(engine: &str) -> impl Iterator<Item = String> {
    SEQUENCES.iter().map(move |(name, cache)| format!("CREATE SEQUENCE {name} CACHE {cache} ENGINE={engine}"))
}

impl Values {
    /// Takes a value of a sequence, or sets it, and notes what was acknowledged.
    pub fn next(&mut self, random: &mut StdRng, connection: &mut Conn) -> Result<(), Trouble> {
        let place = random.random_range(0..COUNT);
        let name = SEQUENCES[place].0;
        if random.random_range(0..SETS) == 0 {
            let value = self.passed[place] + random.random_range(1..50);
            // NULL: the sequence is there already.
            let set: Option<Option<i64>> = connection.query_first(format!("SELECT SETVAL({name}, {value})"))?;
            self.passed[place] = self.passed[place].max(set.flatten().unwrap_or_default());
            return Ok(());
        }
        let value: Option<i64> = connection.query_first(format!("SELECT NEXTVAL({name})"))?;
        self.take(place, value.unwrap_or_default());
        Ok(())
    }

    fn take(&mut self, place: usize, value: i64) {
        if value <= self.passed[place] {
            let fault = format!("{} gave {value} though it had passed {}", SEQUENCES[place].0, self.passed[place]);
            self.faults.push(fault);
        }
        self.passed[place] = self.passed[place].max(value);
        self.taken.push((place, value));
    }
}

/// Adds a line for each value that came twice or too late.
pub fn check<'v>(clients: impl Iterator<Item = &'v mut Values>, violations: &mut Vec<String>) {
    let mut seen = BTreeMap::new();
    for (client, values) in clients.enumerate() {
        violations.append(&mut values.faults);
        for &(place, value) in &values.taken {
            if let Some(other) = seen.insert((place, value), client) {
                let name = SEQUENCES[place].0;
                violations.push(format!("{name} gave {value} to client {client} and client {other}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Values, check};

    fn faults(taken: &[&[i64]], set: i64) -> usize {
        let mut clients: Vec<Values> = taken.iter().map(|_| Values::default()).collect();
        for (values, taken) in clients.iter_mut().zip(taken) {
            values.passed[0] = set;
            taken.iter().for_each(|value| values.take(0, *value));
        }
        let mut violations = Vec::new();
        check(clients.iter_mut(), &mut violations);
        violations.len()
    }

    #[test]
    fn a_value_that_comes_twice_or_too_late_is_noticed() {
        assert_eq!(faults(&[&[1, 4], &[2, 3]], 0), 0);
        assert_eq!(faults(&[&[1, 4], &[2, 4]], 0), 1);
        assert_eq!(faults(&[&[3, 2]], 0), 1);
        assert_eq!(faults(&[&[7]], 7), 1);
    }
}
