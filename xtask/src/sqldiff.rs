//! Differential test: one seeded stream of DDL, DML and queries to Perdura and to InnoDB, outcomes and contents compared.
//!
//! The hazard: a statement that gives another result, another error or another table than the engine everybody knows.
//! Two servers get the same text; only their default engine differs. One thread drives several sessions in one fixed
//! order. After each statement the tables it may have changed are read and compared, inside its transaction by the
//! session itself, afterwards by an observer. What may differ is written down where it is decided:
//!
//! - rows without an order are a multiset; of errors about rows, an unordered statement may meet either first (outcome.rs);
//! - InnoDB locks more rows without a key (tracker.rs), and reports a write conflict as 1020 rather than 1213;
//! - InnoDB takes its snapshot at the first consistent read (transactions.rs).

mod ddl;
mod dml;
mod expression;
mod generate;
mod outcome;
mod pair;
mod query;
mod random;
mod report;
mod routines;
mod schema;
mod shrink;
mod side;
mod step;
mod tracker;
mod transactions;
mod types;

use std::time::Instant;

use anyhow::{Result, ensure};
use generate::{Generator, Planned};
use pair::{Difference, Pair, Verdict};
use step::{Kind, OBSERVER, Step};

use crate::args::Args;
use crate::plugin;

const STATEMENTS: u64 = 20_000;

/// The run so far.
struct Run {
    pair: Pair,
    generator: Generator,
    /// Every step sent, in order, looks included.
    log: Vec<Step>,
    statements: u64,
    refused: u64,
}

/// `sqldiff [--seed N] [--statements N] [--shrink]`
pub fn run(mut args: Args) -> Result<()> {
    let seed = args.option("--seed")?.unwrap_or(1);
    let statements = args.option("--statements")?.unwrap_or(STATEMENTS);
    let shrink = args.flag("--shrink");
    args.finish()?;
    plugin::build()?;
    let begun = Instant::now();
    let mut run =
        Run { pair: Pair::start()?, generator: Generator::new(seed), log: Vec::new(), statements: 0, refused: 0 };
    println!("sqldiff: Perdura and InnoDB, seed {seed}, {statements} statements");
    let mut found = run.stream(statements)?;
    if found.is_none() {
        found = run.planted_value()?;
    }
    let explained = &run.pair.explained;
    println!(
        "sqldiff: {} s, {} statements refused by both, refused by InnoDB alone: {explained:?}",
        begun.elapsed().as_secs(),
        run.refused
    );
    if let Some(difference) = &found {
        report::print(seed, run.statements, &run.log, difference)?;
        if shrink {
            shrink::print(&mut run.pair, &run.log)?;
        } else {
            println!("sqldiff: servers are kept: {:?}", [run.pair.ours.keep(), run.pair.theirs.keep()]);
        }
    }
    let differences = u32::from(found.is_some());
    println!("statements {}, differences {differences}", run.statements);
    ensure!(differences == 0, "run again with --seed {seed} --statements {}", run.statements);
    Ok(())
}

impl Run {
    /// Sends the stream; ends at the first difference.
    fn stream(&mut self, statements: u64) -> Result<Option<Box<Difference>>> {
        while self.statements < statements {
            let planned = self.generator.next();
            self.statements += 1;
            let checks = self.generator.checks(&planned.step);
            if let Some(difference) = self.one(planned)? {
                return Ok(Some(difference));
            }
            for check in checks {
                if let Some(difference) = self.one(check.into())? {
                    return Ok(Some(difference));
                }
            }
        }
        Ok(None)
    }

    fn one(&mut self, planned: Planned) -> Result<Option<Box<Difference>>> {
        self.log.push(planned.step.clone());
        match self.pair.run(&self.generator.tracker, &planned.step)? {
            Verdict::Same(outcome) => {
                self.refused += u64::from(!planned.step.is_check && !outcome.is_done());
                self.generator.learn(planned, &outcome);
            }
            Verdict::Explained => self.generator.give_up(planned.step.session),
            Verdict::Different(difference) => return Ok(Some(difference)),
        }
        Ok(None)
    }

    /// The test of the test: one value is changed on one side alone, and the comparison must say so.
    fn planted_value(&mut self) -> Result<Option<Box<Difference>>> {
        let step = |kind, text: &str| Step::new(OBSERVER, kind, text);
        let table =
            ["CREATE TABLE planted (id BIGINT, text VARCHAR(20))", "INSERT INTO planted VALUES (1, 'a'), (2, 'b')"];
        for text in table {
            if let Some(difference) = self.one(step(Kind::Setting, text).into())? {
                return Ok(Some(difference));
            }
        }
        let planted = self.pair.ours.execute(&step(Kind::Setting, "UPDATE planted SET text = 'c' WHERE id = 2"));
        ensure!(planted.is_done(), "planting a value: {}", planted.describe());
        let look = step(Kind::Query, "SELECT * FROM planted");
        let verdict = self.pair.run(&self.generator.tracker, &look)?;
        ensure!(matches!(verdict, Verdict::Different(_)), "a value changed on one side alone was not noticed");
        println!("sqldiff: a value planted on one side was noticed");
        Ok(None)
    }
}
