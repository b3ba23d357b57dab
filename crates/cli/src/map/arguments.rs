//! Parses the command line of `perdura map`.

use super::text;
use lexopt::Arg::{Long, Short, Value};
use lexopt::{Error, Parser};
use perdura_map::{Kind, Layout, Ts};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A command on one map.
pub struct Request {
    pub directory: PathBuf,
    pub name: String,
    pub action: Action,
    /// Whether keys and values are given and printed in hexadecimal.
    pub hex: bool,
    /// Whether to change a map that does not lie on persistent memory.
    pub emulate: bool,
}

/// Operation on the map.
pub enum Action {
    Create { kind: Kind, layout: Layout },
    Info,
    Check,
    Get { key: Vec<u8>, at: Ts },
    Put { key: Vec<u8>, value: Vec<u8> },
    Remove { key: Vec<u8> },
    Batch { tag: Vec<u8>, file: Option<PathBuf> },
    Scan(Range),
    Mutations { from: Ts },
    Meta,
    SetMeta { meta: Vec<u8> },
    Apply { ts: Ts },
    Rollback { from: Ts },
    Forget { up_to: Ts },
    Dump(Dump),
    Load(Load),
}

impl Action {
    /// Whether it changes the map.
    pub fn changes(&self) -> bool {
        !matches!(
            self,
            Action::Info
                | Action::Check
                | Action::Get { .. }
                | Action::Scan(_)
                | Action::Mutations { .. }
                | Action::Meta
                | Action::Dump(_)
        )
    }
}

/// Keys to print.
pub struct Range {
    pub prefix: Option<Vec<u8>>,
    pub from: Option<Vec<u8>>,
    pub to: Option<Vec<u8>>,
    pub limit: u64,
    pub at: Ts,
}

/// How to dump.
pub struct Dump {
    pub printable: bool,
    pub file: Option<PathBuf>,
    pub at: Ts,
}

/// How to load.
pub struct Load {
    /// Whether the dump has no header, only lines of key and value.
    pub bare: bool,
    /// Whether keys that have a value keep it.
    pub keep: bool,
    pub file: Option<PathBuf>,
    pub kind: Option<Kind>,
    pub bytes: Option<u64>,
}

