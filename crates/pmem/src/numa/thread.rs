//! A thread of a pool, and whether it is pinned. The thread has the affinity back that it had
//! before as soon as nothing of it is attached any more.

use super::cpus::Cpus;
use super::machine::{Machine, ThreadId};
use parking_lot::Mutex;
use std::sync::Arc;

/// File of the kernel with the processors that are online.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// A thread that was attached at least once, until it ends.
pub(super) struct Thread {
    machine: Machine,
    id: ThreadId,
    /// Processors of the node.
    home: Cpus,
    state: Mutex<State>,
}

struct State {
    /// The thread's number is its own until the thread has ended.
    has_ended: bool,
    attached: u32,
    is_let_go: bool,
    pin: Option<Pin>,
}

/// A pin in force.
struct Pin {
    before: Cpus,
    set: Cpus,
}

/// Condition of a thread, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// Nothing of it is attached.
    Detached,
    Pinned,
    LetGo,
    /// It may not run on the node, or the system refuses.
    Elsewhere,
}

impl Thread {
    /// The calling thread, attached to nothing.
    pub(super) fn this(machine: &Machine, home: Cpus, is_let_go: bool) -> Thread {
        let state = State { has_ended: false, attached: 0, is_let_go, pin: None };
        Thread { machine: machine.clone(), id: machine.thread(), home, state: Mutex::new(state) }
    }

    /// Attaches once more, and pins with the first time.
    pub(super) fn attach(self: &Arc<Thread>) -> Attachment {
        let mut state = self.state.lock();
        state.attached += 1;
        self.adjust(&mut state);
        drop(state);
        Attachment { thread: Some(self.clone()) }
    }

    fn detach(&self) {
        let mut state = self.state.lock();
        state.attached -= 1;
        self.adjust(&mut state);
    }

    /// Lets the thread go, or takes it back. Tries again what the system has refused before.
    pub(super) fn set_let_go(&self, is_let_go: bool) {
        let mut state = self.state.lock();
        state.is_let_go = is_let_go;
        self.adjust(&mut state);
    }

    pub(super) fn is_let_go(&self) -> bool {
        self.state.lock().is_let_go
    }

    /// The thread ends: nothing touches its number from here on.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.has_ended = true;
        state.pin = None;
    }

    pub(super) fn condition(&self) -> Condition {
        let state = self.state.lock();
        match &state.pin {
            _ if state.attached == 0 || state.has_ended => Condition::Detached,
            Some(_) => Condition::Pinned,
            None if state.is_let_go => Condition::LetGo,
            None => Condition::Elsewhere,
        }
    }

    /// Brings the affinity in line with the state.
    fn adjust(&self, state: &mut State) {
        let is_wanted = state.attached > 0 && !state.is_let_go;
        if state.has_ended || is_wanted == state.pin.is_some() {
            return;
        }
        match state.pin.take() {
            None => state.pin = self.pin(),
            Some(pin) => self.unpin(&pin),
        }
    }

    /// Pins to those of the node's processors on which the thread may run; if it may on none, or
    /// the system refuses (they went offline), the thread stays where it is.
    fn pin(&self) -> Option<Pin> {
        let before = self.machine.affinity(self.id).ok()?;
        let set = before.and(&self.home);
        let is_pinned = !set.is_empty() && self.machine.set_affinity(self.id, &set).is_ok();
        is_pinned.then_some(Pin { before, set })
    }

    /// Takes a pin back, unless somebody has set another affinity meanwhile, which then stays.
    fn unpin(&self, pin: &Pin) {
        if self.machine.affinity(self.id).is_ok_and(|now| self.is_still(&now, &pin.set)) {
            // Refused if none of these is online any more: then the thread stays where it is.
            let _ = self.machine.set_affinity(self.id, &pin.before);
        }
    }

    /// Whether an affinity is what was set: the system shows those of it that are online.
    fn is_still(&self, now: &Cpus, set: &Cpus) -> bool {
        let online = || self.machine.read(ONLINE).ok().and_then(|list| Cpus::parse(&list));
        now == set || online().is_some_and(|online| *now == set.and(&online))
    }
}

/// While it lives, the thread that made it is attached. Another thread may drop it.
#[must_use = "the thread is let off when this is dropped"]
#[derive(Default)]
pub struct Attachment {
    thread: Option<Arc<Thread>>,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            thread.detach();
        }
    }
}
