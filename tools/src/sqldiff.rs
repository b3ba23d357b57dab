//! Differential test: one seeded stream of DDL, DML and queries to Perdura and to InnoDB, outcomes
//! and contents compared.
//!
//! The hazard: a statement has another result, another error or another effect than in the engine
//! that everybody knows. Two servers get the same text; only their default engine differs. One
//! thread drives several sessions in a fixed order. After each statement the tables that it may
//! have changed are read and compared, by the session itself inside its transaction and by an
//! observer after it. The permitted differences are documented where the code decides them:
//!
//! - rows without an order are a multiset, and of several erroneous rows an unordered statement may
//!   meet any first (outcome.rs);
//! - InnoDB locks more rows without a key (tracker.rs), and reports a write conflict as 1020 rather
//!   than 1213;
//! - INSERT ... SELECT takes Perdura's snapshot, while InnoDB locks the source and takes none
//!   (transactions.rs, contention.rs);
//! - tables with foreign keys have their statements alone (related.rs);
//! - columns that are computed when they are read are stored in InnoDB, whose keys on others lose
//!   entries (column.rs).

mod alone;
mod column;
mod contention;
pub mod counted;
mod counters;
mod ddl;
mod dml;
mod expression;
mod generate;
mod keyed;
mod keys;
mod outcome;
mod pair;
mod query;
mod random;
mod related;
mod report;
mod routines;
mod schema;
mod sequences;
mod serializable;
mod shrink;
mod side;
mod step;
mod table_keys;
mod tracker;
mod transactions;
mod types;

use std::time::Instant;

use anyhow::{Result, ensure};
use generate::{Generator, Planned};
use pair::{Difference, Pair, Verdict};
use step::{Kind, OBSERVER, Step};

use crate::drive::plugin;
use crate::drive::server::Place;
use crate::shared::args::Args;

const STATEMENTS: u64 = 50_000;

/// A run.
struct Run {
    pair: Pair,
    generator: Generator,
    /// Every step sent, in order, looks included.
    log: Vec<Step>,
    statements: u64,
    refused: u64,
    /// Changes of tables with counters that both have accepted.
    counted: u64,
}

/// `sqldiff [--seed N] [--statements N] [--shrink] [--placement page|split]
/// [--log-path NAME,...]`
pub fn run(mut args: Args) -> Result<()> {
    let Some(place) = Place::wanted("sqldiff", &mut args)? else { return Ok(()) };
    let seed = args.option("--seed")?.unwrap_or(1);
    let statements = args.option("--statements")?.unwrap_or(STATEMENTS);
    let shrink = args.flag("--shrink");
    args.finish()?;
    plugin::build()?;
    let begun = Instant::now();
    let mut run = Run {
        pair: Pair::start(place)?,
        generator: Generator::new(seed),
        log: Vec::new(),
        statements: 0,
        refused: 0,
        counted: 0,
    };
    println!("sqldiff: Perdura and InnoDB, seed {seed}, {statements} statements");
    let mut found = run.stream(statements)?;
    if found.is_none() {
        found = run.planted_value()?;
    }
    let explained = &run.pair.explained;
    println!(
        "sqldiff: {} s, {} statements refused by both, {} changes of tables with counters, refused by InnoDB alone: {explained:?}",
        begun.elapsed().as_secs(),
        run.refused,
        run.counted
    );
    ensure!(found.is_some() || run.counted >= statements / 50, "tables with counters were hardly changed");
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
    /// Sends the stream up to the first difference.
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

    fn one(&mut self, mut planned: Planned) -> Result<Option<Box<Difference>>> {
        planned.step.keyed = self.generator.has_keys(&planned.step);
        planned.step.warns_by_plan |= self.generator.warns_by_row(&planned.step);
        self.log.push(planned.step.clone());
        match self.pair.run(&self.generator.tracker, &planned.step)? {
            Verdict::Same(outcome) => {
                self.refused += u64::from(!planned.step.is_check && !outcome.is_done());
                let is_counted = planned.step.kind == Kind::Change && self.generator.counts(&planned.step);
                self.counted += u64::from(is_counted && outcome.is_done());
                self.generator.learn(planned, &outcome);
            }
            Verdict::Explained => {
                self.log.push(Step::new(planned.step.session, Kind::Rollback, "ROLLBACK"));
                self.generator.give_up(planned.step.session);
            }
            Verdict::Different(difference) => return Ok(Some(difference)),
        }
        Ok(None)
    }

    /// Tests the test itself: changes one value on one side only, which the comparison must report.
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
