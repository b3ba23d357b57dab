//! An ordered map from Rust: open, put, get, scan, crash, reopen, and compare.
//!
//! `open_put_crash_reopen DIRECTORY [list|btree]`
//!
//! Two accounts begin with 1000 each. Every transfer changes both, and is then persisted. A child
//! process makes the transfers and is killed in the middle, without a word to the map. Afterwards
//! every persisted transfer is there and none by half: the sum is 2000.

use perdura_map::{BTree, Config, Layout, List, OrderedMap, Result, Ts, open};
use perdura_pmem::{FileMedium, Medium, Options};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::ops::Bound;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

const NAME: &str = "accounts";
const TRANSFERS_BEFORE_CRASH: i64 = 300;
const NEWEST: Ts = Ts::MAX;

fn main() -> std::result::Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (directory, kind) = match words[..] {
        [directory] => (directory, "btree"),
        [directory, kind @ ("list" | "btree")] => (directory, kind),
        [directory, "transfer"] => {
            transfer_for_ever(directory.as_ref())?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => return Err("usage: open_put_crash_reopen DIRECTORY [list|btree]".into()),
    };
    create(directory.as_ref(), kind)?;
    let persisted = crash(directory)?;
    println!("killed; {persisted} transfers were persisted");

    let medium = medium(directory.as_ref())?;
    let map = open(&medium, NAME, &config())?;
    show(&*map)?;
    map.check()?;
    let (alice, bob, transfers) = (get(&*map, "alice")?, get(&*map, "bob")?, get(&*map, "transfers")?);
    // The map may have one transfer more than was reported: persisted, and killed before the
    // report.
    let all = transfers == persisted || transfers == persisted + 1;
    let whole = alice + bob == 2000 && alice == 1000 - transfers;
    let word = |is: bool| if is { "yes" } else { "NO" };
    println!("every persisted transfer is there: {}; none is there by half: {}", word(all), word(whole));
    Ok(if all && whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The directory as a medium, created if missing. Emulated, so that the example runs without
/// persistent memory.
fn medium(directory: &Path) -> Result<Arc<dyn Medium>> {
    Ok(Arc::new(FileMedium::open(directory, Options { emulate: true, create_dir: true })?))
}

/// Batches end only where the program says so, so that both halves of a transfer are in one batch.
fn config() -> Config {
    Config { changes_max: u32::MAX, background: false, ..Config::default() }
}

fn create(directory: &Path, kind: &str) -> Result<()> {
    let medium = medium(directory)?;
    let map: Box<dyn OrderedMap> = match kind {
        "list" => Box::new(List::create(&medium, NAME, &Layout::list(8 << 20), &config())?),
        _ => Box::new(BTree::create(&medium, NAME, &Layout::btree(8 << 20), &config())?),
    };
    map.put(b"alice", b"1000")?;
    map.put(b"bob", b"1000")?;
    map.persist()
}

/// The number that a key's value holds, read in place. 0 if the key has no value.
fn get(map: &dyn OrderedMap, key: &str) -> Result<i64> {
    let value = map.get(key.as_bytes(), NEWEST)?;
    Ok(value.and_then(|value| std::str::from_utf8(&value).ok()?.parse().ok()).unwrap_or(0))
}

fn put(map: &dyn OrderedMap, key: &str, number: i64) -> Result<()> {
    map.put(key.as_bytes(), number.to_string().as_bytes()).map(|_| ())
}

/// Moves money until killed, and reports each persisted transfer.
fn transfer_for_ever(directory: &Path) -> std::result::Result<(), Box<dyn Error>> {
    let map = open(&medium(directory)?, NAME, &config())?;
    for number in 1i64.. {
        put(&*map, "alice", get(&*map, "alice")? - 1)?;
        put(&*map, "bob", get(&*map, "bob")? + 1)?;
        put(&*map, "transfers", number)?;
        map.persist()?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{number}")?;
        out.flush()?;
    }
    Ok(())
}

/// Runs transfers in a child process and kills it. Returns the last transfer that it reported.
fn crash(directory: &str) -> std::result::Result<i64, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let mut child = Command::new(program).args([directory, "transfer"]).stdout(Stdio::piped()).spawn()?;
    let out = child.stdout.take().ok_or("the child has no output")?;
    let mut persisted = 0;
    for line in BufReader::new(out).lines() {
        // The kill may have cut off the last line.
        persisted = line?.parse().unwrap_or(persisted);
        if persisted == TRANSFERS_BEFORE_CRASH {
            // SIGKILL. The loop reads on what the child reported before it died.
            child.kill()?;
        }
    }
    let status = child.wait()?;
    if status.code().is_some() {
        return Err(format!("the transfers ended by themselves: {status}").into());
    }
    Ok(persisted)
}

/// Prints the whole map in order.
fn show(map: &dyn OrderedMap) -> Result<()> {
    let mut scan = map.scan((Bound::Unbounded, Bound::Unbounded), NEWEST)?;
    while let Some(entry) = scan.advance()? {
        let (key, value) = (String::from_utf8_lossy(entry.key), String::from_utf8_lossy(entry.value));
        println!("  {key} = {value} (timestamp {})", entry.ts);
    }
    Ok(())
}
