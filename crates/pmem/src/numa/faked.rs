//! A machine with faked nodes, processors and loads. Its threads are real ones, whose affinity is a
//! note; a processor that is offline has no line in `/proc/stat`, as on a real machine.

use super::cpus::Cpus;
use super::machine::{Machine, Source, ThreadId};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Time, in ticks, that [`Faked::pass`] lets pass.
const TICKS: u64 = 1000;

/// The machine. Clones are of the same one.
#[derive(Clone)]
pub(super) struct Faked(Arc<Mutex<State>>);

struct State {
    files: BTreeMap<String, String>,
    /// Of threads whose affinity is not that of the process.
    affinities: BTreeMap<ThreadId, Cpus>,
    process: Cpus,
    cpus: Cpus,
    offline: Cpus,
    /// Ticks of work and of idleness, by processor.
    ticks: BTreeMap<usize, (u64, u64)>,
    now: Duration,
}

impl Faked {
    /// A machine with these nodes: number, processors, distances.
    pub(super) fn new(nodes: &[(u32, &str, &str)]) -> Faked {
        let (mut files, mut cpus) = (BTreeMap::new(), Cpus::default());
        let directory = "/sys/devices/system/node";
        let online: Cpus = nodes.iter().map(|(number, ..)| *number as usize).collect();
        files.insert(format!("{directory}/online"), format!("{online}\n"));
        for (number, list, distances) in nodes {
            files.insert(format!("{directory}/node{number}/cpulist"), format!("{list}\n"));
            files.insert(format!("{directory}/node{number}/distance"), format!("{distances}\n"));
            Cpus::parse(list).expect("a list").iter().for_each(|cpu| cpus.add(cpu));
        }
        let ticks = cpus.iter().map(|cpu| (cpu, (0, 0))).collect();
        let state = State {
            files,
            affinities: BTreeMap::new(),
            process: cpus,
            cpus,
            offline: Cpus::default(),
            ticks,
            now: Duration::from_secs(1),
        };
        Faked(Arc::new(Mutex::new(state)))
    }

    /// Two nodes of four processors.
    pub(super) fn two() -> Faked {
        Faked::new(&[(0, "0-3", "10 21"), (1, "4-7", "21 10")])
    }

    pub(super) fn machine(&self) -> Machine {
        Machine::faked(self.clone()).expect("this is a test")
    }

    pub(super) fn write(&self, path: &str, content: &str) {
        self.0.lock().files.insert(path.to_owned(), content.to_owned());
    }

    pub(super) fn remove(&self, path: &str) {
        self.0.lock().files.remove(path);
    }

    /// Lets all threads run on these processors only, as a cgroup does.
    pub(super) fn allow(&self, cpus: &str) {
        self.0.lock().process = Cpus::parse(cpus).expect("a list");
    }

    /// Sets the affinity of the calling thread, as somebody from outside does.
    pub(super) fn set(&self, cpus: &str) {
        let thread = self.thread();
        self.set_affinity(thread, &Cpus::parse(cpus).expect("a list")).expect("some are online");
    }

    /// Affinity of the calling thread.
    pub(super) fn mine(&self) -> String {
        self.affinity(self.thread()).expect("it has one").to_string()
    }

    /// Takes these processors offline, all others online. A thread that is left with none may run
    /// everywhere, as the kernel has it.
    pub(super) fn unplug(&self, cpus: &str) {
        let mut state = self.0.lock();
        state.offline = Cpus::parse(cpus).expect("a list");
        let offline = state.offline;
        let process = state.process;
        for affinity in state.affinities.values_mut().filter(|affinity| affinity.without(&offline).is_empty()) {
            *affinity = process;
        }
    }

    /// Lets 200 ms pass, in which processors work to these shares of 1000.
    pub(super) fn pass(&self, loads: &[(&str, u64)]) {
        let mut state = self.0.lock();
        state.now += Duration::from_millis(200);
        for (list, load) in loads {
            for cpu in Cpus::parse(list).expect("a list").iter() {
                let ticks = state.ticks.get_mut(&cpu).expect("it is there");
                *ticks = (ticks.0 + TICKS * load / 1000, ticks.1 + TICKS - TICKS * load / 1000);
            }
        }
    }
}

impl Source for Faked {
    fn read(&self, path: &str) -> io::Result<String> {
        let state = self.0.lock();
        if let Some(content) = state.files.get(path) {
            return Ok(content.clone());
        }
        let online = state.cpus.without(&state.offline);
        match path {
            "/sys/devices/system/cpu/online" => Ok(format!("{online}\n")),
            "/proc/stat" => {
                let mut text = "cpu  1 1 1 1 1 1 1 1 0 0\n".to_owned();
                for (cpu, (work, idle)) in state.ticks.iter().filter(|(cpu, _)| online.has(**cpu)) {
                    writeln!(text, "cpu{cpu} {work} 0 0 {idle} 0 0 0 0 0 0").expect("to a string");
                }
                Ok(text + "intr 17 0 0\n")
            }
            _ => Err(Errno::NOENT.into()),
        }
    }

    fn node_of_page(&self, _address: *const u8) -> Option<u32> {
        None
    }

    fn affinity(&self, thread: ThreadId) -> io::Result<Cpus> {
        let state = self.0.lock();
        Ok(state.affinities.get(&thread).unwrap_or(&state.process).without(&state.offline))
    }

    fn set_affinity(&self, thread: ThreadId, cpus: &Cpus) -> io::Result<()> {
        let mut state = self.0.lock();
        let allowed = cpus.and(&state.process);
        if allowed.without(&state.offline).is_empty() {
            return Err(Errno::INVAL.into());
        }
        state.affinities.insert(thread, allowed);
        Ok(())
    }

    fn now(&self) -> Duration {
        self.0.lock().now
    }
}
