//! Perdura's own tooling, run as `cargo xtask COMMAND`: verification, test drivers, benchmarks and
//! the demo.
//!
//! A command does all it needs by itself: it builds the plugin, starts a private server and removes
//! it again. Only `make setup`, which unpacks the server, must have run before.

#![forbid(unsafe_code)]

mod bench;
mod drive;
mod plots;
mod shared;
mod sqldiff;
mod test;
mod trials;
mod verify;

use std::process::ExitCode;

use anyhow::{Result, bail};
use drive::{demo, kv, package, plugin, serve};
use shared::args::Args;
use shared::paths;
use trials::applications::{django, sqlalchemy};
use trials::{crash_server, dax, explore, key_damage, mtr, operations, replication, schemas, sim};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  verify                                       format, lints, layers, licences, docs; changes nothing
  test [STEP...]                               every test, two at a time, with the time each takes
  demo                                         real data, peers and a crash
  demo-kv                                      a replicated key-value server: its leader killed, a replica wiped
  server [--dir DIR] [--port N]                a server to work with, until it is interrupted; it keeps its data
  plugin                                       build ha_perdura.so and put it before the unpacked server
  mtr [TEST...]                                run the SQL test suites of tests/mysql-test
  mtr --enforce SUITE|TEST...                  suites of the server's own, all tables in Perdura, compared with InnoDB
  explore [--seed N] [--images N | --minutes N | --forever] [--product engine|map] [--scenario NAME]
          [--no-mutations] [--plant NAME] [--costs]
                                               open every legal image of a power loss
  sim [--seed N] [--seeds N] [--plant NAME] [--no-plants]
                                               whole clusters of perdura-kv in one thread, each as its seed decides
  kv-clients [NAME...]                         redis-cli, redis-benchmark, redis-py, go-redis and redis-rs on a cluster of perdura-kv
  kv-chaos [--seconds N] [--seed N]            perdura-kv in namespaces: cut off, stopped, killed, wiped, clocks moved; judged by Porcupine
  kv-page                                      the page of a replica in a browser, also after the leader was killed
  bench NAME|all [--quick] [--json FILE] [--series FILE] [--docs] [--peers-only] [--warehouses N] [--threads N] [--seconds N] [--hours N]
                                               NAME: load, commit, point, update, fk, scan, mass, stall, switch, recovery, restart, memory, space,
                                               many, soak, engine, lanes, index, prefault, log, nflog, primitives, media, sysbench, layers, dram-budget, tpcc, tpcc-engine, tpch,
                                               map, kv, kv-soak
  plots                                        draw the pictures of docs/benchmarks anew from the results beside them
  crash-server [--seed N] [--rounds N] [--engine NAME] [--placement page|split] [--log-path NAME,...]
                                               kill -9 a loaded server again and again, and compare
  replication [--seed N] [--rounds N] [--mode conservative|optimistic|both] [--engine NAME]
                                               a replica with parallel workers, kill -9 of either side, and compare
  operations [WORD] [--rounds N] [--seed N]    the operator's page, backup under load, the package unpacked
  dax [--short] [--seed N]                     pools on DAX file systems of a virtual NVDIMM, whose machine is killed
  power-cut [--cuts N] [--seed N]              a virtual machine's disk that loses, at a cut, what it was not told to flush
  key-damage [--seed N] [--keys N]             columns read back from damaged keys, under the address sanitizer
  sqldiff [--seed N] [--statements N] [--shrink] [--placement page|split] [--log-path NAME,...]
                                               one stream of statements to Perdura and InnoDB, and compare
  schemas [--seed N] [--statements N] [NAME...]
                                               schemas of applications with foreign keys in Perdura and InnoDB: changed, dumped, restored
  tpcds [qNN...] [--pairs N] [--json FILE]     the 99 queries of TPC-DS in Perdura and InnoDB: same answers, none at more than
                                               twice the time
  django [LABEL...]                            Django's test suite with all tables in Perdura, compared with InnoDB
  sqlalchemy [PATH...]                         SQLAlchemy's dialect suite, compared in the same way
  package                                      a tarball of the plugin
";

fn run() -> Result<()> {
    paths::find_top()?;
    let mut args = Args::from_command_line();
    let Some(command) = args.positional() else { bail!("{USAGE}") };
    match command.as_str() {
        "verify" => {
            args.finish()?;
            verify::run()
        }
        "key-damage" => key_damage::run(args),
        "plugin" => {
            args.finish()?;
            plugin::build()
        }
        "demo" => {
            args.finish()?;
            demo::run()
        }
        "demo-kv" => {
            args.finish()?;
            kv::demo::run()
        }
        "kv-page" => {
            args.finish()?;
            kv::page::run()
        }
        "kv-chaos" => kv::chaos::run(args),
        "kv-clients" => kv::clients::run(&args.rest()),
        "package" => {
            args.finish()?;
            package::run()
        }
        "test" => test::run(&args.rest()),
        // Not for people: what `test` has cargo run its programs by.
        "limited" => test::limited::run(&args.rest()),
        "server" => serve::run(args),
        "explore" => explore::run(&args.rest()),
        "sim" => sim::run(&args.rest()),
        "mtr" => mtr::run(&args.rest()),
        "bench" => bench::run(args),
        "plots" => {
            args.finish()?;
            plots::run()
        }
        // Not for people: what `bench kv` starts.
        "floor" => bench::floor(&args.rest()),
        "kv-apart" => bench::kv_apart(&args.rest()),
        "sqldiff" => sqldiff::run(args),
        "schemas" => schemas::run(args),
        "crash-server" => crash_server::run(args),
        "dax" => dax::run(args),
        "replication" => replication::run(args),
        "operations" => operations::run(args),
        // Not for people: what `operations` starts.
        "operations-full-disk" => operations::on_full_disk(args),
        "power-cut" => dax::power_cut(args),
        "tpcds" => bench::tpcds(args),
        "django" => django::run(args),
        "sqlalchemy" => sqlalchemy::run(args),
        _ => bail!("unknown command {command}\n{USAGE}"),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
