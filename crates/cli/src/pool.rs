//! Opening a pool that no server uses, and checking everything in it.

use perdura_engine::ErrorKind;
use perdura_engine::check::{Report, check};
use perdura_pmem::{FileMedium, Medium, Options, SplitMedium};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

/// An exit status and the message that goes with it.
pub type Failure = (u8, String);

/// Checks the pool in `directory`.
pub fn open_and_check(directory: &Path) -> Result<(Arc<dyn Medium>, Report), Failure> {
    // Reading needs no persistence, so any medium will do.
    let options = Options { emulate: true, ..Options::default() };
    SplitMedium::refuse_half(directory).map_err(|error| (2, error.to_string()))?;
    let medium: Arc<dyn Medium> =
        Arc::new(FileMedium::open(directory, options).map_err(|error| (2, error.to_string()))?);
    let mut progress = Progress::default();
    let checked = check(medium.clone(), &mut |table, percent| progress.show(table, percent));
    progress.end();
    match checked {
        Ok(report) => Ok((medium, report)),
        Err(error) if error.kind() == ErrorKind::Damaged => Err((1, error.to_string())),
        Err(error) => Err((2, error.to_string())),
    }
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
