//! A pool on a disk, whole or with its log elsewhere, and an operator who names the wrong
//! directories, or moves it between media: each start finds all that was acknowledged, or is
//! refused with the reason.
//!
//! The servers' own data are in DRAM; only pools lie on the disk.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use mysql::prelude::Queryable;

use crate::drive::server::{Options, Place, Server};
use crate::shared::paths;
use crate::shared::process::is_in_dram;

/// Sums that the rows of a pool must have: their number, and those of two columns.
type Sums = (u64, u64, u64);

/// Directories of a pool, and how they are taken.
#[derive(Clone)]
struct Placement<'a> {
    data: &'a Path,
    log: Option<&'a Path>,
    /// Takes the log's directory for persistent memory, or the pool's, if there is no other.
    emulate: bool,
}

impl Placement<'_> {
    fn options(&self) -> Vec<String> {
        let mut options = vec![format!("--perdura-dir={}", self.data.display())];
        options.extend(self.log.map(|log| format!("--perdura-log-dir={}", log.display())));
        options.push(format!("--perdura-emulate={}", if self.emulate { "ON" } else { "OFF" }));
        options
    }
}

/// A server whose pool is on a disk.
pub struct Trial {
    server: Server,
    root: PathBuf,
    expected: Sums,
}

impl Trial {
    /// A server that does not run, and an empty directory on the disk; `None`, which is said, if
    /// there is no disk.
    pub fn new() -> Result<Option<Trial>> {
        let disk = paths::disk();
        std::fs::create_dir_all(&disk).with_context(|| disk.display().to_string())?;
        if is_in_dram(&disk) {
            println!("operations: left out, since {} is in DRAM: PERDURA_DISK_DIR", disk.display());
            return Ok(None);
        }
        Self::below(&disk).map(Some)
    }

    /// The same with the directory below `disk`.
    pub fn below(disk: &Path) -> Result<Trial> {
        crate::drive::server::remove_leftovers(disk)?;
        let place = Place::new(paths::medium(), None);
        let extra = ["--perdura=FORCE", "--perdura-checkpoint-interval=1", "--perdura-data-file-size=4194304"];
        let extra = extra.map(str::to_owned).to_vec();
        let server = Server::create(Options { perdura: true, place: Some(place), extra, ..Options::default() })?;
        let name = server.directory().file_name().context("the server's directory has a name")?.to_owned();
        let root = disk.join(name);
        std::fs::create_dir_all(&root)?;
        Ok(Trial { server, root, expected: (0, 0, 0) })
    }

