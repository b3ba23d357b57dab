//! Process-crash test: the real mariadbd, 8 clients with mixed load and DDL, kill -9 at random
//! moments.
//!
//! The hazard: a crash of the server process loses an acknowledged transaction, leaves half a
//! transaction, or makes server and engine disagree about a table definition. Clients have rows
//! of their own and change and delete each other's (contest.rs). The oracle lives here, outside
//! the server. Half of the clients' own tables and all shared ones have keys: columns of keys
//! change, inserts of a key that is there must be refused, no value of AUTO_INCREMENT or of a
//! sequence may come twice, and after each restart every index must lead to the rows that a
//! scan finds. Half of the rounds run without binary log (with XA transactions), half with it.
//! Each half has its own server and pool, which live through all its rounds.

mod check;
mod contest;
mod model;
mod sequences;
mod worker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use model::{ACCOUNTS, AMOUNT_AT_START};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use worker::Worker;

use crate::drive::plugin;
use crate::drive::server::{Options, Place, Server};
use crate::shared::args::Args;
use crate::shared::client;

const CLIENTS: usize = 8;
struct Plan {
    engine: String,
    place: Place,
    seed: u64,
    rounds: u32,
}

/// `crash-server [--seed N] [--rounds N] [--engine NAME] [--placement page|split]
/// [--log-path NAME,...]`. A run with
/// another engine tests the test itself.
pub fn run(mut args: Args) -> Result<()> {
    let Some(place) = Place::wanted("crash-server", &mut args)? else { return Ok(()) };
    let plan = Plan {
        place,
        engine: args.option("--engine")?.unwrap_or_else(|| "Perdura".to_owned()),
        seed: args.option("--seed")?.unwrap_or(1),
        rounds: args.option("--rounds")?.unwrap_or(30),
    };
    args.finish()?;
    if plan.engine.eq_ignore_ascii_case("perdura") {
        plugin::build()?;
    }
    println!("crash-server: {CLIENTS} clients, {} kills, engine {}, seed {}", plan.rounds, plan.engine, plan.seed);
    let mut failed = 0;
    for (binlog, rounds) in [(false, plan.rounds.div_ceil(2)), (true, plan.rounds / 2)] {
        failed += half(&plan, binlog, rounds)?;
    }
    println!("crash-server: {} passed, {failed} failed", plan.rounds.saturating_sub(failed));
    ensure!(failed == 0, "{failed} rounds broke a promise; run again with --seed {}", plan.seed);
    Ok(())
}

fn options(plan: &Plan, binlog: bool) -> Options {
    let perdura = plan.engine.eq_ignore_ascii_case("perdura");
    let mut extra = vec!["--innodb-lock-wait-timeout=1".to_owned(), "--innodb-flush-log-at-trx-commit=1".to_owned()];
    if perdura {
        // Without the engine a server would start, and know no engine of the tables.
        extra.extend(["--perdura=FORCE", "--perdura-lock-wait-timeout=1"].map(str::to_owned));
    }
    if binlog {
        extra.extend(["--log-bin", "--sync-binlog=1", "--binlog-format=ROW", "--server-id=1"].map(str::to_owned));
    }
    Options { perdura, extra, place: Some(plan.place.clone()), ..Options::default() }
}

