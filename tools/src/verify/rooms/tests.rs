//! The hazards: the step overlooks a circle between files or a use of a room above; or it reports
//! one where there is none, and people learn to work around it.

use std::path::{Path, PathBuf};

use super::check_crate;
use super::order::Order;
use crate::paths;

/// A crate in a temporary directory, removed on drop.
struct Planted(PathBuf);

impl Planted {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let planted = Self(std::env::temp_dir().join(format!("perdura-rooms-{}-{name}", std::process::id())));
        planted.write(files);
        planted
    }

    fn write(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = self.0.join("src").join(path);
            std::fs::create_dir_all(path.parent().expect("below src")).expect("the directory can be made");
            std::fs::write(path, text).expect("the file can be written");
        }
    }

    fn check(&self, order: Option<&Order>) -> Vec<String> {
        check_crate(&self.0, &self.0.join("src/lib.rs"), order).expect("the sources can be read")
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        // On failure the files stay in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The only message, which must name both files.
fn only(messages: Vec<String>, files: [&str; 2]) -> String {
    let [message] = &messages[..] else { panic!("{messages:?}") };
    assert!(files.iter().all(|file| message.contains(file)), "{message}");
    message.clone()
}

#[test]
fn a_circle_of_two_files_is_refused_by_name() {
    let a = "use crate::b::B;\npub struct A(B);\n";
    let b = "pub struct B;\npub fn b() {\n    let _: Option<super::a::A> = None;\n}\n";
    let planted = Planted::new("two", &[("lib.rs", "mod a;\nmod b;\n"), ("a.rs", a), ("b.rs", b)]);
    let message = only(planted.check(None), ["src/a.rs:1", "src/b.rs:3"]);
    assert!(message.contains("names super::a::A"), "{message}");
}

/// Every way of naming an item closes the circle that `a` begins.
#[test]
fn however_a_file_is_named_it_counts() {
    let ways = [
        "fn f() -> usize { crate::a::A }",
        "use crate::a;\nfn f() -> usize { a::A }",
        "use crate::a as other;\nfn f() -> usize { other::A }",
        "use super::*;\nfn f() -> usize { a::A }",
        "use crate::a::*;\nfn f() -> usize { A }",
        "use crate::A;\nfn f() -> usize { A }",
        "use crate::{a::{A as Other}};",
        "fn f() -> usize { use crate::a; a::A }",
        "fn f() { assert!(crate::a::A == 1, \"{}\", crate::a::A) }",
        "fn f() { made!({ inner { crate::a::A } }) }",
        "pub(crate) use crate::a::A as Again;",
        "fn f(x: &dyn crate::a::T) {}",
        "impl crate::a::T for u8 {}",
        "mod inner { fn f() -> usize { crate::a::A } }",
        "mod inner { use super::super::a::A; }",
        "fn f() { noted!(1) }",
        "fn f() { crate::a::LOCAL.with(|_| ()) }",
    ];
    let a = "use crate::b;\npub const A: usize = 1;\npub trait T {}\nmacro_rules! noted { ($x:expr) => { $x }; }\n\
             thread_local! { pub static LOCAL: u8 = 0; }\npub fn f() { b::g() }\n";
    for way in ways {
        let b = format!("{way}\npub fn g() {{}}\n");
        let lib = "#[macro_use]\nmod a;\nmod b;\npub use a::A;\n";
        let planted = Planted::new("ways", &[("lib.rs", lib), ("a.rs", a), ("b.rs", &b)]);
        let messages = planted.check(None);
        assert!(messages.iter().any(|message| message.contains("src/a.rs") && message.contains("src/b.rs")), "{way}");
    }
}

/// A circle through a folder: its root uses a file in it, and that file uses an item of the root.
#[test]
fn a_folder_and_its_root_can_form_a_circle() {
    let root = "mod leaf;\npub struct Root(leaf::Leaf);\n";
    let leaf = "use super::Root;\npub struct Leaf;\nfn f(_: Root) {}\n";
    let planted = Planted::new("folder", &[("lib.rs", "mod room;\n"), ("room.rs", root), ("room/leaf.rs", leaf)]);
    only(planted.check(None), ["src/room.rs", "src/room/leaf.rs"]);
}

/// Declaring and re-exporting, tests, comments, methods and the names of other crates are no uses.
#[test]
fn what_is_no_circle_is_accepted() {
    let lib = "//! See crate::a.\nmod a;\nmod b;\nmod room;\npub use b::B;\npub use room::Leaf;\n";
    let a = "use crate::B;\nuse std::sync::Arc as b;\npub struct A(B, b<u8>);\nimpl A { pub fn go(&self) {} }\n";
    let b = "/// As crate::a::A.\npub struct B;\npub fn go(a: impl Fn()) { a() }\n#[cfg(test)]\nmod tests {\n    \
             use crate::a::A;\n}\n#[cfg(all(test, loom))]\nfn of_tests() -> crate::a::A { todo() }\n";
    let room = "mod leaf;\nmod other;\npub use leaf::Leaf;\n";
    let other = "use super::Leaf;\npub struct Other(Leaf);\n";
    let files = [("lib.rs", lib), ("a.rs", a), ("b.rs", b), ("room.rs", room), ("room/leaf.rs", "pub struct Leaf;\n")];
    let planted = Planted::new("sound", &files);
    planted.write(&[("room/other.rs", other)]);
    assert_eq!(planted.check(None), Vec::<String>::new());
}

const ORDER: Order = Order { package: "planted", storeys: &["top", "left right", "leaf"] };

fn storeys(name: &str, leaf: &str, more: &[(&str, &str)]) -> Vec<String> {
    let lib = "mod top;\nmod left;\nmod right;\nmod leaf;\n";
    let files = [
        ("lib.rs", lib),
        ("top.rs", "mod part;\nuse crate::left;\npub struct Top(left::Left);\n"),
        ("top/part.rs", "use crate::leaf::Leaf;\npub struct Part(Leaf);\n"),
        ("left.rs", "use crate::right::Right;\npub struct Left(Right);\n"),
        ("right.rs", "use crate::leaf::Leaf;\npub struct Right(Leaf);\n"),
        ("leaf.rs", leaf),
    ];
    let planted = Planted::new(name, &files);
    planted.write(more);
    planted.check(Some(&ORDER))
}

#[test]
fn rooms_below_and_beside_may_be_used() {
    assert_eq!(storeys("order", "pub struct Leaf;\n", &[]), Vec::<String>::new());
}

#[test]
fn a_use_upward_is_refused_by_name() {
    let leaf = "pub struct Leaf;\nfn up(_: &crate::top::part::Nothing) {}\n";
    let more = [("top/part.rs", "pub struct Nothing;\n"), ("top.rs", "pub mod part;\n")];
    let message = only(storeys("upward", leaf, &more), ["src/leaf.rs:2", "src/top/part.rs"]);
    assert!(message.contains("top is above leaf"), "{message}");
}

#[test]
fn a_use_of_the_root_is_refused() {
    let more = [("lib.rs", "mod top;\nmod left;\nmod right;\nmod leaf;\npub struct Root;\n")];
    only(storeys("root", "pub struct Leaf(crate::Root);\n", &more), ["src/leaf.rs:1", "src/lib.rs"]);
}

#[test]
fn an_unknown_room_and_one_that_is_gone_are_named() {
    let more = [("lib.rs", "mod top;\nmod left;\nmod leaf;\nmod cellar;\n"), ("left.rs", ""), ("cellar.rs", "")];
    let messages = storeys("unknown", "pub struct Leaf;\n", &more);
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages.iter().any(|message| message.contains("module cellar has no place")), "{messages:?}");
    assert!(messages.iter().any(|message| message.contains("a place for right")), "{messages:?}");
}

/// The same in real sources: a copy of the log's, whose errors file names the log.
#[test]
fn a_circle_planted_into_a_real_crate_is_refused() {
    let sources = paths::top().join("crates/log/src");
    let texts = read_all(&sources);
    let files: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (&**name, &**text)).collect();
    let planted = Planted::new("real", &files);
    assert_eq!(planted.check(None), Vec::<String>::new());
    let error = std::fs::read_to_string(sources.join("error.rs")).expect("the log has errors");
    planted.write(&[("error.rs", &format!("{error}\nfn planted(_: &crate::Log) {{}}\n"))]);
    only(planted.check(None), ["src/error.rs", "src/log.rs"]);
}

/// Names below `directory`, and texts.
fn read_all(directory: &Path) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the sources are there") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(directory).expect("below it").to_string_lossy().into_owned();
            texts.push((name, std::fs::read_to_string(&path).expect("a source is text")));
        }
    }
    texts
}
