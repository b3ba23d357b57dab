//! The same DRAM: sysbench's writes beside InnoDB whose buffer pool holds a twentieth of the data,
//! each engine in a server of its own.

use std::time::Duration;

use anyhow::Result;

use super::heading::heading;
use crate::drive::server::{Options, Server};
use crate::drive::sysbench::{self, Tables};
use crate::shared::process;

/// Rows of each table: some 120 MB in InnoDB.
const TABLES: Tables = Tables::of_rows(130_000);
/// The smallest buffer pool that InnoDB takes with pages of 16 KiB, which is a twentieth of that.
const POOL: &str = "--innodb-buffer-pool-size=6M";
/// The server's own tables do not need InnoDB.
const ALONE: [&str; 2] = ["--skip-innodb", "--default-storage-engine=Perdura"];
const ENGINES: [&str; 2] = ["InnoDB", "Perdura"];
const THREADS: u32 = 8;
const SCRIPTS: [&str; 3] = ["write_only", "read_write", "point_select"];
const LASTING: Duration = Duration::from_secs(1);

/// Loads both servers at once, then runs the scripts on one after the other.
pub fn compare() -> Result<()> {
    heading("The same DRAM: sysbench, 120 MB of tables, InnoDB with a buffer pool of 6 MiB");
    let start = |engine| {
        let perdura = engine == "Perdura";
        let extra: &[&str] = if perdura { &ALONE } else { &[POOL] };
        let extra = extra.iter().map(|&option| option.to_owned()).collect();
        Server::start_new(Options { perdura, extra, ..Options::default() })
    };
    let servers = ENGINES.into_iter().map(start).collect::<Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        let load = |(server, engine)| scope.spawn(move || sysbench::prepare(server, engine, TABLES));
        let loaders: Vec<_> = servers.iter().zip(ENGINES).map(load).collect();
        loaders.into_iter().try_for_each(|loader| loader.join().expect("a loader does not panic"))
    })?;
    println!("  {TABLES}, {THREADS} sessions, transactions a second");
    println!("  {:<14} {:>12} {:>12} {:>8}", "", ENGINES[0], ENGINES[1], "");
    for script in SCRIPTS {
        let run = |server| Ok(sysbench::run(server, script, TABLES, THREADS, LASTING, 1)?.tps);
        let tps = servers.iter().map(run).collect::<Result<Vec<_>>>()?;
        println!("  {script:<14} {:>12.0} {:>12.0} {:>6.1} x", tps[0], tps[1], tps[1] / tps[0]);
    }
    let private = |server: &Server| process::status_bytes(server.pid(), "RssAnon").map(|bytes| bytes >> 20);
    let private = servers.iter().map(private).collect::<Result<Vec<_>>>()?;
    println!("  {:<14} {:>8} MiB {:>8} MiB", "private memory", private[0], private[1]);
    Ok(())
}
