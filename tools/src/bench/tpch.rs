//! TPC-H beside InnoDB: its 22 queries, each engine in a server of its own (see `pair`). Plans
//! decide most of the time, so this judges the costs that the engine tells the optimizer, once with
//! the engines' own statistics and once with the server's (`.../persistent`). Answers of both are
//! compared with each other and with the reference answers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mysql::Conn;

use super::decision::answer::{self, Answer};
use super::decision::query::{self, Query};
use super::decision::{self, data};
use super::pair::Pair;
use super::plan::Plan;
use super::report::Report;
use super::systems::System;

/// The queries have the parameters of the specification's validation (clause 2.4). Query 15 has a
/// common table expression in place of its view.
const QUERIES: &str = include_str!("tpch/queries.sql");
const SCHEMA: &str = include_str!("tpch/schema.sql");
const METRIC: &str = "time_s";
/// Runs of each query in a full run, after one that does not count.
const ROUNDS: usize = 5;
/// When a quick run begins no further round without, and with, the server's statistics.
const PLAIN_TIME: Duration = Duration::from_secs(30);
const ALL_TIME: Duration = Duration::from_secs(50);
/// A query that is slower by less counts as equally fast.
const SLACK_S: f64 = 0.005;
/// Most that a query, and all of them, may take in times of InnoDB's.
const QUERY_MOST: f64 = 1.15;
const TOTAL_MOST: f64 = 0.75;

/// All queries, without and with the server's statistics.
pub fn run(plan: &Plan) -> Result<Report> {
    let scale = if plan.quick { "0.1" } else { "1" };
    let data = data::generate("tpch", scale)?;
    let (queries, reference) = (query::parse(QUERIES, 22)?, answer::reference(&data)?);
    let pool = if plan.quick { "--innodb-buffer-pool-size=2G" } else { "--innodb-buffer-pool-size=6G" };
    let begun = Instant::now();
    let pair = Pair::start(plan, &[pool.to_owned()])?;
    let mut report = pair.report("tpch", format!("the 22 queries of TPC-H at scale {scale}"))?;
    decision::on_each(&pair, |connection, system| data::load(connection, system, SCHEMA, &data))?;
    let mut bench = Bench { plan, pair: &pair, queries: &queries, reference: &reference, begun };
    bench.measure("", PLAIN_TIME, &mut report)?;
    decision::on_each(&pair, |connection, _| data::analyze(connection, SCHEMA, "PERSISTENT FOR ALL"))?;
    bench.measure("/persistent", ALL_TIME, &mut report)?;
    judge(&queries, &mut report);
    Ok(report)
}

/// The servers, loaded.
struct Bench<'a> {
    plan: &'a Plan,
    pair: &'a Pair,
    queries: &'a [Query],
    reference: &'a HashMap<String, Answer>,
    begun: Instant,
}

impl Bench<'_> {
    /// Runs all queries in rounds; each runs on one system right after the other, and another one
    /// begins in each round. A quick run has one round, and more if there is time.
    fn measure(&mut self, suffix: &str, quick_time: Duration, report: &mut Report) -> Result<()> {
        let mut sessions = decision::sessions(self.pair, self.longest_s())?;
        if !self.plan.quick {
            self.round(0, &mut sessions, suffix, None)?;
        }
        for round in 0..if self.plan.quick { self.plan.rounds() } else { ROUNDS } {
            let begun = Instant::now();
            self.round(round, &mut sessions, suffix, Some(report))?;
            if self.plan.quick && self.begun.elapsed() + begun.elapsed() > quick_time {
                break;
            }
        }
        Ok(())
    }

    /// Longest that a query may take; InnoDB's slowest ones take a tenth of it.
    fn longest_s(&self) -> u64 {
        self.plan.size(100, 10)
    }

    fn round(
        &self,
        round: usize,
        sessions: &mut [(System, Conn)],
        suffix: &str,
        mut report: Option<&mut Report>,
    ) -> Result<()> {
        let mut totals = vec![0.0; sessions.len()];
        for query in self.queries {
            let case = format!("{}{suffix}", query.name);
            let Ok(text) = &query.text else { continue };
            let mut found: Vec<(System, Answer)> = Vec::new();
            for turn in 0..sessions.len() {
                let place = (turn + round) % sessions.len();
                let (system, connection) = &mut sessions[place];
                let run = decision::ask(connection, text).with_context(|| format!("{}, {case}", system.name()))?;
                totals[place] += run.took_s;
                if let Some(report) = report.as_deref_mut() {
                    report.add(system.name(), &case, METRIC, "s", run.took_s);
                    if run.answer.is_none() {
                        report.note(format!("{}, {case}: ended after {} s", system.name(), self.longest_s()));
                    }
                }
                found.extend(run.answer.map(|answer| (*system, answer)));
            }
            self.compare(query, &found)?;
        }
        if let Some(report) = report {
            for ((system, _), total) in sessions.iter().zip(totals) {
                report.add(system.name(), &format!("total{suffix}"), METRIC, "s", total);
            }
        }
        Ok(())
    }

    fn compare(&self, query: &Query, found: &[(System, Answer)]) -> Result<()> {
        let reference =
            self.reference.get(&query.name).with_context(|| format!("{}: no reference answer", query.name))?;
        for (system, answer) in found {
            answer
                .compare(reference)
                .with_context(|| format!("{}, {}: not the reference answer", system.name(), query.name))?;
        }
        let same = found.windows(2).all(|pair| pair[0].1 == pair[1].1);
        ensure!(same, "{}: the engines' answers differ", query.name);
        Ok(())
    }
}

fn judge(queries: &[Query], report: &mut Report) {
    for suffix in ["", "/persistent"] {
        for query in queries {
            let case = format!("{}{suffix}", query.name);
            let found =
                report.paired("perdura", "innodb", &case, METRIC, |own, peer| decision::ratio(own, peer, SLACK_S));
            report.at_most(&format!("{case}: perdura / innodb"), found, QUERY_MOST);
        }
        let case = format!("total{suffix}");
        let found = report.paired("perdura", "innodb", &case, METRIC, |own, peer| own / peer);
        report.at_most(&format!("{case}: perdura / innodb"), found, TOTAL_MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::QUERIES;
    use crate::bench::decision::query;

    #[test]
    fn all_queries_are_there() {
        assert!(query::parse(QUERIES, 22).unwrap().iter().all(|query| query.text.is_ok()));
    }
}
