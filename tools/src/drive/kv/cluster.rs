//! Clusters of perdura-kv, each replica a process with a directory of its own, on loopback.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::resp::Client;
use crate::shared::ports::free_port;
use crate::shared::{paths, process};

/// How long a replica may take for anything.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);

/// How replicas are set up.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The store: list, btree or wal.
    pub store: String,
    /// Size of a map's file.
    pub size: String,
    /// More lines of the configuration.
    pub more: String,
}

/// Where a replica's process runs.
#[derive(Clone, Debug)]
pub struct Home {
    /// Its address.
    pub address: Ipv4Addr,
    /// The ports of clients, replicas and browsers.
    pub ports: [u16; 3],
    /// The words before the program's: what brings it there.
    pub before: Vec<String>,
    /// Variables of its environment besides the usual ones.
    pub environment: Vec<(&'static str, String)>,
    /// The program, if not the one that was built.
    pub program: Option<PathBuf>,
}

/// A replica: its directory, and its process if it runs.
pub struct Replica {
    place: PathBuf,
    /// Where its process runs.
    pub home: Home,
    process: Option<Child>,
}

/// A cluster. Its processes and directories go with it.
pub struct Cluster {
    top: PathBuf,
    /// The replicas. The first was founded, the others joined it.
    pub replicas: Vec<Replica>,
}

/// The program, as `cargo build --release` makes it.
fn program() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| paths::top().join("target"), PathBuf::from);
    target.join("release/perdura-kv")
}

/// Builds the program.
pub fn build() -> Result<()> {
    process::cargo_build_release("perdura-kv")
}

/// Names a directory for what this process runs, and removes those of runs that were ended before
/// they could do so. What they ran has ended with them.
pub fn directory(place: &Path, name: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(place).with_context(|| place.display().to_string())?;
    for entry in std::fs::read_dir(place)? {
        let (entry, is_alive) = (entry?, |pid: u32| Path::new(&format!("/proc/{pid}")).exists());
        let pid =
            entry.file_name().to_str().and_then(|found| found.strip_prefix(name)?.strip_prefix('-')?.parse().ok());
        if pid.is_some_and(|pid| !is_alive(pid)) {
            std::fs::remove_dir_all(entry.path()).with_context(|| entry.path().display().to_string())?;
        }
    }
    Ok(place.join(format!("{name}-{}", std::process::id())))
}

/// A command that runs another one, which ends with the thread that has started it, however that
/// ends.
pub fn ending_with_us() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]);
    command
}

/// Waits until `look` finds something.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        ensure!(begun.elapsed() < PATIENCE, "{what} has not come in {} s", PATIENCE.as_secs());
        std::thread::sleep(PAUSE);
    }
}

impl Home {
    /// On loopback, at ports that nobody uses.
    pub fn loopback() -> Result<Self> {
        Ok(Self {
            address: Ipv4Addr::LOCALHOST,
            ports: [free_port()?, free_port()?, free_port()?],
            before: Vec::new(),
            environment: Vec::new(),
            program: None,
        })
    }
}

impl Replica {
    /// A replica in a new directory, without data.
    pub fn new(place: PathBuf, plan: &Plan, home: Home) -> Result<Self> {
        std::fs::create_dir(&place)?;
        let (address, ports) = (home.address, home.ports);
        let [clients, peers, http] = ports;
        let emulate = !process::is_dax(&place);
        let text = format!(
            "directory = '{}'\nstore.kind = '{}'\nstore.size = '{}'\nstore.emulate = {emulate}\n\
             clients.listen = ['{address}:{clients}']\npeers.listen = '{address}:{peers}'\nhttp.listen = '{address}:{http}'\n\
             clients.protected = false\npeers.protected = false\n{}\n",
            place.join("data").display(),
            plan.store,
            plan.size,
            plan.more
        );
        std::fs::write(place.join("config"), text)?;
        Ok(Self { place, home, process: None })
    }

    fn program(&self) -> PathBuf {
        self.home.program.clone().unwrap_or_else(program)
    }

    /// Runs a command on it, and returns what it has printed.
    pub fn command(&self, words: &[&str]) -> Result<String> {
        process::output(Command::new(self.program()).args(words).arg("--config").arg(self.place.join("config")))
    }

    /// The address for replicas.
    pub fn peers(&self) -> String {
        format!("{}:{}", self.home.address, self.home.ports[1])
    }

    /// The address for clients.
    pub fn clients(&self) -> SocketAddr {
        SocketAddr::from((self.home.address, self.home.ports[0]))
    }

