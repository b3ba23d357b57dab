//! A replica's process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::ports::free_port;
use super::resp::{Client, Reply};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A replica: its configuration, and its process if it runs.
pub struct Replica {
    pub place: PathBuf,
    pub ports: [u16; 3],
    process: Option<Child>,
}

/// Waits until something is there.
#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_or_tell(what, look, String::new)
}

/// Waits until something is there. If it does not come, tells of the circumstances too.
#[track_caller]
fn wait_or_tell<T>(what: &str, mut look: impl FnMut() -> Option<T>, circumstances: impl Fn() -> String) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} does not come\n{}", circumstances());
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Replica {
    /// A replica in a new directory below `top`, of a store, with more lines in its configuration.
    pub fn new(top: &Path, name: &str, store: &str, more: &str) -> Self {
        let (place, ports) = (top.join(name), [(); 3].map(|()| free_port().expect("a port")));
        std::fs::create_dir(&place).expect("a directory");
        let [clients, peers, http] = ports;
        let text = format!(
            "directory = '{}'\nstore = {{ kind = '{store}', size = '64M', emulate = true }}\n\
             http = {{ listen = '127.0.0.1:{http}' }}\nclients.listen = ['127.0.0.1:{clients}']\n\
             peers.listen = '127.0.0.1:{peers}'\n{more}",
            place.join("data").display()
        );
        std::fs::write(place.join("config"), text).expect("a configuration");
        Self { place, ports, process: None }
    }

    pub fn config(&self) -> PathBuf {
        self.place.join("config")
    }

    pub fn data(&self) -> PathBuf {
        self.place.join("data")
    }

    pub fn peers(&self) -> String {
        format!("127.0.0.1:{}", self.ports[1])
    }

    /// Runs a command on it to the end.
    pub fn command(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perdura-kv"));
        command.args(words).arg("--config").arg(self.config());
        command.output().expect("the command runs")
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub fn done(&self, words: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.command(words);
        let (out, error) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{words:?}: {status}\n{out}{error}");
        out.into_owned()
    }

    /// Runs a command that must fail with a status. Returns what it complains of.
    #[track_caller]
    pub fn refused(&self, words: &[&str], status: i32) -> String {
        let output = self.command(words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {error}");
        error
    }

    /// Starts the process.
    pub fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.place.join("log")).expect("a log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_perdura-kv"));
        command.args(["serve", "--config"]).arg(self.config()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().expect("the process starts"));
    }

    /// Starts the process, whose files may have so many bytes each.
    pub fn start_with_files_of(&mut self, bytes: u64) {
        self.start_limited(&format!("-S -f {}", bytes / 512));
    }

    /// Starts the process, under a limit as `ulimit` takes it.
    pub fn start_limited(&mut self, limit: &str) {
        let log = File::options().create(true).append(true).open(self.place.join("log")).expect("a log");
        let mut command = Command::new("sh");
        let limited = format!("ulimit {limit} && exec \"$0\" \"$@\"");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_perdura-kv"), "serve", "--config"]).arg(self.config());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().expect("the process starts"));
    }

    /// Lets each file of the process have so many bytes from now on, or as many as it wants. What
    /// files have stays.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let process = self.process.as_ref().expect("it runs");
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(Pid::from_child(process)), Resource::Fsize, limit).expect("a limit");
    }

    /// Kills the process, without any warning.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it is killed");
            process.wait().expect("it ends");
        }
    }

    /// Tells the process to end, and waits for that.
    #[track_caller]
    pub fn stop(&mut self) {
        let mut process = self.process.take().expect("it runs");
        let pid = process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
        let status = wait_for("the end of the process", || process.try_wait().expect("a process"));
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// Waits for the process to end by itself, and returns its status.
    pub fn ended(&mut self) -> Option<i32> {
        let mut process = self.process.take().expect("it was started");
        wait_for("the end of the process", || process.try_wait().expect("a process")).code()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.place.join("log")).unwrap_or_default()
    }

    /// Waits until the log has a text.
    #[track_caller]
    pub fn logs(&self, text: &str) {
        wait_for(&format!("'{text}' in the log of {}", self.place.display()), || {
            self.log().contains(text).then_some(())
        });
    }

    /// How it stands, or none if it does not answer.
    pub fn state(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.command(&["status", "--json"]).stdout).ok()
    }

    pub fn id(&self) -> u64 {
        wait_for("the state of a replica", || self.state()?["replica"].as_u64())
    }

    pub fn client(&self) -> std::io::Result<Client> {
        Client::connect(self.ports[0])
    }

    /// Waits until it is a voter that can serve.
    #[track_caller]
    pub fn votes(&self) {
        let votes = || {
            let state = self.state()?;
            let role = state["role"].as_str()?;
            (state["is_ready"] == true && ["leader", "follower"].contains(&role)).then_some(())
        };
        wait_or_tell("a voter that is ready", votes, || {
            format!("{}\n{:?}\n{}", self.place.display(), self.state(), self.log())
        });
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Three replicas that run as one cluster. The first was founded.
pub fn cluster(top: &Path, store: &str, more: &str) -> Vec<Replica> {
    let mut replicas: Vec<Replica> = ["a", "b", "c"].map(|name| Replica::new(top, name, store, more)).into();
    replicas[0].done(&["init"]);
    replicas[0].start();
    replicas[0].votes();
    let first = replicas[0].peers();
    for replica in &mut replicas[1..] {
        replica.done(&["join", "--to", &first]);
        replica.start();
    }
    replicas.iter().for_each(Replica::votes);
    replicas
}

/// The leader's place, as the replicas that answer say it.
pub fn leader(replicas: &[Replica]) -> usize {
    wait_for("a leader", || {
        replicas.iter().position(|replica| replica.state().is_some_and(|state| state["role"] == "leader"))
    })
}

/// Sets a key at whichever replica takes it. Returns false if the outcome is not known.
pub fn set(replicas: &[Replica], at: &mut usize, key: &str, value: &str) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let Ok(mut client) = replicas[*at].client() else {
            *at = (*at + 1) % replicas.len();
            continue;
        };
        match client.call(&["SET", key, value]) {
            Ok(Reply::Text(text)) if text == "OK" => return true,
            Ok(Reply::Error(_)) => *at = (*at + 1) % replicas.len(),
            Ok(other) => panic!("SET {key}: {other:?}"),
            Err(_) => return false,
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("SET {key} is not taken");
}
