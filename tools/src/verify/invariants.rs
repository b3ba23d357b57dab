//! docs/invariants.md tells the truth about who holds and who tests each rule: every file it names
//! exists and cites the rule by its number.

use anyhow::{Context, Result, ensure};
use std::path::Path;

use crate::shared::paths;

/// How many rules there are.
const RULES: usize = 11;

/// Checks the page against the tree.
pub fn check() -> Result<()> {
    let top = paths::top();
    let page = std::fs::read_to_string(top.join("docs/invariants.md")).context("docs/invariants.md")?;
    let wrong = problems(&page, &|path| read(top, path));
    ensure!(wrong.is_empty(), "docs/invariants.md: {}", wrong.join("\n"));
    Ok(())
}

/// The file that `path` on the page means: below the repository, or below `crates/`.
fn read(top: &Path, path: &str) -> Option<String> {
    let places = [top.join(path), top.join("crates").join(path)];
    places.iter().find_map(|place| std::fs::read_to_string(place).ok())
}

/// Faults of the page; `read` gives a file's text.
fn problems(page: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let rules: Vec<_> = (1..=RULES + 1).map(|number| page.find(&format!("\n{number}. **"))).collect();
    let mut wrong = Vec::new();
    for number in 1..=RULES {
        let Some(from) = rules[number - 1] else {
            wrong.push(format!("there is no rule {number}"));
            continue;
        };
        let text = &page[from..rules[number].unwrap_or(page.len())];
        let tested = text.find("*Tested by*");
        let held = text.find("*Held by*").filter(|held| tested.is_some_and(|tested| *held < tested));
        let (Some(held), Some(tested)) = (held, tested) else {
            wrong.push(format!("rule {number} does not say what holds it, then what tests it"));
            continue;
        };
        for (part, what) in [(&text[held..tested], "holds"), (&text[tested..], "tests")] {
            let files: Vec<_> = part.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs")).collect();
            if files.is_empty() {
                wrong.push(format!("rule {number} names no file that {what} it"));
            }
            for file in files {
                match read(file) {
                    None => wrong.push(format!("rule {number} names {file}, which does not exist")),
                    Some(text) if !cites(&text, number) => {
                        wrong.push(format!("{file} {what} rule {number} without citing (I{number})"))
                    }
                    Some(_) => {}
                }
            }
        }
    }
    wrong
}

/// Whether a source file cites the rule: `(I3)`, or among others in one pair of brackets.
fn cites(text: &str, number: usize) -> bool {
    let name = format!("I{number}");
    text.split('(').skip(1).filter_map(|rest| rest.split_once(')')).any(|(inside, _)| {
        inside.split([',', ' ']).any(|word| word == name)
            && inside.split([',', ' ']).all(|word| word.is_empty() || word.starts_with('I'))
    })
}

#[cfg(test)]
mod tests {
    use super::{RULES, cites, problems};

    #[test]
    fn a_rule_that_nobody_cites_and_a_file_that_is_gone_are_found() {
        let rule = |number| {
            format!("\n{number}. **Rule.** Text.\n   *Held by* `a/src/held.rs`.\n   *Tested by* `a/tests/test.rs`.")
        };
        let page: String = (1..=RULES).map(rule).collect();
        let all: String = (1..=RULES).map(|number| format!("// (I{number})\n")).collect();
        assert_eq!(problems(&page, &|_| Some(all.clone())), Vec::<String>::new());
        let gone = problems(&page, &|path| (path != "a/tests/test.rs").then(|| all.clone()));
        assert_eq!(gone.len(), RULES);
        assert!(gone[0].contains("a/tests/test.rs") && gone[0].contains("does not exist"));
        let silent = problems(&page, &|_| Some(all.replace("(I3)", "")));
        assert_eq!(silent.len(), 2);
        assert!(silent[0].contains("a/src/held.rs holds rule 3"));
        assert!(problems(&page.replace("*Held by*", ""), &|_| Some(all.clone()))[0].contains("rule 1"));
    }

    #[test]
    fn a_citation_is_a_number_in_brackets() {
        assert!(cites("// kept (I1, I4)", 1) && cites("// kept (I1, I4)", 4) && cites("(I10)", 10));
        assert!(!cites("(I10)", 1) && !cites("I1", 1) && !cites("(see I1 there)", 1));
    }
}
