//! The README works as it is pasted.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use perdura_kv::config::Config;

/// The blocks of a language in the README, as it lies beside the sources.
fn blocks(language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).expect("README.md");
    let begin = format!("```{language}\n");
    let parts = text.split(&begin).skip(1);
    parts.map(|part| part.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// A directory in which a script has left the ids of its processes, which end with the test.
struct Left(PathBuf);

impl Drop for Left {
    fn drop(&mut self) {
        for name in ["1.pid", "2.pid", "3.pid"] {
            if let Ok(pid) = std::fs::read_to_string(self.0.join(name)) {
                let _ = Command::new("kill").args(["-KILL", pid.trim()]).status();
            }
        }
    }
}

/// Whether nobody listens at the ports that begin with these digits and end with 1 to 3.
fn are_free(digits: u16) -> bool {
    let listeners = (1..=3).map(|last| TcpListener::bind(("127.0.0.1", digits * 10 + last)));
    listeners.collect::<Result<Vec<_>, _>>().is_ok()
}

/// Three replicas from the start, pasted into a shell. Only the ports are others, for those may be
/// taken here.
#[test]
fn three_replicas_run_as_pasted() {
    let top = tempfile::tempdir().expect("a directory");
    let scripts = blocks("sh");
    assert_eq!(scripts.len(), 1);
    // Behind the ports that other tests give their servers.
    let first = 3000 + (std::process::id() % 150) as u16;
    let free: Vec<u16> = (first..3200).filter(|digits| are_free(*digits)).take(3).collect();
    let mut script = scripts[0].clone();
    for (old, new) in ["638", "738", "938"].iter().zip(&free) {
        script = script.replace(&format!("127.0.0.1:{old}"), &format!("127.0.0.1:{new}"));
    }
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_perdura-kv")).parent().expect("a directory");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let _left = Left(top.path().join("kv"));
    let file = |name: &str| File::create(top.path().join(name)).expect("a file");
    let mut bash = Command::new("timeout");
    bash.args(["60", "bash", "-e", "-c", &script]).current_dir(top.path()).env("PATH", path);
    // Processes that it leaves running have the files too, which a pipe would wait for.
    let status = bash.stdout(file("out")).stderr(file("error")).status().expect("bash runs");
    let read = |name: &str| std::fs::read_to_string(top.path().join(name)).unwrap_or_default();
    let (out, error) = (read("out"), read("error"));
    assert!(status.success(), "{out}{error}");
    let voters = out.lines().filter(|line| line.contains(" voter ") && line.contains("127.0.0.1"));
    assert_eq!(voters.count(), 2, "{out}");
    assert!(out.contains("leader in term"), "{out}");
}

#[test]
fn configurations_are_read_as_pasted() {
    let all = blocks("toml");
    assert_eq!(all.len(), 2);
    for text in all {
        Config::parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    }
}
