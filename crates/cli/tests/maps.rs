//! `perdura map` as a person and a script meet it: what it prints, where, with which exit status,
//! and what it leaves behind.

use perdura_map::{Config, KeyChange, Ts, open};
use perdura_pmem::{FileMedium, Medium, Options};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

fn directory() -> TempDir {
    tempfile::tempdir_in(Path::new("/dev/shm")).or_else(|_| tempfile::tempdir()).expect("a directory")
}

/// `perdura map COMMAND DIRECTORY ...` with `input` to read: exit status, standard output, standard
/// error.
fn run(directory: &TempDir, command: &str, arguments: &[&str], input: &[u8]) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_perdura"))
        .args(["map", command])
        .arg(directory.path())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    // A command that does not read is free not to.
    let _ = child.stdin.take().expect("its input").write_all(input);
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().expect("it was not killed"), text(stdout), text(stderr))
}

fn ok(directory: &TempDir, command: &str, arguments: &[&str]) -> String {
    let (status, out, err) = run(directory, command, arguments, b"");
    assert_eq!(status, 0, "{command} {arguments:?}: {out}{err}");
    out
}

/// A map with three keys, one of them overwritten, and one key deleted.
fn filled(kind: &str) -> TempDir {
    let directory = directory();
    ok(&directory, "create", &["m", "--bytes", "1M", "--kind", kind, "--emulate"]);
    for (key, value) in [("b", "two"), ("a", "one"), ("gone", "x"), ("b\\\n", ""), ("b", "zwei")] {
        ok(&directory, "put", &["m", key, value, "--emulate"]);
    }
    ok(&directory, "remove", &["m", "gone", "--emulate"]);
    directory
}

const KINDS: [&str; 2] = ["list", "btree"];

#[test]
fn what_is_put_is_found() {
    for kind in KINDS {
        let map = filled(kind);
        assert_eq!(ok(&map, "get", &["m", "b"]), "zwei");
        assert_eq!(ok(&map, "get", &["m", "-x", "62"]), "7a776569\n");
        assert_eq!(ok(&map, "get", &["m", "b\\\n"]), "");
        assert_eq!(ok(&map, "scan", &["m"]), "a\tone\nb\tzwei\nb\\\\\\0a\t\n");
        assert_eq!(ok(&map, "scan", &["m", "-x", "--from", "62", "--limit", "1"]), "62\t7a776569\n");
        assert_eq!(ok(&map, "scan", &["m", "--to", "b"]), "a\tone\n");
        assert_eq!(ok(&map, "scan", &["m", "--prefix", "b\\"]), "b\\\\\\0a\t\n");
        for key in ["gone", "none"] {
            let (status, out, err) = run(&map, "get", &["m", key], b"");
            assert_eq!((status, out.as_str()), (3, ""));
            assert!(err.contains(&format!("\"{key}\" has no value")), "{err}");
            assert_eq!(run(&map, "remove", &["m", key, "--emulate"], b"").0, 3);
        }
        let (status, _, err) = run(&map, "get", &["m", "b", "--at", "1"], b"");
        assert_eq!(status, 2, "old versions are forgotten: {err}");
    }
}

#[test]
fn info_and_check_tell_the_state() {
    for kind in KINDS {
        let map = filled(kind);
        let info = ok(&map, "info", &["m"]);
        for part in
            [&format!("map m: {kind}, 1048576 bytes"), "keys: 3 with a value, 5 bytes of keys, 7 bytes", "last 6"]
        {
            assert!(info.contains(part), "{part:?} is not in {info}");
        }
        assert!(ok(&map, "check", &["m"]).trim_end().ends_with("the map is sound"));
    }
}

#[test]
fn a_dump_is_loaded_again_by_either_kind() {
    for kind in KINDS {
        let source = filled(kind);
        for (printable, format) in [(false, "bytevalue"), (true, "print")] {
            let arguments = if printable { &["m", "-p"][..] } else { &["m"] };
            let dump = ok(&source, "dump", arguments);
            let head = format!("VERSION=3\nformat={format}\ntype=btree\nmapsize=1048576\n");
            assert!(dump.starts_with(&head) && dump.ends_with("DATA=END\n"), "{dump}");
            assert!(dump.contains(if printable { "\n b\\\\\\0a\n \n" } else { "\n 625c0a\n \n" }), "{dump}");
            let (status, _, err) = run(&source, "load", &["copy", "--emulate"], dump.as_bytes());
            assert_eq!((status, err.as_str()), (0, "3 pairs loaded\n"));
            assert_eq!(ok(&source, "dump", &["copy"]), ok(&source, "dump", &["m"]));
            let other = if kind == "list" { "btree" } else { "list" };
            let (status, _, err) = run(&source, "load", &["other", "--kind", other, "--emulate"], dump.as_bytes());
            assert_eq!(status, 0, "{err}");
            assert!(ok(&source, "info", &["other"]).contains(&format!("map other: {other}")));
            assert_eq!(ok(&source, "scan", &["other"]), ok(&source, "scan", &["m"]));
            for name in ["copy", "other"] {
                std::fs::remove_file(source.path().join(name)).expect("removed");
            }
        }
    }
}

