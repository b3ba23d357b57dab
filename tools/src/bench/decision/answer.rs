//! Answers, and how they are compared. Engines in the same server give the same text. The reference
//! is another program's, which divides in floating point and gives rows that are equally large in
//! an order of its own.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use mysql::{Row, Value};

/// Largest difference of two numbers, as a share of the larger one, or of 1.
const TOLERANCE: f64 = 1e-4;

/// The rows of an answer, sorted. NULL is the empty text.
#[derive(Debug, PartialEq)]
pub struct Answer {
    rows: Vec<Vec<String>>,
}

impl Answer {
    /// Value that the server sent.
    pub fn from_rows(rows: Vec<Row>) -> Result<Self> {
        let text = |value: Value| match value {
            Value::NULL => Ok(String::new()),
            Value::Bytes(bytes) => Ok(String::from_utf8(bytes)?),
            other => bail!("a column that is no text: {other:?}"),
        };
        let rows = rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect());
        Ok(Self::sorted(rows.collect::<Result<_>>()?))
    }

    /// Reads an answer with a heading, `|` between its columns.
    fn from_text(text: &str) -> Self {
        Self::sorted(text.lines().skip(1).map(|line| line.split('|').map(str::to_owned).collect()).collect())
    }

    /// Sorts by the texts and then by the numbers, so that numbers that are about the same do not
    /// part two answers.
    fn sorted(mut rows: Vec<Vec<String>>) -> Self {
        let key = |row: &Vec<String>| -> (Vec<String>, Vec<i64>) {
            let (numbers, texts): (Vec<&String>, Vec<&String>) = row.iter().partition(|text| number(text).is_some());
            let rounded = |text: &String| (number(text).unwrap_or_default() * 100.0).round() as i64;
            (texts.into_iter().cloned().collect(), numbers.into_iter().map(rounded).collect())
        };
        rows.sort_by_cached_key(key);
        Self { rows }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Fails if this is not `reference` but for the last digits of numbers.
    pub fn compare(&self, reference: &Self) -> Result<()> {
        let (found, expected) = (self.rows.len(), reference.rows.len());
        ensure!(found == expected, "{found} rows, the reference has {expected}");
        for (row, other) in self.rows.iter().zip(&reference.rows) {
            let same = row.len() == other.len() && row.iter().zip(other).all(|(a, b)| is_same(a, b));
            ensure!(same, "row {row:?}, the reference has {other:?}");
        }
        Ok(())
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn is_same(text: &str, other: &str) -> bool {
    match (number(text), number(other)) {
        (Some(a), Some(b)) => (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()).max(1.0),
        // A CHAR comes without the spaces at its end.
        _ => text.trim_end() == other.trim_end(),
    }
}

/// The reference answers of the data in `directory`, by the names of their queries.
pub fn reference(directory: &Path) -> Result<HashMap<String, Answer>> {
    let directory = directory.join("answers");
    let mut answers = HashMap::new();
    for entry in std::fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        let number = path.file_stem().context("a file without a name")?.to_string_lossy().into_owned();
        answers.insert(format!("q{number}"), Answer::from_text(&std::fs::read_to_string(&path)?));
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::Answer;

    fn of(text: &str) -> Answer {
        Answer::from_text(&format!("heading\n{text}"))
    }

    #[test]
    fn rows_compare_in_any_order_and_numbers_but_for_their_last_digits() {
        let reference = of("FRANCE|1995|25.537587116854997\nBRAZIL|1996|7\nEMPTY||0\n");
        of("BRAZIL|1996|7.00\nEMPTY||0.0\nFRANCE|1995|25.537587\n").compare(&reference).unwrap();
    }

    #[test]
    fn a_wrong_answer_is_noticed() {
        let reference = of("FRANCE|1995|25.53\nBRAZIL|1996|7\n");
        for wrong in ["FRANCE|1995|25.53\n", "FRANCE|1995|25.53\nBRAZIL|1996|8\n", "FRANCE|1995|25.53\nBRASIL|1996|7\n"]
        {
            of(wrong).compare(&reference).unwrap_err();
        }
    }
}
