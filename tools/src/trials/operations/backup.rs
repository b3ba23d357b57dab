//! Runs `perdura backup` on a real server while clients transfer money, create tables and use
//! temporary ones. Restores the copy into a fresh server.
//!
//! The sum over all accounts never changes, and each transfer writes a line to a ledger. In every
//! backup the accounts must agree with the ledger, and everything acknowledged before the backup
//! began must be there.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use mysql::Conn;
use mysql::prelude::Queryable;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::drive::package;
use crate::drive::server::{Options, Server};
use crate::shared::client;

const ACCOUNTS: u32 = 40;
const START: i64 = 1_000;
const WRITERS: u64 = 3;

/// Backs up `rounds` times, half of them with a binary log.
pub fn run(rounds: u32, seed: u64) -> Result<()> {
    for (binlog, rounds) in [(false, rounds.div_ceil(2)), (true, rounds / 2)] {
        half(binlog, rounds, seed * 2 + u64::from(binlog))?;
    }
    Ok(())
}

fn options(binlog: bool) -> Options {
    let words = ["--log-bin", "--sync-binlog=1", "--binlog-format=ROW", "--server-id=1"];
    let extra = words.iter().filter(|_| binlog).map(|word| (*word).to_owned()).collect();
    Options { perdura: true, extra, ..Options::default() }
}

fn half(binlog: bool, rounds: u32, seed: u64) -> Result<()> {
    let server = Server::start_new(options(binlog))?;
    let mut connection = server.connect()?;
    client::execute(
        &mut connection,
        &[
            "CREATE TABLE accounts (id INT, amount BIGINT, filler VARCHAR(300)) ENGINE=Perdura".to_owned(),
            "CREATE TABLE ledger (source INT, target INT, amount BIGINT) ENGINE=Perdura".to_owned(),
            format!("INSERT INTO accounts SELECT seq, {START}, '' FROM seq_0_to_{}", ACCOUNTS - 1),
        ],
    )?;
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (server, stop, acknowledged) = (&server, &stop, &acknowledged);
                scope.spawn(move || work(&mut server.connect()?, number, seed, stop, acknowledged))
            })
            .collect();
        let rounds = (1..=rounds).try_for_each(|round| {
            round_trip(&server, &acknowledged, binlog).with_context(|| format!("round {round}, binary log {binlog}"))
        });
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().expect("no client panics")?;
        }
        rounds
    })?;
    refusals(&server)
}

