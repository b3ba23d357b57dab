//! A pool with every kind of structure, for tests to damage, and the judgement whether damage goes
//! unnoticed.

use super::{reopen, row_bytes, try_rows};
use perdura_engine::check::{Report, check};
use perdura_engine::format::Record;
use perdura_engine::{Engine, Error, ErrorKind, Isolation, LogConfig};
use perdura_log::Recovery;
use perdura_pmem::sim::Image;
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows of each table, sorted.
pub type Content = BTreeMap<String, Vec<Vec<u8>>>;

/// A pool at rest, and what it acknowledged.
pub struct Subject {
    /// The files of the pool.
    pub image: Image,
    /// The committed rows.
    pub content: Content,
    /// Names of the prepared transactions.
    pub prepared: Vec<Vec<u8>>,
    /// The test damages the log, so prepared transactions may vanish: a damaged PREPARE record
    /// looks like one that was never finished.
    pub prepared_may_go: bool,
}

/// A pool with single rows, bulk pages, an extent, updates, deletions, an empty table, a dropped
/// table and a prepared transaction. A `closed` one has everything in its tables; the other leaves
/// most of it to redo.
pub fn subject(closed: bool) -> Subject {
    let medium = Arc::new(SimMedium::new());
    let engine = reopen(&medium);
    fill(&engine);
    let (content, prepared) = (content(&engine).expect("sound"), engine.prepared());
    if closed {
        engine.close();
    }
    Subject { image: medium.image(), content, prepared, prepared_may_go: false }
}

fn fill(engine: &Engine) {
    let small = engine.create_table("small", b"definition of small").unwrap();
    let bulk = engine.create_table("bulk", &[7; 300]).unwrap();
    engine.create_table("empty", b"").unwrap();
    let gone = engine.create_table("gone", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rids: Vec<_> = (0..40).map(|number| txn.insert(&small, &row_bytes(number)).unwrap()).collect();
    txn.insert(&gone, b"dropped with its table").unwrap();
    txn.commit().unwrap();
    for number in 0..150 {
        txn.insert(&bulk, &row_bytes(1000 + number)).unwrap();
    }
    txn.insert(&small, &vec![5; 9000]).unwrap();
    txn.commit().unwrap();
    engine.checkpoint().unwrap();
    for (number, rid) in rids.iter().enumerate() {
        match number % 4 {
            0 => txn.update(&small, *rid, &row_bytes(2000 + number as u32)).unwrap(),
            1 => txn.delete(&small, *rid).unwrap(),
            _ => {}
        }
        txn.commit().unwrap();
    }
    engine.drop_table("gone").unwrap();
    engine.rename_table("empty", "still empty").unwrap();
    drop(txn);
    let mut prepared = engine.session(Isolation::ReadCommitted);
    prepared.update(&small, rids[2], b"prepared").unwrap();
    prepared.insert(&bulk, b"prepared").unwrap();
    prepared.prepare(b"branch").unwrap();
}

/// Reads all committed rows of all tables.
pub fn content(engine: &Engine) -> Result<Content, Error> {
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut content = Content::new();
    for table in engine.tables()? {
        let mut of_table: Vec<_> = try_rows(&mut txn, &table)?.into_iter().map(|(_, row)| row).collect();
        of_table.sort();
        content.insert(table.name(), of_table);
    }
    Ok(content)
}

/// Outcome of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The check reports it.
    Found,
    /// All rows are there, and stay there.
    Harmless,
}

/// Checks and opens damaged files. Panics with `hint` if something was lost in silence.
pub fn judge(subject: &Subject, medium: Arc<dyn Medium>, hint: &str) -> Verdict {
    let found = match check(medium.clone(), &mut |_, _| ()) {
        Ok(report) => is_found(&report, hint),
        Err(error) => is_told(&error, hint),
    };
    match Engine::open(medium.clone(), super::small()) {
        Err(error) => {
            is_told(&error, hint);
            assert!(found, "{hint}: the pool does not open ({error}), but the check says it is sound");
        }
        // Damage that was found may end the reading early, but not in a panic.
        Ok(engine) if found => drop(content(&engine)),
        Ok(engine) => {
            let alive = outlives(subject, &medium, engine);
            assert!(alive.is_ok(), "{hint}: nothing was found, but {}", alive.unwrap_err());
        }
    }
    if found { Verdict::Found } else { Verdict::Harmless }
}

fn is_found(report: &Report, hint: &str) -> bool {
    for problem in &report.problems {
        assert!(problem.contains("at offset") || problem.contains("restore"), "{hint}: {problem}");
    }
    !report.problems.is_empty()
}

/// Asserts that an error helps its reader: its kind fits, and it names a file and a remedy. Returns
/// true.
pub fn is_told(error: &Error, hint: &str) -> bool {
    let text = error.to_string();
    let kind = matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotSupported | ErrorKind::NotFound);
    let file = ["super", "log", "t."].iter().any(|name| text.contains(name));
    let remedy = ["restore", "use the build", "check"].iter().any(|word| text.contains(word));
    assert!(kind && file && remedy, "{hint}: an error that helps nobody: {:?} {text}", error.kind());
    true
}

/// Fails unless everything is there, and still is after the pool was swept, written to and opened
/// again.
fn outlives(subject: &Subject, medium: &Arc<dyn Medium>, engine: Engine) -> Result<(), String> {
    let compare = |engine: &Engine, when: &str| {
        let seen = content(engine).map_err(|error| format!("{when}: {error}"))?;
        (seen == subject.content).then_some(()).ok_or_else(|| format!("{when}: rows differ"))?;
        let same = engine.prepared() == subject.prepared || subject.prepared_may_go;
        same.then_some(()).ok_or_else(|| format!("{when}: prepared differ"))
    };
    compare(&engine, "opened")?;
    let failed = |error: Error| error.to_string();
    engine.sweep().map_err(failed)?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    for table in engine.tables().map_err(failed)? {
        let rids: Vec<_> = (0..70).map(|number| txn.insert(&table, &row_bytes(number))).collect();
        for rid in rids {
            txn.delete(&table, rid.map_err(failed)?).map_err(failed)?;
        }
        let rid = txn.insert(&table, b"to be deleted").map_err(failed)?;
        txn.commit().map_err(failed)?;
        txn.delete(&table, rid).map_err(failed)?;
        txn.commit().map_err(failed)?;
    }
    drop(txn);
    engine.checkpoint().map_err(failed)?;
    engine.purge();
    compare(&engine, "written to")?;
    engine.close();
    drop(engine);
    compare(&Engine::open(medium.clone(), super::small()).map_err(failed)?, "opened again")
}

/// The redo records in the log of a pool, those of prepared transactions last.
pub fn log_records(image: &Image, config: &LogConfig) -> Vec<Record<'static>> {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image.clone()));
    let recovery = Recovery::open(medium, config).unwrap();
    let mut all = Vec::new();
    let committed = recovery.committed.iter().map(|committed| &committed.bodies);
    for body in committed.chain(recovery.prepared.iter().map(|prepared| &prepared.bodies)).flatten() {
        // The records have their values there.
        let mut rest: &'static [u8] = recovery.body(*body).to_vec().leak();
        while let Some((record, then)) = Record::decode(rest) {
            all.push(record);
            rest = then;
        }
        assert!(rest.is_empty(), "whole records");
    }
    all
}
