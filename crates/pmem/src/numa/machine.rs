//! The machine as the placement of threads sees it: a source of what the kernel tells about nodes,
//! processors and threads, and the calls that move a thread. Tests bring a source of their own.

use super::cpus::Cpus;
use crate::error::{Error, Result};
use rustix::thread::{Pid, gettid, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Number of a thread, as the system has it.
pub type ThreadId = i32;

/// Source of what is known of a machine. The provided methods are those of the real one.
pub trait Source: Send + Sync + 'static {
    /// Content of a file of the kernel, by its whole path.
    fn read(&self, path: &str) -> io::Result<String>;

    /// NUMA node of the page at an address of this process, if the page is mapped.
    fn node_of_page(&self, address: *const u8) -> Option<u32>;

    /// The calling thread.
    fn thread(&self) -> ThreadId {
        gettid().as_raw_nonzero().get()
    }

    /// Processors on which a thread may run.
    fn affinity(&self, thread: ThreadId) -> io::Result<Cpus> {
        Ok(Cpus::of_system(&sched_getaffinity(Some(pid(thread)?))?))
    }

    /// Lets a thread run on these processors only.
    fn set_affinity(&self, thread: ThreadId, cpus: &Cpus) -> io::Result<()> {
        Ok(sched_setaffinity(Some(pid(thread)?), &cpus.to_system())?)
    }

    /// A clock that does not go back.
    fn now(&self) -> Duration {
        Duration::try_from(clock_gettime(ClockId::MonotonicCoarse)).unwrap_or_default()
    }
}

fn pid(thread: ThreadId) -> io::Result<Pid> {
    // 0 is the calling thread to the system.
    if thread > 0 { Pid::from_raw(thread) } else { None }.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// A machine. Clones are of the same one.
#[derive(Clone)]
pub struct Machine(Arc<dyn Source>);

impl Machine {
    /// The machine on which the process runs.
    pub fn real() -> Machine {
        Machine(Arc::new(Real))
    }

    /// A machine of which `source` tells; for tests.
    ///
    /// # Errors
    /// Unsupported, unless this crate was built with the feature `faked`: threads of a real program
    /// would be pinned to nodes that are not there.
    pub fn faked(source: impl Source) -> Result<Machine> {
        if !cfg!(any(test, feature = "faked")) {
            let seen = "a faked topology, for tests alone: build with the feature `faked` of perdura-pmem, or take the \
                        real machine";
            return Err(Error::unsupported("NUMA", seen));
        }
        Ok(Machine(Arc::new(source)))
    }
}

impl Default for Machine {
    fn default() -> Machine {
        Machine::real()
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Machine")
    }
}

impl std::ops::Deref for Machine {
    type Target = dyn Source;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// The machine on which the process runs.
struct Real;

impl Source for Real {
    fn read(&self, path: &str) -> io::Result<String> {
        std::fs::read_to_string(path)
    }

    fn node_of_page(&self, address: *const u8) -> Option<u32> {
        let pages = [address.cast::<libc::c_void>()];
        let mut status = [-1i32];
        // SAFETY: without a list of nodes the call moves nothing: it reads one address and writes
        // one status.
        let asked = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                pages.len(),
                pages.as_ptr(),
                std::ptr::null::<i32>(),
                status.as_mut_ptr(),
                0,
            )
        };
        if asked == 0 { u32::try_from(status[0]).ok() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_machine_tells_of_this_thread_and_of_its_pages() {
        let machine = Machine::real();
        let allowed = machine.affinity(machine.thread()).expect("a thread runs somewhere");
        assert!(!allowed.is_empty());
        machine.set_affinity(machine.thread(), &allowed).expect("it may stay where it is");
        assert!(machine.affinity(-1).is_err() && machine.affinity(0).is_err());
        assert!(machine.now() > Duration::ZERO);
        let byte = Box::new(7u8);
        if let (Some(node), Ok(online)) =
            (machine.node_of_page(&*byte), machine.read("/sys/devices/system/node/online"))
        {
            assert!(Cpus::parse(&online).expect("a list").has(node as usize), "node {node} of {online}");
        }
        assert_eq!(machine.node_of_page(std::ptr::null()), None, "no page is there");
    }
}
