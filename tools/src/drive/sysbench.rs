//! The program sysbench: its command line and the figures that it prints.

use std::fmt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::server::Server;
use crate::shared::{client, process};

const MISSING: &str = "sysbench is missing: `make setup` installs it (Debian's package sysbench)";

/// Results of one run.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// Transactions that were committed.
    pub transactions: u64,
    /// The same for each second.
    pub tps: f64,
    /// The time within which 99 of 100 transactions end.
    pub p99_ms: f64,
    /// Transactions begun again after a deadlock, a lost race or a lock wait that took too long.
    pub retries: u64,
}

/// Fails if the program is not there.
pub fn check() -> Result<()> {
    process::output(Command::new("sysbench").arg("--version")).map(drop).context(MISSING)
}

/// The tables of a system.
#[derive(Clone, Copy)]
pub struct Tables {
    /// How many there are.
    pub count: u32,
    /// Rows of each.
    pub rows: u64,
}

impl Tables {
    /// Four tables.
    pub const fn of_rows(rows: u64) -> Tables {
        Tables { count: 4, rows }
    }
}

impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tables of {} rows", self.count, self.rows)
    }
}

fn command(server: &Server, script: &str, tables: Tables, threads: u32) -> Command {
    let mut command = Command::new("sysbench");
    command.arg(format!("oltp_{script}")).arg("--db-driver=mysql").arg("--mysql-user=root").arg("--mysql-db=test");
    command.arg(format!("--mysql-socket={}", server.socket().display()));
    command.arg(format!("--tables={}", tables.count)).arg(format!("--table-size={}", tables.rows));
    command.arg(format!("--threads={threads}"));
    command
}

/// A script, by its name without `oltp_`, and options of its own.
#[derive(Clone, Copy)]
pub struct Script<'a> {
    pub name: &'a str,
    pub options: &'a [&'a str],
}

impl<'a> From<&'a str> for Script<'a> {
    fn from(name: &'a str) -> Self {
        Self { name, options: &[] }
    }
}

/// Tables that are filled at once.
const FILLED_AT_ONCE: u32 = 4;

/// Makes and fills the tables.
pub fn prepare(server: &Server, engine: &str, tables: Tables) -> Result<()> {
    let mut command = command(server, "write_only", tables, tables.count.min(FILLED_AT_ONCE));
    command.arg(format!("--mysql-storage-engine={engine}")).arg("prepare");
    process::output(&mut command).with_context(|| format!("{engine}: cannot fill the tables"))?;
    // Both engines' optimizer statistics are exact when the first run begins.
    let mut connection = server.connect()?;
    for table in 1..=tables.count {
        client::execute(&mut connection, &[format!("ANALYZE TABLE sbtest{table}")])?;
    }
    Ok(())
}

/// One run of a script. `seed` makes the choice of rows the same for each system.
pub fn run<'a>(
    server: &Server,
    script: impl Into<Script<'a>>,
    tables: Tables,
    threads: u32,
    lasting: Duration,
    seed: usize,
) -> Result<Outcome> {
    let Script { name: script, options } = script.into();
    let mut command = command(server, script, tables, threads);
    command.args(options);
    command.arg(format!("--time={}", lasting.as_secs())).arg(format!("--rand-seed={seed}"));
    command.args(["--percentile=99", "run"]);
    let text = process::output(&mut command)
        .with_context(|| format!("sysbench oltp_{script}, {threads} threads\n{}", server.log_tail()))?;
    parse(&text).with_context(|| format!("sysbench oltp_{script} printed:\n{text}"))
}

/// Finds the figures in what a run printed.
fn parse(text: &str) -> Result<Outcome> {
    let line = |name: &str| {
        let found = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        found.map(str::trim).with_context(|| format!("no line `{name}`"))
    };
    let counted = |name: &str| -> Result<(u64, f64)> {
        let (count, rate) = line(name)?.split_once('(').with_context(|| format!("no rate in `{name}`"))?;
        let rate = rate.split_whitespace().next().unwrap_or_default();
        Ok((count.trim().parse()?, rate.parse()?))
    };
    let (transactions, tps) = counted("transactions")?;
    let (retries, _) = counted("ignored errors")?;
    ensure!(transactions > 0, "no transaction was committed");
    Ok(Outcome { transactions, tps, p99_ms: line("99th percentile")?.parse()?, retries })
}

#[cfg(test)]
mod tests {
    use super::{Outcome, parse};

    const PRINTED: &str = "SQL statistics:
    queries performed:
        read:                            0
        total:                           29880
    transactions:                        4980   (2489.02 per sec.)
    queries:                             29880  (14934.09 per sec.)
    ignored errors:                      7      (3.50 per sec.)
    reconnects:                          0      (0.00 per sec.)

Latency (ms):
         min:                                    0.84
         99th percentile:                       18.61
         sum:                                31905.31
";

    #[test]
    fn the_figures_are_found_in_what_sysbench_prints() {
        let expected = Outcome { transactions: 4980, tps: 2489.02, p99_ms: 18.61, retries: 7 };
        assert_eq!(parse(PRINTED).unwrap(), expected);
    }

    /// A run that was cut off must not count as one of no transactions.
    #[test]
    fn a_run_without_figures_is_an_error() {
        assert!(parse("FATAL: unable to connect").is_err());
        assert!(parse(&PRINTED.replace("4980 ", "0 ")).is_err());
    }
}
