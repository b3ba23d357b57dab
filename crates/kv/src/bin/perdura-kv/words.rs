//! Parses the command line.

use std::path::PathBuf;

use lexopt::Arg::{Long, Short, Value};
use lexopt::{Error, Parser};

/// Command of the program.
pub(crate) enum Command {
    /// Say how it is used.
    Help,
    /// Say which version it is.
    Version,
    /// A command and what it was given.
    Of(&'static str, SnapshotTransfer),
}

/// Arguments of a command.
#[derive(Default)]
pub(crate) struct SnapshotTransfer {
    /// The configuration's file.
    pub config: PathBuf,
    /// The address of a replica.
    pub to: Option<String>,
    /// A backup, or the directory of a replica.
    pub from: Option<String>,
    /// Whether to print JSON.
    pub json: bool,
    /// The words behind the options.
    pub words: Vec<String>,
}

/// A command: the word before it, its name, its options besides --config, and its words.
struct Form(Option<&'static str>, &'static str, &'static [&'static str], &'static [&'static str]);

const MEMBERS: Option<&str> = Some("members");
const FORMS: [Form; 12] = [
    Form(None, "serve", &[], &[]),
    Form(None, "init", &[], &[]),
    Form(None, "join", &["to"], &[]),
    Form(None, "status", &["to", "json"], &[]),
    Form(MEMBERS, "add", &["to"], &["the replica's id", "its address for replicas", "its address for clients"]),
    Form(MEMBERS, "remove", &["to"], &["the replica's id"]),
    Form(MEMBERS, "promote", &["to"], &["the replica's id"]),
    Form(None, "transfer", &["to"], &["the replica's id"]),
    Form(None, "backup", &["to"], &["the backup's file"]),
    Form(None, "restore", &[], &["the backup's file"]),
    Form(None, "recover", &["from"], &[]),
    Form(None, "check", &[], &[]),
];

/// Parses the words of a command line.
pub(crate) fn parse(mut parser: Parser) -> Result<Command, Error> {
    let mut before = None;
    let form = loop {
        let word = match parser.next()? {
            Some(Long("help") | Short('h')) => return Ok(Command::Help),
            Some(Long("version") | Short('V')) => return Ok(Command::Version),
            Some(Value(word)) if word == "help" => return Ok(Command::Help),
            Some(Value(word)) => word.into_string().map_err(Error::NonUnicodeValue)?,
            _ if before.is_some() => return Err("members add, remove or promote?".into()),
            Some(argument) => return Err(argument.unexpected()),
            None => return Err("a command is missing".into()),
        };
        if before.is_none() && word == "members" {
            before = MEMBERS;
            continue;
        }
        match FORMS.iter().find(|form| form.0 == before && form.1 == word) {
            Some(form) => break form,
            None => return Err(format!("{}{word} is not a command", before.map_or("", |_| "members ")).into()),
        }
    };
    gather(parser, form)
}

fn gather(mut parser: Parser, form: &Form) -> Result<Command, Error> {
    let Form(_, name, options, wanted) = form;
    let (mut given, mut config) = (SnapshotTransfer::default(), None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("help") | Short('h') => return Ok(Command::Help),
            Long("config") if config.is_none() => config = Some(PathBuf::from(parser.value()?)),
            Long("to") if options.contains(&"to") && given.to.is_none() => {
                given.to = Some(parser.value()?.into_string().map_err(Error::NonUnicodeValue)?);
            }
            Long("from") if options.contains(&"from") && given.from.is_none() => {
                given.from = Some(parser.value()?.into_string().map_err(Error::NonUnicodeValue)?);
            }
            Long("json") if options.contains(&"json") => given.json = true,
            Value(word) if given.words.len() < wanted.len() => {
                given.words.push(word.into_string().map_err(Error::NonUnicodeValue)?);
            }
            other => return Err(other.unexpected()),
        }
    }
    if let Some(missing) = wanted.get(given.words.len()) {
        return Err(format!("{missing} is missing").into());
    }
    if *name == "join" && given.to.is_none() {
        return Err("--to is missing: the peers address of a member".into());
    }
    if *name == "recover" && given.from.is_none() {
        return Err("--from is missing: a backup, or the directory of a replica".into());
    }
    given.config = config.ok_or("--config is missing: the replica's configuration")?;
    Ok(Command::Of(name, given))
}
