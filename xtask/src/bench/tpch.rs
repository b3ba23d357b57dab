//! TPC-H beside InnoDB: its 22 queries, each engine in a server of its own (see `pair`).
//!
//! A plan decides more of a query's time here than an engine does, so this says how well the costs
//! that the engine tells the optimizer are chosen: once with what ANALYZE TABLE gives, which is the
//! engines' own statistics, and once with the server's (PERSISTENT FOR ALL; cases
//! `.../persistent`). In each run the answers of both engines are compared with each other and with
//! the reference answers.

mod answer;
mod data;
mod queries;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use answer::Answer;
use anyhow::{Context, Result, ensure};
use mysql::Conn;
use mysql::prelude::Queryable;
use queries::Query;

use super::pair::Pair;
use super::plan::Plan;
use super::report::Report;
use super::systems::System;
use crate::client;

const METRIC: &str = "time_s";
/// Runs of each query in a full run, after one that does not count.
const ROUNDS: usize = 5;
/// When a quick run begins no further round without, and with, the server's statistics.
const PLAIN_TIME: Duration = Duration::from_secs(30);
const ALL_TIME: Duration = Duration::from_secs(50);
/// The server's error for a statement that takes longer than it may.
const TOO_LONG: u16 = 1969;
/// A query that is slower by less counts as equally fast.
const SLACK_S: f64 = 0.005;
/// Most that a query, and all of them, may take in times of InnoDB's.
const QUERY_MOST: f64 = 1.15;
const TOTAL_MOST: f64 = 0.75;

/// All queries, without and with the server's statistics.
pub fn run(plan: &Plan) -> Result<Report> {
    let scale = if plan.quick { "0.1" } else { "1" };
    let data = data::generate("tpch", scale)?;
    let (queries, reference) = (queries::all()?, answer::reference(&data)?);
    let pool = if plan.quick { "--innodb-buffer-pool-size=2G" } else { "--innodb-buffer-pool-size=6G" };
    let begun = Instant::now();
    let pair = Pair::start(plan, &[pool.to_owned()])?;
    let mut report = pair.report("tpch", format!("the 22 queries of TPC-H at scale {scale}"))?;
    on_each(&pair, |connection, system| data::load(connection, system, &data))?;
    let mut bench = Bench { plan, pair: &pair, queries: &queries, reference: &reference, begun };
    bench.measure("", PLAIN_TIME, &mut report)?;
    on_each(&pair, |connection, _| data::analyze(connection, "PERSISTENT FOR ALL"))?;
    bench.measure("/persistent", ALL_TIME, &mut report)?;
    judge(&queries, &mut report);
    Ok(report)
}

/// Runs `work` on both servers at once.
fn on_each(pair: &Pair, work: impl Fn(&mut Conn, System) -> Result<()> + Sync) -> Result<()> {
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
        let mut sessions = Vec::new();
        for &system in &self.pair.systems {
            let mut connection = client::connect_patient(&self.pair.of(system).socket())?;
            connection.query_drop(format!("SET max_statement_time = {}", self.longest_s()))?;
            sessions.push((system, connection));
        }
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
            let mut found: Vec<(System, Answer)> = Vec::new();
            for turn in 0..sessions.len() {
                let place = (turn + round) % sessions.len();
                let (system, connection) = &mut sessions[place];
                let begun = Instant::now();
                let answer = self.ask(connection, query).with_context(|| format!("{}, {case}", system.name()))?;
                let took_s = begun.elapsed().as_secs_f64();
                totals[place] += took_s;
                if let Some(report) = report.as_deref_mut() {
                    report.add(system.name(), &case, METRIC, "s", took_s);
                    if answer.is_none() {
                        report.note(format!("{}, {case}: ended after {} s", system.name(), self.longest_s()));
                    }
                }
                found.extend(answer.map(|answer| (*system, answer)));
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

    /// The answer, or none if the query took too long.
    fn ask(&self, connection: &mut Conn, query: &Query) -> Result<Option<Answer>> {
        match connection.query::<mysql::Row, _>(&query.text) {
            Ok(rows) => Ok(Some(Answer::from_rows(rows)?)),
            Err(mysql::Error::MySqlError(error)) if error.code == TOO_LONG => Ok(None),
            Err(error) => Err(error.into()),
        }
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

/// A ratio that is 1 at most where the difference is within the slack.
fn ratio(own: f64, peer: f64) -> f64 {
    let ratio = own / peer;
    if own - peer <= SLACK_S { ratio.min(1.0) } else { ratio }
}

fn judge(queries: &[Query], report: &mut Report) {
    for suffix in ["", "/persistent"] {
        for query in queries {
            let case = format!("{}{suffix}", query.name);
            let found = report.paired("perdura", "innodb", &case, METRIC, ratio);
            report.at_most(&format!("{case}: perdura / innodb"), found, QUERY_MOST);
        }
        let case = format!("total{suffix}");
        let found = report.paired("perdura", "innodb", &case, METRIC, |own, peer| own / peer);
        report.at_most(&format!("{case}: perdura / innodb"), found, TOTAL_MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::{QUERY_MOST, ratio};

    #[test]
    fn a_few_milliseconds_do_not_make_a_query_slow() {
        assert!(ratio(0.009, 0.005) <= QUERY_MOST);
        assert!(ratio(0.016, 0.010) > QUERY_MOST);
        assert!(ratio(0.005, 0.010) < 1.0);
    }
}
