//! Refuses in tracked files: marks of unfinished work, paths of one machine, more than 800 lines.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::shared::{paths, process};

const LINES_MAX: usize = 800;

/// Words of unfinished or debugging code. They are split so that this file does not contain them.
const WORDS: [&str; 6] = [
    concat!("to", "do!("),
    concat!("un", "implemented!("),
    concat!("#[", "ignore"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("db", "g!("),
];

/// Directories that exist only on somebody's machine.
const PLACES: [&str; 4] = [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/tm", "p/"), concat!("/wo", "rk/")];

/// Paths of all tracked files, from the root of the checkout.
pub fn tracked() -> Result<Vec<String>> {
    let listed = process::output(Command::new("git").args(["ls-files", "-z"]).current_dir(paths::top()))?;
    let exists = |path: &&str| !path.is_empty() && paths::top().join(path).is_file();
    Ok(listed.split('\0').filter(exists).map(str::to_owned).collect())
}

/// Checks every tracked text file. A file whose first line says what it is made from may be long.
pub fn check() -> Result<()> {
    let mut wrong = Vec::new();
    for path in tracked()? {
        if path.ends_with(".lock") {
            continue;
        }
        let bytes = std::fs::read(paths::top().join(&path)).with_context(|| path.clone())?;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let is_code = [".rs", ".cc", ".h", ".sh", ".py"].iter().any(|end| path.ends_with(end));
        let is_made = text.lines().next().is_some_and(|line| line.contains("Made from"));
        if is_code && !is_made && text.lines().count() > LINES_MAX {
            wrong.push(format!("{path}: more than {LINES_MAX} lines"));
        }
        for (number, line) in text.lines().enumerate() {
            let word = WORDS.iter().find(|word| is_code && line.contains(*word));
            if let Some(found) = word.or_else(|| PLACES.iter().find(|place| names_place(line, place))) {
                wrong.push(format!("{path}:{}: {found}", number + 1));
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Whether `line` names something in `place`, as an absolute path rather than as a part of a longer
/// one.
fn names_place(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(index, _)| {
        let before = line[..index].chars().next_back();
        let after = line[index + place.len()..].chars().next();
        let within = before.is_some_and(|c| c.is_ascii_alphanumeric() || "_.-}*".contains(c));
        !within && after.is_some_and(|c| c.is_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::{PLACES, names_place};

    #[test]
    fn only_absolute_paths_count() {
        let place = PLACES[2];
        assert!(names_place(&format!("cd {place}x"), place));
        assert!(names_place(&format!("\"{place}x\""), place));
        assert!(!names_place(&format!("build{place}x"), place));
        assert!(!names_place(&format!("cd {place}"), place));
    }
}
