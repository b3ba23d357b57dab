//! The options that every program has, and the head of its output.

use crate::output;
use crate::own::medium;
use crate::sampler::Sampler;
use crate::scratch::Scratch;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How a program is to run.
pub struct Plan {
    /// When the program began.
    pub begun: Instant,
    directory: PathBuf,
    quick: bool,
    quick_time: Duration,
    series: bool,
}

impl Plan {
    /// Reads `--dir DIR [--quick] [--series]` from the command line. `other` gets each further
    /// word, with a way to take its value, and says whether it knows the word. After `quick_time`
    /// of a quick run no further round begins.
    pub fn parse(
        quick_time: Duration,
        mut other: impl FnMut(&str, &mut dyn FnMut() -> Result<String, String>) -> Result<bool, String>,
    ) -> Result<Plan, String> {
        let mut words = std::env::args().skip(1);
        let mut plan =
            Plan { begun: Instant::now(), directory: PathBuf::new(), quick: false, quick_time, series: false };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--dir" => plan.directory = value()?.into(),
                "--quick" => plan.quick = true,
                "--series" => plan.series = true,
                _ if other(&word, &mut value)? => {}
                _ => return Err(format!("unexpected argument {word}")),
            }
        }
        if plan.directory.as_os_str().is_empty() {
            return Err("which directory?".into());
        }
        Ok(plan)
    }

    /// Samples this process, if that was asked for.
    pub fn sampler(&self) -> Option<Sampler> {
        self.series.then(Sampler::start)
    }

    /// Prints what lies below the directory.
    pub fn show_medium(&self) {
        let scratch = self.scratch();
        let info = medium(scratch.path()).info();
        output::medium(&format!("mode {}, granularity {}", info.mode, info.granularity));
    }

    /// `full`, or `quick` in a quick run.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Whether there is time for another round.
    pub fn goes_on(&self) -> bool {
        !self.quick || self.begun.elapsed() < self.quick_time
    }

    /// Creates an empty directory.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(&self.directory)
    }
}