/// A command: its name, the words it takes after DIR and NAME, and its options.
struct Form(&'static str, &'static [&'static str], &'static [&'static str]);

const FORMS: [Form; 16] = [
    Form("create", &[], &["bytes", "kind", "page-bytes", "branching", "emulate"]),
    Form("info", &[], &[]),
    Form("check", &[], &[]),
    Form("get", &["KEY"], &["at", "x"]),
    Form("put", &["KEY", "VALUE"], &["x", "emulate"]),
    Form("remove", &["KEY"], &["x", "emulate"]),
    Form("batch", &[], &["tag", "f", "x", "emulate"]),
    Form("mutations", &[], &["from", "x"]),
    Form("meta", &[], &["x"]),
    Form("set-meta", &["META"], &["x", "emulate"]),
    Form("apply", &["TS"], &["emulate"]),
    Form("rollback", &["TS"], &["emulate"]),
    Form("forget", &["TS"], &["emulate"]),
    Form("scan", &[], &["prefix", "from", "to", "limit", "at", "x"]),
    Form("dump", &[], &["p", "f", "at"]),
    Form("load", &[], &["T", "N", "f", "bytes", "kind", "emulate"]),
];

/// Options without a value.
const FLAGS: [&str; 5] = ["emulate", "x", "p", "T", "N"];

/// The command line so far: words in order, options by name.
struct Given {
    words: std::vec::IntoIter<OsString>,
    options: BTreeMap<String, OsString>,
}

/// Parses the request; `None` if it asks for help.
pub fn parse(mut parser: Parser) -> Result<Option<Request>, Error> {
    let form = match parser.next()? {
        Some(Value(word)) => FORMS
            .iter()
            .find(|form| word == form.0)
            .ok_or_else(|| format!("map {} is not a command", word.to_string_lossy()))?,
        Some(Long("help") | Short('h')) => return Ok(None),
        Some(argument) => return Err(argument.unexpected()),
        None => return Err("a command on maps is missing".into()),
    };
    let Some(mut given) = gather(&mut parser, form)? else { return Ok(None) };
    let directory = given.word("DIR")?.into();
    let name = given.word("NAME")?.into_string().map_err(Error::NonUnicodeValue)?;
    let (hex, emulate) = (given.flag("x"), given.flag("emulate"));
    let action = given.action(form.0, hex)?;
    Ok(Some(Request { directory, name, action, hex, emulate }))
}

fn gather(parser: &mut Parser, form: &Form) -> Result<Option<Given>, Error> {
    let (mut words, mut options) = (Vec::new(), BTreeMap::new());
    while let Some(argument) = parser.next()? {
        let option = match argument {
            Value(word) if words.len() < 2 + form.1.len() => {
                words.push(word);
                continue;
            }
            Long("help") | Short('h') => return Ok(None),
            Long(name) if name.len() > 1 && form.2.contains(&name) => name.to_owned(),
            Short(letter) if form.2.contains(&letter.to_string().as_str()) => letter.to_string(),
            other => return Err(other.unexpected()),
        };
        let value = if FLAGS.contains(&option.as_str()) { OsString::new() } else { parser.value()? };
        if options.insert(option.clone(), value).is_some() {
            return Err(format!("option {option} is given twice").into());
        }
    }
    Ok(Some(Given { words: words.into_iter(), options }))
}

impl Given {
    fn word(&mut self, what: &str) -> Result<OsString, Error> {
        self.words.next().ok_or_else(|| format!("{what} is missing").into())
    }

    fn bytes(&mut self, what: &str, hex: bool) -> Result<Vec<u8>, Error> {
        bytes_of(self.word(what)?, what, hex)
    }

    fn flag(&mut self, option: &str) -> bool {
        self.options.remove(option).is_some()
    }

    fn option<T>(
        &mut self,
        option: &str,
        read: impl FnOnce(&str) -> Option<T>,
        expected: &str,
    ) -> Result<Option<T>, Error> {
        let Some(given) = self.options.remove(option) else { return Ok(None) };
        match given.to_str().and_then(read) {
            Some(value) => Ok(Some(value)),
            None => Err(format!("--{option} {}: use {expected}", given.to_string_lossy()).into()),
        }
    }

    fn number<T: std::str::FromStr>(&mut self, option: &str) -> Result<Option<T>, Error> {
        self.option(option, |text| text.parse().ok(), "a number")
    }

    fn key(&mut self, option: &str, hex: bool) -> Result<Option<Vec<u8>>, Error> {
        self.options.remove(option).map(|given| bytes_of(given, option, hex)).transpose()
    }

    fn kind(&mut self) -> Result<Option<Kind>, Error> {
        self.option("kind", text::kind, "list or btree")
    }

    fn size(&mut self) -> Result<Option<u64>, Error> {
        self.option("bytes", text::size, "a number of bytes, or of K, M or G, such as 64M")
    }

    fn ts(&mut self) -> Result<Ts, Error> {
        let word = self.word("TS")?;
        let ts = word.to_str().and_then(|text| text.parse().ok());
        ts.ok_or_else(|| format!("{}: use a timestamp, a number", word.to_string_lossy()).into())
    }

    fn at(&mut self) -> Result<Ts, Error> {
        Ok(self.number("at")?.unwrap_or(Ts::MAX))
    }

    fn file(&mut self) -> Option<PathBuf> {
        self.options.remove("f").map(PathBuf::from)
    }

    fn action(&mut self, command: &str, hex: bool) -> Result<Action, Error> {
        Ok(match command {
            "create" => self.create()?,
            "info" => Action::Info,
            "check" => Action::Check,
            "get" => Action::Get { key: self.bytes("KEY", hex)?, at: self.at()? },
            "put" => Action::Put { key: self.bytes("KEY", hex)?, value: self.bytes("VALUE", hex)? },
            "remove" => Action::Remove { key: self.bytes("KEY", hex)? },
            "batch" => Action::Batch { tag: self.key("tag", hex)?.unwrap_or_default(), file: self.file() },
            "mutations" => Action::Mutations { from: self.number("from")?.unwrap_or(0) },
            "meta" => Action::Meta,
            "apply" => Action::Apply { ts: self.ts()? },
            "rollback" => Action::Rollback { from: self.ts()? },
            "forget" => Action::Forget { up_to: self.ts()? },
            "set-meta" => Action::SetMeta { meta: self.bytes("META", hex)? },
            "scan" => Action::Scan(self.range(hex)?),
            "dump" => Action::Dump(Dump { printable: self.flag("p"), file: self.file(), at: self.at()? }),
            _ => Action::Load(Load {
                bare: self.flag("T"),
                keep: self.flag("N"),
                file: self.file(),
                kind: self.kind()?,
                bytes: self.size()?,
            }),
        })
    }

    fn create(&mut self) -> Result<Action, Error> {
        let bytes = self.size()?.ok_or("--bytes is missing: a map's file does not grow")?;
        let kind = self.kind()?.unwrap_or(Kind::BTree);
        let best = Layout::of(kind, bytes);
        let page_bytes = self.number("page-bytes")?.unwrap_or(best.page_bytes);
        let branching = self.number("branching")?.unwrap_or(best.branching);
        Ok(Action::Create { kind, layout: Layout { page_bytes, branching, ..best } })
    }

    fn range(&mut self, hex: bool) -> Result<Range, Error> {
        let range = Range {
            prefix: self.key("prefix", hex)?,
            from: self.key("from", hex)?,
            to: self.key("to", hex)?,
            limit: self.number("limit")?.unwrap_or(u64::MAX),
            at: self.at()?,
        };
        if range.prefix.is_some() && (range.from.is_some() || range.to.is_some()) {
            return Err("--prefix does not go with --from and --to".into());
        }
        Ok(range)
    }
}

fn bytes_of(word: OsString, what: &str, hex: bool) -> Result<Vec<u8>, Error> {
    let bytes = word.into_vec();
    if !hex {
        return Ok(bytes);
    }
    text::unhex(&bytes).ok_or_else(|| format!("{what}: with -x use pairs of hexadecimal digits").into())
}
