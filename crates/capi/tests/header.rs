//! Hazard: a C header that says something else than the Rust side does, found only when a call goes wrong; and one that
//! not every compiler takes. `PERDURA_BLESS=1` writes the headers anew.

use std::path::{Path, PathBuf};
use std::process::Command;

fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compares `include/NAME` with what cbindgen makes of `sources`, which must not include one another.
fn is_made_from(name: &str, config: &str, sources: Vec<PathBuf>) {
    let config = cbindgen::Config::from_file(crate_dir().join(config)).expect("a configuration");
    let builder = sources
        .into_iter()
        .fold(cbindgen::Builder::new().with_config(config), |builder, source| builder.with_src(source));
    let mut made = Vec::new();
    builder.generate().expect("a header").write(&mut made);

    let path = crate_dir().join("include").join(name);
    if std::env::var_os("PERDURA_BLESS").is_some() {
        std::fs::write(&path, &made).expect("the header written");
    }
    let kept = std::fs::read(&path).expect("the header read");
    assert!(kept == made, "{} is not what cbindgen makes: run with PERDURA_BLESS=1 and look", path.display());
    // Declared twice, a function is still right for a compiler, but not for a reader.
    let text = String::from_utf8(made).expect("text");
    let mut functions: Vec<&str> =
        text.split(" perdura_").skip(1).filter_map(|rest| rest.split_once('(')).map(|(name, _)| name).collect();
    let count = functions.len();
    functions.sort_unstable();
    functions.dedup();
    assert!(count > 10 && functions.len() == count, "{} declares a function twice", path.display());
}

/// The sources in a folder that stand for nothing but themselves: from one with modules cbindgen would go on to what it
/// takes for their files.
fn leaves(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(crate_dir().join(folder)).expect("a folder");
    let mut sources: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    sources.retain(|path| path.is_file() && !path.ends_with("lib.rs") && !path.with_extension("").is_dir());
    sources.sort();
    sources
}

#[test]
fn the_engines_header_is_made_from_this_crate() {
    is_made_from("perdura.h", "cbindgen.toml", leaves("src"));
}

#[test]
fn the_maps_header_is_made_from_this_crate() {
    is_made_from("perdura_map.h", "cbindgen_map.toml", leaves("src/map"));
}

/// Each header alone, and both in either order, in C99 and in C++, with every warning an error.
#[test]
fn compilers_take_the_headers() {
    let directory = tempfile::tempdir().expect("a directory");
    for (number, headers) in
        [&["perdura.h"][..], &["perdura_map.h"], &["perdura.h", "perdura_map.h"], &["perdura_map.h", "perdura.h"]]
            .into_iter()
            .enumerate()
    {
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
