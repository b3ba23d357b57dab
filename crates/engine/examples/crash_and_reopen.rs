//! The engine from Rust: a process transfers money between two accounts until it is killed, and the
//! next process looks at what is left.
//!
//! `crash_and_reopen DIRECTORY`

use perdura_engine::{Config, Engine, FileMedium, Isolation, MediumOptions, Result, Rid, Session, Table};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

const TRANSFERS_BEFORE_CRASH: i64 = 300;

fn main() -> std::result::Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let directory = match words[..] {
        [directory] => directory,
        [directory, "transfer"] => {
            transfer_for_ever(directory.as_ref())?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => return Err("usage: crash_and_reopen DIRECTORY".into()),
    };
    create(directory.as_ref())?;
    let acknowledged = crash(directory)?;
    println!("killed; {acknowledged} transfers were acknowledged");

    let engine = open(directory.as_ref())?;
    let table = engine.table("accounts")?;
    let mut session = engine.session(Isolation::RepeatableRead);
    let [(_, alice), (_, bob)] = accounts(&mut session, &table)?;
    println!("  alice has {alice}, bob {bob}");
    let transfers = 1000 - alice;
    // The process may have been killed after a commit and before it printed it, so one more may be
    // there.
    let all = transfers == acknowledged || transfers == acknowledged + 1;
    let whole = alice + bob == 2000;
    let word = |is: bool| if is { "yes" } else { "NO" };
    println!("every acknowledged transfer is there: {}; none is there by half: {}", word(all), word(whole));
    engine.close();
    Ok(if all && whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Opens the pool, or creates it. `emulate` lets the example run without persistent memory, too.
fn open(directory: &Path) -> Result<Engine> {
    let medium = FileMedium::open(directory, MediumOptions { emulate: true, create_dir: true })?;
    Engine::open(Arc::new(medium), Config::default())
}

fn create(directory: &Path) -> Result<()> {
    let engine = open(directory)?;
    let table = engine.create_table("accounts", b"")?;
    let mut session = engine.session(Isolation::ReadCommitted);
    for _ in ["alice", "bob"] {
        session.insert(&table, &1000i64.to_le_bytes())?;
    }
    session.commit()?;
    engine.close();
    Ok(())
}

/// RIDs and balances of both accounts, Alice's first.
fn accounts(session: &mut Session, table: &Arc<Table>) -> Result<[(Rid, i64); 2]> {
    let reader = session.reader();
    let mut found = Vec::new();
    for row in reader.scan(table)? {
        let (rid, balance) = row?;
        found.push((rid, i64::from_le_bytes(balance.try_into().expect("a balance has eight bytes"))));
    }
    Ok(found.try_into().expect("two accounts"))
}

/// Transfers money until the process is killed, and prints the number of each acknowledged
/// transfer.
fn transfer_for_ever(directory: &Path) -> std::result::Result<(), Box<dyn Error>> {
    let engine = open(directory)?;
    let table = engine.table("accounts")?;
    let mut session = engine.session(Isolation::RepeatableRead);
    for number in 1i64.. {
        let [(alice, hers), (bob, his)] = accounts(&mut session, &table)?;
        session.update(&table, alice, &(hers - 1).to_le_bytes())?;
        session.update(&table, bob, &(his + 1).to_le_bytes())?;
        session.commit()?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{number}")?;
        out.flush()?;
    }
    Ok(())
}

/// Runs transfers in a process of their own, and kills it. Returns the number of the last
/// acknowledged transfer.
///
/// Every transfer changes both rows in one transaction. The process is killed in the middle of its
/// transfers and closes nothing. Afterwards every acknowledged transfer is there, and none by half:
/// the sum is 2000.
fn crash(directory: &str) -> std::result::Result<i64, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let mut child = Command::new(program).args([directory, "transfer"]).stdout(Stdio::piped()).spawn()?;
    let out = child.stdout.take().ok_or("the child has no output")?;
    let mut acknowledged = 0;
    for line in BufReader::new(out).lines() {
        // The kill may have cut the last line off.
        acknowledged = line?.parse().unwrap_or(acknowledged);
        if acknowledged == TRANSFERS_BEFORE_CRASH {
            // SIGKILL. The loop goes on to read what the process printed before it died.
            child.kill()?;
        }
    }
    let status = child.wait()?;
    if status.code().is_some() {
        return Err(format!("the transfers ended by themselves: {status}").into());
    }
    Ok(acknowledged)
}
