//! Parts that the decision-support benchmarks, `tpch` and `tpcds`, share: data, queries, answers,
//! and sessions on both engines' servers.

pub mod answer;
pub mod data;
pub mod query;

use std::time::Instant;

use anyhow::{Context, Result};
use mysql::Conn;
use mysql::prelude::Queryable;

use super::pair::Pair;
use super::systems::System;
use crate::shared::client;
use answer::Answer;

/// The server's error for a statement that takes longer than it may.
const TOO_LONG: u16 = 1969;

/// One run of a query.
pub struct Run {
    /// Time until the last row was there, or the query was ended.
    pub took_s: f64,
    /// The answer, or none if the query took too long.
    pub answer: Option<Answer>,
}

/// Opens a session on each server. Its statements are ended after `longest_s` seconds.
pub fn sessions(pair: &Pair, longest_s: u64) -> Result<Vec<(System, Conn)>> {
    let open = |&system: &System| {
        let mut connection = client::connect_patient(&pair.of(system).socket())?;
        connection.query_drop(format!("SET max_statement_time = {longest_s}"))?;
        Ok((system, connection))
    };
    pair.systems.iter().map(open).collect()
}

/// Runs `work` on both servers at once.
pub fn on_each(pair: &Pair, work: impl Fn(&mut Conn, System) -> Result<()> + Sync) -> Result<()> {
    let one = |system: System| work(&mut client::connect_patient(&pair.of(system).socket())?, system);
    let one = &one;
    std::thread::scope(|scope| {
        let running: Vec<_> = pair.systems.iter().map(|&system| (system, scope.spawn(move || one(system)))).collect();
        running.into_iter().try_for_each(|(system, worker)| {
            let done = worker.join().expect("the work does not panic");
            done.with_context(|| system.name().to_owned())
        })
    })
}

/// Runs a query.
pub fn ask(connection: &mut Conn, query: &str) -> Result<Run> {
    let begun = Instant::now();
    let answer = match connection.query::<mysql::Row, _>(query) {
        Ok(rows) => Some(Answer::from_rows(rows)?),
        Err(mysql::Error::MySqlError(error)) if error.code == TOO_LONG => None,
        Err(error) => return Err(error.into()),
    };
    Ok(Run { took_s: begun.elapsed().as_secs_f64(), answer })
}

/// A ratio of times that is 1 at most where they differ by no more than `slack_s`.
pub fn ratio(own_s: f64, peer_s: f64, slack_s: f64) -> f64 {
    let ratio = own_s / peer_s;
    if own_s - peer_s <= slack_s { ratio.min(1.0) } else { ratio }
}

#[cfg(test)]
mod tests {
    use super::ratio;

    #[test]
    fn a_difference_within_the_slack_does_not_make_a_query_slow() {
        assert!(ratio(0.009, 0.005, 0.005) <= 1.0);
        assert!(ratio(0.016, 0.010, 0.005) > 1.5);
        assert!(ratio(0.005, 0.010, 0.005) < 1.0);
    }
}