#[test]
fn files_and_bare_lines_are_loaded_too() {
    let map = filled("btree");
    let file = map.path().join("Dump of m");
    let path = file.to_str().expect("text");
    ok(&map, "dump", &["m", "-p", "-f", path]);
    let (status, _, err) = run(&map, "load", &["m", "-N", "-f", path, "--emulate"], b"");
    assert_eq!((status, err.as_str()), (0, "0 pairs loaded, 3 were there already\n"));
    let (status, _, err) = run(&map, "load", &["m", "-T", "--emulate"], b"new\nn\\00ew\nb\nzwo");
    assert_eq!((status, err.as_str()), (0, "2 pairs loaded\n"));
    assert_eq!(ok(&map, "scan", &["m", "--from", "b"]), "b\tzwo\nb\\\\\\0a\t\nnew\tn\\00ew\n");
}

#[test]
fn what_is_no_dump_is_refused_with_its_line() {
    let map = filled("list");
    let head = "VERSION=3\nformat=print\ntype=btree\nHEADER=END\n";
    let cases: [(&str, &str); 11] = [
        ("", "line 0: the header does not end"),
        ("a\nb\n", "line 1: this is no dump"),
        ("VERSION=2\n", "line 1"),
        ("VERSION=3\ntype=queue\n", "line 2: type=queue"),
        ("VERSION=3\nformat=xml\n", "line 2: format=xml"),
        ("VERSION=3\ndupsort=1\n", "several values"),
        (&format!("{head} a\n 1\n b\n"), "line 7: the last key has no value; the 1 pairs before it are loaded"),
        (&format!("{head} a\n 1\n"), "the dump is cut off"),
        (&format!("{head} a\n1\nDATA=END\n"), "line 6: not a key or value"),
        (&format!("{head} a\\0\n 1\nDATA=END\n"), "line 5: not a key or value"),
        (&format!("{head}DATA=END\nVERSION=3\n"), "one database at a time"),
    ]
    .map(|(text, message)| (Box::leak(text.to_owned().into_boxed_str()) as &str, message));
    for (text, message) in cases {
        let (status, out, err) = run(&map, "load", &["m", "--emulate"], text.as_bytes());
        assert_eq!((status, out.as_str()), (2, ""), "{text}");
        assert!(err.starts_with("perdura: line ") && err.contains(message), "{text:?}: {err}");
    }
    let (status, _, err) = run(&map, "load", &["new", "--emulate"], format!("{head}DATA=END\n").as_bytes());
    assert_eq!(status, 2);
    assert!(err.contains("use --bytes"), "{err}");
}

#[test]
fn a_full_map_says_so_and_keeps_what_it_has() {
    let map = filled("btree");
    let mut text = String::new();
    for number in 0..100 {
        text += &format!("key{number}\n{}\n", "v".repeat(40_000));
    }
    let (status, _, err) = run(&map, "load", &["m", "-T", "--emulate"], text.as_bytes());
    assert_eq!(status, 2, "{err}");
    assert!(err.contains("key \"key") && err.contains("pairs before it are loaded"), "{err}");
    assert_eq!(ok(&map, "get", &["m", "a"]), "one");
    assert_eq!(ok(&map, "get", &["m", "key0"]).len(), 40_000);
    ok(&map, "check", &["m"]);
}

