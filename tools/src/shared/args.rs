//! The command line: positional words, `--flag`s and `--option VALUE` pairs. Commands take each by
//! name; a word that nobody takes is an error.

use std::str::FromStr;

use anyhow::{Context, Result, bail};

/// The words of the command line that nobody has taken yet.
pub struct Args {
    words: Vec<String>,
}

impl Args {
    /// The arguments of this process, without its own name.
    pub fn from_command_line() -> Self {
        Self { words: std::env::args().skip(1).collect() }
    }

    /// Takes the next word that is not an option.
    pub fn positional(&mut self) -> Option<String> {
        let index = self.words.iter().position(|word| !word.starts_with("--"))?;
        Some(self.words.remove(index))
    }

    /// Takes `--name` and tells whether it was there.
    pub fn flag(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != name);
        self.words.len() != before
    }

    /// Takes `--name VALUE` or `--name=VALUE`.
    pub fn option<T>(&mut self, name: &str) -> Result<Option<T>>
    where
        T: FromStr,
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let Some(index) = self
            .words
            .iter()
            .position(|word| word == name || word.strip_prefix(name).is_some_and(|r| r.starts_with('=')))
        else {
            return Ok(None);
        };
        let word = self.words.remove(index);
        let text = match word.split_once('=') {
            Some((_, text)) => text.to_owned(),
            None if index < self.words.len() => self.words.remove(index),
            None => bail!("{name} needs a value"),
        };
        let value = text.parse().with_context(|| format!("{name} {text}"))?;
        Ok(Some(value))
    }

    /// All remaining words, in order.
    pub fn rest(self) -> Vec<String> {
        self.words
    }

    /// Fails if a word is left.
    pub fn finish(self) -> Result<()> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => bail!("unexpected argument {word}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Args;

    fn args(words: &[&str]) -> Args {
        Args { words: words.iter().map(|word| (*word).to_owned()).collect() }
    }

    #[test]
    fn takes_flags_options_and_words_in_any_order() {
        let mut args = args(&["bench", "--json", "out", "load", "--seed=7", "--quick"]);
        assert_eq!(args.option::<String>("--json").unwrap().as_deref(), Some("out"));
        assert_eq!(args.option::<u64>("--seed").unwrap(), Some(7));
        assert!(args.flag("--quick"));
        assert_eq!(args.positional().as_deref(), Some("bench"));
        assert_eq!(args.positional().as_deref(), Some("load"));
        args.finish().unwrap();
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert!(args(&["--fast"]).finish().is_err());
        assert!(args(&["--seed"]).option::<u64>("--seed").is_err());
        assert!(args(&["--seed", "x"]).option::<u64>("--seed").is_err());
    }
}
