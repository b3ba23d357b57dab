//! A header: its template, in which each line `@NAME` stands for the declaration of that name.

use std::collections::BTreeMap;

/// The header, or what is wrong with its template. Every declaration must stand in it, once.
pub fn header(template: &str, mut declarations: BTreeMap<String, String>) -> Result<String, String> {
    let mut lines = Vec::new();
    for line in template.lines() {
        let Some(name) = line.strip_prefix('@') else {
            lines.push(line.to_owned());
            continue;
        };
        lines.push(declarations.remove(name).ok_or(format!("{name} is not declared, or was placed before"))?);
    }
    if declarations.is_empty() {
        return Ok(lines.join("\n") + "\n");
    }
    let missing: Vec<_> = declarations.into_keys().collect();
    Err(format!("has no place for {}", missing.join(", ")))
}

#[test]
fn a_template_places_every_declaration_once() {
    let declarations = || BTreeMap::from([("a".to_owned(), "int a;".to_owned())]);
    assert_eq!(header("/* one */\n@a\n", declarations()).as_deref(), Ok("/* one */\nint a;\n"));
    assert!(header("@a\n@b\n", declarations()).is_err(), "b is not declared");
    assert!(header("@a\n@a\n", declarations()).is_err(), "a is placed twice");
    assert!(header("/* none */\n", declarations()).is_err(), "a is missing");
}
