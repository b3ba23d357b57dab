//! `cargo xtask tpcds`: the 99 queries of TPC-DS at scale 0.1 on Perdura and InnoDB, each engine in
//! a server of its own (see `pair`).
//!
//! The optimizer has what ANALYZE TABLE gives. Each query runs on one engine right after the other,
//! in some pairs. It fails if the answers differ as multisets of rows, or if Perdura's time is over
//! the limit in the median of the pairs; then both plans are printed.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use mysql::Conn;
use mysql::prelude::Queryable;

use super::decision::answer::Answer;
use super::decision::query::{self, Query};
use super::decision::{self, data};
use super::pair::Pair;
use super::plan::Plan;
use super::report::{self, Report};
use super::systems::System;
use crate::drive::plugin;
use crate::shared::args::Args;

const QUERIES: &str = include_str!("tpcds/queries.sql");
const SCHEMA: &str = include_str!("tpcds/schema.sql");
const COUNT: usize = 99;
const SCALE: &str = "0.1";
const METRIC: &str = "time_s";
/// Pairs of runs unless the command line says otherwise.
const PAIRS: usize = 3;
/// When a query is ended. One that takes so long in both engines, or in InnoDB, is named: there are
/// no two answers.
const LONGEST_S: u64 = 60;
/// Most that a query may take in times of InnoDB's, and the difference that counts as none.
const QUERY_MOST: f64 = 2.0;
const SLACK_S: f64 = 0.020;

/// `tpcds [qNN...] [--pairs N] [--json FILE]`: all queries, or those named.
pub fn run(mut args: Args) -> Result<()> {
    let pairs: usize = args.option("--pairs")?.unwrap_or(PAIRS);
    let json: Option<PathBuf> = args.option("--json")?;
    let wanted: Vec<String> = std::iter::from_fn(|| args.positional()).collect();
    args.finish()?;
    let mut queries = query::parse(QUERIES, COUNT)?;
    let is_known = |name: &String| queries.iter().any(|query| query.name == *name);
    ensure!(wanted.iter().all(is_known), "queries have names from q01 to q{COUNT}");
    queries.retain(|query| wanted.is_empty() || wanted.contains(&query.name));

    plugin::build()?;
    let data = data::generate("tpcds", SCALE)?;
    let pair = Pair::start(&Plan::new(false, true), &[])?;
    decision::on_each(&pair, |connection, system| data::load(connection, system, SCHEMA, &data))?;
    let mut comparison = Comparison {
        report: pair.report("tpcds", format!("queries of TPC-DS at scale {SCALE}"))?,
        sessions: decision::sessions(&pair, LONGEST_S)?,
        pairs,
        outcomes: Vec::new(),
    };
    queries.iter().for_each(|query| comparison.run(query));
    comparison.conclude(json)
}

/// Result of a query that a report of times does not tell.
enum Outcome {
    /// The answers were equal, and had so many rows.
    Equal(usize),
    /// The server cannot express it, for this reason.
    LeftOut(String),
    /// InnoDB, or both engines, took too long.
    TooLong,
    /// The answers differ, or there was an error.
    Wrong(String),
    /// Perdura took more than its limit; both plans.
    Slow(String),
}

/// The loaded servers, and the results so far.
struct Comparison {
    report: Report,
    sessions: Vec<(System, Conn)>,
    pairs: usize,
    outcomes: Vec<(String, Outcome)>,
}

impl Comparison {
    fn run(&mut self, query: &Query) {
        let outcome = match &query.text {
            Ok(text) => self.compare(&query.name, text).unwrap_or_else(|error| Outcome::Wrong(format!("{error:#}"))),
            Err(reason) => Outcome::LeftOut(reason.clone()),
        };
        println!("tpcds: {}: {}", query.name, self.describe(&query.name, &outcome));
        self.outcomes.push((query.name.clone(), outcome));
    }

    /// Runs a query in pairs; another engine begins in each.
    fn compare(&mut self, name: &str, text: &str) -> Result<Outcome> {
        let mut compared = None;
        for round in 0..self.pairs {
            let mut answers: Vec<Answer> = Vec::new();
            for turn in 0..self.sessions.len() {
                let place = (turn + round) % self.sessions.len();
                let (system, connection) = &mut self.sessions[place];
                let run = decision::ask(connection, text).map_err(|error| error.context(system.name()))?;
                self.report.add(system.name(), name, METRIC, "s", run.took_s);
                answers.extend(run.answer);
            }
            match answers.as_slice() {
                [] => return Ok(Outcome::TooLong),
                [answer, other] => {
                    // Deviations are floating-point numbers, which depend on the order of the rows.
                    if answer != other {
                        answer.compare(other).map_err(|error| error.context("the answers differ"))?;
                    }
                    compared = Some(answer.rows());
                }
                _ => {}
            }
        }
        let found = self.report.paired("perdura", "innodb", name, METRIC, limited_ratio);
        self.report.at_most(&format!("{name}: perdura / innodb"), found, QUERY_MOST);
        if found.is_some_and(|ratio| ratio > QUERY_MOST) {
            return self.plans(text).map(Outcome::Slow);
        }
        Ok(compared.map_or(Outcome::TooLong, Outcome::Equal))
    }