#[test]
fn versions_are_read_at_their_timestamp() {
    let directory = filled("btree");
    let medium: Arc<dyn Medium> = Arc::new(
        FileMedium::open(directory.path(), Options { emulate: true, ..Options::default() }).expect("a medium"),
    );
    let map = open(&medium, "m", &Config { background: false, ..Config::default() }).expect("the map");
    let last = map.timestamps().last;
    map.set(last + 1, b"a", b"uno").expect("room");
    map.set(last + 2, b"a", b"eins").expect("room");
    map.persist().expect("a medium that works");
    drop((map, medium));
    assert_eq!(ok(&directory, "get", &["m", "a"]), "eins");
    for (at, value) in [(last, "one"), (last + 1, "uno"), (last + 2, "eins"), (Ts::MAX, "eins")] {
        let at = at.to_string();
        assert_eq!(ok(&directory, "get", &["m", "a", "--at", &at]), value);
        assert!(ok(&directory, "scan", &["m", "--at", &at]).starts_with(&format!("a\t{value}\n")));
        assert!(ok(&directory, "dump", &["m", "-p", "--at", &at]).contains(&format!(" a\n {value}\n")));
    }
}

#[test]
fn a_batch_is_made_whole_or_not_at_all() {
    for kind in KINDS {
        let map = filled(kind);
        let lines = b"set\ta\tuno\ndelete\tb\nset\tn\\09\tnine\n";
        let (status, out, err) = run(&map, "batch", &["m", "--tag", "term 1", "--emulate"], lines);
        assert_eq!((status, out.as_str(), err.as_str()), (0, "", ""));
        assert_eq!(ok(&map, "scan", &["m"]), "a\tuno\nb\\\\\\0a\t\nn\\09\tnine\n");
        assert!(ok(&map, "info", &["m"]).contains("newest forgotten tag: \"term 1\" at 7"));
        for wrong in ["set\ta\t1\nput\ta\t2", "set\ta", "delete\ta\t1", "set\ta\t1\t2", "set\ta\t\\x"] {
            let (status, _, err) = run(&map, "batch", &["m", "--emulate"], wrong.as_bytes());
            assert_eq!(status, 2, "{wrong:?}");
            assert!(err.contains("line "), "{err}");
        }
        let large = format!("set\ta\t1\nset\tlarge\t{}\n", "v".repeat(2 << 20));
        assert_eq!(run(&map, "batch", &["m", "--emulate"], large.as_bytes()).0, 2, "there is no room for it");
        assert_eq!(ok(&map, "get", &["m", "a"]), "uno");
        let (status, _, err) = run(&map, "batch", &["m", "-x", "--emulate"], b"set\t61\t31\n");
        assert_eq!((status, err.as_str(), ok(&map, "get", &["m", "a"]).as_str()), (0, "", "1"));
    }
}

#[test]
fn changes_tags_and_the_meta_blob_are_shown() {
    for kind in KINDS {
        let directory = filled(kind);
        ok(&directory, "set-meta", &["m", "vote 7", "--emulate"]);
        assert_eq!(ok(&directory, "meta", &["m"]), "vote 7");
        assert_eq!(ok(&directory, "meta", &["m", "-x"]), "766f74652037\n");
        assert_eq!(ok(&directory, "mutations", &["m"]), "", "what is put is forgotten");
        let options = Options { emulate: true, ..Options::default() };
        let medium: Arc<dyn Medium> = Arc::new(FileMedium::open(directory.path(), options).expect("a medium"));
        let map = open(&medium, "m", &Config { background: false, ..Config::default() }).expect("the map");
        let change = |key, value| KeyChange { key, value };
        map.batch(7, b"one", &[change(&b"a"[..], Some(&b"x\t"[..])), change(b"b", None)]).expect("room");
        map.advance(9, b"two").expect("room");
        map.persist().expect("a medium that works");
        drop((map, medium));
        let all = "7\ttag\tone\n7\tset\ta\tx\\09\n7\tdelete\tb\n9\ttag\ttwo\n";
        assert_eq!(ok(&directory, "mutations", &["m"]), all);
        assert_eq!(ok(&directory, "mutations", &["m", "-x", "--from", "8"]), "9\ttag\t74776f\n");
        ok(&directory, "rollback", &["m", "9", "--emulate"]);
        ok(&directory, "apply", &["m", "7", "--emulate"]);
        assert_eq!(run(&directory, "rollback", &["m", "7", "--emulate"], b"").0, 2, "it is applied");
        assert_eq!(run(&directory, "forget", &["m", "8", "--emulate"], b"").0, 2, "it is not applied");
        assert_eq!(run(&directory, "apply", &["m", "last", "--emulate"], b"").0, 2, "no timestamp");
        assert_eq!(ok(&directory, "mutations", &["m", "--from", "8"]), "");
        assert_eq!(ok(&directory, "get", &["m", "a"]), "x\t");
        ok(&directory, "forget", &["m", "7", "--emulate"]);
        assert_eq!(ok(&directory, "mutations", &["m"]), "");
    }
}

