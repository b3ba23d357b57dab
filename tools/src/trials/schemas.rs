//! `cargo xtask schemas`: schemas as applications have them, with foreign keys of every kind, side
//! by side in Perdura and in InnoDB. They are loaded, changed at random, dumped and restored.
//!
//! Hazard: an application that runs on InnoDB loses a row, keeps one too many, or cannot bring its
//! dump along. Each statement goes to a database of either engine and must have the same outcome;
//! all tables are compared again and again. The dump of each is then restored into Perdura, and a
//! kill of the server must change nothing.
//!
//! From the bottom up: `corpus` the schemas, `sides` the two databases, `catalog` what tables they
//! have, `changes` random statements, `dump`.

mod catalog;
mod changes;
mod corpus;
mod dump;
mod sides;

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::drive::plugin;
use crate::drive::server::{Options, Server};
use crate::shared::args::Args;
use catalog::Catalog;
use changes::Changes;
use corpus::Schema;
use sides::Sides;

const SEED: u64 = 1;
/// Statements at random for each schema.
const STATEMENTS: usize = 400;
/// After so many statements all tables are compared.
const COMPARED_EVERY: usize = 20;

/// `schemas [--seed N] [--statements N] [NAME...]`: all schemas, or those named. Closes with
/// `N passed, N failed`.
pub fn run(mut args: Args) -> Result<()> {
    let seed = args.option("--seed")?.unwrap_or(SEED);
    let statements = args.option("--statements")?.unwrap_or(STATEMENTS);
    let names = args.rest();
    let known = corpus::all(seed);
    if let Some(unknown) = names.iter().find(|name| known.iter().all(|schema| schema.name != **name)) {
        let names: Vec<&str> = known.iter().map(|schema| schema.name).collect();
        bail!("there is no schema {unknown}: {}", names.join(", "));
    }
    plugin::build()?;
    let extra = ["--innodb-flush-log-at-trx-commit=0", "--innodb-stats-persistent=OFF", "--perdura-data-file-size=4M"];
    let extra = extra.map(str::to_owned).to_vec();
    let mut server = Server::start_new(Options { perdura: true, extra, ..Options::default() })?;
    let wanted = |schema: &&Schema| names.is_empty() || names.iter().any(|name| name == schema.name);
    let (mut passed, mut failed) = (0, 0);
    for schema in known.iter().filter(wanted) {
        let begun = Instant::now();
        match trial(&server, schema, seed, statements) {
            Ok(summary) => {
                passed += 1;
                println!("schemas: {:<12} {summary}, {:.1} s", schema.name, begun.elapsed().as_secs_f64());
            }
            Err(error) => {
                failed += 1;
                let replay = format!("--seed {seed} --statements {statements} {}", schema.name);
                println!("schemas: {:<12} FAILED ({replay}): {error:#}", schema.name);
            }
        }
    }
    server.kill()?;
    server.start()?;
    for schema in known.iter().filter(wanted) {
        let mut sides = Sides::open(&server, schema.name)?;
        if let Err(error) = sides.compare_all() {
            failed += 1;
            println!("schemas: {:<12} FAILED after a kill of the server: {error:#}", schema.name);
        }
    }
    server.stop()?;
    println!("{passed} passed, {failed} failed");
    ensure!(failed == 0, "{failed} schemas differ");
    Ok(())
}

/// One schema, through its whole life.
fn trial(server: &Server, schema: &Schema, seed: u64, statements: usize) -> Result<String> {
    let mut sides = Sides::create(server, schema.name)?;
    for statement in &schema.statements {
        let outcome = sides.run(statement)?;
        ensure!(outcome.is_done(), "{outcome}: {statement}");
    }
    let catalog = Catalog::read(sides.theirs())?;
    let (names, keys) = (catalog.names(), catalog.reference_count());
    sides.compare_definitions(&names)?;
    let mut changes = Changes::new(catalog, seed);
    changes.load(&mut sides)?;
    sides.compare_all()?;
    let (mut done, mut refused) = (0, 0);
    for number in 0..statements {
        let statement = changes.next(&mut sides)?;
        let outcome = sides.run(&statement).with_context(|| format!("statement {number}"))?;
        *if outcome.is_done() { &mut done } else { &mut refused } += 1;
        if number % COMPARED_EVERY == 0 && !changes.is_open() {
            sides.compare_all().with_context(|| format!("after statement {number}: {statement}"))?;
        }
    }
    sides.run("COMMIT")?;
    sides.compare_all()?;
    sides.compare_definitions(&names)?;
    let rows = sides.rows(&names)?;
    dump::round_trip(server, schema.name)?;
    let tables = names.len();
    Ok(format!("{tables} tables, {keys} foreign keys, {rows} rows; {done} statements done, {refused} refused"))
}
