//! Parallel replication: a primary and a replica with four workers, with and without a binary log
//! of its own, 8 clients that change each other's rows, kill -9 of either side.
//!
//! The hazard: workers apply transactions concurrently and commit them in the primary's order. A
//! worker that searches its row in a snapshot misses what the transaction before it has just
//! changed, and the replica stops with error 1032. A worker that waits for a row lock of a later
//! transaction waits for ever. A crash may lose a transaction that the replica's position includes,
//! or repeat one. Half of the changes go to tables without a key, where the replica finds every row
//! by its content, half to tables with keys. At the end of each round the replica catches up, and
//! both sides must hold the same rows, and each index must lead to the rows of its table. A part of
//! the changes meets foreign keys, whose cascades the replica carries out by itself. Counters
//! of AUTO_INCREMENT columns are compared apart, for logs of each format (counters.rs).

mod counters;
mod load;
mod pair;
mod plan;

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use load::Client;
use pair::{Pair, Side};
use plan::{Log, Mode, Plan};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::drive::plugin;
use crate::shared::args::Args;

const CLIENTS: usize = 8;
/// How long a round's load lasts, in milliseconds.
const LOAD_MS: std::ops::Range<u64> = 400..1_500;

/// `replication [--rounds N] [--seed N] [--mode conservative|optimistic|both] [--engine NAME]`. A
/// run with another engine tests the test itself.
pub fn run(mut args: Args) -> Result<()> {
    let plan = Plan {
        engine: args.option("--engine")?.unwrap_or_else(|| "Perdura".to_owned()),
        seed: args.option("--seed")?.unwrap_or(1),
        rounds: args.option("--rounds")?.unwrap_or(3),
    };
    let modes = modes(&args.option::<String>("--mode")?.unwrap_or_else(|| "both".to_owned()))?;
    args.finish()?;
    if plan.engine.eq_ignore_ascii_case("perdura") {
        plugin::build()?;
    }
    let mut failed = 0;
    let runs = if plan.rounds > 0 { runs(&plan, &modes) } else { vec![] };
    for (mode, log) in &runs {
        failed += in_mode(&plan, *mode, *log)?;
    }
    let mut rounds = plan.rounds * runs.len() as u32;
    if plan.engine.eq_ignore_ascii_case("perdura") {
        failed += counters::run(plan.seed)?;
        rounds += counters::FORMATS.len() as u32;
    }
    println!("replication: {} passed, {failed} failed", rounds.saturating_sub(failed));
    ensure!(failed == 0, "{failed} rounds broke a promise; run again with --seed {}", plan.seed);
    Ok(())
}

fn modes(name: &str) -> Result<Vec<Mode>> {
    match name {
        "both" => Ok(vec![Mode::Conservative, Mode::Optimistic]),
        "conservative" => Ok(vec![Mode::Conservative]),
        "optimistic" => Ok(vec![Mode::Optimistic]),
        _ => bail!("--mode {name}: conservative, optimistic or both"),
    }
}

/// Each kind of log once; the modes take turns, and begin with the other one at the next seed.
fn runs(plan: &Plan, modes: &[Mode]) -> Vec<(Mode, Log)> {
    let turns = modes.iter().copied().cycle().skip((plan.seed % 2) as usize);
    turns.zip(Log::ALL).collect()
}

/// Runs all rounds with one kind of replica. Returns how many failed. A stopped replica stays
/// stopped, so the first failure ends the run.
fn in_mode(plan: &Plan, mode: Mode, log: Log) -> Result<u32> {
    let mut random = StdRng::seed_from_u64(plan.seed.wrapping_mul(4).wrapping_add(log as u64));
    println!(
        "replication: {CLIENTS} clients, {} rounds, {}, engine {}, replica {}, seed {}",
        plan.rounds,
        mode.name(),
        plan.engine,
        log.name(),
        plan.seed
    );
    let mut pair = Pair::start(plan, mode, log)?;
    let mut clients: Vec<Client> = (0..CLIENTS).map(|number| Client::new(number, random.random())).collect();
    // Of each three rounds one kills the primary, one the replica, one nobody.
    let mut kills = [Some(Side::Primary), Some(Side::Replica), None];
    for round in 1..=plan.rounds {
        if round % 3 == 1 {
            kills.shuffle(&mut random);
        }
        let killed = kills[round as usize % 3].filter(|&side| side == Side::Primary || log.survives_crash());
        let before = Duration::from_millis(random.random_range(LOAD_MS));
        let after = Duration::from_millis(random.random_range(LOAD_MS));
        let lags = random.random_bool(0.5);
        let outcome = round_of(&mut pair, &mut clients, killed, [before, after], lags);
        let sum = |count: fn(&Client) -> u64| clients.iter().map(count).sum::<u64>();
        let (transactions, refusals) = (sum(|client| client.transactions), sum(|client| client.refusals));
        match outcome {
            Ok(caught_up) => println!(
                "replication: round {round}/{} {}: killed {}, caught up in {} ms; so far {transactions} transactions, {refusals} refusals, {}",
                plan.rounds,
                mode.name(),
                killed.map_or("nobody", Side::name),
                caught_up.as_millis(),
                pair.replica_counts()?,
            ),
            Err(error) => {
                println!("replication: VIOLATION in round {round} ({}): {error:#}", mode.name());
                println!("replication: {}", pair.state());
                println!("replication: the servers' directories are kept: {}", pair.keep());
                return Ok(plan.rounds - round + 1);
            }
        }
    }
    let transactions: u64 = clients.iter().map(|client| client.transactions).sum();
    ensure!(
        transactions >= u64::from(plan.rounds) * CLIENTS as u64,
        "only {transactions} transactions were acknowledged: nothing was tested"
    );
    pair.stop()?;
    Ok(0)
}

/// Runs the load, perhaps with a kill in its middle, lets the replica catch up, and compares.
/// Returns the time it took to catch up. A replica that `lags` comes back only after the load.
fn round_of(
    pair: &mut Pair,
    clients: &mut [Client],
    killed: Option<Side>,
    load: [Duration; 2],
    lags: bool,
) -> Result<Duration> {
    let (now, later) = match killed {
        Some(Side::Replica) if lags => (None, killed),
        _ => (killed, None),
    };
    load::run(pair, clients, load[0], killed)?;
    now.map_or(Ok(()), |side| pair.restart(side))?;
    load::run(pair, clients, load[1], None)?;
    later.map_or(Ok(()), |side| pair.restart(side))?;
    let caught_up = pair.catch_up()?;
    pair.compare()?;
    Ok(caught_up)
}
