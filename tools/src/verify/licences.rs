//! Checks that every dependency may be used under a licence from the lists below.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Licences that the project's own (MIT OR Apache-2.0) can be combined with, without duties beyond
/// naming them.
const ALLOWED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Weak copyleft, for development tools that are part of no product.
const TOOLS: [(&str, &str); 2] = [("cbindgen", "MPL-2.0"), ("option-ext", "MPL-2.0")];

/// Checks the output of `cargo metadata`.
pub fn check(metadata: &Value) -> Result<()> {
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let mut refused = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a package has no name")?;
        let licence = package["license"].as_str().unwrap_or("none stated");
        if !allows(licence) && !TOOLS.contains(&(name, licence)) {
            refused.push(format!("{name} {}: {licence}", package["version"].as_str().unwrap_or("")));
        }
    }
    ensure!(refused.is_empty(), "not on the list of licences:\n{}", refused.join("\n"));
    Ok(())
}

/// Whether an SPDX expression can be satisfied. `/` is an old spelling of OR.
fn allows(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = expression.split_whitespace().collect();
    let mut position = 0;
    either(&tokens, &mut position) && position == tokens.len()
}

fn either(tokens: &[&str], position: &mut usize) -> bool {
    let mut allowed = both(tokens, position);
    while tokens.get(*position) == Some(&"OR") {
        *position += 1;
        allowed |= both(tokens, position);
    }
    allowed
}

fn both(tokens: &[&str], position: &mut usize) -> bool {
    let mut allowed = one(tokens, position);
    while tokens.get(*position) == Some(&"AND") {
        *position += 1;
        allowed &= one(tokens, position);
    }
    allowed
}

fn one(tokens: &[&str], position: &mut usize) -> bool {
    let Some(&token) = tokens.get(*position) else { return false };
    *position += 1;
    if token == "(" {
        let allowed = either(tokens, position);
        let closed = tokens.get(*position) == Some(&")");
        *position += 1;
        return allowed && closed;
    }
    if tokens.get(*position) == Some(&"WITH") {
        let exception = tokens.get(*position + 1).copied().unwrap_or_default();
        *position += 2;
        return ALLOWED.contains(&token) || ALLOWED.contains(&format!("{token} WITH {exception}").as_str());
    }
    ALLOWED.contains(&token)
}

#[cfg(test)]
mod tests {
    use super::allows;

    #[test]
    fn expressions_are_judged_by_their_logic() {
        assert!(allows("MIT OR Apache-2.0"));
        assert!(allows("GPL-3.0 OR MIT"));
        assert!(allows("MIT/Apache-2.0"));
        assert!(allows("(MIT OR GPL-2.0) AND Unicode-3.0"));
        assert!(allows("Apache-2.0 WITH LLVM-exception OR GPL-2.0"));
        assert!(!allows("GPL-3.0"));
        assert!(!allows("MIT AND GPL-3.0"));
        assert!(!allows("none stated"));
        assert!(!allows("(MIT"));
    }
}
