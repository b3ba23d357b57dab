//! Opening a pool that no server uses, and checking everything in it.

use perdura_engine::ErrorKind;
use perdura_engine::check::{Report, check};
use perdura_pmem::{ErrorKind as MediumErrorKind, FileMedium, Medium, SplitMedium};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

/// An exit status and the message that goes with it.
pub type Failure = (u8, String);

/// Checks the pool in `directory`, with its log in the directory `log`, if that is another.
pub fn open_and_check(directory: &Path, log: Option<&Path>) -> Result<(Arc<dyn Medium>, Report), Failure> {
    let medium = open(directory, log).map_err(|error| match error.kind() {
        MediumErrorKind::Poisoned => (1, error.to_string()),
        MediumErrorKind::Mismatch if log.is_none() => (2, format!("{error}: --log-dir LOGDIR")),
        _ => (2, error.to_string()),
    })?;
    let mut progress = Progress::default();
    let checked = check(medium.clone(), &mut |table, percent| progress.show(table, percent));
    progress.end();
    match checked {
        Ok(report) => Ok((medium, report)),
        Err(error) if error.kind() == ErrorKind::Damaged => Err((1, error.to_string())),
        Err(error) => Err((2, error.to_string())),
    }
}

/// Opens a pool as its next start would find it, and changes nothing in it.
fn open(directory: &Path, log: Option<&Path>) -> perdura_pmem::Result<Arc<dyn Medium>> {
    Ok(match log.filter(|log| *log != directory) {
        Some(log) => Arc::new(SplitMedium::open_to_read(log, directory)?),
        None => {
            SplitMedium::refuse_half(directory)?;
            Arc::new(FileMedium::open_to_read(directory, None)?)
        }
    })
}

/// A line on the terminal's standard error that says how far the check is.
#[derive(Default)]
struct Progress {
    last: Option<(String, u64)>,
}

impl Progress {
    fn show(&mut self, table: &str, percent: u64) {
        let now = (table.to_owned(), percent);
        if std::io::stderr().is_terminal() && self.last.as_ref() != Some(&now) {
            eprint!("\r\x1b[Kchecking {table}: {percent} %");
            // A check whose progress cannot be shown goes on.
            let _ = std::io::stderr().flush();
            self.last = Some(now);
        }
    }

    fn end(&self) {
        if self.last.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
