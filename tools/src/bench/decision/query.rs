//! The queries of a benchmark, from a file in which a line `-- qNN` begins each.

use anyhow::{Context, Result, ensure};

/// Begins a query. Its number follows.
const HEAD: &str = "-- q";
/// Stands in place of the text of a query that the server cannot express. The reason follows.
const LEFT_OUT: &str = "-- left out: ";

/// A query.
pub struct Query {
    /// `q01` and so on.
    pub name: String,
    /// The statement, or the reason why there is none.
    pub text: Result<String, String>,
}

/// The queries of `file` in the order of their numbers, which go from 1 to `count`.
pub fn parse(file: &str, count: usize) -> Result<Vec<Query>> {
    let query = |part: &str| -> Result<Query> {
        let (number, text) = part.split_once('\n').context("a query without a text")?;
        let text = text.trim().trim_end_matches(';');
        let text = match text.strip_prefix(LEFT_OUT) {
            Some(reason) => Err(reason.to_owned()),
            None => Ok(text.to_owned()),
        };
        Ok(Query { name: format!("q{number}"), text })
    };
    let queries = file.split(HEAD).skip(1).map(query).collect::<Result<Vec<_>>>()?;
    ensure!(queries.len() == count, "{count} queries are due, not {}", queries.len());
    for (place, query) in queries.iter().enumerate() {
        let due = format!("q{:02}", place + 1);
        ensure!(query.name == due, "{} in place of {due}", query.name);
        let is_single = query.text.as_ref().is_ok_and(|text| !text.contains(';'));
        ensure!(query.text.is_err() || is_single, "{due} is no single statement");
    }
    Ok(queries)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn queries_have_their_numbers_and_are_single_statements() {
        let queries = parse("-- All.\n\n-- q01\nSELECT 1;\n\n-- q02\n-- left out: no CUBE\n", 2).unwrap();
        assert_eq!(queries[0].text, Ok("SELECT 1".to_owned()));
        assert_eq!(queries[1].text, Err("no CUBE".to_owned()));
        assert!(parse("-- q01\nSELECT 1;\n", 2).is_err());
        assert!(parse("-- q02\nSELECT 1;\n", 1).is_err());
        assert!(parse("-- q01\nSELECT 1; SELECT 2;\n", 1).is_err());
    }
}
