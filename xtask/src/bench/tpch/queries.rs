//! The 22 queries, in the server's SQL, with the parameters of the specification's validation
//! (clause 2.4). Query 15 has a common table expression in place of its view.

use anyhow::{Context, Result, ensure};

const TEXT: &str = include_str!("queries.sql");
/// Begins a query. Its number follows.
const HEAD: &str = "-- q";

/// A query.
pub struct Query {
    /// `q01` to `q22`.
    pub name: String,
    /// The statement.
    pub text: String,
}

/// All queries in the order of their numbers.
pub fn all() -> Result<Vec<Query>> {
    let query = |part: &str| -> Result<Query> {
        let (number, text) = part.split_once('\n').context("a query without a text")?;
        Ok(Query { name: format!("q{number}"), text: text.trim().trim_end_matches(';').to_owned() })
    };
    let queries = TEXT.split(HEAD).skip(1).map(query).collect::<Result<Vec<_>>>()?;
    ensure!(queries.len() == 22, "TPC-H has 22 queries, not {}", queries.len());
    Ok(queries)
}

#[cfg(test)]
mod tests {
    use super::all;

    #[test]
    fn queries_have_their_numbers_and_are_single_statements() {
        for (place, query) in all().unwrap().iter().enumerate() {
            assert_eq!(query.name, format!("q{:02}", place + 1));
            assert!(!query.text.contains(';') && !query.text.is_empty(), "{}", query.text);
        }
    }
}
