//! Hazard: a C header that differs from the Rust side, found only when a call goes wrong; one that
//! leaves a call out, or puts Rust's words before a C programmer; and one that not every compiler
//! takes.
//!
//! `PERDURA_BLESS=1` writes the headers anew.

mod declarations;
mod made;

use std::path::Path;
use std::process::Command;

const SERVER: [&str; 5] =
    ["perdura_pool.h", "perdura_session.h", "perdura_rows.h", "perdura_operation.h", "perdura_server.h"];
const MAP: [&str; 1] = ["perdura_map.h"];

fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn headers() -> impl Iterator<Item = &'static str> {
    SERVER.into_iter().chain(MAP)
}

/// Compares headers with what the sources in `folder` and their templates make. Every declaration
/// must stand in one of them.
fn are_made_from(headers: &[&str], folder: &str) {
    let mut declarations = declarations::of(&crate_dir().join(folder));
    for header in headers {
        let template = crate_dir().join("headers").join(header).with_extension("h.in");
        let template = std::fs::read_to_string(template).expect("a template");
        let made = made::header(&template, &mut declarations);
        let made = made.unwrap_or_else(|wrong| panic!("headers/{header}.in: {wrong}"));
        let path = crate_dir().join("include").join(header);
        if std::env::var_os("PERDURA_BLESS").is_some() {
            std::fs::write(&path, &made).expect("the header written");
        }
        let kept = std::fs::read_to_string(&path).expect("the header read");
        assert!(kept == made, "{header} is not what the sources make: run with PERDURA_BLESS=1 and look");
    }
    let missing: Vec<_> = declarations.into_keys().collect();
    assert!(missing.is_empty(), "no place for {}", missing.join(", "));
}

#[test]
fn the_servers_headers_are_made_from_its_sources() {
    are_made_from(&SERVER, "src/server");
}

#[test]
fn the_maps_header_is_made_from_its_sources() {
    are_made_from(&MAP, "src/map");
}

/// The sources in a folder and the folders below it.
fn sources(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let text = |path: &Path| std::fs::read_to_string(path).expect("a source");
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![text(&path)] }).collect()
}

/// cbindgen passes over what it does not understand, and looks into two folders only.
#[test]
fn what_the_sources_export_is_declared_for_one_audience() {
    let text = |name: &&str| std::fs::read_to_string(crate_dir().join("include").join(name)).expect("a header");
    let texts = [SERVER.iter().map(text).collect::<String>(), MAP.iter().map(text).collect()];
    let is_of_name = |one: char| one.is_alphanumeric() || one == '_';
    let mut count = 0;
    for source in sources(&crate_dir().join("src")) {
        for mark in ["extern \"C\" fn perdura", "pub const PERDURA", "pub struct Perdura", "pub enum Perdura"] {
            for (at, _) in source.match_indices(mark) {
                let name = &source[at + mark.rfind(' ').expect("a word") + 1..];
                let name = &name[..name.find(|one| !is_of_name(one)).expect("the end of a name")];
                let declares = |text: &&String| {
                    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                    code.flat_map(|line| line.split(|one| !is_of_name(one))).any(|word| word == name)
                };
                assert_eq!(texts.iter().filter(declares).count(), 1, "headers that declare {name}");
                count += 1;
            }
        }
    }
    assert!(count > 130, "{count} exports found");
}

#[test]
fn headers_speak_c() {
    for header in headers() {
        let text = std::fs::read_to_string(crate_dir().join("include").join(header)).expect("the header read");
        for (number, line) in (1..).zip(text.lines()) {
            for rust in ["[`", "`]", "# ", "::", "panic", "unsafe", "Some(", "None", "Ok(", "Err(", "&mut", "usize"] {
                let is_directive = line.starts_with('#') && rust == "# ";
                assert!(is_directive || !line.contains(rust), "{header}:{number}: {rust:?} in {line:?}");
            }
            assert!(line.chars().count() <= 120, "{header}:{number} is longer than a line");
        }
    }
}

/// Each header alone, and those of both audiences in either order, in C99 and in C++, with every
/// warning an error.
#[test]
fn compilers_take_the_headers() {
    let directory = tempfile::tempdir().expect("a directory");
    let both = ["perdura_server.h", "perdura_map.h"];
    let alone = headers().map(|header| vec![header]);
    let together = [both.to_vec(), both.into_iter().rev().collect()];
    for (number, headers) in alone.chain(together).enumerate() {
        let text: String = headers.iter().map(|header| format!("#include \"{header}\"\n")).collect();
        for (compiler, end, standard) in
            [("cc", "c", "c99"), ("cc", "c", "c11"), ("c++", "cc", "c++11"), ("c++", "cc", "c++17")]
        {
            let source = directory.path().join(format!("includes_{number}.{end}"));
            // Twice, for the guards; and something of its own, for an empty file is not C.
            std::fs::write(&source, format!("{text}{text}int nothing(void);\n")).expect("written");
            let output = Command::new(compiler)
                .arg(format!("-std={standard}"))
                .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"])
                .arg(crate_dir().join("include"))
                .arg(&source)
                .output()
                .expect("a compiler");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{compiler} -std={standard} on {headers:?}:\n{said}");
        }
    }
}
