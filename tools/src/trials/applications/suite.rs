//! A library's suite, run on one server after the other: each gives its engine to every table,
//! whichever the suite names.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use super::environment::Environment;
use super::results::{self, Known, Results};
use crate::drive::plugin;
use crate::drive::server::{Options, Server};
use crate::shared::args::Args;

/// A library's suite.
pub struct Suite {
    /// The command of ours, and the folder below tests/ with the requirements.
    pub name: &'static str,
    /// The package whose source archive has the suite.
    pub package: &'static str,
    /// Parts of the suite that run if none are named.
    pub parts: &'static [&'static str],
    /// Options of the server, with either engine, beside those that choose it.
    pub options: &'static [&'static str],
    /// Tests that fail with Perdura alone.
    pub known: &'static [Known],
    /// Makes the command that runs parts of the suite on a server.
    pub command: fn(&Environment, &Server, &[String]) -> Result<Command>,
    /// Reads the suite's output, if that goes to its end.
    pub read: fn(&str) -> Option<Results>,
}

impl Suite {
    /// Runs the suite, or the parts that the arguments name, with InnoDB and with Perdura, and
    /// compares.
    pub fn run(&self, mut args: Args) -> Result<()> {
        let mut parts = Vec::new();
        while let Some(part) = args.positional() {
            parts.push(part);
        }
        args.finish()?;
        let is_whole = parts.is_empty();
        if is_whole {
            parts = self.parts.iter().map(|&part| part.to_owned()).collect();
        }
        plugin::build()?;
        let environment = Environment::fetch(self.name, self.package)?;
        let (theirs, ours) =
            (self.run_with("InnoDB", &environment, &parts)?, self.run_with("Perdura", &environment, &parts)?);
        let outputs = || format!("the outputs are in {}", environment.home().display());
        results::compare(self.name, self.known, is_whole, &theirs, &ours).with_context(outputs)
    }

    /// Runs the suite on a server of its own.
    fn run_with(&self, engine: &str, environment: &Environment, parts: &[String]) -> Result<Results> {
        let mut extra = vec![
            format!("--enforce-storage-engine={engine}"),
            format!("--default-storage-engine={engine}"),
            "--character-set-server=utf8mb4".to_owned(),
            // Without NO_ENGINE_SUBSTITUTION, with which another engine in CREATE TABLE would be
            // an error.
            "--sql-mode=STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER".to_owned(),
        ];
        extra.extend(self.options.iter().map(|&option| option.to_owned()));
        let mut server = Server::start_new(Options { perdura: true, extra, ..Options::default() })?;
        let log = environment.home().join(format!("{}.log", engine.to_lowercase()));
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        println!("{}: {} parts with {engine}", self.name, parts.len());
        let begun = Instant::now();
        let mut command = (self.command)(environment, &server, parts)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        // A suite with failures ends with another status than 0; its output tells the rest.
        command.status().with_context(|| format!("cannot run the suite of {}", self.package))?;
        let took = begun.elapsed();
        let text = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
        let results = (self.read)(&text).with_context(|| end_of(&text))?;
        server.stop()?;
        let (ran, failed) = (results.ran, results.failed.len());
        println!("{}: {ran} tests with {engine} in {} s, {failed} failed", self.name, took.as_secs());
        Ok(results)
    }
}

/// The last lines, for a message.
fn end_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    format!("the suite did not come to its end:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"))
}
