//! The engine from Rust: a process transfers money between two accounts until it is killed, and the
//! next process looks at what is left.
//!
//! `crash_and_reopen DIRECTORY`

use perdura_engine::{
    Config, Direction, Engine, ErrorKind, FileMedium, IndexDefinition, Isolation, Key, MediumOptions, ReadView, Result,
    Rid, Session, Table,
};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::ops::Bound;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

const TRANSFERS_BEFORE_CRASH: i64 = 300;

/// Number of the table's index, which finds accounts by the names of their owners.
const BY_NAME: usize = 0;

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
    let ((_, alice), (_, bob)) = (account(&mut session, &table, "alice")?, account(&mut session, &table, "bob")?);
    println!("  {} have {alice} and {bob}", names_from(&mut session, &table, "a")?.join(" and "));
    let second = insert(&mut session, &table, "alice").err().map(|error| error.kind());
    assert_eq!(second, Some(ErrorKind::DuplicateKey), "no two accounts have the same name");
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
    let by_name = IndexDefinition { unique: true, key_bytes: 0 };
    let table = engine.create_table_with("accounts", b"", &[by_name])?;
    let mut session = engine.session(Isolation::ReadCommitted);
    for name in ["alice", "bob"] {
        insert(&mut session, &table, name)?;
    }
    session.commit()?;
    engine.close();
    Ok(())
}

/// The key of a name. Keys compare byte by byte; the zero byte keeps any from being the beginning
/// of another.
fn key(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

/// Inserts an account of 1000.
fn insert(session: &mut Session, table: &Arc<Table>, name: &str) -> Result<Rid> {
    session.insert_with(table, &1000i64.to_le_bytes(), &[Key { bytes: &key(name), may_repeat: false }])
}

/// RID and balance of the account of a name, found by the index.
fn account(session: &mut Session, table: &Arc<Table>, name: &str) -> Result<(Rid, i64)> {
    let rid = session.index(table, BY_NAME).find(&key(name), ReadView::Snapshot)?.expect("the account is there");
    let reader = session.reader();
    let balance = reader.get(table, rid)?.expect("an entry leads to its row");
    Ok((rid, i64::from_le_bytes(balance.try_into().expect("a balance has eight bytes"))))
}

/// The names from `first` on, in order: a range of the index.
fn names_from(session: &mut Session, table: &Arc<Table>, first: &str) -> Result<Vec<String>> {
    let mut scan = session.index(table, BY_NAME).scan(ReadView::Snapshot);
    scan.seek(session, Bound::Included(first.as_bytes()), Direction::Forward)?;
    let mut names = Vec::new();
    while scan.next(session)?.is_some() {
        names.push(String::from_utf8_lossy(scan.key()).trim_end_matches('\0').to_owned());
    }
    Ok(names)
}

/// Transfers money until the process is killed, and prints the number of each acknowledged
/// transfer.
fn transfer_for_ever(directory: &Path) -> std::result::Result<(), Box<dyn Error>> {
    let engine = open(directory)?;
    let table = engine.table("accounts")?;
    let mut session = engine.session(Isolation::RepeatableRead);
    for number in 1i64.. {
        let (alice, hers) = account(&mut session, &table, "alice")?;
        let (bob, his) = account(&mut session, &table, "bob")?;
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