#[test]
fn a_map_that_a_load_has_emptied_says_so() {
    for kind in KINDS {
        let directory = filled(kind);
        let options = Options { emulate: true, ..Options::default() };
        let medium: Arc<dyn Medium> = Arc::new(FileMedium::open(directory.path(), options).expect("a medium"));
        let map = open(&medium, "m", &Config { background: false, ..Config::default() }).expect("the map");
        drop(map.reset_and_load().expect("nothing is held"));
        drop((map, medium));
        assert!(ok(&directory, "info", &["m"]).contains("emptied for a load"));
        let (status, _, err) = run(&directory, "get", &["m", "a"], b"");
        assert_eq!(status, 2);
        assert!(err.contains("load a snapshot"), "{err}");
    }
}

#[test]
fn damage_is_found_and_named() {
    for kind in KINDS {
        let map = filled(kind);
        let path = map.path().join("m");
        let bytes = std::fs::read(&path).expect("the map's file");
        let at = bytes.windows(4).position(|window| window == b"zwei").expect("the value") as u64;
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("the file");
        file.write_all_at(b"drei", at).expect("written");
        let (status, out, err) = run(&map, "check", &["m"], b"");
        assert_eq!((status, out.as_str()), (1, ""), "{kind}: {err}");
        assert!(err.contains("m at offset") && err.contains("restore"), "{err}");
    }
}

#[test]
fn what_cannot_be_opened_is_refused() {
    let directory = filled("list");
    std::fs::write(directory.path().join("other"), vec![7; 70_000]).expect("written");
    std::fs::write(directory.path().join("empty"), b"").expect("written");
    for (name, status) in [("none", 2), ("other", 2), ("empty", 2), ("Wrong Name", 2), ("../m", 2)] {
        let (found, out, err) = run(&directory, "info", &[name], b"");
        assert_eq!((found, out.as_str()), (status, ""), "{name}: {err}");
        assert!(err.starts_with("perdura: ") && err.contains(name), "{name}: {err}");
    }
    let (status, _, err) = run(&directory, "create", &["m", "--bytes", "1M", "--emulate"], b"");
    assert_eq!(status, 2);
    assert!(err.contains("exists"), "{err}");
    for wrong in [&["n", "--bytes", "1K"][..], &["n", "--bytes", "1M", "--page-bytes", "1000"]] {
        let (status, _, err) = run(&directory, "create", &[wrong, &["--emulate"]].concat(), b"");
        assert_eq!(status, 2, "{wrong:?}: {err}");
        assert!(!directory.path().join("n").exists(), "{wrong:?} left a file");
    }
    let options = Options { emulate: true, ..Options::default() };
    let held = FileMedium::open(directory.path(), options).expect("a medium");
    let (status, _, err) = run(&directory, "get", &["m", "a"], b"");
    assert_eq!(status, 2);
    assert!(err.contains("in use"), "{err}");
    drop(held);
}

#[test]
fn changes_on_ordinary_memory_want_a_word() {
    let map = filled("list");
    let (status, _, err) = run(&map, "put", &["m", "a", "changed"], b"");
    // On persistent memory there is nothing to emulate.
    if status != 0 {
        assert!(err.contains("--emulate"), "{err}");
        assert_eq!(ok(&map, "get", &["m", "a"]), "one");
    }
}

#[test]
fn wrong_commands_are_answered_with_the_usage() {
    let cases: [&[&str]; 14] = [
        &[],
        &["lok"],
        &["get"],
        &["get", "."],
        &["get", ".", "m"],
        &["get", ".", "m", "key", "more"],
        &["get", ".", "m", "key", "--limit", "1"],
        &["get", ".", "m", "key", "--at", "soon"],
        &["get", ".", "m", "key", "--at", "1", "--at", "2"],
        &["get", ".", "m", "-x", "key"],
        &["create", ".", "m"],
        &["create", ".", "m", "--bytes", "much"],
        &["create", ".", "m", "--bytes", "1M", "--kind", "heap"],
        &["scan", ".", "m", "--prefix", "a", "--from", "b"],
    ];
    for arguments in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_perdura")).arg("map").args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let err = String::from_utf8(output.stderr).expect("text");
        assert!(err.starts_with("perdura: ") && err.contains("usage: perdura map create"), "{arguments:?}: {err}");
    }
    for arguments in [&["--help"][..], &["-h"], &["get", "--help"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_perdura")).arg("map").args(arguments).output().expect("it runs");
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).expect("text").starts_with("usage: perdura map create"));
    }
}