    /// Both engines' plans.
    fn plans(&mut self, text: &str) -> Result<String> {
        let mut plans = String::new();
        for (system, connection) in &mut self.sessions {
            plans.push_str(&format!("{}:\n", system.name()));
            let rows: Vec<mysql::Row> = connection.query(format!("EXPLAIN {text}"))?;
            for row in rows {
                let cell = |value: mysql::Value| match value {
                    mysql::Value::NULL => "-".to_owned(),
                    mysql::Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                    other => format!("{other:?}"),
                };
                let cells: Vec<String> = row.unwrap().into_iter().map(cell).collect();
                plans.push_str(&format!("  {}\n", cells.join(" | ")));
            }
        }
        Ok(plans)
    }

    fn describe(&self, name: &str, outcome: &Outcome) -> String {
        let times = || {
            let median = |system: &str| self.report.value(system, name, METRIC).unwrap_or_default();
            format!("perdura {:.3} s, innodb {:.3} s", median("perdura"), median("innodb"))
        };
        match outcome {
            Outcome::Equal(rows) => format!("{}, {rows} rows", times()),
            Outcome::LeftOut(reason) => format!("left out: {reason}"),
            Outcome::TooLong => format!("more than {LONGEST_S} s in InnoDB or in both engines"),
            Outcome::Wrong(error) => format!("WRONG: {error}"),
            Outcome::Slow(plans) => format!("SLOW: {}\n{plans}", times()),
        }
    }

    /// Prints the report and the counts, and fails if a query did.
    fn conclude(mut self, json: Option<PathBuf>) -> Result<()> {
        let names = |is_such: fn(&Outcome) -> bool| -> Vec<&str> {
            let found = self.outcomes.iter().filter(|(_, outcome)| is_such(outcome));
            found.map(|(name, _)| name.as_str()).collect()
        };
        let failed = names(|outcome| matches!(outcome, Outcome::Wrong(_) | Outcome::Slow(_))).join(" ");
        let counts = [
            ("compared", names(|outcome| matches!(outcome, Outcome::Equal(_) | Outcome::Slow(_))).len(), String::new()),
            listed("without rows", &names(|outcome| matches!(outcome, Outcome::Equal(0)))),
            listed("too long to compare", &names(|outcome| matches!(outcome, Outcome::TooLong))),
            listed("left out", &names(|outcome| matches!(outcome, Outcome::LeftOut(_)))),
            listed("failed", &names(|outcome| matches!(outcome, Outcome::Wrong(_) | Outcome::Slow(_)))),
        ];
        let counts: Vec<String> = counts.iter().map(|(what, count, which)| format!("{count} {what}{which}")).collect();
        self.report.note(counts.join(", "));
        print!("{}", self.report);
        if let Some(path) = json {
            report::write_json(&path, &self.report.to_json())?;
        }
        ensure!(failed.is_empty(), "failed: {failed}");
        Ok(())
    }
}

/// A count and the names behind it.
fn listed(what: &'static str, names: &[&str]) -> (&'static str, usize, String) {
    let which = if names.is_empty() { String::new() } else { format!(" ({})", names.join(" ")) };
    (what, names.len(), which)
}

fn limited_ratio(own_s: f64, peer_s: f64) -> f64 {
    decision::ratio(own_s, peer_s, SLACK_S)
}

#[cfg(test)]
mod tests {
    use super::{COUNT, QUERIES, QUERY_MOST, limited_ratio};
    use crate::bench::decision::query;

    #[test]
    fn all_queries_are_there_or_have_a_reason() {
        let queries = query::parse(QUERIES, COUNT).unwrap();
        assert!(
            queries
                .iter()
                .all(|query| query.text.as_ref().map_or_else(|reason| reason.len() > 10, |text| text.len() > 10))
        );
    }

    #[test]
    fn a_query_is_slow_by_its_ratio_and_more_than_the_slack() {
        assert!(limited_ratio(0.024, 0.005) <= QUERY_MOST);
        assert!(limited_ratio(0.050, 0.020) > QUERY_MOST);
        assert!(limited_ratio(0.190, 0.100) <= QUERY_MOST);
    }
}