/// A client: transfers, and between them statements that store to the pool outside the server's own
/// locks.
fn work(connection: &mut Conn, number: u64, seed: u64, stop: &AtomicBool, acknowledged: &AtomicU64) -> Result<()> {
    let mut random = StdRng::seed_from_u64(seed * 100 + number);
    while !stop.load(Ordering::Relaxed) {
        let (from, to) = (random.random_range(0..ACCOUNTS), random.random_range(0..ACCOUNTS));
        let amount = random.random_range(1..100);
        let filler = random.random_range(0..300);
        let statements = [
            "BEGIN".to_owned(),
            format!("UPDATE accounts SET amount=amount-{amount}, filler=REPEAT('x',{filler}) WHERE id={from}"),
            format!("UPDATE accounts SET amount=amount+{amount} WHERE id={to}"),
            format!("INSERT INTO ledger VALUES ({from}, {to}, {amount})"),
            if random.random_bool(0.1) { "ROLLBACK" } else { "COMMIT" }.to_owned(),
        ];
        let ends = statements.iter().try_for_each(|statement| connection.query_drop(statement));
        match ends {
            Ok(()) if statements[4] == "COMMIT" => {
                acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            Ok(()) => {}
            Err(mysql::Error::MySqlError(_)) => connection.query_drop("ROLLBACK")?,
            Err(error) => return Err(error.into()),
        }
        if random.random_bool(0.05) {
            let definitions = [
                format!("CREATE TEMPORARY TABLE own_{number} (a INT) ENGINE=Perdura"),
                format!("INSERT INTO own_{number} SELECT seq FROM seq_1_to_200"),
                format!("DROP TEMPORARY TABLE own_{number}"),
                format!("CREATE TABLE made_{number} (a INT) ENGINE=Perdura"),
                format!("INSERT INTO made_{number} SELECT seq FROM seq_1_to_2000"),
                format!("TRUNCATE made_{number}"),
                format!("DROP TABLE made_{number}"),
            ];
            for definition in &definitions {
                execute_patiently(connection, definition)?;
            }
        }
    }
    Ok(())
}

/// Executes DDL beside BACKUP STAGE. When the two wait for each other's metadata locks, the server
/// makes the DDL the victim and expects a retry.
fn execute_patiently(connection: &mut Conn, definition: &str) -> Result<()> {
    const TRIES: u32 = 20;
    const ER_LOCK_DEADLOCK: u16 = 1213;
    for _ in 1..TRIES {
        match connection.query_drop(definition) {
            Err(mysql::Error::MySqlError(error)) if error.code == ER_LOCK_DEADLOCK => {}
            outcome => return outcome.with_context(|| definition.to_owned()),
        }
    }
    connection.query_drop(definition).with_context(|| definition.to_owned())
}

fn command(words: &[&str], socket_or_source: &Path, target: &Path) -> Result<Output> {
    let mut command = Command::new(package::command());
    command.args(words).arg(socket_or_source).arg(target).env_remove("MYSQL_PWD");
    command.output().context("cannot run the perdura command")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Makes one backup, restores it into a server of its own, and checks it.
fn round_trip(server: &Server, acknowledged: &AtomicU64, binlog: bool) -> Result<()> {
    let before = acknowledged.load(Ordering::SeqCst);
    let mut fresh = Server::create(Options { perdura: true, ..Options::default() })?;
    let backup = fresh.free_path("backup");
    let made = command(&["backup"], &server.socket(), &backup)?;
    ensure!(made.status.success(), "backup failed: {}", said(&made));
    let info = std::fs::read_to_string(backup.join("backup.info"))?;
    let position = info.lines().find_map(|line| line.strip_prefix("gtid_binlog_pos: ")).unwrap_or_default();
    ensure!(!binlog || !position.is_empty(), "no position in the binary log: {info}");
    let restored = command(&["restore"], &backup, &fresh.free_path("pool"))?;
    ensure!(restored.status.success(), "restore failed: {}", said(&restored));
    fresh.start()?;
    let mut connection = fresh.connect()?;
    let sum: i64 = client::value(&mut connection, "SELECT SUM(amount) FROM accounts")?;
    ensure!(sum == START * i64::from(ACCOUNTS), "the accounts hold {sum}");
    let transfers: u64 = client::value(&mut connection, "SELECT COUNT(*) FROM ledger")?;
    ensure!(transfers >= before, "{transfers} transfers restored, {before} were acknowledged before the backup began");
    let unequal: u64 = client::value(
        &mut connection,
        &format!(
            "SELECT COUNT(*) FROM accounts a WHERE amount <> {START} \
             - (SELECT COALESCE(SUM(amount),0) FROM ledger WHERE source=a.id) \
             + (SELECT COALESCE(SUM(amount),0) FROM ledger WHERE target=a.id)"
        ),
    )?;
    ensure!(unequal == 0, "{unequal} accounts do not agree with the ledger");
    if binlog {
        // Each transfer is one transaction of the binary log, so the position counts at least as
        // many.
        let count = position.rsplit('-').next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
        ensure!(count >= transfers, "position {position} is older than the {transfers} transfers copied");
    }
    fresh.stop()
}

/// Checks that what is no backup is not taken for one and does not become one.
fn refusals(server: &Server) -> Result<()> {
    let fresh = Server::create(Options { perdura: true, ..Options::default() })?;
    let target = fresh.free_path("backup");
    let nobody = command(&["backup"], Path::new("nowhere.sock"), &target)?;
    ensure!(nobody.status.code() == Some(2) && !target.exists(), "without a server: {}", said(&nobody));
    let stranger = command(&["backup", "--user=stranger"], &server.socket(), &target)?;
    ensure!(stranger.status.code() == Some(2) && !target.exists(), "without an account: {}", said(&stranger));
    std::fs::create_dir_all(&target)?;
    std::fs::write(target.join("something"), "else")?;
    let taken = command(&["backup"], &server.socket(), &target)?;
    ensure!(taken.status.code() == Some(2), "over other files: {}", said(&taken));
    let pool = fresh.free_path("pool");
    let restored = command(&["restore"], &target, &pool)?;
    ensure!(restored.status.code() == Some(2), "an unfinished backup was restored: {}", said(&restored));
    let mut connection = server.connect()?;
    let held: u8 = client::value(&mut connection, "SELECT @@global.perdura_hold")?;
    ensure!(held == 0, "the pool is still held");
    connection.query_drop("INSERT INTO ledger VALUES (0, 0, 0)").context("writing after the backups")
}