    /// An empty directory on the disk.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let directory = self.root.join(name);
        std::fs::create_dir_all(&directory)?;
        Ok(directory)
    }

    /// The same in DRAM.
    fn in_memory(&self, name: &str) -> Result<PathBuf> {
        let directory = self.server.directory().join(name);
        std::fs::create_dir_all(&directory)?;
        Ok(directory)
    }

    pub fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// Starts with these options besides, and compares the rows.
    pub fn start(&mut self, options: &[String]) -> Result<()> {
        self.server.try_start(options).with_context(|| options.join(" "))?;
        self.compare().with_context(|| options.join(" "))
    }

    fn start_at(&mut self, placement: &Placement<'_>) -> Result<()> {
        self.start(&placement.options())
    }

    /// Asserts that the server does not start, and says `why`.
    fn refused(&mut self, placement: &Placement<'_>, more: &[&str], why: &str) -> Result<()> {
        let known = self.server.log().len();
        let options: Vec<String> =
            placement.options().into_iter().chain(more.iter().map(|&option| option.to_owned())).collect();
        let started = self.server.try_start(&options);
        self.server.kill()?;
        let said = self.server.log().split_off(known);
        ensure!(started.is_err(), "the server has started with {}", options.join(" "));
        ensure!(said.contains(why), "{}: {why:?} is not in\n{said}", options.join(" "));
        Ok(())
    }

    /// Commits rows by themselves, and many at once, and changes some.
    pub fn write(&mut self) -> Result<()> {
        let mut connection = self.server.connect()?;
        connection.query_drop(
            "CREATE TABLE IF NOT EXISTS t (id BIGINT AUTO_INCREMENT PRIMARY KEY, v BIGINT, body VARCHAR(500), KEY (v)) \
             ENGINE=Perdura",
        )?;
        connection.query_drop("INSERT INTO t (v, body) SELECT seq, REPEAT('x', seq MOD 500) FROM seq_1_to_4000")?;
        for row in 0..20 {
            connection.query_drop(format!("INSERT INTO t (v, body) VALUES ({row}, 'by itself')"))?;
            connection.query_drop(format!("UPDATE t SET v = v + {row} WHERE id MOD 101 = {row}"))?;
            connection.query_drop(format!("DELETE FROM t WHERE id MOD 331 = {row}"))?;
        }
        self.expected = self.sums()?;
        Ok(())
    }

    fn sums(&self) -> Result<Sums> {
        let sums = "SELECT COUNT(*), COALESCE(SUM(v), 0), COALESCE(SUM(LENGTH(body) * id), 0) FROM t";
        self.server.connect()?.query_first(sums)?.context("a row of sums")
    }

    fn compare(&self) -> Result<()> {
        if self.expected.0 == 0 {
            return Ok(());
        }
        let found = self.sums()?;
        ensure!(found == self.expected, "sums of the rows are {found:?}, those acknowledged {:?}", self.expected);
        let checked: Vec<(String, String, String, String)> = self.server.connect()?.query("CHECK TABLE t")?;
        ensure!(checked.iter().all(|(_, _, kind, text)| kind == "status" && text == "OK"), "{checked:?}");
        Ok(())
    }

    /// The pool's rows were changed by the caller.
    pub fn expect_present(&mut self) -> Result<()> {
        self.expected = self.sums()?;
        Ok(())
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // The server has the files open. What is left the next start removes.
        let _ = self.server.kill();
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// The halves of a pool: missing, swapped, another's, or only one named.
pub fn halves() -> Result<()> {
    let (Some(mut trial), Some(mut other)) = (Trial::new()?, Trial::new()?) else { return Ok(()) };
    let (data, log) = (trial.directory("data")?, trial.in_memory("log")?);
    let (other_data, other_log) = (other.directory("data")?, other.in_memory("log")?);
    other.start_at(&Placement { data: &other_data, log: Some(&other_log), emulate: true })?;
    other.server.stop()?;
    let right = Placement { data: &data, log: Some(&log), emulate: true };
    trial.start_at(&right)?;
    let missing = log.join("missing");
    let empty = trial.in_memory("empty")?;
    for is_killed in [true, false] {
        trial.write()?;
        if is_killed {
            trial.server.kill()?
        } else {
            trial.server.stop()?
        }
        let with = |log| Placement { log: Some(log), ..right.clone() };
        trial.refused(&with(&missing), &[], "does not exist")?;
        trial.refused(&with(&empty), &[], "has not the log of the pool")?;
        trial.refused(&with(&other_log), &[], "has the log of another pool")?;
        trial.refused(&Placement { data: &log, log: Some(&data), ..right }, &[], "of a pool, not the")?;
        let whole = |emulate| Placement { data: &data, log: None, emulate };
        trial.refused(&whole(false), &[], "whose log is in another directory")?;
        trial.refused(&whole(true), &[], "whose log is in another directory")?;
        trial.refused(&Placement { data: &log, log: None, emulate: true }, &[], "the log of data")?;
        trial.refused(&Placement { emulate: false, ..right }, &[], "perdura_emulate=ON")?;
        trial.refused(&right, &["--perdura-require-dax=ON"], "perdura_require_dax=OFF")?;
        trial.start_at(&right)?;
    }
    trial.server.stop()
}

/// A pool whose log's directory is memory to one start and a disk to the next, as each finds it.
pub fn taken_for_others() -> Result<()> {
    let Some(mut trial) = Trial::new()? else { return Ok(()) };
    let (data, log) = (trial.directory("data")?, trial.directory("log")?);
    for is_killed in [true, false] {
        for emulate in [true, false] {
            trial.start_at(&Placement { data: &data, log: Some(&log), emulate })?;
            trial.write()?;
            if is_killed { trial.server.kill()? } else { trial.server.stop()? }
        }
    }
    trial.start_at(&Placement { data: &data, log: Some(&log), emulate: false })?;
    trial.server.stop()
}

/// A pool in one directory, on a disk by turns and taken for memory, and asked to be what it is
/// not.
pub fn whole() -> Result<()> {
    let Some(mut trial) = Trial::new()? else { return Ok(()) };
    let (data, log) = (trial.directory("data")?, trial.directory("log")?);
    let on = |emulate| Placement { data: &data, log: None, emulate };
    for is_killed in [true, false] {
        for emulate in [false, true] {
            trial.start_at(&on(emulate))?;
            trial.write()?;
            if is_killed {
                trial.server.kill()?
            } else {
                trial.server.stop()?
            }
            trial.refused(&on(false), &["--perdura-require-dax=ON"], "perdura_require_dax=OFF")?;
            trial.refused(&Placement { log: Some(&log), ..on(false) }, &[], "its log in the same directory")?;
        }
    }
    trial.start_at(&on(false))?;
    trial.server.stop()
}
