//! The options that every program has, the head of its output, and the series that it runs.

use crate::output;
use crate::own::medium;
use crate::sampler::Sampler;
use crate::scratch::Scratch;
use crate::system::System;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A part of a program that can be run alone, by its name.
pub type Series = (&'static str, fn(&Plan));

/// Takes the value that follows a word.
pub type Value<'a> = &'a mut dyn FnMut() -> Result<String, String>;

/// How a program is to run.
pub struct Plan {
    /// When the program began.
    pub begun: Instant,
    /// Whether sizes and numbers of rounds are those of a quick run.
    pub quick: bool,
    /// Whether the project's own systems take part; if not, only their peers run.
    pub own: bool,
    directory: PathBuf,
    quick_time: Duration,
    series: bool,
}

impl Plan {
    /// Reads `--dir DIR [--quick]` from the command line, and `--series` and `--peers-only` if
    /// `usage` names them; `other` gets each further word, and says whether it knows it. Prints
    /// what medium lies below the directory. Where the words are wrong, says so and ends the
    /// process. After `quick_time` of a quick run no further round begins.
    pub fn read(usage: &str, quick_time: Duration, other: impl FnMut(&str, Value<'_>) -> Result<bool, String>) -> Plan {
        let plan = Self::parse(usage, quick_time, other).unwrap_or_else(|error| refuse(usage, &error));
        let scratch = plan.scratch();
        let info = medium(scratch.path()).info();
        output::medium(&format!("mode {}, granularity {}", info.mode, info.granularity));
        plan
    }

    fn parse(
        usage: &str,
        quick_time: Duration,
        mut other: impl FnMut(&str, Value<'_>) -> Result<bool, String>,
    ) -> Result<Plan, String> {
        let mut words = std::env::args().skip(1);
        let (directory, begun) = (PathBuf::new(), Instant::now());
        let mut plan = Plan { begun, quick: false, own: true, directory, quick_time, series: false };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--dir" => plan.directory = value()?.into(),
                "--quick" => plan.quick = true,
                "--series" if usage.contains("--series") => plan.series = true,
                "--peers-only" if usage.contains("--peers-only") => plan.own = false,
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

    /// `full`, or `quick` in a quick run.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The rounds to run: `full`, or `quick` in a quick run, or fewer if that is late.
    pub fn rounds(&self, full: usize, quick: usize) -> impl Iterator<Item = usize> {
        let count = self.pick(full, quick);
        (0..count).take_while(|round| *round == 0 || !self.quick || self.begun.elapsed() < self.quick_time)
    }

    /// The `systems` that take part.
    pub fn systems(&self, systems: &[System]) -> Vec<System> {
        systems.iter().copied().filter(|system| self.own || system.kind().is_none()).collect()
    }

    /// Creates an empty directory.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(&self.directory)
    }
}

/// Says how the words of the command line are wrong, and ends the process.
pub fn refuse(usage: &str, error: &str) -> ! {
    let program = usage.split(' ').next().unwrap_or_default();
    eprintln!("{program}: {error}\nusage: {usage}");
    std::process::exit(2)
}

/// Runs a program that has several series, all or the one that `--only SERIES` names.
pub fn run_series(usage: &str, quick_time: Duration, all: &[Series]) {
    let mut only = None;
    let plan = Plan::read(usage, quick_time, |word, value| {
        if word != "--only" {
            return Ok(false);
        }
        only = Some(value()?);
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        let is_known = only.as_deref().is_some_and(|only| names.contains(&only));
        if is_known { Ok(true) } else { Err(format!("--only takes one of {}", names.join(", "))) }
    });
    for (name, run) in all {
        if only.as_deref().is_none_or(|only| only == *name) {
            let begun = Instant::now();
            run(&plan);
            output::progress(format_args!("{name}: {:.1} s", begun.elapsed().as_secs_f64()));
        }
    }
}