/// Runs all rounds with or without binary log. Returns how many failed.
fn half(plan: &Plan, binlog: bool, rounds: u32) -> Result<u32> {
    let mut server = Server::start_new(options(plan, binlog))?;
    create_tables(&server, &plan.engine)?;
    let seed = plan.seed * 2 + u64::from(binlog);
    let mut random = StdRng::seed_from_u64(seed);
    let mut workers: Vec<Worker> = (0..CLIENTS).map(|number| Worker::new(number, seed, &plan.engine)).collect();
    let label = if binlog { "with binary log" } else { "without binary log" };
    let mut contested = contest::Rows::new();
    let mut failed = 0;
    for round in 1..=rounds {
        let lifetime = Duration::from_millis(random.random_range(30..900));
        let mut violations = load_and_kill(&mut server, &mut workers, lifetime, !binlog)?;
        let begun = Instant::now();
        server.start().with_context(|| format!("round {round} {label}: the server does not come back"))?;
        let restart = begun.elapsed();
        violations.extend(check::check(&mut server.connect()?, &mut workers, &mut contested)?);
        let sum = |count: fn(&Worker) -> u64| workers.iter().map(count).sum::<u64>();
        println!(
            "crash-server: round {round}/{rounds} {label}: killed after {} ms, back in {} ms; so far {} transactions, {} DDL, {} refusals",
            lifetime.as_millis(),
            restart.as_millis(),
            sum(|worker| worker.counts.transactions),
            sum(|worker| worker.counts.definitions),
            sum(|worker| worker.counts.refusals),
        );
        for violation in &violations {
            println!("crash-server: VIOLATION in round {round}: {violation}");
        }
        if !violations.is_empty() {
            failed += 1;
            println!("crash-server: the server's directory is kept: {}", server.keep().display());
        }
    }
    let acknowledged: u64 = workers.iter().map(|worker| worker.counts.transactions).sum();
    ensure!(
        acknowledged >= u64::from(rounds),
        "only {acknowledged} transactions were acknowledged: nothing was tested"
    );
    server.stop()?;
    server.start().context("the server does not start after an ordinary shutdown")?;
    let violations = check::check(&mut server.connect()?, &mut workers, &mut contested)?;
    ensure!(violations.is_empty(), "after an ordinary shutdown: {violations:?}");
    server.stop()?;
    Ok(failed)
}

fn create_tables(server: &Server, engine: &str) -> Result<()> {
    let mut connection = server.connect()?;
    let columns = "client INT, id BIGINT, v BIGINT, n BIGINT, body MEDIUMTEXT";
    let mut tables: Vec<String> = (0..CLIENTS)
        .map(|client| {
            let keys = ", PRIMARY KEY (id), UNIQUE KEY (v, id), KEY (n), KEY (body(30))";
            format!("own_{client} ({columns}{})", if Worker::has_keys(client) { keys } else { "" })
        })
        .collect();
    tables.push(format!("shared ({columns}, PRIMARY KEY (client, id), KEY (v DESC), KEY (n, v))"));
    tables.push(
        "contested (slot BIGINT, id BIGINT, version BIGINT, writer BIGINT, body MEDIUMTEXT, PRIMARY KEY (id), UNIQUE KEY (slot), \
         KEY (writer, version))"
            .to_owned(),
    );
    tables.push("accounts (id INT PRIMARY KEY, amount BIGINT, KEY (amount))".to_owned());
    let ledger = "client INT, id BIGINT, source INT, target INT, amount BIGINT";
    tables.push(format!("ledger ({ledger}, UNIQUE KEY (id, client), KEY (source), KEY (target, amount))"));
    tables.push(
        "numbers (number BIGINT AUTO_INCREMENT PRIMARY KEY, client INT, tag BIGINT, UNIQUE KEY (tag, client))"
            .to_owned(),
    );
    let mut statements: Vec<String> =
        tables.iter().map(|table| format!("CREATE TABLE {table} ENGINE={engine}")).collect();
    statements.push(format!("INSERT INTO accounts SELECT seq, {AMOUNT_AT_START} FROM seq_0_to_{}", ACCOUNTS - 1));
    statements.extend(sequences::definitions(engine));
    client::execute(&mut connection, &statements)
}

/// Lets all clients work for `lifetime`, then kills the server. Returns what went wrong before the
/// kill.
fn load_and_kill(server: &mut Server, workers: &mut [Worker], lifetime: Duration, xa: bool) -> Result<Vec<String>> {
    let killed = AtomicBool::new(false);
    let socket = server.socket();
    std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .map(|worker| {
                let (socket, killed) = (&socket, &killed);
                scope.spawn(move || worker.run(socket, killed, xa))
            })
            .collect();
        std::thread::sleep(lifetime);
        killed.store(true, Ordering::SeqCst);
        server.kill()?;
        let outcomes = threads.into_iter().map(|thread| thread.join().expect("a client does not panic"));
        Ok(outcomes.filter_map(Result::err).map(|error| format!("{error:#}")).collect())
    })
}
