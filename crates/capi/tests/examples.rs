//! Hazard: an example that no longer builds, or that shows the engine or a map losing what it
//! acknowledged. The examples and the README's program are built as their readers would build them,
//! with cargo and cc; the examples run on both structures, with a crash in the middle.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn directory() -> TempDir {
    tempfile::tempdir_in(Path::new("/dev/shm")).or_else(|_| tempfile::tempdir()).expect("a directory")
}

fn cargo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo can be started")
}

/// Builds with cargo; gives the file built whose name ends in `end`.
fn built(arguments: &[&str], end: &str) -> PathBuf {
    let arguments = [&["build", "--release", "--message-format=json"], arguments].concat();
    let output = cargo(&arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Cargo quotes the names, and none holds a quote.
    let name = said.split('"').rfind(|word| word.starts_with('/') && word.ends_with(end));
    name.unwrap_or_else(|| panic!("nothing that ends in {end}: {said}")).into()
}

fn shows_what_survived(program: &Path) {
    for kind in ["list", "btree"] {
        let directory = directory();
        let output = Command::new(program).arg(directory.path()).arg(kind).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{kind}: {said}{}", String::from_utf8_lossy(&output.stderr));
        let outcome = "every persisted transfer is there: yes; none is there by half: yes";
        assert!(said.contains(outcome) && said.contains("  transfers = "), "{kind}: {said}");
    }
}

#[test]
fn the_rust_example_survives_its_crash() {
    let name = "open_put_crash_reopen";
    shows_what_survived(&built(&["--package", "perdura-map", "--example", name], &format!("/examples/{name}")));
}

#[test]
fn the_engines_example_survives_its_crash() {
    let name = "crash_and_reopen";
    let program = built(&["--package", "perdura-engine", "--example", name], &format!("/examples/{name}"));
    let directory = directory();
    let output = Command::new(program).arg(directory.path()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("every acknowledged transfer is there: yes; none is there by half: yes"), "{said}");
}

/// Builds a C program as its readers would, from the folder of the crate.
fn built_c(source: &Path, program: &Path) {
    let library = built(&["--package", "perdura-capi", "--lib"], "/libperdura_capi.a");
    let output = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Iinclude"])
        .arg(source)
        .arg(&library)
        .args(["-lpmem2", "-lpthread", "-ldl", "-lm", "-o"])
        .arg(program)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_c_example_survives_its_crash() {
    let place = directory();
    let program = place.path().join("map");
    built_c(Path::new("examples/map.c"), &program);
    shows_what_survived(&program);
}

#[test]
fn the_readmes_program_runs() {
    let readme = include_str!("../README.md");
    let (_, text) = readme.split_once("```c\n").expect("a program");
    let (text, _) = text.split_once("```").expect("its end");
    let place = directory();
    let (source, program) = (place.path().join("rivers.c"), place.path().join("rivers"));
    std::fs::write(&source, text).expect("written");
    built_c(&source, &program);
    let output = Command::new(program).arg(place.path().join("maps")).output().expect("it runs");
    assert!(output.status.success() && output.stdout == b"3531 km\n", "{output:?}");
}