    /// Its directory.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Starts the process. It ends with the thread that has started it, however that ends.
    pub fn start(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.place.join("log"))?;
        let mut command = ending_with_us();
        command.args(&self.home.before).arg(self.program());
        command.args(["serve", "--config"]).arg(self.place.join("config"));
        command.envs(self.home.environment.iter().map(|(name, value)| (name, value)));
        self.process = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?);
        Ok(())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Child::id)
    }

    /// Kills the process by SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let process = self.process.as_ref().context("the replica does not run")?;
        Ok(kill_process(Pid::from_child(process), signal)?)
    }

    /// Ends the process as operators do. It must end well.
    pub fn stop(&mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        let mut process = self.process.take().context("the replica does not run")?;
        let ended = wait_for("the end of a replica", || process.try_wait().transpose())??;
        ensure!(ended.success(), "{}: ended with {ended}", self.place.display());
        Ok(())
    }

    /// Whether it was started and not ended by us.
    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// Fails if its process has ended by itself.
    pub fn still_runs(&mut self) -> Result<()> {
        if let Some(ended) = self.process.as_mut().and_then(|process| process.try_wait().transpose()) {
            bail!("{}: ended by itself with {}", self.place.display(), ended?);
        }
        Ok(())
    }

    /// Removes its data. It must not run.
    pub fn wipe(&self) -> Result<()> {
        let data = self.place.join("data");
        if data.exists() {
            std::fs::remove_dir_all(&data).with_context(|| data.display().to_string())?;
        }
        Ok(())
    }

    /// How it stands, if it answers.
    pub fn state(&self) -> Option<Value> {
        self.process.as_ref()?;
        let mut command = Command::new(program());
        command.args(["status", "--json", "--config"]).arg(self.place.join("config"));
        serde_json::from_slice(&command.output().ok()?.stdout).ok()
    }

    /// A client of it.
    pub fn client(&self) -> std::io::Result<Client> {
        Client::connect_to(self.clients(), PATIENCE)
    }

    /// Waits until it is a voter that serves clients. Returns how it stands.
    pub fn votes(&self) -> Result<Value> {
        let votes = |state: &Value| {
            state["is_ready"] == true
                && state["role"].as_str().is_some_and(|role| ["leader", "follower"].contains(&role))
        };
        wait_for("a voter that is ready", || self.state().filter(votes)).with_context(|| {
            let log = std::fs::read_to_string(self.place.join("log")).unwrap_or_default();
            format!("the log of {}:\n{log}", self.place.display())
        })
    }
}

impl Cluster {
    /// Founds a cluster of `count` replicas, and waits until all vote.
    pub fn start(name: &str, count: usize, plan: &Plan) -> Result<Cluster> {
        Self::start_in(&paths::medium(), name, count, plan)
    }

    /// The same, with its directory in another one.
    pub fn start_in(place: &Path, name: &str, count: usize, plan: &Plan) -> Result<Cluster> {
        Self::found(place, name, count, plan, None)
    }

    /// Founds a cluster of `count` replicas that run another build of the program.
    pub fn start_build(program: &Path, name: &str, count: usize, plan: &Plan) -> Result<Cluster> {
        Self::found(&paths::medium(), name, count, plan, Some(program))
    }

    fn found(place: &Path, name: &str, count: usize, plan: &Plan, program: Option<&Path>) -> Result<Cluster> {
        let mut cluster = Cluster::new(directory(place, name)?)?;
        for _ in 0..count {
            cluster.add(plan, Home { program: program.map(Path::to_owned), ..Home::loopback()? })?;
        }
        cluster.all_vote()?;
        Ok(cluster)
    }

    /// CPU time of the replicas' processes so far, in steps of the kernel's clock (10 ms).
    pub fn cpu_time(&self) -> Result<Duration> {
        self.replicas.iter().filter(|replica| replica.runs()).map(|replica| process::cpu_time(replica.pid())).sum()
    }

    /// Waits until all that run vote.
    pub fn all_vote(&self) -> Result<()> {
        self.replicas.iter().filter(|replica| replica.runs()).try_for_each(|replica| replica.votes().map(drop))
    }

    /// A cluster without replicas, in a new directory.
    pub fn new(top: PathBuf) -> Result<Cluster> {
        std::fs::create_dir(&top).with_context(|| top.display().to_string())?;
        Ok(Cluster { top, replicas: Vec::new() })
    }

    /// Adds a replica: the first founds the cluster, each other joins the first.
    pub fn add(&mut self, plan: &Plan, home: Home) -> Result<()> {
        let mut replica = Replica::new(self.next_place(), plan, home)?;
        match self.replicas.first() {
            None => replica.command(&["init"])?,
            Some(first) => replica.command(&["join", "--to", &first.peers()])?,
        };
        replica.start()?;
        if self.replicas.is_empty() {
            replica.votes()?;
        }
        self.replicas.push(replica);
        Ok(())
    }

    /// Where the next replica's directory is made.
    pub fn next_place(&self) -> PathBuf {
        self.top.join((self.replicas.len() + 1).to_string())
    }

    /// The place of the leader, as one that runs says.
    pub fn leader(&self) -> Result<usize> {
        let leads = |replica: &Replica| replica.state().is_some_and(|state| state["role"] == "leader");
        wait_for("a leader", || self.replicas.iter().position(leads))
    }

    /// The leader's address for clients.
    pub fn leader_address(&self) -> Result<SocketAddr> {
        Ok(self.replicas[self.leader()?].clients())
    }

    /// The directory of all.
    pub fn place(&self) -> &Path {
        &self.top
    }

    /// Lets a wiped replica join under a new id, and waits until it votes.
    pub fn replace(&mut self, place: usize) -> Result<Value> {
        let other = self.leader()?;
        if other == place {
            bail!("the replica that is replaced leads");
        }
        let to = self.replicas[other].peers();
        let replica = &mut self.replicas[place];
        // While the leader takes the old one for alive it is not replaced.
        wait_for("the replica to join", || {
            replica.wipe().ok()?;
            replica.command(&["join", "--to", &to]).ok()
        })?;
        replica.start()?;
        replica.votes()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for replica in &mut self.replicas {
            // The directory cannot be used by anybody else, whatever becomes of it.
            let _ = replica.kill();
        }
        let _ = std::fs::remove_dir_all(&self.top);
    }
}
