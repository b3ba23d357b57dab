//! Hazard: an example that nobody can build any more, or that shows a map losing what it confirmed. Both are built as
//! their readers would build them, with cargo and cc, and run with a crash in the middle, on both structures.

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

/// What cargo built: the file whose name ends in `end`.
fn built(arguments: &[&str], end: &str) -> PathBuf {
    let arguments = [&["build", "--release", "--message-format=json"], arguments].concat();
    let output = cargo(&arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Names are quoted, and none holds a quote.
    let name = said.split('"').rfind(|word| word.starts_with('/') && word.ends_with(end));
    name.unwrap_or_else(|| panic!("nothing that ends in {end}: {said}")).into()
}

fn shows_what_survived(program: &Path) {
    for kind in ["list", "btree"] {
        let directory = directory();
        let output = Command::new(program).arg(directory.path()).arg(kind).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{kind}: {said}{}", String::from_utf8_lossy(&output.stderr));
        let told = "every confirmed transfer is there: yes; none is there by half: yes";
        assert!(said.contains(told) && said.contains("  transfers = "), "{kind}: {said}");
    }
}

#[test]
fn the_rust_example_survives_its_crash() {
    let name = "open_put_crash_reopen";
    shows_what_survived(&built(&["--package", "perdura-map", "--example", name], &format!("/examples/{name}")));
}

#[test]
fn the_c_example_survives_its_crash() {
    let library = built(&["--package", "perdura-capi", "--lib"], "/libperdura_capi.a");
    let place = directory();
    let program = place.path().join("map");
    let output = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Iinclude", "examples/map.c"])
        .arg(&library)
        .args(["-lpmem2", "-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    shows_what_survived(&program);
}
