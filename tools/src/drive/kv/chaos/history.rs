//! History of what clients did and saw, and its linearizability checker: a small program around
//! Porcupine.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::shared::{paths, process};

/// Kind of an operation on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Get,
    Set,
    /// Sets if the key has the old value.
    Compare,
    Delete,
    Append,
    Count,
}

/// Something done by a client.
#[derive(Clone, Debug)]
pub struct Operation {
    pub client: usize,
    pub key: String,
    pub kind: Kind,
    pub argument: String,
    pub old: Option<String>,
    /// When it was sent first, in microseconds of one clock.
    pub call_us: u64,
    /// When it was answered, and how. None: it was sent, and nobody knows whether it was done.
    pub outcome: Option<(u64, Option<String>)>,
}

/// Writes a history, an operation a line.
pub fn write(path: &Path, history: &[Operation]) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    for done in history {
        let name = match done.kind {
            Kind::Get => "get",
            Kind::Set => "set",
            Kind::Compare => "cas",
            Kind::Delete => "del",
            Kind::Append => "append",
            Kind::Count => "incr",
        };
        let (end, answer) = match &done.outcome {
            Some((end, answer)) => (Some(end), answer.as_deref()),
            None => (None, None),
        };
        let line = json!({
            "client": done.client, "key": done.key, "op": name, "arg": done.argument, "old": done.old,
            "call": done.call_us, "return": end, "answer": answer,
        });
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(())
}

/// Builds the judge, and has it judge histories made by hand: the good one must pass, each bad one
/// must not.
pub fn judge() -> Result<PathBuf> {
    let (sources, place) = (paths::top().join("tests/porcupine"), paths::build().join("kv-chaos"));
    std::fs::create_dir_all(&place)?;
    let judge = place.join("judge");
    let mut go = Command::new("go");
    process::run(go.current_dir(&sources).args(["build", "-o"]).arg(&judge).arg("."))
        .context("go (package golang-go, or from go.dev)")?;
    let mut rejected = 0;
    for entry in std::fs::read_dir(sources.join("histories"))? {
        let entry = entry?;
        let name = entry.file_name();
        // Pictures are drawn beside a history.
        let path = place.join(&name);
        std::fs::copy(entry.path(), &path)?;
        let output = Command::new(&judge).arg(&path).output()?;
        let (is_good, found) = (name.to_string_lossy().starts_with("good"), output.status.code());
        ensure!(
            found == Some(i32::from(!is_good)),
            "the judge's word on {} is {}: {}",
            name.display(),
            output.status,
            String::from_utf8_lossy(&output.stdout)
        );
        rejected += usize::from(!is_good);
    }
    ensure!(rejected > 0, "no bad history was judged");
    println!("kv-chaos: the judge rejects {rejected} bad histories");
    Ok(judge)
}

/// Whether the history of a run is linearizable. Error: the judge cannot say.
pub fn is_linearizable(judge: &Path, top: &Path) -> Result<bool> {
    let ended = Command::new(judge).arg(top.join("history.jsonl")).status().context("the judge")?;
    match ended.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => bail!("the judge ended with {ended}"),
    }
}
