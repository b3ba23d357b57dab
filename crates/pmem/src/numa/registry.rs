//! The threads of a pool that were attached, in the order in which they came. A thread is in the
//! list until it ends; so there are no more than threads that live.

use super::cpus::Cpus;
use super::machine::Machine;
use super::thread::{Attachment, Condition, Thread};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// Part of the threads that are let go, or taken back, at a time.
const STEP: usize = 4;

/// The list.
pub(super) struct Registry {
    machine: Machine,
    home: Cpus,
    threads: Mutex<Vec<Arc<Thread>>>,
}

/// Numbers of threads by their condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    pub(super) pinned: u64,
    pub(super) let_go: u64,
    pub(super) elsewhere: u64,
}

impl Registry {
    pub(super) fn new(machine: Machine, home: Cpus) -> Registry {
        Registry { machine, home, threads: Mutex::new(Vec::new()) }
    }

    /// Attaches the calling thread. One that is about to end is attached no more.
    pub(super) fn attach(self: &Arc<Registry>) -> Attachment {
        let thread = HERE.try_with(|here| here.borrow_mut().thread_of(self));
        thread.map_or_else(|_| Attachment::default(), |thread| thread.attach())
    }

    /// Enters the calling thread. While others are let go, it is too.
    fn enter(&self) -> Arc<Thread> {
        let mut threads = self.threads.lock();
        let is_let_go = threads.iter().any(|thread| thread.is_let_go());
        let thread = Arc::new(Thread::this(&self.machine, self.home, is_let_go));
        threads.push(thread.clone());
        thread
    }

    fn forget(&self, thread: &Arc<Thread>) {
        self.threads.lock().retain(|one| !Arc::ptr_eq(one, thread));
    }

    /// Lets a part of the threads go, those that came last.
    pub(super) fn let_go(&self) {
        let threads = self.threads.lock();
        let pinned: Vec<_> = threads.iter().rev().filter(|thread| !thread.is_let_go()).collect();
        pinned.iter().take(pinned.len().div_ceil(STEP)).for_each(|thread| thread.set_let_go(true));
    }

    /// Takes a part of those back that were let go, the first that came.
    pub(super) fn take_back(&self) {
        let threads = self.threads.lock();
        let free: Vec<_> = threads.iter().filter(|thread| thread.is_let_go()).collect();
        free.iter().take(free.len().div_ceil(STEP)).for_each(|thread| thread.set_let_go(false));
    }

    pub(super) fn has_let_go(&self) -> bool {
        self.threads.lock().iter().any(|thread| thread.is_let_go())
    }

    /// Tries again to pin the threads that the system refused.
    pub(super) fn retry(&self) {
        let threads = self.threads.lock();
        let refused = threads.iter().filter(|thread| thread.condition() == Condition::Elsewhere);
        refused.for_each(|thread| thread.set_let_go(false));
    }

    pub(super) fn census(&self) -> Census {
        let mut census = Census::default();
        for thread in self.threads.lock().iter() {
            match thread.condition() {
                Condition::Detached => {}
                Condition::Pinned => census.pinned += 1,
                Condition::LetGo => census.let_go += 1,
                Condition::Elsewhere => census.elsewhere += 1,
            }
        }
        census
    }
}

thread_local! {
    static HERE: RefCell<Here> = const { RefCell::new(Here(Vec::new())) };
}

/// The calling thread in the lists of all pools that it has come to.
struct Here(Vec<(Weak<Registry>, Arc<Thread>)>);

impl Here {
    fn thread_of(&mut self, registry: &Arc<Registry>) -> Arc<Thread> {
        let is_it = |(known, _): &&(Weak<Registry>, _)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(registry));
        if let Some((_, thread)) = self.0.iter().find(is_it) {
            return thread.clone();
        }
        // A good moment to forget pools that were closed.
        self.0.retain(|(known, _)| known.strong_count() > 0);
        let thread = registry.enter();
        self.0.push((Arc::downgrade(registry), thread.clone()));
        thread
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        for (registry, thread) in &self.0 {
            thread.end();
            if let Some(registry) = registry.upgrade() {
                registry.forget(thread);
            }
        }
    }
}
