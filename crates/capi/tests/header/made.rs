//! A header: its template, in which each line `@NAME` stands for the declaration of that name.

use std::collections::BTreeMap;

/// The header, or what is wrong with its template. Takes the declarations that stand in it.
pub fn header(template: &str, declarations: &mut BTreeMap<String, String>) -> Result<String, String> {
    let mut lines = Vec::new();
    for line in template.lines() {
        let Some(name) = line.strip_prefix('@') else {
            lines.push(line.to_owned());
            continue;
        };
        lines.push(declarations.remove(name).ok_or(format!("{name} is not declared, or was placed before"))?);
    }
    Ok(lines.join("\n") + "\n")
}

#[test]
fn a_template_places_a_declaration_once() {
    let made = |template| header(template, &mut BTreeMap::from([("a".to_owned(), "int a;".to_owned())]));
    assert_eq!(made("/* one */\n@a\n").as_deref(), Ok("/* one */\nint a;\n"));
    assert!(made("@a\n@b\n").is_err(), "b is not declared");
    assert!(made("@a\n@a\n").is_err(), "a is placed twice");
}
